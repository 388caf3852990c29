//! `docs/CONFIGURATION.md` agrees with the schema, the annotated sample and the checks of the code.

use std::fmt::Write;
use std::time::Duration;

use dupgate::config::{ByteSize, ChangeImpact, ExternalInputs, Layers, Purpose, Span, decides, schema};
use serde_json::{Value, json};

use super::{REQUIRED, sample, up_to_date};

const HEAD: &str = "# Configuration

This page lists every setting by section. Settings come from one or more YAML files, where later files override earlier ones.
Environment variables (`DUPGATE_WINDOW__SIZE=24h`) override files, and `--set window.size=24h` overrides both. Only the
settings marked as required must be given.

- `dupgate config init` prints a minimal file, `dupgate config init --full` all settings as a file.
- `dupgate config show --origin` prints the effective settings and where each comes from.
- `dupgate validate` reports all problems of a file.
- `dupgate config schema` prints a JSON Schema for editors.

| value | written as |
|---|---|
| duration | a number and its unit: `500ms`, `10s`, `15m`, `72h`, `7d`, `1h 30m` |
| size | bytes, or a number and its unit: `64MiB`, `4GiB`, `100kB` |
| secret | `{file: /run/secrets/name}` or `{env: NAME}`; plain text works, with a warning |
| field | a place in the record: `/url`, `header:content-type`, `key`, or a map; see [Fields](#fields) |
| list | `[zh, en]`; in an environment variable `zh,en` |
| map | `{site: news}`, with any keys |
| none | `null` |

**Range** is what is accepted while all other settings have their defaults. **Decides** shows what a change costs:

| decides | what depends on the setting | effect of a change |
|---|---|---|
| state | the group and logs that hold the state | starts without any state |
| scheme | fingerprints | starts a new index, see `dupgate config diff` and `dupgate index warm` |
| rules | verdicts | applies from the next verdict on |
| work | how the work is done | needs a restart |

This page is generated from `config/dupgate.yaml` and the checks in the code by
`DUPGATE_WRITE_DOCS=1 cargo test --test consistency`.

## Fields

| field | reads |
|---|---|
| `/meta/url` | a member of the JSON value: a JSON pointer (RFC 6901), in which `~1` means `/` and `~0` means `~` |
| `/links/0` | an element of a list, counted from 0 |
| `/message/~json/url` | a member of JSON that is written in a string, plain or in base64 |
| `header:site` | the last header of this name |
| `key` | the key of the record |
| `{path: /body, encoding: base64}` | text or HTML that is packed: `base64`, `gzip`, `zstd`, `deflate`, `br` or a list, the outermost first (`[base64, gzip]`) |
| `{path: /crawled, zone: UTC}` | a time that may be written without its zone: UTC, a name such as `Europe/Berlin`, or `+08:00` |

Null, an empty list and a missing member mean that the page has no such field. The strings of a list are the paragraphs of
a text or page and are joined by line breaks; for any other field, a list of one value is that value. In JSON, a byte order
mark at the beginning, `NaN` and `Infinity` (which count as null) and half a surrogate pair (which counts as U+FFFD) are
accepted. A text that is base64 without a setting that says so, or one run of 256 and more letters and digits, is a dead
letter whose message names the setting. A byte order mark, the beginning of a `data:` address and the quotes of Python's
`b'...'` around base64 are left out.
[INPUT.md](INPUT.md) lists what common crawlers send, with the settings that read it. The same pointers find the
fields of Avro and Protobuf values, as [OPERATIONS.md](OPERATIONS.md#schema-registry) describes.

Values are unpacked in every format: by `input.encoding` if it is set; else by the record's header `content-encoding`, in
any case, which lists codings in the order of their use (`base64`, `gzip`, `x-gzip`, `zstd`, `deflate`, `br`,
`identity`); else, if they are compressed with gzip or zstd, by their first bytes. Crawlers copy the header of a response
whose body they have decoded already: a value that is not coded as its header says is read as it is, unless it is no
text either; then it is a dead letter.

With `input.format: warc` each value is one WARC record (1.0 or 1.1). Pointers name its headers, in any case:
`/WARC-Target-URI` is the id and `/WARC-Date` the time unless other fields are set. `text` and `html` are not used: the
page is the payload of a `response`, `resource` or `conversion` record, decoded from its chunks and content encoding, HTML
or plain text by its media type, in the declared or detected encoding. What a crawler cut (`WARC-Truncated`) is judged by
what is there. Records of other types (`warcinfo`, `request`, `metadata`, `revisit`) and payloads of other media types
have no page and are dead letters (`missing_field`): where a topic carries many of them, filter them before, or set
`processing.pause_above_dead_letter_ratio` to match.

A time (`input.fields.fetched_at`) has one of these forms; any other is a dead letter:

| form | example |
|---|---|
| number since 1970, also with a fraction or as text: seconds below 10¹¹, milliseconds below 10¹⁴, microseconds below 10¹⁷, else nanoseconds | `1716286210`, `1716286210.25`, `1716286210250` |
| ISO 8601 with a zone (RFC 3339, RFC 9557) | `2024-05-21T10:10:10Z`, `2024-05-21 12:10:10.25+02:00` |
| the same with a space before the zone | `2024-05-21 10:10:10 UTC`, `2024-05-21 12:10:10 +0200` |
| RFC 2822 | `Tue, 21 May 2024 10:10:10 GMT` |
| ISO 8601 without a zone, if `zone` gives it | `2024-05-21 10:10:10`, `2024-05-21T10:10:10.25`, `2024-05-21` |

Numbers that read as a date (`20240521`, `20240521101010`) or are counted from another year (ticks of .NET, file times of
Windows) are refused. A time that was never set (0, or the first moment of the year 1) is missing. The unit of Kafka's
record timestamps is read from their size, too.
";

/// Durations above this count as unlimited.
const ENDLESS: u64 = 1 << 42;

fn accepts(path: &str, value: &str) -> bool {
    let mut layers = Layers::default();
    // Without it the logs have at most one partition.
    layers.set("input.fields.scope=/site");
    layers.set(&format!("{path}={value}"));
    layers.resolve(&ExternalInputs::default(), Purpose::Sieve).is_ok()
}

/// The kind of a key's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Choice,
    Truth,
    Whole,
    Number,
    Duration,
    Size,
    Secret,
    List,
    Map,
    Text,
}

fn kind(shape: &Value) -> Kind {
    let text = shape.to_string();
    let is = |name: &str| shape["type"] == name || shape["type"] == json!([name, "null"]);
    if shape.get("enum").is_some() {
        Kind::Choice
    } else if text.contains("\"500ms\"") {
        Kind::Duration
    } else if text.contains("[TGMK]iB") {
        Kind::Size
    } else if text.contains("\"env\"") {
        Kind::Secret
    } else if is("boolean") {
        Kind::Truth
    } else if is("integer") {
        Kind::Whole
    } else if is("number") {
        Kind::Number
    } else if list(shape).is_some() {
        Kind::List
    } else if is("object") {
        Kind::Map
    } else {
        Kind::Text
    }
}

/// The shape of a list, which may also be written as one text.
fn list(shape: &Value) -> Option<&Value> {
    [shape, &shape["anyOf"][0]].into_iter().find(|shape| shape["type"] == "array")
}

/// The type of a key in words, with its choices, if any.
fn type_of(path: &str, shape: &Value) -> String {
    let words = |list: &Value| {
        let words = list.as_array().into_iter().flatten().filter_map(Value::as_str).map(|word| format!("`{word}`"));
        words.collect::<Vec<_>>().join(", ")
    };
    match kind(shape) {
        Kind::Choice => words(&shape["enum"]),
        Kind::Truth => "`true`, `false`".to_owned(),
        Kind::Whole => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Duration => "duration".to_owned(),
        Kind::Size => "size".to_owned(),
        Kind::Secret => "secret".to_owned(),
        Kind::List => match list(shape).and_then(|list| list["items"].get("enum")) {
            Some(choices) => format!("list of {}", words(choices)),
            None => "list".to_owned(),
        },
        Kind::Map => "map".to_owned(),
        Kind::Text if path.starts_with("input.fields.") => "field".to_owned(),
        Kind::Text if shape.to_string().contains("\"const\":\"all\"") => "`all`, or a list of whole numbers".to_owned(),
        Kind::Text if shape.get("examples").is_some() => format!("text, such as {}", words(&shape["examples"])),
        Kind::Text => "text".to_owned(),
    }
}

/// The smallest and the largest accepted number around an accepted one; no largest if none is refused.
fn bounds(good: u64, is_accepted: impl Fn(u64) -> bool) -> (u64, Option<u64>) {
    let between = |mut refused: u64, mut accepted: u64| {
        while refused.abs_diff(accepted) > 1 {
            let middle = u64::midpoint(refused, accepted);
            *(if is_accepted(middle) { &mut accepted } else { &mut refused }) = middle;
        }
        accepted
    };
    let min = if is_accepted(0) { 0 } else { between(0, good) };
    let max = (!is_accepted(ENDLESS)).then(|| between(ENDLESS, good));
    // A limit that comes only from the type of the number is omitted.
    let max = max.filter(|max| i32::try_from(*max).is_ok_and(|max| max < i32::MAX));
    (min, max)
}

fn range(path: &str, shape: &Value, default: &Value) -> String {
    let text = default.as_str().unwrap_or_default();
    let range_text = |(min, max): (u64, Option<u64>), show: &dyn Fn(u64) -> String| match (min, max) {
        (0, None) => String::new(),
        (min, None) => format!("at least {}", show(min)),
        (min, Some(max)) => format!("{} to {}", show(min), show(max)),
    };
    match kind(shape) {
        Kind::Whole => {
            let is_accepted = |number: u64| accepts(path, &number.to_string());
            let usual = [1, 2, 16, 1000, 1_000_000];
            let good = default.as_u64().or_else(|| usual.into_iter().find(|number| is_accepted(*number))).unwrap();
            if good > 0 && !is_accepted(good - 1) && !is_accepted(good + 1) {
                let accepted = (0..=256).filter(|number| is_accepted(*number)).map(|number| number.to_string());
                return accepted.collect::<Vec<_>>().join(", ");
            }
            range_text(bounds(good, is_accepted), &|number| number.to_string())
        }
        Kind::Number => {
            let is_accepted = |hundredths: i32| accepts(path, &(f64::from(hundredths) / 100.0).to_string());
            let accepted: Vec<i32> = (-10..=200).filter(|hundredths| is_accepted(*hundredths)).collect();
            let (min, max) = accepted.first().copied().zip(accepted.last().copied()).unwrap();
            let show = |hundredths: i32| (f64::from(hundredths) / 100.0).to_string();
            let min = if min == 1 && accepts(path, "0.001") { "above 0".to_owned() } else { show(min) };
            format!("{min} to {}", show(max))
        }
        Kind::Duration => {
            let good: Span = text.parse().unwrap_or(Span(Duration::from_hours(1)));
            let good = u64::try_from(good.0.as_millis()).unwrap();
            let bounds = bounds(good, |millis| accepts(path, &format!("{millis}ms")));
            range_text(bounds, &|millis| Span(Duration::from_millis(millis)).to_string())
        }
        Kind::Size => {
            let good = text.parse().map_or(1 << 30, |ByteSize(bytes)| bytes);
            range_text(bounds(good, |bytes| accepts(path, &format!("{bytes}B"))), &|bytes| ByteSize(bytes).to_string())
        }
        Kind::Choice | Kind::Truth | Kind::Secret | Kind::List | Kind::Map | Kind::Text => String::new(),
    }
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    let mut joined = String::new();
    for line in text.lines() {
        // A list has its words in a separate column, each at the beginning of a line.
        let begins_item = line.contains("  ");
        joined.push_str(if joined.is_empty() {
            ""
        } else if begins_item {
            "<br>"
        } else {
            " "
        });
        joined.push_str(&line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let mut escaped = String::new();
    for (number, part) in joined.split('`').enumerate() {
        let is_code = number % 2 == 1;
        let part = if is_code { part.to_owned() } else { part.replace('<', "&lt;").replace("&lt;br>", "<br>") };
        escaped.push_str(if number > 0 { "`" } else { "" });
        escaped.push_str(&part.replace('|', "\\|"));
    }
    escaped
}

fn rows(shape: &Value, path: &str, written: &Value, text: &mut String) {
    if let Some(properties) = shape["properties"].as_object() {
        for (key, below) in properties {
            let path = format!("{path}.{key}");
            if below.get("properties").is_some()
                && let Some(about) = below["description"].as_str()
            {
                writeln!(text, "| **`{path}`** | | | | | {} |", cell(about)).unwrap();
            }
            rows(below, &path, &written[key], text);
        }
        return;
    }
    let required = REQUIRED.iter().any(|(key, _)| *key == path);
    let default = match written {
        _ if required => "required".to_owned(),
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => format!("`{written}`"),
    };
    let choices = shape["enum"].as_array().map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    // A comment that only lists the choices adds nothing to the column of values.
    let about =
        shape["description"].as_str().filter(|about| choices.is_none_or(|choices| choices.join(" | ") != *about));
    let about = about.map(cell).unwrap_or_default();
    let (value, range) = (type_of(path, shape), range(path, shape, written));
    let decides: ChangeImpact = decides(path);
    writeln!(text, "| `{path}` | {value} | {range} | {default} | {decides} | {about} |").unwrap();
}

const COLUMNS: &str = "| setting | value | range | default | decides | meaning |\n|---|---|---|---|---|---|\n";

fn document() -> String {
    let written: Value = serde_saphyr::from_str(&sample()).unwrap();
    let schema = schema();
    let (sections, alone): (Vec<_>, Vec<_>) =
        schema["properties"].as_object().unwrap().iter().partition(|(_, below)| below.get("properties").is_some());
    let mut text = format!("{HEAD}\n## Top level\n\n{COLUMNS}");
    for (key, shape) in alone {
        rows(shape, key, &written[key], &mut text);
    }
    for (key, shape) in sections {
        let about = shape["description"].as_str().map(|about| format!("{}\n\n", cell(about))).unwrap_or_default();
        write!(text, "\n## `{key}`\n\n{about}{COLUMNS}").unwrap();
        rows(shape, key, &written[key], &mut text);
    }
    text
}

#[test]
fn the_page_of_settings_agrees_with_the_code() {
    up_to_date("docs/CONFIGURATION.md", &document());
}

#[test]
fn ranges_agree_with_the_checks() {
    let written: Value = serde_saphyr::from_str(&sample()).unwrap();
    let schema = schema();
    for (path, expected) in [
        ("match.simhash.max_distance", "0 to 8"),
        ("match.simhash.bits", "32, 64, 128"),
        ("match.minhash.permutations", "126 to 255"),
        ("match.number_overlap", "0 to 1"),
        ("tracing.sample_ratio", "above 0 to 1"),
        ("judge.session_timeout", "1s to 5m"),
        ("window.size", "at least 1ms"),
        ("kafka.client_id", ""),
    ] {
        let shape = path.split('.').fold(&schema, |shape, key| &shape["properties"][key]);
        let default = path.split('.').fold(&written, |written, key| &written[key]);
        assert_eq!(range(path, shape, default), expected, "{path}");
    }
}

#[test]
fn the_page_has_every_key() {
    let text = document();
    for key in super::known_keys() {
        assert!(text.contains(&format!("| `{key}` |")) || text.contains(&format!("| `{key}.")), "{key} is missing");
    }
}
