//! Formats numbers and times for people. Programs get plain numbers, with the unit in the name.

use std::time::Duration;

use crate::record::Timestamp;

/// Units of time from the largest, in milliseconds.
const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];

/// Writes a count with thousands separators: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a time as `2026-09-01T00:00:00Z`; empty if it is outside the calendar.
pub(super) fn time(time: Timestamp) -> String {
    time.rfc3339().unwrap_or_default()
}

/// Writes a duration in its two largest units: `3 d 6 h`, `24 min 37 s`, `13 s`, `939 ms`.
pub(super) fn span(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if millis < 1000 {
        return format!("{millis} ms");
    }
    let mut left = millis;
    let mut parts = Vec::new();
    for (name, unit) in UNITS {
        // The second unit is the next smaller one, or there is none: a day and seven seconds are written as a day.
        if parts.len() == 2 || (parts.len() == 1 && left < unit) {
            break;
        }
        if left >= unit {
            parts.push(format!("{} {name}", left / unit));
            left %= unit;
        }
    }
    parts.join(" ")
}

/// Writes an age in milliseconds as [`span`] does, with its sign if it is negative.
pub(super) fn age(millis: i64) -> String {
    let text = span(Duration::from_millis(millis.unsigned_abs()));
    if millis < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 12_345, 1_234_567].map(count), ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let of = |millis| span(Duration::from_millis(millis));
        assert_eq!(
            [0, 999, 1939, 13_000, 60_000, 1_477_000, 3_600_000, 280_800_000, 86_407_000].map(of),
            ["0 ms", "999 ms", "1 s", "13 s", "1 min", "24 min 37 s", "1 h", "3 d 6 h", "1 d"]
        );
        assert_eq!([age(-20), age(-5000), age(111_600_000)], ["-20 ms", "-5 s", "1 d 7 h"]);
    }
}
