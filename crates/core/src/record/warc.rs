//! A WARC record (ISO 28500, versions 1.0 and 1.1) -> its headers and the page in it.

use super::coding::{self, Announced, NotUnpacked};
use super::{Reject, Rejection};
use std::borrow::Cow;

/// Named lines, in their order. Continuation lines, which no known tool writes, are not read.
type Lines<'r> = Vec<(&'r str, &'r str)>;

/// One WARC record.
#[derive(Clone, Debug)]
pub(super) struct WarcRecord<'r> {
    headers: Lines<'r>,
    block: &'r [u8],
}

/// The page of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload<'r> {
    /// Its bytes, without the codings of the transfer.
    pub(super) bytes: Cow<'r, [u8]>,
    /// Its media type with parameters, as declared.
    pub(super) content_type: Option<&'r str>,
    /// Whether it is HTML; otherwise it is plain text.
    pub(super) is_html: bool,
}

impl<'r> WarcRecord<'r> {
    /// Parses a value that is exactly one record, with a block of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`Reject::TooLarge`] for a larger block, even if it is not there; [`Reject::Undecodable`] for anything else.
    pub(super) fn parse(value: &'r [u8], limit: usize) -> Result<Self, Rejection> {
        let refuse = |message: String| Rejection::new(Reject::Undecodable, message);
        let value = value.trim_ascii_start();
        if !value.starts_with(b"WARC/") {
            return Err(refuse("the value is no WARC record: it does not begin with WARC/1.0 or WARC/1.1".to_owned()));
        }
        let (head, after) = head(value).ok_or_else(|| refuse("the WARC record ends within its headers".to_owned()))?;
        let headers =
            named_lines(head).map_err(|line| refuse(format!("line {line} of the WARC record is not UTF-8")))?;
        let mut record = Self { headers, block: after };
        let length = record.header("Content-Length").and_then(|length| length.parse::<usize>().ok());
        let length = length.ok_or_else(|| refuse("the WARC record has no valid Content-Length".to_owned()))?;
        if length > limit {
            return Err(Rejection::too_large("the block of the WARC record", length as u64, limit));
        }
        let Some((block, rest)) = after.split_at_checked(length) else {
            let message = format!(
                "the WARC record is cut: {} bytes of its block are there, Content-Length is {length}",
                after.len()
            );
            return Err(refuse(message));
        };
        if !rest.trim_ascii().is_empty() {
            let message = "something follows the WARC record: each Kafka record must hold one WARC record";
            return Err(refuse(message.to_owned()));
        }
        record.block = block;
        Ok(record)
    }

