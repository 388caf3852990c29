//! Problems of a configuration, where they were written, and the lines of the file around them, with secrets hidden.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::secret::is_sensitive;
use crate::error::{Fatal, Reason};

/// One problem. Shows as `dupgate.yaml:85:3: match.simhash.max_distance: 9 is above the limit of 8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where the value came from; [`Origin::Default`] if it was not given.
    pub origin: Origin,
    /// The key, its levels joined by dots; empty if no single key is at fault.
    pub path: String,
    /// The problem, with the value and the limit. Never holds a secret.
    pub message: String,
    /// The lines of the file around it, with a mark below; absent if it is not in a file.
    pub excerpt: Option<Box<Excerpt>>,
}

impl Problem {
    /// Creates the problem of one key. The layers fill in its origin.
    pub(super) fn of(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), ..Self::default() }
    }

    /// Creates the problem of a value from this origin, and of its key if that is known.
    pub(super) fn at(origin: Origin, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin, ..Self::of(path, message) }
    }

    /// Returns the key by which problems are sorted: in the order of the files, with those without a place last.
    pub(super) fn place(&self) -> (bool, Arc<str>, u64, u64) {
        match &self.origin {
            Origin::File { name, line, column } => (false, Arc::clone(name), *line, *column),
            Origin::Default | Origin::Variable(_) | Origin::Set => (true, Arc::default(), 0, 0),
        }
    }

    /// Returns the name that was probably meant instead of one that does not exist.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.message.rsplit_once("did you mean `")?.1.strip_suffix("`?")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}: ", self.origin)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// A configuration that cannot be used: every problem found, and the warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Every problem, in the order found. Never empty.
    pub problems: Vec<Problem>,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

impl std::error::Error for Refused {}

impl From<Refused> for Fatal {
    fn from(refused: Refused) -> Self {
        Reason::Config.because(refused)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    #[default]
    Default,
    /// A place in a file; line and column count from 1.
    File {
        /// The file as named on the command line.
        name: Arc<str>,
        /// Its line, 0 when unknown.
        line: u64,
        /// The column in it, 0 when unknown.
        column: u64,
    },
    /// A variable of the environment.
    Variable(String),
    /// `--set`.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line: 0, .. } => f.write_str(name),
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Variable(name) => f.write_str(name),
            Self::Set => f.write_str("--set"),
        }
    }
}

/// Number of lines shown above the line with the problem.
const ABOVE: usize = 2;

/// Keys in the sections `kafka` and `http` whose values are never secrets, so that they are shown.
const OPEN: [&str; 13] = [
    "brokers",
    "client_id",
    "protocol",
    "mechanism",
    "ca_file",
    "cert_file",
    "key_file",
    "verify_hostname",
    "username",
    "scope",
    "listen",
    "text",
    "topics",
];

/// A section with secrets within `input`.
const NESTED: &str = "schema_registry";

/// What is shown instead of a hidden value.
const HIDDEN: char = '…';

/// Some lines of a file, one of them marked. Values in the sections `kafka`, `http` and [`NESTED`], and of keys
/// that sound like secrets, are hidden, because a password may have been written at a wrong place there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    name: String,
    /// The problem; line and column count from 1.
    place: (usize, usize),
    /// The number of the first line shown.
    first: usize,
    lines: String,
    /// The marked bytes of `lines`.
    marked: Range<usize>,
    label: Option<String>,
}

