//! Values with a grammar of their own: sizes, durations, the place where a new group starts, log levels, the address of
//! a collector of spans; and lists of words.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;
use serde::de::{Deserializer, Error, Unexpected};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::record::Timestamp;

/// Defines closed lists of words. A list has the type of another module with the same variants after `=`, or the word of
/// each variant if those are needed in messages.
macro_rules! words {
    (@list $(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$word_meta])* $word,)* }
    };
    (@list $(#[$meta:meta])* $name:ident = $meaning:path { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        words! { @list $(#[$meta])* $name { $($(#[$word_meta])* $word,)* } }

        impl From<$name> for $meaning {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$word => Self::$word,)*
                }
            }
        }
    };
    (@list $(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident = $text:literal,)* }) => {
        words! { @list $(#[$meta])* $name { $($(#[$word_meta])* #[serde(rename = $text)] $word,)* } }

        impl $name {
            /// Every word, in order.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$word),*];

            /// Returns the word that operators write.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }
        }
    };
    ($($(#[$meta:meta])* $name:ident $(= $meaning:path)? { $($words:tt)* })*) => {
        $(words! { @list $(#[$meta])* $name $(= $meaning)? { $($words)* } })*
    };
}
pub(super) use words;

/// Refuses a value of another kind, in the words of serde.
pub(super) fn wrong_kind<E: Error>(given: &Value, expected: &str) -> E {
    let given = match given {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    E::invalid_type(given, &expected)
}

/// Parses a text, and refuses any other value.
fn parsed<T: FromStr<Err = String>, E: Error>(given: &Value, expected: &str) -> Result<T, E> {
    given.as_str().ok_or_else(|| wrong_kind(given, expected))?.parse().map_err(E::custom)
}

/// A duration as written in the file: `72h`, `7d`, `500ms`, `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Units by name, largest first: a duration is printed in the largest that divides it.
const SPAN_UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|_| format!("`{text}` is not a duration: expected a number and a unit, such as 72h, 7d or 500ms"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let fits = |unit: &u128| nanos != 0 && nanos.is_multiple_of(*unit);
        let (name, unit) = SPAN_UNITS.iter().find(|(_, unit)| fits(unit)).unwrap_or(&("s", 1_000_000_000));
        write!(f, "{}{name}", nanos / unit)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(&Value::deserialize(deserializer)?, "a duration with its unit, such as 72h, 7d or 500ms")
    }
}

/// A number of bytes as written in the file: `8MiB`, `64KiB`, `4GiB`, or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units by name, largest first: a size is printed in the largest that divides it.
const BYTE_UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.chars().take_while(char::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim_start() {
            "" => Some(1),
            unit => BYTE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
        };
        let size = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
        size.map(Self).ok_or_else(|| {
            format!("`{text}` is not a size in bytes: expected a whole number and a unit, such as 64KiB, 8MiB or 4GiB")
        })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |factor: &u64| self.0 != 0 && self.0.is_multiple_of(*factor);
        let (unit, factor) = BYTE_UNITS.iter().find(|(_, factor)| fits(factor)).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(deserializer)?;
        given.as_u64().map(Self).map_or_else(|| parsed(&given, "a size in bytes, such as 64KiB, 8MiB or 4GiB"), Ok)
    }
}

/// How long verdicts stay readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// As long as the window needs.
    Window,
    /// At least this long.
    Span(Span),
}

impl FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "window" { Ok(Self::Window) } else { text.parse().map(Self::Span) }
    }
}

impl Serialize for Retention {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Window => serializer.serialize_str("window"),
            Self::Span(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(&Value::deserialize(deserializer)?, "`window` or a duration with its unit, such as 7d")
    }
}

/// Which partitions of the logs an instance serves, as judge or standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedPartitions {
    /// Every one.
    All,
    /// These.
    Some(Vec<u32>),
}

impl Serialize for ServedPartitions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Some(list) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ServedPartitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(deserializer)?;
        if given == "all" {
            Ok(Self::All)
        } else if given.is_array() {
            serde_json::from_value(given).map(Self::Some).map_err(D::Error::custom)
        } else {
            Err(wrong_kind(&given, "`all` or a list of partition numbers, such as [0, 2]"))
        }
    }
}

