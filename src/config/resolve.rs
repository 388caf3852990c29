//! Resolves the mirror of the file to settings, or to all problems at once. Reads no file, clock or environment.

mod kafka;
mod limits;
mod core_settings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use dupgate_core::worker::OBSERVED;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::impact::{ChangeImpact, decides};
use super::problem::{Problem, Refused};
use super::raw::{Raw, Role};
use super::secret::{RawSecret, SECRET_SLOTS};
use super::settings::{Admin, Http, Logging, Metrics, Roles, Settings, Tracing};
use super::values::{ByteSize, Span};
use crate::fingerprint::PerMille;
pub use core_settings::BYTES_PER_ORIGINAL;
pub(super) use core_settings::DEFAULT_MAX_MEMORY;

/// Labels of the program's own metrics, which configured labels must not use.
pub const RESERVED_LABELS: [&str; 32] = [
    "log_partition",
    "algorithm",
    "component",
    "group",
    "hash",
    "kind",
    "le",
    "librdkafka",
    "log",
    "mode",
    "operation",
    "output",
    "part",
    "partition",
    "phase",
    "quantile",
    "queue",
    "reason",
    "result",
    "revision",
    "scheme",
    "segmenter",
    "extraction",
    "encoding",
    "source",
    "stage",
    "topic",
    "verdict",
    "version",
    "replay",
    "job",
    "instance",
];

/// External inputs that the configuration names.
#[derive(Clone, Debug, Default)]
pub struct ExternalInputs {
    /// The environment, for `{env: NAME}`.
    pub variables: BTreeMap<String, String>,
    /// Contents of the files that hold secrets.
    pub secrets: BTreeMap<PathBuf, SecretString>,
    /// Contents of dictionaries and word lists.
    pub words: BTreeMap<PathBuf, String>,
    /// Files that could not be read. They were reported, and count as empty.
    pub unread: BTreeSet<PathBuf>,
}

/// What the settings are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The service: brokers, input and outputs must be named.
    Run,
    /// Files in, verdicts out, without Kafka.
    Sieve,
}

/// Checks everything and returns the settings, with warnings.
///
/// # Errors
///
/// Every problem found, in the order of the file. Their origin is not known here.
pub fn resolve(raw: &Raw, given: &ExternalInputs, purpose: Purpose) -> Result<(Settings, Vec<Problem>), Refused> {
    let mut findings = Findings::of(purpose);
    let found = &mut findings;
    if raw.version != 1 {
        found.refuse("version", format!("{} is not a known layout of this file (only 1 is)", raw.version));
    }
    let roles = Roles { worker: raw.roles.contains(&Role::Worker), judge: raw.roles.contains(&Role::Judge) };
    if raw.roles.is_empty() {
        found.refuse("roles", "an instance without a role does nothing: expected worker, judge or both");
    }
    let secrets = secrets(raw, given, found);
    let fingerprint = core_settings::fingerprint(raw, given, &secrets, found);
    let settings = Settings {
        roles,
        mode: raw.mode,
        kafka: kafka::kafka(raw, &secrets, purpose, found),
        input: kafka::input(raw, &secrets, purpose, found),
        record: core_settings::record(raw, found),
        text: core_settings::text(raw, given, found),
        rules: core_settings::rules(raw, fingerprint.minhash.form, found),
        fingerprint,
        index: core_settings::index(raw, found),
        logs: limits::logs(raw, found),
        judge: limits::judge(raw, found),
        output: kafka::output(raw, purpose, found),
        processing: limits::processing(raw, found),
        http: http(raw, &secrets, found),
        logging: Logging { level: raw.logging.level.clone(), format: raw.logging.format },
        metrics: metrics(raw, found),
        tracing: tracing(raw, found),
        hash: raw.hash(),
        shown: raw.effective().shown(),
        previous: None,
    };
    let previous = previous(raw, given, &settings, found);
    let settings = Settings { previous, ..settings };
    limits::between(&settings, found);
    limits::cost_limits(&settings, found);
    if findings.problems.is_empty() {
        Ok((settings, findings.warnings))
    } else {
        Err(Refused { problems: findings.problems, warnings: findings.warnings })
    }
}

