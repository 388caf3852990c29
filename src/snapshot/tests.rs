//! Round trips of snapshots, and every kind of damaged file.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use dupgate_core::judge::LogSpan;
use dupgate_testkit::hex::{hex, records};
use proptest::prelude::*;
use tempfile::TempDir;

use super::disk::Change;
use super::*;
use crate::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, ScopeHash, SimHash, SiteHash, Sketch, TitleHash, Width,
};
use crate::index::{Index, Original, run_sequential};
use crate::protocol::{
    Checkpoint, CodecError, ExpiryWatermarks, FORMAT_VERSION, LogIdentity, PerStage, Placement, RequestOffset, Rules,
    RulesNumber, SameId, Stage, VerdictOffset,
};
use crate::record::{PartitionId, Timestamp};

const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
const HOUR: Duration = Duration::from_hours(1);

fn manifest(at: i64) -> Manifest {
    Manifest { log: LogIdentity(7), at: VerdictOffset(at), scheme: scheme() }
}

fn scheme() -> SchemeId {
    SchemeId("sh64-9b1f2c".to_owned())
}

/// Three chunks; the middle one is the same in every snapshot.
fn sections(at: i64) -> Vec<Vec<u8>> {
    vec![at.to_le_bytes().to_vec(), vec![5; 1000], vec![u8::try_from(at).unwrap(); 100]]
}

fn open() -> (TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path().join("snapshots"), TWO, HOUR).unwrap();
    (dir, folder)
}

fn write(folder: &Folder, at: i64) {
    folder.write("0", &manifest(at), sections(at)).unwrap();
}

/// Reads back, and checks the result.
fn found(folder: &Folder) -> Option<i64> {
    let (manifest, read) = folder.read("0").unwrap().found?;
    assert_eq!(read, sections(manifest.at.0));
    Some(manifest.at.0)
}

fn files(dir: &TempDir) -> Vec<PathBuf> {
    let listed = fs::read_dir(dir.path().join("snapshots/0")).unwrap();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

#[test]
fn the_newest_snapshot_is_read_and_the_configured_number_is_kept() {
    for kept in 1..=3 {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path().join("snapshots"), NonZeroUsize::new(kept).unwrap(), HOUR).unwrap();
        assert_eq!(found(&folder), None);
        for at in 1..=5 {
            write(&folder, at);
            assert_eq!(found(&folder), Some(at));
        }
        let files = files(&dir);
        assert_eq!(files.iter().filter(|file| ends_with(file, "manifest")).count(), kept);
        assert_eq!(files.iter().filter(|file| ends_with(file, "chunk")).count(), 2 * kept + 1, "{files:?}");
    }
}

#[test]
fn the_folder_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, folder) = open();
    write(&folder, 1);
    for path in ["snapshots", "snapshots/0"] {
        let mode = fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
}

#[test]
fn files_that_are_not_ours_stay() {
    let (dir, folder) = open();
    write(&folder, 1);
    let foreign = ["notes.txt", "old.chunk", "last.manifest", "0123.chunk.unfinished", "unfinished"];
    let unfinished = format!("{:032x}.chunk.unfinished", 7);
    let place = |name: &str| dir.path().join("snapshots/0").join(name);
    for name in foreign.iter().copied().chain([unfinished.as_str()]) {
        fs::write(place(name), "x").unwrap();
    }
    (2..=4).for_each(|at| write(&folder, at));
    let left: Vec<&str> = foreign.into_iter().filter(|name| place(name).exists()).collect();
    assert_eq!(left, foreign);
    assert!(!place(&unfinished).exists(), "left by a failed write");
}

#[test]
fn equal_chunks_count_once_in_the_size_of_a_snapshot() {
    let (dir, folder) = open();
    let size = folder.write("0", &manifest(1), [sections(1), sections(1)].concat()).unwrap();
    assert_eq!(size, files(&dir).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>());
}

#[test]
fn names_are_apart() {
    let (_dir, folder) = open();
    write(&folder, 1);
    folder.write("1", &manifest(9), sections(9)).unwrap();
    assert_eq!(found(&folder), Some(1));
    for name in ["", "..", "a/b", "0.1"] {
        assert!(matches!(folder.read(name), Err(SnapshotError::Name(_))), "{name}");
    }
}

