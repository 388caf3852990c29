//! Suggests the intended key or word for an unknown one.

use super::schema::key_paths;

/// Minimum similarity of two names, from 0 (nothing in common) to 1 (equal).
const MIN_SIMILARITY: f64 = 0.6;

/// Keys that had another name in an earlier release, and names that other programs use for them.
const OTHER_NAMES: [(&str, &str); 47] = [
    ("processing.stop_after_bad_ratio", "processing.pause_above_dead_letter_ratio"),
    ("processing.max_bad_ratio", "processing.pause_above_dead_letter_ratio"),
    ("processing.workers", "processing.threads"),
    ("processing.concurrency", "processing.threads"),
    ("processing.parallelism", "processing.threads"),
    ("processing.on_error", "processing.on_bad_record"),
    ("match.minhash.agree", "match.minhash.min_shared_bands"),
    ("match.minhash.bits", "match.minhash.bits_per_slot"),
    ("match.minhash.unsure", "match.minhash.low_confidence"),
    ("match.minhash.threshold", "match.minhash.min_similarity"),
    ("match.minhash.num_perm", "match.minhash.permutations"),
    ("match.simhash.threshold", "match.simhash.max_distance"),
    ("match.simhash.hamming_distance", "match.simhash.max_distance"),
    ("match.threshold", "match.minhash.min_similarity"),
    ("judge.serve", "judge.served_partitions"),
    ("judge.checkpoint_rulings", "judge.checkpoint_interval_records"),
    ("logs.keep", "logs.retention"),
    ("window.time", "window.timestamp_source"),
    ("window.lateness", "window.allowed_lateness"),
    ("window.duration", "window.size"),
    ("window.ttl", "window.size"),
    ("index.ttl", "window.size"),
    ("kafka.bootstrap", "kafka.brokers"),
    ("kafka.bootstrap_servers", "kafka.brokers"),
    ("kafka.group_id", "input.group"),
    ("input.group_id", "input.group"),
    ("input.auto_offset_reset", "input.start"),
    ("input.compression", "input.encoding"),
    ("input.fields.timestamp", "input.fields.fetched_at"),
    ("input.fields.url", "input.fields.id"),
    ("output.dlq", "output.dead_letter"),
    ("metrics.port", "http.listen"),
    ("http.port", "http.listen"),
    ("input.fields.body", "input.fields.text"),
    ("input.fields.content", "input.fields.text"),
    ("input.fields.date", "input.fields.fetched_at"),
    ("input.fields.time", "input.fields.fetched_at"),
    ("input.fields.crawled_at", "input.fields.fetched_at"),
    ("input.fields.site", "input.fields.scope"),
    ("input.fields.domain", "input.fields.scope"),
    ("input.codec", "input.format"),
    ("input.consumer_group", "input.group"),
    ("text.dictionary", "text.jieba.user_dict"),
    ("index.dir", "index.path"),
    ("index.size", "index.max_entries"),
    ("http.admin.password", "http.admin.token"),
    ("window.retention", "window.size"),
];

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
    let path = || [section, &[given.to_owned()]].concat();
    let former = || {
        let path = path().join(".");
        OTHER_NAMES.iter().find(|(name, _)| is_field && *name == path).map(|(_, key)| (*key).to_owned())
    };
    let meant = former()
        .or_else(|| nearest(given, names.map(str::to_owned)))
        .or_else(|| if is_field { elsewhere(&path()) } else { None });
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
    fn a_former_name_and_that_of_another_program_are_known_by_their_meaning() {
        let keys = key_paths();
        for (name, key) in OTHER_NAMES {
            let is_key = |path: &str| keys.iter().any(|known| known == path || known.starts_with(&format!("{path}.")));
            assert!(is_key(key) && !is_key(name), "{name} {key}");
            let (section, field) = name.rsplit_once('.').unwrap();
            let hinted = hint(&format!("unknown field `{field}`, expected one of `threads`, `topics`"), section);
            assert_eq!(hinted.as_deref(), Some(key), "{name}");
        }
        assert_eq!(hint("unknown variant `workers`, expected one of `route`, `tag`", "processing"), None);
    }

    #[test]
    fn a_name_like_no_other_gets_no_hint() {
        assert_eq!(hint("unknown field `tracing_backend_url`, expected one of `version`, `roles`", ""), None);
        assert_eq!(hint("unknown variant `drop`, expected one of `route`, `tag`, `observe`", ""), None);
        assert_eq!(hint("invalid type: string \"brokers\", expected u8", ""), None);
    }
}
