//! Addresses that are in use.

use std::net::TcpListener;

use dupgate_testkit::ports::free_address;

use super::program::{dupgate, output_of};

#[test]
fn a_listener_that_cannot_be_bound_is_reported_before_any_broker_request() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dupgate.yaml");
    for key in ["http.listen", "http.admin.listen"] {
        // No broker answers there, and the program does not wait for one.
        let text = "kafka: {brokers: [\"127.0.0.1:1\"]}\ninput: {topics: [a]}\n\
                    output: {unique: {topic: u}, duplicate: {topic: d}, dead_letter: {topic: x}}\n";
        std::fs::write(&file, text).unwrap();
        let taken = format!("{key}={address}");
        let output =
            output_of(dupgate().args(["run", "-q", "-s", "http.listen=127.0.0.1:0", "-s", &taken, "-c"]).arg(&file));
        assert_eq!(output.code, 71, "{}", output.err);
        assert!(output.err.contains(&format!("cannot listen on {address} ({key})")), "{}", output.err);
    }
}

#[test]
fn a_folder_that_cannot_hold_snapshots_is_found_before_the_brokers_are_waited_for() {
    let folder = tempfile::TempDir::new().unwrap();
    let (file, config) = (folder.path().join("file"), folder.path().join("dupgate.yaml"));
    std::fs::write(&file, "").unwrap();
    let listen = free_address();
    let text = serde_json::json!({
        "version": 1, "kafka": {"brokers": ["127.0.0.1:1"]}, "input": {"topics": ["pages"]},
        "output": {"unique": {"topic": "u"}, "duplicate": {"topic": "d"}, "dead_letter": {"topic": "x"}},
        "http": {"listen": listen.to_string()}, "index": {"path": file},
    });
    std::fs::write(&config, text.to_string()).unwrap();
    let output = output_of(dupgate().args(["run", "-c"]).arg(&config));
    assert_eq!(output.code, 74, "{}", output.err);
    assert!(output.err.contains("cannot hold snapshots (index.path)"), "{}", output.err);
    assert!(!output.err.contains("no broker answers"), "{}", output.err);
}
