//! Authentication: the bearer token, and protection against cross-origin requests.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use subtle::ConstantTimeEq;

/// What every answer carries: nothing is loaded from elsewhere, nothing is kept, nobody frames it.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Refuses what another site makes a browser send, and says to browsers what they may do with the answer.
pub(super) async fn guard(State(has_token): State<bool>, request: Request, next: Next) -> Response {
    let mut response = match stranger(request.headers(), has_token) {
        Some(why) => super::answer(StatusCode::FORBIDDEN, &json!({"error": why})),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Says why a request cannot have been meant by somebody at this machine.
fn stranger(headers: &HeaderMap, has_token: bool) -> Option<&'static str> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    if let Some(origin) = headers.get(header::ORIGIN) {
        let authority = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
        if authority != Some(host) {
            return Some("a page of another site asks: its Origin is not this Host");
        }
    }
    // Without a token only the address protects: a name that leads here may be anybody's.
    if !has_token && !is_loopback(host) {
        return Some("without http.admin.token only requests to a loopback address are answered");
    }
    None
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Asks for the token, when there is one.
pub(super) async fn token(State(token): State<Option<SecretString>>, request: Request, next: Next) -> Response {
    let Some(token) = token else { return next.run(request).await };
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let (challenge, why) = match given.map(|given| is_token(given, &token)) {
        Some(true) => return next.run(request).await,
        Some(false) => {
            ("Bearer realm=\"dupgate\", error=\"invalid_token\"", "this is not the token of http.admin.token")
        }
        None => (
            "Bearer realm=\"dupgate\"",
            "this needs the token of http.admin.token, as the header `Authorization: Bearer TOKEN`",
        ),
    };
    let mut response = super::answer(StatusCode::UNAUTHORIZED, &json!({"error": why})).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Compares in a time that depends on nothing but the lengths.
fn is_token(given: &[u8], token: &SecretString) -> bool {
    let Some((scheme, given)) = given.split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.ct_eq(token.expose_secret().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = SecretString::from("0123456789abcdef");
        let is = |given: &str| is_token(given.as_bytes(), &token);
        assert!(is("Bearer 0123456789abcdef") && is("bearer 0123456789abcdef"));
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeg", "Basic  0123456789abcdef"]
        {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is("Bearer 0123456789abcdef "), "blanks count");
    }

    #[test]
    fn another_sites_requests_are_told_from_ones_own() {
        let strange = |host: &'static str, origin: Option<&'static str>, has_token: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            stranger(&headers, has_token).is_some()
        };
        for own in ["127.0.0.1:9465", "localhost:9465", "[::1]:9465", "localhost"] {
            assert!(!strange(own, None, false), "{own}");
        }
        assert!(!strange("localhost:1", Some("http://localhost:1"), false));
        assert!(!strange("gate.example:1", Some("http://gate.example:1"), true));
        // A name of somebody else's that leads to this machine, and a page of his.
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
