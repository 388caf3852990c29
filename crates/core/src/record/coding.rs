//! Pages that are packed: base64 in JSON, values that are compressed.

use std::io::Read;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// One step of unpacking (`input.encoding`, `encoding` of a field, and the header `content-encoding`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Base64 in either alphabet, with line breaks and padding or without.
    Base64,
    /// One gzip file, or several in a row.
    Gzip,
    /// Zstandard frames.
    Zstd,
    /// Deflate, in the zlib format or, as some servers send it, without.
    Deflate,
    /// Brotli.
    Brotli,
}

/// Why bytes cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotUnpacked {
    /// They are not coded so, or damaged.
    Malformed(Coding),
    /// There are more unpacked bytes than the limit.
    TooLarge,
    /// They are said to be coded in this way, which is not read.
    Unknown(String),
}

impl Coding {
    /// Returns the name, which is part of the scheme.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
        }
    }

    /// Recognises compressed bytes by their first ones, with which no text begins.
    pub(super) fn of_compressed(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x1f\x8b\x08") {
            Some(Self::Gzip)
        } else if bytes.starts_with(b"\x28\xb5\x2f\xfd") || skippable(bytes).is_some() {
            Some(Self::Zstd)
        } else {
            None
        }
    }

    /// Unpacks what can be read of bytes whose end is missing: nothing for codings other than gzip and deflate.
    pub(super) fn unpack_begin(self, bytes: &[u8], limit: usize) -> Vec<u8> {
        let reader: Box<dyn Read> = match self {
            Self::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
            Self::Deflate => Box::new(flate2::read::ZlibDecoder::new(bytes)),
            Self::Base64 | Self::Zstd | Self::Brotli => return Vec::new(),
        };
        let mut unpacked = Vec::new();
        // An error comes at the end that is missing, after everything that could be read.
        let _ = reader.take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut unpacked);
        unpacked
    }

    fn unpack(self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
        match self {
            Self::Base64 => from_base64(bytes)
                .ok_or(NotUnpacked::Malformed(self))
                .and_then(|unpacked| if unpacked.len() > limit { Err(NotUnpacked::TooLarge) } else { Ok(unpacked) }),
            Self::Gzip => {
                let (mut rest, mut unpacked) = (bytes, Vec::new());
                // Several files in a row are one text; browsers and gzip itself leave out what is after them.
                while rest.starts_with(b"\x1f\x8b") || unpacked.is_empty() {
                    let mut decoder = flate2::bufread::GzDecoder::new(rest);
                    unpacked.extend(read_up_to(&mut decoder, limit - unpacked.len(), self)?);
                    rest = decoder.into_inner();
                    if rest.is_empty() {
                        break;
                    }
                }
                Ok(unpacked)
            }
            Self::Zstd => {
                let (mut rest, mut unpacked) = (bytes, Vec::new());
                // Several frames in a row are one text.
                while !rest.is_empty() {
                    if let Some(after) = skippable(rest) {
                        rest = after;
                        continue;
                    }
                    unpacked.extend(read_frame(&mut rest, limit - unpacked.len())?);
                }
                Ok(unpacked)
            }
            Self::Deflate => {
                let zlib = flate2::bufread::ZlibDecoder::new(bytes);
                let unpacked = read_whole(zlib, limit, self, flate2::bufread::ZlibDecoder::into_inner);
                if unpacked != Err(NotUnpacked::Malformed(self)) {
                    return unpacked;
                }
                let bare = flate2::bufread::DeflateDecoder::new(bytes);
                read_whole(bare, limit, self, flate2::bufread::DeflateDecoder::into_inner)
            }
            Self::Brotli => from_brotli(bytes, limit),
        }
    }
}

/// What a header `content-encoding` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// These codings, the outermost first; none for a value that is written as it is.
    Codings(Vec<Coding>),
    /// Something that is not read.
    Unknown(String),
}

/// The most codings of one value, as in curl: each is another pass over the bytes.
const MAX_CODINGS: usize = 5;

