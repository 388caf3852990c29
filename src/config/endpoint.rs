//! The address of a collector of spans.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
}

/// Why a text is not the address of a collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the address of a collector: expected http://host:port or https://host:port, without user and password"
)]
pub struct ParseEndpointError(String);

impl Endpoint {
    /// Returns the URL that spans are posted to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether the collector is reached by TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.starts_with("https:")
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let refused = || ParseEndpointError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
        let default_port = match scheme {
            "http" => 4318,
            "https" => 443,
            _ => return Err(refused()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| refused())?),
            None => (authority, default_port),
        };
        let legal = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
        let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || port == 0_u16 || !is_bare || !rest.chars().all(legal) {
            return Err(refused());
        }
        // A collector has one path for each kind of signal.
        let path = path.trim_end_matches('/');
        let path = if path.ends_with("v1/traces") {
            format!("/{path}")
        } else {
            let between = if path.is_empty() { "" } else { "/" };
            format!("/{path}{between}v1/traces")
        };
        let url = format!("{scheme}://{host}:{port}{path}");
        // Check the URI here, because the exporter would refuse it only when it starts.
        if url.parse::<Uri>().is_ok() { Ok(Self { url }) } else { Err(refused()) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_the_address_of_a_collector() {
        let shown = |text: &str| text.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
        let traces = |text: &str| Ok(text.to_owned());
        assert_eq!(shown("http://otel:4318"), traces("http://otel:4318/v1/traces"));
        assert_eq!(shown("http://otel"), traces("http://otel:4318/v1/traces"));
        assert_eq!(shown("http://otel:80/otlp/"), traces("http://otel:80/otlp/v1/traces"));
        assert_eq!(shown("http://[::1]:4318/v1/traces"), traces("http://[::1]:4318/v1/traces"));
        assert_eq!(shown("https://otel:4318"), traces("https://otel:4318/v1/traces"));
        assert_eq!(shown("https://otel"), traces("https://otel:443/v1/traces"));
        let is_https = |text: &str| text.parse::<Endpoint>().unwrap().is_https();
        assert!(is_https("https://otel") && !is_https("http://https"));
        for wrong in [
            "",
            "otel:4318",
            "grpc://otel:4317",
            "http://:4318",
            "http://a:b",
            "http://a:70000",
            "http://u:p@otel:4318",
            "http://a b",
            "http://a/<b>",
        ] {
            assert_eq!(shown(wrong), Err(ParseEndpointError(wrong.to_owned())));
        }
    }
}
