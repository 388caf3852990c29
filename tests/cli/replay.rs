//! `dupgate replay`, without a broker.

use super::program::{dupgate, output_of};

#[test]
fn options_of_files_and_of_topics_exclude_each_other() {
    for more in [
        ["--from", "start"],
        ["--to", "end"],
        ["--partitions", "0"],
        ["--offsets-file", "ranges.csv"],
        ["--warm", "none"],
        ["--order", "time"],
        ["--max-records", "5"],
    ] {
        for command in ["plan", "run"] {
            let report =
                output_of(dupgate().args(["replay", command]).args(more).args(["--from-files", "pages.jsonl"]));
            assert_eq!(report.code, 2, "{more:?}: {}", report.err);
            let named = report.err.contains("cannot be used with") && report.err.contains("--from-files");
            assert!(named && report.err.contains(more[0]), "{}", report.err);
        }
    }
    assert_eq!(output_of(dupgate().args(["replay", "plan", "--from-files"])).code, 2, "at least one file");
}

/// A plan says what to replay; an option beside it would be ignored.
#[test]
fn options_that_a_plan_decides_are_refused_beside_it() {
    for more in [
        &["--from", "start"][..],
        &["--to", "end"],
        &["--partitions", "0"],
        &["--offsets-file", "ranges.csv"],
        &["--from-files", "pages.jsonl"],
        &["--warm", "none"],
        &["--order", "time"],
        &["--from-fingerprints"],
        &["--into", "none"],
        &["--max-records", "5"],
        &["--id", "another"],
    ] {
        let report = output_of(dupgate().args(["replay", "run", "plan.json"]).args(more));
        assert_eq!(report.code, 2, "{more:?}: {}", report.err);
        assert!(report.err.contains("cannot be used with") && report.err.contains(more[0]), "{}", report.err);
    }
}

#[test]
fn the_text_of_a_secret_is_refused_and_never_repeated() {
    const SECRET: &str = "hunter2,hunter3";
    let folder = tempfile::tempdir().unwrap();
    for command in ["plan", "run"] {
        for set in [format!("match.seed={SECRET}"), format!("match={{seed: \"{SECRET}\"}}")] {
            let mut requested = dupgate();
            requested.current_dir(folder.path()).args(["replay", command, "--from", "start", "-s", &set]);
            requested.args(["-s", "kafka.brokers=127.0.0.1:1", "-s", "input.topics=pages"]);
            let report = output_of(&mut requested);
            assert_eq!(report.code, 2, "{}", report.err);
            assert!(report.err.contains("--set 'match.seed={file: PATH}'"), "{}", report.err);
            assert!(!report.err.contains("hunter") && !report.out.contains("hunter"), "{}{}", report.err, report.out);
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no plan was written");
}
