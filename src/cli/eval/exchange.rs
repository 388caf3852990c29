//! Writes the stream for other programs and reads their verdicts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::baselines::Judged;
use crate::fingerprint::digest_of;
use crate::protocol::VerdictKind;
use crate::quality::{Planted, Role, scored};
use crate::record::RawRecord;

/// One page with the truth about it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    text: &'a str,
    family: usize,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    edit: Option<&'static str>,
}

/// A verdict of another program on one page, as `sieve` writes it; or, without an id, facts about that program.
#[derive(Debug, Deserialize)]
struct ExternalVerdict {
    id: Option<String>,
    match_id: Option<String>,
    /// An `update` and a `template` name a page they resemble, but are delivered.
    verdict: Option<String>,
    seconds: Option<f64>,
    setting: Option<String>,
}

/// Names the pages of a stream: by number, and by text, so that verdicts on another stream are not mistaken for
/// verdicts on this one.
fn ids(stream: &[Planted]) -> Vec<String> {
    let id = |(number, page): (usize, &Planted)| {
        let digest = digest_of(&RawRecord { key: None, value: Some(page.text.as_bytes()), headers: &() });
        format!("{number}-{:08x}", digest.0)
    };
    stream.iter().enumerate().map(id).collect()
}

/// Writes the pages in their order, one JSON object a line.
pub(super) fn write_stream(path: &Path, stream: &[Planted]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
    for (Planted { family, role, text, .. }, id) in stream.iter().zip(ids(stream)) {
        let (role, edit) = match role {
            Role::Original => ("original", None),
            Role::Copy(edit) => ("copy", Some(edit.name())),
            Role::Apart(edit) => ("apart", Some(edit.name())),
        };
        let line = Line { id: &id, text, family: *family, role, edit };
        writeln!(file, "{}", serde_json::to_string(&line)?).with_context(cannot)?;
    }
    file.flush().with_context(cannot)
}

/// Reads and scores verdicts on all pages of a stream; the name of the file is shown as that of the program.
pub(super) fn scored_verdicts(path: &Path, stream: &[Planted]) -> anyhow::Result<Judged> {
    let ids = ids(stream);
    let numbers: HashMap<&str, usize> = (0..).zip(&ids).map(|(number, id)| (id.as_str(), number)).collect();
    let mut verdicts: Vec<Option<Option<usize>>> = vec![None; stream.len()];
    let (mut seconds, mut setting) = (None, String::new());
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let place = || format!("{}:{number}", path.display());
        let answer: ExternalVerdict = serde_json::from_str(&line.with_context(place)?).with_context(place)?;
        seconds = answer.seconds.or(seconds);
        setting = answer.setting.unwrap_or(setting);
        let Some(id) = answer.id else { continue };
        let find = |id: &str| numbers.get(id).copied().with_context(|| format!("{}: no page has the id {id}", place()));
        let page = find(&id)?;
        let kind = answer.verdict.as_deref().and_then(VerdictKind::named);
        let match_id = answer.match_id.filter(|_| !matches!(kind, Some(VerdictKind::Update | VerdictKind::Template)));
        let matched = match_id.as_deref().map(find).transpose()?;
        if let (Some(matched), Some(match_id)) = (matched.filter(|matched| *matched >= page), &match_id) {
            bail!("{}: {match_id} ({matched}) does not come before {id} ({page})", place());
        }
        if let Some(verdict) = verdicts.get_mut(page) {
            *verdict = Some(matched);
        }
    }
    let missing = verdicts.iter().zip(&ids).find(|(verdict, _)| verdict.is_none());
    if let Some((_, id)) = missing {
        bail!("{}: has no verdict on page {id}", path.display());
    }
    let verdicts: Vec<Option<usize>> = verdicts.into_iter().map(Option::flatten).collect();
    let name = path.file_stem().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    Ok(Judged { name, setting, report: scored(stream, &verdicts), seconds })
}
