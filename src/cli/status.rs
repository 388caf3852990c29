//! `status`: shows a running instance on one screen, from its own listener. The command needs no shell and no library,
//! so it can be the health check of a container.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use crossbeam_channel::tick;
use serde_json::Value;

use super::Global;
use super::instance::{Address, get, reachable};
use super::output::{Format, age, clear_screen, columns, count, print, print_json, span};
use crate::clock::Clock;
use crate::config::{Purpose, load};
use crate::error::{Fatal, Reason};
use crate::telemetry::labels::{LabelValue, VerdictLabel};

/// Arguments of `status`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  dupgate status\n  dupgate status --watch --address 10.0.0.7:9464\n  dupgate status --ready"
)]
pub struct StatusArgs {
    /// Address of the instance, host:port or a URL [default: http.listen]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<Address>,
    /// Only report readiness: exit code 0 or 1
    #[arg(long)]
    pub ready: bool,
    /// Refresh until Ctrl-C, with rates
    #[arg(long, conflicts_with = "ready")]
    pub watch: bool,
    /// Refresh interval
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = super::duration)]
    pub every: Duration,
}

/// Prints the summary.
///
/// # Errors
///
/// The instance cannot be reached; with `--ready` also if it is not ready.
pub fn status(args: &StatusArgs, global: &Global) -> Result<(), Fatal> {
    let address = match &args.address {
        Some(address) => address.clone(),
        None => reachable(load(&global.sources(), Purpose::Sieve)?.settings.http.listen).into(),
    };
    if args.ready {
        let (status, body) = get(&address, "/readyz")?;
        return if status == 200 {
            print("ready")
        } else {
            Err(Reason::Failure.because(anyhow::anyhow!("not ready: {}", body.trim().replace('\n', "; "))))
        };
    }
    let format = Format::or_usual(global.output);
    let mut before: Option<Value> = None;
    let ticks = tick(args.every.max(Duration::from_millis(100)));
    let clock = Clock::start();
    let mut gone_since: Option<Duration> = None;
    let is_screen = std::io::stdout().is_terminal();
    loop {
        let (status, body) = match get(&address, "/status") {
            Ok(answer) => answer,
            // A watcher may be waiting for just this, so it continues.
            Err(fatal) if args.watch => {
                let since = *gone_since.get_or_insert_with(|| clock.now());
                let text = format!("unreachable for {}: {fatal}", span(clock.now().saturating_sub(since)));
                match format {
                    // Keep the last state on the screen, with one line below.
                    Format::Table if is_screen => {
                        let mut out = std::io::stdout();
                        let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
                    }
                    Format::Table => print(&text)?,
                    Format::Json | Format::Jsonl => super::note(&text),
                }
                if ticks.recv().is_err() {
                    return Ok(());
                }
                continue;
            }
            Err(fatal) => return Err(fatal),
        };
        if status != 200 {
            let why = format!("/status answers {status}: is that http.listen, or the address of another listener?");
            return Err(Reason::Failure.because(anyhow::anyhow!(why)));
        }
        gone_since = None;
        let page = serde_json::from_str(&body).map_err(|error| Reason::Failure.because(error))?;
        match format {
            Format::Table => {
                if args.watch && is_screen {
                    clear_screen();
                }
                print(&columns(&rows(&page, before.as_ref())))?;
            }
            Format::Json | Format::Jsonl => print_json(&page, format)?,
        }
        if !args.watch {
            return Ok(());
        }
        before = Some(page);
        if ticks.recv().is_err() {
            return Ok(());
        }
    }
}

/// Returns a count of the page; 0 if it is missing.
fn count_of(page: &Value, name: &str) -> u64 {
    page[name].as_u64().unwrap_or(0)
}

/// Returns the members of an object of counts.
fn counts_of<'p>(page: &'p Value, name: &str) -> Vec<(&'p str, u64)> {
    let members = page[name].as_object().into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.as_str(), value.as_u64()?))).collect()
}

