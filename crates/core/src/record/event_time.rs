//! Reads the time of a page in the forms that crawlers write.

use super::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, temporal};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::str::FromStr;

/// The zone of times that name none: `UTC`, `Europe/Berlin`, `+08:00`.
///
/// Rules of zones come from the database in the program, so every machine reads a time alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

impl Zone {
    /// Returns the name, as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A text that names no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no time zone: expected UTC, the name of a zone such as Europe/Berlin, or an offset such as +08:00"
)]
pub struct ParseZoneError(String);

impl FromStr for Zone {
    type Err = ParseZoneError;

    fn from_str(name: &str) -> Result<Self, ParseZoneError> {
        const PARSER: temporal::DateTimeParser = temporal::DateTimeParser::new();
        let rules = match name {
            "UTC" | "Z" => Ok(TimeZone::UTC),
            // Only names of the database: in a POSIX zone, `UTC+1` is an hour west of Greenwich.
            _ if name.starts_with(['+', '-']) => PARSER.parse_time_zone_with(&TimeZoneDatabase::none(), name),
            _ => TimeZoneDatabase::bundled().get(name),
        };
        rules.map(|rules| Self { name: name.to_owned(), rules }).map_err(|_| ParseZoneError(name.to_owned()))
    }
}

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTime {
    /// None of the accepted forms.
    Form,
    /// The digits of a date, such as `20240521101010`: as a number of seconds or parts of them, it would be another time.
    DateDigits,
    /// A number that is counted from another year, as .NET's ticks and Windows' file times are: since 1970, so many
    /// nanoseconds would be before the web.
    OtherEpoch,
    /// A date and time of day in an unknown zone.
    Zone,
}

/// A number of nanoseconds below this (1991-01-01) is not counted from 1970.
const LEAST_NANOS: u64 = 662_688_000_000_000_000;

/// The first moment of the year 1, in milliseconds: Go's and .NET's times that were never set.
const YEAR_1: i64 = -62_135_596_800_000;

/// Returns whether a time is one that was never set: zero, or the first moment of the year 1.
pub(super) const fn is_unset(time: Timestamp) -> bool {
    matches!(time.millis(), 0 | YEAR_1)
}

/// Reads a time: a number since 1970, whose size shows its unit ([`Timestamp::by_size`]), with a fraction or without; an
/// ISO 8601 time (RFC 3339, RFC 9557) or an RFC 2822 time; without a zone only if `zone` gives it.
pub(super) fn parse(text: &str, zone: Option<&Zone>) -> Result<Timestamp, NoTime> {
    let text = text.trim();
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
        // pandas writes whole numbers with a fraction where a value is missing.
        if is_date(text.strip_suffix(".0").unwrap_or(text)) {
            return Err(NoTime::DateDigits);
        }
        if let Ok(number) = text.parse::<i64>() {
            let is_other =
                u64::try_from(number).is_ok_and(|nanos| (Timestamp::LEAST_IN_NANOS..LEAST_NANOS).contains(&nanos));
            return if is_other { Err(NoTime::OtherEpoch) } else { Ok(Timestamp::by_size(number)) };
        }
        if let Some(time) = fraction(text) {
            return Ok(time);
        }
    }
    let read = |time: jiff::Timestamp| Timestamp::from_millis(time.as_millisecond());
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(read(time));
    }
    if let Ok(time) = rfc2822::parse(text) {
        return Ok(read(time.timestamp()));
    }
    // `2024-05-21 10:10:10 UTC`, as SQL and Ruby write it.
    let (local, named) = [" UTC", " GMT", " Z"]
        .iter()
        .find_map(|end| text.strip_suffix(end))
        .map_or((text, None), |local| (local, Some(TimeZone::UTC)));
    // `2024-05-21 10:10:10 +0200`
    if let Some((local, offset)) = local.rsplit_once(' ').filter(|(_, end)| end.starts_with(['+', '-']))
        && let Ok(time) = format!("{local}{offset}").parse::<jiff::Timestamp>()
    {
        return Ok(read(time));
    }
    let is_plain = local.bytes().all(|byte| byte.is_ascii_digit() || b"-:.,tT ".contains(&byte));
    let local: DateTime = Some(local).filter(|_| is_plain).and_then(|local| local.parse().ok()).ok_or(NoTime::Form)?;
    let rules = named.or_else(|| zone.map(|zone| zone.rules.clone())).ok_or(NoTime::Zone)?;
    local.to_zoned(rules).map(|time| read(time.timestamp())).map_err(|_| NoTime::Form)
}