impl Announced {
    /// Reads the value of the header. It lists codings in the order in which they were applied.
    pub(super) fn of(value: &[u8]) -> Self {
        let value = String::from_utf8_lossy(value).to_ascii_lowercase();
        let mut codings = Vec::new();
        for name in value.rsplit(',').map(str::trim) {
            codings.push(match name {
                "gzip" | "x-gzip" => Coding::Gzip,
                "zstd" => Coding::Zstd,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "base64" => Coding::Base64,
                // Mail, AMQP and S3 say these of bytes that are written as they are.
                "" | "identity" | "none" | "7bit" | "8bit" | "binary" | "aws-chunked" => continue,
                name if encoding_rs::Encoding::for_label(name.as_bytes()).is_some() => continue,
                name => return Self::Unknown(name.to_owned()),
            });
            if codings.len() > MAX_CODINGS {
                return Self::Unknown(format!("more than {MAX_CODINGS} codings"));
            }
        }
        Self::Codings(codings)
    }
}

/// Returns whether bytes can be a page that is not packed: text in any encoding, or a WARC record, which may hold
/// anything. One byte in nine of compressed data is a control character.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    const MIN_BYTES_PER_CONTROL: usize = 50;
    if bytes.starts_with(b"WARC/") || encoding_rs::Encoding::for_bom(bytes).is_some() {
        return true;
    }
    let is_control = |byte: &&u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    bytes.iter().filter(is_control).count().saturating_mul(MIN_BYTES_PER_CONTROL) <= bytes.len()
}

/// Unpacks bytes by `codings`, the outermost first.
pub(super) fn unpack(codings: &[Coding], bytes: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    let mut unpacked = None;
    for coding in codings {
        unpacked = Some(coding.unpack(unpacked.as_deref().unwrap_or(bytes), limit)?);
    }
    Ok(unpacked.unwrap_or_else(|| bytes.to_vec()))
}

/// Unpacks bytes as was announced; else as their first ones show. Returns `None` for bytes that are read as they are:
/// crawlers copy the header of a response whose body they have decoded already.
pub(super) fn unpack_announced(
    announced: Announced,
    bytes: &[u8],
    limit: usize,
    is_readable: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>, NotUnpacked> {
    let refused = match announced {
        Announced::Codings(codings) if codings.is_empty() => None,
        Announced::Codings(codings) => match unpack(&codings, bytes, limit) {
            Err(malformed @ NotUnpacked::Malformed(_)) => Some(malformed),
            unpacked => return unpacked.map(Some),
        },
        Announced::Unknown(name) => Some(NotUnpacked::Unknown(name)),
    };
    match (Coding::of_compressed(bytes), refused) {
        (Some(coding), _) => coding.unpack(bytes, limit).map(Some),
        (None, Some(refused)) if !is_readable(bytes) => Err(refused),
        (None, _) => Ok(None),
    }
}

fn read_up_to(reader: impl Read, limit: usize, coding: Coding) -> Result<Vec<u8>, NotUnpacked> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut unpacked = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut unpacked).map_err(|_| NotUnpacked::Malformed(coding))?;
    if unpacked.len() > limit { Err(NotUnpacked::TooLarge) } else { Ok(unpacked) }
}

/// Unpacks the Zstandard frame that these bytes begin with, up to the end of it. Nothing beyond the limit is unpacked,
/// although the decoder holds back what is within the window of the frame, and that may be larger.
fn read_frame(bytes: &mut &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
    let mut decoder = FrameDecoder::new();
    let up_to = BlockDecodingStrategy::UptoBytes(limit.saturating_add(1));
    let finished = decoder.init(&mut *bytes).and_then(|()| decoder.decode_blocks(&mut *bytes, up_to));
    if !finished.map_err(|_| NotUnpacked::Malformed(Coding::Zstd))? {
        return Err(NotUnpacked::TooLarge);
    }
    let unpacked = decoder.collect().unwrap_or_default();
    if unpacked.len() > limit { Err(NotUnpacked::TooLarge) } else { Ok(unpacked) }
}

/// As [`read_up_to`], of a format without a name at its beginning: only bytes that it explains to the last are of it.
fn read_whole<'b, R: Read>(
    mut reader: R,
    limit: usize,
    coding: Coding,
    rest: impl FnOnce(R) -> &'b [u8],
) -> Result<Vec<u8>, NotUnpacked> {
    let unpacked = read_up_to(&mut reader, limit, coding)?;
    if rest(reader).is_empty() { Ok(unpacked) } else { Err(NotUnpacked::Malformed(coding)) }
}

