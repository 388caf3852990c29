//! `index top`: shows which originals absorb the most duplicates.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::output::{Format, print, print_json, table};
use crate::cli::{Global, human};
use crate::config::Purpose;
use crate::error::Fatal;
use crate::operators::verdicts::{LogExtent, read};
use crate::protocol::{Answer, Decision, LogIdentity, Placement, Rules, RulesRecord, VerdictRecord};
use crate::record::Source;

/// Arguments of `index top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Number of clusters
    #[arg(short, long, value_name = "NUMBER", default_value_t = 20)]
    pub number: usize,
}

/// Counts the duplicates of each cluster in the kept log. A page that absorbs thousands is often a block page. Also
/// shows the effect of `match.minhash.max_bucket`: the originals that are found by only some of their keys, and the
/// families of which a page is compared with only some members.
pub(super) fn top(args: &TopArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let mut seen = Seen::default();
    read(&settings, LogExtent::Kept, |news| {
        if let Some(news) = news {
            seen.record(news.record);
        }
        ControlFlow::Continue(())
    })?;
    let mut clusters: Vec<(&Source, u64)> = seen.duplicates.iter().map(|(source, count)| (source, *count)).collect();
    clusters.sort_by(|(a_source, a), (b_source, b)| b.cmp(a).then(a_source.cmp(b_source)));
    clusters.truncate(args.number);
    let object = |(source, count): &(&Source, u64)| json!({"cluster": source.to_string(), "duplicates": count});
    match Format::or_usual(global.output) {
        Format::Table => {
            let row = |(source, duplicates): &(&Source, u64)| {
                vec![format!("{:>10}", human::count(*duplicates)), source.to_string()]
            };
            let table = table(&["DUPLICATES", "CLUSTER"], &clusters.iter().map(row).collect::<Vec<_>>());
            print(&format!("{table}\n\n{}", seen.bounded()))
        }
        Format::Json => {
            let clusters: Vec<Value> = clusters.iter().map(object).collect();
            print_json(&json!({"clusters": clusters, "bounds": seen.bounds()}), Format::Json)
        }
        Format::Jsonl => {
            clusters.iter().map(object).try_for_each(|value| print_json(&value, Format::Jsonl))?;
            print_json(&json!({"bounds": seen.bounds()}), Format::Jsonl)
        }
    }
}

/// Clusters and families in the kept log.
#[derive(Debug, Default)]
struct Seen {
    /// Duplicates by the original of their cluster.
    duplicates: BTreeMap<Source, u64>,
    /// Members by log and by the first page of their family.
    members: BTreeMap<(LogIdentity, u64), u64>,
    /// Originals outside families that are found by fewer keys than they have.
    crowded: u64,
    /// The bound in force; 0 if there is none.
    max_bucket: u16,
}

impl Seen {
    fn record(&mut self, record: VerdictRecord) {
        match record {
            VerdictRecord::Rules(RulesRecord { rules, .. }) => self.rules(&rules),
            VerdictRecord::Checkpoint(checkpoint) => self.rules(&checkpoint.rules),
            VerdictRecord::Verdicts(batch) => {
                for verdict in batch.verdicts {
                    if let Answer::Page(page) = verdict.answer {
                        self.page(batch.log, page.decision);
                    }
                }
            }
        }
    }

    fn rules(&mut self, rules: &Rules) {
        self.max_bucket = rules.minhash.as_ref().map_or(0, |minhash| minhash.max_bucket);
    }

    fn page(&mut self, log: LogIdentity, decision: Decision) {
        match decision.original().map(|original| original.placement) {
            Some(Placement { family: Some(head), .. }) => *self.members.entry((log, head)).or_default() += 1,
            Some(Placement { family: None, skipped, .. }) => self.crowded += u64::from(skipped != 0),
            None => {}
        }
        if let Decision::Duplicate { of } = decision {
            *self.duplicates.entry(of.cluster).or_default() += 1;
        }
    }

    /// Returns the sizes of the families that have more members than a page is compared with.
    fn large_families(&self) -> Vec<u64> {
        let max = u64::from(self.max_bucket);
        self.members.values().copied().filter(|&members| max != 0 && members > max).collect()
    }

    /// Returns the effect of the bound as JSON.
    fn bounds(&self) -> Value {
        let large = self.large_families();
        json!({
            "family_members": self.members.values().sum::<u64>(),
            "found_by_fewer_keys": self.crowded,
            "max_bucket": self.max_bucket,
            "families_above_max_bucket": large.len(),
            "largest_family_above_max_bucket": large.iter().max(),
        })
    }

    /// Returns the effect of the bound in sentences.
    fn bounded(&self) -> String {
        let [members, crowded] = [self.members.values().sum(), self.crowded].map(human::count);
        let text = format!(
            "{members} originals belong to a family (pages of one template or site) and are found through its first page;\n\
             {crowded} others are found by fewer keys than they have (match.minhash.max_bucket)"
        );
        let max = u64::from(self.max_bucket);
        let large = self.large_families();
        let Some(largest) = large.iter().max() else { return text };
        let (families, largest) = (human::count(large.len() as u64), human::count(*largest));
        format!(
            "{text};\n{families} families have more than {max} members, the largest {largest}: a page is compared with the {max} \
             that have most in common with it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_beyond_the_bound_are_reported() {
        let log = LogIdentity(1);
        let mut seen = Seen { max_bucket: 64, ..Seen::default() };
        seen.members.extend([((log, 1), 64), ((log, 2), 1500), ((LogIdentity(2), 2), 65)]);
        assert!(seen.bounded().starts_with("1,629 originals belong to a family"), "{}", seen.bounded());
        assert!(
            seen.bounded().contains("\n2 families have more than 64 members, the largest 1,500:"),
            "{}",
            seen.bounded()
        );
        let report = json!({
            "family_members": 1629, "found_by_fewer_keys": 0, "max_bucket": 64, "families_above_max_bucket": 2,
            "largest_family_above_max_bucket": 1500,
        });
        assert_eq!(seen.bounds(), report);
        seen.max_bucket = 0;
        assert!(!seen.bounded().contains("more than"), "{}", seen.bounded());
    }
}
