//! How much one transaction carries, and how soon the next may begin: what the brokers acknowledge well within its
//! time-out, and without spending their time on transactions.
//!
//! A transaction that is too large for slow brokers (a quota, a slow disk, a link between zones) times out and is
//! aborted. Sent again as it was, it times out again, and the bytes that were written for nothing slow the brokers down
//! further: congestion collapse. So a transaction starts small and grows as long as it is acknowledged quickly, is cut
//! to the measured rate when it is slow, and shrinks when it fails, as a TCP connection does with its window (Jacobson,
//! "Congestion avoidance and control", SIGCOMM 1988).
//!
//! Brokers with a quota acknowledge at once what a client sends within the bytes of about ten seconds, and let the next
//! request wait for all that was too much. So the first transaction that is slow shows the size of those before it. The
//! limit grows by a third at a time, so those before it have carried at least three times as much: if all of it is too
//! much, it takes a third of the brokers' window of eleven seconds, which is less than a time-out. Doubled, the limit
//! would reach in a few quick transactions what takes longer.
//!
//! The cost of a transaction is mostly its markers and round trips, whatever it carries. What the last one took says what
//! the next one costs: with a pause as long as that between them, quick brokers get small transactions soon, and busy ones
//! get few and large ones.

use std::time::Duration;

/// Share of a transaction's time-out in which it is meant to be committed: a fifth, so that one of twice the size still
/// ends before its records time out, at three fifths.
const AIM: u32 = 5;

/// Share of the limit by which it grows after a quick transaction.
const GROWTH: usize = 3;

/// Divisor of the limit after a failure. A transaction that took three fifths of its time-out without success is
/// followed by one that fits, even if the rate is a quarter of what it was.
const BACK_OFF: usize = 4;

/// How many times as long as the last transaction took must pass from its beginning until the next one begins.
const SPACING: u32 = 2;

/// The longest interval divided by the shortest: no brokers get more than this many times the transactions.
const QUICKEST: u32 = 4;

/// The limit of the next transaction, in whatever unit its owner counts (bytes of pages, verdicts).
#[derive(Clone, Debug)]
pub struct BatchLimit {
    size: usize,
    min: usize,
    max: usize,
    aim: Duration,
    /// What the last transaction took, if it was committed.
    took: Option<Duration>,
}

impl BatchLimit {
    /// Starts at `start`, stays between `min` and `max`, and aims at transactions that are well within `timeout`.
    #[must_use]
    pub fn new(start: usize, min: usize, max: usize, timeout: Duration) -> Self {
        let mut limit = Self { size: 0, min, max: max.max(min), aim: timeout / AIM, took: None };
        limit.set(start);
        limit
    }

    /// Returns how much the next transaction may carry. A single item may be larger.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Returns the time in which a transaction is meant to be committed.
    #[must_use]
    pub(crate) const fn aim(&self) -> Duration {
        self.aim
    }

    /// Returns how long after the last transaction began the next one may begin: from a quarter of `longest` to all of it.
    #[must_use]
    pub(crate) fn interval(&self, longest: Duration) -> Duration {
        self.took.map_or(longest, |took| (took * SPACING).clamp(longest / QUICKEST, longest))
    }

    /// Notes that a transaction with this content was committed, and how long it took from its beginning.
    pub fn committed(&mut self, carried: usize, took: Duration) {
        self.took = Some(took);
        if took > self.aim {
            let fits = carried as u128 * self.aim.as_micros() / took.as_micros().max(1);
            self.set(usize::try_from(fits).unwrap_or(usize::MAX).min(self.size));
        } else if took <= self.aim / 2 && carried >= self.size / 2 {
            self.set(self.size.saturating_add(self.size.div_ceil(GROWTH)));
        }
    }

    /// Notes that a transaction with this content failed.
    pub fn failed(&mut self, carried: usize) {
        self.took = None;
        self.set(carried.min(self.size) / BACK_OFF);
    }

