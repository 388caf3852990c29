//! A client of a running instance: of its public HTTP listener and of its admin listener.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use axum::http::{Request, header};
use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::config::settings::Settings;
use crate::error::{Fatal, Reason, fatal};
use crate::telemetry::http_client::{Answer, HttpClient};

/// Ports of both listeners unless configured otherwise.
const DEFAULT_PORT: u16 = 9464;
const DEFAULT_ADMIN_PORT: u16 = 9465;

/// Time-out for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time-out for an answer of the admin listener, which may query the judges.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(45);

/// Maximum size of an answer.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Where an instance listens: a host or an address, and a port unless it is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: Option<u16>,
}

impl Address {
    fn or_port(&self, usual: u16) -> (String, u16) {
        (self.host.clone(), self.port.unwrap_or(usual))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: Some(address.port()) }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            || format!("`{text}` is not an address: expected host:port, such as localhost:9464 or 10.0.0.7:9464");
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.split('/').next().unwrap_or_default();
        let (host, port) = match rest.strip_prefix('[').map(|inside| inside.split_once(']')) {
            Some(Some((host, port))) => (host, port.strip_prefix(':')),
            Some(None) => return Err(refused()),
            // An IPv6 address without a port.
            None if rest.parse::<Ipv6Addr>().is_ok() => (rest, None),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c));
        let port = port.map(|port| port.parse::<u16>().map_err(|_| refused())).transpose()?;
        if is_host { Ok(Self { host: host.to_owned(), port }) } else { Err(refused()) }
    }
}

/// Where to reach a running instance.
#[derive(Clone, Debug, Default, Args)]
pub struct Instance {
    /// Ask a running instance at this address of its admin listener [default address: http.admin.listen]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true)]
    pub running: Option<Option<Address>>,
}

/// A listener of one instance.
pub(super) struct Listener {
    host: String,
    port: u16,
    token: Option<SecretString>,
    timeout: Duration,
    /// The configuration key of its address.
    key: &'static str,
}

/// Sends a request to the public listener; returns status code and body.
pub(super) fn get(address: &Address, path: &str) -> Result<(u16, String), Fatal> {
    let (host, port) = address.or_port(DEFAULT_PORT);
    let listener = Listener { host, port, token: None, timeout: REQUEST_TIMEOUT, key: "http.listen" };
    let answer = listener.ask(path)?;
    Ok((answer.status, listener.text(path, answer)?))
}

impl Instance {
    /// Returns the admin listener to ask; `None` without `--running`.
    pub(super) fn of(&self, settings: &Settings) -> Result<Option<Listener>, Fatal> {
        let Some(named) = &self.running else { return Ok(None) };
        let configured = settings.http.admin.as_ref();
        let address = named.clone().or_else(|| configured.map(|admin| reachable(admin.listen).into()));
        let address = address.ok_or_else(|| {
            fatal!(Config, "the admin listener is off (http.admin.listen): name an address, --running=127.0.0.1:9465")
        })?;
        let (host, port) = address.or_port(DEFAULT_ADMIN_PORT);
        let token = settings.http.admin_token.clone();
        Ok(Some(Listener { host, port, token, timeout: ADMIN_TIMEOUT, key: "http.admin.listen" }))
    }
}

impl Listener {
    /// Requests a path below `/api/v1/`.
    pub(super) fn get(&self, path: &str) -> Result<Value, Fatal> {
        let path = format!("/api/v1/{path}");
        let answer = self.ask(&path)?;
        let status = answer.status;
        let value: Value = serde_json::from_str(&self.text(&path, answer)?).unwrap_or_default();
        if status == 200 { Ok(value) } else { Err(self.refused(status, &value)) }
    }

    /// Requests a list below `/api/v1/`.
    pub(super) fn list(&self, path: &str) -> Result<Vec<Value>, Fatal> {
        Ok(self.get(path)?.as_array().cloned().unwrap_or_default())
    }

