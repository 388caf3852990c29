use super::*;
use crate::protocol::VerdictOffset;

#[test]
fn plan_files_have_the_names_of_orders_and_targets() {
    for order in [Order::Log, Order::Time, Order::Files] {
        assert_eq!(serde_json::to_value(order).unwrap(), order.name());
    }
    for target in Target::ALL {
        assert_eq!(serde_json::to_value(target).unwrap(), target.name());
    }
}

fn plan() -> Plan {
    let range = InputRange { topic: "pages".to_owned(), partition: 0, warm_from: 2, from: 5, to: 9 };
    Plan {
        version: Plan::VERSION,
        id: "7c1f".to_owned(),
        created_ms: 1,
        cluster: "c".to_owned(),
        group: "crawl".to_owned(),
        logs: "crawl".to_owned(),
        order: Order::Time,
        reads: Reads::Pages,
        into: Target::Shadow,
        set: vec![],
        live_scheme: "s".to_owned(),
        scheme: "s".to_owned(),
        rules: vec!["r".to_owned()],
        input: vec![range],
        files: vec![],
        verdict_log: vec![],
        output: Shadow::default(),
        records: 4,
        warm_up_records: 3,
        warnings: vec![],
        writes: String::new(),
        replication_factor: 0,
        hash: String::new(),
    }
    .sealed()
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    assert_eq!(Plan::read(&plan().text()), Ok(plan()));
    assert_eq!(plan().own_verdicts(), "crawl.replay.7c1f.verdicts.s");
}

#[test]
fn a_plan_that_was_edited_is_refused() {
    let edited = plan().text().replace("\"to\": 9", "\"to\": 10");
    assert!(matches!(Plan::read(&edited), Err(PlanError::Changed { .. })));
    assert!(matches!(Plan::read("{}"), Err(PlanError::Version { found: 0 })));
    assert!(matches!(Plan::read("no"), Err(PlanError::NotAPlan(_))));
    let newer = plan().text().replace("\"version\": 1", "\"version\": 2");
    assert_eq!(Plan::read(&newer), Err(PlanError::Version { found: 2 }));
}

/// A plan of two files, of 100 and of 50 bytes.
fn of_files() -> Plan {
    let file = |path: &str, bytes| ArchiveFile { path: path.to_owned(), bytes, digest: "d".to_owned() };
    let files = vec![file("a.jsonl", 100), file("b.jsonl.gz", 50)];
    Plan { order: Order::Files, input: vec![], files, records: 0, warm_up_records: 0, ..plan() }.sealed()
}

#[test]
fn a_plan_of_topics_names_no_files() {
    assert!(!plan().text().contains("files"));
    assert_eq!(Plan::read(&of_files().text()), Ok(of_files()));
    let edited = of_files().text().replace("\"bytes\": 50", "\"bytes\": 51");
    assert!(matches!(Plan::read(&edited), Err(PlanError::Changed { .. })));
}

#[test]
fn progress_in_files_is_counted_in_bytes_and_committed_with_the_own_verdicts() {
    let (topics, files, counts) = (plan(), of_files(), Counts { pages: 2, warm_up: 3, ..Counts::default() });
    assert_eq!(topics.done(&counts, None), (5, 7));
    assert_eq!(files.done(&counts, None), (0, 150));
    let at = |file, packed| FilePlace { file, packed, ..FilePlace::default() };
    let done = [at(0, 30), at(0, 999), at(1, 20), at(2, 0)].map(|place| files.done(&counts, Some(&place)).0);
    assert_eq!(done, [30, 100, 120, 150]);
    assert_eq!(topics.committed_at(), [PartitionId::new("pages", 0)].into());
    assert_eq!(files.committed_at(), [PartitionId::new("crawl.replay.7c1f.verdicts.s", 0)].into());
    let lines = files.ranges();
    assert_eq!(lines.part(&PartitionId::new("b.jsonl.gz", 1).at(1)), Part::Range);
    assert_eq!(lines.part(&PartitionId::new("b.jsonl.gz", 0).at(1)), Part::Outside);
    let many = (0..3).map(|partition| InputRange {
        topic: "a.jsonl".to_owned(),
        partition,
        warm_from: 1,
        from: 1,
        to: i64::MAX,
    });
    assert_eq!(many.collect::<Ranges>().records(), u64::MAX, "the lines are not counted");
}

#[test]
fn a_page_is_outside_in_the_warm_up_or_in_the_range() {
    let ranges = plan().ranges();
    let part = |offset| ranges.part(&PartitionId::new("pages", 0).at(offset));
    assert_eq!(
        [1, 2, 4, 5, 8, 9].map(part),
        [Part::Outside, Part::WarmUp, Part::WarmUp, Part::Range, Part::Range, Part::Outside]
    );
    assert_eq!(ranges.part(&PartitionId::new("pages", 1).at(5)), Part::Outside);
}

