//! Whatever the records of the verdict log hold, reading them does no harm, and what was read can be written again.

#![no_main]

use dupgate_core::judge::Snapshot;
use dupgate_core::protocol::{CodecError, DEFAULT_PART_BYTES, VerdictReader, encode_verdict};
use libfuzzer_sys::fuzz_target;

/// Puts the right checksum after the bytes, so that more than the frame is tried.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat()
}

/// Records are distinguished by their length, in two bytes before each.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
        records.push(sealed(record));
        bytes = rest;
    }
    records
}

fuzz_target!(|bytes: &[u8]| {
    let mut reader = VerdictReader::new();
    for (record, offset) in records(bytes).iter().chain([&bytes.to_vec()]).zip(0..) {
        if let Ok(Some((_, record))) = reader.push(offset, record) {
            let mut again = VerdictReader::new();
            let parts = encode_verdict(&record, DEFAULT_PART_BYTES);
            let read = parts.iter().find_map(|part| again.push(0, part).expect("just written"));
            assert_eq!(read, Some((0, record)));
        }
    }
    // A checkpoint in one piece, after the position of a snapshot without spans.
    let chunks = [sealed(b"dg\x01\x07\0\0\0\0\0"), sealed(bytes)];
    if let Ok(snapshot) = Snapshot::decode(&mut chunks.map(Ok::<_, CodecError>).into_iter()) {
        let again = Snapshot::decode(&mut snapshot.encode().map(Ok::<_, CodecError>));
        assert_eq!(again, Ok(snapshot));
    }
});