/// Resolves the settings before a change of the scheme.
fn previous(raw: &Raw, given: &ExternalInputs, now: &Settings, found: &mut Findings) -> Option<Box<Settings>> {
    let (others, paths) = (found.problems.len(), leaves(&raw.previous));
    for path in &paths {
        let key = format!("previous.{path}");
        if SECRET_SLOTS.contains(&path.as_str()) {
            found.refuse(key, "a secret cannot be changed in this way: fill the new index with `dupgate index warm`");
        } else if decides(path) != ChangeImpact::Scheme {
            found.refuse(key, "decides no fingerprints: only settings that do belong here");
        }
    }
    if found.problems.len() > others {
        return None;
    }
    let before = match raw.before_change()? {
        Ok(before) => before,
        Err(error) => {
            found.refuse("previous", error.to_string());
            return None;
        }
    };
    match resolve(&before, given, found.purpose) {
        Ok((before, _)) if before.scheme() == now.scheme() => {
            found.refuse("previous", format!("names settings of the same scheme ({}): leave it out", now.scheme()));
            None
        }
        Ok((before, _)) => Some(Box::new(before)),
        Err(refused) => {
            for problem in refused.problems.into_iter().filter(|problem| paths.contains(&problem.path)) {
                found.refuse(format!("previous.{}", problem.path), problem.message);
            }
            None
        }
    }
}

/// Lists the keys of all values in a map, their levels joined by dots.
fn leaves(map: &Map<String, Value>) -> Vec<String> {
    let below = |(key, value): (&String, &Value)| match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => leaves(map).into_iter().map(|below| format!("{key}.{below}")).collect(),
        None => vec![key.clone()],
    };
    map.iter().flat_map(below).collect()
}

/// The findings so far.
#[derive(Debug)]
struct Findings {
    purpose: Purpose,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    const fn of(purpose: Purpose) -> Self {
        Self { purpose, problems: Vec::new(), warnings: Vec::new() }
    }

    fn refuse(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::of(path, message));
    }

    /// Adds a warning about brokers or groups, which do not matter to `sieve`.
    fn warn_service(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.purpose == Purpose::Run {
            self.warnings.push(Problem::of(path, message));
        }
    }
}

/// Fetches every secret that is given. A file or variable that is missing or empty is a problem.
fn secrets(raw: &Raw, given: &ExternalInputs, found: &mut Findings) -> BTreeMap<&'static str, SecretString> {
    let mut secrets = BTreeMap::new();
    for slot in SECRET_SLOTS {
        let secret = match raw.secret(slot) {
            None => continue,
            Some(RawSecret::Text(text)) => {
                found.warn_service(slot, "is written in the configuration; use {file: …} or {env: …}");
                Some(text.clone())
            }
            Some(RawSecret::File(path)) => {
                let secret = given.secrets.get(path).cloned();
                if secret.is_none() {
                    found.refuse(slot, format!("the file {} was not read", path.display()));
                }
                secret
            }
            Some(RawSecret::Env(name)) => {
                let secret = given.variables.get(name).map(|text| SecretString::from(text.as_str()));
                if secret.is_none() {
                    found.refuse(slot, format!("variable {name} is not set"));
                }
                secret
            }
        };
        let Some(secret) = secret else { continue };
        let is_unread = matches!(raw.secret(slot), Some(RawSecret::File(path)) if given.unread.contains(path));
        if secret.expose_secret().trim().is_empty() && !is_unread {
            found.refuse(slot, empty_secret(raw.secret(slot)));
        }
        secrets.insert(slot, secret);
    }
    secrets
}

fn empty_secret(source: Option<&RawSecret>) -> String {
    let what = match source {
        Some(RawSecret::File(path)) => format!("the file {} is empty", path.display()),
        Some(RawSecret::Env(name)) => format!("variable {name} is empty"),
        Some(RawSecret::Text(_)) | None => "is empty".to_owned(),
    };
    format!("{what}: expected a secret; leave the key out to do without one")
}

/// Minimum length of the admin token: shorter ones can be guessed.
const MIN_TOKEN: usize = 16;

fn http(raw: &Raw, secrets: &BTreeMap<&'static str, SecretString>, found: &mut Findings) -> Http {
    let listen = raw.http.listen.parse().unwrap_or_else(|_| {
        found.refuse(
            "http.listen",
            format!("`{}` is not an address with a port, such as 0.0.0.0:9464", raw.http.listen),
        );
        SocketAddr::from(([0, 0, 0, 0], 9464))
    });
    let admin_token = secrets.get("http.admin.token").cloned();
    Http { listen, admin: admin(&raw.http.admin, listen, admin_token.clone(), found), admin_token }
}

fn admin(
    raw: &super::raw::Admin,
    other: SocketAddr,
    token: Option<SecretString>,
    found: &mut Findings,
) -> Option<Admin> {
    const TOKEN: &str = "http.admin.token";
    // An empty token has already been refused.
    if let Some(token) = token.as_ref().map(ExposeSecret::expose_secret).filter(|token| !token.trim().is_empty())
        && let length = token.chars().count()
        && length < MIN_TOKEN
    {
        found.refuse(TOKEN, format!("has {length} characters: expected at least {MIN_TOKEN}"));
    }
    let text = raw.listen.as_ref()?;
    let Ok(listen) = text.parse::<SocketAddr>() else {
        found.refuse("http.admin.listen", format!("`{text}` is not an address with a port, such as 127.0.0.1:9465"));
        return None;
    };
    if listen == other && listen.port() != 0 {
        found.refuse("http.admin.listen", format!("{listen} is http.listen, too: each listener needs its own"));
    }
    if raw.token.is_none() && !listen.ip().is_loopback() {
        let why = format!("is missing: http.admin.listen ({listen}) can be reached from other machines");
        found.refuse(TOKEN, why);
    }
    Some(Admin { listen, token, text: raw.text })
}

