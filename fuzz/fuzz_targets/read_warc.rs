//! Whatever a WARC record holds, reading it does no harm and takes no more memory than the limit allows.

#![no_main]

use dupgate_core::record::{Body, Decoder, Format, InputSettings, RawRecord};
use libfuzzer_sys::fuzz_target;

const MAX_DOCUMENT: usize = 64 << 10;

/// A record with a block of this length, so that more than its headers are tried.
fn record(kind: &str, block: &[u8]) -> Vec<u8> {
    let head = format!("WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: <https://a.example/>\r\n");
    [format!("{head}Content-Length: {}\r\n\r\n", block.len()).as_bytes(), block, b"\r\n\r\n"].concat()
}

/// A response whose body is the bytes as it announces them.
fn response(coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n{coding}\r\n");
    record("response", &[head.as_bytes(), body].concat())
}

fuzz_target!(|bytes: &[u8]| {
    let settings = InputSettings { format: Format::Warc, max_document: MAX_DOCUMENT, ..InputSettings::default() };
    let decoder = Decoder::new(&settings, 512).expect("settings");
    let mut values = vec![bytes.to_vec(), record("conversion", bytes), record("response", bytes)];
    values.extend(
        ["", "gzip", "deflate", "br", "zstd"].map(|coding| response(&format!("Content-Encoding: {coding}\r\n"), bytes)),
    );
    for value in &values {
        let raw = RawRecord { key: None, value: Some(value), headers: &() };
        match decoder.decode(&raw) {
            // A byte of another encoding has at most three in UTF-8.
            Ok(document) => {
                let (Body::Text(text) | Body::Html(text)) = document.body;
                assert!(text.len() <= 3 * MAX_DOCUMENT);
            }
            Err(rejection) => assert!(!rejection.is_for_now() && !rejection.message().is_empty()),
        }
    }
});