    /// Returns the value of the first header of this name, in any case, without the angle brackets of an address.
    pub(super) fn header(&self, name: &str) -> Option<&'r str> {
        let value = find(&self.headers, name)?;
        Some(value.strip_prefix('<').and_then(|value| value.strip_suffix('>')).unwrap_or(value))
    }

    /// Finds the page in the record.
    ///
    /// # Errors
    ///
    /// [`Reject::MissingField`] if the record is of a kind without a page; the other reasons if the page is damaged.
    pub(super) fn payload(&self, limit: usize) -> Result<Payload<'r>, Rejection> {
        let kind = self.header("WARC-Type").unwrap_or_default();
        if !["response", "resource", "conversion"].iter().any(|with_page| with_page.eq_ignore_ascii_case(kind)) {
            let message = format!("a WARC record of type `{kind}` has no page: response, resource and conversion have");
            return Err(Rejection::new(Reject::MissingField, message));
        }
        if self.header("WARC-Segment-Number").is_some_and(|number| number != "1") {
            let message = "the WARC record is a segment of a larger one, and has no page of its own";
            return Err(Rejection::new(Reject::MissingField, message));
        }
        let declared = self.header("Content-Type");
        let is_http =
            essence(declared) == "application/http" || (declared.is_none() && self.block.starts_with(b"HTTP/"));
        let (bytes, content_type) =
            if is_http { self.http_body(limit)? } else { (Cow::Borrowed(self.block), declared) };
        let content_type = content_type.or_else(|| self.header("WARC-Identified-Payload-Type"));
        let is_html = match essence(content_type).as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "text/plain" | "text/markdown" => false,
            "" | "application/octet-stream" | "application/xml" | "text/xml" | "unk" | "unknown/unknown" => {
                bytes.trim_ascii_start().starts_with(b"<")
            }
            other => {
                let message = format!("the WARC record holds {other}, expected HTML or plain text");
                return Err(Rejection::new(Reject::MissingField, message));
            }
        };
        Ok(Payload { bytes, content_type, is_html })
    }

    /// Returns the body of an HTTP response, decoded, and its content type.
    fn http_body(&self, limit: usize) -> Result<(Cow<'r, [u8]>, Option<&'r str>), Rejection> {
        let refuse = |message: String| Rejection::new(Reject::Undecodable, message);
        let (head, body) = head(self.block)
            .filter(|(head, _)| head.starts_with(b"HTTP/"))
            .ok_or_else(|| refuse("the WARC record holds no complete head of an HTTP response".to_owned()))?;
        // A line that is not UTF-8 says nothing about the body.
        let lines = head.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let headers: Lines<'r> = lines.filter_map(named).collect();
        // The coding that was applied last. A compression before it shows in the bytes.
        let is_chunked = find(&headers, "Transfer-Encoding")
            .and_then(|codings| codings.rsplit(',').next())
            .is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"));
        // Some crawlers keep the header and store the body without its chunks.
        let body = is_chunked.then(|| joined_chunks(body)).flatten().map_or(Cow::Borrowed(body), Cow::Owned);
        let encoding = find(&headers, "Content-Encoding").unwrap_or_default();
        let content_type = find(&headers, "Content-Type").filter(|value| !value.is_empty());
        let announced = Announced::of(encoding.as_bytes());
        let body = match coding::unpack_announced(announced, &body, limit, coding::is_plain) {
            Ok(unpacked) => unpacked.map_or(body, Cow::Owned),
            Err(NotUnpacked::TooLarge) => {
                let message =
                    format!("the page unpacks to more than the {limit} bytes that are read (input.max_document)");
                return Err(Rejection::new(Reject::TooLarge, message));
            }
            Err(NotUnpacked::Malformed(coding)) => {
                let is_cut = self.header("WARC-Truncated").is_some();
                let begin = if is_cut { coding.unpack_begin(&body, limit) } else { Vec::new() };
                if begin.is_empty() {
                    let name = coding.name();
                    return Err(refuse(format!("the body of the HTTP response is not {name}, as it says, or damaged")));
                }
                Cow::Owned(begin)
            }
            Err(NotUnpacked::Unknown(name)) => {
                return Err(refuse(format!("the body of the HTTP response is coded as `{name}`, which is not read")));
            }
        };
        Ok((body, content_type))
    }
}

/// Splits after the first empty line. The head ends before it.
fn head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        if matches!(rest.get(..end)?, b"" | b"\r") {
            return Some((bytes.get(..at)?, rest.get(end + 1..)?));
        }
        at += end + 1;
    }
}

/// Reads `Name: value` lines after the first line, or returns the number of a line that is not UTF-8.
fn named_lines(head: &[u8]) -> Result<Lines<'_>, usize> {
    let mut lines = Vec::new();
    for (number, line) in (1_usize..).zip(head.split(|byte| *byte == b'\n')) {
        lines.extend(named(std::str::from_utf8(line).map_err(|_| number)?));
    }
    Ok(lines)
}

fn named(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    (!name.starts_with([' ', '\t'])).then(|| (name.trim(), value.trim()))
}

fn find<'r>(lines: &Lines<'r>, wanted: &str) -> Option<&'r str> {
    lines.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
}

