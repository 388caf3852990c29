//! Summarises a running instance on one page, for `GET /status` and `dupgate status`.

use std::collections::BTreeMap;

use dupgate_core::worker::Mode;
use serde_json::{Map, Value, json};

use super::catalog::{self, Spec};
use super::labels::{Component, ErrorKind, LabelValue, Pause, VerdictLabel};
use super::metrics::{Build, MetricValues, Metrics, whole};
use crate::record::Timestamp;

/// Summarises the metrics and the checks. The input and the group, in observe mode the group that is used there, come
/// from `config`, the body of `/config`. Times of events that have not occurred are null.
#[must_use]
pub fn status(
    metrics: &Metrics,
    checks: &[(String, Result<(), String>)],
    build: &Build,
    config: &str,
    now: Timestamp,
) -> Value {
    let mut page = summary(&metrics.values(), &metrics.dead_letter_examples(), checks, build, now);
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    let is_observed = config.pointer("/config/mode").and_then(Value::as_str) == Some("observe");
    if let Some(input) = config.pointer("/config/input").and_then(Value::as_object) {
        let named = ["group", "instance_id", "topics"].into_iter();
        page.extend(named.filter_map(|key| Some((key.to_owned(), input.get(key)?.clone()))));
        if let Some(group) = input.get("group").and_then(Value::as_str).filter(|_| is_observed) {
            page.insert("group".to_owned(), Mode::Observe.own_name(group).into());
        }
    }
    page.into()
}

/// Summarises the metrics and the checks.
pub(super) fn summary(
    metrics: &MetricValues,
    examples: &BTreeMap<&'static str, (String, String)>,
    checks: &[(String, Result<(), String>)],
    build: &Build,
    now: Timestamp,
) -> Map<String, Value> {
    let waits: Vec<String> =
        checks.iter().filter_map(|(name, state)| Some(format!("{name}: {}", state.as_ref().err()?))).collect();
    let label = |name| metrics.label(&catalog::CONFIG_INFO, name);
    let count = |spec| metrics.count(spec);
    let age = |spec| metrics.largest(spec).and_then(millis).map(|then| now.millis().saturating_sub(then));
    let since_start = metrics.largest(&catalog::PROCESS_START_TIME).and_then(millis);
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
        "documents": object(metrics.by_label(&catalog::DOCUMENTS, VerdictLabel::LABEL)),
        "dead_letters": count(&catalog::DEAD_LETTERS),
        "dead_letter_reasons": dead_letters(metrics, examples),
        "pending_verdicts_ms": metrics.largest(&catalog::OLDEST_PENDING_VERDICT).and_then(millis),
        "assigned_partitions": object(metrics.by_label(&catalog::ASSIGNED_PARTITIONS, "topic")),
        "lag": count(&catalog::CONSUMER_LAG),
        "last_record_age_ms": age(&catalog::LAST_RECORD_TIMESTAMP),
        "paused": paused(metrics),
        "last_commit_age_ms": age(&catalog::LAST_COMMIT_TIMESTAMP),
        "judge": object(metrics.by_label(&catalog::JUDGE_ACTIVE, "log_partition")),
        "index_entries": count(&catalog::INDEX_ENTRIES),
        "index_memory_bytes": count(&catalog::INDEX_MEMORY),
        "index_memory_limit_bytes": count(&catalog::INDEX_MEMORY_LIMIT),
        "window_ms": metrics.largest(&catalog::INDEX_WINDOW).and_then(millis),
        "effective_window_ms": effective_window_ms(metrics),
        "snapshot_age_ms": age(&catalog::SNAPSHOT_LAST_SUCCESS),
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

/// Returns the span of event time from the oldest original to the newest judged page, in milliseconds.
pub(super) fn effective_window_ms(metrics: &MetricValues) -> Option<i64> {
    let oldest = metrics.largest(&catalog::INDEX_OLDEST_ENTRY).and_then(millis)?;
    let newest = metrics.largest(&catalog::INDEX_STREAM_TIME).and_then(millis)?;
    Some(newest.saturating_sub(oldest).max(0))
}

/// Converts seconds since 1970 to milliseconds; `None` for 0, which means never.
fn millis(seconds: f64) -> Option<i64> {
    let span = jiff::SignedDuration::try_from_secs_f64(seconds).ok().filter(|_| seconds > 0.0)?;
    i64::try_from(span.as_millis()).ok()
}

/// Lists every reason why a record got no verdict, with the last such record.
fn dead_letters(metrics: &MetricValues, examples: &BTreeMap<&'static str, (String, String)>) -> Vec<Value> {
    let of = |spec: &Spec, reason: &str| metrics.count_of(spec, &[("reason", reason)]);
    let tell = |(reason, (position, why)): (&&str, &(String, String))| {
        json!({
            "reason": reason,
            "delivered": of(&catalog::DEAD_LETTERS, reason),
            "held": of(&catalog::DEAD_LETTERS_HELD, reason),
            "example": position,
            "why": why,
        })
    };
    examples.iter().map(tell).collect()
}

fn object<'v>(values: impl Iterator<Item = (&'v str, f64)>) -> Map<String, Value> {
    values.map(|(name, number)| (name.to_owned(), whole(number).into())).collect()
}

