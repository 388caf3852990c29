//! Reads or generates the texts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::{EvalArgs, original};
use crate::crawl::{Crawl, CrawlSettings};
use crate::fingerprint::{Fingerprinter, ShingleBuffer, Shingling, StopShingles};
use crate::quality::{Edit, Half, Planted, Role, clean, set_of};
use crate::record::Body;

/// A text with its name.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    pub(super) id: String,
    pub(super) text: String,
}

/// Reads or generates the texts of a half.
pub(super) fn gather(args: &EvalArgs, half: Half, reader: &Fingerprinter) -> anyhow::Result<Vec<Named>> {
    let mut texts = Vec::new();
    for path in &args.base {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (number, line) in (1..).zip(BufReader::new(file).lines()) {
            let place = || format!("{}:{number}", path.display());
            let line = line.with_context(place)?;
            if !line.trim().is_empty() {
                texts.push(serde_json::from_str::<Named>(&line).with_context(place)?);
            }
        }
    }
    if args.base.is_empty() {
        let crawl =
            CrawlSettings { seed: args.seed, html: 0.0, exact: 0.0, near: 0.0, broken: 0.0, ..Default::default() };
        let pages = Crawl::new(crawl)?.take(args.texts);
        texts.extend(pages.filter_map(|page| serde_json::from_slice::<Named>(&page.value).ok()));
    }
    if args.pairs.is_some() {
        return Ok(texts);
    }
    let lengths = args.min_chars..=args.max_chars;
    let mut used: Vec<Named> = (0..)
        .zip(texts)
        .filter(|(number, text)| half.has(*number) && lengths.contains(&text.text.chars().count()))
        .map(|(_, text)| text)
        .collect();
    let whole = Shingling::of_characters(5, 8);
    let mut kept = clean(&sets(&used, reader, whole, &StopShingles::default()), args.clean).into_iter();
    used.retain(|_| kept.next().unwrap_or(true));
    if used.is_empty() {
        bail!("no text is left to plant");
    }
    Ok(used)
}

/// Returns only the texts.
pub(super) fn without_names(texts: Vec<Named>) -> Vec<String> {
    texts.into_iter().map(|text| text.text).collect()
}

/// Returns the counting shingles of each text, without repetitions.
pub(super) fn sets(
    texts: &[Named],
    reader: &Fingerprinter,
    shingling: Shingling,
    stop: &StopShingles,
) -> Vec<Vec<u32>> {
    let (mut normal, mut buffer, mut hashes) = (String::new(), ShingleBuffer::default(), Vec::new());
    let set = |text: &Named| {
        let normal = reader.analyzer().normalize(&Body::Text((&*text.text).into()), &mut normal);
        shingling.hashes(reader.analyzer(), normal.map_or("", |normal| normal.text), &mut buffer, &mut hashes);
        stop.drop_from(&mut hashes);
        set_of(&hashes)
    };
    texts.iter().map(set).collect()
}

/// Forms families from the pairs in a file, which has two ids per line. The first text of a family counts as its
/// original, whichever of its copies was really first.
pub(super) fn labelled(texts: &[Named], pairs: &Path) -> anyhow::Result<Vec<Planted>> {
    let numbers: HashMap<&str, usize> = (0..).zip(texts).map(|(number, text)| (text.id.as_str(), number)).collect();
    let mut families: Vec<usize> = (0..texts.len()).collect();
    let lines = std::fs::read_to_string(pairs).with_context(|| format!("cannot read {}", pairs.display()))?;
    for (number, line) in (1..).zip(lines.lines()) {
        let mut ids = line.split_whitespace();
        let (Some(one), Some(other)) = (ids.next(), ids.next()) else { continue };
        let find =
            |id: &str| numbers.get(id).copied().with_context(|| format!("line {number}: no text has the id {id}"));
        let (one, other) = (find(one)?, find(other)?);
        let family = |text: usize| families.get(text).copied().unwrap_or(text);
        let (low, high) = (family(one).min(family(other)), family(one).max(family(other)));
        families.iter_mut().filter(|family| **family == high).for_each(|family| *family = low);
    }
    let pages = texts.iter().zip(families).enumerate().map(|(number, (text, family))| {
        let mut page = original(family, text.text.clone());
        if family != number {
            page.role = Role::Copy(Edit::Found);
        }
        page
    });
    Ok(pages.collect())
}
