//! The Schema Registry: the edge that schemas come from.
//!
//! A schema that was read once is kept for the life of the process, since an id never changes its meaning. While the
//! registry does not answer, the service asks again and again, and the records of that schema wait; a command that somebody
//! waits for gives up at once.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::http::{HeaderValue, Request, header};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::ExposeSecret;
use serde::Deserialize;

use crate::clock::Clock;
use crate::config::Settings;
use crate::config::settings::{RegistryIdentity, SchemaRegistry as RegistrySettings};
use crate::error::{Fatal, OrFatal, Reason};
use crate::process::shielded;
use crate::record::{FindSchema, NoSchema, Schema, SchemaId, SchemaText, Schemas};
use crate::telemetry::Metrics;
use crate::telemetry::health::{Check, Health};
use crate::telemetry::http_client::HttpClient;

/// Pause before the registry is asked again: the first one, and the longest one, to which it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How often an id must be unknown before it counts as unknown: another node of the registry may not have it yet.
const UNKNOWN_TIMES: u32 = 3;

/// How long a refusal is remembered, so that many records of an unknown schema do not ask for it one by one.
const REFUSAL_AGE: Duration = Duration::from_mins(1);

/// How often a log line repeats that the registry does not answer.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum length of an answer.
const MAX_ANSWER: u64 = 16 << 20;

/// Maximum number of schemas that one may refer to, directly or by others.
const MAX_REFERENCES: usize = 1000;

/// What every registry has.
const TYPES: &str = "/schemas/types";

/// Error codes of a registry: it has no such subject, version or schema.
const NOT_FOUND: [u64; 3] = [40_401, 40_402, 40_403];

/// What follows when the registry does not answer.
#[derive(Debug)]
enum Patience {
    /// It is asked until it does, and this is where that shows.
    Forever(Metrics, Option<Check>),
    /// The record cannot be read.
    None,
}

#[derive(Debug)]
struct SchemaRegistry {
    client: HttpClient,
    url: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    patience: Patience,
    clock: Clock,
    known: RwLock<HashMap<SchemaId, Found>>,
    /// Held while the registry is asked: one question at a time.
    asking: Mutex<Outage>,
    /// Nobody notifies it: it only ends pauses.
    pause: Condvar,
}

/// The failures since the last answer.
#[derive(Debug, Default)]
struct Outage {
    failures: u32,
    logged: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Found {
    Schema(Arc<Schema>),
    /// A refusal, and until when it is believed.
    Nothing(NoSchema, Duration),
}

/// Lets a command read records by their schemas. It does not wait for a registry that does not answer.
///
/// # Errors
///
/// The certificates cannot be read.
pub fn connect(settings: &mut Settings, clock: Clock) -> Result<(), Fatal> {
    attach(settings, Patience::None, clock)
}

/// Lets the service read records by their schemas. It waits while the registry does not answer.
///
/// # Errors
///
/// The certificates cannot be read.
pub(crate) fn connect_waiting(
    settings: &mut Settings,
    metrics: &Metrics,
    health: Option<&Health>,
    clock: Clock,
) -> Result<(), Fatal> {
    if settings.input.schema_registry.is_none() {
        return Ok(());
    }
    let check = health.map(|health| health.check("schema registry", "starting"));
    check.iter().for_each(Check::pass);
    attach(settings, Patience::Forever(metrics.clone(), check), clock)
}

fn attach(settings: &mut Settings, patience: Patience, clock: Clock) -> Result<(), Fatal> {
    if let Some(registry) = &settings.input.schema_registry {
        let registry = SchemaRegistry::new(registry, patience, clock).or_fatal(Reason::Config)?;
        let schemas = Schemas::of(Arc::new(registry));
        if let Some(previous) = &mut settings.previous {
            previous.record.schemas = schemas.clone();
        }
        settings.record.schemas = schemas;
    }
    Ok(())
}

/// Asks the registry once, and returns how long it took.
///
/// # Errors
///
/// Why it cannot be used.
pub fn probe(settings: &RegistrySettings, clock: Clock) -> anyhow::Result<Duration> {
    let registry = SchemaRegistry::new(settings, Patience::None, clock)?;
    let before = clock.now();
    match registry.get_once(TYPES) {
        Ok(Ok(_)) => Ok(clock.now().saturating_sub(before)),
        Ok(Err(why)) | Err(why) => Err(anyhow::anyhow!(why)),
    }
}

/// A schema as the registry gives it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    schema: String,
    #[serde(default)]
    schema_type: Option<String>,
    #[serde(default)]
    references: Vec<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
    subject: String,
    version: i64,
}

#[derive(Deserialize)]
struct Refusal {
    error_code: u64,
    message: String,
}

