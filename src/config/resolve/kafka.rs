//! Resolves what concerns the cluster: brokers, security, raw properties, the topics that are read and written.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Uri;
use dupgate_core::worker;
use secrecy::SecretString;

use super::super::raw::{self, Mechanism, Mode, OnBadRecord, Protocol, Raw};
use super::super::secret::{Properties, PropertyValue, RawProperty, owned_because};
use super::super::settings::{Input, Kafka, Output, RegistryIdentity, Sasl, SchemaRegistry, Security, Topics};
use super::super::values::Start;
use super::{Findings, Purpose, check_name, check_own_name, is_read};
use crate::protocol::{LogPartition, VerdictOffset};

type Secrets = BTreeMap<&'static str, SecretString>;

pub(super) fn kafka(raw: &Raw, secrets: &Secrets, found: &mut Findings) -> Kafka {
    let kafka = &raw.kafka;
    if kafka.brokers.is_empty() && found.purpose == Purpose::Run {
        found.refuse("kafka.brokers", "no broker is given: expected at least one host:port");
    }
    let (empty, named): (Vec<&String>, Vec<&String>) = kafka.brokers.iter().partition(|name| name.trim().is_empty());
    if !empty.is_empty() {
        let names_one = "names an empty broker: expected host:port";
        let why = if named.is_empty() { "is empty: expected at least one host:port" } else { names_one };
        found.refuse("kafka.brokers", why);
    }
    for broker in named {
        let port = broker.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        if !matches!(port, Some((host, Ok(1..))) if !host.is_empty() && !host.contains(['/', ','])) {
            found.refuse("kafka.brokers", format!("`{broker}` is not a broker: expected host:port"));
        }
    }
    if kafka.client_id.is_empty() {
        found.refuse("kafka.client_id", "must not be empty");
    }
    let properties = properties("kafka.properties", &kafka.properties, found);
    let consumer_properties = self::properties("kafka.consumer_properties", &kafka.consumer_properties, found);
    let producer_properties = self::properties("kafka.producer_properties", &kafka.producer_properties, found);
    let consumer = [&consumer_properties, &properties];
    let session_timeout = millis("session.timeout.ms", Duration::from_secs(30), consumer, found);
    let max_poll_interval = millis("max.poll.interval.ms", Duration::from_mins(5), consumer, found);
    let producer = [&producer_properties, &properties];
    let transaction_timeout = millis("transaction.timeout.ms", Duration::from_secs(10), producer, found);
    let [transaction, session, poll] =
        [transaction_timeout, session_timeout, max_poll_interval].map(|time| time.as_millis());
    if transaction >= session {
        let why = format!("transaction.timeout.ms ({transaction}) must be below session.timeout.ms ({session})");
        found.refuse("kafka", why);
    }
    if session > poll {
        let why = format!("session.timeout.ms ({session}) must not be above max.poll.interval.ms ({poll})");
        found.refuse("kafka", why);
    }
    Kafka {
        brokers: kafka.brokers.clone(),
        client_id: kafka.client_id.clone(),
        security: security(&kafka.security, secrets, found),
        properties,
        consumer_properties,
        producer_properties,
        transaction_timeout,
        session_timeout,
        max_poll_interval,
        skip_corrupt_verdict: kafka.skip_corrupt_verdict.as_deref().and_then(|text| skipped(text, found)),
    }
}

fn skipped(text: &str, found: &mut Findings) -> Option<(LogPartition, VerdictOffset)> {
    let parsed = text.split_once(':').and_then(|(partition, offset)| {
        let offset: i64 = offset.parse().ok().filter(|offset| *offset >= 0)?;
        Some((LogPartition(partition.parse().ok()?), VerdictOffset(offset)))
    });
    if parsed.is_none() {
        let why = format!("`{text}` is not a record of the verdict log: expected partition:offset, as in 0:184211");
        found.refuse("kafka.skip_corrupt_verdict", why);
    }
    parsed
}

fn properties(path: &str, raw: &BTreeMap<String, RawProperty>, found: &mut Findings) -> Properties {
    for key in raw.keys() {
        if let Some(why) = owned_because(key) {
            found.refuse(format!("{path}.{key}"), format!("belongs to the program: {why}"));
        }
    }
    raw.iter().map(|(key, value)| (key.clone(), PropertyValue::new(key, &value.0))).collect()
}

/// Parses a duration in milliseconds from the first map that has this property of the client library.
fn millis(key: &str, default: Duration, maps: [&Properties; 2], found: &mut Findings) -> Duration {
    let Some(value) = maps.iter().find_map(|map| map.get(key)) else { return default };
    match value.expose().parse() {
        Ok(millis) if millis > 0 => Duration::from_millis(millis),
        Ok(_) | Err(_) => {
            found.refuse("kafka", format!("{key} is `{}`: expected milliseconds, at least 1", value.expose()));
            default
        }
    }
}

