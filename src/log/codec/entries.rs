//! Entries of the fingerprint log as bytes.

use super::fingerprints::{self, Present};
use super::frame::{self, FORMAT_VERSION, Kind};
use super::places::Places;
use super::wire::{Reader, Write};
use super::{CodecError, reject};
use crate::fingerprint::{IdHash, PageDigest, SiteHash};
use crate::log::{Entry, EntryBody, ForgetTarget, PageEntry, RequestId};

const PAGE: u8 = 0;
const WITHDRAW: u8 = 1;
const FORGET_SOURCE: u8 = 2;
const FORGET_ID: u8 = 3;
const REOPEN: u8 = 4;
/// A page with a site, or that is a variant. Not before [`FORMAT_VERSION`].
const PAGE_OF_SITE: u8 = 5;

const HAS_SITE: u8 = 1;
const IS_VARIANT: u8 = 1 << 1;

/// Fewest bytes of an entry: its head and its request id.
const MIN_BYTES: usize = 9;

/// Appends one Kafka record that holds these entries to `out`.
pub fn encode_entries(entries: &[Entry], out: &mut Vec<u8>) {
    let mut places = Places::default();
    let mut body = Vec::with_capacity(entries.len() * 64);
    let pages = entries.iter().filter_map(|entry| match &entry.body {
        EntryBody::Page(page) => Some(page),
        EntryBody::Withdraw { .. } | EntryBody::Forget(_) | EntryBody::Reopen { .. } => None,
    });
    let version = if pages.clone().any(|page| kind_of(page) == PAGE_OF_SITE) {
        FORMAT_VERSION
    } else {
        fingerprints::version_for(pages.map(|page| &page.fingerprints))
    };
    for entry in entries {
        write_entry(&mut body, version, &mut places, entry);
    }
    let start = frame::open_version(out, Kind::Entries, version);
    places.write_table(out);
    out.varint(entries.len() as u64);
    out.append(&mut body);
    frame::close(out, start);
}

/// Reads the entries of one Kafka record of the fingerprint log.
///
/// # Errors
///
/// [`CodecError`] when [`encode_entries`] of a known version cannot have written these bytes.
pub fn decode_entries(bytes: &[u8]) -> Result<Vec<Entry>, CodecError> {
    let mut from = frame::unwrap_kind(bytes, Kind::Entries)?;
    let mut places = Places::read_table(&mut from)?;
    let count = from.count(MIN_BYTES, "entries")?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(read_entry(&mut from, &mut places)?);
    }
    from.end()?;
    Ok(entries)
}

fn kind_of(page: &PageEntry) -> u8 {
    if page.site.is_some() || page.is_variant { PAGE_OF_SITE } else { PAGE }
}

fn write_entry(out: &mut Vec<u8>, version: u8, places: &mut Places, entry: &Entry) {
    let head = match &entry.body {
        EntryBody::Page(page) => kind_of(page) | Present::of(&page.fingerprints, page.id, page.scope).bits() << 4,
        EntryBody::Withdraw { .. } => WITHDRAW,
        EntryBody::Forget(ForgetTarget::Source(_)) => FORGET_SOURCE,
        EntryBody::Forget(ForgetTarget::Id(_)) => FORGET_ID,
        EntryBody::Reopen { .. } => REOPEN,
    };
    out.push(head);
    out.fixed64(entry.request.0);
    match &entry.body {
        EntryBody::Page(page) => {
            places.write_page(out, &page.source);
            places.write_time(out, page.event_time);
            out.extend(page.digest.0.to_le_bytes());
            fingerprints::write(out, version, &page.fingerprints, page.id, page.scope);
            if kind_of(page) == PAGE_OF_SITE {
                out.push(u8::from(page.site.is_some()) | if page.is_variant { IS_VARIANT } else { 0 });
                page.site.iter().for_each(|site| out.extend(site.0.to_le_bytes()));
            }
        }
        EntryBody::Withdraw { source, reason } => {
            places.write_page(out, source);
            out.push(reason.code());
        }
        EntryBody::Forget(ForgetTarget::Source(source)) => places.write_reference(out, source),
        EntryBody::Forget(ForgetTarget::Id(id)) => out.fixed64(id.0),
        EntryBody::Reopen { partition, from, to } => {
            places.write_partition(out, partition);
            out.signed(*from);
            out.signed(*to);
        }
    }
}

fn read_entry(from: &mut Reader<'_>, places: &mut Places) -> Result<Entry, CodecError> {
    let head = from.byte("entry")?;
    let request = RequestId(from.fixed64("request id")?);
    let body = match (head & 0xF, head >> 4) {
        (kind @ (PAGE | PAGE_OF_SITE), present) if kind == PAGE || from.version() >= FORMAT_VERSION => {
            let source = places.read_page(from)?;
            let event_time = places.read_time(from)?;
            let digest = PageDigest(from.fixed32("digest")?);
            let (fingerprints, id, scope) = fingerprints::read(from, Present::from_bits(present)?)?;
            let more = if kind == PAGE_OF_SITE { from.byte("site")? } else { 0 };
            if more > HAS_SITE | IS_VARIANT {
                return Err(CodecError::BadValue { what: "site", value: u64::from(more) });
            }
            let site = (more & HAS_SITE != 0).then(|| from.fixed32("site")).transpose()?.map(SiteHash);
            let is_variant = more & IS_VARIANT != 0;
            EntryBody::Page(PageEntry { source, event_time, id, scope, site, is_variant, fingerprints, digest })
        }
        (WITHDRAW, 0) => EntryBody::Withdraw { source: places.read_page(from)?, reason: reject(from)? },
        (FORGET_SOURCE, 0) => EntryBody::Forget(ForgetTarget::Source(places.read_reference(from)?)),
        (FORGET_ID, 0) => EntryBody::Forget(ForgetTarget::Id(IdHash(from.fixed64("id hash")?))),
        (REOPEN, 0) => EntryBody::Reopen {
            partition: places.read_partition(from)?,
            from: from.signed("range")?,
            to: from.signed("range")?,
        },
        _ => return Err(CodecError::BadValue { what: "entry", value: u64::from(head) }),
    };
    Ok(Entry { request, body })
}
