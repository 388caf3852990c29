//! Expands `${VAR}`, `${VAR:-default}` and `$${` in the texts of a file.

use std::collections::BTreeMap;

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
    use super::*;

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
