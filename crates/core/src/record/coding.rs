//! Pages that are packed: base64 in JSON, values compressed with gzip or zstd.

use std::io::Read;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// One step of unpacking (`input.encoding`, and `encoding` of a field).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Base64 in either alphabet, with line breaks and padding or without.
    Base64,
    /// One gzip file, or several in a row.
    Gzip,
    /// Zstandard frames.
    Zstd,
}

/// Why bytes cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotUnpacked {
    /// They are not coded so, or damaged.
    Malformed(Coding),
    /// There are more unpacked bytes than the limit.
    TooLarge,
}

impl Coding {
    /// Returns the name, which is part of the scheme.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Recognises compressed bytes by their first ones, with which no text begins.
    pub(super) fn of_compressed(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x1f\x8b\x08") {
            Some(Self::Gzip)
        } else if bytes.starts_with(b"\x28\xb5\x2f\xfd") {
            Some(Self::Zstd)
        } else {
            None
        }
    }

    fn unpack(self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
        let malformed = NotUnpacked::Malformed(self);
        match self {
            Self::Base64 => from_base64(bytes)
                .ok_or(malformed)
                .and_then(|unpacked| if unpacked.len() > limit { Err(NotUnpacked::TooLarge) } else { Ok(unpacked) }),
            Self::Gzip => read_up_to(flate2::read::MultiGzDecoder::new(bytes), limit, malformed),
            Self::Zstd => {
                let (mut rest, mut unpacked) = (bytes, Vec::new());
                // Several frames in a row are one text.
                while !rest.is_empty() {
                    let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).map_err(|_| malformed)?;
                    unpacked.extend(read_up_to(decoder, limit - unpacked.len(), malformed)?);
                }
                Ok(unpacked)
            }
        }
    }
}

/// Unpacks bytes by `codings`, the outermost first.
pub(super) fn unpack(codings: &[Coding], bytes: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    let mut unpacked = None;
    for coding in codings {
        unpacked = Some(coding.unpack(unpacked.as_deref().unwrap_or(bytes), limit)?);
    }
    Ok(unpacked.unwrap_or_else(|| bytes.to_vec()))
}

fn read_up_to(reader: impl Read, limit: usize, malformed: NotUnpacked) -> Result<Vec<u8>, NotUnpacked> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut unpacked = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut unpacked).map_err(|_| malformed)?;
    if unpacked.len() > limit { Err(NotUnpacked::TooLarge) } else { Ok(unpacked) }
}

fn from_base64(bytes: &[u8]) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
    let plain: Vec<u8> = bytes
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

/// Least length of a text that is taken for base64, in bytes: so many letters of a word never decode to text by chance.
const LEAST_BASE64: usize = 32;

/// How much of a text is decoded to see whether it is base64.
const SAMPLE: usize = 1024;

/// Recognises a text that is base64 of a page although no setting says so, and returns the value of the setting that
/// reads it. One run of letters and digits is not enough: what it decodes to must be text, HTML or compressed.
pub(super) fn unannounced(text: &str) -> Option<&'static str> {
    let text = text.trim_ascii().as_bytes();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    // Nearly every text has a blank or a tag here.
    if !text.get(..LEAST_BASE64)?.iter().all(is_digit) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len() - padding)?;
    if padding > 2 || !digits.iter().all(|byte| is_digit(byte) || matches!(byte, b'\r' | b'\n')) {
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
        Some(Coding::Base64) | None => (is_text(&bytes) || is_markup(&bytes)).then_some("base64"),
    }
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
    fn words_codes_and_pictures_are_not_taken_for_base64() {
        let genes = "GATTACA".repeat(100);
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
            &picture,
        ] {
            assert_eq!(unannounced(text), None, "{text}");
        }
    }
}
