//! One ruling, as `tap` and `rulings show` print it.

use serde_json::{Map, Value, json};

use crate::log::{Answer, PageRuling};
use crate::record::Source;
use crate::worker::verdict;

/// Returns the ruling as a JSON object; ids are added by whoever knows them.
pub(super) fn object(page: &PageRuling) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("source", page.source.to_string().into());
    put("verdict", verdict(page).into());
    put("event_time_ms", page.event_time.millis().into());
    if let Some(of) = page.decision.matched() {
        put("stage", of.stage.name().into());
        put("distance", of.distance.into());
        put("match", of.source.to_string().into());
        put("age_ms", of.age_ms.into());
        put("cluster", of.cluster.to_string().into());
    }
    if let Some(simhash) = page.decision.original().and_then(|original| original.fingerprints.simhash) {
        put("fp", simhash.to_string().into());
    }
    object
}

/// Returns any other answer as a JSON object.
pub(super) fn other(answer: &Answer) -> Value {
    match answer {
        Answer::Page(page) => Value::Object(object(page)),
        Answer::Withdrawn { source, reason } => {
            json!({"source": source.to_string(), "verdict": "withdrawn", "reason": reason.name()})
        }
        Answer::Forgotten(_) => json!({"verdict": "forgotten"}),
        Answer::Reopened { partition, from, to } => {
            json!({"verdict": "reopened", "range": format!("{partition}:{from}-{to}")})
        }
    }
}

/// Returns the ruling on one line: `near  d=2  a:3:1 ~ a:9:2  31h  ID ~ ID`.
pub(super) fn line(page: &PageRuling, id: impl Fn(&Source) -> Option<String>) -> String {
    let mut parts = vec![format!("{:<6}", verdict(page))];
    let own = id(&page.source);
    match page.decision.matched() {
        None => {
            parts.push(page.source.to_string());
            parts.extend(own);
        }
        Some(of) => {
            parts.push(format!("d={}", of.distance));
            parts.push(format!("{} ~ {}", page.source, of.source));
            parts.push(age(of.age_ms));
            let other = id(&of.source);
            if own.is_some() || other.is_some() {
                let shown = |id: Option<String>| id.unwrap_or_else(|| "-".to_owned());
                parts.push(format!("{}  ~  {}", shown(own), shown(other)));
            }
        }
    }
    parts.join("  ")
}

/// An age in its largest unit; before the original it is negative.
pub(super) fn age(millis: i64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];
    let size = millis.unsigned_abs();
    let sign = if millis < 0 { "-" } else { "" };
    // Two of a unit before it is used: 31 h say more than 1 d.
    match units.iter().find(|(_, unit)| size >= unit * 2) {
        Some((name, unit)) => format!("{sign}{}{name}", size / unit),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        assert_eq!([age(111_600_000), age(-5000), age(999), age(200_000_000)], ["31h", "-5s", "999ms", "2d"]);
    }
}
