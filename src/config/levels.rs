//! Log levels, for the program and for parts of it, and the format of log lines.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
