//! Progress of a replay on standard error: a bar on a terminal, else a log line every ten seconds.

use std::time::Duration;

use dupgate_core::replay::{Counts, Plan};
use indicatif::ProgressBar;

use crate::cli::human;
use crate::cli::progress_bar::ProgressDisplay;
use crate::replay::{Phase, Report};
use crate::runtime::clock::Clock;

/// Shows the progress of a replay.
pub(super) struct Progress {
    plan: Plan,
    display: ProgressDisplay,
    /// What was done before this run began.
    before: Option<u64>,
    /// Start of this run.
    clock: Clock,
}

/// Rate of a run, and the remaining time at that rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    each_second: u64,
    /// `None` while nothing is done.
    left: Option<Duration>,
}

impl Pace {
    fn of(done: u64, left: u64, elapsed: Duration) -> Self {
        let millis = elapsed.as_millis().max(1);
        let each_second = u64::try_from(u128::from(done) * 1000 / millis).unwrap_or(u64::MAX);
        let takes = (u128::from(left) * millis).checked_div(u128::from(done));
        Self {
            each_second,
            left: takes.map(|takes| Duration::from_secs(u64::try_from(takes / 1000).unwrap_or(u64::MAX))),
        }
    }
}

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        let (_, total) = plan.done(&Counts::default(), None);
        let template = if plan.is_of_files() {
            "{prefix:8} {wide_bar} {percent:>3} %  {bytes} / {total_bytes}  {bytes_per_sec}  {msg}  left {eta}"
        } else {
            "{prefix:8} {wide_bar} {percent:>3} %  {human_pos} / {human_len}  {per_sec}  {msg}  left {eta}"
        };
        let display = ProgressDisplay::new(Some(total), template);
        Self { plan: plan.clone(), display, before: None, clock: Clock::start() }
    }

    /// Shows the latest numbers.
    pub(super) fn show(&mut self, report: &Report<'_>) {
        let (done, total) = self.plan.done(report.counts, report.place.as_ref());
        let before = *self.before.get_or_insert(done);
        let (phase, more) = match report.phase {
            Phase::Following => ("follow", String::new()),
            Phase::WarmUp => ("warm-up", String::new()),
            Phase::Range => ("replay", String::new()),
            Phase::Yielding(lag) => ("replay", format!("  (yielding: the service lags by {})", human::count(lag))),
        };
        let duplicates = share(report.counts);
        let draw = |bar: &ProgressBar| {
            if bar.position() == 0 && before > 0 {
                bar.reset_eta();
            }
            bar.set_prefix(phase);
            bar.set_position(done.min(total));
            bar.set_message(format!("duplicates {duplicates:.1} %{more}"));
        };
        let log = || {
            let percent = percent(done, total);
            let yielding = if let Phase::Yielding(lag) = report.phase { Some(lag) } else { None };
            let pace = Pace::of(done - before.min(done), total - done.min(total), self.clock.now());
            let (each_second, left) = (pace.each_second, pace.left.map(human::span));
            if self.plan.is_of_files() {
                let pages = report.counts.pages;
                tracing::info!(
                    target: "dupgate::replay",
                    phase,
                    pages,
                    bytes = done,
                    of = total,
                    percent,
                    bytes_per_second = each_second,
                    left,
                    duplicates,
                    yielding,
                    "replaying"
                );
            } else {
                tracing::info!(
                    target: "dupgate::replay",
                    phase,
                    pages = done,
                    of = total,
                    percent,
                    pages_per_second = each_second,
                    left,
                    duplicates,
                    yielding,
                    "replaying"
                );
            }
        };
        self.display.show(draw, log);
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.display.finish();
    }
}

/// Returns the progress in per cent, without overflow for terabytes.
pub(super) fn percent(done: u64, of: u64) -> u64 {
    let percent = u128::from(done) * 100 / u128::from(of.max(1));
    u64::try_from(percent).unwrap_or(100).min(100)
}

/// Returns the percentage of duplicates.
#[expect(clippy::cast_precision_loss, reason = "a share")]
pub(super) fn share(counts: &Counts) -> f64 {
    let judged = counts.pages.max(1) as f64;
    (counts.duplicates() as f64 / judged * 1000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_part_done() {
        let pace = Pace::of(2_000, 6_000, Duration::from_secs(10));
        assert_eq!(pace, Pace { each_second: 200, left: Some(Duration::from_secs(30)) });
        assert_eq!(Pace::of(0, 6_000, Duration::from_secs(10)), Pace { each_second: 0, left: None });
        assert_eq!(Pace::of(u64::MAX, 0, Duration::ZERO).left, Some(Duration::ZERO));
    }
}
