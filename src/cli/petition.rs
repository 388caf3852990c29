//! What an operator asks of the judges, and how their answers are shown.

use std::io::Write;
use std::time::Duration;

use super::Global;
use crate::config::Purpose;
use crate::error::{Fatal, Reason};
use crate::log::{Answer, EntryBody, ForgetTarget};
use crate::runtime::petition::{Answered, submit};

/// How long to wait for the judges.
const PATIENCE: Duration = Duration::from_mins(1);

/// Asks the judges and prints what they answer; without `execute` only says what would be asked.
pub(super) fn petition(global: &Global, bodies: &[EntryBody], execute: bool) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    if !execute {
        for body in bodies {
            print(&format!("would ask: {}", question(body)))?;
        }
        return print("nothing was done: add --execute to do it");
    }
    for Answered { log, offset, answer } in submit(&loaded.settings, bodies, PATIENCE)? {
        print(&format!("judge {log}: {} (verdict log offset {offset})", said(&answer)))?;
    }
    Ok(())
}

fn question(body: &EntryBody) -> String {
    match body {
        EntryBody::Forget(target) => format!("forget {}", whom(target)),
        EntryBody::Reopen { partition, from, to } => format!("judge {partition}:{from}-{to} anew"),
        EntryBody::Withdraw { source, reason } => format!("withdraw {source} ({})", reason.name()),
        EntryBody::Page(page) => format!("judge {}", page.source),
    }
}

fn said(answer: &Answer) -> String {
    match answer {
        Answer::Forgotten(target) => format!("forgot {}", whom(target)),
        Answer::Reopened { partition, from, to } => format!("reopened {partition}:{from}-{to}"),
        Answer::Withdrawn { source, reason } => format!("withdrew {source} ({})", reason.name()),
        Answer::Page(page) => format!("judged {}", page.source),
    }
}

fn whom(target: &ForgetTarget) -> String {
    match target {
        ForgetTarget::Source(source) => format!("the original of {source}"),
        ForgetTarget::Id(id) => format!("every original with the id of hash {:016x}", id.0),
    }
}

fn print(line: &str) -> Result<(), Fatal> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(|error| Reason::Failure.because(error))
}
