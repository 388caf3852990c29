//! The boundaries between modules, checked on the sources.
//!
//! The crates below `crates/` are pure. `crates/clippy.toml` forbids what the standard library offers of files, sockets,
//! variables, threads and clocks; here the manifests are checked, and which module imports which. A folder of `src/` is an
//! edge. Imports after `#[cfg(test)]`, and in files named `tests.rs`, are not checked.
#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

#[path = "architecture/circles.rs"]
mod circles;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// The modules of the pure crates, each with those that it may import, of its own crate or of one below.
const PURE: [(&str, &[&str]); 13] = [
    ("record", &[]),
    ("text", &["record"]),
    ("fingerprint", &["record", "text"]),
    ("protocol", &["record", "fingerprint"]),
    ("index", &["record", "fingerprint", "protocol"]),
    ("judge", &["record", "fingerprint", "protocol", "index", "transaction"]),
    ("transaction", &["record"]),
    ("worker", &["record", "fingerprint", "protocol", "transaction"]),
    ("deduplicator", &["record", "fingerprint", "protocol", "judge"]),
    ("replay", &["record", "text", "fingerprint", "protocol", "index", "judge", "worker"]),
    ("compare", &["text"]),
    ("crawl", &["record", "text", "fingerprint", "protocol"]),
    ("quality", &["record", "text", "fingerprint", "protocol", "crawl"]),
];

/// Modules named after a technology, and files outside modules.
const EDGES: [&str; 18] = [
    "cli",
    "clock",
    "config",
    "context",
    "error",
    "fatal",
    "judge",
    "kafka",
    "operators",
    "process",
    "processing",
    "replay",
    "service",
    "snapshot",
    "telemetry",
    "threads",
    "topics",
    "worker",
];

/// Edges that only each other import: they connect the state machines with the technologies.
const TOPS: [&str; 12] = [
    "clock",
    "context",
    "fatal",
    "threads",
    "topics",
    "processing",
    "worker",
    "judge",
    "service",
    "operators",
    "replay",
    "cli",
];

/// Dependencies that no pure crate has, directly or by another one: clients, runtimes, threads, logs, metrics, random numbers.
const BANNED: [&str; 14] = [
    "axum",
    "crossbeam-channel",
    "futures",
    "futures-util",
    "hyper",
    "metrics",
    "metrics-exporter-prometheus",
    "mio",
    "rand",
    "rayon",
    "rdkafka",
    "tokio",
    "tracing",
    "tracing-subscriber",
];

/// Maximum length of a source file, without tests.
const MAX_LINES: usize = 1_000;

/// Maximum number of public items of `crates/core`, as [`public_items`] counts them. Only the crates of this workspace use
/// it: what none of them needs is not public.
const MAX_PUBLIC: usize = 738;

/// The sources of each crate: of the service first.
fn crates() -> [PathBuf; 5] {
    ["src", "crates/core/src", "crates/index/src", "crates/lab/src", "crates/segmenter/src"]
        .map(|src| Path::new(env!("CARGO_MANIFEST_DIR")).join(src))
}

/// A source file by its path within its crate.
fn relative(path: &Path) -> PathBuf {
    crates().iter().find_map(|src| path.strip_prefix(src).ok()).unwrap().to_owned()
}

/// Every source file of all crates.
fn sources() -> Vec<PathBuf> {
    crates().iter().flat_map(|src| sources_of(src, "")).collect()
}

/// Every source file of a module of the pure crates.
fn pure_sources(room: &str) -> Vec<PathBuf> {
    crates().iter().skip(1).flat_map(|src| sources_of(src, room)).collect()
}

/// Every source file of a module of a crate: a folder, or the single file of this name. All of them without a name.
fn sources_of(src: &Path, room: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&src.join(room), &mut found);
    let single = src.join(format!("{room}.rs"));
    found.extend(single.is_file().then_some(single));
    found.sort();
    found
}

/// The part of a source without tests. Line breaks stay.
fn shipped(path: &Path) -> String {
    let is_test = path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
    let text = if is_test { String::new() } else { fs::read_to_string(path).unwrap() };
    without_tests(&text).to_owned()
}