#[test]
fn a_second_process_is_refused_while_the_first_lives() {
    let (dir, folder) = open();
    let path = dir.path().join("snapshots");
    let error = Folder::open(&path, TWO, HOUR).unwrap_err();
    assert!(matches!(error, SnapshotError::Held(_)));
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    drop(folder);
    Folder::open(&path, TWO, HOUR).unwrap();
}

#[test]
fn a_folder_that_cannot_be_created_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "").unwrap();
    let error = Folder::open(path.join("below"), TWO, HOUR).unwrap_err();
    assert!(error.to_string().contains("file/below"), "{error}");
}

/// Damages every file of the folder in turn and returns which snapshot is found each time.
fn found_after(damage: impl Fn(&Path)) -> Vec<(PathBuf, Option<i64>, usize)> {
    let (dir, folder) = open();
    write(&folder, 1);
    write(&folder, 2);
    let mut results = Vec::new();
    for file in files(&dir) {
        let bytes = fs::read(&file).unwrap();
        damage(&file);
        // A missing manifest causes no error.
        let unnoticed = usize::from(!file.exists() && file.ends_with("00000000000000000002.manifest"));
        results.push((file.clone(), found(&folder), folder.read("0").unwrap().discarded.len() + unnoticed));
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(found(&folder), Some(2));
    results
}

fn assert_falls_back(results: &[(PathBuf, Option<i64>, usize)]) {
    let found = |expected| results.iter().filter(|(_, found, _)| *found == expected).count();
    // The files of the older one do not matter; damage to the newer one's files makes only that one unusable; damage to
    // shared files, both.
    assert_eq!((found(Some(2)), found(Some(1)), found(None)), (3, 3, 1), "{results:?}");
    for (file, found, discarded) in results {
        let passed_over = [Some(2), Some(1), None].iter().position(|one| one == found).unwrap();
        assert_eq!(*discarded, passed_over, "{file:?}");
    }
}

#[test]
fn a_missing_file_costs_only_the_snapshots_that_name_it() {
    assert_falls_back(&found_after(|file| fs::remove_file(file).unwrap()));
}

#[test]
fn a_torn_file_costs_only_the_snapshots_that_name_it() {
    for kept in [|_| 0, |length| length / 2, |length| length - 1] as [fn(usize) -> usize; 3] {
        assert_falls_back(&found_after(|file| {
            let bytes = fs::read(file).unwrap();
            fs::write(file, &bytes[..kept(bytes.len())]).unwrap();
        }));
    }
}

#[test]
fn a_changed_byte_costs_only_the_snapshots_that_name_it() {
    for at in [|_| 0, |length| length / 2, |length| length - 1] as [fn(usize) -> usize; 3] {
        assert_falls_back(&found_after(|file| {
            let mut bytes = fs::read(file).unwrap();
            let at = at(bytes.len());
            bytes[at] ^= 1;
            fs::write(file, bytes).unwrap();
        }));
    }
}

#[test]
fn a_damaged_chunk_does_not_live_on_in_the_next_snapshot() {
    let (dir, folder) = open();
    write(&folder, 1);
    for file in files(&dir) {
        fs::write(file, "damaged").unwrap();
    }
    write(&folder, 2);
    assert_eq!(found(&folder), Some(2));
}

#[test]
fn a_changed_byte_lives_on_in_fewer_snapshots_than_are_compared_in_turn() {
    let (dir, folder) = open();
    write(&folder, 1);
    // The manifest stays whole: chunks that none names are removed, and so would be written anew.
    for file in files(&dir).into_iter().filter(|file| ends_with(file, "chunk")) {
        let mut bytes = fs::read(&file).unwrap();
        bytes[0] ^= 1;
        fs::write(file, bytes).unwrap();
    }
    (2..18).for_each(|number| write(&folder, number));
    assert_eq!(found(&folder), Some(17));
}

#[test]
fn a_stop_before_any_change_of_the_disk_leaves_a_whole_snapshot() {
    let mut before = 0_usize;
    loop {
        let (dir, folder) = open();
        write(&folder, 1);
        write(&folder, 2);
        let mut left = before;
        let stopped = folder.write_watched("0", &manifest(3), sections(3), &mut |_| {
            left = left.checked_sub(1).ok_or_else(|| io::Error::other("the power is gone"))?;
            Ok(())
        });
        assert!(found(&folder) >= Some(2), "stopped before change {before}");
        write(&folder, 4);
        assert_eq!(found(&folder), Some(4));
        assert!(!files(&dir).iter().any(|file| ends_with(file, "unfinished")), "left by change {before}");
        if stopped.is_ok() {
            break;
        }
        before += 1;
    }
    assert!(before > 10, "only {before} changes were seen");
}

/// Fails the write of each file in turn as a full disk does: some of its bytes are there.
#[test]
fn a_write_that_fails_on_a_full_disk_leaves_nothing_behind() {
    let (dir, folder) = open();
    write(&folder, 1);
    let before = files(&dir);
    for full_at in 1..=3 {
        let mut writes = 0;
        let failed = folder.write_watched("0", &manifest(2), sections(2), &mut |change| {
            let Change::Write(path) = change else { return Ok(()) };
            writes += 1;
            if writes < full_at {
                return Ok(());
            }
            fs::write(path, "some")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().starts_with("cannot write"));
        assert_eq!(files(&dir), before, "write {full_at} of three");
    }
    write(&folder, 2);
    assert_eq!(found(&folder), Some(2));
}

#[test]
fn a_full_disk_takes_the_snapshots_of_the_scheme_before_first() {
    let (dir, folder) = open();
    (1..=2).for_each(|at| write_of(&folder, "sh64-a", at));
    write(&folder, 3);
    let fail = |kind: io::ErrorKind| {
        let mut watch = |change: Change<'_>| if let Change::Write(_) = change { Err(kind.into()) } else { Ok(()) };
        folder.write_watched("0", &manifest(4), sections(4), &mut watch).unwrap_err();
        (kept_of(&dir, "sh64-a"), kept_of(&dir, &scheme().0))
    };
    assert_eq!(fail(io::ErrorKind::PermissionDenied), (vec![2, 1], vec![3]));
    assert_eq!(fail(io::ErrorKind::StorageFull), (vec![], vec![3]));
}

/// What was left when the process ended does not stop the next write from finding space.
#[test]
fn leftovers_are_deleted_before_anything_is_written() {
    let (dir, folder) = open();
    write(&folder, 1);
    let leftovers =
        ["chunk", "chunk.unfinished"].map(|ending| dir.path().join(format!("snapshots/0/{:032x}.{ending}", 7)));
    for path in &leftovers {
        fs::write(path, "x").unwrap();
    }
    let mut seen = 0;
    let mut note = |change: Change<'_>| {
        if let Change::Write(_) = change {
            assert!(leftovers.iter().all(|path| !path.exists()));
            seen += 1;
        }
        Ok(())
    };
    folder.write_watched("0", &manifest(2), sections(2), &mut note).unwrap();
    assert_eq!(seen, 3);
}

fn write_of(folder: &Folder, scheme: &str, at: i64) {
    let manifest = Manifest { scheme: SchemeId(scheme.to_owned()), ..manifest(at) };
    folder.write("0", &manifest, sections(at)).unwrap();
}

/// The snapshots of each scheme that are whole, newest first.
fn kept_of(dir: &TempDir, scheme: &str) -> Vec<i64> {
    let folder = Folder::look(dir.path().join("snapshots"));
    let mut kept = Vec::new();
    let newest = folder.newest::<()>("0", |manifest, sections| {
        let whole: Result<Vec<_>, _> = sections.collect();
        whole.unwrap();
        if manifest.scheme.0 == scheme {
            kept.push(manifest.at.0);
        }
        Err(Damage::AnotherScheme { found: manifest.scheme, expected: SchemeId(String::new()) })
    });
    newest.unwrap();
    kept
}

#[test]
fn snapshots_are_kept_for_each_of_two_schemes_so_that_a_rollback_finds_its_own() {
    let (dir, folder) = open();
    (1..=3).for_each(|at| write_of(&folder, "sh64-a", at));
    (4..=9).for_each(|at| write_of(&folder, "sh64-b", at));
    assert_eq!((kept_of(&dir, "sh64-a"), kept_of(&dir, "sh64-b")), (vec![3, 2], vec![9, 8]));
    write_of(&folder, "sh64-a", 10);
    assert_eq!((kept_of(&dir, "sh64-a"), kept_of(&dir, "sh64-b")), (vec![10, 3], vec![9, 8]), "rolled back");
    let schemes: Vec<String> = folder.schemes().into_iter().map(|scheme| scheme.0).collect();
    assert_eq!(schemes, ["sh64-a", "sh64-b"]);
    write_of(&folder, "sh64-c", 11);
    let kept = ["sh64-a", "sh64-b", "sh64-c"].map(|scheme| kept_of(&dir, scheme));
    assert_eq!(kept, [vec![10, 3], vec![], vec![11]], "only the scheme before is kept");
}

#[test]
fn snapshots_of_the_scheme_before_go_when_their_originals_have_expired() {
    let (dir, folder) = open();
    (1..=2).for_each(|at| write_of(&folder, "sh64-a", at));
    let older = files(&dir)
        .into_iter()
        .filter(|file| ends_with(file, "manifest"))
        .zip([HOUR + Duration::from_mins(1), HOUR / 2]);
    for (manifest, age) in older {
        let file = fs::File::options().append(true).open(manifest).unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_modified(written - age).unwrap();
    }
    write_of(&folder, "sh64-b", 3);
    assert_eq!((kept_of(&dir, "sh64-a"), kept_of(&dir, "sh64-b")), (vec![2], vec![3]));
    let chunks = files(&dir).into_iter().filter(|file| ends_with(file, "chunk")).count();
    assert_eq!(chunks, 5, "two of each snapshot, and the one that they share");
}

proptest! {
    // Each write waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever schemes were in use: the newest snapshots of the current one and of the one before it are whole, and
    /// nothing else is left.
    #[test]
    fn the_newest_snapshots_of_the_last_two_schemes_are_kept(used in prop::collection::vec(0..4_usize, 1..20)) {
        let (dir, folder) = open();
        let names = ["sh64-a", "sh64-b", "sh64-c", "sh64-d"];
        for (at, scheme) in (1..).zip(&used) {
            write_of(&folder, names[*scheme], at);
        }
        let current = *used.last().unwrap();
        let numbered: Vec<(i64, usize)> = (1..).zip(used.iter().copied()).collect();
        let former = numbered.iter().rev().map(|(_, scheme)| *scheme).find(|scheme| *scheme != current);
        for (number, name) in names.iter().enumerate() {
            let kept = kept_of(&dir, name);
            let newest = numbered.iter().rev().filter(|(_, scheme)| *scheme == number).map(|(at, _)| *at);
            if number == current || Some(number) == former {
                // Those of a scheme that is used again may have been deleted in between.
                prop_assert_eq!(kept.first().copied(), newest.clone().next());
                prop_assert!(kept.len() <= 2 && newest.take(kept.len()).eq(kept.iter().copied()));
            } else {
                prop_assert!(kept.is_empty(), "{}: {:?}", name, kept);
            }
        }
        let left: usize = names.iter().map(|name| kept_of(&dir, name).len()).sum();
        let manifests = files(&dir).iter().filter(|file| ends_with(file, "manifest")).count();
        let chunks = files(&dir).iter().filter(|file| ends_with(file, "chunk")).count();
        prop_assert_eq!((manifests, chunks), (left, 2 * left + 1));
    }
}

#[test]
fn bytes_are_on_the_disk_before_their_name_and_chunks_before_the_manifest() {
    let (_dir, folder) = open();
    let mut changes = Vec::new();
    let mut note = |change: Change<'_>| {
        changes.push(match change {
            Change::Create(_) => "create",
            Change::Write(path) if ends_with(path, "unfinished") => "write",
            Change::Write(_) => "write in place",
            Change::Sync(_) => "sync",
            Change::Rename(path) if ends_with(path, "manifest") => "name manifest",
            Change::Rename(_) => "name chunk",
            Change::SyncFolder(_) => "sync folder",
            Change::Remove(_) => "remove",
        });
        Ok(())
    };
    folder.write_watched("0", &manifest(1), [vec![1]], &mut note).unwrap();
    let file = |name| ["write", "sync", name, "sync folder"];
    let expected = [vec!["create", "sync folder"], file("name chunk").into(), file("name manifest").into()].concat();
    assert_eq!(changes, expected);
}

