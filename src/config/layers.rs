//! Merges files, environment variables and assignments into one tree.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::assignment::{as_list, check, elsewhere, interpret};
use super::problem::{Excerpt, Origin, Problem, Refused};
use super::raw::Raw;
use super::resolve::{ExternalInputs, Purpose, resolve};
use super::schema::key_paths;
use super::settings::Settings;
use super::tree::{Content, FREE_MAPS, Node, split};

/// Prefix of the names of all variables that are settings.
const VARIABLE_PREFIX: &str = "DUPGATE_";

/// Top-level keys that a variable without `__` may name. Other variables without it are ignored, because an
/// orchestrator adds some, such as `DUPGATE_SERVICE_HOST`.
const TOP_KEYS: [&str; 3] = ["version", "roles", "mode"];

/// Returns the name of the variable that sets a key.
fn variable(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// What the operator wrote, merged into one tree. Later calls override earlier ones.
///
/// ```
/// # use dupgate::config::{ExternalInputs, Layers, Purpose};
/// let mut layers = Layers::default();
/// layers.file("dupgate.yaml", "match: {simhash: {max_distance: 2}}");
/// layers.set("window.size=24h");
/// let (settings, _) = layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap();
/// assert_eq!(settings.rules.max_distance, 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Layers {
    tree: Node,
    variables: BTreeMap<String, String>,
    /// The files as they were read, for excerpts.
    texts: Texts,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Whether a file could not be read at all: missing keys are not reported then.
    is_unread: bool,
}

