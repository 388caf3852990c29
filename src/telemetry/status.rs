//! One page about a running instance, for `GET /status` and `dupgate status`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::metrics::{Build, Metrics};
use super::parsed_metrics::ParsedMetrics;
use crate::record::Timestamp;

/// Sums up the metrics and the checks, with input and group from `config` (the body of `/config`). Times of events that
/// have not occurred are null.
#[must_use]
pub fn status(
    metrics: &Metrics,
    checks: &[(String, Result<(), String>)],
    build: &Build,
    config: &str,
    now: Timestamp,
) -> Value {
    let scraped = ParsedMetrics::parse(&metrics.render());
    let mut page = summary(&scraped, &metrics.dead_letter_examples(), checks, build, now);
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    if let Some(input) = config.pointer("/config/input").and_then(Value::as_object) {
        let named = ["group", "instance_id", "topics"].into_iter();
        page.extend(named.filter_map(|key| Some((key.to_owned(), input.get(key)?.clone()))));
    }
    page.into()
}

/// Sums up the metrics.
pub(super) fn summary(
    metrics: &ParsedMetrics,
    examples: &BTreeMap<&'static str, (String, String)>,
    checks: &[(String, Result<(), String>)],
    build: &Build,
    now: Timestamp,
) -> Map<String, Value> {
    let waits: Vec<String> =
        checks.iter().filter_map(|(name, state)| Some(format!("{name}: {}", state.as_ref().err()?))).collect();
    let label = |name| metrics.label("dupgate_config_info", name);
    let count = |name| metrics.count(name);
    let age = |name| metrics.largest(name).and_then(millis).map(|then| now.millis().saturating_sub(then));
    let since_start = metrics.largest("process_start_time_seconds").and_then(millis);
    let page = json!({
        "version": build.version,
        "librdkafka": build.librdkafka,
        "at_ms": now.millis(),
        "uptime_ms": since_start.map(|then| now.millis().saturating_sub(then).max(0)),
        "ready": waits.is_empty(),
        "waits_for": waits,
        "mode": label("mode"),
        "scheme": label("scheme"),
        "config_hash": label("hash"),
        "documents": object(metrics.by_label("dupgate_documents_total", "verdict")),
        "dead_letters": count("dupgate_dead_letters_total"),
        "dead_letter_reasons": dead_letters(metrics, examples),
        "pending_verdicts_ms": metrics.largest("dupgate_oldest_pending_verdict_seconds").and_then(millis),
        "assigned_partitions": object(metrics.by_label("dupgate_assigned_partitions", "topic")),
        "lag": count("dupgate_consumer_lag_records"),
        "lag_ms": age("dupgate_last_record_timestamp_seconds"),
        "paused": set(metrics, "dupgate_consumer_paused", "reason"),
        "last_commit_age_ms": age("dupgate_last_commit_timestamp_seconds"),
        "judge": object(metrics.by_label("dupgate_judge_active", "log_partition")),
        "index_entries": count("dupgate_index_entries"),
        "index_memory_bytes": count("dupgate_index_memory_bytes"),
        "index_memory_limit_bytes": count("dupgate_index_memory_limit_bytes"),
        "window_ms": metrics.largest("dupgate_index_window_seconds").and_then(millis),
        "effective_window_ms": effective_window_ms(metrics),
        "snapshot_age_ms": age("dupgate_snapshot_last_success_timestamp_seconds"),
        "errors": errors(metrics),
    });
    members(page)
}

/// Returns the members of a JSON object; none of any other value.
pub(super) fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Event time from the oldest original to the newest page.
pub(super) fn effective_window_ms(metrics: &ParsedMetrics) -> Option<i64> {
    let oldest = metrics.largest("dupgate_index_oldest_entry_timestamp_seconds").and_then(millis)?;
    let newest = metrics.largest("dupgate_last_record_timestamp_seconds").and_then(millis)?;
    Some(newest.saturating_sub(oldest).max(0))
}

/// Seconds since 1970 as milliseconds; `None` for 0, which means never.
fn millis(seconds: f64) -> Option<i64> {
    let span = jiff::SignedDuration::try_from_secs_f64(seconds).ok().filter(|_| seconds > 0.0)?;
    i64::try_from(span.as_millis()).ok()
}

/// Every reason why a record got no verdict, with the last such record.
fn dead_letters(metrics: &ParsedMetrics, examples: &BTreeMap<&'static str, (String, String)>) -> Vec<Value> {
    let of = |name: &str, reason: &str| whole(metrics.sum(name, &[("reason", reason)]));
    let tell = |(reason, (position, why)): (&&str, &(String, String))| {
        json!({
            "reason": reason,
            "delivered": of("dupgate_dead_letters_total", reason),
            "held": of("dupgate_dead_letters_held", reason),
            "example": position,
            "why": why,
        })
    };
    examples.iter().map(tell).collect()
}