fn security(raw: &raw::Security, secrets: &Secrets, found: &mut Findings) -> Security {
    let tls = &raw.tls;
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        found.refuse("kafka.security.tls", "cert_file and key_file go together: only one is given");
    }
    let any_file = tls.ca_file.is_some() || tls.cert_file.is_some() || tls.key_file.is_some();
    if any_file && !raw.protocol.encrypts() {
        found.warn_service("kafka.security.tls", "has no effect: kafka.security.protocol does not encrypt");
    }
    let identifies = matches!(raw.protocol, Protocol::SaslPlaintext | Protocol::SaslSsl);
    if !identifies && (raw.sasl.username.is_some() || raw.sasl.password.is_some()) {
        found.warn_service("kafka.security.sasl", "has no effect: kafka.security.protocol is not a sasl one");
    }
    Security {
        protocol: raw.protocol,
        tls: tls.clone(),
        key_password: secrets.get("kafka.security.tls.key_password").cloned(),
        sasl: if identifies { sasl(&raw.sasl, secrets, found) } else { None },
    }
}

fn sasl(raw: &raw::Sasl, secrets: &Secrets, found: &mut Findings) -> Option<Sasl> {
    // A secret that is given but cannot be fetched was already reported.
    let needed = |key: &str, is_missing: bool, found: &mut Findings| {
        if is_missing {
            let why = format!("is missing: the mechanism {} needs it", raw.mechanism.name());
            found.refuse(format!("kafka.security.sasl.{key}"), why);
        }
    };
    if raw.mechanism == Mechanism::Oauthbearer {
        let oauth = &raw.oauth;
        let authority = oauth.token_url.as_deref().and_then(|url| url.split_once("://")?.1.split('/').next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            let why = "is not used: client_id and client_secret identify the client";
            found.refuse("kafka.security.sasl.oauth.token_url", why);
        }
        needed("oauth.token_url", oauth.token_url.is_none(), found);
        needed("oauth.client_id", oauth.client_id.is_none(), found);
        needed("oauth.client_secret", oauth.client_secret.is_none(), found);
        let extensions: Vec<String> = oauth.extensions.iter().map(|(key, value)| format!("{key}={value}")).collect();
        return Some(Sasl::Oauth {
            token_url: oauth.token_url.clone()?,
            client_id: oauth.client_id.clone()?,
            client_secret: secrets.get("kafka.security.sasl.oauth.client_secret").cloned()?,
            scope: oauth.scope.clone(),
            extensions: extensions.join(","),
        });
    }
    needed("username", raw.username.is_none(), found);
    needed("password", raw.password.is_none(), found);
    Some(Sasl::Password {
        mechanism: raw.mechanism,
        username: raw.username.clone()?,
        password: secrets.get("kafka.security.sasl.password").cloned()?,
    })
}

/// Returns the part of a pattern that the Kafka client does not understand, if any. The client matches topics by POSIX
/// extended expressions, which have no classes like `\d` and no groups like `(?i)`; with such a pattern it would own no
/// partition, and read nothing.
fn unknown_to_client(pattern: &str) -> Option<&str> {
    let mut chars = pattern.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let next = chars.next_if(|(_, next)| match char {
            '\\' => true,
            '(' => *next == '?',
            _ => false,
        });
        if let Some((end, next)) = next
            && (char == '(' || next.is_ascii_alphanumeric())
        {
            return pattern.get(at..end + next.len_utf8());
        }
    }
    None
}

pub(super) fn input(raw: &Raw, secrets: &Secrets, found: &mut Findings) -> Input {
    let input = &raw.input;
    if input.topics.is_empty() && found.purpose == Purpose::Run {
        found.refuse("input.topics", "no topic is given: expected names, or one pattern that starts with ^");
    }
    let topics = match input.topics.as_slice() {
        [pattern] if pattern.starts_with('^') => {
            if let Err(error) = regex::Regex::new(pattern) {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                found.refuse("input.topics", format!("`{pattern}` is not a pattern: {why}"));
            } else if let Some(unknown) = unknown_to_client(pattern) {
                let why = "the Kafka client takes POSIX extended expressions, such as [0-9] for a digit";
                let why = format!("`{pattern}` has `{unknown}`, which matches no topic: {why}");
                found.refuse("input.topics", why);
            }
            Topics::Pattern(pattern.clone())
        }
        names => {
            for (number, name) in names.iter().enumerate() {
                if name.starts_with('^') {
                    found.refuse("input.topics", format!("the pattern `{name}` must be the only entry"));
                } else {
                    check_name("input.topics", name, found);
                }
                if names.iter().take(number).any(|other| other == name) {
                    found.refuse("input.topics", format!("`{name}` is named twice"));
                }
            }
            Topics::Names(names.to_vec())
        }
    };
    check_own_name("input.group", &input.group, found);
    if !input.instance_id.is_empty() {
        check_name("input.instance_id", &input.instance_id, found);
    }
    Input {
        topics,
        group: worker::Mode::from(raw.mode).own_name(&input.group),
        instance_id: (!input.instance_id.is_empty()).then(|| input.instance_id.clone()),
        start: found.parsed("input.start", &input.start).unwrap_or(Start::Earliest),
        tombstones: input.tombstones,
        schema_registry: schema_registry(raw, secrets, found),
    }
}