/// Returns what follows the skippable frame of Zstandard (RFC 8878, section 3.1.2) that these bytes begin with.
fn skippable(bytes: &[u8]) -> Option<&[u8]> {
    let ([0x50..=0x5f, 0x2a, 0x4d, 0x18], rest) = bytes.split_first_chunk()? else { return None };
    let (length, rest) = rest.split_first_chunk()?;
    rest.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)
}

fn from_brotli(bytes: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
    let (mut unpacked, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let (mut left, mut read, mut total) = (bytes.len(), 0, 0);
    let mut state =
        BrotliState::new_strict(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    loop {
        let (mut room, mut written) = (buffer.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            bytes,
            &mut room,
            &mut written,
            &mut buffer,
            &mut total,
            &mut state,
        );
        unpacked.extend_from_slice(buffer.get(..written).unwrap_or_default());
        if unpacked.len() > limit {
            return Err(NotUnpacked::TooLarge);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess if left == 0 => return Ok(unpacked),
            // All input is there, so more of it means that the end is missing.
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(NotUnpacked::Malformed(Coding::Brotli));
            }
        }
    }
}

/// Decodes base64 in either alphabet, with or without padding and line breaks.
pub(super) fn from_base64(bytes: &[u8]) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
    let plain: Vec<u8> = without_wrapping(bytes)
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    ENGINE.decode(plain).ok()
}

/// Returns the base64 inside of what programs write around it: a byte order mark, the beginning of a `data:` address,
/// and the quotes of bytes that Python printed.
fn without_wrapping(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.trim_ascii();
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let printed = |quote: &[u8]| bytes.strip_prefix(b"b")?.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(printed) = printed(b"'").or_else(|| printed(b"\"")) {
        return printed;
    }
    let is_data = bytes.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"));
    let comma = bytes.iter().take(256).position(|byte| *byte == b',').filter(|_| is_data);
    let (head, rest) = comma.and_then(|comma| bytes.split_at_checked(comma)).unwrap_or((&[], bytes));
    if head.ends_with(b";base64") { rest.get(1..).unwrap_or_default() } else { bytes }
}

/// A text of so many letters and digits without a blank is base64, whatever it decodes to.
const SURE_BASE64: usize = 256;

/// Least length of a text that is taken for base64, in bytes: so many letters of a word never decode to text by chance.
const LEAST_BASE64: usize = 32;

/// How much of a text is decoded to see whether it is base64.
const SAMPLE: usize = 1024;

/// Recognises a text that is base64 of a page although no setting says so, and returns the value of the setting that
/// reads it. One short run of letters and digits is not enough: what it decodes to must be text, HTML or compressed.
pub(super) fn unannounced(text: &str) -> Option<&'static str> {
    let text = without_wrapping(text.as_bytes());
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    // Nearly every text has a blank or a tag here.
    if !text.get(..LEAST_BASE64)?.iter().all(is_digit) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len() - padding)?;
    if padding > 2 || !digits.iter().all(|byte| is_digit(byte) || matches!(byte, b'\r' | b'\n' | b' ')) {
        return None;
    }
    let count = digits.iter().filter(|byte| is_digit(byte)).count();
    if count % 4 == 1 || (padding > 0 && (count + padding) % 4 != 0) {
        return None;
    }
    let sample: Vec<u8> = digits.iter().copied().filter(|byte| is_digit(byte)).take(SAMPLE).collect();
    let bytes = from_base64(&sample)?;
    match Coding::of_compressed(&bytes) {
        Some(Coding::Gzip) => Some("[base64, gzip]"),
        Some(Coding::Zstd) => Some("[base64, zstd]"),
        Some(_) | None if is_text(&bytes) || is_markup(&bytes) => Some("base64"),
        Some(_) | None if is_text(&Coding::Deflate.unpack_begin(&bytes, SAMPLE)) => Some("[base64, deflate]"),
        Some(_) | None => (count >= SURE_BASE64 && is_mixed(digits) && !digits.contains(&b' ')).then_some("base64"),
    }
}