/// Tests are at the end of a file: everything from the first `#[cfg(test)]` of a module with a body.
fn without_tests(text: &str) -> &str {
    let module = Regex::new(r"(?m)^#\[cfg\(test\)\]\n(#\[.*\]\n)*(pub(\(.*\))? )?mod \w+ \{").unwrap();
    let end = module.find(text).map_or(text.len(), |found| found.start());
    text.get(..end).unwrap_or_default()
}

/// The code without its comments and without string literals.
fn code(text: &str) -> String {
    let quoted = Regex::new(r#""(\\.|[^"\\])*""#).unwrap();
    let lines = text.lines().map(|line| {
        let line = quoted.replace_all(line, "\"\"");
        line.split("//").next().unwrap_or_default().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that a source imports by a path from the root of its crate, or of one of ours.
fn imports(code: &str) -> BTreeSet<String> {
    imports_of(&["crate", "dupgate_core", "dupgate_lab"], code)
}

/// Modules that a source imports by a path from one of these roots.
fn imports_of(roots: &[&str], code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let path = Regex::new(&format!(r"\b(?:{})::(\w+|\{{)", roots.join("|"))).unwrap();
    for import in path.captures_iter(code) {
        let first = import.get(1).unwrap();
        if first.as_str() != "{" {
            found.insert(first.as_str().to_owned());
            continue;
        }
        let (mut depth, mut name, mut is_first) = (1, String::new(), true);
        for c in code.get(first.end()..).unwrap_or_default().chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if c.is_alphanumeric() || c == '_' {
                name.push(c);
                continue;
            }
            if is_first && !name.is_empty() {
                found.insert(name.clone());
            }
            name.clear();
            is_first = depth == 1 && (c == ',' || (is_first && c.is_whitespace()));
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// Imports in the source of a pure module that are not allowed.
fn breaches(room: &str, may_import: &[&str], text: &str) -> Vec<String> {
    let allowed = |import: &String| import == room || may_import.contains(&import.as_str());
    imports(&code(without_tests(text))).into_iter().filter(|import| !allowed(import)).collect()
}

#[test]
fn pure_modules_import_what_they_may() {
    let mut found = Vec::new();
    for (room, may_import) in PURE {
        for path in pure_sources(room) {
            let text = fs::read_to_string(&path).unwrap();
            let shown = relative(&path).display().to_string();
            if shipped(&path).is_empty() {
                continue;
            }
            found.extend(
                breaches(room, may_import, &text).into_iter().map(|breach| format!("{shown} imports {breach}")),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The packages that a crate is built from, itself included.
fn dependencies(package: &str, edges: &str) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", package, "--edges", edges])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).unwrap();
    let names: BTreeSet<String> = text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(names.contains(package) && names.len() > 3, "{text}");
    names
}

/// The crates without a Kafka client or a runtime.
const PURE_CRATES: [&str; 4] = ["dupgate-core", "dupgate-index", "dupgate-lab", "dupgate-segmenter"];

#[test]
fn the_pure_crates_depend_on_no_client_runtime_or_log() {
    for pure in PURE_CRATES {
        let names = dependencies(pure, "normal,build");
        let found: Vec<&str> = BANNED.into_iter().filter(|name| names.contains(*name)).collect();
        assert!(found.is_empty(), "{pure} depends on {found:?}");
    }
    let service = dependencies("dupgate", "normal");
    assert!(service.contains("rdkafka") && service.contains("tokio"), "the names are those of packages");
}

#[test]
fn the_index_and_the_segmenter_know_no_page() {
    for own in ["dupgate-index", "dupgate-segmenter"] {
        let ours = dependencies(own, "normal,build,dev").into_iter().filter(|name| name.starts_with("dupgate"));
        assert_eq!(ours.collect::<Vec<_>>(), [own], "others may depend on it: it depends on none of ours");
    }
}

/// It takes a hundred times as long to load as the tables of the segmenter: pages are cut without it.
#[test]
fn the_segmenter_needs_jieba_rs_only_for_its_tests() {
    assert!(!dependencies("dupgate-segmenter", "normal,build").contains("jieba-rs"));
    assert!(dependencies("dupgate-segmenter", "dev").contains("jieba-rs"));
}

/// A crate that builds a C library has a build script with `cc` or cmake, or a name that ends in `-sys`.
#[test]
fn the_pure_crates_build_and_test_without_a_c_compiler() {
    for pure in PURE_CRATES {
        let names = dependencies(pure, "normal,build,dev");
        // Names of system calls, in Rust.
        let native = |name: &&String| name.ends_with("-sys") && *name != "linux-raw-sys";
        let found: Vec<&String> = names
            .iter()
            .filter(|name| ["cc", "cmake", "pkg-config"].contains(&name.as_str()) || native(name))
            .collect();
        assert!(found.is_empty(), "{pure} needs {found:?}");
    }
}

/// Imports between the modules at the root of a crate.
fn modules_of(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let name = |path: &Path| {
        path.strip_prefix(src).unwrap().iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    let own: Vec<PathBuf> = sources_of(src, "");
    let mut modules: BTreeMap<String, BTreeSet<String>> =
        own.iter().map(|path| (name(path), BTreeSet::new())).collect();
    for path in &own {
        let imported = imports_of(&["crate"], &code(&shipped(path)));
        modules.entry(name(path)).or_default().extend(imported);
    }
    let known: BTreeSet<String> = modules.keys().cloned().collect();
    for (module, imports) in &mut modules {
        imports.retain(|import| import != module && known.contains(import));
    }
    modules
}

/// A circle of modules, each importing the next one, if any.
fn circle(modules: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<&str>> {
    // A module without remaining imports is not in a circle.
    let mut left: BTreeSet<&str> = modules.keys().map(String::as_str).collect();
    let imports = |module: &str, left: &BTreeSet<&str>| {
        modules.get(module).and_then(|imports| imports.iter().map(String::as_str).find(|import| left.contains(import)))
    };
    while let Some(free) = left.iter().copied().find(|module| imports(module, &left).is_none()) {
        left.remove(free);
    }
    let mut way = vec![left.first().copied()?];
    loop {
        let next = imports(way.last()?, &left)?;
        if let Some(start) = way.iter().position(|module| *module == next) {
            return Some(way.split_off(start));
        }
        way.push(next);
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for src in crates() {
        let modules = modules_of(&src);
        assert!(modules.len() > 2, "no modules below {}", src.display());
        let circle = circle(&modules);
        assert_eq!(circle, None, "below {}: each imports the next, and the last the first", src.display());
    }
    let module = |name: &str, imports: &[&str]| {
        (name.to_owned(), imports.iter().map(|import| (*import).to_owned()).collect::<BTreeSet<_>>())
    };
    let planted = [module("a", &["b"]), module("b", &["c", "d"]), module("c", &[]), module("d", &["b"])];
    assert_eq!(circle(&planted.into_iter().collect()), Some(vec!["b", "d"]));
}

/// The modules of a crate with their code without tests.
fn files_of(src: &Path) -> circles::Modules {
    let own = sources_of(src, "").into_iter().filter(|path| !path.ends_with("main.rs"));
    let of = |path: PathBuf| {
        let relative = path.strip_prefix(src).unwrap().with_extension("");
        let mut module: Vec<String> = relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
            module.pop();
        }
        (module, code(&shipped(&path)))
    };
    circles::Modules::new(own.map(of).collect())
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for src in crates() {
        let imports = files_of(&src).imports();
        let count: usize = imports.values().map(BTreeSet::len).sum();
        // The segmenter has four files, two of which use the third.
        let least = if src.ends_with("segmenter/src") { 2 } else { 11 };
        assert!(count >= least, "{count} imports below {}", src.display());
        let circle = circle(&imports);
        assert_eq!(circle, None, "below {}: each imports the next, and the last the first", src.display());
    }
    let planted = [
        ("", "pub mod a; pub mod b;"),
        ("a", "mod c;\npub use self::c::C;\nuse crate::b::{self, B};"),
        ("a::c", "use super::super::b::B;"),
        ("b", "mod d;\npub(crate) use d::D as B;"),
        ("b::d", "fn d() -> crate::a::C { todo!() }"),
    ];
    let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let planted = planted.map(|(name, text)| (path(name), text.to_owned()));
    let imports = circles::Modules::new(planted.into_iter().collect()).imports();
    assert_eq!(circle(&imports), Some(vec!["b::d", "a::c"]), "through two re-exports");
}

#[test]
fn every_listed_module_exists_and_every_module_is_listed() {
    for (room, _) in PURE {
        assert!(!pure_sources(room).is_empty(), "the module {room} is missing");
    }
    let declared = Regex::new(r"(?m)^pub mod (\w+);").unwrap();
    let pure: BTreeSet<&str> = PURE.iter().map(|(room, _)| *room).collect();
    for (number, src) in crates().iter().enumerate() {
        let lib = code(&fs::read_to_string(src.join("lib.rs")).unwrap());
        for room in declared.captures_iter(&lib) {
            let room = room.get(1).unwrap().as_str();
            let is_listed = if number == 0 { EDGES.contains(&room) } else { pure.contains(room) };
            assert!(is_listed, "the module {room} of {} is not listed in this file", src.display());
        }
    }
}

#[test]
fn nothing_imports_the_top_modules() {
    let [service, ..] = crates();
    for path in sources_of(&service, "") {
        let relative = relative(&path);
        let room = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if TOPS.contains(&room.as_str()) || room == "main" {
            continue;
        }
        for import in imports_of(&["crate"], &code(&shipped(&path))) {
            assert!(!TOPS.contains(&import.as_str()), "{} imports {import}", relative.display());
        }
    }
}

#[test]
fn only_one_module_names_the_kafka_client() {
    let client = Regex::new(r"\brdkafka(_sys)?::|\b(use|crate) rdkafka").unwrap();
    for path in sources() {
        let relative = relative(&path);
        if !relative.starts_with("kafka") {
            assert!(!client.is_match(&code(&shipped(&path))), "{} names rdkafka", relative.display());
        }
    }
}

#[test]
fn no_file_is_too_long() {
    for path in sources() {
        let lines = shipped(&path).lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines (limit {MAX_LINES}): split it", path.display());
    }
}

/// Counts the lines that begin a public item: a function (methods, too), type, trait, constant, module or re-export. Fields
/// and variants come with their type.
fn public_items(text: &str) -> usize {
    let item =
        Regex::new(r"(?m)^\s*pub (fn|const fn|struct|enum|trait|type|const|static|mod|use|unsafe fn|async fn)\b")
            .unwrap();
    item.find_iter(text).count()
}

#[test]
fn the_core_offers_no_more_than_is_used() {
    let [_, core, ..] = crates();
    let count: usize = sources_of(&core, "").iter().map(|path| public_items(&code(&shipped(path)))).sum();
    assert!(
        count <= MAX_PUBLIC,
        "crates/core has {count} public items (limit {MAX_PUBLIC}): make what only core uses `pub(crate)`, let tests go \
         through what the service uses, or make one item of two"
    );
    assert!(count > MAX_PUBLIC / 2, "only {count} are found");
    let planted = "pub fn a() {}\n    pub const fn b() {}\npub(crate) fn c() {}\npub use d::{E, F};\n    pub field: u8,\n\
                   // pub fn g() {}\npub const H: u8 = 0;\npub mod i;\n";
    assert_eq!(public_items(&code(planted)), 5);
}

#[test]
fn no_module_is_a_catch_all() {
    for path in sources() {
        for part in &relative(&path) {
            let name = part.to_str().expect("names are UTF-8").trim_end_matches(".rs");
            let drawers = ["utils", "util", "common", "helpers", "helper", "types", "manager", "misc"];
            assert!(!drawers.contains(&name), "{} does not describe its content", path.display());
        }
    }
}

#[test]
fn a_planted_violation_is_found() {
    let clean = "//! Uses no `crate::judge`.\nuse crate::record::{Source, Timestamp};\nuse super::Fs;\n\
                 fn error_text() -> &'static str { \"crate::judge\" }\n\
                 #[cfg(test)]\nmod tests {\n    use crate::worker::Page;\n}\n";
    assert_eq!(breaches("protocol", &["record"], clean), Vec::<String>::new());
    for planted in [
        "use crate::judge::Judge;",
        "use crate::{record::Source, worker::Page};",
        "use crate::{\n    record::{Source, Timestamp},\n    kafka,\n};",
        "fn f() { crate::telemetry::shout(); }",
    ] {
        let text = format!("use crate::record::Source;\n{planted}\n#[cfg(test)]\nmod tests {{\n}}\n");
        assert!(!breaches("protocol", &["record"], &text).is_empty(), "not found: {planted}");
    }
    assert_eq!(imports("use crate::{a::{b, c}, d, e::f};").into_iter().collect::<Vec<_>>(), ["a", "d", "e"]);
}
