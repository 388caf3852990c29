//! Progress as a terminal shows it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::broker::Broker;
use super::demo::command;
use super::first_start::CliRunner;

/// Runs a command with standard error on a terminal of this many columns; returns what it shows there.
fn on_a_terminal(columns: u16, arguments: &[&str]) -> String {
    shown_on_a_terminal(columns, arguments, |command, screen| command.stdout(Stdio::null()).stderr(screen))
}

/// Runs a command with standard output on a terminal; returns what it shows there.
pub(super) fn output_on_a_terminal(arguments: &[&str]) -> String {
    shown_on_a_terminal(200, arguments, |command, screen| command.stdout(screen).stderr(Stdio::null()))
}

fn shown_on_a_terminal(
    columns: u16,
    arguments: &[&str],
    connect: impl FnOnce(&mut Command, File) -> &mut Command,
) -> String {
    let owner = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&owner).and_then(|()| unlockpt(&owner)).expect("it can be opened");
    tcsetwinsize(&owner, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("it has a size");
    let path = ptsname(&owner, Vec::new()).expect("it has a name").into_string().expect("a path");
    let screen = OpenOptions::new().read(true).write(true).open(Path::new(&path)).expect("it is opened");
    let mut command = command(arguments);
    connect(command.env("TERM", "xterm"), screen);
    let mut child = command.spawn().expect("the binary runs");
    // Now only the program holds the terminal open.
    drop(command);
    let mut shown = Vec::new();
    // Reading fails once nothing holds it open.
    let _ = File::from(owner).read_to_end(&mut shown);
    let status = child.wait().expect("it ends");
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(status.success(), "{arguments:?}: {status:?}\n{shown}");
    shown
}

/// Returns the rows that a progress bar with this prefix has shown on a terminal of `columns` columns, and checks that
/// each is complete and fits.
fn rows_of_bar<'s>(shown: &'s str, prefix: &str, columns: usize) -> Vec<&'s str> {
    let rows: Vec<&str> = shown.split(['\r', '\n']).filter(|row| row.contains(prefix)).collect();
    let rate = |row: &str| row.split_whitespace().find_map(|word| word.strip_suffix("/s")).map(str::to_owned);
    let is_whole = |rate: String| rate.chars().all(|c| c.is_ascii_digit() || c == ',');
    assert!(rows.iter().all(|row| rate(row).is_some_and(is_whole)), "a rate is a whole number: {shown:?}");
    assert!(rows.iter().all(|row| row.contains('%') && row.contains("/s") && row.contains("left ")), "{shown:?}");
    let wide = rows.iter().find(|row| printed(row) > columns);
    assert_eq!(wide, None, "it is wider than the terminal");
    rows
}

/// Returns how many columns a row takes, without escape sequences.
fn printed(row: &str) -> usize {
    let mut parts = row.split('\x1b');
    let first = parts.next().unwrap_or_default().chars().count();
    let after =
        |part: &str| part.split_once(|c: char| c.is_ascii_alphabetic()).map_or(0, |(_, text)| text.chars().count());
    first + parts.map(after).sum::<usize>()
}

#[test]
fn produce_shows_its_progress() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("demo.shown", 1);
    let arguments = ["demo", "produce", "--topic", &topic, "--rate", "200/s", "--count", "300", "-v"];
    let shown = on_a_terminal(80, &[arguments.as_slice(), &["--brokers", broker.address()]].concat());
    let rows = rows_of_bar(&shown, "produce ", 80);
    let pages: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.split(" pages").next()?.split_whitespace().next_back()).collect();
    assert!(pages.len() > 3, "it moves: {pages:?}\n{shown:?}");
    assert!(rows.iter().all(|row| !row.contains("dupgate::") && !row.contains("librdkafka")), "{shown:?}");
    assert!(shown.contains("crawl written"), "{shown:?}");
}

#[test]
fn a_replay_shows_its_progress_and_removes_the_bar() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    cli.create_topics(broker.address(), "", &["--partitions", "2"]);
    let files = cli.files(broker.address(), "");
    let produce = ["demo", "produce", "-c", &files, "--rate", "0", "--count", "300", "--broken", "0", "-q"];
    let written = command(&produce).output().expect("the program");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let run = ["replay", "run", "--from", "start", "--order", "time", "--into", "none", "--execute", "--id", "shown"];
    let shown = on_a_terminal(80, &[run.as_slice(), &["--rate", "100/s", "-c", &files]].concat());
    let rows = rows_of_bar(&shown, "replay ", 80);
    let done: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.split(" / 300").next()?.split_whitespace().next_back()).collect();
    assert!(done.len() > 3, "it moves: {done:?}\n{shown:?}");
    assert!(rows.iter().any(|row| row.contains("duplicates ")), "{shown:?}");
    let after = rows.last().and_then(|row| shown.rsplit_once(*row)).map_or("", |(_, after)| after);
    assert!(after.contains("\x1b[2K") || after.starts_with('\r'), "the bar is removed: {after:?}");
}
