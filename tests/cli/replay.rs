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
