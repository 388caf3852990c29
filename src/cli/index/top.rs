//! `index top`: which originals absorb the most duplicates.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use clap::Args;
use serde_json::json;

use crate::cli::Global;
use crate::cli::output::{Format, columns, print, print_json};
use crate::config::Purpose;
use crate::error::Fatal;
use crate::log::{Answer, Decision, VerdictRecord};
use crate::record::Source;
use crate::runtime::verdicts::{Extent, read};

/// Arguments of `index top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// how many clusters
    #[arg(short, long, default_value_t = 20)]
    pub number: usize,
}

/// Counts the duplicates of each cluster in the kept log. A page that absorbs thousands is often a block page.
pub(super) fn top(args: &TopArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let mut counts: BTreeMap<Source, u64> = BTreeMap::new();
    read(&settings, Extent::Kept, |news| {
        if let Some(VerdictRecord::Rulings(batch)) = news.map(|news| news.record) {
            for ruling in batch.rulings {
                let Answer::Page(page) = ruling.answer else { continue };
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
            let row = |(source, count): &(Source, u64)| vec![format!("{count:>9}"), source.to_string()];
            let heads = vec!["duplicates".to_owned(), "cluster".to_owned()];
            print(&columns(&std::iter::once(heads).chain(clusters.iter().map(row)).collect::<Vec<_>>()))
        }
        Format::Json => print_json(&clusters.iter().map(object).collect(), Format::Json),
        Format::Jsonl => clusters.iter().map(object).try_for_each(|value| print_json(&value, Format::Jsonl)),
    }
}
