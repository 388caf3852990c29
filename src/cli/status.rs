//! `status`: one screen about a running instance, from its own listener. No library and no shell is needed where it
//! runs, so it serves as the health check of a container.

mod fetch;
mod figures;

use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use crossbeam_channel::tick;
use serde_json::{Value, json};

use self::fetch::{Answer, get};
use self::figures::Figures;
use super::Global;
use super::output::{Format, columns, print, print_json};
use super::ruling::age;
use crate::config::{Purpose, load};
use crate::error::{Fatal, Reason};
use crate::runtime::clock::wall_time;

/// Arguments of `status`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Example:\n  dupgate status\n  dupgate status --watch --address 10.0.0.7:9464\n  dupgate status --ready"
)]
pub struct StatusArgs {
    /// where the instance listens [default: http.listen]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<SocketAddr>,
    /// only say whether it is ready: exit code 0 or 1
    #[arg(long)]
    pub ready: bool,
    /// show it again and again, with rates
    #[arg(long, conflicts_with = "ready")]
    pub watch: bool,
    /// time between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub every: Duration,
}

/// Prints the summary.
///
/// # Errors
///
/// When nobody listens; with `--ready` also when the instance is not ready.
pub fn status(args: &StatusArgs, global: &Global) -> Result<(), Fatal> {
    let address = match args.address {
        Some(address) => address,
        None => reachable(load(&global.sources(), Purpose::Sieve)?.settings.http.listen),
    };
    if args.ready {
        let Answer { status, body } = ask(address, "/readyz")?;
        return if status == 200 {
            print("ready")
        } else {
            Err(Reason::Failure.because(anyhow::anyhow!("not ready: {}", body.trim().replace('\n', "; "))))
        };
    }
    let format = Format::or_usual(global.output);
    let mut before: Option<Look> = None;
    let ticks = tick(args.every.max(Duration::from_millis(100)));
    loop {
        let look = Look::take(address)?;
        match format {
            Format::Table => {
                if args.watch && std::io::stdout().is_terminal() {
                    // From the top of an empty screen.
                    let _ = write!(std::io::stdout(), "\x1b[H\x1b[2J");
                }
                print(&columns(&look.rows(before.as_ref())))?;
            }
            Format::Json | Format::Jsonl => print_json(&look.json(), format)?,
        }
        if !args.watch {
            return Ok(());
        }
        before = Some(look);
        if ticks.recv().is_err() {
            return Ok(());
        }
    }
}

/// An address on which one can call whoever listens there.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let host = match listen {
        SocketAddr::V4(at) if at.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => listen.ip(),
    };
    SocketAddr::new(host, listen.port())
}

fn ask(address: SocketAddr, path: &str) -> Result<Answer, Fatal> {
    get(address, path).map_err(|error| {
        Reason::Unavailable.because(anyhow::anyhow!("nobody answers on http://{address}{path} (http.listen): {error}"))
    })
}

/// What was seen at one moment.
struct Look {
    at_ms: i64,
    version: Value,
    checks: Vec<(bool, String)>,
    figures: Figures,
}

impl Look {
    fn take(address: SocketAddr) -> Result<Self, Fatal> {
        let checks = ask(address, "/readyz?verbose")?.body;
        let check = |line: &str| line.split_once("] ").map(|(mark, text)| (mark == "[+", text.to_owned()));
        Ok(Self {
            at_ms: wall_time().millis(),
            version: serde_json::from_str(&ask(address, "/version")?.body).unwrap_or_default(),
            checks: checks.lines().filter_map(check).collect(),
            figures: Figures::parse(&ask(address, "/metrics")?.body),
        })
    }

    fn is_ready(&self) -> bool {
        self.checks.iter().all(|(holds, _)| *holds)
    }

    /// Milliseconds since a moment given as seconds since 1970; none while it was never.
    fn since(&self, name: &str) -> Option<i64> {
        let seconds = self.figures.largest(name).filter(|seconds| *seconds > 0.0)?;
        let moment = jiff::Timestamp::from_duration(jiff::SignedDuration::try_from_secs_f64(seconds).ok()?).ok()?;
        Some(self.at_ms.saturating_sub(moment.as_millisecond()))
    }

