//! Shows the problems of a configuration, each with the lines around it, and then the warnings.

use std::io::{self, Write};

use annotate_snippets::Renderer;
use serde_json::{Value, json};

use crate::config::{Origin, Problem};

/// Writes problems and warnings for people.
pub(super) fn print_findings(
    out: &mut impl Write,
    renderer: &Renderer,
    problems: &[Problem],
    warnings: &[Problem],
) -> io::Result<()> {
    for problem in problems {
        writeln!(out, "error: {problem}")?;
        if let Some(excerpt) = &problem.excerpt {
            writeln!(out, "{}", excerpt.draw(renderer))?;
        }
    }
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

/// Returns problems and warnings for programs.
pub(super) fn as_json(problems: &[Problem], warnings: &[Problem]) -> Value {
    let list = |found: &[Problem]| found.iter().map(one).collect::<Vec<_>>();
    json!({"valid": problems.is_empty(), "problems": list(problems), "warnings": list(warnings)})
}

fn one(problem: &Problem) -> Value {
    let mut value = json!({"key": problem.path, "message": problem.message, "meant": problem.hint()});
    let place = match &problem.origin {
        Origin::Default => json!({"source": "default"}),
        Origin::File { name, line, column } => json!({"source": "file", "file": name, "line": line, "column": column}),
        Origin::Variable(name) => json!({"source": "variable", "variable": name}),
        Origin::Set => json!({"source": "set"}),
    };
    if let (Value::Object(value), Value::Object(place)) = (&mut value, place) {
        value.extend(place);
        value.retain(|_, field| !field.is_null() && field != "");
    }
    value
}

/// Writes a count with its noun: `1 error`, `2 errors`.
pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Returns the numbers of problems and warnings, as in `2 errors, 1 warning`.
pub(super) fn sum(problems: &[Problem], warnings: &[Problem]) -> String {
    format!("{}, {}", count(problems.len(), "error"), count(warnings.len(), "warning"))
}
