//! Resolves the mirror of the file to settings, or to all problems at once. Reads no file, clock or environment.

mod kafka;
mod limits;
mod core_settings;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::mem::take;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use dupgate_core::worker::OBSERVED;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::impact::{ChangeImpact, decides};
use super::problem::{Origin, Problem, Refused};
use super::raw::{Raw, Role};
use super::secret::{RawSecret, SECRET_SLOTS};
use super::settings::{Admin, Http, Roles, Settings, Tracing};
use super::tree::Node;
use super::values::ByteSize;
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
    let found = &mut Findings { purpose, problems: Vec::new(), warnings: Vec::new() };
    raw.check_ranges(|path, message| found.refuse(path, message));
    let roles = Roles { worker: raw.roles.contains(&Role::Worker), judge: raw.roles.contains(&Role::Judge) };
    if raw.roles.is_empty() {
        found.refuse("roles", "an instance without a role does nothing: expected worker, judge or both");
    }
    check_labels(raw, found);
    let secrets = secrets(raw, given, found);
    let fingerprint = core_settings::fingerprint(raw, given, &secrets, found);
    let settings = Settings {
        roles,
        mode: raw.mode,
        kafka: kafka::kafka(raw, &secrets, found),
        input: kafka::input(raw, &secrets, found),
        record: core_settings::record(raw, found),
        text: core_settings::text(raw, given, found),
        rules: core_settings::rules(raw, fingerprint.minhash.form, found),
        fingerprint,
        index: core_settings::index(raw, found),
        logs: limits::logs(raw, found),
        judge: limits::judge(raw, found),
        output: kafka::output(raw, found),
        processing: limits::processing(raw, found),
        http: http(raw, &secrets, found),
        logging: raw.logging.clone(),
        metrics: raw.metrics.clone(),
        tracing: tracing(raw, found),
        hash: raw.hash(),
        shown: raw.effective().shown(),
        previous: None,
    };
    let previous = previous(raw, given, &settings, found);
    let settings = Settings { previous, ..settings };
    limits::between(&settings, found);
    limits::cost_limits(&settings, found);
    let (problems, warnings) = (take(&mut found.problems), take(&mut found.warnings));
    if problems.is_empty() { Ok((settings, warnings)) } else { Err(Refused { problems, warnings }) }
}

/// Resolves the settings before a change of the scheme.
fn previous(raw: &Raw, given: &ExternalInputs, now: &Settings, found: &mut Findings) -> Option<Box<Settings>> {
    let (others, mut paths) = (found.problems.len(), Vec::new());
    let tree = Node::at(&[], &Origin::Default, Value::Object(raw.previous.clone()));
    tree.each_leaf(&mut |path, _| paths.push(path.join(".")));
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

/// The findings so far.
#[derive(Debug)]
struct Findings {
    purpose: Purpose,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    fn refuse(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::of(path, message));
    }

    /// Parses a text, and refuses one that is not valid.
    fn parsed<T: FromStr<Err: Display>>(&mut self, path: &str, text: &str) -> Option<T> {
        text.parse().map_err(|why: T::Err| self.refuse(path, why.to_string())).ok()
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
        let Some(source) = raw.secret(slot) else { continue };
        let (secret, name) = match source {
            RawSecret::Text(text) => {
                found.warn_service(slot, "is written in the configuration; use {file: …} or {env: …}");
                (Some(text.clone()), String::new())
            }
            RawSecret::File(path) => (given.secrets.get(path).cloned(), format!("the file {} ", path.display())),
            RawSecret::Env(name) => {
                (given.variables.get(name).map(|text| SecretString::from(text.as_str())), format!("variable {name} "))
            }
        };
        let Some(secret) = secret else {
            let why = if matches!(source, RawSecret::File(_)) { "was not read" } else { "is not set" };
            found.refuse(slot, name + why);
            continue;
        };
        let is_unread = matches!(source, RawSecret::File(path) if given.unread.contains(path));
        if secret.expose_secret().trim().is_empty() && !is_unread {
            found.refuse(slot, name + "is empty: expected a secret; leave the key out to do without one");
        }
        secrets.insert(slot, secret);
    }
    secrets
}

/// Minimum length of the admin token: shorter ones can be guessed.
const MIN_TOKEN: usize = 16;

fn http(raw: &Raw, secrets: &BTreeMap<&'static str, SecretString>, found: &mut Findings) -> Http {
    let text = &raw.http.listen;
    let listen = text.parse().unwrap_or_else(|_| {
        found.refuse("http.listen", format!("`{text}` is not an address with a port, such as 0.0.0.0:9464"));
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

fn check_labels(raw: &Raw, found: &mut Findings) {
    for name in raw.metrics.labels.keys() {
        let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.starts_with("__")
            && !name.is_empty();
        let key = format!("metrics.labels.{name}");
        if !legal {
            found.refuse(&key, "not a label name: expected letters, digits and underscores");
        }
        if RESERVED_LABELS.contains(&name.as_str()) {
            found.refuse(&key, "is a label of the program's own metrics");
        }
    }
}

fn tracing(raw: &Raw, found: &mut Findings) -> Option<Tracing> {
    let endpoint = found.parsed("tracing.otlp_endpoint", raw.tracing.otlp_endpoint.as_ref()?)?;
    Some(Tracing { endpoint, sample_ratio: raw.tracing.sample_ratio })
}

/// Converts a size, and refuses one that the machine cannot address.
fn bytes(path: &str, size: ByteSize, found: &mut Findings) -> usize {
    usize::try_from(size.0).unwrap_or_else(|_| {
        found.refuse(path, format!("{size} is more than this machine can address"));
        usize::MAX
    })
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
        let why = "which is added to it by `mode: observe`: leave that part out";
        found.refuse(path, format!("`{name}` ends in `{OBSERVED}`, {why}"));
    }
}

/// Refuses a name that brokers would not accept for a topic (or as part of one).
fn check_name(path: &str, name: &str, found: &mut Findings) {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name == "." || name == ".." || !name.chars().all(legal) {
        let expected = "expected letters, digits, dots, underscores and hyphens";
        found.refuse(path, format!("`{name}` is not a valid name: {expected}"));
    } else if name.len() > MAX_TOPIC_NAME {
        found.refuse(path, format!("a name of {} bytes is above the limit of {MAX_TOPIC_NAME}", name.len()));
    }
}

#[cfg(test)]
mod tests;
