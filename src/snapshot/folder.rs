//! The snapshot folder: locks it, writes and reads snapshots with their manifests, and deletes old ones.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::bounded;
use dupgate_core::judge::Manifest;

use super::disk::{self, DiskError, Watch};
use crate::fingerprint::SchemeId;
use crate::protocol::CodecError;

/// The chunks of a snapshot, in order.
pub type Sections = Vec<Vec<u8>>;

/// Maximum number of chunks that are read ahead.
const CHUNKS_AHEAD: usize = 4;

/// A chunk that the folder has already is compared with its file in one of this many snapshots, so that a damaged one does
/// not live on. In the others its file only needs the right size, since its name is the hash of the bytes: to read the
/// whole snapshot before it each time would take longer than the interval of a large one.
const COMPARED: u64 = 16;

/// The chunks of a snapshot while they are read, in order.
pub(super) type Reading = crossbeam_channel::IntoIter<Result<Vec<u8>, Damage>>;

/// A folder of snapshots. This process holds it exclusively until it is dropped, unless it was opened read-only.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Number of snapshots kept for each log partition and scheme; at least one.
    kept: NonZeroUsize,
    /// How long the snapshots of the scheme before are kept.
    former_for: Duration,
    /// The lock is released when the file closes, however the process ends; `None` if the folder is read-only.
    _lock: Option<File>,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Two processes are configured with the same folder.
    #[error("another process holds the snapshot folder {0}: give each instance its own")]
    Held(PathBuf),
    /// A name that is not a plain file name.
    #[error("`{0}` cannot name the snapshots of a log partition: letters, digits, `-` and `_` only")]
    Name(String),
}

/// The newest whole snapshot, and the unusable newer ones.
#[derive(Debug)]
pub struct Newest<T> {
    pub found: Option<T>,
    /// Newer snapshots that are unusable, newest first.
    pub discarded: Vec<Discarded>,
}

/// An unusable snapshot. It is not deleted: retention removes it later.
#[derive(Debug, thiserror::Error)]
#[error("snapshot {manifest} is unusable")]
pub struct Discarded {
    /// File of its manifest.
    pub manifest: PathBuf,
    #[source]
    pub why: Damage,
}

/// Why a snapshot is unusable.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// A file is missing or cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The bytes of a chunk have changed.
    #[error("the bytes of {0} are not those that were written")]
    Chunk(PathBuf),
    /// The bytes are those that were written, but this release cannot decode them.
    #[error(transparent)]
    Format(#[from] CodecError),
    /// It belongs to another scheme.
    #[error("it was made under scheme {found}, expected {expected}")]
    AnotherScheme {
        found: SchemeId,
        /// The scheme in use.
        expected: SchemeId,
    },
}

