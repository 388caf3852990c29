//! The targets of log lines are parts of the program that `logging.level` accepts.

use std::collections::BTreeSet;
use std::path::Path;

use dupgate::config::LOG_PARTS;
use regex::Regex;

/// Targets of libraries, and of the process as a whole.
const OTHERS: [&str; 2] = ["librdkafka", "panic"];

/// Every source file of the service, without its tests.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
            found.push((path.display().to_string(), shipped));
        }
    }
}

#[test]
fn every_log_line_names_its_part_of_the_program() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let call = Regex::new(r#"\btracing::(?:trace|debug|info|warn|error)!\(\s*(?:target:\s*"([^"]*)")?"#).unwrap();
    let mut named = BTreeSet::new();
    for (path, text) in &files {
        for found in call.captures_iter(text) {
            let line = text[..found.get(0).unwrap().start()].matches('\n').count() + 1;
            let target = found.get(1).map_or("", |target| target.as_str());
            let part = target.strip_prefix("dupgate::").filter(|part| LOG_PARTS.contains(part));
            assert!(part.is_some() || OTHERS.contains(&target), "{path}:{line}: no part of the program: `{target}`");
            named.extend(part);
        }
    }
    assert_eq!(named.into_iter().collect::<Vec<_>>(), LOG_PARTS, "parts that log something");
}