impl Excerpt {
    /// Takes the line at `line` (from 1) with those above it, and marks `column` (from 1). `None` if there is no such
    /// line. `keys` are the paths of all existing keys.
    pub(super) fn new(
        name: &str,
        text: &str,
        line: u64,
        column: u64,
        label: Option<String>,
        keys: &[String],
    ) -> Option<Self> {
        let last = usize::try_from(line).ok()?.checked_sub(1)?;
        let column = usize::try_from(column).ok()?.checked_sub(1)?;
        let lines: Vec<&str> = text.lines().collect();
        let marked = lines.get(last)?;
        let first = last.saturating_sub(ABOVE);
        let shown = shown(&lines, last, keys);
        let shown_marked = shown.get(last)?;
        // Mark a hidden value at its start: the column of the problem may be past the end of the shown line.
        let upto = |line: &str| line.chars().take(column + 1).collect::<String>();
        let is_hidden = upto(shown_marked) != upto(marked);
        let indent = |line: &str| line.len() - line.trim_start().len();
        let of_column = |line: &str| line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        let begin = if is_hidden { indent(shown_marked) } else { of_column(shown_marked) };
        let rest = shown_marked.get(begin..).unwrap_or_default();
        let is_word = |c: &char| c.is_alphanumeric() || "_-.".contains(*c);
        let word: usize = rest.chars().take_while(is_word).map(char::len_utf8).sum();
        let width = if word > 0 { word } else { rest.chars().next().map_or(0, char::len_utf8) };
        let above: usize = shown.get(first..last)?.iter().map(|line| line.len() + 1).sum();
        let mut lines = shown.get(first..=last)?.join("\n");
        let mut marked = above + begin..above + begin + width;
        if shown_marked.is_empty() {
            // Without this, the mark of an empty line would be drawn below the line above it.
            lines.push(' ');
            marked.end += 1;
        }
        Some(Self { name: name.to_owned(), place: (last + 1, column + 1), first: first + 1, lines, marked, label })
    }

    /// Draws the lines, the mark below the last of them.
    #[must_use]
    pub fn draw(&self, renderer: &Renderer) -> String {
        let (line, column) = self.place;
        let mark = AnnotationKind::Primary.span(self.marked.clone()).label(self.label.as_deref());
        let snippet = Snippet::source(&self.lines).line_start(self.first).fold(false).annotation(mark);
        let drawn = renderer.render(&[Group::with_level(Level::ERROR).element(snippet)]);
        // Name the place of the value itself: the mark of a hidden value is elsewhere.
        let digits = line.to_string().len();
        format!("{:digits$}--> {}:{line}:{column}\n{drawn}", "", self.name)
    }
}

/// Returns the lines with possible secrets hidden.
fn shown(lines: &[&str], marked: usize, keys: &[String]) -> Vec<String> {
    let known: BTreeSet<&str> = keys.iter().flat_map(|path| path.split('.')).collect();
    let (mut hides, mut in_open) = (false, false);
    // How far the section of secrets within another one is indented.
    let mut nested = None;
    let show = |(number, line): (usize, &&str)| {
        let line = *line;
        let bare = line.trim_start();
        if bare.is_empty() || bare.starts_with('#') && !is_sensitive(bare) {
            return line.to_owned();
        }
        // A section ends where the next key begins a line. A file that is one flow map has no
        // sections to distinguish.
        if bare.len() == line.len() {
            let is_secretive = ["kafka", "http"].iter().any(|section| bare.starts_with(section));
            hides = !bare.starts_with(|c: char| c.is_ascii_alphabetic()) || is_secretive;
        }
        let indent = line.len() - bare.len();
        if line.contains(NESTED) {
            nested = Some(indent);
        } else if nested.is_some_and(|section| indent <= section) {
            nested = None;
        }
        let hides = hides || nested.is_some();
        let bare_key = bare.split_once(':').map(|(key, _)| key);
        if !bare.starts_with('-') {
            in_open = bare_key.is_some_and(|key| OPEN.contains(&key));
        }
        let is_plain = in_open && !line.contains(['{', '}', '|', '>']);
        let is_key = |key: &str| number == marked || known.contains(key);
        let is_odd = line.contains(['&', '*']);
        if hides && !is_plain && !is_odd && is_flow(bare) {
            flow(line, is_key)
        } else if (hides && !is_plain) || is_sensitive(line) || is_odd {
            hidden(line, is_key)
        } else {
            line.to_owned()
        }
    };
    lines.iter().enumerate().map(show).collect()
}

/// Returns whether a line has a flow map that can be recognised without parsing it: one without quotes, tags, comments,
/// or texts of several lines.
fn is_flow(bare: &str) -> bool {
    let depth = bare.chars().try_fold(0_u32, |depth, c| match c {
        '{' | '[' => Some(depth + 1),
        '}' | ']' => depth.checked_sub(1),
        _ => Some(depth),
    });
    bare.contains('{') && depth == Some(0) && !bare.contains(['"', '\'', '?', '!', '|', '>', '#', '%', '@', '`'])
}

