//! `status`: one screen about a running instance, from its own listener. No library and no shell is needed where it
//! runs, so it serves as the health check of a container.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use crossbeam_channel::tick;
use serde_json::Value;

use super::Global;
use super::ask::{Address, get, reachable};
use super::output::{Format, columns, print, print_json};
use super::ruling::age;
use crate::config::{Purpose, load};
use crate::error::{Fatal, Reason};
use crate::runtime::clock::Clock;

/// Arguments of `status`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Example:\n  dupgate status\n  dupgate status --watch --address 10.0.0.7:9464\n  dupgate status --ready"
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
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub every: Duration,
}

/// Prints the summary.
///
/// # Errors
///
/// When nobody listens; with `--ready` also when the instance is not ready.
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
    loop {
        let (status, body) = match get(&address, "/status") {
            Ok(answer) => answer,
            // The moment that one watches for.
            Err(fatal) if args.watch => {
                let since = *gone_since.get_or_insert_with(|| clock.now());
                let span = clock.now().saturating_sub(since).as_secs();
                print(&format!("unreachable for {span} s: {fatal}"))?;
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
                if args.watch && std::io::stdout().is_terminal() {
                    // From the top of an empty screen.
                    let _ = write!(std::io::stdout(), "\x1b[H\x1b[2J");
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

/// A figure of the page; 0 when it is not there.
fn figure(page: &Value, name: &str) -> f64 {
    page[name].as_f64().unwrap_or(0.0)
}

/// Members of an object of figures.
fn figures<'p>(page: &'p Value, name: &str) -> Vec<(&'p str, f64)> {
    let members = page[name].as_object().into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.as_str(), value.as_f64()?))).collect()
}

fn documents(page: &Value) -> f64 {
    figures(page, "documents").iter().map(|(_, count)| count).sum()
}