/// Returns a media type without its parameters.
fn essence(content_type: Option<&str>) -> String {
    let value = content_type.unwrap_or_default();
    value.split([';', ',']).next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Joins the chunks of a body; the last ones may be missing. `None` if the body does not consist of chunks.
fn joined_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::with_capacity(body.len());
    while let Some(end) = body.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(body.get(..end)?).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        body = body.get(end + 1..)?;
        if size == 0 {
            return Some(joined);
        }
        let Some((chunk, rest)) = body.split_at_checked(size) else {
            joined.extend_from_slice(body);
            return Some(joined);
        };
        joined.extend_from_slice(chunk);
        body = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest);
        if body.is_empty() {
            return Some(joined);
        }
    }
    // What is left is the size of a chunk that is cut, or no size at all.
    (!joined.is_empty() && body.len() <= 8 && body.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'\r'))
        .then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    const PAGE: &str = "<html><body><p>The bridge is closed until autumn.</p></body></html>";

    fn record(kind: &str, more: &str, block: &[u8]) -> Vec<u8> {
        let head = format!("WARC/1.0\r\nWARC-Type: {kind}\r\n{more}Content-Length: {}\r\n\r\n", block.len());
        [head.as_bytes(), block, b"\r\n\r\n"].concat()
    }

    fn response(more: &str, head: &str, body: &[u8]) -> Vec<u8> {
        let http = [b"HTTP/1.1 200 OK\r\n", head.as_bytes(), b"\r\n", body].concat();
        record("response", &format!("Content-Type: application/http; msgtype=response\r\n{more}"), &http)
    }

    fn read(value: &[u8]) -> Result<(String, bool), String> {
        let payload = WarcRecord::parse(value, 20_000).and_then(|record| record.payload(10_000));
        let payload = payload.map_err(|rejection| rejection.to_string())?;
        Ok((String::from_utf8_lossy(&payload.bytes).into_owned(), payload.is_html))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn chunked(bytes: &[u8]) -> Vec<u8> {
        let chunks = bytes
            .chunks(20)
            .flat_map(|chunk| [format!("{:x};ext=1\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        chunks.chain(*b"0\r\n\r\n").collect()
    }

    #[test]
    fn headers_are_found_in_any_case_and_without_angle_brackets() {
        let value =
            b"WARC/1.1\nwarc-type: resource\nWARC-Target-URI: <https://a.example/?a:b>\nX\ncontent-length:2\n\nab";
        let record = WarcRecord::parse(value, 2).unwrap();
        assert_eq!(record.header("warc-target-uri"), Some("https://a.example/?a:b"));
        assert_eq!((record.header("WARC-Type"), record.header("WARC-Date")), (Some("resource"), None));
        assert_eq!(record.block, b"ab");
    }

    #[test]
    fn the_body_of_a_response_is_decoded() {
        let html = "Content-Type: text/html\r\n";
        for (head, body) in [
            ("", PAGE.as_bytes().to_vec()),
            ("Transfer-Encoding: chunked\r\n", chunked(PAGE.as_bytes())),
            ("transfer-encoding: Chunked\r\ncontent-encoding: gzip\r\n", chunked(&gzip(PAGE.as_bytes()))),
            ("Transfer-Encoding: gzip, chunked\r\n", chunked(&gzip(PAGE.as_bytes()))),
            ("Content-Encoding: gzip\r\n", gzip(PAGE.as_bytes())),
            // As its first bytes show.
            ("", gzip(PAGE.as_bytes())),
            ("Content-Encoding: br\r\n", gzip(PAGE.as_bytes())),
            ("Content-Encoding: compress\r\n", gzip(PAGE.as_bytes())),
            // Stored decoded, with the headers left as they were.
            ("Transfer-Encoding: chunked\r\nContent-Encoding: br\r\n", PAGE.as_bytes().to_vec()),
            ("X-Crawler-Content-Encoding: gzip\r\nX-Latin: caf\u{e9}\r\n", PAGE.as_bytes().to_vec()),
        ] {
            let value = response("", &format!("{html}{head}"), &body);
            assert_eq!(read(&value), Ok((PAGE.to_owned(), true)), "{head}");
        }
    }

    #[test]
    fn a_small_body_cannot_fill_the_memory() {
        let body = gzip(&vec![b' '; 1 << 20]);
        for head in ["Content-Encoding: gzip\r\n", "Transfer-Encoding: gzip\r\n", ""] {
            let value = response("WARC-Truncated: length\r\n", head, &body);
            let message = "too_large: the page unpacks to more than the 10000 bytes that are read (input.max_document)";
            assert_eq!(read(&value).map(|(text, _)| text.len()), Err(message.to_owned()), "{head}");
        }
    }

    #[test]
    fn what_the_crawler_cut_is_still_a_page() {
        let long = (0..2000).map(|number| (number * 7919).to_string()).collect::<Vec<_>>().join(" ");
        let cut = |bytes: Vec<u8>| bytes.get(..bytes.len() / 2).unwrap().to_vec();
        let head = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n";
        let (text, _) = read(&response("WARC-Truncated: length\r\n", head, &cut(chunked(long.as_bytes())))).unwrap();
        assert!(long.starts_with(&text) && text.len() > 4000, "{text}");
        let head = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n";
        let packed = cut(gzip(long.as_bytes()));
        let (text, _) = read(&response("WARC-Truncated: time\r\n", head, &packed)).unwrap();
        assert!(long.starts_with(&text) && text.len() > 1000, "{text}");
        assert_eq!(
            read(&response("", head, &packed)),
            Err("undecodable: the body of the HTTP response is not gzip, as it says, or damaged".to_owned())
        );
        for size in 0..chunked(PAGE.as_bytes()).len() {
            let body = chunked(PAGE.as_bytes());
            let joined = joined_chunks(body.get(..size).unwrap());
            assert!(joined.is_none_or(|joined| PAGE.as_bytes().starts_with(&joined)), "{size}");
        }
    }

    #[test]
    fn conversions_are_text_and_resources_are_what_they_say() {
        let page = |kind, more, block: &str| read(&record(kind, more, block.as_bytes()));
        let text = Ok(("plain words".to_owned(), false));
        assert_eq!(page("conversion", "Content-Type: text/plain\r\n", "plain words"), text);
        assert_eq!(page("resource", "", "plain words"), text);
        assert_eq!(page("resource", "Content-Type: text/html\r\n", PAGE), Ok((PAGE.to_owned(), true)));
        assert_eq!(page("resource", "Content-Type: application/octet-stream\r\n", PAGE), Ok((PAGE.to_owned(), true)));
        let identified = "Content-Type: application/http\r\nWARC-Identified-Payload-Type: text/html\r\n";
        assert_eq!(page("response", identified, &format!("HTTP/2 200\r\n\r\n{PAGE}")), Ok((PAGE.to_owned(), true)));
    }

    #[test]
    fn records_without_a_page_say_so() {
        let missing = |what: &str| Err(format!("missing_field: {what}"));
        for kind in ["warcinfo", "request", "metadata", "revisit", "continuation", ""] {
            let message = format!("a WARC record of type `{kind}` has no page: response, resource and conversion have");
            assert_eq!(read(&record(kind, "", b"x")), missing(&message));
        }
        let image = response("", "Content-Type: image/png; q=1\r\n", b"\x89PNG");
        assert_eq!(read(&image), missing("the WARC record holds image/png, expected HTML or plain text"));
        let names = record("response", "Content-Type: text/dns\r\n", b"20240521 a.example. 1 IN A 192.0.2.1");
        assert_eq!(read(&names), missing("the WARC record holds text/dns, expected HTML or plain text"));
        let segment = record("response", "WARC-Segment-Number: 2\r\n", b"x");
        assert!(read(&segment).unwrap_err().contains("segment"));
    }

    #[test]
    fn damaged_records_say_what_is_wrong() {
        let whole = response("", "Content-Type: text/html\r\n", PAGE.as_bytes());
        let two = [whole.as_slice(), whole.as_slice()].concat();
        for (value, message) in [
            (b"{}".as_slice(), "the value is no WARC record: it does not begin with WARC/1.0 or WARC/1.1"),
            (b"WARC/1.0\r\nWARC-Type: resource\r\n", "the WARC record ends within its headers"),
            (b"WARC/1.0\r\nWARC-Type: resource\r\n\r\nx", "the WARC record has no valid Content-Length"),
            (b"WARC/1.0\r\nA: \xff\r\n\r\nx", "line 2 of the WARC record is not UTF-8"),
            (
                b"WARC/1.0\r\nContent-Length: 9\r\n\r\nx",
                "the WARC record is cut: 1 bytes of its block are there, Content-Length is 9",
            ),
            (&two, "something follows the WARC record: each Kafka record must hold one WARC record"),
        ] {
            assert_eq!(read(value), Err(format!("undecodable: {message}")));
        }
        let huge = "WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 5000000000\r\n\r\n";
        let message =
            "too_large: the block of the WARC record has 5000000000 bytes, at most 20000 are read (input.max_document)";
        assert_eq!(read(huge.as_bytes()), Err(message.to_owned()));
        let no_head = record("response", "Content-Type: application/http\r\n", b"HTTP/1.1 200 OK");
        assert!(read(&no_head).unwrap_err().contains("no complete head"));
    }

    proptest! {
        #[test]
        fn damaged_records_do_no_harm(
            noise in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let head = "Content-Type: text/html\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n";
            let body = chunked(&gzip(PAGE.as_bytes()));
            let whole = response("", head, &body);
            let changes = |bytes: &[u8]| {
                let at = at.index(bytes.len());
                let (before, after) = bytes.split_at(at);
                let changed = [before, &[byte], after.get(1..).unwrap()].concat();
                [changed, before.to_vec(), [before, &noise, after].concat()]
            };
            let mut values = vec![noise.clone(), record("response", "Content-Type: application/http\r\n", &noise)];
            values.extend(changes(&whole));
            for body in changes(&body) {
                values.extend([response("", head, &body), response("WARC-Truncated: time\r\n", head, &body)]);
            }
            for value in values {
                match read(&value) {
                    Ok((text, _)) => prop_assert!(text.len() <= 3 * 20_000),
                    Err(why) => prop_assert!(why.contains("WARC") || why.contains("HTTP") || why.contains("page"), "{why}"),
                }
            }
        }
    }
}
