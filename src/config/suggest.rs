//! Suggests the intended key or word for an unknown one.

use super::schema::key_paths;

/// Minimum similarity of two names, from 0 (nothing in common) to 1 (equal).
const MIN_SIMILARITY: f64 = 0.6;

/// Adds to a refusal the name that was probably meant, if a similar one exists.
///
/// `refusal` is the message of serde: "unknown field `x`, expected one of `y`, `z`", or the same for a variant.
/// `section` is the path above the unknown field.
pub(super) fn with_hint(refusal: String, section: &[String]) -> String {
    let is_field = refusal.starts_with("unknown field");
    if !is_field && !refusal.starts_with("unknown variant") {
        return refusal;
    }
    let mut names = refusal.split('`').skip(1).step_by(2);
    let Some(given) = names.next() else { return refusal };
    let meant = nearest(given, names.map(str::to_owned))
        .or_else(|| if is_field { elsewhere(&[section, &[given.to_owned()]].concat()) } else { None });
    match meant {
        Some(name) => format!("{refusal}; did you mean `{name}`?"),
        None => refusal,
    }
}

/// Finds the key whose last levels are most similar to those of this path, in any section.
pub(super) fn elsewhere(path: &[String]) -> Option<String> {
    let (given, last) = (path.join("."), path.last()?);
    let of_name = |key: &str| {
        let name = key.rsplit('.').next().unwrap_or_default();
        strsim::normalized_damerau_levenshtein(last, name)
    };
    let of_path = |key: &str| strsim::normalized_damerau_levenshtein(&given, key);
    let near = key_paths().into_iter().filter(|key| of_name(key) > 0.75);
    near.max_by(|a, b| of_name(a).total_cmp(&of_name(b)).then(of_path(a).total_cmp(&of_path(b))))
}

fn nearest(given: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let scored = names.map(|name| (strsim::normalized_damerau_levenshtein(&given.to_lowercase(), &name), name));
    scored.filter(|(score, _)| *score >= MIN_SIMILARITY).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(refusal: &str, section: &str) -> Option<String> {
        let section: Vec<String> = section.split('.').filter(|level| !level.is_empty()).map(str::to_owned).collect();
        let hinted = with_hint(refusal.to_owned(), &section);
        hinted.split_once("did you mean `").map(|(_, name)| name.trim_end_matches("`?").to_owned())
    }

    #[test]
    fn a_typing_error_gets_a_hint() {
        let hinted = hint("unknown field `max_distanse`, expected one of `bits`, `max_distance`", "match.simhash");
        assert_eq!(hinted.as_deref(), Some("max_distance"));
        let hinted = hint("unknown field `broker`, expected one of `brokers`, `client_id`", "kafka");
        assert_eq!(hinted.as_deref(), Some("brokers"));
        let hinted = hint("unknown variant `Rout`, expected one of `route`, `tag`", "");
        assert_eq!(hinted.as_deref(), Some("route"));
    }

    #[test]
    fn a_key_of_another_section_is_named_by_its_path() {
        let hinted = hint("unknown field `max_distance`, expected one of `stages`, `simhash`, `same_id`", "match");
        assert_eq!(hinted.as_deref(), Some("match.simhash.max_distance"));
        let hinted = hint("unknown field `password`, expected one of `brokers`, `security`", "kafka");
        assert_eq!(hinted.as_deref(), Some("kafka.security.sasl.password"));
    }

    #[test]
    fn a_name_like_no_other_gets_no_hint() {
        assert_eq!(hint("unknown field `tracing_backend_url`, expected one of `version`, `roles`", ""), None);
        assert_eq!(hint("unknown variant `drop`, expected one of `route`, `tag`, `observe`", ""), None);
        assert_eq!(hint("invalid type: string \"brokers\", expected u8", ""), None);
    }
}