fn metrics(raw: &Raw, found: &mut Findings) -> Metrics {
    for name in raw.metrics.labels.keys() {
        let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.starts_with("__")
            && !name.is_empty();
        if !legal {
            found
                .refuse(format!("metrics.labels.{name}"), "not a label name: expected letters, digits and underscores");
        }
        if RESERVED_LABELS.contains(&name.as_str()) {
            found.refuse(format!("metrics.labels.{name}"), "is a label of the program's own metrics");
        }
    }
    let labels = raw.metrics.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Metrics { partition_labels: raw.metrics.partition_labels, labels }
}

fn tracing(raw: &Raw, found: &mut Findings) -> Option<Tracing> {
    let sample_ratio = raw.tracing.sample_ratio;
    if !(sample_ratio > 0.0 && sample_ratio <= 1.0) {
        found.refuse("tracing.sample_ratio", format!("{sample_ratio} is not above 0 and at most 1"));
    }
    match raw.tracing.otlp_endpoint.as_ref()?.parse() {
        Ok(endpoint) => Some(Tracing { endpoint, sample_ratio }),
        Err(why) => {
            found.refuse("tracing.otlp_endpoint", why.to_string());
            None
        }
    }
}

/// The shortest time that Kafka's timestamps can distinguish.
const MILLISECOND: Duration = Duration::from_millis(1);

/// Refuses a duration below a limit.
fn at_least(path: &str, span: Duration, limit: Duration, found: &mut Findings) {
    if span < limit {
        found.refuse(path, format!("{} is below the limit of {}", Span(span), Span(limit)));
    }
}

/// Refuses a duration above a limit.
fn at_most(path: &str, span: Duration, limit: Duration, found: &mut Findings) {
    if span > limit {
        found.refuse(path, format!("{} is above the limit of {}", Span(span), Span(limit)));
    }
}

/// Converts a size, and refuses one that is 0 or that the machine cannot address.
fn bytes(path: &str, size: ByteSize, found: &mut Findings) -> usize {
    if size.0 == 0 {
        found.refuse(path, "0B is below the limit of 1B");
    }
    usize::try_from(size.0).unwrap_or_else(|_| {
        found.refuse(path, format!("{size} is more than this machine can address"));
        usize::MAX
    })
}

/// Converts a share that may be absent, as [`per_mille`] does.
fn share_of(path: &str, share: Option<f64>, found: &mut Findings) -> Option<PerMille> {
    share.and_then(|share| per_mille(path, share, found))
}

/// Converts a share to thousandths, rounded, and refuses one that is not between 0 and 1.
fn per_mille(path: &str, share: f64, found: &mut Findings) -> Option<PerMille> {
    let rounded = PerMille::rounded(share);
    if rounded.is_none() {
        found.refuse(path, format!("{share} is not a similarity (expected 0 to 1)"));
    }
    rounded
}

/// Longest name of a topic that brokers accept, in bytes.
const MAX_TOPIC_NAME: usize = 249;

/// Returns whether the input includes a topic of this name.
fn is_read(raw: &Raw, name: &str) -> bool {
    raw.input.topics.iter().any(|topic| {
        if topic.starts_with('^') {
            regex::Regex::new(topic).is_ok_and(|pattern| pattern.is_match(name))
        } else {
            topic == name
        }
    })
}

/// Refuses a name that could be mistaken for one that `mode: observe` derives.
fn check_own_name(path: &str, name: &str, found: &mut Findings) {
    check_name(path, name, found);
    if name.ends_with(OBSERVED) {
        found.refuse(
            path,
            format!("`{name}` ends in `{OBSERVED}`, which is added to it by `mode: observe`: leave that part out"),
        );
    }
}

/// Refuses a name that brokers would not accept for a topic (or as part of one).
fn check_name(path: &str, name: &str, found: &mut Findings) {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name == "." || name == ".." || !name.chars().all(legal) {
        found.refuse(
            path,
            format!("`{name}` is not a valid name: expected letters, digits, dots, underscores and hyphens"),
        );
    } else if name.len() > MAX_TOPIC_NAME {
        found.refuse(path, format!("a name of {} bytes is above the limit of {MAX_TOPIC_NAME}", name.len()));
    }
}

#[cfg(test)]
mod tests;