    /// Passes server-sent events of the kind `pair` to `visit`, until that returns `false`.
    pub(super) fn listen(&self, path: &str, mut visit: impl FnMut(&Value) -> Result<bool, Fatal>) -> Result<(), Fatal> {
        let path = format!("/api/v1/{path}");
        let answer = self.ask(&path)?;
        let status = answer.status;
        if status != 200 {
            let body = answer.text(MAX_ANSWER_BYTES).unwrap_or_default();
            return Err(self.refused(status, &serde_json::from_str(&body).unwrap_or_default()));
        }
        let mut is_pair = false;
        for line in BufReader::new(answer).lines() {
            let line = line.map_err(|error| self.unreachable(&path, &error))?;
            if let Some(event) = line.strip_prefix("event: ") {
                is_pair = event.trim() == "pair";
            } else if let Some(pair) = line.strip_prefix("data: ").filter(|_| is_pair)
                && !visit(&serde_json::from_str(pair).unwrap_or_default())?
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn ask(&self, path: &str) -> Result<Answer, Fatal> {
        let mut request = Request::get(self.url(path));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        }
        let request = request.body(()).map_err(io::Error::other);
        let answer = request.and_then(|request| HttpClient::without_tls().call(request, self.timeout));
        answer.map_err(|error| self.unreachable(path, &error))
    }

    fn text(&self, path: &str, answer: Answer) -> Result<String, Fatal> {
        answer.text(MAX_ANSWER_BYTES).map_err(|error| self.unreachable(path, &error))
    }

    fn url(&self, path: &str) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("http://[{host}]:{port}{path}") } else { format!("http://{host}:{port}{path}") }
    }

    fn unreachable(&self, path: &str, error: &io::Error) -> Fatal {
        fatal!(Unavailable, "cannot reach {} ({}): {error}", self.url(path), self.key)
    }

    fn refused(&self, status: u16, body: &Value) -> Fatal {
        let why = body["error"].as_str().unwrap_or("the answer is not understood");
        let reason = match status {
            401 | 403 => Reason::Denied,
            503 => Reason::Unavailable,
            _ => Reason::Failure,
        };
        reason.because(anyhow::anyhow!("{}:{} answers {status}: {why}", self.host, self.port))
    }
}

/// Returns an address to connect to: loopback for an unspecified one.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let host = match listen {
        SocketAddr::V4(at) if at.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => listen.ip(),
    };
    SocketAddr::new(host, listen.port())
}

/// Percent-encodes text for a query.
pub(super) fn in_query(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_is_called_at_loopback() {
        let reach = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(
            [reach("0.0.0.0:9464"), reach("[::]:1"), reach("10.0.0.7:2")],
            ["127.0.0.1:9464", "[::1]:1", "10.0.0.7:2"]
        );
    }

    #[test]
    fn an_instance_is_named_by_host_and_port_by_address_or_by_url() {
        let at = |text: &str| text.parse::<Address>().map(|address| address.or_port(9464)).unwrap();
        for (text, host, port) in [
            ("localhost:9470", "localhost", 9470),
            ("dupgate-0.dupgate", "dupgate-0.dupgate", 9464),
            ("127.0.0.1", "127.0.0.1", 9464),
            ("http://10.0.0.7:9464/", "10.0.0.7", 9464),
            ("http://localhost/status", "localhost", 9464),
            ("[::1]:1", "::1", 1),
            ("[::1]", "::1", 9464),
            ("::1", "::1", 9464),
        ] {
            assert_eq!(at(text), (host.to_owned(), port), "{text}");
        }
        for text in ["", "a b", "localhost:x", "localhost:99999", "[::1", ":9464"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn ids_survive_a_query() {
        assert_eq!(in_query("http://a.b/ü?x=1&y"), "http%3A%2F%2Fa.b%2F%C3%BC%3Fx%3D1%26y");
    }
}
