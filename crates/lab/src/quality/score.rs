//! Verdicts against the truth.

use std::collections::HashMap;

use serde::Serialize;

use super::{Edit, Role};

/// Counts page after page, in the order of the stream.
#[derive(Clone, Debug, Default)]
pub struct Scorer {
    pages: Vec<Page>,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    family: usize,
    role: Role,
    /// A second family that a page apart belongs to.
    also: Option<usize>,
    /// The page that began the cluster it was put into; itself when it was called unique.
    cluster: usize,
}

/// How many there were and how many of them were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// How many there were.
    pub planted: u64,
    /// How many were called what is counted.
    pub found: u64,
}

impl Count {
    /// Returns the share, 0 of nothing.
    #[must_use]
    pub fn share(self) -> f64 {
        ratio(self.found, self.planted)
    }

    pub(super) fn note(&mut self, found: bool) {
        self.planted += 1;
        self.found += u64::from(found);
    }
}

/// Pairs of pages in one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pairs {
    /// Pairs of one family.
    pub planted: u64,
    /// Pairs of one cluster.
    pub said: u64,
    /// Pairs of one family and one cluster.
    pub right: u64,
}

impl Pairs {
    /// Returns the share of the pairs said that are right, 1 when none is said.
    #[must_use]
    pub fn precision(self) -> f64 {
        if self.said == 0 { 1.0 } else { ratio(self.right, self.said) }
    }

    /// Returns the share of the planted pairs that are found.
    #[must_use]
    pub fn recall(self) -> f64 {
        ratio(self.right, self.planted)
    }

    /// Returns the harmonic mean of both.
    #[must_use]
    pub fn f1(self) -> f64 {
        ratio(2 * self.right, self.said + self.planted)
    }
}

/// All results of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Pages, those apart left out.
    pub pages: u64,
    /// Copies, and how many were called duplicates of their own family.
    pub removed: Count,
    /// Originals, and how many were called duplicates.
    pub lost: Count,
    /// Copies that were called duplicates of another family.
    pub strayed: u64,
    /// Pairs.
    pub pairs: Pairs,
    /// Adjusted Rand index of clusters and families: 1 when they are the same, 0 for chance.
    pub rand_index: f64,
    /// Pages of the largest cluster.
    pub largest: u64,
    /// Copies by edit, and how many were removed.
    pub edits: Vec<(Edit, Count)>,
    /// Pages apart by edit, and how many were called duplicates of a family whose text they hold.
    pub apart: Vec<(Edit, Count)>,
}

impl Scorer {
    /// Notes the next page; `matched` is the number of the page, from 0, that it was called a duplicate of.
    pub fn note(&mut self, family: usize, role: Role, matched: Option<usize>) {
        self.note_of_two(family, None, role, matched);
    }

    /// [`Scorer::note`] of a page that may hold the text of a second family, too: apart, it is found with either.
    pub fn note_of_two(&mut self, family: usize, also: Option<usize>, role: Role, matched: Option<usize>) {
        let itself = self.pages.len();
        let cluster = matched.and_then(|matched| self.pages.get(matched)).map_or(itself, |page| page.cluster);
        self.pages.push(Page { family, role, also, cluster });
    }

    /// Returns the results.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let mut counted: HashMap<(usize, usize), u64> = HashMap::new();
        let (mut edits, mut apart): (HashMap<Edit, Count>, HashMap<Edit, Count>) = (HashMap::new(), HashMap::new());
        for (number, page) in self.pages.iter().enumerate() {
            let family = self.pages.get(page.cluster).map(|first| first.family);
            let (duplicate, own) = (page.cluster != number, family == Some(page.family));
            match page.role {
                Role::Original => report.lost.note(duplicate),
                Role::Copy(edit) => {
                    report.removed.note(duplicate && own);
                    edits.entry(edit).or_default().note(duplicate && own);
                    report.strayed += u64::from(duplicate && !own);
                }
                Role::Apart(edit) => {
                    let either = own || page.also.is_some() && page.also == family;
                    apart.entry(edit).or_default().note(duplicate && either);
                    continue;
                }
            }
            report.pages += 1;
            *counted.entry((page.family, page.cluster)).or_default() += 1;
        }
        let (mut families, mut clusters): (HashMap<usize, u64>, HashMap<usize, u64>) = (HashMap::new(), HashMap::new());
        for ((family, cluster), pages) in &counted {
            *families.entry(*family).or_default() += pages;
            *clusters.entry(*cluster).or_default() += pages;
        }
        report.pairs = Pairs {
            planted: families.values().copied().map(pairs_of).sum(),
            said: clusters.values().copied().map(pairs_of).sum(),
            right: counted.values().copied().map(pairs_of).sum(),
        };
        report.rand_index = rand_index(report.pairs, pairs_of(report.pages));
        report.largest = clusters.values().copied().max().unwrap_or(0);
        (report.edits, report.apart) = (sorted(edits), sorted(apart));
        report
    }
}

fn sorted(counts: HashMap<Edit, Count>) -> Vec<(Edit, Count)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(edit, _)| *edit);
    counts
}

fn pairs_of(pages: u64) -> u64 {
    pages * pages.saturating_sub(1) / 2
}

/// Hubert and Arabie (1985): how far the agreement goes past what chance would give, of how far it could go.
fn rand_index(pairs: Pairs, all: u64) -> f64 {
    let (planted, said, right) = (float(pairs.planted), float(pairs.said), float(pairs.right));
    let by_chance = if all == 0 { 0.0 } else { planted * said / float(all) };
    let most = f64::midpoint(planted, said);
    if (most - by_chance).abs() < f64::EPSILON { 1.0 } else { (right - by_chance) / (most - by_chance) }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
fn float(count: u64) -> f64 {
    count as f64
}
