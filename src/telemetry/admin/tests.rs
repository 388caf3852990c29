//! Over a real socket, with a service that returns its arguments.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::*;
use crate::config::settings;
use crate::record::{PartitionId, Timestamp};
use crate::telemetry::http_server::bind;
use crate::telemetry::metrics::Build;
use crate::telemetry::overview::About;
use crate::telemetry::pairs::{DeliveredDuplicate, PairDetails};
use crate::telemetry::{Health, Metrics};

const TOKEN: &str = "0123456789abcdef";

/// Returns the arguments of every call.
struct Echo;

impl AdminService for Echo {
    fn pair(&self, pair: &Pair) -> Result<Value, ApiError> {
        Ok(json!({"pair": pair.seen.source.to_string()}))
    }
    fn explain(&self, value: &[u8]) -> Result<Value, ApiError> {
        Ok(json!({"explained": String::from_utf8_lossy(value)}))
    }
    fn stats(&self) -> Result<Value, ApiError> {
        Err(ApiError::Unable("this instance does not judge".to_owned()))
    }
    fn lookup(&self, what: &Lookup) -> Result<Value, ApiError> {
        Ok(json!(format!("{what:?}")))
    }
    fn forget(&self, targets: Vec<ForgetTarget>) -> Result<Value, ApiError> {
        Ok(json!(targets.len()))
    }
    fn snapshot(&self) -> Result<Value, ApiError> {
        Ok(json!("snapshot"))
    }
    fn hold(&self, is_held: bool) -> Result<Value, ApiError> {
        Ok(json!({"paused": is_held}))
    }
}

fn overview() -> Overview {
    let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
    let about = About {
        build: Build { version: "1.2.3".into(), revision: String::new(), librdkafka: "2.12.1".into() },
        instance: "one".into(),
        group: "g".into(),
        roles: vec!["worker"],
        log_partitions: 1,
        started: Timestamp::from_millis(7),
    };
    let health = Health::new(Duration::from_secs(10));
    Overview::new(about, metrics, health, Arc::new(|| Duration::ZERO), || Timestamp::from_millis(9))
}

fn server(token: Option<&str>) -> (Server, Pairs) {
    let pairs = Pairs::default();
    let admin = Admin {
        token: token.map(SecretString::from),
        text: ShownText::Snippet,
        max_distance: 3,
        pairs: pairs.clone(),
        overview: overview(),
        admin_service: Arc::new(Echo),
    };
    (start(bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap(), admin).unwrap(), pairs)
}