/// Where to start in a partition without a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest record of the partition.
    Earliest,
    /// After the newest record.
    Latest,
    /// The first record at or after this time.
    At(Timestamp),
    /// The first record that is at most this old when the partition is first read.
    Ago(Duration),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!("`{text}` is not a start: expected earliest, latest, a time such as 2026-09-01T00:00:00Z, or -7d")
        };
        let at = |time: jiff::Timestamp| Self::At(Timestamp::from_millis(time.as_millisecond()));
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => {
                if let Some(span) = text.strip_prefix('-') {
                    return span.parse().map(|Span(span)| Self::Ago(span)).map_err(|_| refuse());
                }
                if let Ok(time) = text.parse::<jiff::Timestamp>() {
                    return Ok(at(time));
                }
                let day = text.parse::<jiff::civil::Date>().map_err(|_| refuse())?;
                day.to_zoned(jiff::tz::TimeZone::UTC).map(|day| at(day.timestamp())).map_err(|_| refuse())
            }
        }
    }
}

/// The parts of the program that can have a separate level. The `target` of a log line is `dupgate::` and one of them,
/// or `librdkafka`.
pub const LOG_PARTS: [&str; 9] =
    ["cli", "http", "judge", "kafka", "replay", "service", "snapshot", "telemetry", "worker"];

/// The log levels, as in `info` or `info,dupgate::judge=debug,librdkafka=warn`: first the level of all lines, then
/// those of parts of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The level of all other lines.
    pub base: Level,
    /// By log target, as written in the `target` of a line.
    pub targets: Vec<(String, Level)>,
}

words! {
    /// How much is logged, least first.
    #[expect(missing_docs, reason = "the words that operators write")]
    Level { Off = "off", Error = "error", Warn = "warn", Info = "info", Debug = "debug", Trace = "trace", }
    /// How a log line looks.
    #[expect(missing_docs, reason = "the words that operators write")]
    LogFormat { Auto = "auto", Text = "text", Json = "json", }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| {
            format!("`{text}` is not a level: expected off, error, warn, info, debug or trace, or a list such as `info,dupgate::judge=debug`")
        })
    }
}

impl From<Level> for Levels {
    fn from(base: Level) -> Self {
        Self { base, targets: Vec::new() }
    }
}

impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut levels = Self::from(Level::Info);
        let mut is_given = false;
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((target, level)) => {
                    // Other libraries have no level of their own: their log lines may hold text of pages.
                    let part = target.strip_prefix("dupgate::");
                    if !["dupgate", "librdkafka"].contains(&target)
                        && !part.is_some_and(|part| LOG_PARTS.contains(&part))
                    {
                        return Err(format!(
                            "`{target}` cannot have a separate level: expected dupgate, librdkafka, or dupgate:: with one of {}",
                            LOG_PARTS.join(", ")
                        ));
                    }
                    levels.targets.push((target.to_owned(), level.parse()?));
                }
                None if is_given => return Err(format!("`{text}` gives two levels for everything")),
                None => {
                    levels.base = part.parse()?;
                    is_given = true;
                }
            }
        }
        Ok(levels)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.name())?;
        self.targets.iter().try_for_each(|(target, level)| write!(f, ",{target}={}", level.name()))
    }
}

impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
}

/// Why a text is not the address of a collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the address of a collector: expected http://host:port or https://host:port, without user and password"
)]
pub struct ParseEndpointError(String);