#[test]
fn two_replays_have_the_offsets_in_common_that_both_judge() {
    let range =
        |partition, warm_from, from, to| InputRange { topic: "pages".to_owned(), partition, warm_from, from, to };
    let one: Ranges = [range(0, 2, 5, 9), range(1, 0, 0, 4), range(2, 0, 0, 9)].into_iter().collect();
    let other: Ranges = [range(0, 6, 7, 12), range(1, 4, 4, 9)].into_iter().collect();
    let common: Vec<InputRange> = one.common(&other).iter().map(|(_, range)| range.clone()).collect();
    assert_eq!(common, [range(0, 2, 7, 9)]);
    assert_eq!((one.records(), one.common(&other).records()), (17, 2));
}

#[test]
fn progress_fits_the_metadata_of_an_offset() {
    let mut counts = Counts::default();
    for name in ["unique", "update", "template", "exact", "near", "dead_letter", "tombstone", "withdrawn"] {
        counts.verdicts.insert(name.to_owned(), u64::MAX);
        counts.changed.insert(format!("{name} -> dead_letter"), u64::MAX);
        counts.dead_letters.insert(format!("{name} reason"), u64::MAX);
    }
    let digest = crate::replay::Digest::default().to_string();
    let place = FilePlace { file: usize::MAX, line: i64::MAX, bytes: u64::MAX, packed: u64::MAX, latest_ms: i64::MIN };
    let (verdicts, outputs) = (digest.clone(), digest.clone());
    let total = Total { verdicts, outputs, counts, place: Some(place), ..Total::default() };
    let metadata = CommitMetadata { plan: digest, read_to: i64::MAX, total: Some(Arc::new(total)) };
    assert!(metadata.text().len() < 4096, "{}", metadata.text().len());
    assert_eq!(CommitMetadata::read(&metadata.text()), metadata);
    assert_eq!(CommitMetadata::read("17"), CommitMetadata::default());
}

#[test]
fn plan_files_and_committed_progress_keep_their_bytes() {
    let input =
        |partition, warm_from, from, to| InputRange { topic: "pages".to_owned(), partition, warm_from, from, to };
    let verdict_log = |partition, first, end| LogRange {
        topic: "crawl.verdicts.s".to_owned(),
        partition,
        first: VerdictOffset(first),
        end: VerdictOffset(end),
    };
    let plan = Plan {
        order: Order::Log,
        input: vec![input(0, 2, 5, 9), input(1, 0, 0, 4)],
        verdict_log: vec![verdict_log(0, 11, 17), verdict_log(1, 3, 3)],
        ..plan()
    };
    assert_eq!(plan.sealed().text(), include_str!("../../../tests/golden/replay_plan.v1.json"));
    let total = Total { batches: 2, worked_ms: 3, place: Some(FilePlace::default()), ..Total::default() };
    let metadata = CommitMetadata { plan: "7c1f".to_owned(), read_to: 9, total: Some(Arc::new(total)) };
    assert_eq!(
        metadata.text(),
        concat!(
            r#"{"plan":"7c1f","read_to":9,"total":{"batches":2,"verdicts":"","outputs":"","worked_ms":3,"is_done":false,"#,
            r#""counts":{"pages":0,"bytes":0,"warm_up":0,"verdicts":{},"dead_letters":{},"changed":{},"taken_over":0,"#,
            r#""second_verdicts":0,"reopened":0,"gone":0},"place":{"file":0,"line":0,"bytes":0,"packed":0,"latest_ms":0}}}"#
        )
    );
}

fn of(assignments: &[&str]) -> Result<Vec<Vec<String>>, TooManyVariants> {
    variants(&assignments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

#[test]
fn every_combination_is_made_once() {
    assert_eq!(of(&[]), Ok(vec![vec![]]));
    assert_eq!(of(&["a=1"]), Ok(vec![vec!["a=1".to_owned()]]));
    let made = of(&["a=1, 2", "b=x,y,z"]).unwrap();
    let text: Vec<String> = made.iter().map(|variant| variant.join(" ")).collect();
    assert_eq!(text, ["a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"]);
}

#[test]
fn a_list_is_one_value() {
    assert_eq!(of(&["match.stages=[exact, simhash]"]).unwrap().len(), 1);
    assert_eq!(of(&["x"]).unwrap(), [["x"]]);
}

#[test]
fn too_many_combinations_are_refused() {
    let error = of(&["a=1,2,3,4,5,6", "b=1,2,3,4,5,6"]).unwrap_err();
    assert!(error.to_string().starts_with("the values make 36 combinations"), "{error}");
}