/// Reads a number with a fraction or an exponent, rounded to milliseconds.
fn fraction(text: &str) -> Option<Timestamp> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"-+.eE".contains(&byte)) {
        return None;
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.abs() < 9.2e18)?;
    // Whole numbers of this size are exact, and so is the split.
    let (whole, rest) = (number.trunc(), number.fract());
    #[expect(clippy::cast_possible_truncation, reason = "the number is within the range of the type")]
    let (whole, thousandths) = (whole as i64, (rest * 1000.0).round() as i64);
    let time = Timestamp::by_size(whole);
    let is_in_seconds = whole.unsigned_abs() < Timestamp::LEAST_IN_MILLIS;
    Some(if is_in_seconds { Timestamp::from_millis(time.millis().saturating_add(thousandths)) } else { time })
}

/// Returns whether digits read as a date of the years 1900 to 2199, to the day, minute, second or millisecond.
///
/// Ten digits, a date to the hour, are never taken for one: from 2030 on, seconds look like that.
fn is_date(digits: &str) -> bool {
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<u32>().ok();
    let is_day = matches!(part(0..4), Some(1900..=2199))
        && matches!(part(4..6), Some(1..=12))
        && matches!(part(6..8), Some(1..=31));
    let is_time = |range: std::ops::Range<usize>, most: u32| part(range).is_some_and(|number| number <= most);
    let is_minute = is_time(8..10, 23) && is_time(10..12, 59);
    is_day
        && match digits.len() {
            8 => true,
            12 => is_minute,
            14 | 17 => is_minute && is_time(12..14, 60),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-05-21T10:10:10Z.
    const MILLIS: i64 = 1_716_286_210_000;

    fn utc(text: &str) -> Result<i64, NoTime> {
        parse(text, Some(&"UTC".parse().unwrap())).map(Timestamp::millis)
    }

    fn without_zone(text: &str) -> Result<i64, NoTime> {
        parse(text, None).map(Timestamp::millis)
    }

    #[test]
    fn the_size_of_a_number_shows_its_unit() {
        for (text, expected) in [
            ("1716286210", MILLIS),
            ("1716286210123", MILLIS + 123),
            ("1716286210123456", MILLIS + 123),
            ("1716286210123456789", MILLIS + 123),
            ("1716286210.0", MILLIS),
            ("1716286210.123456", MILLIS + 123),
            ("1716286210.9996", MILLIS + 1000),
            ("1716286210123.0", MILLIS + 123),
            ("1.716286210123E12", MILLIS + 123),
            ("1.71628621e9", MILLIS),
            (" 1716286210 ", MILLIS),
            ("0", 0),
            ("-1", -1000),
            ("-631152000", -631_152_000_000),
            ("99999999999", 99_999_999_999_000),
            ("100000000000", 100_000_000_000),
            ("-100000000000", -100_000_000_000),
            ("99999999999999", 99_999_999_999_999),
            ("100000000000000", 100_000_000_000),
            ("99999999999999999", 99_999_999_999_999),
            ("662688000000000000", 662_688_000_000),
            ("-100000000000000000", -100_000_000_000),
            ("9223372036854775807", 9_223_372_036_854),
            ("-1.5", -1500),
        ] {
            assert_eq!(without_zone(text), Ok(expected), "{text}");
        }
        for text in ["99999999999999999999", "1e300", "1e", "-", ".", "1.2.3", "", " ", "NaN", "12:30"] {
            assert_eq!(without_zone(text), Err(NoTime::Form), "{text}");
        }
    }

    #[test]
    fn the_digits_of_a_date_are_no_number_of_seconds() {
        for text in [
            "20240521",
            "202405211010",
            "20240521101010",
            "20240521101010123",
            "19991231235960",
            "20240521.0",
            "20240521101010.0",
        ] {
            assert_eq!(utc(text), Err(NoTime::DateDigits), "{text}");
        }
        // Ticks of .NET and a file time of Windows, both of 2024, and the limits.
        for text in ["638518830100000000", "133607598100000000", "100000000000000000", "662687999999999999"] {
            assert_eq!(utc(text), Err(NoTime::OtherEpoch), "{text}");
        }
        for text in
            ["2024052110", "20241321", "20240532", "20240521241010", "20240521106010", "18991231", "1716286210123"]
        {
            assert!(utc(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_time_that_was_never_set_is_zero_or_of_the_year_1() {
        for text in ["0", "0.0", "-0", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00"] {
            assert!(is_unset(parse(text, Some(&"UTC".parse().unwrap())).unwrap()), "{text}");
        }
        for text in ["1", "-1", "1970-01-01T00:00:01Z", "1716286210"] {
            assert!(!is_unset(parse(text, None).unwrap()), "{text}");
        }
    }

    #[test]
    fn a_time_may_name_its_zone_in_many_ways() {
        for text in [
            "2024-05-21T10:10:10Z",
            "2024-05-21t10:10:10z",
            "2024-05-21 10:10:10Z",
            "2024-05-21T10:10:10.000Z",
            "2024-05-21T10:10:10,0+00:00",
            "2024-05-21 10:10:10+00:00",
            "2024-05-21T12:10:10+0200",
            "2024-05-21T12:10:10+02",
            "2024-05-21 12:10:10 +0200",
            "2024-05-21T10:10:10 +00:00",
            "20240521T101010Z",
            "2024-05-21T12:10:10+02:00[Europe/Berlin]",
            "2024-05-21 10:10:10 UTC",
            "2024-05-21 10:10:10.000000 UTC",
            "Tue, 21 May 2024 10:10:10 GMT",
            "Tue, 21 May 2024 12:10:10 +0200",
            "21 May 2024 10:10:10 +0000",
        ] {
            assert_eq!(without_zone(text), Ok(MILLIS), "{text}");
            assert_eq!(parse(text, Some(&"Asia/Tokyo".parse().unwrap())).map(Timestamp::millis), Ok(MILLIS), "{text}");
        }
    }

    #[test]
    fn a_time_without_a_zone_is_read_in_the_zone_that_is_given() {
        for text in [
            "2024-05-21 10:10:10",
            "2024-05-21T10:10:10",
            "2024-05-21 10:10:10.000001",
            "20240521T101010",
            "2024-05-21T10:10:10,0",
        ] {
            assert_eq!(without_zone(text), Err(NoTime::Zone), "{text}");
            assert_eq!(utc(text), Ok(MILLIS), "{text}");
            for (zone, hours) in [("Europe/Berlin", 2), ("Asia/Shanghai", 8), ("+08:00", 8), ("America/New_York", -4)] {
                let zone: Zone = zone.parse().unwrap();
                let expected = MILLIS - hours * 3_600_000;
                assert_eq!(parse(text, Some(&zone)).map(Timestamp::millis), Ok(expected), "{text} in {}", zone.name());
            }
        }
        assert_eq!(utc("2024-05-21"), Ok(MILLIS - 36_610_000), "a day begins at midnight");
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        let winter = parse("2024-01-21 11:10:10", Some(&berlin)).unwrap().millis();
        assert_eq!(winter, utc("2024-01-21 10:10:10").unwrap());
        for text in [
            "2024-13-21",
            "yesterday",
            "10:10:10",
            "2024-05-21 10:10:10 CEST",
            "2024-05-21T10:10:10[Asia/Tokyo]",
            "21.05.2024",
        ] {
            assert_eq!(utc(text), Err(NoTime::Form), "{text}");
        }
    }

    #[test]
    fn what_names_no_zone_is_refused_with_the_value() {
        for text in ["", "local", "Europe/Bremen", "8", "utc+1"] {
            let error = text.parse::<Zone>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` names no time zone")), "{error}");
        }
    }
}
