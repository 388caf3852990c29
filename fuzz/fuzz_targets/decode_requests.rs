//! Whatever a record of the fingerprint log holds, reading it does no harm, and what was read can be written again.

#![no_main]

use dupgate_core::protocol::{decode_requests, encode_requests};
use libfuzzer_sys::fuzz_target;

/// Puts the right checksum after the bytes, so that more than the frame is tried.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat()
}

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes.to_vec(), sealed(bytes)] {
        if let Ok(requests) = decode_requests(&bytes) {
            let mut written = Vec::new();
            encode_requests(&requests, &mut written);
            assert_eq!(decode_requests(&written), Ok(requests));
        }
    }
});
