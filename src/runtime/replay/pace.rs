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
pub(in crate::runtime) struct Pace {
    rate: Option<Rate>,
    since: Duration,
    pages: u64,
    bytes: u64,
}

impl Pace {
    pub(in crate::runtime) const fn new(rate: Option<Rate>, now: Duration) -> Self {
        Self { rate, since: now, pages: 0, bytes: 0 }
    }

    /// Counts a page.
    pub(in crate::runtime) fn note(&mut self, bytes: usize) {
        self.pages += 1;
        self.bytes += bytes as u64;
    }

    /// Returns how long to wait before the next page.
    pub(in crate::runtime) fn wait(&self, now: Duration) -> Duration {
        let (done, rate) = match self.rate {
            None => return Duration::ZERO,
            Some(Rate::Pages(rate)) => (self.pages, rate),
            Some(Rate::Bytes(rate)) => (self.bytes, rate),
        };
        let millis = u128::from(done) * 1000 / u128::from(rate.max(1));
        let due = self.since + Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        due.saturating_sub(now)
    }

    /// Restarts the count: time spent waiting for other reasons is not caught up with.
    pub(in crate::runtime) fn restart(&mut self, now: Duration) {
        *self = Self::new(self.rate, now);
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
        let mut pace = Pace::new(Some(Rate::Pages(10)), Duration::from_secs(7));
        assert_eq!(pace.wait(Duration::from_secs(7)), Duration::ZERO);
        (0..20).for_each(|_| pace.note(1));
        assert_eq!(pace.wait(Duration::from_secs(8)), Duration::from_secs(1));
        assert_eq!(pace.wait(Duration::from_secs(30)), Duration::ZERO);
        pace.restart(Duration::from_secs(30));
        assert_eq!(pace.wait(Duration::from_secs(30)), Duration::ZERO);
    }
}
