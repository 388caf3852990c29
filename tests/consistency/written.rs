//! Names in the README and the documents exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;
use dupgate::cli::Cli;
use dupgate::config::{ExternalInputs, Layers, Purpose, Raw};
use dupgate::error::Reason;
use dupgate::telemetry::catalog::TABLE;
use secrecy::SecretString;

use super::known_keys;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// README, changelog and every document: path and text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).into();
    for folder in ["docs", "docs/decisions"] {
        let listed = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(listed.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    assert!(paths.len() > 3, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), without_former_names(&read(&path)))).collect()
}

/// Leaves the first column out of tables that begin with `| was |`: the names in it no longer exist.
fn without_former_names(text: &str) -> String {
    let mut is_former = false;
    let mut kept = String::new();
    for line in text.lines() {
        let row = line.trim_start();
        is_former = row.starts_with("| was |") || (is_former && row.starts_with('|'));
        let line = if is_former { row.splitn(3, '|').last().unwrap_or_default() } else { line };
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// A text marked as code.
#[derive(Debug)]
enum Code<'t> {
    /// One line of a block.
    Line(&'t str),
    /// Inside a sentence.
    Span(&'t str),
}

fn code<'t>(text: &'t str) -> Vec<Code<'t>> {
    let mut found = Vec::new();
    // Blocks and prose alternate.
    for (number, part) in text.split("\n```").enumerate() {
        if number % 2 == 1 {
            let (language, block) = part.split_once('\n').unwrap_or_default();
            // A session shows commands after a prompt, and their output.
            let is_typed = |line: &'t str| if language == "console" { line.strip_prefix("$ ") } else { Some(line) };
            found.extend(block.lines().filter_map(is_typed).map(Code::Line));
        } else {
            found.extend(part.split('`').skip(1).step_by(2).map(Code::Span));
        }
    }
    found
}

/// Every block of a language, whole.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let inside = text.split("\n```").skip(1).step_by(2);
    inside.filter_map(|part| part.split_once('\n')).filter(|(given, _)| *given == language).map(|(_, it)| it).collect()
}

#[test]
fn every_command_line_parses() {
    let mut seen = 0;
    for (path, text) in documents() {
        for code in code(&text) {
            let (line, is_whole) = match code {
                Code::Line(line) => (line, true),
                Code::Span(span) => (span, false),
            };
            let line = line.split(" #").next().unwrap_or_default();
            if !line.starts_with("dupgate ") {
                continue;
            }
            seen += 1;
            let Err(error) = Cli::try_parse_from(line.split_whitespace()) else { continue };
            if [ErrorKind::DisplayVersion, ErrorKind::DisplayHelp].contains(&error.kind()) {
                continue;
            }
            // A sentence may name a command without its arguments.
            let lacks = [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
            assert!(!is_whole && lacks.contains(&error.kind()), "{}: `{line}`: {error}", path.display());
        }
    }
    assert!(seen > 5, "only {seen} command lines were found");
}

#[test]
fn every_named_metric_exists() {
    let known: BTreeSet<&str> = TABLE.iter().map(|spec| spec.name).collect();
    for (path, text) in documents() {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("dupgate_")) {
            let stem = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| word.strip_suffix(suffix));
            let exists = known.contains(word) || stem.is_some_and(|stem| known.contains(stem));
            assert!(exists, "{}: there is no metric {word}", path.display());
        }
    }
}

/// Returns whether a key is a map without entries by default.
fn is_empty_map(key: &str) -> bool {
    let defaults = serde_json::to_value(Raw::default()).unwrap();
    let value = key.split('.').try_fold(&defaults, |value, level| value.get(level));
    value.is_some_and(|value| value.as_object().is_some_and(serde_json::Map::is_empty))
}

#[test]
fn every_named_configuration_key_exists() {
    let known = known_keys();
    let sections: BTreeSet<&str> = known.iter().filter_map(|key| key.split('.').next()).collect();
    let mut seen = 0;
    for (path, text) in documents() {
        for code in code(&text) {
            let Code::Span(span) = code else { continue };
            let key = span.split([':', '=', ' ']).next().unwrap_or_default();
            let is_file = Path::new(key).extension().is_some_and(|end| end == "rs" || end == "md" || end == "yaml");
            let section = key.split('.').next().unwrap_or_default();
            if is_file || !key.contains('.') || !sections.contains(section) {
                continue;
            }
            seen += 1;
            let exists = known.iter().any(|known| known == key || known.starts_with(&format!("{key}.")));
            // Below a map that is empty by default there may be keys.
            let exists = exists || key.rsplit_once('.').is_some_and(|(above, _)| is_empty_map(above));
            assert!(exists, "{}: there is no key {key}", path.display());
        }
    }
    assert!(seen > 3, "only {seen} keys were found");
}

#[test]
fn every_shown_configuration_is_accepted() {
    let mut seen = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "yaml") {
            seen += 1;
            let mut layers = Layers::default();
            layers.file(&path.display().to_string(), block);
            // The files of secrets in a block exist.
            let files = block.split("{file: ").skip(1).filter_map(|rest| rest.split('}').next());
            let secrets = files.map(|file| (file.into(), SecretString::from("a secret of sixteen"))).collect();
            let resolved = layers.resolve(&ExternalInputs { secrets, ..ExternalInputs::default() }, Purpose::Run);
            resolved.unwrap_or_else(|refused| panic!("{}: {refused}", path.display()));
        }
    }
    assert!(seen > 0, "no configuration was found");
}

