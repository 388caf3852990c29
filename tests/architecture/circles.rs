//! What each file of a crate imports from the others, whatever names are re-exported on the way.
//!
//! A file and the folder of its own name are one module: what parents and children take from each other is left out.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

/// Longest chain of re-exports that is followed.
const MAX_EXPORTS: usize = 8;

/// The path of a module within its crate, or of a name in it.
pub(crate) type Path = Vec<String>;

/// An imported path and the name that it has here.
type Import = (Path, String);

/// The modules of a crate by their paths, each with its code. The root has the empty path.
pub(crate) struct Modules {
    code: BTreeMap<Path, String>,
    /// By module and name: what is meant by a name that is imported to be seen from outside.
    exports: BTreeMap<(Path, String), (Path, String)>,
}

impl Modules {
    /// Reads the imports of these modules.
    pub(crate) fn new(code: BTreeMap<Path, String>) -> Self {
        let mut modules = Self { code, exports: BTreeMap::new() };
        let exported = Regex::new(r"(?m)^\s*pub(?:\([^)]*\))? use ([^;]+);").unwrap();
        for (module, text) in &modules.code {
            for (path, name) in exported.captures_iter(text).flat_map(|found| tree(&found[1])) {
                if let Some(meant) = modules.resolve(module, &path) {
                    modules.exports.insert((module.clone(), name), meant);
                }
            }
        }
        modules
    }

    /// Returns the other modules that each one imports, neither its ancestors nor its descendants.
    pub(crate) fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let used = Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);").unwrap();
        let inline = Regex::new(r"\b(?:crate|super|self)(?:::\w+)+").unwrap();
        let of = |(module, text): (&Path, &String)| {
            let used = used.captures_iter(text).flat_map(|found| tree(&found[1])).map(|(path, _)| path);
            let inline = inline.find_iter(text).map(|found| found.as_str().split("::").map(str::to_owned).collect());
            let paths = used.chain(inline).collect::<BTreeSet<Path>>();
            let meant = paths.iter().filter_map(|path| self.origin(self.resolve(module, path)?));
            let others = meant.filter(|other| !other.starts_with(module) && !module.starts_with(other));
            (module.join("::"), others.map(|other| other.join("::")).collect())
        };
        self.code.iter().map(of).collect()
    }

    /// Returns the module of a path and the name in it, if it is a path of this crate.
    fn resolve(&self, module: &Path, path: &[String]) -> Option<(Path, String)> {
        let (first, rest) = path.split_first()?;
        let mut rest = rest;
        let mut base = match first.as_str() {
            "crate" => Path::new(),
            "self" => module.clone(),
            "super" => {
                let mut base = module.clone();
                base.pop();
                while let Some(("super", others)) = rest.split_first().map(|(next, others)| (next.as_str(), others)) {
                    base.pop();
                    rest = others;
                }
                base
            }
            child => {
                let mut base = module.clone();
                base.push(child.to_owned());
                self.code.contains_key(&base).then_some(base)?
            }
        };
        while let Some((next, others)) = rest.split_first() {
            base.push(next.clone());
            if !self.code.contains_key(&base) {
                base.pop();
                return Some((base, next.clone()));
            }
            rest = others;
        }
        Some((base, String::new()))
    }

    /// Returns the module that a name is defined in.
    fn origin(&self, mut meant: (Path, String)) -> Option<Path> {
        for _ in 0..MAX_EXPORTS {
            match self.exports.get(&meant) {
                Some(next) => meant = next.clone(),
                None => return Some(meant.0),
            }
        }
        None
    }
}

/// Expands the tree of an import: each path, and the name that it gets.
fn tree(text: &str) -> Vec<Import> {
    fn walk(prefix: &[String], text: &str, found: &mut Vec<Import>) {
        for part in parts(text) {
            if let Some((head, below)) = part.split_once('{') {
                walk(&below_path(prefix, head), below.trim_end().strip_suffix('}').unwrap_or(below), found);
                continue;
            }
            let (path, alias) = part.split_once(" as ").unwrap_or((part, ""));
            let path = below_path(prefix, path);
            let name =
                if alias.is_empty() { path.last().cloned().unwrap_or_default() } else { alias.trim().to_owned() };
            found.push((path, name));
        }
    }
    let mut found = Vec::new();
    walk(&[], text, &mut found);
    found
}

fn below_path(prefix: &[String], path: &str) -> Path {
    let names = path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    prefix.iter().cloned().chain(names).collect()
}

/// Cuts a list at the commas that are in no braces.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_u32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[begin..]);
    found.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}