/// Hides every value of a flow map except those of keys that hold no secret.
fn flow(line: &str, is_key: impl Fn(&str) -> bool) -> String {
    let mut shown = String::new();
    // For each depth of brackets: whether its values belong to a key that holds no secret.
    let mut open = vec![false];
    let mut begin = 0;
    for (at, c) in line.char_indices().filter(|(_, c)| "{}[],".contains(*c)) {
        let part = line.get(begin..at).unwrap_or_default();
        begin = at + 1;
        let is_open = open.last().is_some_and(|is_open| *is_open);
        let key = shown_part(part, is_open, &is_key, &mut shown);
        match c {
            '[' => open.push(key.is_some_and(|key| OPEN.contains(&key)) || is_open),
            '{' => open.push(false),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
        shown.push(c);
    }
    shown_part(line.get(begin..).unwrap_or_default(), false, &is_key, &mut shown);
    shown
}

/// Adds the text between two brackets or commas, and returns its key.
fn shown_part<'p>(part: &'p str, is_open: bool, is_key: impl Fn(&str) -> bool, shown: &mut String) -> Option<&'p str> {
    let bare = part.trim_start();
    shown.push_str(part.get(..part.len() - bare.len()).unwrap_or_default());
    let Some((key, value)) = bare.split_once(':').filter(|_| !is_open) else {
        let is_shown = is_open || bare.is_empty();
        shown.push_str(if is_shown { bare } else { "…" });
        return None;
    };
    if is_key(key) {
        shown.push_str(key);
    } else {
        shown.push(HIDDEN);
    }
    shown.push(':');
    match value.trim() {
        "" => shown.push_str(value),
        _ if OPEN.contains(&key) => shown.push_str(value),
        _ => {
            shown.push(' ');
            shown.push(HIDDEN);
        }
    }
    Some(key)
}

