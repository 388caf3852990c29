//! Requests of the fingerprint log as bytes.

use super::bytes::{Reader, Write};
use super::fingerprints::{self, PageHashes};
use super::frame::{self, Kind};
use super::positions::Positions;
use super::{CodecError, reject, verdicts};
use crate::fingerprint::{IdHash, PageDigest};
use crate::protocol::{ForgetTarget, PageRequest, Request, RequestBody, RequestId};

const PAGE: u8 = 0;
const WITHDRAW: u8 = 1;
const FORGET_SOURCE: u8 = 2;
const FORGET_ID: u8 = 3;
const REOPEN: u8 = 4;
const SET_TIME: u8 = 5;

/// Flag of a page's head: its id is that of another page, which it names as its canonical one.
const IS_VARIANT: u8 = 1 << 4;
/// Flag of a page's head: it carries the decision of an earlier scheme.
const HAS_EARLIER: u8 = 1 << 5;

/// Fewest bytes of a request: its head and its request id.
const MIN_BYTES: usize = 9;

/// Appends one Kafka record that holds these requests to `out`.
pub fn encode_requests(requests: &[Request], out: &mut Vec<u8>) {
    let mut places = Positions::default();
    let mut body = Vec::with_capacity(requests.len() * 64);
    for request in requests {
        write_request(&mut body, &mut places, request);
    }
    let start = frame::open(out, Kind::Requests);
    places.write_table(out);
    out.varint(requests.len() as u64);
    out.append(&mut body);
    frame::close(out, start);
}

/// Reads the requests of one Kafka record of the fingerprint log.
///
/// # Errors
///
/// [`CodecError`] when [`encode_requests`] cannot have written these bytes.
pub fn decode_requests(bytes: &[u8]) -> Result<Vec<Request>, CodecError> {
    let mut from = frame::unwrap_kind(bytes, Kind::Requests)?;
    let mut places = Positions::read_table(&mut from)?;
    let count = from.count(MIN_BYTES, "requests")?;
    let mut requests = Vec::with_capacity(count);
    for _ in 0..count {
        requests.push(read_request(&mut from, &mut places)?);
    }
    from.end()?;
    Ok(requests)
}

fn write_request(out: &mut Vec<u8>, places: &mut Positions, request: &Request) {
    let head = match &request.body {
        RequestBody::Page(page) => {
            let earlier = if page.earlier.is_some() { HAS_EARLIER } else { 0 };
            PAGE | earlier | if page.is_variant { IS_VARIANT } else { 0 }
        }
        RequestBody::Withdraw { .. } => WITHDRAW,
        RequestBody::Forget(ForgetTarget::Source(_)) => FORGET_SOURCE,
        RequestBody::Forget(ForgetTarget::Id(_)) => FORGET_ID,
        RequestBody::Reopen { .. } => REOPEN,
        RequestBody::SetTime(_) => SET_TIME,
    };
    out.push(head);
    out.fixed64(request.id.0);
    match &request.body {
        RequestBody::Page(page) => {
            places.write_page(out, &page.source);
            places.write_time(out, page.event_time);
            out.extend(page.digest.0.to_le_bytes());
            let PageRequest { id, scope, site, address, title, .. } = *page;
            fingerprints::write(out, &page.fingerprints, PageHashes { id, scope, site, address, title });
            if let Some(earlier) = &page.earlier {
                verdicts::write_decision(out, places, earlier);
            }
        }
        RequestBody::Withdraw { source, reason } => {
            places.write_page(out, source);
            out.push(reason.code());
        }
        RequestBody::Forget(ForgetTarget::Source(source)) => places.write_reference(out, source),
        RequestBody::Forget(ForgetTarget::Id(id)) => out.fixed64(id.0),
        RequestBody::Reopen { partition, from, to } => {
            places.write_partition(out, partition);
            out.signed(*from);
            out.signed(*to);
        }
        RequestBody::SetTime(time) => out.time(*time),
    }
}

fn read_request(from: &mut Reader<'_>, places: &mut Positions) -> Result<Request, CodecError> {
    let head = from.byte("request")?;
    let request = RequestId(from.fixed64("request id")?);
    let body = match (head & 0xF, head & 0xF0) {
        (PAGE, flags) if flags & !(IS_VARIANT | HAS_EARLIER) == 0 => {
            let source = places.read_page(from)?;
            let event_time = places.read_time(from)?;
            let digest = PageDigest(from.fixed32("digest")?);
            let (fingerprints, hashes) = fingerprints::read(from)?;
            let PageHashes { id, scope, site, address, title } = hashes;
            let earlier = (flags & HAS_EARLIER != 0).then(|| verdicts::read_decision(from, places)).transpose()?;
            RequestBody::Page(PageRequest {
                source,
                event_time,
                id,
                scope,
                site,
                address,
                title,
                is_variant: flags & IS_VARIANT != 0,
                fingerprints,
                digest,
                earlier: earlier.map(Box::new),
            })
        }
        (WITHDRAW, 0) => RequestBody::Withdraw { source: places.read_page(from)?, reason: reject(from)? },
        (FORGET_SOURCE, 0) => RequestBody::Forget(ForgetTarget::Source(places.read_reference(from)?)),
        (FORGET_ID, 0) => RequestBody::Forget(ForgetTarget::Id(IdHash(from.fixed64("id hash")?))),
        (REOPEN, 0) => RequestBody::Reopen {
            partition: places.read_partition(from)?,
            from: from.signed("range")?,
            to: from.signed("range")?,
        },
        (SET_TIME, 0) => RequestBody::SetTime(from.time("stream time")?),
        _ => return Err(CodecError::BadValue { what: "request", value: u64::from(head) }),
    };
    Ok(Request { id: request, body })
}
