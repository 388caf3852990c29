//! Parses the lines of a scenario.

use dupgate_core::record::{PartitionId, Source};
use dupgate_core::transaction::{Call, CallError};

use crate::world::{Moment, Planned, Trouble};

/// One line, with its number in the file.
#[derive(Debug)]
pub(super) struct Line<'t> {
    pub(super) number: usize,
    pub(super) text: &'t str,
}

/// Which parts a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roles {
    Both,
    Worker,
    Judge,
}

/// How long a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Too short for a `SimHash`: it is found by its exact text alone.
    Short,
    /// A long text, or a variant of it with the same `SimHash`.
    Long { is_variant: bool },
}

/// A page to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A text; the same letter is the same text. `after`: its event time, in milliseconds from now.
    Text {
        text: u64,
        length: Length,
        id: Option<u64>,
        after: i64,
    },
    Poisoned(u64),
    Unreadable,
    Tombstone,
}

/// What something is expected, or waited for, to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Joined(String),
    Judges(String),
    StandsBy(String),
    Gone(String),
    Failed(String, String),
    Holds(String, Call),
    Reads(String, PartitionId),
    Committed(PartitionId, Option<i64>),
    Blocked(PartitionId, String),
    Free(PartitionId),
    /// Records were deleted from its beginning.
    Trimmed(PartitionId),
    Ends(PartitionId, Vec<String>),
    Times(Source, usize),
    Delivered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Write(PartitionId, Vec<Written>),
    /// A process; a static member keeps its place in the group when it comes back.
    Start {
        name: String,
        roles: Roles,
        is_static: bool,
    },
    Kill(String),
    Vanish(String),
    Notice,
    Stop(String),
    Freeze(String),
    Thaw(String),
    Expel(String),
    TimeOut(String),
    Wipe(String),
    Plan(String, Call, Planned),
    LetGo,
    Lose(usize),
    Repeat(usize),
    Window(u64),
    MaxEntries(u64),
    Pass(u64),
    Until(State),
    Expect(State),
    Rewind(PartitionId, i64),
    Cut(PartitionId, i64),
    Truncate(PartitionId, i64),
    /// The input is not consumed any more.
    Drop(PartitionId),
    Reopen(PartitionId, i64, i64),
    Forget(Source),
    /// Pages may be left when the scenario ends.
    Unfinished,
}

/// Cuts a file into scenarios: a title after `#`, then one command a line. Lines after `>` are for the reader.
pub(super) fn scenarios(text: &str) -> Vec<(&str, Vec<Line<'_>>)> {
    let mut found: Vec<(&str, Vec<Line<'_>>)> = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if let Some(title) = line.strip_prefix("# ") {
            found.push((title, Vec::new()));
        } else if let Some((_, lines)) = found.last_mut()
            && !line.is_empty()
            && !line.starts_with('>')
        {
            lines.push(Line { number: at + 1, text: line });
        }
    }
    found
}

type Read<T> = Result<T, String>;

/// Reads a command.
pub(super) fn command(text: &str) -> Read<Command> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    match (verb, &words[..]) {
        ("write", _) => {
            let (input, pages) = rest.split_once(": ").ok_or("write TOPIC:N: PAGE PAGE ...")?;
            Ok(Command::Write(partition(input)?, pages.split_whitespace().map(written).collect::<Read<_>>()?))
        }
        ("start", [name]) => Ok(start(name, Roles::Both)),
        ("start", [name, "static"]) => {
            Ok(Command::Start { name: (*name).to_owned(), roles: Roles::Worker, is_static: true })
        }
        ("start", [name, "worker"]) => Ok(start(name, Roles::Worker)),
        ("start", [name, "judge"]) => Ok(start(name, Roles::Judge)),
        ("kill", [driver, moment @ ("before" | "after"), name]) => {
            let moment = if *moment == "before" { Moment::Before } else { Moment::After };
            Ok(Command::Plan((*driver).to_owned(), call(name)?, Planned::Dies(moment)))
        }
        ("kill", [name]) => Ok(Command::Kill((*name).to_owned())),
        ("vanish", [name]) => Ok(Command::Vanish((*name).to_owned())),
        ("notice", []) => Ok(Command::Notice),
        ("stop", [name]) => Ok(Command::Stop((*name).to_owned())),
        ("freeze", [name]) => Ok(Command::Freeze((*name).to_owned())),
        ("thaw", [name]) => Ok(Command::Thaw((*name).to_owned())),
        ("expel", [name]) => Ok(Command::Expel((*name).to_owned())),
        ("time-out", [name]) => Ok(Command::TimeOut((*name).to_owned())),
        ("wipe", [name]) => Ok(Command::Wipe((*name).to_owned())),
        ("hold", [driver, name]) => Ok(Command::Plan((*driver).to_owned(), call(name)?, Planned::Hold)),
        ("fail", [driver, name, kind, done @ ("done" | "undone")]) => {
            let trouble = Trouble::Fails { error: error(kind)?, done: *done == "done" };
            Ok(Command::Plan((*driver).to_owned(), call(name)?, Planned::Trouble(trouble)))
        }
        ("let-go", []) => Ok(Command::LetGo),
        ("lose", [count, "requests"]) => Ok(Command::Lose(number(count)?)),
        ("repeat", [count, "requests"]) => Ok(Command::Repeat(number(count)?)),
        ("window", [millis]) => Ok(Command::Window(number(millis)?)),
        ("max-entries", [count]) => Ok(Command::MaxEntries(number(count)?)),
        ("pass", [millis]) => Ok(Command::Pass(number(millis)?)),
        ("until", _) => Ok(Command::Until(state(rest)?)),
        ("expect", _) => Ok(Command::Expect(state(rest)?)),
        ("rewind", [input, "to", offset]) => Ok(Command::Rewind(partition(input)?, number(offset)?)),
        ("cut", [log, "before", offset]) => Ok(Command::Cut(partition(log)?, number(offset)?)),
        ("truncate", [log, "to", offset]) => Ok(Command::Truncate(partition(log)?, number(offset)?)),
        ("reopen", [input, range]) => {
            let (from, to) = range.split_once("..").ok_or("reopen TOPIC:N FROM..TO")?;
            Ok(Command::Reopen(partition(input)?, number(from)?, number(to)?))
        }
        ("drop", [input]) => Ok(Command::Drop(partition(input)?)),
        ("forget", [page]) => Ok(Command::Forget(source(page)?)),
        ("unfinished", []) => Ok(Command::Unfinished),
        _ => Err("no such command".to_owned()),
    }
}

