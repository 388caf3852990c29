//! Cautions about a recommendation: a small sample, and matches by chance in a full index.

use serde_json::{Value, json};

use super::Tuned;
use crate::cli::{human, output};
use crate::config::settings::Settings;
use crate::fingerprint::MAX_DISTANCE;
use crate::protocol::Stage;

/// Number of pages a sample needs to show the similarity of unrelated pages.
const ENOUGH_PAGES: usize = 2000;

/// Number of duplicate pairs a sample needs to show the distances of copies.
const ENOUGH_PAIRS: u64 = 50;

const SECONDS_A_DAY: f64 = 86_400.0;

/// Cautions about a recommendation.
pub(super) struct Caution {
    pages: usize,
    /// Pairs that are duplicates by the reference.
    duplicates: u64,
    /// Keys whose recommended value is the first or last one of those tried.
    at_limit: Vec<&'static str>,
    bits: u8,
    chance: Option<Chance>,
}

/// Matches by chance in a full index at the recommended distance.
struct Chance {
    max_entries: u64,
    /// Expected matches of one page.
    a_page: f64,
    /// Expected matches per day, if the index fills up within its window.
    a_day: f64,
}

impl Chance {
    /// Computes the expected matches; `None` if `SimHash`es are not compared.
    fn of(bits: u8, settings: &Settings) -> Option<Self> {
        let rules = &settings.rules;
        let max_entries = rules.max_entries;
        let a_page = settings.fingerprint.simhash.bits.expected_chance_matches(bits, max_entries);
        let window = rules.windows.simhash.as_secs_f64().max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let a_day = a_page * max_entries as f64 * SECONDS_A_DAY / window;
        rules.stages.contains(&Stage::SimHash).then_some(Self { max_entries, a_page, a_day })
    }
}

impl Caution {
    pub(super) fn of(tuned: &Tuned, settings: &Settings) -> Self {
        let mut at_limit = Vec::new();
        if [0, MAX_DISTANCE].contains(&tuned.bits) {
            at_limit.push("match.simhash.max_distance");
        }
        let tried = [tuned.by_similarity.first(), tuned.by_similarity.last()];
        if tried.into_iter().flatten().any(|(min, _)| *min == tuned.similarity) {
            at_limit.push("match.minhash.min_similarity");
        }
        let duplicates = tuned.by_bits.first().map_or(0, |(_, tried)| tried.pairs.planted);
        Self { pages: tuned.pages, duplicates, at_limit, bits: tuned.bits, chance: Chance::of(tuned.bits, settings) }
    }

    const fn is_small(&self) -> bool {
        self.pages < ENOUGH_PAGES || self.duplicates < ENOUGH_PAIRS
    }

    /// Returns the line for people; `None` without a caution.
    pub(super) fn line(&self) -> Option<String> {
        let limit = (!self.at_limit.is_empty())
            .then(|| format!("the recommended {} is the last value of its range", self.at_limit.join(" and ")));
        let pages = human::count(self.pages as u64);
        let small = self.is_small().then(|| {
            let pairs = human::count(self.duplicates);
            let [enough, copies] = [ENOUGH_PAGES as u64, ENOUGH_PAIRS].map(human::count);
            format!("{pages} pages with {pairs} pairs of duplicates are a small sample (take {enough} pages, {copies} pairs)")
        });
        let begin = [small, limit].into_iter().flatten().collect::<Vec<_>>();
        if begin.is_empty() {
            return None;
        }
        let chance = self.chance.as_ref().map(|chance| {
            format!(
                "; unrelated pages in an index of {} come closer than in {pages} pages: with match.simhash.max_distance {} about {} \
                 pages a day match by chance, if the index fills within its window and codes are random (those of texts are closer)",
                human::count(chance.max_entries),
                self.bits,
                a_day(chance.a_day)
            )
        });
        Some(format!("caution: {}{}", begin.join("; "), chance.unwrap_or_default()))
    }

    pub(super) fn json(&self) -> Value {
        let chance = self
            .chance
            .as_ref()
            .map(|chance| json!({"max_entries": chance.max_entries, "a_page": chance.a_page, "a_day": chance.a_day}));
        json!({
            "pages": self.pages, "duplicate_pairs": self.duplicates, "is_small": self.is_small(),
            "at_limit": self.at_limit, "chance_matches": chance, "caution": self.line(),
        })
    }
}

/// Formats a number of pages per day, as a whole number from ten on.
fn a_day(count: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count that is at least ten")]
    if count < 10.0 { output::expected(count) } else { human::count(count.round() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caution(pages: usize, duplicates: u64, at_limit: Vec<&'static str>) -> Caution {
        let chance = Chance { max_entries: 8_000_000, a_page: 0.002, a_day: 6012.4 };
        Caution { pages, duplicates, at_limit, bits: 8, chance: Some(chance) }
    }

    #[test]
    fn a_large_sample_with_a_recommendation_inside_the_range_needs_no_caution() {
        assert_eq!(caution(2000, 50, Vec::new()).line(), None);
        for small in [caution(1999, 50, Vec::new()), caution(2000, 49, Vec::new())] {
            assert!(small.line().unwrap().contains(
                " are a small sample (take 2,000 pages, 50 pairs); unrelated pages in an index of 8,000,000 "
            ));
        }
        let line = caution(4000, 900, vec!["match.simhash.max_distance"]).line().unwrap();
        assert!(
            line.starts_with("caution: the recommended match.simhash.max_distance is the last value of its range; "),
            "{line}"
        );
        assert!(line.contains("with match.simhash.max_distance 8 about 6,012 pages a day match by chance"), "{line}");
    }
}
