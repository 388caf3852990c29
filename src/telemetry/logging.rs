//! Writes log lines to standard error: `ts, level, target, msg` and fields, as JSON or text.
//!
//! The client library's lines take the same way, with the target `librdkafka`. With JSON, a warning or error that
//! repeats one of the last ten seconds is left out; the next line that is written has the number of those left out
//! (`suppressed`).
//!
//! `debug` is for dupgate's own events. Other libraries stay at warnings whatever is configured: an HTML parser logs
//! every piece of text that it reads.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{registry, reload};
use xxhash_rust::xxh3::Xxh3;

use crate::config::Levels;
use crate::config::settings::{Level, LogFormat, Logging};

/// Reserved names. A field with such a name gets the prefix `field.`.
const OWN: [&str; 5] = ["ts", "level", "target", "msg", "suppressed"];

/// Minimum interval between equal lines.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of remembered lines. Beyond it, expired lines are dropped, and all if that is not enough.
const MAX_LINES: usize = 1024;

/// Starts logging to standard error, through `writer`. The format `auto` means text on a terminal, else JSON. `colors`
/// sets whether text is coloured; by default it is on a terminal. `now` counts from any fixed point.
///
/// # Errors
///
/// Logging was already started in this process.
pub fn start<W>(settings: &Logging, colors: Option<bool>, now: fn() -> Duration, writer: W) -> Result<(), TryInitError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let (subscriber, set_level) = subscriber(settings, is_terminal, colors.unwrap_or(is_terminal), now, writer);
    subscriber.try_init()?;
    let _ = IS_JSON.set(!is_text(settings.format, is_terminal));
    // This point is reached only once: the second `try_init` fails.
    let _ = SET_LEVEL.set(set_level);
    Ok(())
}

/// Changes the log level.
///
/// # Errors
///
/// Logging was not started in this process.
pub fn set_level(levels: &Levels) -> Result<(), String> {
    SET_LEVEL.get().ok_or_else(|| "nothing is logged by this process".to_owned()).and_then(|set| set(levels))
}

/// Returns whether log lines are written as JSON; `false` before logging has started.
#[must_use]
pub fn is_json() -> bool {
    IS_JSON.get() == Some(&true)
}

static IS_JSON: OnceLock<bool> = OnceLock::new();

fn is_text(format: LogFormat, is_terminal: bool) -> bool {
    match format {
        LogFormat::Text => true,
        LogFormat::Json => false,
        LogFormat::Auto => is_terminal,
    }
}

type SetLevel = Box<dyn Fn(&Levels) -> Result<(), String> + Send + Sync>;

static SET_LEVEL: OnceLock<SetLevel> = OnceLock::new();

/// Creates the subscriber that [`start`] installs, and the handle of its level.
fn subscriber<W>(
    settings: &Logging,
    is_terminal: bool,
    is_colored: bool,
    now: fn() -> Duration,
    writer: W,
) -> (Box<dyn Subscriber + Send + Sync>, SetLevel)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (level, handle) = reload::Layer::new(filter(&settings.level));
    let set_level = move |levels: &Levels| handle.reload(filter(levels)).map_err(|error| error.to_string());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let subscriber: Box<dyn Subscriber + Send + Sync> = if is_text(settings.format, is_terminal) {
        Box::new(registry().with(level).with(lines.with_ansi(is_colored)))
    } else {
        Box::new(registry().with(level).with(lines.with_ansi(false).event_format(JsonLine(Repeats::new(now)))))
    };
    (subscriber, Box::new(set_level))
}

/// Returns the filter: dupgate at its level, the client library one less detailed, everything else at warnings.
fn filter(levels: &Levels) -> Targets {
    let base = limit(levels.base);
    let library = if levels.base == Level::Trace { LevelFilter::DEBUG } else { base.min(LevelFilter::INFO) };
    Targets::new()
        .with_default(base.min(LevelFilter::WARN))
        .with_target("dupgate", base)
        .with_target("librdkafka", library)
        .with_targets(levels.targets.iter().map(|(target, level)| (target.clone(), limit(*level))))
}