#[test]
fn a_manifest_goes_before_the_chunks_that_it_names() {
    let (_dir, folder) = open();
    write(&folder, 1);
    write(&folder, 2);
    let mut removed = Vec::new();
    let mut note = |change: Change<'_>| {
        if let Change::Remove(path) = change {
            removed.push(path.extension().unwrap().to_str().unwrap().to_owned());
        }
        Ok(())
    };
    folder.write_watched("0", &manifest(3), sections(3), &mut note).unwrap();
    assert_eq!(removed, ["manifest", "chunk", "chunk"]);
}

#[test]
fn existing_chunks_are_not_written_again() {
    let (_dir, folder) = open();
    write(&folder, 1);
    let mut named = 0;
    let mut note = |change: Change<'_>| {
        named += usize::from(matches!(change, Change::Rename(_)));
        Ok(())
    };
    folder.write_watched("0", &manifest(2), sections(2), &mut note).unwrap();
    assert_eq!(named, 3, "two chunks and the manifest");
}

fn original(sequence: u64, cluster: Option<i64>) -> Original {
    let partition = PartitionId::new(if sequence.is_multiple_of(2) { "pages" } else { "other" }, 3);
    let source = partition.at(i64::try_from(sequence % 1_000_000).unwrap() * 3);
    Original {
        sequence,
        cluster: cluster.map_or_else(|| source.clone(), |offset| PartitionId::new("old", 0).at(offset)),
        source,
        event_time: Timestamp::from_millis(i64::try_from(sequence % 977).unwrap()),
        fingerprints: Fingerprints {
            exact: ExactHash(u128::from(sequence) << 70),
            simhash: (!sequence.is_multiple_of(3)).then_some(SimHash::B64(sequence)),
            sketch: None,
            numbers: Numbers::from_hashes(&[1, 500, 65_534][..usize::try_from(sequence % 4).unwrap()]).unwrap(),
        },
        id: sequence.is_multiple_of(5).then_some(IdHash(sequence)),
        scope: sequence.is_multiple_of(7).then_some(ScopeHash(sequence)),
        site: None,
        address: None,
        title: None,
        placement: Placement::EVERYWHERE,
    }
}

