//! Ports for services that are started as their own process.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the system's ephemeral ports, so that no connection takes one before the service starts.
const FIRST: u16 = 12_000;

/// Returns the first of two ports in a row that are free, and that no other test of this process gets.
pub(super) fn two() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin = FIRST + u16::try_from(std::process::id() % 1_000).expect("below 1,000") * 8;
    (0..1_000)
        .map(|_| begin + 2 * NEXT.fetch_add(1, Ordering::Relaxed))
        .find(|&port| is_free(port) && is_free(port + 1))
        .expect("two free ports")
}