const fn limit(level: Level) -> LevelFilter {
    match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

/// Formats each event as one JSON object.
struct JsonLine(Repeats);

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        if *metadata.level() <= tracing::Level::WARN {
            let line = line_id(metadata.target(), &fields.message, &fields.others);
            match self.0.pass(line) {
                None => return Ok(()),
                Some(0) => {}
                Some(left_out) => drop(fields.others.insert("suppressed".to_owned(), left_out.into())),
            }
        }
        let mut ts = String::new();
        SystemTime.format_time(&mut Writer::new(&mut ts))?;
        let head = [
            ("ts", ts),
            ("level", metadata.level().as_str().to_lowercase()),
            ("target", metadata.target().to_owned()),
            ("msg", fields.message),
        ];
        writer.write_char('{')?;
        for (number, (name, text)) in head.into_iter().enumerate() {
            if number > 0 {
                writer.write_char(',')?;
            }
            write!(writer, "\"{name}\":{}", Value::from(text))?;
        }
        for (name, value) in fields.others {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writer.write_str("}\n")
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        // The bridge from the `log` crate adds its own copies of the head.
        if field.name().starts_with("log.") {
            return;
        }
        let name = field.name();
        let name = if OWN.contains(&name) { format!("field.{name}") } else { name.to_owned() };
        self.others.insert(name, value);
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.put(field, value.into());
        }
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.put(field, format!("{value:?}").into());
        }
    }
}

/// Remembers which lines were written recently.
struct Repeats {
    now: fn() -> Duration,
    /// For each line, when it was written, and the number of repetitions left out since.
    written: Mutex<HashMap<u64, (Duration, u64)>>,
}

impl Repeats {
    /// Starts without lines. `now` counts from any fixed point.
    fn new(now: fn() -> Duration) -> Self {
        Self { now, written: Mutex::default() }
    }

    /// Returns whether a line should be written: `None` if it should be left out, else the number of repetitions that
    /// were left out before it.
    fn pass(&self, line: u64) -> Option<u64> {
        let now = (self.now)();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= MAX_LINES {
            written.retain(|_, (at, _)| now.saturating_sub(*at) < REPEAT_INTERVAL);
            if written.len() >= MAX_LINES {
                written.clear();
            }
        }
        match written.get_mut(&line) {
            Some((at, left_out)) if now.saturating_sub(*at) < REPEAT_INTERVAL => {
                *left_out += 1;
                None
            }
            Some(entry) => Some(std::mem::replace(entry, (now, 0)).1),
            None => {
                written.insert(line, (now, 0));
                Some(0)
            }
        }
    }
}

/// Returns the identity of a line. It ignores numbers, because times, ports and counts differ in repetitions. It
/// includes text fields, so that a line about another partition is another line.
fn line_id(target: &str, message: &str, fields: &Map<String, Value>) -> u64 {
    let mut hash = Xxh3::new();
    let words: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
    let mut add = |text: &str| {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    };
    add(target);
    add(&words);
    for (name, value) in fields {
        add(name);
        if let Value::String(text) = value {
            add(text);
        }
    }
    hash.digest()
}

/// Captures log lines of tests in memory.
#[cfg(test)]
pub(crate) mod captured {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use super::{Level, LogFormat, Logging, subscriber};

    /// Writes to memory, for a test.
    #[derive(Clone, Default)]
    pub(crate) struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Memory {
        pub(super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines logged by `work` at a level, as JSON, without repetitions within ten seconds.
    pub(crate) fn at(level: Level, work: impl FnOnce()) -> String {
        let (memory, logging) = (Memory::default(), Logging { level: level.into(), format: LogFormat::Json });
        let writer = memory.clone();
        let (subscriber, _) = subscriber(&logging, false, false, Duration::default, move || writer.clone());
        tracing::subscriber::with_default(subscriber, work);
        memory.text()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::captured::Memory;
    use super::*;

    /// Returns the output of a few log calls.
    fn logged(level: Level, format: LogFormat, is_terminal: bool) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let (subscriber, _) = subscriber(
            &Logging { level: level.into(), format },
            is_terminal,
            is_terminal,
            Duration::default,
            move || writer.clone(),
        );
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(topic = "crawl", partition = 3, offset = 7_u64, ok = true, level = "x", "judged \"it\"");
            tracing::error!(target: "librdkafka", error = %"refused", "librdkafka: FAIL broker down");
            tracing::debug!("details");
        });
        memory.text()
    }