impl Folder {
    /// Opens a folder, creating it if necessary, and locks it until the value is dropped. The newest `kept` snapshots
    /// of each log partition are kept. So are those of the scheme that was in use before, for a rollback, as long as
    /// `former_for`, the time in which all their originals expire, has not passed between them and the newest snapshot.
    /// Those of earlier schemes are deleted.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Held`] if another process (or another value in this one) has it open.
    pub fn open(path: impl Into<PathBuf>, kept: NonZeroUsize, former_for: Duration) -> Result<Self, SnapshotError> {
        let path = path.into();
        disk::create_folder(&mut |_| Ok(()), &path)?;
        let lock = path.join("lock");
        let refuse = |source| DiskError::new("lock", &lock, source);
        let file = File::options().create(true).write(true).truncate(false).open(&lock).map_err(refuse)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, kept, former_for, _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(SnapshotError::Held(path)),
            Err(TryLockError::Error(source)) => Err(refuse(source).into()),
        }
    }

    /// Opens a folder read-only, even while another process uses it. That process may prune a snapshot while it is
    /// read: a retry then finds a newer one. Do not write with this value.
    #[must_use]
    pub fn look(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), kept: NonZeroUsize::MIN, former_for: Duration::MAX, _lock: None }
    }

    /// Returns the schemes that have snapshots here, of any log partition.
    #[must_use]
    pub fn schemes(&self) -> BTreeSet<SchemeId> {
        let mut schemes = BTreeSet::new();
        for folder in disk::names(&self.path).unwrap_or_default().iter().filter_map(|name| self.of(name).ok()) {
            let manifests = numbers(&disk::names(&folder).unwrap_or_default()).into_iter().map(manifest_name);
            let known = manifests.filter_map(|name| read_manifest(&folder.join(name)).ok());
            schemes.extend(known.map(|(manifest, _)| manifest.scheme));
        }
        schemes
    }

    /// Writes a snapshot as these chunks under `name`, then deletes the snapshots of that name that need not be kept
    /// (see [`Folder::open`]). Before the write, and if it fails, what failed writes have left is deleted, so that a full
    /// disk does not stay full of it; if the disk is full, those of the scheme before go, too.
    ///
    /// Existing chunks are not written again. Until the manifest is renamed and its name synced, the previous snapshots
    /// are unchanged. Returns the size of all files of the snapshot in bytes.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] with the path and the cause.
    pub fn write(
        &self,
        name: &str,
        manifest: &Manifest,
        sections: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<u64, SnapshotError> {
        self.write_watched(name, manifest, sections, &mut |_| Ok(()))
    }

    /// Reads the newest whole snapshot of this name: its manifest and its chunks.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if the folder itself cannot be read. Damaged snapshots are skipped.
    pub fn read(&self, name: &str) -> Result<Newest<(Manifest, Sections)>, SnapshotError> {
        self.newest(name, |manifest, sections| Ok((manifest, sections.collect::<Result<_, _>>()?)))
    }

    /// Reads snapshots of this name, newest first, until one is whole and `accept` succeeds.
    pub(super) fn newest<T>(
        &self,
        name: &str,
        mut accept: impl FnMut(Manifest, &mut Reading) -> Result<T, Damage>,
    ) -> Result<Newest<T>, SnapshotError> {
        let folder = self.of(name)?;
        let mut discarded = Vec::new();
        for number in numbers(&disk::names(&folder)?).into_iter().rev() {
            let path = folder.join(manifest_name(number));
            match read_ahead(&folder, &path, &mut accept) {
                Ok(found) => return Ok(Newest { found: Some(found), discarded }),
                Err(why) => discarded.push(Discarded { manifest: path, why }),
            }
        }
        Ok(Newest { found: None, discarded })
    }

    /// Does the same as [`Folder::write`], and calls `watch` before each change of the disk.
    pub(super) fn write_watched(
        &self,
        name: &str,
        manifest: &Manifest,
        sections: impl IntoIterator<Item = Vec<u8>>,
        watch: Watch<'_>,
    ) -> Result<u64, SnapshotError> {
        let folder = self.of(name)?;
        disk::create_folder(watch, &folder)?;
        disk::sync_folder(watch, &self.path)?;
        self.prune(&folder, &manifest.scheme, self.kept.get(), watch)?;
        let written = put_snapshot(&folder, manifest, sections, watch);
        // Snapshots of the scheme in use are worth more than those for a rollback.
        let is_full = matches!(&written, Err(SnapshotError::Disk(error)) if error.is_full());
        let former = if is_full { 0 } else { self.kept.get() };
        let pruned = self.prune(&folder, &manifest.scheme, former, watch);
        let size = written?;
        pruned?;
        Ok(size)
    }

    /// Deletes all manifests but the newest of this scheme and `former` of the scheme before, then every chunk that no remaining
    /// manifest names. Leaves other files alone.
    fn prune(&self, folder: &Path, scheme: &SchemeId, former: usize, watch: Watch<'_>) -> Result<(), SnapshotError> {
        let mut kept = BTreeSet::new();
        for (manifest, chunks) in self.kept(folder, scheme, former)? {
            kept.insert(manifest);
            kept.extend(chunks.into_iter().map(ChunkHash::file_name));
        }
        let is_ours = |file: &str| number_of(file).is_some() || ChunkHash::is_file_name(file);
        let mut gone = disk::names(folder)?;
        gone.retain(|file| !kept.contains(file) && is_ours(disk::finished_name(file)));
        // Manifests first: a leftover manifest must not name deleted chunks.
        gone.sort_by_key(|file| number_of(file).is_none());
        for file in gone {
            disk::remove(watch, &folder.join(file))?;
        }
        Ok(())
    }

    /// Returns the manifests to keep while this scheme is in use, and the chunks that they name: the newest ones of the
    /// scheme, and at most `most_former` of the scheme before. An unreadable manifest counts as one of the scheme, and
    /// names no usable chunk.
    fn kept(
        &self,
        folder: &Path,
        scheme: &SchemeId,
        most_former: usize,
    ) -> Result<Vec<(String, Vec<ChunkHash>)>, SnapshotError> {
        let (mut current, mut former) = (Vec::new(), Vec::new());
        let mut former_scheme = None;
        let mut newest = None;
        for number in numbers(&disk::names(folder)?).into_iter().rev() {
            let name = manifest_name(number);
            let path = folder.join(&name);
            let (of, chunks) = match read_manifest(&path) {
                Ok((manifest, chunks)) => (manifest.scheme, chunks),
                Err(_) => (scheme.clone(), Vec::new()),
            };
            let written = disk::modified(&path);
            newest = newest.max(written);
            if of == *scheme {
                current.push((name, chunks));
                continue;
            }
            // The clock is that of the file system. A time that is unknown or later than the newest deletes nothing.
            let age = newest.zip(written).and_then(|(newest, written)| newest.duration_since(written).ok());
            if *former_scheme.get_or_insert_with(|| of.clone()) == of && age.is_none_or(|age| age <= self.former_for) {
                former.push((name, chunks));
            }
        }
        current.truncate(self.kept.get());
        former.truncate(most_former);
        current.append(&mut former);
        Ok(current)
    }

    fn of(&self, name: &str) -> Result<PathBuf, SnapshotError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(SnapshotError::Name(name.to_owned()));
        }
        Ok(self.path.join(name))
    }
}

