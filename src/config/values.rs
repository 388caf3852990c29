//! Values with a grammar of their own: sizes, durations, the place where a new group starts, log levels, the address of
//! a collector of spans.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::record::Timestamp;

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
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, such as 72h, 7d or 500ms")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
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
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size in bytes, such as 64KiB, 8MiB or 4GiB")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(number))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<ByteSize, E> {
                u64::try_from(number).map(ByteSize).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
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

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words that operators write")]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    /// Every level, least first, with its word.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Off, "off"),
        (Self::Error, "error"),
        (Self::Warn, "warn"),
        (Self::Info, "info"),
        (Self::Debug, "debug"),
        (Self::Trace, "trace"),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(level, _)| *level).ok_or_else(|| {
            format!("`{text}` is not a level: expected off, error, warn, info, debug or trace, or a list such as `info,dupgate::judge=debug`")
        })
    }
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words that operators write")]
pub enum LogFormat {
    Auto,
    Text,
    Json,
}

impl LogFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Text, Self::Json];

    /// Returns the word that operators write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        }
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
                    levels.targets.push((target.to_owned(), Level::parse(level)?));
                }
                None if is_given => return Err(format!("`{text}` gives two levels for everything")),
                None => {
                    levels.base = Level::parse(part)?;
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
