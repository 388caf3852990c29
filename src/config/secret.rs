//! Values that may be secret: secrets, given as `{file: path}`, `{env: NAME}` or the text itself, and raw properties of
//! the client library, which are passed on unchanged, except for keys that the program must set itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::values::wrong_kind;

/// Keys that are refused in the raw property maps, each with its reason.
const OWNED: [(&str, &str); 23] = [
    ("bootstrap.servers", "kafka.brokers sets the brokers"),
    ("metadata.broker.list", "kafka.brokers sets the brokers"),
    ("client.id", "kafka.client_id sets it"),
    ("group.id", "input.group sets it; the judge's groups are derived from it"),
    ("group.instance.id", "input.instance_id gives the worker static membership; the judge's groups must be dynamic"),
    ("transactional.id", "it is derived from group and instance id, and is the fence against a second process"),
    ("enable.idempotence", "always on: without it a retry may write twice or out of order"),
    ("enable.auto.commit", "offsets are committed only together with the outputs of all records before them"),
    ("enable.auto.offset.store", "offsets are committed only together with the outputs of all records before them"),
    ("enable.partition.eof", "the program relies on end-of-partition events"),
    ("isolation.level", "the program reads committed records only"),
    ("allow.auto.create.topics", "always off: a topic that exists because a client asked for it deletes its records"),
    ("auto.offset.reset", "input.start sets where a new group begins; any other jump would lose pages silently"),
    ("partition.assignment.strategy", "the rebalance protocol of the program is cooperative-sticky"),
    ("group.protocol", "the rebalance protocol of the program is that of classic groups"),
    ("statistics.interval.ms", "the metrics need a fixed interval"),
    ("partitioner", "output.partition sets how records are spread"),
    ("acks", "always all: less would lose pages when a broker dies"),
    ("request.required.acks", "always all: less would lose pages when a broker dies"),
    ("compression.type", "output.compression names the codec"),
    ("compression.codec", "output.compression names the codec"),
    ("message.timeout.ms", "a transaction decides how long delivery may take"),
    ("delivery.timeout.ms", "a transaction decides how long delivery may take"),
];

/// Returns why only the program may set this key, if that is so.
pub(super) fn owned_because(key: &str) -> Option<&'static str> {
    OWNED.iter().find(|(owned, _)| *owned == key).map(|(_, why)| *why)
}

/// Returns whether the value of this key is a secret, judging by its name.
pub(super) fn is_sensitive(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let parts =
        ["password", "secret", "token", "passphrase", "jaas", "assertion", "oauthbearer.config", ".pem", "seed"];
    parts.iter().any(|part| key.contains(part))
}

/// A property as the file gives it: text, number or `true`/`false`. Debug hides it, because its key, which shows
/// whether it is a secret, is stored elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct RawProperty(pub(super) String);

impl fmt::Debug for RawProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[property]")
    }
}

/// Hides the value, for the same reason.
impl Serialize for RawProperty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("[property]")
    }
}

impl<'de> Deserialize<'de> for RawProperty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(deserializer)?;
        match &given {
            Value::String(text) => Ok(text.clone()),
            Value::Bool(value) => Ok(value.to_string()),
            Value::Number(number) => Ok(match number.as_f64().filter(|_| number.is_f64()) {
                Some(number) => number.to_string(),
                None => number.to_string(),
            }),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                Err(wrong_kind(&given, "a text, a number, true or false"))
            }
        }
        .map(Self)
    }
}

/// The value of one property.
#[derive(Clone, Debug)]
pub enum PropertyValue {
    /// A value that may be shown.
    Plain(String),
    /// A value that is secret, judging by its key.
    Secret(SecretString),
}

impl PropertyValue {
    /// Creates a value that is secret if its key says so.
    #[must_use]
    pub fn new(key: &str, value: &str) -> Self {
        if is_sensitive(key) { Self::Secret(SecretString::from(value)) } else { Self::Plain(value.to_owned()) }
    }

    /// Returns the value, secret or not: for the client library's settings only.
    #[must_use]
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(value) => value,
            Self::Secret(value) => secrecy::ExposeSecret::expose_secret(value),
        }
    }
}

/// Compares the values themselves, whether or not they are secret.
impl PartialEq for PropertyValue {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

/// Properties by key, as the client library names them.
pub type Properties = BTreeMap<String, PropertyValue>;

/// Every key that holds a secret. A later layer replaces such a value as a whole.
pub const SECRET_SLOTS: [&str; 7] = [
    "kafka.security.tls.key_password",
    "kafka.security.sasl.password",
    "kafka.security.sasl.oauth.client_secret",
    "input.schema_registry.password",
    "input.schema_registry.token",
    "http.admin.token",
    "match.seed",
];

/// A secret as the file gives it.
#[derive(Clone, Debug)]
pub enum RawSecret {
    /// The text is written in the configuration itself, which deserves a warning.
    Text(SecretString),
    /// The text is the content of this file, without the line break at its end.
    File(PathBuf),
    /// The text is the value of this variable.
    Env(String),
}

/// Compares only references. Secrets are never compared by content, so two texts are never equal.
impl PartialEq for RawSecret {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a), Self::File(b)) => a == b,
            (Self::Env(a), Self::Env(b)) => a == b,
            _ => false,
        }
    }
}

/// Prints the source of the secret, never the secret.
impl Serialize for RawSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(_) => serializer.serialize_str("[redacted]"),
            Self::File(path) => serializer.collect_map([("file", path.display().to_string())]),
            Self::Env(name) => serializer.collect_map([("env", name)]),
        }
    }
}

impl<'de> Deserialize<'de> for RawSecret {
    /// The value itself is never part of an error.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "{file: path}, {env: NAME}, or a text in quotes";
        let refuse = |what: &str| Err(D::Error::custom(format_args!("{what}expected {EXPECTED}")));
        let given = Value::deserialize(deserializer)?;
        match &given {
            Value::String(text) => Ok(Self::Text(SecretString::from(text.as_str()))),
            Value::Bool(_) => refuse("a bare word: "),
            Value::Number(_) => refuse("a bare number: "),
            Value::Object(map) => match (map.len(), map.get("file"), map.get("env")) {
                (1, Some(Value::String(path)), _) => Ok(Self::File(path.into())),
                (1, _, Some(Value::String(name))) => Ok(Self::Env(name.clone())),
                _ => refuse(""),
            },
            Value::Null | Value::Array(_) => Err(wrong_kind(&given, EXPECTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_owns_the_properties_that_its_laws_need() {
        for key in [
            "enable.auto.commit",
            "enable.auto.offset.store",
            "group.id",
            "transactional.id",
            "enable.idempotence",
            "statistics.interval.ms",
            "enable.partition.eof",
            "partitioner",
        ] {
            assert!(owned_because(key).is_some_and(|why| !why.is_empty()), "{key}");
        }
        assert_eq!(owned_because("socket.timeout.ms"), None);
    }

    #[test]
    fn secrets_are_recognised_by_their_key() {
        for key in ["sasl.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"] {
            assert!(is_sensitive(key), "{key}");
            assert!(!format!("{:?}", PropertyValue::new(key, "hunter2")).contains("hunter2"), "{key}");
        }
        assert!(!is_sensitive("socket.timeout.ms"));
    }
}