/// Returns whether there are letters of both cases and digits, as in all base64 of this length.
fn is_mixed(text: &[u8]) -> bool {
    [u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit].iter().all(|kind| text.iter().any(kind))
}

/// Returns whether bytes are words in UTF-8; the last character may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let is_odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    let has_words = text.chars().any(|c| c.is_whitespace() || c == '<' || !c.is_ascii());
    has_words && !text.contains(is_odd)
}

/// Returns whether bytes are HTML or XML, in any encoding.
fn is_markup(bytes: &[u8]) -> bool {
    let has_two = |wanted: u8| bytes.split(|byte| *byte == wanted).nth(2).is_some();
    bytes.trim_ascii_start().starts_with(b"<") && has_two(b'<') && has_two(b'>')
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE};
    use std::io::Write as _;

    const PAGE: &str = "<html><body><p>The bridge is closed \u{2014} until autumn; “ÿÿÿ>>>???”</p></body></html>";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn bare_deflate(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    /// The page, in Brotli.
    fn brotli() -> Vec<u8> {
        let written = "G1kAQKwObPdoiKTeJvjpprA3FKV+Afwdlj48VA1Iydmpw9LgxPUPWhudrHPbccppwFBbEFAHvZz1nrIiyppNUOzXIRpGZ8v+RRRHjTPW\
                       qIt1WjsawGePGAQ=";
        BASE64_STANDARD.decode(written).unwrap()
    }

    fn read(codings: &[Coding], bytes: &[u8]) -> Result<String, NotUnpacked> {
        unpack(codings, bytes, 1000).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn base64_is_read_in_every_common_form() {
        let plain = BASE64_STANDARD.encode(PAGE);
        let lines: Vec<&str> = plain.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        for written in [
            plain.clone(),
            BASE64_STANDARD_NO_PAD.encode(PAGE),
            BASE64_URL_SAFE.encode(PAGE),
            lines.join("\n") + "\n",
            lines.join("\r\n"),
            lines.join(" "),
            format!("\u{feff}{plain}\n"),
            format!("b'{plain}'"),
            format!("b\"{plain}\""),
            format!("data:text/html;charset=utf-8;base64,{plain}"),
        ] {
            assert_eq!(read(&[Coding::Base64], written.as_bytes()).as_deref(), Ok(PAGE), "{written}");
            assert_eq!(unannounced(&written), Some("base64"), "{written}");
        }
        for wrong in [PAGE, "abc$", "a"] {
            assert_eq!(
                read(&[Coding::Base64], wrong.as_bytes()),
                Err(NotUnpacked::Malformed(Coding::Base64)),
                "{wrong}"
            );
        }
    }

    #[test]
    fn codings_are_chained_and_compression_is_recognised() {
        for (packed, coding) in [(gzip(PAGE.as_bytes()), Coding::Gzip), (zstd(PAGE.as_bytes()), Coding::Zstd)] {
            let written = BASE64_STANDARD.encode(&packed);
            assert_eq!(read(&[Coding::Base64, coding], written.as_bytes()).as_deref(), Ok(PAGE), "{coding:?}");
            assert_eq!(Coding::of_compressed(&packed), Some(coding));
            assert_eq!(unannounced(&written), Some(format!("[base64, {}]", coding.name()).as_str()));
            let cut = packed.get(..packed.len() - 9).unwrap();
            assert_eq!(read(&[coding], cut), Err(NotUnpacked::Malformed(coding)), "cut");
            assert_eq!(read(&[coding], PAGE.as_bytes()), Err(NotUnpacked::Malformed(coding)), "not packed");
        }
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(&[Coding::Gzip], &two).as_deref(), Ok("one two"), "concatenated files");
        let two = [zstd(b"one "), zstd(b"two")].concat();
        assert_eq!(read(&[Coding::Zstd], &two).as_deref(), Ok("one two"), "frames in a row");
        assert_eq!(unannounced(&BASE64_STANDARD.encode(zlib(PAGE.as_bytes()))), Some("[base64, deflate]"));
        for after in [&[0; 600][..], b"--boundary\r\n"] {
            let followed = [&gzip(PAGE.as_bytes())[..], after].concat();
            assert_eq!(read(&[Coding::Gzip], &followed).as_deref(), Ok(PAGE), "{after:?}");
        }
        let skipped = b"\x5a\x2a\x4d\x18\x03\0\0\0any".to_vec();
        for frames in [[skipped.clone(), zstd(PAGE.as_bytes())], [zstd(PAGE.as_bytes()), skipped.clone()]] {
            let frames = frames.concat();
            assert_eq!(Coding::of_compressed(&frames), Some(Coding::Zstd));
            assert_eq!(read(&[Coding::Zstd], &frames).as_deref(), Ok(PAGE));
        }
        assert_eq!(read(&[Coding::Zstd], &skipped[..9]), Err(NotUnpacked::Malformed(Coding::Zstd)), "cut");
    }

    #[test]
    fn formats_without_a_magic_number_are_read_to_the_last_byte() {
        let page = PAGE.as_bytes();
        for (packed, coding) in
            [(zlib(page), Coding::Deflate), (bare_deflate(page), Coding::Deflate), (brotli(), Coding::Brotli)]
        {
            assert_eq!(read(&[coding], &packed).as_deref(), Ok(PAGE), "{coding:?}");
            assert_eq!(Coding::of_compressed(&packed), None);
            let malformed = Err(NotUnpacked::Malformed(coding));
            let more = [packed.as_slice(), b"more"].concat();
            for wrong in [packed.get(..packed.len() - 9).unwrap(), more.as_slice(), page, b"", b"{}", b"plain words"] {
                assert_eq!(read(&[coding], wrong), malformed, "{coding:?} {wrong:x?}");
            }
            assert_eq!(unpack(&[coding], &packed, PAGE.len() - 1), Err(NotUnpacked::TooLarge));
        }
    }

    #[test]
    fn nothing_beyond_the_limit_is_unpacked_whatever_the_window() {
        // A window of 64 MiB, and 512 blocks of 128 KiB of one letter.
        let block = |is_last: u32| {
            let header = (128 << 10) << 3 | 1 << 1 | is_last;
            [header.to_le_bytes()[..3].to_vec(), b"a".to_vec()].concat()
        };
        let blocks: Vec<u8> = (0..512).flat_map(|number| block(u32::from(number == 511))).collect();
        let frame = [b"\x28\xb5\x2f\xfd\x00".to_vec(), vec![16 << 3], blocks].concat();
        assert_eq!(unpack(&[Coding::Zstd], &frame, 64 << 20).map(|unpacked| unpacked.len()), Ok(64 << 20));
        let mut rest = frame.as_slice();
        assert_eq!(read_frame(&mut rest, 1 << 20), Err(NotUnpacked::TooLarge));
        assert!(rest.len() > frame.len() * 9 / 10, "{} of {} bytes are left", rest.len(), frame.len());
    }

    #[test]
    fn the_header_lists_codings_in_the_order_of_their_use() {
        let announced = |value: &str| match Announced::of(value.as_bytes()) {
            Announced::Codings(codings) => codings.iter().map(|coding| coding.name()).collect::<Vec<_>>().join(" "),
            Announced::Unknown(name) => format!("unknown: {name}"),
        };
        for (value, expected) in [
            ("gzip", "gzip"),
            ("x-gzip", "gzip"),
            (" GZIP ", "gzip"),
            ("zstd", "zstd"),
            ("br", "br"),
            ("deflate", "deflate"),
            ("base64", "base64"),
            ("gzip, base64", "base64 gzip"),
            ("identity", ""),
            ("", ""),
            ("utf-8", ""),
            ("ISO-8859-1", ""),
            ("aws-chunked,gzip", "gzip"),
            ("compress", "unknown: compress"),
            ("gzip, lz4", "unknown: lz4"),
            ("br,br,br,br,br", "br br br br br"),
        ] {
            assert_eq!(announced(value), expected, "{value:?}");
        }
        assert_eq!(announced(&"br,".repeat(20_000)), "unknown: more than 5 codings");
    }

    #[test]
    fn compressed_bytes_are_not_plain_and_pages_in_any_encoding_are() {
        for packed in [gzip(PAGE.as_bytes()), zlib(PAGE.as_bytes()), bare_deflate(PAGE.as_bytes()), brotli()] {
            assert!(!is_plain(&packed));
        }
        let gbk = encoding_rs::GBK.encode("据新华社报道，中国人民银行").0;
        let utf_16: Vec<u8> = "\u{feff}words".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let stray = format!("{PAGE}\u{b}");
        for plain in [PAGE.as_bytes(), b"{\r\n\t}", b"", &gbk, &utf_16, b"WARC/1.0\r\n\0\0\0\0\0", stray.as_bytes()] {
            assert!(is_plain(plain), "{plain:x?}");
        }
    }

    #[test]
    fn a_small_value_cannot_fill_the_memory() {
        let zeros = vec![0; 10 << 20];
        for packed in [gzip(&zeros), zstd(&zeros)] {
            let coding = [Coding::of_compressed(&packed).unwrap()];
            assert_eq!(unpack(&coding, &packed, 1 << 20), Err(NotUnpacked::TooLarge));
            assert_eq!(unpack(&coding, &packed, zeros.len()).unwrap().len(), zeros.len());
        }
        assert_eq!(
            unpack(&[Coding::Base64], BASE64_STANDARD.encode("12345").as_bytes(), 4),
            Err(NotUnpacked::TooLarge)
        );
    }

    #[test]
    fn text_in_any_script_and_html_in_any_encoding_are_recognised_in_base64() {
        let gbk = encoding_rs::GBK.encode("<html><body>据新华社报道，中国人民银行</body></html>").0;
        for page in ["据新华社报道，中国人民银行宣布".as_bytes(), b"plain words of a short post", &gbk] {
            assert_eq!(unannounced(&BASE64_STANDARD.encode(page)), Some("base64"));
        }
        // A character may be cut at the end of the sample.
        for before in 0..4 {
            let long = format!("{}{}", "a ".repeat(before), "新闻 ".repeat(1000));
            assert_eq!(unannounced(&BASE64_STANDARD.encode(long)), Some("base64"), "{before}");
        }
    }

    #[test]
    fn a_long_run_of_letters_and_digits_is_base64_whatever_it_holds() {
        let utf16: Vec<u8> =
            "据新华社报道，中国人民银行宣布".repeat(8).encode_utf16().flat_map(u16::to_le_bytes).collect();
        let gbk = encoding_rs::GBK.encode(&"据新华社报道，中国人民银行宣布".repeat(8)).0.into_owned();
        for bytes in [utf16, gbk, BASE64_STANDARD.encode(PAGE.repeat(4)).into_bytes()] {
            assert_eq!(unannounced(&BASE64_STANDARD.encode(bytes)), Some("base64"));
        }
    }

    #[test]
    fn words_codes_and_pictures_are_not_taken_for_base64() {
        let genes = "GATTACA".repeat(100);
        let words = format!("Donaudampfschifffahrtsgesellschaft{}", " Wien im Jahr 1900 und danach".repeat(10));
        let digits = "0123456789".repeat(10);
        let picture = BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\0".repeat(9));
        for text in [
            "",
            "word",
            "SGVsbG8=",
            "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
            "Donaudampfschifffahrtsgesellschaftskapitaenswitwenrentenauszahlungsstelle",
            "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            "https://a.example/2024/05/21/a-long-address-without-any-blank-in-it",
            "a-long-slug-without-any-blank-in-it-as-it-stands-in-an-address",
            "path/to/a/file/in/some/folder/of/some/other/machine/somewhere",
            "据新华社报道中国人民银行宣布下调存款准备金率市场反应积极股市大幅上涨",
            "hahahahahahahahahahahahahahahahahahahahahahahahahahahahahahahaha",
            "apple\nbanana\ncherry\ndamson\nelderberry\nfig\ngrapefruit\nhoneydew\n",
            &"a".repeat(100),
            &"A".repeat(100),
            &"AB".repeat(100),
            &"-".repeat(100),
            &"_".repeat(100),
            &"/".repeat(100),
            &"wxyz".repeat(30),
            &digits,
            &genes,
            &words,
            &picture,
        ] {
            assert_eq!(unannounced(text), None, "{text}");
        }
    }
}
