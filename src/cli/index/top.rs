//! `index top`: which originals absorb the most duplicates.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use clap::Args;
use serde_json::json;

use crate::cli::output::{Format, print, print_json, table};
use crate::cli::{Global, human};
use crate::config::Purpose;
use crate::error::Fatal;
use crate::protocol::{Answer, Decision, VerdictRecord};
use crate::record::Source;
use crate::runtime::verdicts::{Extent, read};

/// Arguments of `index top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Number of clusters
    #[arg(short, long, value_name = "NUMBER", default_value_t = 20)]
    pub number: usize,
}

/// Counts the duplicates of each cluster in the kept log, and the originals that are found by few of their keys because
/// `match.minhash.max_bucket` others are found by the rest. A page that absorbs thousands is often a block page.
pub(super) fn top(args: &TopArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let mut counts: BTreeMap<Source, u64> = BTreeMap::new();
    let (mut members, mut crowded) = (0_u64, 0_u64);
    read(&settings, Extent::Kept, |news| {
        if let Some(VerdictRecord::Verdicts(batch)) = news.map(|news| news.record) {
            for verdict in batch.verdicts {
                let Answer::Page(page) = verdict.answer else { continue };
                if let Some(original) = page.decision.original() {
                    members += u64::from(original.placement.family.is_some());
                    crowded += u64::from(original.placement.family.is_none() && original.placement.skipped != 0);
                }
                if let Decision::Duplicate { of } = page.decision {
                    *counts.entry(of.cluster).or_default() += 1;
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    let mut clusters: Vec<(Source, u64)> = counts.into_iter().collect();
    clusters.sort_by(|(a_source, a), (b_source, b)| b.cmp(a).then(a_source.cmp(b_source)));
    clusters.truncate(args.number);
    let object = |(source, count): &(Source, u64)| json!({"cluster": source.to_string(), "duplicates": count});
    match Format::or_usual(global.output) {
        Format::Table => {
            let row = |(source, duplicates): &(Source, u64)| {
                vec![format!("{:>10}", human::count(*duplicates)), source.to_string()]
            };
            let table = table(&["DUPLICATES", "CLUSTER"], &clusters.iter().map(row).collect::<Vec<_>>());
            let [members, crowded] = [members, crowded].map(human::count);
            print(&format!(
                "{table}\n\n{members} originals belong to a family (pages of one template or site) and are found through its first \
                 page;\n{crowded} others are found by fewer keys than they have (match.minhash.max_bucket)"
            ))
        }
        Format::Json => print_json(&clusters.iter().map(object).collect(), Format::Json),
        Format::Jsonl => clusters.iter().map(object).try_for_each(|value| print_json(&value, Format::Jsonl)),
    }
}
