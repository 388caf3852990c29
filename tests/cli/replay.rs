//! `dupgate replay`, as far as it comes without a broker.

use super::program::{dupgate, said};

#[test]
fn files_and_what_belongs_to_topics_exclude_each_other() {
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
            let told = said(dupgate().args(["replay", command]).args(more).args(["--from-files", "pages.jsonl"]));
            assert_eq!(told.code, 2, "{more:?}: {}", told.err);
            let named = told.err.contains("cannot be used with") && told.err.contains("--from-files");
            assert!(named && told.err.contains(more[0]), "{}", told.err);
        }
    }
    let told = said(dupgate().args(["replay", "run", "plan.json", "--from-files", "pages.jsonl"]));
    assert_eq!(told.code, 2, "{}", told.err);
    assert_eq!(said(dupgate().args(["replay", "plan", "--from-files"])).code, 2, "at least one file");
}

#[test]
fn the_text_of_a_secret_is_refused_and_repeated_nowhere() {
    const SECRET: &str = "hunter2,hunter3";
    let folder = tempfile::tempdir().unwrap();
    for command in ["plan", "run"] {
        for set in [format!("match.seed={SECRET}"), format!("match={{seed: \"{SECRET}\"}}")] {
            let mut asked = dupgate();
            asked.current_dir(folder.path()).args(["replay", command, "--from", "start", "-s", &set]);
            asked.args(["-s", "kafka.brokers=127.0.0.1:1", "-s", "input.topics=pages"]);
            let told = said(&mut asked);
            assert_eq!(told.code, 2, "{}", told.err);
            assert!(told.err.contains("--set 'match.seed={file: PATH}'"), "{}", told.err);
            assert!(!told.err.contains("hunter") && !told.out.contains("hunter"), "{}{}", told.err, told.out);
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no plan was written");
}
