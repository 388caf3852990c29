//! The section `input.schema_registry`, as it is written in the configuration.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::RawSecret;
use super::units::Span;

/// Where schemas come from. `config/dupgate.yaml`, the annotated sample, documents each key.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchemaRegistry {
    /// The address.
    pub url: Option<String>,
    /// The user, for basic authentication.
    pub username: Option<String>,
    /// The password of the user.
    pub password: Option<RawSecret>,
    /// A bearer token, in place of both.
    pub token: Option<RawSecret>,
    /// Certificates of the authority.
    pub ca_file: Option<PathBuf>,
    /// How long the registry may be silent.
    pub timeout: Span,
}

impl Default for SchemaRegistry {
    fn default() -> Self {
        Self {
            url: None,
            username: None,
            password: None,
            token: None,
            ca_file: None,
            timeout: Span(Duration::from_secs(10)),
        }
    }
}
