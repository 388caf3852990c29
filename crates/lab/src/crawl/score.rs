//! What was found, against what was planted.
//!
//! Before: a page's [`Truth`] and the verdict that it got. After: a [`Report`] by kind of edit. Exact hashes and
//! `SimHash` at a few bits are blind to most edits a re-publisher makes, so a missed kind is a number here and not
//! a failure.
//!
//! A match is right when it lies in the page's own family (the original and all its copies): a copy that was judged
//! unique because its edit hid it is an original too, and the next copy may be nearer to it. Pages of several topics
//! may be judged in another order than they were written in, and their verdicts be seen in yet another: pages are
//! [planted](Scorer::plant) first and [noted](Scorer::note) when their verdict comes. When an original is judged after
//! its copy it is the original that is found, and the pair counts as found once.
//!
//! Cost: one lookup a page; the families of the last pages planted are remembered, as many as [`Scorer::new`] says.
//! A report is a table for people and JSON for programs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use dupgate_core::protocol::VerdictKind;
use dupgate_core::record::Reject;
use serde_json::{Map, Value, json};

use super::{Edit, Truth};

/// Outcome of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// Delivered as unique.
    Unique,
    /// A changed text of a known page.
    Update,
    /// A duplicate with equal text.
    Exact,
    /// A duplicate with a near text.
    Near,
    /// A dead letter, and why.
    Dead(Reject),
}

impl Found {
    /// The names, in the order of a table.
    pub const NAMES: [&str; 5] =
        [Self::Unique.name(), Self::Update.name(), Self::Exact.name(), Self::Near.name(), Reject::DEAD_LETTER];

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unique => VerdictKind::Unique.name(),
            Self::Update => VerdictKind::Update.name(),
            Self::Exact => VerdictKind::Exact.name(),
            Self::Near => VerdictKind::Near.name(),
            Self::Dead(_) => Reject::DEAD_LETTER,
        }
    }

    /// Returns what a verdict counts as: a template is delivered like a unique page, and a withdrawn one has no verdict
    /// that could be scored.
    #[must_use]
    pub const fn of(kind: VerdictKind) -> Option<Self> {
        match kind {
            VerdictKind::Unique | VerdictKind::Template => Some(Self::Unique),
            VerdictKind::Update => Some(Self::Update),
            VerdictKind::Exact => Some(Self::Exact),
            VerdictKind::Near => Some(Self::Near),
            VerdictKind::Withdrawn => None,
        }
    }
}

/// A row of the report: what was done to the page before it was planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The same text on another site.
    Exact,
    /// An edited text.
    Near(Edit),
}

impl Kind {
    /// Every kind of copy.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Exact].into_iter().chain(Edit::ALL.map(Self::Near))
    }

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Near(edit) => edit.name(),
        }
    }
}

/// Outcome of the copies of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// How many were planted.
    pub planted: u64,
    /// Called a duplicate of a page of their family.
    pub found: u64,
    /// Called a duplicate of a page that they are no copy of.
    pub wrong: u64,
    /// Called unique.
    pub missed: u64,
    /// Dead letters, though nothing is wrong with them.
    pub dead: u64,
}

/// Outcome of the pages that are like no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uniques {
    /// How many were planted.
    pub planted: u64,
    /// Called unique.
    pub kept: u64,
    /// Called a duplicate of an own copy that was judged first; the pair counts as found at the copy's kind.
    pub behind_their_copy: u64,
    /// Called a duplicate of a page that is no copy of them.
    pub lost: u64,
    /// Dead letters, though nothing is wrong with them.
    pub dead: u64,
}

/// Outcome of the broken records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// How many were planted.
    pub planted: u64,
    /// Dead letters with the right reason.
    pub dead: u64,
    /// Dead letters with another reason.
    pub other_reason: u64,
    /// Got a verdict, though there is no page in them.
    pub judged: u64,
}

/// Verdict counts of one verdict kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// How often it called a page a duplicate.
    pub said: u64,
    /// How often it named a page of the same family.
    pub right: u64,
}

/// Compares verdicts with the truth, page by page, in whatever order the verdicts come.
#[derive(Clone, Debug)]
pub struct Scorer {
    copies: BTreeMap<Kind, Copies>,
    uniques: Uniques,
    broken: BTreeMap<&'static str, Broken>,
    said: BTreeMap<Found, Said>,
    families: HashMap<String, Member>,
    order: VecDeque<String>,
    remembered: usize,
}

#[derive(Clone, Debug)]
struct Member {
    family: String,
    standing: Standing,
}

/// What is known of a page of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing that matters to others.
    Plain,
    /// A copy that was called unique: its original may still be found by it.
    Missed(Kind),
    /// Its original was called a duplicate of it: the pair is found.
    Claimed,
}