fn rows(page: &Value, before: Option<&Value>) -> Vec<Vec<String>> {
    let word = |name: &str| page[name].as_str().unwrap_or("-");
    let whole = |value: f64| format!("{value:.0}");
    let ago =
        |name: &str| page[name].as_i64().map_or_else(|| "never".to_owned(), |ms| format!("{} ago", age(ms.max(0))));
    let mut rows = Vec::new();
    let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
    row(
        "dupgate",
        format!(
            "{}  mode {}  scheme {}  config {}",
            word("version"),
            word("mode"),
            word("scheme"),
            word("config_hash")
        ),
    );
    row("ready", if page["ready"] == true { "yes".to_owned() } else { "NO".to_owned() });
    for text in page["waits_for"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        row("", text.to_owned());
    }
    let sum = documents(page);
    let duplicates: f64 = figures(page, "documents")
        .iter()
        .filter(|(verdict, _)| ["exact", "near"].contains(verdict))
        .map(|(_, n)| n)
        .sum();
    let share = if sum > 0.0 { format!(", {:.1} % duplicates", 100.0 * duplicates / sum) } else { String::new() };
    let rate = before.map(|before| {
        let millis = (figure(page, "at_ms") - figure(before, "at_ms")).max(1.0);
        format!(", {:.0}/s", (sum - documents(before)).max(0.0) * 1000.0 / millis)
    });
    row("pages", format!("{}{share}{}", whole(sum), rate.unwrap_or_default()));
    let by_verdict: Vec<String> = figures(page, "documents")
        .iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|(verdict, count)| format!("{verdict} {count:.0}"))
        .collect();
    row("", by_verdict.join("  "));
    let reasons: Vec<&Value> = page["dead_letter_reasons"].as_array().into_iter().flatten().collect();
    let held: f64 = reasons.iter().map(|reason| figure(reason, "held")).sum();
    let held = if held > 0.0 { format!(", {held:.0} held back") } else { String::new() };
    row("dead letters", format!("{}{held}", whole(figure(page, "dead_letters"))));
    for reason in reasons {
        let text = |name: &str| reason[name].as_str().unwrap_or_default();
        let records = figure(reason, "delivered") + figure(reason, "held");
        row("", format!("{} {records:.0}: {}, last at {}", text("reason"), text("why"), text("example")));
    }
    let partitions: f64 = figures(page, "assigned_partitions").iter().map(|(_, count)| count).sum();
    let paused: Vec<&str> = page["paused"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let paused = if paused.is_empty() { String::new() } else { format!(", PAUSED ({})", paused.join(", ")) };
    row("input", format!("{} partitions, lag {}{paused}", whole(partitions), whole(figure(page, "lag"))));
    if let Some(ms) = page["pending_rulings_ms"].as_i64().filter(|ms| *ms >= 2000) {
        row("verdicts", format!("the oldest request has waited for its verdict for {}", age(ms)));
    }
    row("last commit", ago("last_commit_age_ms"));
    let judges: Vec<String> = figures(page, "judge")
        .iter()
        .map(|(log, active)| format!("{log}: {}", if *active > 0.0 { "active" } else { "standby" }))
        .collect();
    row("judge", if judges.is_empty() { "no".to_owned() } else { judges.join(", ") });
    let (memory, limit) = (figure(page, "index_memory_bytes"), figure(page, "index_memory_limit_bytes"));
    let fill = if limit > 0.0 { format!(", {:.1} % of its memory", 100.0 * memory / limit) } else { String::new() };
    let window =
        page["effective_window_ms"].as_i64().map(|ms| format!(", reaches {} back", age(ms))).unwrap_or_default();
    row("index", format!("{} originals{fill}{window}", whole(figure(page, "index_entries"))));
    row("snapshot", ago("snapshot_age_ms"));
    let errors: Vec<String> = page["errors"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(component, _)| {
            figures(&page["errors"], component).into_iter().map(move |(kind, n)| (component, kind, n))
        })
        .map(|(component, kind, count)| format!("{component} {kind} {count:.0}"))
        .collect();
    row("errors", if errors.is_empty() { "0".to_owned() } else { errors.join("  ") });
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_screen_says_what_it_waits_for_and_how_it_does() {
        let page = json!({
            "version": "1.2.3", "mode": "route", "scheme": "sh64-1", "config_hash": "abc", "at_ms": 10_000,
            "ready": false, "waits_for": ["restored: restoring, 40 %"],
            "documents": {"unique": 75.0, "near": 25.0, "exact": 0.0}, "dead_letters": 50.0,
            "dead_letter_reasons": [{
                "reason": "missing_field", "delivered": 50.0, "held": 2.0, "example": "a:0:7", "why": "no `/text`"
            }],
            "pending_rulings_ms": 4500,
            "assigned_partitions": {"a": 2.0, "b": 3.0}, "lag": 7.0, "paused": ["manual"],
            "last_commit_age_ms": 2500, "judge": {"0": 1.0}, "effective_window_ms": 111_600_000,
            "snapshot_age_ms": null, "errors": {"log": {"corrupt": 3.0}},
        });
        let before = json!({"at_ms": 8000, "documents": {"unique": 60.0}});
        let shown = columns(&rows(&page, Some(&before)));
        for expected in [
            "dupgate       1.2.3  mode route  scheme sh64-1  config abc\n",
            "ready         NO\n              restored: restoring, 40 %\n",
            "pages         100, 25.0 % duplicates, 20/s\n              near 25  unique 75\n",
            "input         5 partitions, lag 7, PAUSED (manual)\n",
            "dead letters  50, 2 held back\n              missing_field 52: no `/text`, last at a:0:7\n",
            "verdicts      the oldest request has waited for its verdict for 4s\nlast commit   2s ago\n",
            "judge         0: active\n",
            "index         0 originals, reaches 31h back\n",
            "snapshot      never\n",
            "errors        log corrupt 3",
        ] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
    }
}
