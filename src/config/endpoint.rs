//! The address of a collector of spans.

use std::fmt;
use std::str::FromStr;

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address of the machine.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where spans are posted to.
    pub path: String,
}

/// Why a text is no address of a collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address of a collector: expected http://host:port, without user and password")]
pub struct NotAnEndpoint(String);

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let refused = || NotAnEndpoint(text.to_owned());
        let rest = text.strip_prefix("http://").ok_or_else(refused)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| refused())?),
            None => (authority, 4318),
        };
        let legal = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
        let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || port == 0 || !is_bare || !rest.chars().all(legal) {
            return Err(refused());
        }
        // What is below the address of a collector is of one kind of signal each.
        let path = path.trim_end_matches('/');
        let path = if path.ends_with("v1/traces") {
            format!("/{path}")
        } else {
            let between = if path.is_empty() { "" } else { "/" };
            format!("/{path}{between}v1/traces")
        };
        Ok(Self { host: host.to_owned(), port, path })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
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
        for wrong in
            ["", "otel:4318", "https://otel:4318", "http://:4318", "http://a:b", "http://u:p@otel:4318", "http://a b"]
        {
            assert_eq!(shown(wrong), Err(NotAnEndpoint(wrong.to_owned())));
        }
    }
}
