//! Writes a pair as a case for `dupgate test`: both pages as they are in the input, and their verdict.

use serde_json::{Map, Value, json};

use crate::kafka::pages::PageBytes;
use crate::record::Format;
use crate::telemetry::pairs::DeliveredDuplicate;

/// Maximum size of one page in a case: larger ones belong in files.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// Writes the case as one element of a list in YAML; `None` for pages that no case can hold.
///
/// Headers and keys are not part of a case.
pub(crate) fn yaml(seen: &DeliveredDuplicate, format: Format, [original, page]: &[PageBytes; 2]) -> Option<String> {
    let (one, other) = (as_page(format, original)?, as_page(format, page)?);
    let name = Value::from(format!(
        "{} ~ {}",
        seen.id.as_ref().map_or_else(|| seen.source.to_string(), Clone::clone),
        seen.original
    ));
    // JSON is valid YAML, so pages need no other escaping.
    Some(format!(
        "- name: {name}\n  one: {one}\n  other: {other}\n  expect: {}\n  stage: {}\n",
        seen.verdict, seen.stage
    ))
}

fn as_page(format: Format, bytes: &PageBytes) -> Option<Value> {
    let value = bytes.value.as_deref().filter(|value| value.len() <= MAX_VALUE_BYTES)?;
    match format {
        Format::Json => Some(json!({"record": serde_json::from_slice::<Map<String, Value>>(value).ok()?})),
        Format::Text => Some(json!({"text": std::str::from_utf8(value).ok()?})),
        Format::Html => Some(json!({"html": std::str::from_utf8(value).ok()?})),
        Format::Warc | Format::Avro | Format::Protobuf | Format::JsonSchema => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{PartitionId, Timestamp};

    fn seen() -> DeliveredDuplicate {
        let partition = PartitionId::new("pages", 0);
        DeliveredDuplicate {
            source: partition.at(7),
            original: partition.at(3),
            cluster: partition.at(3),
            verdict: "near",
            stage: "simhash",
            distance: 2,
            contained: None,
            age_ms: 0,
            id: Some("http://a/\"1\"".to_owned()),
            at: Timestamp::default(),
        }
    }

    fn page(value: &str) -> PageBytes {
        PageBytes { value: Some(value.as_bytes().to_vec()), ..PageBytes::default() }
    }

    #[test]
    fn a_case_holds_both_pages_and_the_verdict() {
        let pages = [page("{\"text\": \"one: #1\"}"), page("{\"text\": \"two\\n- name: x\"}")];
        let yaml = yaml(&seen(), Format::Json, &pages).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(
            read,
            json!([{
                "name": "http://a/\"1\" ~ pages:0:3",
                "one": {"record": {"text": "one: #1"}},
                "other": {"record": {"text": "two\n- name: x"}},
                "expect": "near",
                "stage": "simhash",
            }])
        );
        let read: Value = serde_saphyr::from_str(&super::yaml(&seen(), Format::Html, &pages).unwrap()).unwrap();
        assert_eq!(read[0]["one"]["html"], "{\"text\": \"one: #1\"}");
    }

    #[test]
    fn pages_that_a_case_cannot_hold_are_refused() {
        let large = "x".repeat(MAX_VALUE_BYTES + 1);
        for (format, other) in [(Format::Text, large.as_str()), (Format::Json, "[]")] {
            assert_eq!(yaml(&seen(), format, &[page("{}"), page(other)]), None);
        }
        assert_eq!(yaml(&seen(), Format::Text, &[page("a"), PageBytes::default()]), None);
    }
}