/// Resolves the registry, and refuses formats without it and settings of it without a format that needs it.
fn schema_registry(raw: &Raw, secrets: &Secrets, found: &mut Findings) -> Option<SchemaRegistry> {
    const URL: &str = "input.schema_registry.url";
    let given = &raw.input.schema_registry;
    let format = crate::record::Format::from(raw.input.format);
    let any_secret = given.password.is_some() || given.token.is_some();
    let Some(url) = &given.url else {
        if format.needs_schemas() {
            found.refuse(URL, format!("is missing: input.format {} reads values by their schemas", format.name()));
        } else if given.username.is_some() || any_secret || given.ca_file.is_some() {
            found.refuse(URL, "is missing: the other settings of input.schema_registry have no effect without it");
        }
        return None;
    };
    if !format.needs_schemas() {
        let why = format!("has no effect: input.format {} needs no schemas, only avro and protobuf do", format.name());
        found.refuse(URL, why);
    }
    let is_address = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
            && !url.contains(['@', '#'])
    };
    if !url.parse::<Uri>().is_ok_and(|uri| is_address(&uri)) {
        let expected =
            "expected http://host:port or https://host:port, with a path or without, and without user and password";
        // It may hold a password.
        found.refuse(URL, format!("is not the address of a registry: {expected}"));
    }
    if given.ca_file.is_some() && url.starts_with("http:") {
        found.refuse("input.schema_registry.ca_file", "has no effect: the url is not https");
    }
    let password = secrets.get("input.schema_registry.password");
    let token = secrets.get("input.schema_registry.token");
    let identity = match (&given.username, password, token) {
        (Some(user), Some(password), None) => Some(RegistryIdentity::Password(user.clone(), password.clone())),
        (None, None, Some(token)) => Some(RegistryIdentity::Token(token.clone())),
        (None, None, None) => None,
        (_, _, Some(_)) => {
            let why = "is given beside username or password: one of both identifies us";
            found.refuse("input.schema_registry.token", why);
            None
        }
        (user, ..) => {
            // A password that could not be read has been refused.
            if user.is_none() || given.password.is_none() {
                found.refuse("input.schema_registry", "username and password go together: only one is given");
            }
            None
        }
    };
    let url = url.trim_end_matches('/').to_owned();
    Some(SchemaRegistry { url, identity, ca_file: given.ca_file.clone(), timeout: given.timeout.0 })
}

pub(super) fn output(raw: &Raw, found: &mut Findings) -> Output {
    let output = &raw.output;
    let produces = raw.mode != Mode::Observe;
    let needed = [
        ("output.unique.topic", &output.unique.topic, produces, "every mode but observe writes to it"),
        ("output.duplicate.topic", &output.duplicate.topic, raw.mode == Mode::Route, "mode is route"),
        (
            "output.dead_letter.topic",
            &output.dead_letter.topic,
            produces && raw.processing.on_bad_record == OnBadRecord::DeadLetter,
            "processing.on_bad_record is dead_letter",
        ),
    ];
    for (path, topic, is_needed, why) in needed {
        match topic {
            None if is_needed && found.purpose == Purpose::Run => found.refuse(path, format!("is missing: {why}")),
            Some(name) => check_name(path, name, found),
            None => {}
        }
    }
    let mut named: Vec<&String> = Vec::new();
    for (path, topic, is_needed, _) in needed {
        let Some(name) = topic.as_ref().filter(|_| is_needed) else { continue };
        if named.contains(&name) {
            found.refuse(path, format!("`{name}` is already used by another output"));
        }
        if is_read(raw, name) {
            found.refuse(path, format!("`{name}` is also an input topic: this would create a loop"));
        }
        named.push(name);
    }
    let prefix = &output.headers.prefix;
    if prefix.is_empty() || prefix.chars().any(|c| !c.is_ascii_graphic() || c.is_ascii_uppercase()) {
        let why = format!("`{prefix}` is not a valid prefix: expected lower-case ASCII without spaces");
        found.refuse("output.headers.prefix", why);
    }
    if output.headers.drop.iter().any(String::is_empty) {
        found.refuse("output.headers.drop", "names an empty header");
    }
    let [unique, duplicate, dead_letter] = needed.map(|(_, topic, is_needed, _)| topic.clone().filter(|_| is_needed));
    Output {
        unique,
        duplicate,
        dead_letter,
        duplicate_value: output.duplicate.value,
        delivery: output.delivery.into(),
        commit_interval: output.commit_interval.0,
        partition: output.partition,
        timestamp: output.timestamp,
        compression: output.compression,
        header_prefix: prefix.clone(),
        dropped_headers: output.headers.drop.clone(),
    }
}