    fn rows(&self, before: Option<&Self>) -> Vec<Vec<String>> {
        let figures = &self.figures;
        let word = |name: &str, label: &str| figures.label(name, label).unwrap_or_else(|| "-".to_owned());
        let whole = |value: f64| format!("{value:.0}");
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
        let version = self.version.get("version").and_then(Value::as_str).unwrap_or("-");
        row(
            "dupgate",
            format!(
                "{version}  mode {}  scheme {}  config {}",
                word("dupgate_config_info", "mode"),
                word("dupgate_config_info", "scheme"),
                word("dupgate_config_info", "hash")
            ),
        );
        row("ready", if self.is_ready() { "yes".to_owned() } else { "NO".to_owned() });
        for (_, text) in self.checks.iter().filter(|(holds, _)| !holds) {
            row("", text.clone());
        }
        let documents = figures.sum("dupgate_documents_total", &[]);
        let duplicates: f64 = ["exact", "near"]
            .iter()
            .map(|verdict| figures.sum("dupgate_documents_total", &[("verdict", verdict)]))
            .sum();
        let share = if documents > 0.0 {
            format!(", {:.1} % duplicates", 100.0 * duplicates / documents)
        } else {
            String::new()
        };
        let rate = before.map(|before| {
            let span = Duration::from_millis(u64::try_from(self.at_ms - before.at_ms).unwrap_or(1).max(1));
            let more = documents - before.figures.sum("dupgate_documents_total", &[]);
            format!(", {:.0}/s", more.max(0.0) / span.as_secs_f64())
        });
        row("pages", format!("{}{share}{}", whole(documents), rate.unwrap_or_default()));
        let by_verdict =
            figures.by_label("dupgate_documents_total", "verdict").into_iter().filter(|(_, count)| *count > 0.0);
        let by_verdict: Vec<String> = by_verdict.map(|(verdict, count)| format!("{verdict} {count:.0}")).collect();
        row("", by_verdict.join("  "));
        row("dead letters", whole(figures.sum("dupgate_dead_letters_total", &[])));
        row(
            "input",
            format!(
                "{} partitions, lag {}",
                whole(figures.sum("dupgate_assigned_partitions", &[])),
                whole(figures.sum("dupgate_consumer_lag_records", &[]))
            ),
        );
        let ago = |name: &str| {
            self.since(name).map_or_else(|| "never".to_owned(), |millis| format!("{} ago", age(millis.max(0))))
        };
        row("last commit", ago("dupgate_last_commit_timestamp_seconds"));
        let judges: Vec<String> = figures
            .by_label("dupgate_judge_active", "partition")
            .into_iter()
            .map(|(log, active)| format!("{log} {}", if active > 0.0 { "judges" } else { "stands by" }))
            .collect();
        row("judge", if judges.is_empty() { "no".to_owned() } else { judges.join(", ") });
        let limit = figures.sum("dupgate_index_memory_limit_bytes", &[]);
        let memory = figures.sum("dupgate_index_memory_bytes", &[]);
        let fill = if limit > 0.0 { format!(", {:.1} % of its memory", 100.0 * memory / limit) } else { String::new() };
        row("index", format!("{} originals{fill}", whole(figures.sum("dupgate_index_entries", &[]))));
        row("snapshot", ago("dupgate_snapshot_last_success_timestamp_seconds"));
        row("errors", whole(figures.sum("dupgate_errors_total", &[])));
        rows
    }

    fn json(&self) -> Value {
        let figures = &self.figures;
        let verdicts: serde_json::Map<String, Value> = figures
            .by_label("dupgate_documents_total", "verdict")
            .into_iter()
            .map(|(verdict, count)| (verdict, count.into()))
            .collect();
        let waits: Vec<&String> = self.checks.iter().filter(|(holds, _)| !holds).map(|(_, text)| text).collect();
        json!({
            "version": self.version,
            "ready": self.is_ready(),
            "waits_for": waits,
            "mode": figures.label("dupgate_config_info", "mode"),
            "scheme": figures.label("dupgate_config_info", "scheme"),
            "config_hash": figures.label("dupgate_config_info", "hash"),
            "documents": verdicts,
            "dead_letters": figures.sum("dupgate_dead_letters_total", &[]),
            "assigned_partitions": figures.sum("dupgate_assigned_partitions", &[]),
            "lag": figures.sum("dupgate_consumer_lag_records", &[]),
            "last_commit_age_ms": self.since("dupgate_last_commit_timestamp_seconds"),
            "judging": figures.sum("dupgate_judge_active", &[]),
            "index_entries": figures.sum("dupgate_index_entries", &[]),
            "index_memory_bytes": figures.sum("dupgate_index_memory_bytes", &[]),
            "index_memory_limit_bytes": figures.sum("dupgate_index_memory_limit_bytes", &[]),
            "snapshot_age_ms": self.since("dupgate_snapshot_last_success_timestamp_seconds"),
            "errors": figures.sum("dupgate_errors_total", &[]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(ready: &str, metrics: &str) -> Look {
        let check = |line: &str| line.split_once("] ").map(|(mark, text)| (mark == "[+", text.to_owned()));
        Look {
            at_ms: 10_000,
            version: json!({"version": "1.2.3"}),
            checks: ready.lines().filter_map(check).collect(),
            figures: Figures::parse(metrics),
        }
    }

    #[test]
    fn one_screen_says_what_it_waits_for_and_how_it_does() {
        let metrics = "dupgate_documents_total{verdict=\"unique\"} 75\ndupgate_documents_total{verdict=\"near\"} 25\n\
                       dupgate_config_info{hash=\"abc\",mode=\"route\",scheme=\"sh64-1\"} 1\n\
                       dupgate_last_commit_timestamp_seconds 7.5\ndupgate_judge_active{partition=\"0\"} 1\n";
        let before = look("", "dupgate_documents_total{verdict=\"unique\"} 60\n");
        let now = look("[+] joined: ok\n[-] restored: restoring, 40 %\n", metrics);
        let shown = columns(&now.rows(Some(&Look { at_ms: 8_000, ..before })));
        for expected in [
            "dupgate       1.2.3  mode route  scheme sh64-1  config abc\n",
            "ready         NO\n              restored: restoring, 40 %\n",
            "pages         100, 25.0 % duplicates, 20/s\n              unique 75  near 25\n",
            "last commit   2s ago\n",
            "judge         0 judges\n",
            "snapshot      never\n",
        ] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
        assert_eq!((&now.json()["ready"], &now.json()["documents"]["near"]), (&false.into(), &25.0.into()));
    }

    #[test]
    fn one_calls_oneself_where_everybody_may_call() {
        let reach = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(
            [reach("0.0.0.0:9464"), reach("[::]:1"), reach("10.0.0.7:2")],
            ["127.0.0.1:9464", "[::1]:1", "10.0.0.7:2"]
        );
    }
}