/// Hides a line, except for its indentation and its key. The key must be a known one: in a text of several lines, a
/// password may look like a key.
fn hidden(line: &str, is_key: impl Fn(&str) -> bool) -> String {
    let bare = line.trim_start();
    let indent = line.get(..line.len() - bare.len()).unwrap_or_default();
    let key = bare.split_once(':').filter(|(key, _)| is_key(key));
    match key {
        Some((key, value)) if value.trim().is_empty() => format!("{indent}{key}:"),
        Some((key, _)) => format!("{indent}{key}: {HIDDEN}"),
        None => format!("{indent}{HIDDEN}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::key_paths;
    use super::*;

    fn draw(name: &str, text: &str, line: u64, column: u64, label: &str) -> Option<String> {
        let label = Some(label).filter(|label| !label.is_empty()).map(str::to_owned);
        Excerpt::new(name, text, line, column, label, &key_paths()).map(|excerpt| excerpt.draw(&Renderer::plain()))
    }

    #[test]
    fn the_mark_is_below_the_problem() {
        let text = "window:\n  size: 72h\nmatch:\n  stages: [exact]\n  simhash: {max_distanse: 3}\n";
        let drawn = draw("f.yaml", text, 5, 13, "did you mean `max_distance`?").unwrap();
        let expected = " --> f.yaml:5:13
  |
3 | match:
4 |   stages: [exact]
5 |   simhash: {max_distanse: 3}
  |             ^^^^^^^^^^^^ did you mean `max_distance`?";
        assert_eq!(drawn, expected);
        assert_eq!(draw("f.yaml", text, 9, 1, ""), None);
        assert!(draw("f.yaml", text, 1, 1, "").unwrap().ends_with("1 | window:\n  | ^^^^^^"));
    }

    #[test]
    fn the_mark_is_below_the_problem_in_chinese_after_tabs_and_at_the_end() {
        let marked = |text: &str, line, column| {
            let drawn = draw("f.yaml", text, line, column, "here").unwrap();
            drawn.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(marked("text: {标题: 作者}\n", 1, 12), ["1 | text: {标题: 作者}", "  |              ^^^^ here"]);
        assert_eq!(marked("\ta: b\n", 1, 5), ["1 |     a: b", "  |        ^ here"]);
        assert_eq!(marked("a: [\n", 1, 5), ["1 | a: [", "  |     ^ here"]);
        assert_eq!(marked("a:\n\n", 2, 1), ["1 | a:", "2 |  ", "  | ^ here"]);
    }

    #[test]
    fn colours_are_drawn_only_where_they_are_wanted() {
        let excerpt = Excerpt::new("f.yaml", "a: 1\n", 1, 1, None, &[]).unwrap();
        let [plain, styled] = [Renderer::plain(), Renderer::styled()].map(|renderer| excerpt.draw(&renderer));
        assert!(!plain.contains('\x1b') && styled.contains("\x1b["), "{plain}\n{styled}");
    }

    #[test]
    fn no_secret_is_drawn() {
        for text in [
            "kafka:\n  security:\n    sasl: {username: u, passwrod: hunter2}\n",
            "kafka:\n  security:\n    hunter2\n",
            "kafka: {security: {sasl: {x: hunter2}}}\n\n\n",
            "{kafka: {security: {sasl: {x: hunter2}}}}\n\n\n",
            "x:\n  - &anchor hunter2\n  - 1\n",
            "http:\n  token: hunter2\n  x: 1\n",
            "http:\n  admin: {listen: 1, tok: hunter2}\n  x: 1\n",
            "http:\n  admin:\n    hunter2\n",
            "kafka:\n- 1\n- hunter2\n",
            "kafka:\n  a: |\n    hunter2: x\n  b: 1\n",
            "kafka:\n  security: {sasl: {password: \"a, client_id: hunter2\"}}\n\n",
            "kafka:\n  security: {sasl: {x: [hunter2], y: [a, hunter2]}}\n\n",
            "kafka: {brokers: {a: hunter2}, client_id: {b: [hunter2]}}\n\n\n",
            "kafka: {hunter2, brokers: [a: {b: hunter2}]}\n\n\n",
            "kafka: {sasl: {a: {text: a\n    hunter2}}}\n\n",
            "http: {admin: {token: hunter2, listen: a}}\n\n\n",
            "input:\n  schema_registry:\n    passwrod: hunter2\n",
            "input:\n  schema_registry: {x: hunter2}\n  x: 1\n",
            "input: {schema_registry: {x: hunter2}}\n\n\n",
            "input: {schema_registry: {x:\n  hunter2}}\n\n\n",
        ] {
            let line = text.lines().count().max(3) as u64;
            let drawn = draw("f.yaml", text, line, 1, "").unwrap_or_default();
            assert!(!drawn.contains("hunter2"), "{drawn}");
        }
        // Not even its length.
        let drawn = draw("f.yaml", "kafka:\n  security:\n    hunter2\n", 3, 5, "").unwrap();
        assert!(drawn.ends_with("3 |     …\n  |     ^"), "{drawn}");
        let below = |columns: usize, marks: &str| format!("\n  | {}{marks}", " ".repeat(columns));
        let drawn = draw("f.yaml", "kafka:\n  security: {protocol: sll}\n", 2, 24, "").unwrap();
        assert!(drawn.ends_with(&format!("2 |   security: {{protocol: sll}}{}", below(23, "^^^"))), "{drawn}");
        let line = "kafka: {brokers: [a:1, b], security: {sasl: {username: u, passwrod: hunter2}}, client_id: 5}\n";
        let shown = line.trim_end().replace("hunter2", "…");
        let drawn = draw("f.yaml", line, 1, 24, "").unwrap();
        assert!(drawn.ends_with(&format!("1 | {shown}{}", below(23, "^"))), "{drawn}");
        let drawn = draw("f.yaml", line, 1, 59, "").unwrap();
        assert!(drawn.ends_with(&below(58, "^^^^^^^^")), "{drawn}");
        let drawn = draw("f.yaml", "kafka:\n  brokers: 5\n", 2, 12, "").unwrap();
        assert!(drawn.ends_with("2 |   brokers: 5\n  |            ^"), "{drawn}");
        let drawn = draw("f.yaml", "kafka:\n  brokers:\n    - kafka\n", 3, 7, "").unwrap();
        assert!(drawn.ends_with("3 |     - kafka\n  |       ^^^^^"), "{drawn}");
    }
}