/// Writes the chunks of a snapshot and its manifest. Returns the size of all its files in bytes.
fn put_snapshot(
    folder: &Path,
    manifest: &Manifest,
    sections: impl IntoIterator<Item = Vec<u8>>,
    watch: Watch<'_>,
) -> Result<u64, SnapshotError> {
    let number = numbers(&disk::names(folder)?).last().map_or(1, |newest| newest.saturating_add(1));
    let mut chunks = Vec::new();
    // Equal chunks share one file.
    let (mut counted, mut size) = (BTreeSet::new(), 0);
    for (place, bytes) in (0_u64..).zip(sections) {
        let hash = ChunkHash::of(&bytes);
        let path = folder.join(hash.file_name());
        let is_there = if place % COMPARED == number % COMPARED {
            disk::holds(&path, &bytes)
        } else {
            disk::has_length(&path, bytes.len())
        };
        if !is_there {
            disk::put(watch, &path, &bytes)?;
        }
        if counted.insert(hash) {
            size += bytes.len() as u64;
        }
        chunks.push(hash.0);
    }
    disk::sync_folder(watch, folder)?;
    let manifest = manifest.encode(&chunks);
    disk::put(watch, &folder.join(manifest_name(number)), &manifest)?;
    disk::sync_folder(watch, folder)?;
    Ok(size + manifest.len() as u64)
}

fn manifest_name(number: u64) -> String {
    format!("{number:020}.manifest")
}

fn number_of(file: &str) -> Option<u64> {
    file.strip_suffix(".manifest")?.parse().ok()
}

/// Returns the numbers of the manifests among these files, ascending.
fn numbers(files: &[String]) -> BTreeSet<u64> {
    files.iter().filter_map(|file| number_of(file)).collect()
}

fn read_manifest(path: &Path) -> Result<(Manifest, Vec<ChunkHash>), Damage> {
    let (manifest, chunks) = Manifest::decode(&disk::read(path)?)?;
    Ok((manifest, chunks.into_iter().map(ChunkHash).collect()))
}

/// Reads a snapshot. While `accept` works on one chunk, the next chunks are read.
fn read_ahead<T>(
    folder: &Path,
    path: &Path,
    accept: &mut impl FnMut(Manifest, &mut Reading) -> Result<T, Damage>,
) -> Result<T, Damage> {
    let (manifest, chunks) = read_manifest(path)?;
    let (read, sections) = bounded(CHUNKS_AHEAD);
    std::thread::scope(|scope| {
        // Ends after the last chunk, or when the receiver is dropped.
        scope.spawn(move || chunks.into_iter().try_for_each(|hash| read.send(read_chunk(folder, hash))));
        accept(manifest, &mut sections.into_iter())
    })
}

fn read_chunk(folder: &Path, hash: ChunkHash) -> Result<Vec<u8>, Damage> {
    let path = folder.join(hash.file_name());
    let bytes = disk::read(&path)?;
    if ChunkHash::of(&bytes) == hash { Ok(bytes) } else { Err(Damage::Chunk(path)) }
}

/// Hash of the bytes of a chunk, which is both its name and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkHash(pub(super) u128);

impl ChunkHash {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Returns the name of the chunk's file.
    fn file_name(self) -> String {
        format!("{:032x}.chunk", self.0)
    }

    /// Returns whether this is a valid name of a chunk.
    fn is_file_name(file: &str) -> bool {
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        file.strip_suffix(".chunk").is_some_and(|hash| hash.len() == 32 && hash.bytes().all(is_digit))
    }
}
