//! `dupgate demo` over the broker inside its process.

use std::process::{Command, Stdio};

/// Returns the numbers in the first row that begins with this name.
fn row(table: &str, name: &str) -> Vec<u64> {
    let line = table.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn the_demo_judges_a_crawl_and_reports_its_quality() {
    let arguments =
        ["demo", "--for", "8s", "--broken", "0.05", "-s", "http.listen=127.0.0.1:0", "-s", "http.admin.listen=null"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let (report, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{report}\n{errors}", output.status);
    assert!(
        report.lines().next().unwrap().contains("cannot show"),
        "the first line names what it does not prove: {report}"
    );

    // Fed and judged: no fed page is missing.
    let counts = report.lines().find(|line| line.contains("fed ")).unwrap();
    let after = |word: &str| {
        let mut words = counts.split_whitespace().skip_while(|found| *found != word);
        words.nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert!(after("fed") > 100, "{report}");
    assert_eq!(after("fed"), after("judged"), "{report}");

    // All exact copies are found, no page matches an unrelated one, broken records end as expected.
    let exact = row(&report, "exact");
    assert!(exact[0] > 5 && exact[0] == exact[1], "{report}");
    let copies = row(&report, "all copies");
    assert_eq!((copies[1] + copies[2], copies[3]), (copies[0], 0), "{report}");
    let printed = row(&report, "all duplicates");
    assert_eq!(printed[0], printed[1], "{report}");
    for damage in ["invalid_utf8", "truncated_json", "missing_field", "wrong_type", "empty_text", "deep_nesting"] {
        let broken = row(&report, damage);
        assert!(broken.first().is_none_or(|planted| broken[1..] == [*planted, 0, 0]), "{damage}: {report}");
    }
}
