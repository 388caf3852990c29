//! Whatever a client sends to the listeners, they stay there, and no answer says that the service failed.

#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use dupgate::clock::Clock;
use dupgate::config::settings::{self, ShownText};
use dupgate::protocol::ForgetTarget;
use dupgate::record::Timestamp;
use dupgate::telemetry::admin::{self, Admin, AdminService, ApiError, Lookup};
use dupgate::telemetry::http::{self, Endpoints};
use dupgate::telemetry::http_server::{Server, bind};
use dupgate::telemetry::metrics::Build;
use dupgate::telemetry::overview::{About, Overview};
use dupgate::telemetry::pairs::{Pair, Pairs};
use dupgate::telemetry::{Health, Metrics};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// Returns the arguments of every call.
struct Echo;

impl AdminService for Echo {
    fn pair(&self, pair: &Pair) -> Result<Value, ApiError> {
        Ok(json!(format!("{pair:?}")))
    }
    fn explain(&self, value: &[u8]) -> Result<Value, ApiError> {
        Ok(json!(String::from_utf8_lossy(value)))
    }
    fn stats(&self) -> Result<Value, ApiError> {
        Ok(json!("stats"))
    }
    fn lookup(&self, what: &Lookup) -> Result<Value, ApiError> {
        Ok(json!(format!("{what:?}")))
    }
    fn forget(&self, targets: Vec<ForgetTarget>) -> Result<Value, ApiError> {
        Ok(json!(format!("{targets:?}")))
    }
    fn snapshot(&self) -> Result<Value, ApiError> {
        Ok(json!("snapshot"))
    }
    fn hold(&self, is_held: bool) -> Result<Value, ApiError> {
        Ok(json!(is_held))
    }
}

static SERVERS: LazyLock<[Server; 2]> = LazyLock::new(|| {
    let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Default::default() }).expect("metrics");
    let build = Build { version: "1".into(), revision: String::new(), librdkafka: "2".into() };
    let health = Health::new(Duration::from_secs(10));
    let about = About {
        build: build.clone(),
        instance: "one".into(),
        group: "g".into(),
        roles: vec!["worker"],
        log_partitions: 1,
        started: Timestamp::from_millis(7),
    };
    let (now, wall) = (Clock::start().instant(), || Timestamp::from_millis(9));
    let overview = Overview::new(about, metrics.clone(), health.clone(), Arc::new(|| Duration::ZERO), wall);
    let admin = Admin {
        token: None,
        text: ShownText::Snippet,
        max_distance: 3,
        pairs: Pairs::default(),
        overview,
        admin_service: Arc::new(Echo),
    };
    let endpoints = Endpoints { metrics, health, build, clock: Arc::new(move || now), wall, config: "{}".into() };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let admin = bind(any).and_then(|bound| admin::start(bound, admin));
    [http::start(any, endpoints), admin].map(|server| server.expect("a listener"))
});

fuzz_target!(|bytes: &[u8]| {
    for server in &*SERVERS {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
        // It may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answer));
    }
});