fn snapshot(originals: Vec<Original>) -> Snapshot {
    let span = |checkpoint, judged: BTreeMap<PartitionId, RangeInclusive<i64>>| LogSpan {
        checkpoint,
        end_sequence: 9,
        newest: Timestamp::MIN,
        judged,
    };
    Snapshot {
        at: VerdictOffset(99),
        state: Checkpoint {
            log: LogIdentity(7),
            rules_number: RulesNumber(1),
            rules: Rules {
                stages: Stage::ALL.into(),
                max_distance: 3,
                windows: PerStage::all(Duration::from_hours(1)),
                lateness: Duration::ZERO,
                max_future_skew: Duration::ZERO,
                max_entries: 5,
                same_id: SameId::Update,
                minhash: None,
                number_guard: None,
                simhash_similarity: None,
                same_site: None,
                dual: None,
            },
            stream_time: Timestamp::from_millis(5),
            leap: None,
            watermarks: ExpiryWatermarks::START,
            next_sequence: 400_000,
            next_request: RequestOffset(17),
            previous: None,
            partitions: BTreeMap::new(),
            applied: Vec::new(),
        },
        originals,
        latest_checkpoint: Some(VerdictOffset(40)),
        spans: vec![
            span(Some(VerdictOffset(40)), [(PartitionId::new("pages", 3), -1..=1 << 40)].into()),
            span(None, BTreeMap::new()),
        ],
    }
}