fn object(metrics: Vec<(String, f64)>) -> Map<String, Value> {
    metrics.into_iter().map(|(name, number)| (name, whole(number).into())).collect()
}

/// A count as a whole number.
fn whole(count: f64) -> u64 {
    format!("{count:.0}").parse().unwrap_or(0)
}

/// Values of a label whose series is not 0.
fn set(metrics: &ParsedMetrics, name: &str, label: &str) -> Vec<String> {
    metrics.by_label(name, label).into_iter().filter(|(_, number)| *number > 0.0).map(|(value, _)| value).collect()
}

/// Errors that occurred, by component and kind.
fn errors(metrics: &ParsedMetrics) -> Map<String, Value> {
    let name = "dupgate_errors_total";
    let mut found = Map::new();
    for component in set(metrics, name, "component") {
        let of = |kind: &str| whole(metrics.sum(name, &[("component", &component), ("kind", kind)]));
        let kinds = set(metrics, name, "kind").into_iter().map(|kind| (kind.clone(), of(&kind)));
        let kinds: Map<String, Value> =
            kinds.filter(|(_, count)| *count > 0).map(|(kind, count)| (kind, count.into())).collect();
        found.insert(component, kinds.into());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_is_not_ready_and_the_state() {
        let metrics = "dupgate_documents_total{verdict=\"near\"} 25\n\
                       dupgate_config_info{hash=\"abc\",mode=\"route\",scheme=\"sh64-1\"} 1\n\
                       dupgate_assigned_partitions{topic=\"a\"} 2\n\
                       dupgate_consumer_paused{reason=\"manual\"} 1\ndupgate_consumer_paused{reason=\"restore\"} 0\n\
                       dupgate_last_commit_timestamp_seconds 7.5\ndupgate_judge_active{log_partition=\"0\"} 1\n\
                       dupgate_last_record_timestamp_seconds{topic=\"a\"} 9\n\
                       dupgate_index_oldest_entry_timestamp_seconds 2\n\
                       dupgate_dead_letters_total{stage=\"extract\",reason=\"no_text\"} 3\n\
                       dupgate_dead_letters_held{reason=\"no_text\"} 2\n\
                       dupgate_oldest_pending_verdict_seconds 4.5\n\
                       process_start_time_seconds 1\n\
                       dupgate_errors_total{component=\"consumer\",kind=\"fatal\"} 0\n\
                       dupgate_errors_total{component=\"log\",kind=\"corrupt\"} 3\n\
                       dupgate_errors_total{component=\"log\",kind=\"fatal\"} 0\n";
        let checks = [("joined".to_owned(), Ok(())), ("restored".to_owned(), Err("restoring, 40 %".to_owned()))];
        let build = Build { version: "1.2.3".into(), revision: "abc".into(), librdkafka: "2.12.1".into() };
        let examples = BTreeMap::from([("no_text", ("a:0:7".to_owned(), "no text is left".to_owned()))]);
        let page = summary(&ParsedMetrics::parse(metrics), &examples, &checks, &build, Timestamp::from_millis(10_000));
        for (key, expected) in [
            ("version", json!("1.2.3")),
            ("ready", json!(false)),
            ("waits_for", json!(["restored: restoring, 40 %"])),
            ("mode", json!("route")),
            ("documents", json!({"near": 25})),
            ("assigned_partitions", json!({"a": 2})),
            ("paused", json!(["manual"])),
            ("dead_letters", json!(3)),
            (
                "dead_letter_reasons",
                json!([{
                    "reason": "no_text", "delivered": 3, "held": 2, "example": "a:0:7", "why": "no text is left"
                }]),
            ),
            ("pending_verdicts_ms", json!(4500)),
            ("last_commit_age_ms", json!(2500)),
            ("lag_ms", json!(1000)),
            ("effective_window_ms", json!(7000)),
            ("uptime_ms", json!(9000)),
            ("snapshot_age_ms", json!(null)),
            ("errors", json!({"log": {"corrupt": 3}})),
        ] {
            assert_eq!(page[key], expected, "{key} of {page:#?}");
        }
        assert_eq!(
            summary(&ParsedMetrics::default(), &BTreeMap::new(), &[], &build, Timestamp::from_millis(1))["ready"],
            true
        );
    }
}
