//! Resolves brokers, security and raw properties.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;

use super::super::properties::{Properties, PropertyValue, RawProperty, owned_because};
use super::super::raw::{self, Mechanism, Protocol, Raw};
use super::super::settings::{Kafka, Sasl, Security, Tls};
use super::{Findings, Purpose};
use crate::protocol::{LogPartition, VerdictOffset};

type Secrets = BTreeMap<&'static str, SecretString>;

pub(super) fn kafka(raw: &Raw, secrets: &Secrets, purpose: Purpose, found: &mut Findings) -> Kafka {
    let kafka = &raw.kafka;
    if kafka.brokers.is_empty() && purpose == Purpose::Run {
        found.refuse("kafka.brokers", "no broker is given: expected at least one host:port");
    }
    let (empty, named): (Vec<&String>, Vec<&String>) = kafka.brokers.iter().partition(|name| name.trim().is_empty());
    match (empty.is_empty(), named.is_empty()) {
        (true, _) => {}
        (false, true) => found.refuse("kafka.brokers", "is empty: expected at least one host:port"),
        (false, false) => found.refuse("kafka.brokers", "names an empty broker: expected host:port"),
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
    if transaction_timeout >= session_timeout {
        found.refuse(
            "kafka",
            format!(
                "transaction.timeout.ms ({}) must be below session.timeout.ms ({})",
                transaction_timeout.as_millis(),
                session_timeout.as_millis()
            ),
        );
    }
    if session_timeout > max_poll_interval {
        found.refuse(
            "kafka",
            format!(
                "session.timeout.ms ({}) must not be above max.poll.interval.ms ({})",
                session_timeout.as_millis(),
                max_poll_interval.as_millis()
            ),
        );
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
    let encrypted = matches!(raw.protocol, Protocol::Ssl | Protocol::SaslSsl);
    let any_file = tls.ca_file.is_some() || tls.cert_file.is_some() || tls.key_file.is_some();
    if any_file && !encrypted {
        found.warn_service("kafka.security.tls", "has no effect: kafka.security.protocol does not encrypt");
    }
    let identifies = matches!(raw.protocol, Protocol::SaslPlaintext | Protocol::SaslSsl);
    if !identifies && (raw.sasl.username.is_some() || raw.sasl.password.is_some()) {
        found.warn_service("kafka.security.sasl", "has no effect: kafka.security.protocol is not a sasl one");
    }
    Security {
        protocol: raw.protocol,
        tls: Tls {
            ca_file: tls.ca_file.clone(),
            cert_file: tls.cert_file.clone(),
            key_file: tls.key_file.clone(),
            key_password: secrets.get("kafka.security.tls.key_password").cloned(),
            verify_hostname: tls.verify_hostname,
        },
        sasl: if identifies { sasl(&raw.sasl, secrets, found) } else { None },
    }
}

fn sasl(raw: &raw::Sasl, secrets: &Secrets, found: &mut Findings) -> Option<Sasl> {
    if raw.mechanism == Mechanism::Oauthbearer {
        let oauth = &raw.oauth;
        let authority = oauth.token_url.as_deref().and_then(|url| url.split_once("://")?.1.split('/').next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            found.refuse(
                "kafka.security.sasl.oauth.token_url",
                "is not used: client_id and client_secret identify the client",
            );
        }
        let mut needed = |path: &str, missing: bool| need(raw.mechanism, path, missing, found);
        needed("kafka.security.sasl.oauth.token_url", oauth.token_url.is_none());
        needed("kafka.security.sasl.oauth.client_id", oauth.client_id.is_none());
        needed("kafka.security.sasl.oauth.client_secret", oauth.client_secret.is_none());
        return Some(Sasl::Oauth {
            token_url: oauth.token_url.clone()?,
            client_id: oauth.client_id.clone()?,
            client_secret: secrets.get("kafka.security.sasl.oauth.client_secret").cloned()?,
            scope: oauth.scope.clone(),
            extensions: oauth
                .extensions
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
                .join(","),
        });
    }
    let mut needed = |path: &str, missing: bool| need(raw.mechanism, path, missing, found);
    needed("kafka.security.sasl.username", raw.username.is_none());
    needed("kafka.security.sasl.password", raw.password.is_none());
    Some(Sasl::Password {
        mechanism: raw.mechanism,
        username: raw.username.clone()?,
        password: secrets.get("kafka.security.sasl.password").cloned()?,
    })
}

/// Refuses a missing setting that the mechanism needs. A secret that is given but cannot be fetched was already
/// reported.
fn need(mechanism: Mechanism, path: &str, missing: bool, found: &mut Findings) {
    if missing {
        found.refuse(path, format!("is missing: the mechanism {} needs it", mechanism_name(mechanism)));
    }
}

const fn mechanism_name(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Plain => "plain",
        Mechanism::ScramSha256 => "scram-sha-256",
        Mechanism::ScramSha512 => "scram-sha-512",
        Mechanism::Oauthbearer => "oauthbearer",
    }
}
