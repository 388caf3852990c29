//! The rate limit of a replay.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::config::ByteSize;

/// Pages or bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Pages.
    Pages(u64),
    /// Bytes of pages.
    Bytes(u64),
}

/// A text that is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate: expected pages or bytes per second, such as 5000/s or 20MiB/s")]
pub struct ParseRateError(String);

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let refuse = || ParseRateError(text.to_owned());
        let amount = text.strip_suffix("/s").ok_or_else(refuse)?.trim();
        let rate = match amount.parse::<u64>() {
            Ok(pages) => Self::Pages(pages),
            Err(_) => Self::Bytes(amount.parse::<ByteSize>().map_err(|_| refuse())?.0),
        };
        let (Self::Pages(amount) | Self::Bytes(amount)) = rate;
        if amount == 0 { Err(refuse()) } else { Ok(rate) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(pages) => write!(f, "{pages}/s"),
            Self::Bytes(bytes) => write!(f, "{}/s", ByteSize(*bytes)),
        }
    }
}

/// Limits a replay to its rate.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<Rate>,
    /// When the next page is due.
    due: Duration,
}

/// Time that a replay may catch up with after it had to wait for anything else.
const CREDIT: Duration = Duration::from_secs(1);

impl Pace {
    pub(crate) const fn new(rate: Option<Rate>, now: Duration) -> Self {
        Self { rate, due: now }
    }

    /// Returns whether there is a limit.
    pub(crate) const fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Counts a page of this size.
    pub(crate) fn note(&mut self, bytes: usize, now: Duration) {
        let (amount, rate) = match self.rate {
            None => return,
            Some(Rate::Pages(rate)) => (1, rate),
            Some(Rate::Bytes(rate)) => (bytes as u64, rate),
        };
        let nanos = u128::from(amount) * 1_000_000_000 / u128::from(rate.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.due = self.due.max(now.saturating_sub(CREDIT)) + cost;
    }

    /// Returns how long to wait before the next page.
    pub(crate) const fn wait(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_pages_or_bytes_each_second() {
        assert_eq!("5000/s".parse(), Ok(Rate::Pages(5000)));
        assert_eq!("20MiB/s".parse(), Ok(Rate::Bytes(20 << 20)));
        assert_eq!(["5000/s", "20MiB/s"].map(|text| text.parse::<Rate>().unwrap().to_string()), ["5000/s", "20MiB/s"]);
        for text in ["", "5000", "0/s", "-1/s", "fast/s", "/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn pages_beyond_the_rate_wait() {
        let at = Duration::from_secs;
        let mut pace = Pace::new(Some(Rate::Pages(10)), at(7));
        assert_eq!(pace.wait(at(7)), Duration::ZERO);
        (0..20).for_each(|_| pace.note(1, at(7)));
        assert_eq!(pace.wait(at(8)), at(1));
        let mut pace = Pace::new(Some(Rate::Bytes(1 << 20)), at(7));
        pace.note(3 << 20, at(7));
        assert_eq!(pace.wait(at(7)), at(3));
        let mut pace = Pace::new(None, at(7));
        pace.note(1 << 40, at(7));
        assert_eq!(pace.wait(at(7)), Duration::ZERO);
    }

    #[test]
    fn a_long_wait_for_something_else_is_not_caught_up_with() {
        let now = Duration::from_mins(1);
        let mut pace = Pace::new(Some(Rate::Pages(10)), Duration::ZERO);
        (0..10).for_each(|_| pace.note(1, now));
        assert_eq!(pace.wait(now), Duration::ZERO, "one second of pages at once");
        (0..10).for_each(|_| pace.note(1, now));
        assert_eq!(pace.wait(now), Duration::from_secs(1));
    }
}