/// Sends a request with these further lines of its head; returns status, head in lower case, and body.
fn send(server: &Server, line: &str, head: &[&str], body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let host = if head.iter().any(|line| line.starts_with("Host:")) {
        String::new()
    } else {
        format!("Host: {}\r\n", server.address())
    };
    let more: Vec<&str> = head.iter().flat_map(|line| [*line, "\r\n"]).collect();
    let more = more.concat();
    let length = body.len();
    write!(stream, "{line} HTTP/1.1\r\n{host}{more}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let (status, _, body) = send(server, &format!("GET {path}"), &[], "");
    (status, serde_json::from_str(&body).unwrap_or_default())
}

fn seen(offset: i64, verdict: &'static str) -> DeliveredDuplicate {
    let place = PartitionId::new("pages", 0);
    DeliveredDuplicate {
        source: place.at(offset),
        original: place.at(0),
        cluster: place.at(0),
        verdict,
        stage: "simhash",
        distance: 2,
        contained: None,
        age_ms: 5,
        id: Some("http://a/<script>".to_owned()),
        at: Timestamp::from_millis(1),
    }
}

/// A request for every path of the list.
const REQUESTS: [(&str, &str, u16); 13] = [
    ("GET /api/v1/overview?since=3", "", 200),
    ("GET /api/v1/pairs?verdict=near&limit=&site=", "", 200),
    ("GET /api/v1/pairs/pages:0:1", "", 200),
    ("POST /api/v1/explain", "a page", 200),
    ("GET /api/v1/index/stats", "", 503),
    ("GET /api/v1/index/lookup?id=http%3A%2F%2Fa%2F1", "", 200),
    ("GET /api/v1/index/top?n=2", "", 200),
    ("POST /api/v1/index/forget", "{\"source\": [\"pages:0:1\"]}", 200),
    ("POST /api/v1/index/snapshot", "", 200),
    ("POST /api/v1/pause", "", 200),
    ("POST /api/v1/resume", "", 200),
    ("PUT /api/v1/log", "{\"level\": \"loud\"}", 400),
    ("GET /api/v1/pairs/stream?limit=0", "", 200),
];

#[test]
fn every_path_of_the_list_requires_the_token() {
    let (server, pairs) = server(Some(TOKEN));
    pairs.offer(Duration::ZERO, seen(1, "near")).unwrap();
    let (own, wrong) = (format!("Authorization: Bearer {TOKEN}"), "Authorization: Bearer 0123456789abcdeF".to_owned());
    for (request, body, expected) in REQUESTS {
        let (status, head, output) = send(&server, request, &[], body);
        assert_eq!(status, 401, "{request}: {output}");
        assert!(
            head.contains("www-authenticate: bearer realm=\"dupgate\"\r\n") && output.contains("http.admin.token"),
            "{head}{output}"
        );
        let (status, head, output) = send(&server, request, &[&wrong], body);
        assert_eq!(status, 401, "{request}: {output}");
        assert!(head.contains("error=\"invalid_token\"") && !output.contains(TOKEN), "{head}{output}");
        let (status, _, output) = send(&server, request, &[&own], body);
        assert_eq!(status, expected, "{request}: {output}");
    }
    let listed = send(&server, "GET /", &[], "");
    assert_eq!(listed.0, 200, "the list and the page hold no data");
    for (request, ..) in REQUESTS {
        let path = request.split(['?', ' ']).nth(1).unwrap().replace("pages:0:1", "{source}");
        let method = request.split(' ').next().unwrap();
        assert!(listed.2.contains(&format!("{method:<4} {path} ")), "{method} {path} is not in {}", listed.2);
    }
    assert_eq!(PATHS.len(), REQUESTS.len() + 3, "the list and both pages ask for no token");
}

#[test]
fn the_page_is_whole_and_loads_nothing_from_elsewhere() {
    let (server, _) = server(Some(TOKEN));
    assert_eq!(send(&server, "GET /ui", &[], "").0, 308);
    for (path, kind, text) in FILES {
        let (status, head, body) = send(&server, &format!("GET {path}"), &[], "");
        assert_eq!((status, body.as_str()), (200, text));
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(head.contains("content-security-policy: default-src 'self';"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff") && head.contains("cache-control: no-store"), "{head}");
        for foreign in
            ["http://", "https://", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "@import"]
        {
            // Names that are not loaded: the SVG name space, and the library's URL in its first line.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            let text = text.replacen("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "", 1);
            assert!(!text.contains(foreign), "{path} names {foreign}");
        }
        for inline in ["<style", "style=", "onclick=", "javascript:", "<script>"] {
            assert!(!text.contains(inline), "{path}: {inline} is refused by the page's own policy");
        }
    }
}

#[test]
fn a_page_of_another_site_is_refused_with_and_without_a_token() {
    for token in [Some(TOKEN), None] {
        let (server, _) = server(token);
        let own = format!("Authorization: Bearer {TOKEN}");
        for head in [&["Origin: http://evil.example", &own][..], &["Origin: null", &own]] {
            let (status, _, output) = send(&server, "POST /api/v1/pause", head, "");
            assert_eq!(status, 403, "{output}");
            assert!(output.contains("cross-origin request"), "{output}");
        }
        let origin = format!("Origin: http://{}", server.address());
        assert_eq!(send(&server, "POST /api/v1/pause", &[&origin, &own], "").0, 200);
    }
    let (open, _) = server(None);
    let (status, _, output) = send(&open, "GET /api/v1/pairs", &["Host: evil.example:9465"], "");
    assert_eq!(status, 403, "a foreign name resolves here: {output}");
    let (shut, _) = server(Some(TOKEN));
    let own = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(send(&shut, "GET /api/v1/pairs", &["Host: gate.example:9465", &own], "").0, 200);
}

#[test]
fn pairs_are_listed_newest_first_and_filtered() {
    let (server, pairs) = server(None);
    for (offset, verdict) in [(1, "near"), (2, "exact"), (3, "near")] {
        pairs.offer(Duration::ZERO, seen(offset, verdict)).unwrap();
    }
    let (status, refused) = get(&server, "/api/v1/pairs?verdict=nearr");
    assert_eq!(status, 400, "{refused}");
    let (status, page) = get(&server, "/api/v1/pairs?verdict=near");
    let sources: Vec<&str> =
        page["pairs"].as_array().unwrap().iter().map(|pair| pair["source"].as_str().unwrap()).collect();
    assert_eq!((status, sources), (200, vec!["pages:0:3", "pages:0:1"]));
    assert_eq!((&page["duplicates"], &page["text"], &page["max_distance"]), (&json!(3), &json!("snippet"), &json!(3)));
    assert_eq!(get(&server, "/api/v1/pairs/pages:0:2"), (200, json!({"pair": "pages:0:2"})));
    assert_eq!(get(&server, "/api/v1/pairs/pages:0:9").0, 404);
    assert_eq!((&page["matching"], &page["newer"], &page["distances"][2]), (&json!(2), &json!(0), &json!(2)));
    let (_, older) = get(&server, "/api/v1/pairs?verdict=near&before=3");
    assert_eq!((&older["newer"], &older["pairs"][0]["source"]), (&json!(1), &json!("pages:0:1")));
    let copy = "http://a/<script>";
    let top = json!([{"cluster": "pages:0:0", "id": null, "duplicate_id": copy, "duplicates": 3}]);
    assert_eq!(get(&server, "/api/v1/index/top?n=1"), (200, top));
    for wrong in ["/api/v1/pairs?limit=many", "/api/v1/pairs?colour=red", "/api/v1/pairs/pages", "/api/v1/index/lookup"]
    {
        let (status, output) = get(&server, wrong);
        assert_eq!(status, 400, "{wrong}: {output}");
        assert!(output["error"].as_str().is_some_and(|why| !why.is_empty()), "{wrong}: {output}");
    }
}

#[test]
fn the_overview_answers_with_the_samples_after_a_number() {
    let (server, _) = server(None);
    let (status, page) = get(&server, "/api/v1/overview");
    assert_eq!((status, &page["instance"], &page["started_ms"]), (200, &json!("one"), &json!(7)));
    assert_eq!((&page["last_sample"], &page["samples"]["number"]), (&json!(0), &json!([])));
    for wrong in ["/api/v1/overview?since=-1", "/api/v1/overview?since=now", "/api/v1/overview?until=3"] {
        let (status, output) = get(&server, wrong);
        assert_eq!(status, 400, "{wrong}: {output}");
        assert!(output["error"].as_str().is_some_and(|why| !why.is_empty()), "{wrong}: {output}");
    }
}

#[test]
fn lookups_reach_the_service() {
    let (server, _) = server(None);
    let lookup = |query: &str| get(&server, &format!("/api/v1/index/lookup?{query}"));
    assert_eq!(lookup("fp=00000000000000ff&distance=4").1, json!("Code(B64(255), Some(4))"));
    assert_eq!(lookup("fp=00000000000000ff").1, json!("Code(B64(255), None)"));
    assert_eq!(lookup("fp=000000ff&distance=32").1, json!("Code(B32(255), Some(32))"));
    assert_eq!(lookup(&format!("fp={:032x}&distance=128", 255)).1, json!("Code(B128(255), Some(128))"));
    assert_eq!(lookup("id=http%3A%2F%2Fa%2F1").1, json!("Id(\"http://a/1\")"));
    for wrong in
        ["fp=ff", "fp=00000000000000ff&distance=65", "fp=000000ff&distance=33", "fp=00000000000000ff&id=a", "source=a"]
    {
        assert_eq!(lookup(wrong).0, 400, "{wrong}");
    }
    let forget = |body: &str| send(&server, "POST /api/v1/index/forget", &[], body);
    assert_eq!(forget("{\"source\": [\"a:0:1\", \"a:0:2\"], \"id\": [\"x\"]}").2.trim(), "3");
    assert_eq!(forget("{}").0, 400);
    assert_eq!(forget("{\"source\": [\"a\"]}").0, 400);
}

#[test]
fn pairs_are_streamed_as_they_arrive() {
    let (server, pairs) = server(None);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET /api/v1/pairs/stream?verdict=near&limit=1 HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    // The head has arrived: the subscription is active.
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.is_empty()));
    for (number, verdict) in [(1, "exact"), (2, "near")] {
        pairs.offer(Duration::ZERO, seen(number, verdict)).unwrap();
        pairs.set_details(u64::try_from(number).unwrap(), PairDetails::default());
    }
    let events: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(events.iter().any(|line| line == "event: pair"), "{events:?}");
    let data = events.iter().find_map(|line| line.strip_prefix("data: ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(data).unwrap()["source"], "pages:0:2");
}
