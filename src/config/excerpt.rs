//! The lines of a file around what is wrong, with a mark below it. No secret is shown.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::properties::is_sensitive;
use super::schema::key_paths;

/// Lines shown above the one that is to blame.
const ABOVE: usize = 2;

/// Keys of those sections whose values are no secrets: what is wrong there is seen.
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

/// Stands for a value that is not shown.
const HIDDEN: char = '…';

/// Draws the line at `line` (from 1) with those above it, and marks `column` (from 1).
///
/// Values of the `kafka` and `http` sections and of keys that sound like secrets are hidden: a password may stand at any wrong
/// place there.
pub(super) fn draw(name: &str, text: &str, line: u64, column: u64, label: &str) -> Option<String> {
    let last = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let lines: Vec<&str> = text.lines().collect();
    let marked = lines.get(last)?;
    let first = last.saturating_sub(ABOVE);
    let digits = line.to_string().len();
    let mut drawn = format!("{:>digits$}--> {name}:{line}:{}\n{:>digits$} |", "", column + 1, "");
    let shown = shown(&lines, last);
    for (number, line) in shown.iter().enumerate().take(last + 1).skip(first) {
        // Writing to a `String` cannot fail.
        let _ = write!(drawn, "\n{:>digits$} | {line}", number + 1);
    }
    // What is hidden is marked at its beginning: its column would point behind the line.
    let upto = |line: &str| line.chars().take(column + 1).collect::<String>();
    let is_hidden = shown.get(last).is_some_and(|shown| upto(shown) != upto(marked));
    let column = if is_hidden { marked.chars().take_while(|c| c.is_whitespace()).count() } else { column };
    let indent: String = marked.chars().take(column).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let width = marked.chars().skip(column).take_while(|c| c.is_alphanumeric() || "_-.".contains(*c)).count().max(1);
    let _ = write!(drawn, "\n{:>digits$} | {indent}{} {label}", "", "^".repeat(width));
    drawn.truncate(drawn.trim_end().len());
    Some(drawn)
}

/// Hides what may be a secret.
fn shown(lines: &[&str], marked: usize) -> Vec<String> {
    let known: BTreeSet<String> = key_paths().iter().flat_map(|path| path.split('.')).map(str::to_owned).collect();
    let (mut hides, mut in_open) = (false, false);
    let show = |(number, line): (usize, &&str)| {
        let line = *line;
        let bare = line.trim_start();
        if bare.is_empty() || bare.starts_with('#') && !is_sensitive(bare) {
            return line.to_owned();
        }
        // A section ends where the next key stands at the beginning of a line. A file that is one flow map has no
        // sections to be told apart.
        if bare.len() == line.len() {
            let is_secretive = ["kafka", "http"].iter().any(|section| bare.starts_with(section));
            hides = !bare.starts_with(|c: char| c.is_ascii_alphabetic()) || is_secretive;
        }
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

/// Says whether a line has a flow map that can be told apart without being parsed: no quotes, tags, comments, or texts of
/// several lines.
fn is_flow(bare: &str) -> bool {
    let depth = bare.chars().try_fold(0_u32, |depth, c| match c {
        '{' | '[' => Some(depth + 1),
        '}' | ']' => depth.checked_sub(1),
        _ => Some(depth),
    });
    bare.contains('{') && depth == Some(0) && !bare.contains(['"', '\'', '?', '!', '|', '>', '#', '%', '@', '`'])
}

/// Hides every value of a flow map but those of keys that hold no secret.
fn flow(line: &str, is_key: impl Fn(&str) -> bool) -> String {
    let mut shown = String::new();
    // Whether the values at each depth of the brackets belong to a key that holds no secret.
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

/// Adds what stands between two brackets or commas, and returns its key.
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

/// Keeps the indentation, and the key if it may be shown: in a text of several lines a password may look like one.
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
    use super::*;

    #[test]
    fn the_mark_stands_below_what_is_wrong() {
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
        ] {
            let line = text.lines().count().max(3) as u64;
            let drawn = draw("f.yaml", text, line, 1, "").unwrap_or_default();
            assert!(!drawn.contains("hunter2"), "{drawn}");
        }
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
