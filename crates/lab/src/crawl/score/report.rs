//! The results as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::{Broken, Copies, Kind, Said, Uniques};

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
