//! Bytes from an attacker: they are refused, cause no panic, and reserve no more memory than their length justifies.

use super::super::frame::{self, Kind};
use super::strategies::{requests, verdicts};
use super::*;

/// What one change does to a record.
#[derive(Clone, Debug)]
enum Change {
    Flip { at: prop::sample::Index, bits: u8 },
    Cut { to: prop::sample::Index },
    Insert { at: prop::sample::Index, bytes: Vec<u8> },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<prop::sample::Index>;
    let change = prop_oneof![
        4 => (at(), 1..=255_u8).prop_map(|(at, bits)| Change::Flip { at, bits }),
        1 => at().prop_map(|to| Change::Cut { to }),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Change::Insert { at, bytes }),
    ];
    prop::collection::vec(change, 1..4)
}

/// Changes the body of a record and makes its checksum right again, so that the readers after it meet the bytes.
fn changed(bytes: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut body = bytes[4..bytes.len() - 4].to_vec();
    for change in changes {
        match change {
            Change::Flip { at, bits } if !body.is_empty() => *at.get_mut(&mut body) ^= bits,
            Change::Flip { .. } => {}
            Change::Cut { to } => body.truncate(to.index(body.len() + 1)),
            Change::Insert { at, bytes } => {
                let at = at.index(body.len() + 1);
                body.splice(at..at, bytes.iter().copied());
            }
        }
    }
    let mut out = bytes[..4].to_vec();
    out.append(&mut body);
    frame::close(&mut out, 0);
    out
}

fn framed(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let start = frame::open(&mut out, kind);
    out.extend_from_slice(body);
    frame::close(&mut out, start);
    out
}

/// Reads the bytes as everything they could be; whatever is read must come back when written again.
fn read_as_everything(bytes: &[u8]) {
    if let Ok(requests) = decode_requests(bytes) {
        assert_eq!(decode_requests(&encoded(&requests)), Ok(requests));
    }
    if let Ok(Some((_, record))) = VerdictReader::new().push(0, bytes) {
        let parts = encode_verdict(&record, DEFAULT_PART_BYTES);
        assert_eq!(read_all(&mut VerdictReader::new(), 0, &parts), [(0, record)]);
    }
    if let Ok(checkpoint) = decode_checkpoint(bytes) {
        assert_eq!(decode_checkpoint(&encode_checkpoint(&checkpoint)), Ok(checkpoint));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..5_usize) {
        read_as_everything(&bytes);
        let kind = [Kind::Requests, Kind::Verdicts, Kind::Rules, Kind::CheckpointPart, Kind::Checkpoint][kind];
        read_as_everything(&framed(kind, &bytes));
    }

    #[test]
    fn changed_requests_do_no_harm(requests in prop::collection::vec(requests(), 0..6), changes in changes()) {
        read_as_everything(&changed(&encoded(&requests), &changes));
    }

    #[test]
    fn changed_verdicts_do_no_harm(record in verdicts(), changes in changes()) {
        if let VerdictRecord::Checkpoint(checkpoint) = &record {
            read_as_everything(&changed(&encode_checkpoint(checkpoint), &changes));
        }
        for part in encode_verdict(&record, 200) {
            read_as_everything(&changed(&part, &changes));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed(record in verdicts(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut bytes = encode_verdict(&record, DEFAULT_PART_BYTES).remove(0);
        *at.get_mut(&mut bytes) ^= 1_u8 << bit;
        prop_assert!(VerdictReader::new().push(0, &bytes).is_err());
    }

    #[test]
    fn every_cut_is_noticed(requests in prop::collection::vec(requests(), 0..6), to in any::<prop::sample::Index>()) {
        let bytes = encoded(&requests);
        prop_assert!(decode_requests(&bytes[..to.index(bytes.len())]).is_err());
    }
}

#[test]
fn another_version_is_named_before_the_checksum_is_looked_at() {
    let mut bytes = encoded(&golden::requests());
    for found in (0..=255).filter(|&found| found != FORMAT_VERSION) {
        bytes[2] = found;
        assert_eq!(decode_requests(&bytes), Err(CodecError::UnknownVersion { found }));
    }
    let error = CodecError::UnknownVersion { found: 2 }.to_string();
    assert_eq!(error, "the record has format version 2; this release reads version 1");
}

#[test]
fn what_somebody_else_wrote_is_called_so() {
    let error = decode_requests(b"{\"url\":\"https://example.org\"}").unwrap_err();
    assert_eq!(error, CodecError::NotOurs { found: *b"{\"" });
}

#[test]
fn a_record_of_the_other_log_is_refused() {
    let rules = encode_verdict(&some_rules(), 0).remove(0);
    assert_eq!(decode_requests(&rules), Err(CodecError::WrongKind { expected: 1, found: 3 }));
    let requests = encoded(&golden::requests());
    assert_eq!(VerdictReader::new().push(0, &requests), Err(CodecError::WrongKind { expected: 2, found: 1 }));
}

#[test]
fn a_length_beyond_the_end_reserves_nothing() {
    // No topics, no partitions, and almost 2^63 requests.
    let mut body = vec![0, 0];
    body.extend([0xFF; 8]);
    body.push(0x7F);
    let error = decode_requests(&framed(Kind::Requests, &body)).unwrap_err();
    assert_eq!(error, CodecError::TooMany { what: "requests", count: (1 << 63) - 1, most: 0 });
}

#[test]
fn a_head_without_a_meaning_is_refused() {
    let known = [0x00, 0x10, 0x20, 0x30, 1, 2, 3, 4, 5];
    for head in (0..=255).filter(|head| !known.contains(head)) {
        // No topics, no partitions, one request, its id.
        let body = [&[0, 0, 1, head][..], &[0; 8]].concat();
        let error = decode_requests(&framed(Kind::Requests, &body)).unwrap_err();
        assert_eq!(error, CodecError::BadValue { what: "request", value: head.into() });
    }
}

#[test]
fn a_placement_without_a_meaning_is_refused() {
    let verdicts = golden::batch().verdicts.into_iter().take(1).collect();
    let record = VerdictRecord::Verdicts(VerdictBatch { verdicts, ..golden::batch() });
    let bytes = encode_verdict(&record, 0).remove(0);
    // The verdict ends with it.
    let body = &bytes[4..bytes.len() - 5];
    let read = |placement| VerdictReader::new().push(0, &framed(Kind::Verdicts, &[body, &[placement]].concat()));
    assert_eq!(read(0), Ok(Some((0, record))));
    for placement in 16..=255 {
        assert_eq!(read(placement), Err(CodecError::BadValue { what: "placement", value: placement.into() }));
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    let bytes = encoded(&golden::requests());
    let mut body = bytes[4..bytes.len() - 4].to_vec();
    body.push(0);
    assert_eq!(decode_requests(&framed(Kind::Requests, &body)), Err(CodecError::TrailingBytes { left: 1 }));
}

#[test]
fn a_bitmap_that_the_library_refuses_is_an_error() {
    let VerdictRecord::Checkpoint(checkpoint) = a_checkpoint() else { panic!() };
    let bytes = encode_checkpoint(&checkpoint);
    // The cookie of a bitmap without runs, after the number of bitmaps (1) and its upper half (0).
    let cookie = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3A, 0x30];
    let at = bytes.windows(cookie.len()).position(|window| window == cookie).unwrap() + 12;
    let mut body = bytes[4..bytes.len() - 4].to_vec();
    body[at - 4] = 0;
    assert!(matches!(decode_checkpoint(&framed(Kind::Checkpoint, &body)), Err(CodecError::BadBitmap { .. })));
}