impl Endpoint {
    /// Returns the URL that spans are posted to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether the collector is reached by TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.starts_with("https:")
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let refused = || ParseEndpointError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
        let default_port = match scheme {
            "http" => 4318,
            "https" => 443,
            _ => return Err(refused()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| refused())?),
            None => (authority, default_port),
        };
        let legal = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
        let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || port == 0_u16 || !is_bare || !rest.chars().all(legal) {
            return Err(refused());
        }
        // A collector has one path for each kind of signal.
        let path = path.trim_end_matches('/');
        let path = if path.ends_with("v1/traces") {
            format!("/{path}")
        } else {
            let between = if path.is_empty() { "" } else { "/" };
            format!("/{path}{between}v1/traces")
        };
        let url = format!("{scheme}://{host}:{port}{path}");
        // Check the URI here, because the exporter would refuse it only when it starts.
        if url.parse::<Uri>().is_ok() { Ok(Self { url }) } else { Err(refused()) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        let hours = |hours: u64| Ok(Span(Duration::from_secs(hours * 3600)));
        assert_eq!("72h".parse(), hours(72));
        assert_eq!("7d".parse(), hours(7 * 24));
        assert_eq!("500ms".parse(), Ok(Span(Duration::from_millis(500))));
        for text in ["72", "", "h", "-1h", "7 days ago"] {
            let refused = text.parse::<Span>().unwrap_err();
            assert!(refused.contains(&format!("`{text}` is not a duration")), "{refused}");
        }
    }

    #[test]
    fn sizes_are_counted_in_the_unit_that_is_written() {
        assert_eq!("8MiB".parse(), Ok(ByteSize(8 << 20)));
        assert_eq!("64KiB".parse(), Ok(ByteSize(64 << 10)));
        assert_eq!("4 GiB".parse(), Ok(ByteSize(4 << 30)));
        assert_eq!("5kB".parse(), Ok(ByteSize(5000)));
        assert_eq!("17".parse(), Ok(ByteSize(17)));
        for text in ["", "MiB", "-1B", "1.5GiB", "8mib", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn units_print_as_they_are_written() {
        for text in ["8MiB", "64KiB", "4GiB", "5kB", "17B", "0B"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        for text in ["6h", "500ms", "3d", "90m", "0s", "1500ms", "30d"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_start_is_a_word_a_time_or_an_age() {
        let at = |millis| Ok(Start::At(Timestamp::from_millis(millis)));
        assert_eq!("earliest".parse(), Ok(Start::Earliest));
        assert_eq!("latest".parse(), Ok(Start::Latest));
        assert_eq!("-7d".parse(), Ok(Start::Ago(Duration::from_hours(7 * 24))));
        assert_eq!("2026-09-01T00:00:00Z".parse(), at(1_788_220_800_000));
        assert_eq!("2026-09-01T02:00:00+02:00".parse(), at(1_788_220_800_000));
        assert_eq!("2026-09-01".parse(), at(1_788_220_800_000));
        for text in ["", "-", "7d", "yesterday", "2026-13-01"] {
            assert!(text.parse::<Start>().is_err(), "{text}");
        }
    }

    #[test]
    fn formats_are_written_by_their_names() {
        for format in LogFormat::ALL {
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
    }

    #[test]
    fn a_level_for_all_and_levels_for_parts() {
        for text in ["info", "off", "warn,dupgate::judge=debug", "error,librdkafka=debug,dupgate=trace"] {
            assert_eq!(text.parse::<Levels>().unwrap().to_string(), text);
        }
        assert_eq!("dupgate::kafka=trace".parse::<Levels>().unwrap().to_string(), "info,dupgate::kafka=trace");
        for (text, why) in [
            ("loud", "`loud` is not a level"),
            ("info,debug", "two levels"),
            ("info,dupgate=loud", "`loud` is not a level"),
            ("info,html5ever=debug", "`html5ever` cannot have a separate level"),
            ("log=trace", "`log` cannot have a separate level"),
            ("dupgates=trace", "`dupgates` cannot have a separate level"),
            (
                "dupgate::judges=trace",
                "`dupgate::judges` cannot have a separate level: expected dupgate, librdkafka, or dupgate:: with one of cli, http, judge,",
            ),
            ("", "`` is not a level"),
        ] {
            let refused = text.parse::<Levels>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn an_endpoint_is_the_address_of_a_collector() {
        let shown = |text: &str| text.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
        let traces = |text: &str| Ok(text.to_owned());
        assert_eq!(shown("http://otel:4318"), traces("http://otel:4318/v1/traces"));
        assert_eq!(shown("http://otel"), traces("http://otel:4318/v1/traces"));
        assert_eq!(shown("http://otel:80/otlp/"), traces("http://otel:80/otlp/v1/traces"));
        assert_eq!(shown("http://[::1]:4318/v1/traces"), traces("http://[::1]:4318/v1/traces"));
        assert_eq!(shown("https://otel:4318"), traces("https://otel:4318/v1/traces"));
        assert_eq!(shown("https://otel"), traces("https://otel:443/v1/traces"));
        let is_https = |text: &str| text.parse::<Endpoint>().unwrap().is_https();
        assert!(is_https("https://otel") && !is_https("http://https"));
        for wrong in [
            "",
            "otel:4318",
            "grpc://otel:4317",
            "http://:4318",
            "http://a:b",
            "http://a:70000",
            "http://u:p@otel:4318",
            "http://a b",
            "http://a/<b>",
        ] {
            assert_eq!(shown(wrong), Err(ParseEndpointError(wrong.to_owned())));
        }
    }
}