impl Scorer {
    /// Begins with nothing seen. Remembers the families of the last `remembered` pages planted: at least the crawl's
    /// reach and what may be on its way.
    #[must_use]
    pub fn new(remembered: usize) -> Self {
        Self {
            copies: Kind::all().map(|kind| (kind, Copies::default())).collect(),
            uniques: Uniques::default(),
            broken: BTreeMap::new(),
            said: BTreeMap::new(),
            families: HashMap::new(),
            order: VecDeque::new(),
            remembered,
        }
    }

    /// Remembers what a page is, before its verdict and those of its copies are noted.
    pub fn plant(&mut self, key: &str, truth: &Truth) {
        let family = truth.original().unwrap_or(key).to_owned();
        if self.families.insert(key.to_owned(), Member { family, standing: Standing::Plain }).is_none() {
            self.order.push_back(key.to_owned());
        }
        if self.order.len() > self.remembered
            && let Some(oldest) = self.order.pop_front()
        {
            self.families.remove(&oldest);
        }
    }

    /// Records the verdict on the page with this key; `matched` is the key of the page that it was called a duplicate
    /// (or an update) of.
    pub fn note(&mut self, key: &str, truth: &Truth, found: Found, matched: Option<&str>) {
        let family = truth.original().unwrap_or(key);
        let right = matched.and_then(|matched| self.families.get(matched)).is_some_and(|it| it.family == family);
        if matched.is_some() {
            let said = self.said.entry(found).or_default();
            said.said += 1;
            said.right += u64::from(right);
        }
        let kind = match truth {
            Truth::Unique => return self.note_unique(found, matched.filter(|_| right)),
            Truth::Broken { damage } => {
                let broken = self.broken.entry(damage.name()).or_default();
                broken.planted += 1;
                match found {
                    Found::Dead(reason) if reason == damage.reason() => broken.dead += 1,
                    Found::Dead(_) => broken.other_reason += 1,
                    Found::Unique | Found::Update | Found::Exact | Found::Near => broken.judged += 1,
                }
                return;
            }
            Truth::Exact { .. } => Kind::Exact,
            Truth::Near { edit, .. } => Kind::Near(*edit),
        };
        let copies = self.copies.entry(kind).or_default();
        copies.planted += 1;
        match found {
            Found::Dead(_) => copies.dead += 1,
            Found::Update | Found::Exact | Found::Near if right => copies.found += 1,
            Found::Update | Found::Exact | Found::Near => copies.wrong += 1,
            Found::Unique => match self.families.get_mut(key) {
                Some(Member { standing: Standing::Claimed, .. }) => copies.found += 1,
                Some(member) => {
                    member.standing = Standing::Missed(kind);
                    copies.missed += 1;
                }
                None => copies.missed += 1,
            },
        }
    }

    fn note_unique(&mut self, found: Found, own_copy: Option<&str>) {
        self.uniques.planted += 1;
        match (found, own_copy) {
            (Found::Dead(_), _) => self.uniques.dead += 1,
            (Found::Unique, _) => self.uniques.kept += 1,
            (Found::Update | Found::Exact | Found::Near, None) => self.uniques.lost += 1,
            (Found::Update | Found::Exact | Found::Near, Some(copy)) => {
                self.uniques.behind_their_copy += 1;
                self.claim(copy);
            }
        }
    }

    /// Counts a copy as found whose original was called a duplicate of it.
    fn claim(&mut self, copy: &str) {
        let Some(member) = self.families.get_mut(copy) else { return };
        if let Standing::Missed(kind) = member.standing
            && let Some(copies) = self.copies.get_mut(&kind)
        {
            copies.missed -= 1;
            copies.found += 1;
        }
        member.standing = Standing::Claimed;
    }

    /// Returns the results so far.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            copies: self.copies.clone(),
            uniques: self.uniques,
            broken: self.broken.clone(),
            said: self.said.iter().map(|(found, said)| (found.name(), *said)).collect(),
        }
    }
}

/// Precision and recall by kind of edit, and the counts that they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Copies by what was done to them, every kind present.
    pub copies: BTreeMap<Kind, Copies>,
    /// Pages like no other.
    pub uniques: Uniques,
    /// Broken records by damage.
    pub broken: BTreeMap<&'static str, Broken>,
    /// Duplicates named, by verdict: `exact`, `near`, `update`.
    pub said: BTreeMap<&'static str, Said>,
}

/// What the headings of the table mean.
pub const LEGEND: &str = "WRONG: called a copy of a page that it is no copy of.  AFTER: a copy came first and was kept in its place.\n\
    LOST: called a duplicate of a page that it has nothing to do with.  OTHER: a dead letter for another reason.";

impl Copies {
    /// Returns the share of the planted copies that were found; nothing when none were planted.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        share(self.found, self.planted)
    }
}

impl Said {
    /// Returns the share of the named pages that are of the same family; nothing when none were named.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        share(self.right, self.said)
    }
}

impl Uniques {
    /// Returns the share of the planted uniques that were called duplicates of a page they have nothing to do with.
    #[must_use]
    pub fn lost_share(&self) -> Option<f64> {
        share(self.lost, self.planted)
    }
}