fn sum(page: &Value, name: &str) -> u64 {
    counts_of(page, name).iter().map(|(_, count)| count).sum()
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Returns the pages per second between two updates, or since the start.
fn rate(page: &Value, before: Option<&Value>) -> Option<String> {
    let a_second = |pages: u64, millis: u64| count(pages.saturating_mul(1000) / millis.max(1));
    let pages = sum(page, "documents");
    if let Some(before) = before {
        let millis = count_of(page, "at_ms").saturating_sub(count_of(before, "at_ms"));
        return Some(format!("{}/s", a_second(pages.saturating_sub(sum(before, "documents")), millis)));
    }
    let uptime = page["uptime_ms"].as_u64().filter(|uptime| *uptime >= 1000 && pages > 0)?;
    Some(format!("{}/s since the start", a_second(pages, uptime)))
}

/// Maximum number of logs whose judges get a separate line.
const MAX_JUDGES: usize = 8;

fn rows(page: &Value, before: Option<&Value>) -> Vec<Vec<String>> {
    let word = |name: &str| page[name].as_str().filter(|text| !text.is_empty()).unwrap_or("-");
    let ago = |name: &str, otherwise: &str| {
        page[name].as_i64().map_or_else(|| otherwise.to_owned(), |ms| format!("{} ago", age(ms.max(0))))
    };
    let mut rows = Vec::new();
    let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
    let uptime = page["uptime_ms"].as_i64().map(|ms| format!("  up {}", age(ms))).unwrap_or_default();
    row("dupgate", format!("{}  instance {}{uptime}", word("version"), word("instance_id")));
    row("settings", format!("mode {}  scheme {}  config {}", word("mode"), word("scheme"), word("config_hash")));
    row("ready", if page["ready"] == true { "yes".to_owned() } else { "NO".to_owned() });
    for text in page["waits_for"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        row("", text.to_owned());
    }
    let pages = sum(page, "documents");
    let duplicates: u64 = VerdictLabel::duplicates().map(|verdict| count_of(&page["documents"], verdict.name())).sum();
    let share = if pages > 0 { format!(", {} duplicates", percent(duplicates, pages)) } else { String::new() };
    let rate = rate(page, before).map(|rate| format!(", {rate}")).unwrap_or_default();
    row("pages", format!("{}{share}{rate}", count(pages)));
    let by_verdict: Vec<String> = counts_of(page, "documents")
        .iter()
        .filter(|(_, pages)| *pages > 0)
        .map(|(verdict, pages)| format!("{verdict} {}", count(*pages)))
        .collect();
    if !by_verdict.is_empty() {
        row("", by_verdict.join("  "));
    }
    let reasons: Vec<&Value> = page["dead_letter_reasons"].as_array().into_iter().flatten().collect();
    let held: u64 = reasons.iter().map(|reason| count_of(reason, "held")).sum();
    let held = if held > 0 { format!(", {} held back", count(held)) } else { String::new() };
    row("dead letters", format!("{}{held}", count(count_of(page, "dead_letters"))));
    for reason in reasons {
        let text = |name: &str| reason[name].as_str().unwrap_or_default();
        let records = count(count_of(reason, "delivered") + count_of(reason, "held"));
        row("", format!("{} {records}: {}, last at {}", text("reason"), text("why"), text("example")));
    }
    let topics: Vec<&str> = page["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let topics = if topics.is_empty() { String::new() } else { format!(" of {}", topics.join(", ")) };
    let paused: Vec<&str> = page["paused"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let paused = if paused.is_empty() { String::new() } else { format!(", PAUSED ({})", paused.join(", ")) };
    let partitions = count(sum(page, "assigned_partitions"));
    row("input", format!("{partitions} partitions{topics}, lag {}{paused}", count(count_of(page, "lag"))));
    row("group", word("group").to_owned());
    if let Some(ms) = page["pending_verdicts_ms"].as_i64().filter(|ms| *ms >= 2000) {
        row("verdicts", format!("the oldest request has waited for its verdict for {}", age(ms)));
    }
    row("last commit", ago("last_commit_age_ms", "none since the start"));
    let judges = counts_of(page, "judge");
    let state = |active: u64| if active > 0 { "active" } else { "standby" };
    if judges.len() > MAX_JUDGES {
        let active = judges.iter().filter(|(_, active)| *active > 0).count();
        row("judges", format!("{active} active, {} standby", judges.len() - active));
    } else {
        judges.iter().for_each(|(log, active)| row(&format!("judge {log}"), state(*active).to_owned()));
    }
    if !judges.is_empty() {
        let (memory, limit) = (count_of(page, "index_memory_bytes"), count_of(page, "index_memory_limit_bytes"));
        let fill = if limit > 0 { format!(", {} of its memory", percent(memory, limit)) } else { String::new() };
        let window =
            page["effective_window_ms"].as_i64().map(|ms| format!(", reaches {} back", age(ms))).unwrap_or_default();
        row("index", format!("{} originals{fill}{window}", count(count_of(page, "index_entries"))));
        row("snapshot", ago("snapshot_age_ms", "none written since the start"));
    }
    let errors: Vec<String> = page["errors"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(component, _)| {
            counts_of(&page["errors"], component).into_iter().map(move |(kind, n)| (component, kind, n))
        })
        .map(|(component, kind, errors)| format!("{component} {kind} {}", count(errors)))
        .collect();
    row("errors", if errors.is_empty() { "0".to_owned() } else { errors.join("  ") });
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_screen_shows_what_is_not_ready_and_the_state() {
        let page = json!({
            "version": "1.2.3", "mode": "route", "scheme": "sh64-1", "config_hash": "abc", "at_ms": 10_000,
            "ready": false, "waits_for": ["restored: restoring, 40 %"],
            "group": "crawl", "instance_id": "one", "topics": ["crawl.pages"], "uptime_ms": 93_600_000,
            "documents": {"unique": 7500, "near": 2500, "exact": 0}, "dead_letters": 50,
            "dead_letter_reasons": [{
                "reason": "missing_field", "delivered": 50, "held": 2, "example": "a:0:7", "why": "no `/text`"
            }],
            "pending_verdicts_ms": 4500,
            "assigned_partitions": {"a": 2, "b": 3}, "lag": 1234, "paused": ["manual"],
            "last_commit_age_ms": 2500, "judge": {"0": 1, "1": 0}, "effective_window_ms": 111_600_000,
            "snapshot_age_ms": null, "errors": {"log": {"corrupt": 3}},
        });
        let before = json!({"at_ms": 8000, "documents": {"unique": 6000}});
        let shown = columns(&rows(&page, Some(&before)));
        for expected in [
            "dupgate       1.2.3  instance one  up 1 d 2 h\nsettings      mode route  scheme sh64-1  config abc\n",
            "ready         NO\n              restored: restoring, 40 %\n",
            "pages         10,000, 25.0 % duplicates, 2,000/s\n              near 2,500  unique 7,500\n",
            "input         5 partitions of crawl.pages, lag 1,234, PAUSED (manual)\ngroup         crawl\n",
            "dead letters  50, 2 held back\n              missing_field 52: no `/text`, last at a:0:7\n",
            "verdicts      the oldest request has waited for its verdict for 4 s\nlast commit   2 s ago\n",
            "judge 0       active\njudge 1       standby\n",
            "index         0 originals, reaches 1 d 7 h back\n",
            "snapshot      none written since the start\n",
            "errors        log corrupt 3",
        ] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
        let first = columns(&rows(&page, None));
        assert!(first.contains("pages         10,000, 25.0 % duplicates, 0/s since the start\n"), "{first}");
        let idle = columns(&rows(&json!({"documents": {"unique": 0}}), None));
        assert!(idle.contains("pages         0\ndead letters  0\n"), "{idle}");
    }
}