    #[test]
    fn json_lines_begin_with_time_level_target_and_message() {
        let text = logged(Level::Info, LogFormat::Json, true);
        let lines: Vec<&str> = text.lines().collect();
        let [first, second] = lines.as_slice() else { panic!("{text}") };
        assert!(first.starts_with("{\"ts\":\"2"), "{first}");
        let mut line: Value = serde_json::from_str(first).unwrap();
        let ts = line.as_object_mut().unwrap().remove("ts").unwrap();
        assert!(ts.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{ts}");
        let target = "dupgate::telemetry::logging::tests";
        assert_eq!(
            line,
            serde_json::json!({
                "level": "info", "target": target, "msg": "judged \"it\"",
                "topic": "crawl", "partition": 3, "offset": 7, "ok": true, "field.level": "x"
            })
        );
        let line: Value = serde_json::from_str(second).unwrap();
        assert_eq!((line["target"].as_str(), line["error"].as_str()), (Some("librdkafka"), Some("refused")));
    }

    #[test]
    fn auto_is_text_on_a_terminal_and_json_elsewhere() {
        assert!(logged(Level::Info, LogFormat::Auto, false).starts_with('{'));
        assert!(!logged(Level::Info, LogFormat::Auto, true).starts_with('{'));
        let text = logged(Level::Info, LogFormat::Text, false);
        assert!(text.contains("judged \"it\"") && !text.contains('\u{1b}'), "no colours in a file: {text}");
    }

    #[test]
    fn the_level_is_changed_while_lines_are_written() {
        for format in [LogFormat::Json, LogFormat::Text] {
            let memory = Memory::default();
            let writer = memory.clone();
            let (subscriber, set) = subscriber(
                &Logging { level: Level::Warn.into(), format },
                false,
                false,
                Duration::default,
                move || writer.clone(),
            );
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!("too early");
                set(&Level::Debug.into()).unwrap();
                tracing::debug!("in time");
                set(&Level::Error.into()).unwrap();
                tracing::warn!("too late");
            });
            let text = memory.text();
            assert!(text.contains("in time") && !text.contains("too"), "{text}");
        }
    }

    #[test]
    fn text_is_coloured_where_it_is_wanted_and_json_never() {
        let line = |format, is_colored| {
            let memory = Memory::default();
            let writer = memory.clone();
            let (subscriber, _) = subscriber(
                &Logging { level: Level::Info.into(), format },
                false,
                is_colored,
                Duration::default,
                move || writer.clone(),
            );
            tracing::subscriber::with_default(subscriber, || tracing::warn!("careful"));
            memory.text()
        };
        assert!(line(LogFormat::Text, true).contains('\u{1b}') && !line(LogFormat::Text, false).contains('\u{1b}'));
        assert!(!line(LogFormat::Json, true).contains('\u{1b}'));
    }

    #[test]
    fn repeated_errors_are_written_periodically() {
        let memory = Memory::default();
        let writer = memory.clone();
        let (subscriber, _) = subscriber(
            &Logging { level: Level::Info.into(), format: LogFormat::Json },
            false,
            false,
            crate::clock::wall_clock,
            move || writer.clone(),
        );
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..100 {
                tracing::warn!(number, "broker {number} is away");
                tracing::info!(number, "judged");
            }
            tracing::warn!(suppressed = 3, "broker 1 is here");
        });
        let text = memory.text();
        assert_eq!((text.matches("is away").count(), text.matches("judged").count()), (1, 100), "{text}");
        assert!(text.contains("\"field.suppressed\":3"), "{text}");
    }

    #[test]
    fn levels_below_the_configured_one_are_silent() {
        assert!(logged(Level::Debug, LogFormat::Json, false).contains("details"));
        assert!(!logged(Level::Info, LogFormat::Json, false).contains("details"));
        assert!(!logged(Level::Error, LogFormat::Json, false).contains("judged"));
        assert_eq!(logged(Level::Off, LogFormat::Json, false), "");
    }

    #[test]
    fn libraries_stay_at_warnings_and_the_client_library_is_one_level_less_detailed() {
        let passes = |levels: &str, target: &str, level: tracing::Level| {
            filter(&levels.parse().unwrap()).would_enable(target, &level)
        };
        for library in ["log", "html5ever", "selectors", "hyper"] {
            for levels in ["info", "debug", "trace", "trace,dupgate=trace"] {
                assert!(
                    !passes(levels, library, tracing::Level::INFO) && passes(levels, library, tracing::Level::WARN),
                    "{levels} {library}"
                );
            }
            assert!(!passes("error", library, tracing::Level::WARN));
        }
        assert!(
            passes("debug", "dupgate::judge", tracing::Level::DEBUG)
                && !passes("debug", "dupgate::judge", tracing::Level::TRACE)
        );
        assert!(
            !passes("debug", "librdkafka", tracing::Level::DEBUG)
                && passes("trace", "librdkafka", tracing::Level::DEBUG)
        );
        assert!(passes("info,librdkafka=debug", "librdkafka", tracing::Level::DEBUG));
        assert!(passes("info,dupgate::judge=debug", "dupgate::judge::machine", tracing::Level::DEBUG));
        assert!(!passes("info,dupgate::judge=debug", "dupgate::worker", tracing::Level::DEBUG));
    }

    #[test]
    fn no_text_of_a_page_is_ever_logged() {
        use crate::fingerprint::{Fingerprinter, Scratch};
        use crate::record::RawRecord;
        let (record, text, fingerprint) = Default::default();
        let reader = Fingerprinter::new(&record, &text, &fingerprint, std::num::NonZeroUsize::MIN).unwrap();
        let words = "<p>The zzmarkerzz of this page stands among other words, and no log may show it.</p>";
        let value = serde_json::json!({"url": "https://a.example/zzmarkerzz", "html": words.repeat(20)}).to_string();
        for level in [Level::Debug, Level::Trace] {
            let logged = captured::at(level, || {
                let raw = RawRecord { key: None, value: Some(value.as_bytes()), headers: &() };
                assert!(reader.read(&raw, &mut Scratch::default()).is_ok());
                tracing::debug!("shown");
            });
            assert!(logged.contains("shown") && !logged.contains("zzmarkerzz"), "{logged}");
        }
    }

    static CLOCK: AtomicU64 = AtomicU64::new(0);

    fn now() -> Duration {
        Duration::from_millis(CLOCK.load(Ordering::Relaxed))
    }

    #[test]
    fn a_line_is_written_once_in_an_interval_with_the_number_left_out() {
        let repeats = Repeats::new(now);
        let at = |millis: u64, line: u64| {
            CLOCK.store(millis, Ordering::Relaxed);
            repeats.pass(line)
        };
        assert_eq!(
            [at(0, 1), at(5, 1), at(5, 2), at(9_999, 1), at(10_000, 1)],
            [Some(0), None, Some(0), None, Some(2)]
        );
        assert_eq!([at(19_999, 1), at(50_000, 1), at(50_000, 2)], [None, Some(1), Some(0)]);
        // Of many different lines, few are remembered.
        (0..5000).for_each(|line| assert_eq!(at(60_000, 100 + line), Some(0)));
        assert!(repeats.written.lock().unwrap().len() <= MAX_LINES);
    }

    #[test]
    fn numbers_do_not_distinguish_lines_and_texts_do() {
        let fields = |value: Value| value.as_object().unwrap().clone();
        let line = |message: &str, value: Value| line_id("librdkafka", message, &fields(value));
        let first = line("FAIL after 3ms", json!({"partition": "pages:1", "entries": 7}));
        assert_eq!(first, line("FAIL after 12ms", json!({"partition": "pages:1", "entries": 9})));
        assert_ne!(first, line("FAIL after 3ms", json!({"partition": "pages:2", "entries": 7})));
        assert_ne!(first, line("FAIL before 3ms", json!({"partition": "pages:1", "entries": 7})));
        assert_ne!(first, line_id("dupgate", "FAIL after 3ms", &fields(json!({"partition": "pages:1", "entries": 7}))));
    }
}