    fn set(&mut self, size: usize) {
        self.size = size.max(self.min).min(self.max);
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "bytes and seconds of a test")]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);
    /// When the client gives up a record.
    const RECORD_TIMEOUT: Duration = Duration::from_secs(6);
    const KIB: usize = 1024;

    /// Brokers that take this many bytes a second.
    struct Brokers {
        rate: usize,
        /// With a quota: the bytes that are acknowledged at once. When there are fewer than none, the next request waits.
        credit: Option<f64>,
    }

    impl Brokers {
        /// Takes a transaction, and returns how long it takes; with a quota, the seconds before it count.
        fn send(&mut self, bytes: usize) -> Duration {
            let (rate, bytes) = (self.rate as f64, bytes as f64);
            let work = self.credit.map_or(bytes, |credit| (-credit).max(0.0)) / rate;
            let took = Duration::from_secs_f64(work) + Duration::from_millis(60);
            if let Some(credit) = &mut self.credit {
                *credit = (*credit + rate * took.min(RECORD_TIMEOUT).as_secs_f64()).min(11.0 * rate) - bytes;
            }
            took
        }
    }

    /// Sends full transactions for ten minutes. Returns committed and aborted bytes, and the seconds that it took.
    fn run(limit: &mut BatchLimit, brokers: &mut Brokers) -> (usize, usize, f64) {
        let (mut committed, mut aborted, mut elapsed) = (0, 0, Duration::ZERO);
        while elapsed < Duration::from_mins(10) {
            let bytes = limit.size();
            let took = brokers.send(bytes);
            if took > RECORD_TIMEOUT {
                elapsed += RECORD_TIMEOUT;
                // What was under way is written even so.
                aborted += bytes.min(brokers.rate * 6);
                limit.failed(bytes);
            } else {
                elapsed += took;
                committed += bytes;
                limit.committed(bytes, took);
            }
        }
        (committed, aborted, elapsed.as_secs_f64())
    }

    #[test]
    fn most_of_what_slow_brokers_take_is_committed_and_hardly_anything_aborted() {
        for has_quota in [false, true] {
            for rate in [2_000_000, 1_000_000, 300_000, 100_000, 50_000] {
                let mut limit = BatchLimit::new(256 * KIB, 16 * KIB, 16 * KIB * KIB, TIMEOUT);
                let mut brokers = Brokers { rate, credit: has_quota.then_some(11.0 * rate as f64) };
                let (committed, aborted, seconds) = run(&mut limit, &mut brokers);
                let share = committed as f64 / (rate as f64 * seconds);
                assert!(share >= 0.9, "{rate} bytes/s, quota {has_quota}: {share:.2} of the rate");
                let wasted = aborted as f64 / committed as f64;
                assert!(wasted < 0.05, "{rate} bytes/s, quota {has_quota}: {wasted:.3} aborted");
            }
        }
    }

    #[test]
    fn a_limit_follows_brokers_that_become_slow_and_fast_again() {
        let mut limit = BatchLimit::new(256 * KIB, 16 * KIB, 16 * KIB * KIB, TIMEOUT);
        let mut brokers = Brokers { rate: 100_000_000, credit: None };
        run(&mut limit, &mut brokers);
        assert_eq!(limit.size(), 16 * KIB * KIB);
        brokers.rate = 100_000;
        let (committed, aborted, _) = run(&mut limit, &mut brokers);
        assert!(aborted < committed / 20, "{aborted} of {committed}");
        assert!((100_000..=400_000).contains(&limit.size()), "{}", limit.size());
        brokers.rate = 100_000_000;
        run(&mut limit, &mut brokers);
        assert_eq!(limit.size(), 16 * KIB * KIB);
    }

    #[test]
    fn small_transactions_say_nothing_about_a_larger_limit() {
        let mut limit = BatchLimit::new(1000, 10, 4000, TIMEOUT);
        limit.committed(499, Duration::from_millis(10));
        assert_eq!(limit.size(), 1000);
        limit.committed(500, Duration::from_secs(1));
        assert_eq!(limit.size(), 1334);
        limit.committed(1334, Duration::from_millis(1001));
        assert_eq!(limit.size(), 1334, "above half of the aim it stays");
        for _ in 0..20 {
            limit.committed(limit.size(), Duration::ZERO);
        }
        assert_eq!(limit.size(), 4000);
        limit.committed(4000, Duration::from_secs(4));
        assert_eq!(limit.size(), 2000, "what fits into two seconds");
        (0..9).for_each(|_| limit.failed(limit.clone().size()));
        assert_eq!(limit.size(), 10);
    }

    #[test]
    fn quick_transactions_follow_each_other_sooner() {
        const LONGEST: Duration = Duration::from_millis(200);
        let mut limit = BatchLimit::new(1000, 10, 4000, TIMEOUT);
        assert_eq!(limit.interval(LONGEST), LONGEST, "nothing is known of the brokers");
        limit.committed(1, Duration::from_millis(40));
        assert_eq!(limit.interval(LONGEST), Duration::from_millis(80));
        limit.committed(1, Duration::ZERO);
        assert_eq!(limit.interval(LONGEST), Duration::from_millis(50));
        limit.committed(1, Duration::from_millis(110));
        assert_eq!(limit.interval(LONGEST), LONGEST);
        limit.committed(1, Duration::from_millis(15));
        limit.failed(1);
        assert_eq!(limit.interval(LONGEST), LONGEST);
    }
}