fn start(name: &str, roles: Roles) -> Command {
    Command::Start { name: name.to_owned(), roles, is_static: false }
}

fn state(text: &str) -> Read<State> {
    if let Some((input, ends)) = text.split_once(": ") {
        return Ok(State::Ends(partition(input)?, ends.split(", ").map(str::to_owned).collect()));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let name = |name: &&str| (*name).to_owned();
    match &words[..] {
        ["delivered"] => Ok(State::Delivered),
        [who, "joined"] => Ok(State::Joined(name(who))),
        [who, "judges"] => Ok(State::Judges(name(who))),
        [who, "stands", "by"] => Ok(State::StandsBy(name(who))),
        [who, "gone"] => Ok(State::Gone(name(who))),
        [who, "failed", why @ ..] => Ok(State::Failed(name(who), why.join(" "))),
        [who, "holds", held] => Ok(State::Holds(name(who), call(held)?)),
        [who, "reads", input] => Ok(State::Reads(name(who), partition(input)?)),
        [input, "committed", "nothing"] => Ok(State::Committed(partition(input)?, None)),
        [input, "committed", offset] => Ok(State::Committed(partition(input)?, Some(number(offset)?))),
        [input, "blocked", why @ ..] => Ok(State::Blocked(partition(input)?, why.join(" "))),
        [input, "free"] => Ok(State::Free(partition(input)?)),
        [log, "trimmed"] => Ok(State::Trimmed(partition(log)?)),
        [page, "delivered", times, "times"] => Ok(State::Times(source(page)?, number(times)?)),
        _ => Err("no such state".to_owned()),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Read<T> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn partition(text: &str) -> Read<PartitionId> {
    let (topic, number_text) = text.split_once(':').ok_or(format!("{text} is no TOPIC:N"))?;
    Ok(PartitionId::new(topic, number(number_text)?))
}

fn source(text: &str) -> Read<Source> {
    let (input, offset) = text.rsplit_once(':').ok_or(format!("{text} is no TOPIC:N:OFFSET"))?;
    Ok(partition(input)?.at(number(offset)?))
}

fn letter(text: &str) -> Read<u64> {
    let mut letters = text.bytes();
    match (letters.next(), letters.next()) {
        (Some(letter @ b'a'..=b'z'), None) => Ok(u64::from(letter - b'a')),
        _ => Err(format!("{text} is no text: one letter")),
    }
}

/// `a`, `a#7` with an id, `a@-20` with an event time; `d+` is a long text and `d+'` a variant of it; or a word for what
/// is no text.
fn written(text: &str) -> Read<Written> {
    match text {
        "unreadable" => return Ok(Written::Unreadable),
        "tombstone" => return Ok(Written::Tombstone),
        _ => {}
    }
    if let Some(poisoned) = text.strip_prefix("poisoned-") {
        return Ok(Written::Poisoned(letter(poisoned)?));
    }
    let (text, after) = text.split_once('@').map_or((text, None), |(text, after)| (text, Some(after)));
    let (text, id) = text.split_once('#').map_or((text, None), |(text, id)| (text, Some(id)));
    let (text, length) = if let Some(text) = text.strip_suffix("+'") {
        (text, Length::Long { is_variant: true })
    } else if let Some(text) = text.strip_suffix('+') {
        (text, Length::Long { is_variant: false })
    } else {
        (text, Length::Short)
    };
    let (id, after) = (id.map(number).transpose()?, after.map_or(Ok(0), number)?);
    Ok(Written::Text { text: letter(text)?, length, id, after })
}

fn call(text: &str) -> Read<Call> {
    match text {
        "init" => Ok(Call::Init),
        "begin" => Ok(Call::Begin),
        "produce" => Ok(Call::Produce),
        "send-offsets" => Ok(Call::SendOffsets),
        "commit" => Ok(Call::Commit),
        "abort" => Ok(Call::Abort),
        _ => Err(format!("{text} is no call of a producer")),
    }
}

fn error(text: &str) -> Read<CallError> {
    let why = || "as the scenario says".to_owned();
    match text {
        "retriable" => Ok(CallError::Retriable(why())),
        "abortable" => Ok(CallError::Abortable(why())),
        "fenced" => Ok(CallError::Fenced(why())),
        "fatal" => Ok(CallError::Fatal(why())),
        "unknown" => Ok(CallError::Unknown(why())),
        _ => Err(format!("{text} is no error of a call")),
    }
}