fn decoded(chunks: Vec<Vec<u8>>) -> Result<Snapshot, CodecError> {
    Snapshot::decode(&mut chunks.into_iter().map(Ok))
}

proptest! {
    #[test]
    fn a_snapshot_comes_back_as_it_was(
        sequences in prop::collection::btree_set(prop_oneof![0..300_000_u64, any::<u64>()], 0..50),
        cluster in any::<Option<i64>>(),
    ) {
        let made = snapshot(sequences.into_iter().map(|sequence| original(sequence, cluster)).collect());
        let restored = restore(&mut made.encode().map(Ok::<_, CodecError>), &mut run_sequential).unwrap();
        check_restored(&restored, &made);
        prop_assert_eq!(decoded(made.encode().collect()), Ok(made));
    }

    #[test]
    fn changed_chunks_do_no_harm(number in 0..4_usize, at in any::<prop::sample::Index>(), bits in 1..=255_u8) {
        let mut encoded: Vec<Vec<u8>> = snapshot((0..9).map(|n| original(n * 9000, None)).collect()).encode().collect();
        let chunk = &mut encoded[number];
        chunk.truncate(chunk.len() - 4);
        *at.get_mut(chunk) ^= bits;
        // The right checksum, so that more than the frame is tried.
        chunk.extend(crc32fast::hash(chunk).to_le_bytes());
        // Reading returns another snapshot or none, but never panics.
        let _ = decoded(encoded);
    }
}

