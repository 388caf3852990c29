//! Secrets as they are written in the configuration: `{file: path}`, `{env: NAME}`, or the text itself.

use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};

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
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrReference;
        /// Error message for any other shape; the value itself is never printed.
        const EXPECTED: &str = "expected {file: path}, {env: NAME}, or a text in quotes";
        impl<'de> Visitor<'de> for TextOrReference {
            type Value = RawSecret;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{file: path}, {env: NAME}, or a text in quotes")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<RawSecret, E> {
                Ok(RawSecret::Text(SecretString::from(text)))
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<RawSecret, E> {
                Err(E::custom(format_args!("a bare word: {EXPECTED}")))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<RawSecret, E> {
                Err(E::custom(format_args!("a bare number: {EXPECTED}")))
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<RawSecret, E> {
                Err(E::custom(format_args!("a bare number: {EXPECTED}")))
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<RawSecret, E> {
                Err(E::custom(format_args!("a bare number: {EXPECTED}")))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawSecret, A::Error> {
                let refuse = || A::Error::custom(EXPECTED);
                let secret = match map.next_key::<String>()?.as_deref() {
                    Some("file") => RawSecret::File(map.next_value().map_err(|_| refuse())?),
                    Some("env") => RawSecret::Env(map.next_value().map_err(|_| refuse())?),
                    Some(_) | None => return Err(refuse()),
                };
                map.next_key::<String>()?.map_or(Ok(secret), |_| Err(refuse()))
            }
        }
        deserializer.deserialize_any(TextOrReference)
    }
}
