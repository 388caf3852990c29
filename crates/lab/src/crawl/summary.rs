//! What is shown while a crawl is judged: counters in, lines of text out.

use std::time::Duration;

use super::score::{LEGEND, Report};

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Time since the first page.
    pub elapsed: Duration,
    /// Pages written to the input.
    pub fed: u64,
    /// Pages that came out of it, dead letters included.
    pub judged: u64,
    /// Bytes of the values that came out.
    pub bytes: u64,
    /// Pages that came out since the summary before, and the time that took.
    pub lately: (u64, Duration),
    /// Verdicts by name, with their counts, in the order they are shown.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Originals in the index, once that is known.
    pub originals: Option<u64>,
    /// Memory of the index in bytes, once that is known.
    pub index_bytes: Option<u64>,
    /// Verdicts against the truth.
    pub report: Report,
}

impl Summary {
    /// Returns one line for logs.
    #[must_use]
    pub fn line(&self) -> String {
        let copies = self.report.all_copies();
        let said = self.report.all_said();
        format!(
            "{} judged, {}/s; copies found {}; precision {}; index {}",
            self.judged,
            per_second(self.lately.0, self.lately.1),
            percent(copies.found, copies.planted),
            percent(said.right, said.said),
            self.index(),
        )
    }

    /// Returns the lines that are shown while it runs, few enough for a small terminal: rates, verdicts, index,
    /// precision and recall.
    #[must_use]
    pub fn live(&self) -> Vec<String> {
        let now = format!("   now {}/s", per_second(self.lately.0, self.lately.1));
        let (copies, said) = (self.report.all_copies(), self.report.all_said());
        let mut lines = self.head(&now);
        lines.push(format!(
            "quality     copies found {} of {}   lost {} of {} others   precision {}",
            percent(copies.found, copies.planted),
            copies.planted,
            self.report.uniques.lost,
            self.report.uniques.planted,
            percent(said.right, said.said)
        ));
        lines
    }

    /// Returns the lines that are shown at the end: rates, verdicts, index, then precision and recall by kind of edit.
    #[must_use]
    pub fn screen(&self) -> Vec<String> {
        let mut lines = self.head("");
        lines.push(String::new());
        lines.extend(self.report.to_string().lines().map(str::to_owned));
        lines.extend(LEGEND.lines().map(str::to_owned));
        lines
    }

    fn head(&self, now: &str) -> Vec<String> {
        let verdicts: Vec<String> = self
            .verdicts
            .iter()
            .map(|(name, count)| format!("{name} {count} ({})", percent(*count, self.judged)))
            .collect();
        vec![
            // The feed waits for what comes out: its pace is no measure of what a cluster would do.
            format!(
                "{:>7.1} s   fed {}   judged {}{now}   mean {}/s   {}/s   (paced by the demo: no benchmark)",
                self.elapsed.as_secs_f64(),
                self.fed,
                self.judged,
                per_second(self.judged, self.elapsed),
                size(per_second(self.bytes, self.elapsed)),
            ),
            format!("verdicts    {}", verdicts.join("   ")),
            format!("index       {}", self.index()),
        ]
    }

    fn index(&self) -> String {
        match (self.originals, self.index_bytes) {
            (Some(originals), Some(bytes)) => format!("{originals} originals, {}", size(bytes)),
            (Some(originals), None) => format!("{originals} originals"),
            (None, _) => "not ready".to_owned(),
        }
    }
}

/// Returns a rate, rounded down; 0 before any time has passed.
fn per_second(count: u64, span: Duration) -> u64 {
    let millis = span.as_millis().max(1);
    u64::try_from(u128::from(count) * 1000 / millis).unwrap_or(u64::MAX)
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    // Per mille, rounded to the nearest: no float needed for one digit.
    let per_mille = (u128::from(part) * 2000 + u128::from(whole)) / (2 * u128::from(whole));
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (bytes / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1000;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::score::{Found, Scorer};
    use crate::crawl::{Edit, Truth};

    fn summary() -> Summary {
        let mut scorer = Scorer::new(10);
        let copy = Truth::Near { edit: Edit::Typo, original: "a".to_owned() };
        for (key, truth, found, matched) in [
            ("a", &Truth::Unique, Found::Unique, None),
            ("b", &copy, Found::Near, Some("a")),
            ("c", &copy, Found::Unique, None),
        ] {
            scorer.plant(key, truth);
            scorer.note(key, truth, found, matched);
        }
        Summary {
            elapsed: Duration::from_millis(2500),
            fed: 5000,
            judged: 3000,
            bytes: 6_250_000,
            lately: (700, Duration::from_millis(500)),
            verdicts: vec![("unique", 2000), ("near", 1000)],
            originals: Some(2000),
            index_bytes: Some(123_456),
            report: scorer.report(),
        }
    }

    #[test]
    fn the_line_says_rate_recall_precision_and_index() {
        let line = summary().line();
        assert_eq!(line, "3000 judged, 1400/s; copies found 50.0 %; precision 100.0 %; index 2000 originals, 123.4 kB");
        let line = Summary::default().line();
        assert_eq!(line, "0 judged, 0/s; copies found -; precision -; index not ready");
    }

    #[test]
    fn the_screen_says_rates_verdicts_and_kinds() {
        let screen = summary().screen();
        assert_eq!(
            screen[0],
            "    2.5 s   fed 5000   judged 3000   mean 1200/s   2.5 MB/s   (paced by the demo: no benchmark)"
        );
        assert_eq!(screen[1], "verdicts    unique 2000 (66.7 %)   near 1000 (33.3 %)");
        assert_eq!(screen[2], "index       2000 originals, 123.4 kB");
        assert!(screen.iter().any(|line| line.starts_with("typo ") && line.ends_with("50.0 %")), "{screen:#?}");
    }

    #[test]
    fn what_is_shown_while_it_runs_fits_a_small_terminal() {
        let live = summary().live();
        assert!(live.len() <= 5 && live[0].contains("   now 1400/s   mean 1200/s"), "{live:#?}");
        assert_eq!(live[3], "quality     copies found 50.0 % of 2   lost 0 of 1 others   precision 100.0 %");
    }

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        let shown = [0, 999, 1000, 999_949, 1_000_000, 12_345_678_901].map(size);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "12.3 GB"]);
    }
}