#[test]
fn a_stored_snapshot_is_loaded() {
    let (_dir, folder) = open();
    let made = snapshot((0..200).map(|number| original(number * 1000, Some(3))).collect());
    folder.store("0", &scheme(), &made).unwrap();
    let newest = folder.load("0", &scheme()).unwrap();
    assert_eq!(newest.found, Some(made));
    assert!(newest.discarded.is_empty());
}

/// Checks that a state holds the originals of a snapshot, and finds them.
fn check_restored(restored: &Restored, made: &Snapshot) {
    let state = &restored.state;
    let index = state.index();
    assert_eq!(restored.at, made.at);
    assert_eq!((state.log(), state.next_sequence()), (Some(made.state.log), made.state.next_sequence));
    assert_eq!(index.live(&ExpiryWatermarks::START).collect::<Vec<_>>(), made.originals);
    for original in &made.originals {
        assert!(index.of_source(&original.source, &ExpiryWatermarks::START).contains(original));
        let of_id = original.id.map(|id| index.of_id(id, &ExpiryWatermarks::START));
        assert!(of_id.is_none_or(|found| found.contains(original)));
    }
}

#[test]
fn a_snapshot_whose_last_chunk_is_damaged_is_not_restored_but_the_one_before() {
    let (dir, folder) = open();
    let of = |count: u64| snapshot((0..count).map(|number| original(number * 1000, Some(3))).collect());
    folder.store("0", &scheme(), &of(150)).unwrap();
    let before = files(&dir);
    folder.store("0", &scheme(), &of(200)).unwrap();
    let load = || {
        let newest = folder.restore("0", &scheme(), run_sequential).unwrap();
        (newest.found.unwrap(), newest.discarded.len())
    };
    let (restored, passed_over) = load();
    check_restored(&restored, &of(200));
    assert_eq!(passed_over, 0);
    // The chunk of the last originals is the only one that the first snapshot does not share.
    let is_new = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "chunk") && !before.contains(path);
    let last = files(&dir).into_iter().filter(is_new).max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&last).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&last, bytes).unwrap();
    let (restored, passed_over) = load();
    check_restored(&restored, &of(150));
    assert_eq!(passed_over, 1);
}

/// Checks that a shared snapshot is written as the same bytes as the list of its originals.
#[test]
fn a_shared_snapshot_is_written_like_a_list() {
    let count = 200_000_u64;
    let list = snapshot((0..count).map(|number| original(number, (number % 9 > 6).then_some(3))).collect());
    let mut index = Index::new(3);
    list.originals.iter().for_each(|original| index.insert(original));
    let watermarks = ExpiryWatermarks { first_sequence: 70_001, ..ExpiryWatermarks::START };
    index.forget_source(&list.originals[140_000].source);
    let shared = SharedSnapshot {
        at: list.at,
        state: list.state.clone(),
        originals: index.share(&watermarks),
        latest_checkpoint: list.latest_checkpoint,
        spans: list.spans.clone(),
    };
    let live: Vec<Original> = index.live(&watermarks).collect();
    // The index continues: the snapshot is unchanged.
    index.forget_source(&list.originals[150_000].source);
    index.advance(&ExpiryWatermarks { first_sequence: 199_000, ..ExpiryWatermarks::START });
    let expected = Snapshot { originals: live, ..list };
    assert_eq!(expected.originals.len(), 200_000 - 70_001 - 1);
    assert_eq!(shared.encode().collect::<Vec<_>>(), expected.encode().collect::<Vec<_>>());
}

