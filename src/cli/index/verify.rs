//! `index verify`: does the snapshot say what the verdict log says?

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::snapshots;
use crate::cli::Global;
use crate::cli::output::print;
use crate::config::Purpose;
use crate::error::{Fatal, Reason};
use crate::judge::State;
use crate::runtime::cores::on_all_cores;
use crate::runtime::verdicts::{Extent, Read, read};

/// Follows the kept log up to the place of each snapshot, and compares the two states (law L5).
pub(super) fn verify(global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let snapshots: BTreeMap<usize, _> = snapshots(&settings)?
        .into_iter()
        .filter_map(|(log, snapshot)| Some((usize::try_from(log).ok()?, snapshot)))
        .collect();
    let mut states: BTreeMap<usize, State> = BTreeMap::new();
    let mut trouble = None;
    read(&settings, Extent::Kept, |news| {
        let Some(Read { log, next, record, .. }) = news else { return ControlFlow::Continue(()) };
        if snapshots.get(&log).is_some_and(|snapshot| next <= snapshot.at) {
            let state = states.entry(log).or_default();
            if let Err(diverged) = state.follow_record(&record) {
                trouble = Some(Reason::State.because(anyhow::anyhow!("verdict log {log}, offset {next}: {diverged}")));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(fatal) = trouble {
        return Err(fatal);
    }
    let mut differ = 0_u32;
    for (log, snapshot) in snapshots {
        let (at, held) = (snapshot.at, snapshot.originals.len());
        let loaded = State::load(&snapshot.state, &snapshot.originals, on_all_cores);
        let followed = states.remove(&log).unwrap_or_default();
        let same = loaded.digest() == followed.digest();
        differ += u32::from(!same);
        let word = if same { "ok" } else { "DIFFERS" };
        print(&format!(
            "{word}  log {log} at offset {at}: {held} originals in the snapshot, {} in the log",
            followed.index().live(&followed.tails()).count()
        ))?;
    }
    if differ == 0 {
        Ok(())
    } else {
        let why = "the snapshot is not what the verdict log says: stop the judge, delete the snapshot, start it again";
        Err(Reason::Failure.because(anyhow::anyhow!(why)))
    }
}
