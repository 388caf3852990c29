//! Requests of the fingerprint log as bytes.

use super::bytes::{Reader, Write};
use super::fingerprints::{self, Present};
use super::frame::{self, Kind};
use super::positions::Positions;
use super::versions::{ADDRESS_VERSION, SITES_VERSION, STREAM_TIME_VERSION, TITLES_VERSION};
use super::{CodecError, reject};
use crate::fingerprint::{AddressHash, IdHash, PageDigest, SiteHash, TitleHash};
use crate::protocol::{ForgetTarget, PageRequest, Request, RequestBody, RequestId};

const PAGE: u8 = 0;
const WITHDRAW: u8 = 1;
const FORGET_SOURCE: u8 = 2;
const FORGET_ID: u8 = 3;
const REOPEN: u8 = 4;
/// A page that has a site, a title or an address of its own, or that is a variant. Not before [`SITES_VERSION`].
const PAGE_OF_SITE: u8 = 5;
/// Not before [`STREAM_TIME_VERSION`].
const SET_TIME: u8 = 6;

const HAS_SITE: u8 = 1;
const IS_VARIANT: u8 = 1 << 1;
/// Not before [`ADDRESS_VERSION`].
const HAS_ADDRESS: u8 = 1 << 2;
/// Not before [`TITLES_VERSION`].
const HAS_TITLE: u8 = 1 << 3;

/// Fewest bytes of a request: its head and its request id.
const MIN_BYTES: usize = 9;

/// Appends one Kafka record that holds these requests to `out`.
pub fn encode_requests(requests: &[Request], out: &mut Vec<u8>) {
    let mut places = Positions::default();
    let mut body = Vec::with_capacity(requests.len() * 64);
    let pages = requests.iter().filter_map(|request| request.body.page());
    let of_fingerprints = fingerprints::version_for(pages.clone().map(|page| &page.fingerprints));
    let version = pages.filter_map(version_of).max().unwrap_or(of_fingerprints);
    let sets_time = requests.iter().any(|request| matches!(request.body, RequestBody::SetTime(_)));
    let version = if sets_time { STREAM_TIME_VERSION } else { version };
    for request in requests {
        write_request(&mut body, version, &mut places, request);
    }
    let start = frame::open_version(out, Kind::Requests, version);
    places.write_table(out);
    out.varint(requests.len() as u64);
    out.append(&mut body);
    frame::close(out, start);
}

/// Reads the requests of one Kafka record of the fingerprint log.
///
/// # Errors
///
/// [`CodecError`] when no known version of [`encode_requests`] can have written these bytes.
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

fn kind_of(page: &PageRequest) -> u8 {
    if version_of(page).is_some() { PAGE_OF_SITE } else { PAGE }
}

/// Returns the version that a page needs for what it has besides its fingerprints.
fn version_of(page: &PageRequest) -> Option<u8> {
    if page.title.is_some() {
        return Some(TITLES_VERSION);
    }
    if page.address.is_some() {
        return Some(ADDRESS_VERSION);
    }
    (page.site.is_some() || page.is_variant).then_some(SITES_VERSION)
}

fn write_request(out: &mut Vec<u8>, version: u8, places: &mut Positions, request: &Request) {
    let head = match &request.body {
        RequestBody::Page(page) => kind_of(page) | Present::of(&page.fingerprints, page.id, page.scope).bits() << 4,
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
            fingerprints::write(out, version, &page.fingerprints, page.id, page.scope);
            if kind_of(page) == PAGE_OF_SITE {
                let flag = |present: bool, flag: u8| if present { flag } else { 0 };
                out.push(
                    flag(page.site.is_some(), HAS_SITE)
                        | flag(page.is_variant, IS_VARIANT)
                        | flag(page.address.is_some(), HAS_ADDRESS)
                        | flag(page.title.is_some(), HAS_TITLE),
                );
                page.site.iter().for_each(|site| out.extend(site.0.to_le_bytes()));
                page.address.iter().for_each(|address| out.extend(address.0.to_le_bytes()));
                page.title.iter().for_each(|title| out.extend(title.0.to_le_bytes()));
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
    let body = match (head & 0xF, head >> 4) {
        (kind @ (PAGE | PAGE_OF_SITE), present) if kind == PAGE || from.version() >= SITES_VERSION => {
            let source = places.read_page(from)?;
            let event_time = places.read_time(from)?;
            let digest = PageDigest(from.fixed32("digest")?);
            let (fingerprints, id, scope) = fingerprints::read(from, Present::from_bits(present)?)?;
            let more = if kind == PAGE_OF_SITE { from.byte("site")? } else { 0 };
            let newer = match from.version() {
                ..ADDRESS_VERSION => 0,
                ADDRESS_VERSION..TITLES_VERSION => HAS_ADDRESS,
                TITLES_VERSION.. => HAS_ADDRESS | HAS_TITLE,
            };
            if more > HAS_SITE | IS_VARIANT | newer {
                return Err(CodecError::BadValue { what: "site", value: u64::from(more) });
            }
            let site = (more & HAS_SITE != 0).then(|| from.fixed32("site")).transpose()?.map(SiteHash);
            let address = (more & HAS_ADDRESS != 0).then(|| from.fixed32("address")).transpose()?.map(AddressHash);
            let title = (more & HAS_TITLE != 0).then(|| from.fixed32("title")).transpose()?.map(TitleHash);
            let is_variant = more & IS_VARIANT != 0;
            RequestBody::Page(PageRequest {
                source,
                event_time,
                id,
                scope,
                site,
                address,
                title,
                is_variant,
                fingerprints,
                digest,
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
        (SET_TIME, 0) if from.version() >= STREAM_TIME_VERSION => RequestBody::SetTime(from.time("stream time")?),
        _ => return Err(CodecError::BadValue { what: "request", value: u64::from(head) }),
    };
    Ok(Request { id: request, body })
}
