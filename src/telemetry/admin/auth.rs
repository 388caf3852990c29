//! Authentication: the bearer token, and protection against cross-origin requests.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use subtle::ConstantTimeEq;

/// Headers of every response. They forbid browsers to load anything from elsewhere, to store a response, or to frame
/// it.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Refuses cross-origin requests, and adds the security headers to responses.
pub(super) async fn guard(State(has_token): State<bool>, request: Request, next: Next) -> Response {
    let mut response = match refusal_of_cross_origin(request.headers(), has_token) {
        Some(why) => super::answer(StatusCode::FORBIDDEN, &json!({"error": why})),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns why a request is refused, if it may come from a page of another site.
fn refusal_of_cross_origin(headers: &HeaderMap, has_token: bool) -> Option<&'static str> {
    // Without a token only the address protects the listener, and a site may own a name that resolves to it.
    page_of_another_site(headers).or_else(|| {
        let is_safe = has_token || is_loopback(host(headers));
        (!is_safe).then_some("without http.admin.token only requests to a loopback address are answered")
    })
}

/// Refuses requests to a host name that another site may have pointed here (DNS rebinding). Accepts requests to the
/// names that are usual within a network.
pub(in super::super) async fn guard_network(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let foreign_name = || {
        let is_foreign = !is_name_of_a_network(host(headers));
        is_foreign
            .then_some("the Host is a name that any site may have: use the IP address, or a name within the network")
    };
    match page_of_another_site(headers).or_else(foreign_name) {
        Some(why) => super::answer(StatusCode::FORBIDDEN, &json!({"error": why})),
        None => next.run(request).await,
    }
}

fn page_of_another_site(headers: &HeaderMap) -> Option<&'static str> {
    let origin = headers.get(header::ORIGIN)?;
    let authority = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
    (authority != Some(host(headers))).then_some("cross-origin request: its Origin is not this Host")
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = name_of(host);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns whether no site of the internet can have this name, because it is an address, a single label, or in a
/// reserved domain.
fn is_name_of_a_network(host: &str) -> bool {
    const DOMAINS: [&str; 7] = ["localhost", "local", "internal", "svc", "lan", "home", "arpa"];
    let name = name_of(host).trim_end_matches('.');
    let domain = name.rsplit_once('.').map(|(_, domain)| domain.to_ascii_lowercase());
    name.parse::<IpAddr>().is_ok() || domain.is_none_or(|domain| DOMAINS.contains(&domain.as_str()))
}

/// Requires the token, if there is one.
pub(super) async fn token(State(token): State<Option<SecretString>>, request: Request, next: Next) -> Response {
    let Some(token) = token else { return next.run(request).await };
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let (challenge, why) = match given.map(|given| is_token(given, &token)) {
        Some(true) => return next.run(request).await,
        Some(false) => ("Bearer realm=\"dupgate\", error=\"invalid_token\"", "wrong token (http.admin.token)"),
        None => (
            "Bearer realm=\"dupgate\"",
            "requires the token of http.admin.token as the header `Authorization: Bearer TOKEN`",
        ),
    };
    let mut response = super::answer(StatusCode::UNAUTHORIZED, &json!({"error": why})).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Compares the token in a time that depends only on the lengths.
fn is_token(given: &[u8], token: &SecretString) -> bool {
    let Some((scheme, given)) = given.split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.ct_eq(token.expose_secret().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = SecretString::from("0123456789abcdef");
        let is = |given: &str| is_token(given.as_bytes(), &token);
        assert!(is("Bearer 0123456789abcdef") && is("bearer 0123456789abcdef"));
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeg", "Basic  0123456789abcdef"]
        {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is("Bearer 0123456789abcdef "), "spaces count");
    }

    #[test]
    fn names_of_a_network_are_distinguished_from_public_ones() {
        for own in [
            "10.0.0.5:9464",
            "[fd00::5]:9464",
            "dupgate:9464",
            "dupgate-0.dupgate.crawl.svc:9464",
            "",
            "dupgate-0.dupgate.crawl.svc.cluster.local:9464",
            "ip-10-0-0-5.eu-west-1.compute.internal",
            "localhost",
        ] {
            assert!(is_name_of_a_network(own), "{own}");
        }
        for foreign in ["evil.example:9464", "10.0.0.5.evil.example", "svc.evil.example.", "127.0.0.1.nip.io:9464"] {
            assert!(!is_name_of_a_network(foreign), "{foreign}");
        }
    }

    #[test]
    fn cross_origin_requests_are_recognised() {
        let strange = |host: &'static str, origin: Option<&'static str>, has_token: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            refusal_of_cross_origin(&headers, has_token).is_some()
        };
        for own in ["127.0.0.1:9465", "localhost:9465", "[::1]:9465", "localhost"] {
            assert!(!strange(own, None, false), "{own}");
        }
        assert!(!strange("localhost:1", Some("http://localhost:1"), false));
        assert!(!strange("gate.example:1", Some("http://gate.example:1"), true));
        // A foreign name that resolves to this machine, and a page of that site.
        assert!(strange("evil.example:9465", None, false) && strange("", None, false));
        assert!(strange("127.0.0.1.evil.example:9465", None, false));
        for foreign in ["http://evil.example", "null", "http://localhost:2"] {
            assert!(
                strange("localhost:1", Some(foreign), false) && strange("localhost:1", Some(foreign), true),
                "{foreign}"
            );
        }
    }
}