#[test]
fn the_size_of_a_snapshot_is_that_of_its_files() {
    let (dir, folder) = open();
    let size =
        folder.store("0", &scheme(), &snapshot((0..200).map(|number| original(number, None)).collect())).unwrap();
    assert_eq!(size, files(&dir).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>());
}

#[test]
fn chunks_of_old_originals_are_shared_with_the_snapshot_before() {
    let grown = |count| -> Vec<Vec<u8>> {
        let made = snapshot((0..count).map(|number| original(number * 1000, None)).collect());
        made.encode().collect()
    };
    let (before, after) = (grown(200), grown(250));
    assert_eq!((before.len(), after.len()), (2 + 4, 2 + 4));
    assert_eq!(before[..5], after[..5]);
    assert_ne!(before[5], after[5]);
}

#[test]
fn a_snapshot_of_another_scheme_is_unusable() {
    let (_dir, folder) = open();
    folder.store("0", &scheme(), &snapshot(Vec::new())).unwrap();
    let newest = folder.load("0", &SchemeId("sh64-000000".to_owned())).unwrap();
    assert_eq!(newest.found, None);
    let why = newest.discarded[0].why.to_string();
    assert_eq!(why, "it was made under scheme sh64-9b1f2c, expected sh64-000000");
}

#[test]
fn whole_chunks_without_valid_content_are_skipped() {
    let (_dir, folder) = open();
    let made = snapshot(vec![original(1, None)]);
    folder.store("0", &scheme(), &made).unwrap();
    write(&folder, 3);
    let newest = folder.load("0", &scheme()).unwrap();
    assert_eq!(newest.found, Some(made));
    assert!(matches!(newest.discarded[0].why, Damage::Format(_)));
}

/// Bytes that every release must read, or skip by their version: see `protocol::codec`.
#[test]
fn a_snapshot_is_as_in_its_file() {
    let mut originals: Vec<Original> =
        (0..8).map(|number| original(number * 10_000, (number > 5).then_some(3))).collect();
    for (original, number) in originals.iter_mut().zip(0_u32..) {
        let width = [Width::B32, Width::B64, Width::B128][usize::try_from(number % 3).unwrap()];
        let widened = |code: SimHash| SimHash::from_low_bits(width, code.bits() | 0xFEDC_BA98 << 96 | 0x89AB_0000);
        original.fingerprints.simhash = original.fingerprints.simhash.map(widened);
        original.fingerprints.sketch = (number > 4).then(|| Sketch::from_bytes(&[7; 18]));
        original.site = number.is_multiple_of(3).then_some(SiteHash(0x517E_0000 + number));
        original.address = number.is_multiple_of(2).then_some(AddressHash(0xADD0_0000 + number));
        original.title = (number % 4 != 3).then_some(TitleHash(0x7171_0000 + number));
        let family = (number > 3).then_some(30_000);
        original.placement = Placement { skipped: u128::from(number / 5), family, by_title: number.is_multiple_of(4) };
    }
    let made = snapshot(originals);
    let mut written: Vec<Vec<u8>> = made.encode().collect();
    let hashes: Vec<_> = written.iter().map(|chunk| folder::ChunkHash::of(chunk).0).collect();
    written.push(manifest(9).encode(&hashes));
    assert!(
        records(include_str!("../../tests/golden/snapshot/snapshot.v1.hex")) == written,
        "the bytes of format version {FORMAT_VERSION} changed: raise FORMAT_VERSION and add a golden file of the new \
         version. Written now:\n{}",
        hex(&written)
    );
    assert_eq!(Manifest::decode(&written.pop().unwrap()), Ok((manifest(9), hashes)));
    assert_eq!(decoded(written), Ok(made));
}

/// A newer release has written it, and was rolled back.
#[test]
fn a_snapshot_of_another_format_version_is_passed_over_and_names_it() {
    let (dir, folder) = open();
    folder.store("0", &scheme(), &snapshot(Vec::new())).unwrap();
    let manifest = files(&dir).into_iter().find(|file| ends_with(file, "manifest")).unwrap();
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[2] = FORMAT_VERSION + 1;
    fs::write(&manifest, bytes).unwrap();
    let newest = folder.load("0", &scheme()).unwrap();
    assert_eq!(newest.found, None);
    let why = newest.discarded[0].why.to_string();
    assert!(why.contains("format version 2; this release reads version 1"), "{why}");
}