/// Texts of files by name. Each may hold a password, so Debug shows none.
#[derive(Clone, Default)]
struct Texts(BTreeMap<String, String>);

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Layers {
    /// Creates the layers with only the defaults. `variables` are those that `${…}` in files may name.
    #[must_use]
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Adds the text of one file as the next layer.
    pub fn file(&mut self, name: &str, text: &str) {
        self.texts.0.insert(name.to_owned(), text.to_owned());
        match Node::parse(name, text) {
            Ok(mut tree) => {
                self.refine(&mut tree);
                self.tree.overlay(tree);
            }
            Err(problem) => self.refuse_file(problem),
        }
    }

    /// Adds the problem because of which a file sets nothing.
    pub(super) fn refuse_file(&mut self, problem: Problem) {
        self.is_unread = true;
        self.problems.push(problem);
    }

    /// Returns whether no layer has set anything.
    pub(super) fn is_empty(&self) -> bool {
        self.tree.value().as_object().is_none_or(serde_json::Map::is_empty) && self.problems.is_empty()
    }

    /// Adds the variables that name settings as the next layer: `DUPGATE_MATCH__SIMHASH__MAX_DISTANCE=4`.
    ///
    /// A name that is not a setting is a warning: it may belong to another program.
    pub fn environment(&mut self) {
        for (name, text) in self.variables.clone() {
            let Some(key) = name.strip_prefix(VARIABLE_PREFIX) else { continue };
            let key = key.to_lowercase();
            if !key.contains("__") && !TOP_KEYS.contains(&key.as_str()) {
                // A single underscore between levels is a common mistake.
                if let Some(meant) = key_paths().into_iter().find(|path| path.replace('.', "_") == key) {
                    let message = format!("is set but names no setting; did you mean `{}`?", variable(&meant));
                    self.warnings.push(Problem::at(Origin::Variable(name.clone()), "", message));
                }
                continue;
            }
            let path: Vec<String> = key.split("__").map(str::to_owned).collect();
            let origin = Origin::Variable(name.clone());
            match interpret(&path, &text) {
                Ok(value) => self.tree.overlay(Node::at(&path, &origin, value)),
                Err(message) if message.starts_with("unknown field") => {
                    let near = message.rsplit_once("did you mean `").and_then(|(_, name)| name.strip_suffix("`?"));
                    let near = near.map(|name| match path.split_last() {
                        Some((_, above)) if !name.contains('.') => [above, &[name.to_owned()]].concat().join("."),
                        _ => name.to_owned(),
                    });
                    let meant = near.or_else(|| elsewhere(&path)).map(|key| variable(&key));
                    let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                    self.warnings.push(Problem::at(origin, "", format!("is set but names no setting{meant}")));
                }
                Err(message) => self.problems.push(Problem::at(origin, path.join("."), message)),
            }
        }
    }

    /// Adds one `path=value` as the next layer.
    pub fn set(&mut self, assignment: &str) {
        let Some((path, text)) = assignment.split_once('=') else {
            let message = format!("`{assignment}` sets nothing: expected path=value, such as window.size=24h");
            self.problems.push(Problem::at(Origin::Set, "", message));
            return;
        };
        let keys = split(path.trim());
        match interpret(&keys, text) {
            Ok(value) => self.tree.overlay(Node::at(&keys, &Origin::Set, value)),
            Err(message) => self.problems.push(Problem::at(Origin::Set, path.trim(), message)),
        }
    }

    /// Adds a problem that was found outside, for instance a file that cannot be read.
    pub(super) fn refuse(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Returns the origin of the value of a key.
    pub(super) fn origin_of(&self, path: &str) -> Origin {
        self.tree.origin_of(path)
    }

    /// Returns the merged values in the shape of the file.
    ///
    /// # Errors
    ///
    /// The layers do not fit together although each one is valid. A wrong single value is not in the tree:
    /// [`Layers::resolve`] reports it.
    pub fn raw(&self) -> Result<Raw, Problem> {
        serde_json::from_value(self.tree.value()).map_err(|error| Problem::of("", error.to_string()))
    }

    /// Checks everything and returns the settings, with warnings.
    ///
    /// # Errors
    ///
    /// Every problem of every layer, with the place of the value at fault.
    pub fn resolve(self, given: &ExternalInputs, purpose: Purpose) -> Result<(Settings, Vec<Problem>), Refused> {
        let resolved = self.raw().map_err(|problem| Refused { problems: vec![problem], warnings: Vec::new() });
        let (settings, mut more) = match resolved.and_then(|raw| resolve(&raw, given, purpose)) {
            Ok((settings, warnings)) => (Some(settings), Refused { problems: Vec::new(), warnings }),
            Err(refused) => (None, refused),
        };
        for problem in more.problems.iter_mut().chain(&mut more.warnings) {
            problem.origin = self.tree.origin_of(&problem.path);
        }
        let (mut problems, mut warnings) = (self.problems, self.warnings);
        if !self.is_unread {
            // Do not also report a key as missing if it was misspelt, or if its value was refused.
            let meant: Vec<String> = problems.iter().filter_map(|problem| Some(problem.hint()?.to_owned())).collect();
            let refused: Vec<String> = problems.iter().map(|problem| problem.path.clone()).collect();
            let is_meant = |problem: &Problem| {
                let path = &problem.path;
                problem.origin == Origin::Default && refused.contains(path)
                    || meant.iter().any(|meant| path == meant || path.ends_with(&format!(".{meant}")))
            };
            problems.extend(more.problems.into_iter().filter(|problem| !is_meant(problem)));
            warnings.extend(more.warnings);
        }
        problems.sort_by_key(Problem::place);
        warnings.sort_by_key(Problem::place);
        problems.iter_mut().chain(&mut warnings).for_each(|problem| self.texts.illustrate(problem));
        match settings {
            Some(settings) if problems.is_empty() => Ok((settings, warnings)),
            Some(_) | None => Err(Refused { problems, warnings }),
        }
    }

    /// Expands `${…}`, checks every value alone, and removes the refused ones, so that the rest is still checked.
    fn refine(&mut self, tree: &mut Node) {
        let mut refused = Vec::new();
        let mut expanded = Vec::new();
        let mut problems = Vec::new();
        let variables = &self.variables;
        let parsed = &*tree;
        parsed.each_leaf(&mut |path, node| {
            let value = match expand_all(path, &node.value(), variables) {
                Ok(value) => value,
                Err(message) => {
                    problems.push(Problem::at(node.origin.clone(), path.join("."), message));
                    refused.push(path.to_vec());
                    return;
                }
            };
            let checked = check(path, &value);
            let value = match &checked {
                Ok(()) => value,
                Err(_) => as_list(path, &value).unwrap_or(value),
            };
            if let Err(message) = checked.or_else(|_| check(path, &value)) {
                // Report an unknown section once, at its name, instead of once for every key in it.
                let (path, origin) = match unknown(path) {
                    Some(depth) => {
                        let path = path.get(..depth).unwrap_or(path);
                        (path, parsed.find(path).map_or_else(|| node.origin.clone(), |node| node.key.clone()))
                    }
                    None => (path, node.origin.clone()),
                };
                if !refused.iter().any(|known: &Vec<String>| known == path) {
                    problems.push(Problem::at(origin, path.join("."), message));
                    refused.push(path.to_vec());
                }
            } else if matches!(node.content, Content::Leaf(_)) {
                expanded.push(Node::at(path, &node.origin, value));
            }
        });
        self.problems.extend(problems);
        for path in refused {
            tree.remove(&path);
        }
        for node in expanded {
            tree.overlay(node);
        }
    }
}

impl Texts {
    /// Draws the lines around a problem that is in one of these files.
    fn illustrate(&self, problem: &mut Problem) {
        let Origin::File { name, line, column } = &problem.origin else { return };
        let label = problem.hint().map(|name| format!("did you mean `{name}`?"));
        let excerpt =
            self.0.get(&**name).and_then(|text| Excerpt::new(name, text, *line, *column, label, &key_paths()));
        problem.excerpt = excerpt.map(Box::new);
    }
}

/// Returns which level of a path does not exist, counted from 1.
fn unknown(path: &[String]) -> Option<usize> {
    let is_unknown = |depth: &usize| {
        let above = path.get(..*depth).unwrap_or_default();
        check(above, &Value::Object(serde_json::Map::new())).is_err_and(|why| why.starts_with("unknown field"))
    };
    (1..=path.len()).find(is_unknown)
}

/// Expands the texts of one value. A text that consists of variables only is interpreted like the value of a variable,
/// so it may be a number.
fn expand_all(path: &[String], value: &Value, variables: &BTreeMap<String, String>) -> Result<Value, String> {
    let Some(text) = value.as_str().filter(|text| text.contains("${")) else { return expand_below(value, variables) };
    let expanded = expand(text, variables)?;
    let is_free = FREE_MAPS.iter().any(|map| path.join(".").starts_with(map));
    if is_free { Ok(Value::String(expanded)) } else { interpret(path, &expanded) }
}

/// Expands the texts in a value, which stay texts.
fn expand_below(value: &Value, variables: &BTreeMap<String, String>) -> Result<Value, String> {
    match value {
        Value::String(text) => expand(text, variables).map(Value::String),
        Value::Array(list) => list.iter().map(|item| expand_below(item, variables)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| Ok((key.clone(), expand_below(value, variables)?))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
    }
}

/// Replaces each `${VAR}` by its variable and each `${VAR:-default}` by its variable or, if that is unset or empty, the
/// default. `$${` means `${` itself; any other `$` is unchanged.
///
/// # Errors
///
/// A variable that is not set and has no default, or a `${` without its `}`. The message names the variable, never
/// a value.
pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(escaped) = before.strip_suffix('$') {
            out.push_str(escaped);
            out.push_str("${");
            rest = from.strip_prefix("${").unwrap_or_default();
            continue;
        }
        out.push_str(before);
        let body = from.strip_prefix("${").unwrap_or_default();
        let (body, after) = body.split_once('}').ok_or("a `${` without its `}` (write `$${` for the characters)")?;
        let (name, default) = body.split_once(":-").map_or((body, None), |(name, default)| (name, Some(default)));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("`${{{name}}}` names no variable: expected letters, digits and underscores"));
        }
        match (variables.get(name).map(String::as_str), default) {
            (Some("") | None, Some(default)) => out.push_str(default),
            (Some(value), _) => out.push_str(value),
            (None, None) => return Err(format!("variable {name} is not set, and `${{{name}}}` gives no default")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::secret::PropertyValue;
    use super::*;

    fn variables(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn settings(layers: Layers) -> Settings {
        layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap_or_else(|refused| panic!("{refused}")).0
    }

    fn problems(layers: Layers) -> Vec<String> {
        let refused = layers.resolve(&ExternalInputs::default(), Purpose::Sieve).expect_err("must be refused");
        refused.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn later_layers_win() {
        let mut layers =
            Layers::new(variables(&[("DUPGATE_WINDOW__SIZE", "3h"), ("DUPGATE_WINDOW__ALLOWED_LATENESS", "30m")]));
        layers.file(
            "a.yaml",
            "window: {size: 1h, allowed_lateness: 10m, max_future_skew: 1m}\ntext: {stopwords: [zh, en]}",
        );
        layers.file("b.yaml", "window: {size: 2h, allowed_lateness: 20m}\ntext: {stopwords: [en]}");
        layers.environment();
        layers.set("window.size=4h");
        let settings = settings(layers);
        assert_eq!(settings.rules.windows.exact.as_secs(), 4 * 3600);
        assert_eq!(settings.rules.lateness.as_secs(), 30 * 60);
        assert_eq!(settings.rules.max_future_skew.as_secs(), 60);
        assert_eq!(settings.text.stopwords.len(), 1, "lists are replaced");
    }

    #[test]
    fn every_problem_is_reported_with_its_place() {
        let mut layers = Layers::new(variables(&[("DUPGATE_WINDOW__SIZE", "soon")]));
        layers.file(
            "a.yaml",
            "match:\n  simhash:\n    max_distanse: 3\n    bits: many\nwindow:\n  size: 0s\nindx: {a: 1, b: {c: 2}}\n",
        );
        layers.environment();
        layers.set("mode=drop");
        layers.set("nonsense");
        let found = problems(layers);
        for expected in [
            "a.yaml:3:5: match.simhash.max_distanse: unknown field `max_distanse`, expected one of `bits`, `max_distance`",
            "a.yaml:4:11: match.simhash.bits: expected a whole number, not the text `many`",
            "a.yaml:6:9: window.size: 0s remembers nothing",
            "a.yaml:7:1: indx: unknown field `indx`, expected one of `version`",
            "DUPGATE_WINDOW__SIZE: window.size: `soon` is not a duration: expected a number and a unit",
            "--set: mode: unknown variant `drop`, expected one of `route`, `tag`, `observe`",
            "--set: `nonsense` sets nothing: expected path=value",
        ] {
            assert!(found.iter().any(|problem| problem.starts_with(expected)), "{expected} is not in {found:#?}");
        }
        assert_eq!(found.len(), 7, "{found:#?}");
    }

    #[test]
    fn an_unreadable_file_is_the_only_problem_reported() {
        for text in ["kafka:\n\tbrokers: [a:1]\n", "mode: tag\nmode: tag\n", "output: {unique: {topic: ${OUT}}}"] {
            let mut layers = Layers::default();
            layers.file("f.yaml", text);
            let refused = layers.resolve(&ExternalInputs::default(), Purpose::Run).unwrap_err();
            assert_eq!((refused.problems.len(), refused.warnings.len()), (1, 0), "{refused:?}");
        }
    }

    #[test]
    fn bands_that_do_not_fit_are_reported_together_with_other_problems() {
        let mut layers = Layers::default();
        layers.file("f.yaml", "match: {minhash: {bands: 50, bits_per_slot: 7, min_similarity: 2}}");
        let found = problems(layers).join("\n");
        for key in ["match.minhash.bands", "match.minhash.bits_per_slot", "match.minhash.min_similarity"] {
            assert!(found.contains(&format!("{key}: ")), "{key}: {found}");
        }
    }

    #[test]
    fn keys_of_later_versions_are_refused() {
        for text in ["match: {containment: false}", "index: {keep_ids: false}"] {
            let mut layers = Layers::default();
            layers.file("f.yaml", text);
            let found = problems(layers);
            assert!(found.iter().all(|problem| problem.contains("unknown field")), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_variable_that_names_no_setting_is_a_warning() {
        let mut layers = Layers::new(variables(&[
            ("DUPGATE_MATCH__MAX_DISTANC", "4"),
            ("DUPGATE_SERVICE_HOST", "10.0.0.1"),
            ("DUPGATE_MODE", "tag"),
            ("OTHER__THING", "1"),
        ]));
        layers.environment();
        let (settings, warnings) = layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap();
        assert_eq!(settings.mode, crate::config::settings::Mode::Tag);
        let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        assert!(
            warnings
                .iter()
                .any(|warning| warning.starts_with("DUPGATE_MATCH__MAX_DISTANC: is set but names no setting")),
            "{warnings:?}"
        );
        assert!(!warnings.iter().any(|warning| warning.contains("SERVICE_HOST")), "{warnings:?}");
    }

    #[test]
    fn texts_of_files_name_variables() {
        let mut layers = Layers::new(variables(&[("POD_NAME", "gate-0"), ("DISTANCE", "5"), ("TOPIC", "raw")]));
        layers.file(
            "f.yaml",
            "input: {instance_id: \"${POD_NAME:-}\", topics: [\"${TOPIC}.pages\"]}\nmatch: {simhash: {max_distance: \"${DISTANCE}\"}}\n",
        );
        let settings = settings(layers);
        assert_eq!(settings.input.instance_id.as_deref(), Some("gate-0"));
        assert_eq!(settings.input.topics, crate::config::settings::Topics::Names(vec!["raw.pages".to_owned()]));
        assert_eq!(settings.rules.max_distance, 5);

        let mut layers = Layers::default();
        layers.file("f.yaml", "input: {instance_id: \"${POD_NAME}\"}");
        assert_eq!(
            problems(layers),
            ["f.yaml:1:22: input.instance_id: variable POD_NAME is not set, and `${POD_NAME}` gives no default"]
        );
    }

    #[test]
    fn dots_in_free_keys_belong_to_the_key() {
        let mut layers = Layers::default();
        layers.file("f.yaml", "kafka: {properties: {socket.timeout.ms: 5000}}");
        layers.set("kafka.properties.socket.nagle.disable=true");
        let properties = settings(layers).kafka.properties;
        assert_eq!(properties.get("socket.timeout.ms").map(PropertyValue::expose), Some("5000"));
        assert_eq!(properties.get("socket.nagle.disable").map(PropertyValue::expose), Some("true"));
    }

    fn of(text: &str) -> Result<String, String> {
        let variables = [("POD", "gate-0"), ("EMPTY", "")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        expand(text, &BTreeMap::from(variables))
    }

    #[test]
    fn variables_are_replaced_by_their_values() {
        assert_eq!(of("${POD}"), Ok("gate-0".to_owned()));
        assert_eq!(of("a-${POD}-b-${POD:-x}"), Ok("a-gate-0-b-gate-0".to_owned()));
        assert_eq!(of("${NONE:-}"), Ok(String::new()));
        assert_eq!(of("${NONE:-x:-y}"), Ok("x:-y".to_owned()));
        assert_eq!(of("${EMPTY:-x}"), Ok("x".to_owned()));
        assert_eq!(of("${EMPTY}"), Ok(String::new()));
    }

    #[test]
    fn a_dollar_alone_is_a_dollar() {
        assert_eq!(of("^crawl\\..*$"), Ok("^crawl\\..*$".to_owned()));
        assert_eq!(of("$${POD}"), Ok("${POD}".to_owned()));
        assert_eq!(of("$POD"), Ok("$POD".to_owned()));
    }

    #[test]
    fn an_unset_variable_is_named() {
        assert!(of("${NONE}").unwrap_err().contains("NONE is not set"));
        assert!(of("${POD").unwrap_err().contains("without its `}`"));
        assert!(of("${a b}").unwrap_err().contains("names no variable"));
    }
}