/// A failure to get an answer.
type Failure = String;

impl SchemaRegistry {
    fn new(settings: &RegistrySettings, patience: Patience, clock: Clock) -> anyhow::Result<Self> {
        let client = match &settings.ca_file {
            Some(path) => HttpClient::trusting(&certificates(path)?),
            None if settings.url.starts_with("https:") => HttpClient::trusting_system()?,
            None => HttpClient::without_tls(),
        };
        let authorization = settings.identity.as_ref().map(|identity| match identity {
            RegistryIdentity::Password(user, password) => {
                let both = format!("{user}:{}", password.expose_secret());
                format!("Basic {}", BASE64_STANDARD.encode(both))
            }
            RegistryIdentity::Token(token) => format!("Bearer {}", token.expose_secret().trim()),
        });
        let authorization = authorization.map(|text| HeaderValue::from_str(&text)).transpose();
        let mut authorization = authorization.context("input.schema_registry.token: no header can hold it")?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Self {
            client,
            url: settings.url.clone(),
            authorization,
            timeout: settings.timeout,
            patience,
            clock,
            known: RwLock::default(),
            asking: Mutex::default(),
            pause: Condvar::new(),
        })
    }

    /// Sends one request. The inner error is an answer: the registry does not have it.
    ///
    /// A page that is not found without a code of the registry may come from a proxy or another program, or the registry
    /// does not have such paths at all (not all know GUIDs). It counts as an answer if another path has one.
    fn get(&self, path: &str) -> Result<Result<String, String>, Failure> {
        let answer = self.get_once(path);
        match &answer {
            Err(why) if why.starts_with("HTTP 404") && self.get_once(TYPES)?.is_ok() => Ok(Err(why.clone())),
            _ => answer,
        }
    }

    fn get_once(&self, path: &str) -> Result<Result<String, String>, Failure> {
        let mut request = Request::get(format!("{}{path}", self.url))
            .header(header::ACCEPT, "application/vnd.schemaregistry.v1+json, application/json");
        if let Some(value) = &self.authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(()).map_err(|error| error.to_string())?;
        let answer = self.client.call(request, self.timeout).map_err(|error| error.to_string())?;
        let status = answer.status;
        let mut body = String::new();
        answer.take(MAX_ANSWER).read_to_string(&mut body).map_err(|error| error.to_string())?;
        if status == 200 {
            return Ok(Ok(body));
        }
        match serde_json::from_str(&body) {
            // Without such a code, a proxy or another program answers.
            Ok(Refusal { error_code, message }) if NOT_FOUND.contains(&error_code) => Ok(Err(message)),
            Ok(Refusal { error_code, message }) => Err(format!("HTTP {status}, error {error_code}: {message}")),
            Err(_) if matches!(status, 401 | 403) => {
                Err(format!("HTTP {status}: it refuses our identity (username and password, or token)"))
            }
            Err(_) => Err(format!("HTTP {status}")),
        }
    }

    fn parsed(body: &str) -> Result<Answer, Failure> {
        serde_json::from_str(body).map_err(|error| format!("its answer is no schema: {error}"))
    }

    /// Asks for a schema and those that it refers to.
    fn ask(&self, id: SchemaId) -> Result<Result<Schema, NoSchema>, Failure> {
        let path = match id {
            SchemaId::Number(_) => format!("/schemas/ids/{id}"),
            SchemaId::Guid(_) => format!("/schemas/guids/{id}"),
        };
        let body = match self.get(&path)? {
            Ok(body) => body,
            Err(message) => return Ok(Err(NoSchema::Unknown(format!("{} answers: {message}", self.url)))),
        };
        let answer = Self::parsed(&body)?;
        let mut texts = Vec::new();
        if let Err(why) = self.collect(&answer.references, &mut Vec::new(), &mut texts)? {
            return Ok(Err(NoSchema::Unusable(why)));
        }
        let kind = answer.schema_type.as_deref().unwrap_or("AVRO");
        let parsed = shielded(|| Schema::parse(kind, &answer.schema, &texts));
        let parsed = parsed.unwrap_or_else(|| Err("reading it failed".to_owned()));
        Ok(parsed.map_err(NoSchema::Unusable))
    }

    /// Adds the texts of references, each after those that it refers to itself.
    fn collect(
        &self,
        references: &[Reference],
        above: &mut Vec<String>,
        texts: &mut Vec<SchemaText>,
    ) -> Result<Result<(), String>, Failure> {
        for Reference { name, subject, version } in references {
            if above.contains(name) || texts.iter().any(|known| known.name == *name) {
                continue;
            }
            if above.len() + texts.len() >= MAX_REFERENCES {
                return Ok(Err(format!("it refers to more than {MAX_REFERENCES} others")));
            }
            // A version may have been deleted since, and still be in use.
            let path = format!("/subjects/{}/versions/{version}?deleted=true", encoded(subject));
            let body = match self.get(&path)? {
                Ok(body) => body,
                Err(message) => {
                    return Ok(Err(format!("its reference {name} (version {version} of {subject}): {message}")));
                }
            };
            let answer = Self::parsed(&body)?;
            above.push(name.clone());
            let found = self.collect(&answer.references, above, texts)?;
            above.pop();
            if found.is_err() {
                return Ok(found);
            }
            texts.push(SchemaText { name: name.clone(), text: answer.schema });
        }
        Ok(Ok(()))
    }

    fn known(&self, id: SchemaId) -> Option<Result<Arc<Schema>, NoSchema>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match known.get(&id)? {
            Found::Schema(schema) => Some(Ok(Arc::clone(schema))),
            Found::Nothing(why, until) => (self.clock.now() < *until).then(|| Err(why.clone())),
        }
    }

    fn remember(&self, id: SchemaId, found: Result<Schema, NoSchema>) -> Result<Arc<Schema>, NoSchema> {
        let found = found.map(Arc::new);
        let kept = match &found {
            Ok(schema) => Found::Schema(Arc::clone(schema)),
            Err(why) => Found::Nothing(why.clone(), self.clock.now() + REFUSAL_AGE),
        };
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(id, kept);
        found
    }

    /// Reports that the registry did not answer.
    fn failed(&self, id: SchemaId, why: &str, outage: &mut Outage) {
        outage.failures = outage.failures.saturating_add(1);
        let Patience::Forever(metrics, check) = &self.patience else { return };
        metrics.registry_answers(false);
        let why_unready = format!("records wait for schema {id}: {} does not answer: {why}", self.url);
        check.iter().for_each(|check| check.fail(why_unready.as_str()));
        let now = self.clock.now();
        if outage.logged.is_none_or(|logged| now.saturating_sub(logged) >= LOG_INTERVAL) {
            outage.logged = Some(now);
            tracing::warn!(
                target: "dupgate::worker",
                schema = %id, url = self.url, error = why,
                "the schema registry does not answer: records of this schema wait, and it is asked again"
            );
        }
    }

    fn answered(&self, outage: &mut Outage) {
        if let (Patience::Forever(metrics, check), true) = (&self.patience, outage.failures > 0) {
            metrics.registry_answers(true);
            check.iter().for_each(Check::pass);
            tracing::info!(target: "dupgate::worker", url = self.url, "the schema registry answers again");
        }
        *outage = Outage::default();
    }

    /// Waits without the lock.
    fn wait(&self, outage: MutexGuard<'_, Outage>, pause: Duration) {
        drop(self.pause.wait_timeout(outage, pause).unwrap_or_else(PoisonError::into_inner));
    }
}