/// Share of two counts; counts past 2^32 lose digits that a share does not have.
fn share(part: u64, whole: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Report {
    /// Returns all copies together.
    #[must_use]
    pub fn all_copies(&self) -> Copies {
        self.copies.values().fold(Copies::default(), |sum, kind| Copies {
            planted: sum.planted + kind.planted,
            found: sum.found + kind.found,
            wrong: sum.wrong + kind.wrong,
            missed: sum.missed + kind.missed,
            dead: sum.dead + kind.dead,
        })
    }

    /// Returns all duplicates named, whatever the verdict was called.
    #[must_use]
    pub fn all_said(&self) -> Said {
        self.said
            .values()
            .fold(Said::default(), |sum, one| Said { said: sum.said + one.said, right: sum.right + one.right })
    }

    /// Returns the results as one JSON object; a share of nothing is null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let copies: Map<String, Value> =
            self.copies.iter().map(|(kind, copies)| (kind.name().to_owned(), copies_json(copies))).collect();
        let verdicts: Map<String, Value> = self
            .said
            .iter()
            .map(|(name, said)| ((*name).to_owned(), said_json(*said)))
            .chain([("all".to_owned(), said_json(self.all_said()))])
            .collect();
        let broken: Map<String, Value> = self
            .broken
            .iter()
            .map(|(name, it)| {
                let Broken { planted, dead, other_reason, judged } = it;
                let value = json!({"planted": planted, "dead": dead, "other_reason": other_reason, "judged": judged});
                ((*name).to_owned(), value)
            })
            .collect();
        let Uniques { planted, kept, behind_their_copy, lost, dead } = self.uniques;
        json!({
            "copies": copies,
            "all_copies": copies_json(&self.all_copies()),
            "unique": {"planted": planted, "kept": kept, "behind_their_copy": behind_their_copy, "lost": lost,
                "dead": dead, "lost_share": self.uniques.lost_share()},
            "broken": broken,
            "verdicts": verdicts,
        })
    }
}

fn copies_json(copies: &Copies) -> Value {
    let Copies { planted, found, wrong, missed, dead } = copies;
    json!({"planted": planted, "found": found, "wrong": wrong, "missed": missed, "dead": dead,
        "recall": copies.recall()})
}

fn said_json(said: Said) -> Value {
    json!({"said": said.said, "right": said.right, "precision": said.precision()})
}

/// A table: copies by kind, uniques, broken records, then what the verdicts were worth.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18}{:>9}{:>9}{:>9}{:>9}{:>9}", "COPIES", "PLANTED", "FOUND", "MISSED", "WRONG", "RECALL")?;
        for (kind, copies) in &self.copies {
            copies_row(f, kind.name(), copies)?;
        }
        copies_row(f, "all copies", &self.all_copies())?;
        let it = self.uniques;
        writeln!(f, "{:<18}{:>9}{:>9}{:>9}{:>9}{:>9}", "OTHER PAGES", "PLANTED", "KEPT", "AFTER", "LOST", "LOST")?;
        let lost = percent(it.lost_share());
        writeln!(
            f,
            "{:<18}{:>9}{:>9}{:>9}{:>9}{lost:>9}",
            "unique", it.planted, it.kept, it.behind_their_copy, it.lost
        )?;
        if !self.broken.is_empty() {
            writeln!(f, "{:<18}{:>9}{:>9}{:>9}{:>9}", "BROKEN RECORDS", "PLANTED", "DEAD", "OTHER", "JUDGED")?;
        }
        for (name, it) in &self.broken {
            writeln!(f, "{name:<18}{:>9}{:>9}{:>9}{:>9}", it.planted, it.dead, it.other_reason, it.judged)?;
        }
        let wrongly_dead = self.all_copies().dead + self.uniques.dead;
        if wrongly_dead > 0 {
            writeln!(f, "{:<18}{wrongly_dead:>9}", "dead, not broken")?;
        }
        writeln!(f, "{:<18}{:>9}{:>9}{:>11}", "VERDICT", "GIVEN", "RIGHT", "PRECISION")?;
        let all = self.all_said();
        for (name, said) in self.said.iter().map(|(name, said)| (*name, *said)).chain([("all duplicates", all)]) {
            // A unique page that names another one is of its template.
            let name = if name == "unique" { "template" } else { name };
            writeln!(f, "{name:<18}{:>9}{:>9}{:>11}", said.said, said.right, percent(said.precision()))?;
        }
        Ok(())
    }
}

fn copies_row(f: &mut fmt::Formatter<'_>, name: &str, copies: &Copies) -> fmt::Result {
    let recall = percent(copies.recall());
    let Copies { planted, found, missed, wrong, .. } = copies;
    writeln!(f, "{name:<18}{planted:>9}{found:>9}{missed:>9}{wrong:>9}{recall:>9}")
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests;
