//! Files, variables and assignments, laid over each other.

use std::collections::BTreeMap;

use super::assignment::{check, interpret};
use super::expand::expand;
use super::problem::{Origin, Problem, Refused};
use super::raw::Raw;
use super::resolve::{Given, Purpose, resolve};
use super::settings::Settings;
use super::tree::{Content, FREE_MAPS, Node, split};
use serde_json::Value;

/// Begins the name of every variable that is a setting.
const VARIABLE_PREFIX: &str = "DUPGATE_";

/// Top keys that a variable without `__` may name. Others are left alone: an orchestrator puts the likes of
/// `DUPGATE_SERVICE_HOST` into the environment by itself.
const TOP_KEYS: [&str; 3] = ["version", "roles", "mode"];

/// What the operator wrote, in one tree. Later calls win.
///
/// ```
/// # use dupgate::config::{Given, Layers, Purpose};
/// let mut layers = Layers::default();
/// layers.file("dupgate.yaml", "match: {simhash: {max_distance: 2}}");
/// layers.set("window.size=24h");
/// let (settings, _) = layers.resolve(&Given::default(), Purpose::Sieve).unwrap();
/// assert_eq!(settings.rules.max_distance, 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Layers {
    tree: Node,
    variables: BTreeMap<String, String>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Layers {
    /// Begins with nothing but the defaults. `variables` is what `${…}` in files may name.
    #[must_use]
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Lays the text of one file over what is there.
    pub fn file(&mut self, name: &str, text: &str) {
        match Node::parse(name, text) {
            Ok(mut tree) => {
                self.refine(&mut tree);
                self.tree.overlay(tree);
            }
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Lays those variables over it that name settings: `DUPGATE_MATCH__SIMHASH__MAX_DISTANCE=4`.
    ///
    /// A name that is no setting is a warning: it may belong to somebody else.
    pub fn environment(&mut self) {
        for (name, text) in self.variables.clone() {
            let Some(key) = name.strip_prefix(VARIABLE_PREFIX) else { continue };
            let key = key.to_lowercase();
            if !key.contains("__") && !TOP_KEYS.contains(&key.as_str()) {
                continue;
            }
            let path: Vec<String> = key.split("__").map(str::to_owned).collect();
            let origin = Origin::Variable(name.clone());
            match interpret(&path, &text) {
                Ok(value) => self.tree.overlay(Node::at(&path, &origin, value)),
                Err(message) if message.starts_with("unknown field") => {
                    let message = format!("is set but names no setting: {message}");
                    self.warnings.push(Problem { origin, path: String::new(), message });
                }
                Err(message) => self.problems.push(Problem { origin, path: path.join("."), message }),
            }
        }
    }

    /// Lays one `path=value` over it.
    pub fn set(&mut self, assignment: &str) {
        let Some((path, text)) = assignment.split_once('=') else {
            let message = format!("`{assignment}` sets nothing: expected path=value, such as window.size=24h");
            self.problems.push(Problem { origin: Origin::Set, path: String::new(), message });
            return;
        };
        let keys = split(path.trim());
        match interpret(&keys, text) {
            Ok(value) => self.tree.overlay(Node::at(&keys, &Origin::Set, value)),
            Err(message) => {
                self.problems.push(Problem { origin: Origin::Set, path: path.trim().to_owned(), message });
            }
        }
    }

    /// Adds a problem that was found outside, for instance a file that cannot be read.
    pub(super) fn refuse(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Returns the merged values in the shape of the file.
    ///
    /// # Errors
    ///
    /// The layers do not fit together although each one does. What was wrong with a single value was left out of
    /// the tree and is told by [`Layers::resolve`].
    pub fn raw(&self) -> Result<Raw, Problem> {
        serde_json::from_value(self.tree.value()).map_err(|error| Problem::of("", error.to_string()))
    }

    /// Checks everything and returns the settings, with what deserves a warning.
    ///
    /// # Errors
    ///
    /// Every problem of every layer, with the place of the value that is to blame.
    pub fn resolve(mut self, given: &Given, purpose: Purpose) -> Result<(Settings, Vec<Problem>), Refused> {
        let resolved = match self.raw() {
            Ok(raw) => resolve(&raw, given, purpose),
            Err(problem) => Err(Refused { problems: vec![problem], warnings: Vec::new() }),
        };
        let place = |tree: &Node, mut found: Vec<Problem>| {
            for problem in &mut found {
                problem.origin = tree.origin_of(&problem.path);
            }
            found
        };
        match resolved {
            Ok((settings, warnings)) if self.problems.is_empty() => {
                self.warnings.extend(place(&self.tree, warnings));
                Ok((settings, self.warnings))
            }
            Ok((_, warnings)) => {
                self.warnings.extend(place(&self.tree, warnings));
                Err(Refused { problems: self.problems, warnings: self.warnings })
            }
            Err(refused) => {
                self.problems.extend(place(&self.tree, refused.problems));
                self.warnings.extend(place(&self.tree, refused.warnings));
                Err(Refused { problems: self.problems, warnings: self.warnings })
            }
        }
    }

    /// Expands `${…}`, checks every value alone, and takes out those that are refused: the rest is still checked.
    fn refine(&mut self, tree: &mut Node) {
        let mut refused = Vec::new();
        let mut expanded = Vec::new();
        let problems = &mut self.problems;
        let variables = &self.variables;
        tree.each_leaf(&mut |path, node| {
            let value = match expand_all(path, &node.value(), variables) {
                Ok(value) => value,
                Err(message) => {
                    problems.push(Problem { origin: node.origin.clone(), path: path.join("."), message });
                    refused.push(path.to_vec());
                    return;
                }
            };
            if let Err(message) = check(path, &value) {
                problems.push(Problem { origin: node.origin.clone(), path: path.join("."), message });
                refused.push(path.to_vec());
            } else if matches!(node.content, Content::Leaf(_)) {
                expanded.push(Node::at(path, &node.origin, value));
            }
        });
        for path in refused {
            tree.remove(&path);
        }
        for node in expanded {
            tree.overlay(node);
        }
    }
}

/// Expands the texts of one value. A text that is nothing but variables is read like one: it may be a number.
fn expand_all(path: &[String], value: &Value, variables: &BTreeMap<String, String>) -> Result<Value, String> {
    match value {
        Value::String(text) if text.contains("${") => {
            let expanded = expand(text, variables)?;
            let free = FREE_MAPS.iter().any(|map| path.join(".").starts_with(map));
            if free { Ok(Value::String(expanded)) } else { interpret(path, &expanded) }
        }
        Value::Array(list) => list
            .iter()
            .map(|item| match item {
                Value::String(text) => expand(text, variables).map(Value::String),
                other => Ok(other.clone()),
            })
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => expand(text, variables).map(|text| (key.clone(), Value::String(text))),
                other => Ok((key.clone(), other.clone())),
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}
