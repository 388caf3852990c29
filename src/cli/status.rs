//! `status`: shows a running instance on one screen, from its own listener. The command needs no shell and no library,
//! so it can be the health check of a container.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use crossbeam_channel::tick;
use serde_json::Value;

use super::Global;
use super::instance::{Address, get, reachable};
use super::output::{Format, NamedRows, age, clear_screen, count, print, print_report, span};
use crate::clock::Clock;
use crate::config::{Purpose, load};
use crate::error::{Fatal, OrFatal, Reason, fatal};
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
        return match status {
            200 => print("ready"),
            _ => Err(fatal!(Failure, "not ready: {}", body.trim().replace('\n', "; "))),
        };
    }
    let format = global.format();
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
                // The ticker lives as long as this loop.
                let _ = ticks.recv();
                continue;
            }
            Err(fatal) => return Err(fatal),
        };
        if status != 200 {
            return Err(fatal!(
                Failure,
                "/status answers {status}: is that http.listen, or the address of another listener?"
            ));
        }
        gone_since = None;
        let page = serde_json::from_str(&body).or_fatal(Reason::Failure)?;
        if args.watch && is_screen && format == Format::Table {
            clear_screen();
        }
        print_report(format, &page, || rows(&page, before.as_ref()).text())?;
        if !args.watch {
            return Ok(());
        }
        before = Some(page);
        let _ = ticks.recv();
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

