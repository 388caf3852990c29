//! Addresses that somebody else listens on.

use std::net::TcpListener;

use super::program::{dupgate, said};

#[test]
fn a_listener_that_cannot_be_bound_is_told_before_any_broker_is_asked() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dupgate.yaml");
    for key in ["http.listen", "http.admin.listen"] {
        // No broker answers there, and none is waited for.
        let text = "kafka: {brokers: [\"127.0.0.1:1\"]}\ninput: {topics: [a]}\n\
                    output: {unique: {topic: u}, duplicate: {topic: d}, dead_letter: {topic: x}}\n";
        std::fs::write(&file, text).unwrap();
        let taken = format!("{key}={address}");
        let said = said(dupgate().args(["run", "-q", "-s", "http.listen=127.0.0.1:0", "-s", &taken, "-c"]).arg(&file));
        assert_eq!(said.code, 71, "{}", said.err);
        assert!(said.err.contains(&format!("cannot listen on {address} ({key})")), "{}", said.err);
    }
}
