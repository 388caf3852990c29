//! Shingles that are in page after page: what a list of stop-shingles is made of.

use std::collections::{HashMap, HashSet};

use dupgate_core::fingerprint::{ShingleBuffer, Shingling, shingle_hash};
use dupgate_core::text::{Analyzer, is_han};

/// Cells that shingles are counted in first: two that share one are distinguished later.
const CELLS: usize = 1 << 22;

/// What is frequent in a sample of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequent {
    /// Pages that are written in Han characters, mostly.
    pub han_pages: usize,
    /// The others.
    pub other_pages: usize,
    /// The shingles that are in this many pages or more, each with how many, the most frequent first.
    pub shingles: Vec<(String, u32)>,
    /// Shingles of the sample, repeats within a page not counted.
    pub all: u64,
}

/// From how many pages on a shingle is frequent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of the pages in Han characters, for shingles that begin with one.
    pub han: f64,
    /// Of the other pages, for the other shingles.
    pub other: f64,
    /// Fewer pages than this are never many.
    pub least: u32,
}

/// Finds the shingles that are in a share of the pages of their script. The texts are normalised, and no two are near
/// each other: a page that came a thousand times would make its own shingles frequent, and hide itself.
///
/// Two passes over the texts: cells of counters, then the shingles of full cells one by one.
#[must_use]
pub fn frequent(texts: &[&str], analyzer: &Analyzer, shingling: Shingling, share: Share) -> Frequent {
    let mut found = Frequent::default();
    let (mut cells, mut buffer, mut page) = (vec![0_u32; CELLS], ShingleBuffer::default(), HashSet::new());
    for text in texts {
        let (mut han, mut count) = (0_usize, 0_usize);
        page.clear();
        shingling.each(analyzer, text, &mut buffer, |shingle| {
            han += usize::from(begins_han(shingle));
            count += 1;
            page.insert(cell_of(shingle));
        });
        if han * 2 > count {
            found.han_pages += 1;
        } else {
            found.other_pages += 1;
        }
        for cell in &page {
            if let Some(cell) = cells.get_mut(*cell) {
                *cell += 1;
            }
        }
    }
    let (han, other) =
        (many(found.han_pages, share.han, share.least), many(found.other_pages, share.other, share.least));
    let enough = |shingle: &str| if begins_han(shingle) { han } else { other };
    let mut counts: HashMap<String, u32> = HashMap::new();
    let mut page: HashSet<String> = HashSet::new();
    for text in texts {
        page.clear();
        let mut different = HashSet::new();
        shingling.each(analyzer, text, &mut buffer, |shingle| {
            found.all += u64::from(different.insert(shingle_hash(shingle)));
            let full = cells.get(cell_of(shingle)).is_some_and(|cell| *cell >= enough(shingle));
            if full && !page.contains(shingle) {
                page.insert(shingle.to_owned());
            }
        });
        page.drain().for_each(|shingle| *counts.entry(shingle).or_default() += 1);
    }
    found.shingles = counts.into_iter().filter(|(shingle, count)| *count >= enough(shingle)).collect();
    found.shingles.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    found
}

fn begins_han(shingle: &str) -> bool {
    shingle.chars().next().is_some_and(is_han)
}

fn cell_of(shingle: &str) -> usize {
    shingle_hash(shingle) as usize % CELLS
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
fn many(pages: usize, share: f64, least: u32) -> u32 {
    ((pages as f64 * share).ceil() as u32).max(least)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use dupgate_core::text::Settings;

    const SHINGLING: Shingling = Shingling::of_characters(2, 3);

    fn analyzer() -> Analyzer {
        Analyzer::new(&Settings::default()).unwrap()
    }

    #[test]
    fn each_script_counts_its_own_pages() {
        let texts = ["首页新闻", "首页体育", "新的首页", "abcd", "xabc"];
        let share = Share { han: 0.9, other: 0.9, least: 2 };
        let found = frequent(&texts, &analyzer(), SHINGLING, share);
        assert_eq!((found.han_pages, found.other_pages, found.all), (3, 2, 9 + 4));
        assert_eq!(found.shingles, [("首页".to_owned(), 3), ("abc".to_owned(), 2)]);
        assert_eq!(
            frequent(&texts, &analyzer(), SHINGLING, Share { least: 3, ..share }).shingles,
            [("首页".to_owned(), 3)]
        );
        assert_eq!(frequent(&[], &analyzer(), SHINGLING, share), Frequent::default());
    }

    proptest! {
        #[test]
        fn what_is_frequent_is_what_a_count_says(
            texts in prop::collection::vec("[ab天地]{0,12}", 0..20), tenths in 1..10_u32, least in 1..5_u32,
        ) {
            let (share, analyzer) = (f64::from(tenths) / 10.0, analyzer());
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let found = frequent(&texts, &analyzer, SHINGLING, Share { han: share, other: share, least });
            let sets: Vec<Vec<String>> = texts.iter().map(|text| {
                let mut all = Vec::new();
                let put = |shingle: &str| all.push(shingle.to_owned());
                SHINGLING.each(&analyzer, text, &mut ShingleBuffer::default(), put);
                all
            }).collect();
            let is_han = |set: &&Vec<String>| set.iter().filter(|shingle| begins_han(shingle)).count() * 2 > set.len();
            let han = sets.iter().filter(is_han).count();
            let mut expected = Vec::new();
            for shingle in sets.iter().flatten().collect::<BTreeSet<_>>() {
                let count = u32::try_from(sets.iter().filter(|set| set.contains(shingle)).count()).unwrap();
                let of = u32::try_from(if begins_han(shingle) { han } else { sets.len() - han }).unwrap();
                if count >= least && count * 10 >= of * tenths {
                    expected.push((shingle.clone(), count));
                }
            }
            let mut shingles = found.shingles.clone();
            shingles.sort();
            prop_assert_eq!(shingles, expected);
            prop_assert!(found.shingles.is_sorted_by(|one, next| one.1 >= next.1));
        }
    }
}
