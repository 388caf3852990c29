//! Places in the input as rpk names them: `start`, `end`, `now`, times, ages, offsets.

use std::str::FromStr;
use std::time::Duration;

use crate::config::Start;
use crate::record::Timestamp;
use crate::replay::RangeBound;

/// A place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The oldest record.
    Start,
    /// After the newest record.
    End,
    /// This time.
    At(Timestamp),
    /// This long ago.
    Ago(Duration),
    /// This offset of every partition.
    Offset(i64),
}

/// Smallest number that is read as milliseconds since 1970: as seconds, smaller ones are times until the year 5138.
const MIN_MILLIS: i64 = 100_000_000_000;

impl When {
    /// Returns the place, with ages counted from `now`.
    pub(in crate::cli) fn extent(self, now: Timestamp) -> RangeBound {
        match self {
            Self::Start => RangeBound::Start,
            Self::End => RangeBound::End,
            Self::At(time) => RangeBound::At(time),
            Self::Ago(span) => RangeBound::At(now.minus(span)),
            Self::Offset(offset) => RangeBound::Offset(offset),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{text}` is not a place in the input: expected start, end, now, a time such as 2026-09-01 or \
                 2026-09-01T00:00:00Z or milliseconds since 1970, an age such as -48h, or offset:1200"
            )
        };
        match text {
            "start" => return Ok(Self::Start),
            "end" | "now" => return Ok(Self::End),
            _ => {}
        }
        if let Some(offset) = text.strip_prefix("offset:") {
            let offset = offset.parse::<i64>().ok().filter(|offset| *offset >= 0);
            return offset.map(Self::Offset).ok_or_else(refuse);
        }
        if let Ok(millis) = text.parse::<i64>() {
            // A bare year would be a time in 1970, as would seconds.
            return match millis {
                MIN_MILLIS.. => Ok(Self::At(Timestamp::from_millis(millis))),
                10_000.. => Err(format!(
                    "`{text}` would be a time before {}: expected milliseconds since 1970; is it in seconds? Then write {text}000",
                    Timestamp::from_millis(MIN_MILLIS)
                )),
                _ => Err(refuse()),
            };
        }
        match text.parse::<Start>() {
            Ok(Start::At(time)) => Ok(Self::At(time)),
            Ok(Start::Ago(span)) => Ok(Self::Ago(span)),
            Ok(Start::Earliest | Start::Latest) | Err(_) => Err(refuse()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_as_rpk_names_them() {
        let day = Timestamp::from_millis(1_788_220_800_000);
        assert_eq!("start".parse(), Ok(When::Start));
        assert_eq!("now".parse(), Ok(When::End));
        assert_eq!("2026-09-01".parse(), Ok(When::At(day)));
        assert_eq!("2026-09-01T00:00:00Z".parse(), Ok(When::At(day)));
        assert_eq!("1788220800000".parse(), Ok(When::At(day)));
        assert_eq!("-48h".parse(), Ok(When::Ago(Duration::from_hours(48))));
        assert_eq!("offset:1200".parse(), Ok(When::Offset(1200)));
        for text in ["", "2026", "earliest", "yesterday", "offset:", "offset:-1", "48h"] {
            let refused = text.parse::<When>().unwrap_err();
            assert!(refused.contains("expected start, end, now"), "{text}: {refused}");
        }
        for seconds in ["1795640000", "99999999999"] {
            let refused = seconds.parse::<When>().unwrap_err();
            assert!(refused.contains("milliseconds") && refused.contains(&format!("{seconds}000")), "{refused}");
        }
        assert_eq!("100000000000".parse(), Ok(When::At(Timestamp::from_millis(100_000_000_000))));
    }

    #[test]
    fn an_age_counts_from_now() {
        let now = Timestamp::from_millis(10_000);
        assert_eq!(When::Ago(Duration::from_secs(4)).extent(now), RangeBound::At(Timestamp::from_millis(6000)));
    }
}