#[test]
fn every_named_make_target_exists() {
    let makefile = read(&root().join("Makefile"));
    let mut seen = 0;
    for (path, text) in documents() {
        for code in code(&text) {
            let (Code::Line(code) | Code::Span(code)) = code;
            let Some(arguments) = code.strip_prefix("make ") else { continue };
            for word in arguments.split(" #").next().unwrap_or_default().split_whitespace() {
                seen += 1;
                let head = word.split_once('=').map_or(format!("{word}: "), |(name, _)| format!("{name} ?="));
                let exists = makefile.lines().any(|line| line.starts_with(&head));
                assert!(exists, "{}: make knows no {word}", path.display());
            }
        }
    }
    assert!(seen > 5, "only {seen} targets were found");
}

#[test]
fn exit_codes_agree_with_the_program() {
    let page = read(&root().join("docs/TROUBLESHOOTING.md"));
    let (_, table) = page.split_once("| exit code | meaning |\n|---|---|\n").unwrap();
    let written: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let done = (0, dupgate::error::DONE);
    let codes = Reason::ALL.map(|reason| (reason.code(), reason.meaning()));
    let expected: Vec<String> =
        std::iter::once(done).chain(codes).map(|(code, meaning)| format!("| {code} | {meaning} |")).collect();
    assert_eq!(written, expected);
}

/// Splits `src/{a,b}.rs` into `src/a.rs` and `src/b.rs`.
fn expanded(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap_or_else(|| panic!("{name} lacks a brace"));
    inside.split(',').map(|part| format!("{before}{part}{after}")).collect()
}

#[test]
fn every_named_source_file_exists() {
    // `core/` and `index/` stand for the sources of the two crates.
    let folders =
        [("src/", "src/"), ("crates/", "crates/"), ("core/", "crates/core/src/"), ("index/", "crates/index/src/")];
    let mut seen = 0;
    for (path, text) in documents() {
        for code in code(&text) {
            let Code::Span(code) = code else { continue };
            let named = Path::new(code).extension().is_some_and(|extension| extension == "rs") && !code.contains(' ');
            let Some((short, folder)) = folders.iter().find(|(short, _)| named && code.starts_with(short)) else {
                continue;
            };
            for name in expanded(&code.replacen(short, folder, 1)) {
                seen += 1;
                assert!(root().join(&name).is_file(), "{}: there is no {name}", path.display());
            }
        }
    }
    assert!(seen > 40, "only {seen} files were found");
}

/// Returns whether a source has a test of this name: a function with the attribute.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_test = |at: usize| {
        let above = lines.iter().take(at).rev().take_while(|line| !line.is_empty() && **line != "}");
        above.into_iter().any(|line| *line == "#[test]")
    };
    let head = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| line.starts_with(&head) && is_test(at))
}

#[test]
fn every_test_of_the_threat_model_exists() {
    let text = read(&root().join("SECURITY.md"));
    let mut seen = 0;
    for line in text.lines() {
        let spans = line.split('`').skip(1).step_by(2);
        let named: Vec<(&str, &str)> = spans.filter_map(|span| span.split_once(".rs: ")).collect();
        for (file, test) in &named {
            seen += 1;
            let source = read(&root().join(format!("{file}.rs")));
            assert!(has_test(&source, test), "SECURITY.md: {file}.rs has no test {test}");
        }
        let is_row = line.starts_with("| ") && !line.starts_with("| sender |");
        assert!(!is_row || !named.is_empty(), "SECURITY.md: no test shows {line}");
    }
    assert!(seen > 30, "only {seen} tests were found");
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut seen = 0;
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|after| after.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if link.contains("://") || target.is_empty() {
                continue;
            }
            seen += 1;
            let found = path.parent().unwrap().join(target);
            assert!(found.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
    assert!(seen > 3, "only {seen} links were found");
}

/// `systemd` checks only the exit code of the service's process, not those of earlier processes.
#[test]
fn the_unit_lets_the_service_refuse_its_configuration() {
    let unit = read(&root().join("config/systemd/dupgate.service"));
    assert!(!unit.contains("ExecStartPre"), "{unit}");
    let prevented = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).unwrap();
    let codes: Vec<&str> = prevented.split(' ').collect();
    for reason in [Reason::Usage, Reason::Denied, Reason::Config] {
        assert!(codes.contains(&reason.code().to_string().as_str()), "{reason:?} is retried: {prevented}");
    }
}

#[test]
fn archive_and_package_contain_alerts_and_dashboards() {
    let release = read(&root().join(".github/workflows/release.yml"));
    let manifest = read(&root().join("Cargo.toml"));
    for text in [release, manifest] {
        for part in ["helm/dupgate/files/alerts.yaml", "helm/dupgate/files/dashboards"] {
            assert!(text.contains(part), "{part} is left out of {text}");
        }
    }
}

/// `tests/mutants.sh` checks the same, but takes an hour.
#[test]
fn every_mutant_patch_applies() {
    let listed = std::fs::read_dir(root().join("crates/core/tests/simulation/mutants")).unwrap();
    let patches: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    assert!(patches.len() > 20, "{patches:?}");
    for patch in patches {
        let mut check = std::process::Command::new("git");
        let check = check.args(["apply", "--check", "-C1", "--recount"]).arg(&patch).current_dir(root());
        let output = check.output().unwrap_or_else(|why| panic!("git: {why}"));
        assert!(output.status.success(), "{}: {}", patch.display(), String::from_utf8_lossy(&output.stderr));
    }
}