/// Returns the reasons for which the input is paused.
fn paused(metrics: &MetricValues) -> Vec<&str> {
    let reasons = metrics.by_label(&catalog::CONSUMER_PAUSED, Pause::LABEL);
    reasons.filter(|(_, is_paused)| *is_paused > 0.0).map(|(reason, _)| reason).collect()
}

/// Counts the errors that have occurred, by component and kind.
fn errors(metrics: &MetricValues) -> BTreeMap<&str, BTreeMap<&str, u64>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (component, kind, count) in metrics.by_two_labels(&catalog::ERRORS, Component::LABEL, ErrorKind::LABEL) {
        if let Some(kind) = kind.filter(|_| count > 0.0) {
            found.entry(component).or_default().insert(kind, whole(count));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::protocol::LogPartition;
    use crate::record::Reject;
    use crate::telemetry::IndexTotals;
    use crate::telemetry::labels::CommitResult;
    use std::time::Duration;

    #[test]
    fn the_group_is_the_one_that_the_mode_uses() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let build = Build { version: "1".into(), revision: "a".into(), librdkafka: "2".into() };
        for (mode, group) in [("route", "crawl"), ("observe", "crawl.observe")] {
            let config = json!({"hash": "x", "config": {"mode": mode, "input": {"group": "crawl"}}}).to_string();
            assert_eq!(status(&metrics, &[], &build, &config, Timestamp::from_millis(1))["group"], group, "{mode}");
        }
    }

    #[test]
    fn the_page_shows_what_is_not_ready_and_the_state() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let started = metrics.values().largest(&catalog::PROCESS_START_TIME).and_then(millis).unwrap();
        // In whole seconds, which a metric shows exactly.
        let start = started.div_euclid(1000) * 1000;
        let at = |millis: i64| Timestamp::from_millis(start + millis);
        (0..25).for_each(|_| metrics.document(VerdictLabel::Near));
        metrics.config_info("crawl", "abc", "sh64-1", "route", "simhash");
        metrics.assigned_partitions(&BTreeMap::from([("a".to_owned(), 2)]));
        metrics.paused(Pause::Manual, true);
        metrics.committed(CommitResult::Ok, at(7500));
        metrics.judge_active(LogPartition(0), true);
        metrics.last_record("a", at(9000));
        metrics.index(
            LogPartition(0),
            IndexTotals { oldest: Some(at(2000)), stream_time: Some(at(8500)), ..IndexTotals::default() },
        );
        (0..3).for_each(|_| metrics.dead_letter(Reject::NoText));
        metrics.dead_letters_held(&BTreeMap::from([(Reject::NoText, 2)]));
        metrics.oldest_pending_verdict(Duration::from_millis(4500));
        (0..3).for_each(|_| metrics.error(Component::Log, ErrorKind::Corrupt));
        let checks = [("joined".to_owned(), Ok(())), ("restored".to_owned(), Err("restoring, 40 %".to_owned()))];
        let build = Build { version: "1.2.3".into(), revision: "abc".into(), librdkafka: "2.12.1".into() };
        let examples = BTreeMap::from([("no_text", ("a:0:7".to_owned(), "no text is left".to_owned()))]);
        let page = summary(&metrics.values(), &examples, &checks, &build, at(10_000));
        for (key, expected) in [
            ("version", json!("1.2.3")),
            ("ready", json!(false)),
            ("waits_for", json!(["restored: restoring, 40 %"])),
            ("mode", json!("route")),
            ("documents", json!({"bypass": 0, "exact": 0, "near": 25, "template": 0, "unique": 0, "update": 0})),
            ("assigned_partitions", json!({"a": 2})),
            ("paused", json!(["manual"])),
            ("judge", json!({"0": 1})),
            ("dead_letters", json!(3)),
            (
                "dead_letter_reasons",
                json!([{
                    "reason": "no_text", "delivered": 3, "held": 2, "example": "a:0:7", "why": "no text is left"
                }]),
            ),
            ("pending_verdicts_ms", json!(4500)),
            ("last_commit_age_ms", json!(2500)),
            ("last_record_age_ms", json!(1000)),
            ("effective_window_ms", json!(6500)),
            ("uptime_ms", json!(start + 10_000 - started)),
            ("snapshot_age_ms", json!(null)),
            ("errors", json!({"log": {"corrupt": 3}})),
        ] {
            assert_eq!(page[key], expected, "{key} of {page:#?}");
        }
        assert_eq!(summary(&metrics.values(), &BTreeMap::new(), &[], &build, at(1))["ready"], true);
    }
}