fn rows(page: &Value, before: Option<&Value>) -> NamedRows {
    let word = |name: &str| page[name].as_str().filter(|text| !text.is_empty()).unwrap_or("-");
    let list = |name: &str| page[name].as_array().into_iter().flatten();
    let words = |name: &str| list(name).filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let ago = |name: &str, otherwise: &str| {
        page[name].as_i64().map_or_else(|| otherwise.to_owned(), |ms| format!("{} ago", age(ms.max(0))))
    };
    let mut rows = NamedRows::default();
    let uptime = page["uptime_ms"].as_i64().map(|ms| format!("  up {}", age(ms))).unwrap_or_default();
    rows.add("dupgate", format!("{}  instance {}{uptime}", word("version"), word("instance_id")));
    rows.add("settings", format!("mode {}  scheme {}  config {}", word("mode"), word("scheme"), word("config_hash")));
    rows.add("ready", if page["ready"] == true { "yes" } else { "NO" });
    list("waits_for").filter_map(Value::as_str).for_each(|text| rows.add("", text));
    let pages = sum(page, "documents");
    let duplicates: u64 = VerdictLabel::duplicates().map(|verdict| count_of(&page["documents"], verdict.name())).sum();
    let share = if pages > 0 { format!(", {} duplicates", percent(duplicates, pages)) } else { String::new() };
    let rate = rate(page, before).map(|rate| format!(", {rate}")).unwrap_or_default();
    rows.add("pages", format!("{}{share}{rate}", count(pages)));
    let by_verdict = counts_of(page, "documents").into_iter().filter(|(_, pages)| *pages > 0);
    let by_verdict: Vec<String> = by_verdict.map(|(verdict, pages)| format!("{verdict} {}", count(pages))).collect();
    if !by_verdict.is_empty() {
        rows.add("", by_verdict.join("  "));
    }
    let held: u64 = list("dead_letter_reasons").map(|reason| count_of(reason, "held")).sum();
    let held = if held > 0 { format!(", {} held back", count(held)) } else { String::new() };
    rows.add("dead letters", format!("{}{held}", count(count_of(page, "dead_letters"))));
    for reason in list("dead_letter_reasons") {
        let [name, why, example] = ["reason", "why", "example"].map(|name| reason[name].as_str().unwrap_or_default());
        let records = count(count_of(reason, "delivered") + count_of(reason, "held"));
        rows.add("", format!("{name} {records}: {why}, last at {example}"));
    }
    let topics = Some(words("topics")).filter(|topics| !topics.is_empty());
    let topics = topics.map(|topics| format!(" of {topics}")).unwrap_or_default();
    let paused = Some(words("paused")).filter(|paused| !paused.is_empty());
    let paused = paused.map(|paused| format!(", PAUSED ({paused})")).unwrap_or_default();
    let (partitions, lag) = (count(sum(page, "assigned_partitions")), count(count_of(page, "lag")));
    rows.add("input", format!("{partitions} partitions{topics}, lag {lag}{paused}"));
    rows.add("group", word("group"));
    if let Some(ms) = page["pending_verdicts_ms"].as_i64().filter(|ms| *ms >= 2000) {
        rows.add("verdicts", format!("the oldest request has waited for its verdict for {}", age(ms)));
    }
    rows.add("last commit", ago("last_commit_age_ms", "none since the start"));
    let judges = counts_of(page, "judge");
    if judges.len() > MAX_JUDGES {
        let active = judges.iter().filter(|(_, active)| *active > 0).count();
        rows.add("judges", format!("{active} active, {} standby", judges.len() - active));
    } else {
        for (log, active) in &judges {
            rows.add(&format!("judge {log}"), if *active > 0 { "active" } else { "standby" });
        }
    }
    if let Some(ms) = page["dual_period_ms"].as_i64() {
        rows.add("dual period", format!("the earlier scheme decides for {} of event time more", age(ms)));
    }
    if !judges.is_empty() {
        let (memory, limit) = (count_of(page, "index_memory_bytes"), count_of(page, "index_memory_limit_bytes"));
        let fill = if limit > 0 { format!(", {} of its memory", percent(memory, limit)) } else { String::new() };
        let window =
            page["effective_window_ms"].as_i64().map(|ms| format!(", reaches {} back", age(ms))).unwrap_or_default();
        rows.add("index", format!("{} originals{fill}{window}", count(count_of(page, "index_entries"))));
        rows.add("snapshot", ago("snapshot_age_ms", "none written since the start"));
    }
    let errors = page["errors"].as_object().into_iter().flatten().flat_map(|(component, _)| {
        let kinds = counts_of(&page["errors"], component).into_iter();
        kinds.map(move |(kind, errors)| format!("{component} {kind} {}", count(errors)))
    });
    rows.add("errors", errors.reduce(|errors, more| format!("{errors}  {more}")).unwrap_or_else(|| "0".to_owned()));
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
            "pending_verdicts_ms": 4500, "dual_period_ms": 7_200_000,
            "assigned_partitions": {"a": 2, "b": 3}, "lag": 1234, "paused": ["manual"],
            "last_commit_age_ms": 2500, "judge": {"0": 1, "1": 0}, "effective_window_ms": 111_600_000,
            "snapshot_age_ms": null, "errors": {"log": {"corrupt": 3}},
        });
        let before = json!({"at_ms": 8000, "documents": {"unique": 6000}});
        let shown = rows(&page, Some(&before)).text();
        for expected in [
            "dupgate       1.2.3  instance one  up 1 d 2 h\nsettings      mode route  scheme sh64-1  config abc\n",
            "ready         NO\n              restored: restoring, 40 %\n",
            "pages         10,000, 25.0 % duplicates, 2,000/s\n              near 2,500  unique 7,500\n",
            "input         5 partitions of crawl.pages, lag 1,234, PAUSED (manual)\ngroup         crawl\n",
            "dead letters  50, 2 held back\n              missing_field 52: no `/text`, last at a:0:7\n",
            "verdicts      the oldest request has waited for its verdict for 4 s\nlast commit   2 s ago\n",
            "judge 0       active\njudge 1       standby\n",
            "dual period   the earlier scheme decides for 2 h of event time more\n",
            "index         0 originals, reaches 1 d 7 h back\n",
            "snapshot      none written since the start\n",
            "errors        log corrupt 3",
        ] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
        let first = rows(&page, None).text();
        assert!(first.contains("pages         10,000, 25.0 % duplicates, 0/s since the start\n"), "{first}");
        let idle = rows(&json!({"documents": {"unique": 0}}), None).text();
        assert!(idle.contains("pages         0\ndead letters  0\n"), "{idle}");
    }
}