impl FindSchema for SchemaRegistry {
    fn find(&self, id: SchemaId) -> Result<Arc<Schema>, NoSchema> {
        let mut unknown_times = 0;
        loop {
            if let Some(found) = self.known(id) {
                return found;
            }
            let mut outage = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have asked meanwhile.
            if let Some(found) = self.known(id) {
                return found;
            }
            match (self.ask(id), &self.patience) {
                (Ok(found), _) => {
                    self.answered(&mut outage);
                    unknown_times += 1;
                    if !matches!(found, Err(NoSchema::Unknown(_))) || unknown_times >= UNKNOWN_TIMES {
                        return self.remember(id, found);
                    }
                    self.wait(outage, FIRST_PAUSE);
                }
                (Err(why), Patience::None) => {
                    let why = format!("{} does not answer: {why}", self.url);
                    return self.remember(id, Err(NoSchema::Unusable(why)));
                }
                (Err(why), Patience::Forever(..)) => {
                    self.failed(id, &why, &mut outage);
                    let doubled = FIRST_PAUSE * 2_u32.saturating_pow((outage.failures - 1).min(8));
                    self.wait(outage, doubled.min(LONGEST_PAUSE));
                }
            }
        }
    }

    fn is_known(&self, id: SchemaId) -> bool {
        self.known(id).is_some()
    }
}

fn certificates(path: &std::path::Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let unreadable = || format!("input.schema_registry.ca_file: cannot read certificates from {}", path.display());
    let found = CertificateDer::pem_file_iter(path).with_context(unreadable)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().with_context(unreadable)?;
    anyhow::ensure!(!found.is_empty(), "input.schema_registry.ca_file: {} holds no certificate", path.display());
    Ok(found)
}

/// Encodes a name as one segment of a path.
fn encoded(name: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests;
