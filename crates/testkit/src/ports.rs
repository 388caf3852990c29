//! Ports for services that are started as their own process.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "ports are those of the machine")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the system's ephemeral ports, so that no connection and no listener on any port takes one before the service
/// starts.
const FIRST: u16 = 12_000;

/// Returns the first of two ports in a row that are free, and that no other test of this process gets.
///
/// # Panics
///
/// When there are none.
#[must_use]
pub fn two() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let begin = FIRST + u16::try_from(std::process::id() % 1_000).unwrap() * 8;
    (0..1_000)
        .map(|_| begin + 2 * NEXT.fetch_add(1, Ordering::Relaxed))
        .find(|&port| is_free(port) && is_free(port + 1))
        .unwrap()
}

/// Returns an unused address of this machine, which no other test of this process gets.
///
/// # Panics
///
/// When there is none.
#[must_use]
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, two()).into()
}
