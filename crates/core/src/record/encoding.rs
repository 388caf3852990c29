//! Bytes of a page -> text, whatever they are encoded in. Bytes that are not quite valid may still fit UTF-8 best:
//! pages cut within a character, pages with a broken byte.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs as coding;

use super::{Reject, Rejection};

/// How far a page is searched for the declaration of its encoding, in bytes.
const DECLARED_WITHIN: usize = 4096;

/// The encoding of a page, by family: one decoder reads both GBK and GB2312 pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8, and with it ASCII.
    #[default]
    Utf8,
    /// UTF-16, in either byte order.
    Utf16,
    /// GB 18030, GBK, GB 2312.
    Gb18030,
    /// Big5 and its Hong Kong supplement.
    Big5,
    /// Shift JIS.
    ShiftJis,
    /// EUC-JP and ISO-2022-JP.
    OtherJapanese,
    /// EUC-KR and its Microsoft extension.
    EucKr,
    /// One of Windows-1250 to 1258, and so ISO 8859-1, too.
    Windows,
    /// Any other.
    Other,
}

impl Encoding {
    /// Returns the word used in metrics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Gb18030 => "gb18030",
            Self::Big5 => "big5",
            Self::ShiftJis => "shift_jis",
            Self::OtherJapanese => "euc-jp",
            Self::EucKr => "euc-kr",
            Self::Windows => "windows-125x",
            Self::Other => "other",
        }
    }

    fn of(coding: &'static coding::Encoding) -> Self {
        match coding.name() {
            "UTF-8" => Self::Utf8,
            "UTF-16LE" | "UTF-16BE" => Self::Utf16,
            "gb18030" | "GBK" => Self::Gb18030,
            "Big5" => Self::Big5,
            "Shift_JIS" => Self::ShiftJis,
            "EUC-JP" | "ISO-2022-JP" => Self::OtherJapanese,
            "EUC-KR" => Self::EucKr,
            name if name.starts_with("windows-125") => Self::Windows,
            _ => Self::Other,
        }
    }
}

/// Decodes a page. The first of these that applies decides: its byte order mark; zero bytes that look like UTF-16; its
/// bytes, if they are UTF-8 except for a few bytes or a cut end; `content_type`; the declaration in the first bytes of
/// the page; the encoding that its bytes look like.
///
/// Text that is valid UTF-8 and not plain ASCII is hardly ever anything else, and crawlers that recode pages do not
/// change the declaration. Therefore, validity takes precedence over declarations. If a declaration fits badly, the
/// look of the bytes may replace it.
///
/// # Errors
///
/// [`Reject::Undecodable`] for bytes that are not text.
pub(super) fn decode<'r>(bytes: &'r [u8], content_type: Option<&str>) -> Result<(Cow<'r, str>, Encoding), Rejection> {
    let utf8 = match coding::Encoding::for_bom(bytes) {
        Some((marked, length)) => {
            let after = bytes.get(length..).unwrap_or_default();
            let decoded =
                if marked == coding::UTF_8 { in_utf8(Utf8Fit::of(after), after) } else { decode_in(after, marked) };
            return decoded.ok_or_else(|| refused(bytes));
        }
        None => std::str::from_utf8(bytes),
    };
    if let Some(read) = unmarked_utf16(bytes).and_then(|coding| decode_in(bytes, coding)) {
        return Ok(read);
    }
    let of_type = || content_type.and_then(|value| of_content_type(value, of_label));
    let declared = || of_type().or_else(|| of_page(bytes, of_label));
    if let Ok(text) = utf8 {
        // Seven-bit encodings look like ASCII.
        let shifted = text.is_ascii() && text.contains('\x1b');
        let declared = declared().filter(|coding| shifted && *coding == coding::ISO_2022_JP);
        return Ok(declared
            .and_then(|coding| decode_in(bytes, coding))
            .unwrap_or((Cow::Borrowed(text), Encoding::Utf8)));
    }
    if bytes.contains(&0) {
        return Err(refused(bytes));
    }
    let fit = Utf8Fit::of(bytes);
    if fit.is_likely() || (fit.is_possible() && says_utf8(bytes, content_type)) {
        // Other encodings have characters for these bytes, too, but the wrong ones.
        return in_utf8(fit, bytes).ok_or_else(|| refused(bytes));
    }
    let decoded = |coding| decode_in(bytes, coding);
    let declared = declared().and_then(decoded);
    if let Some((text, encoding)) = declared {
        let malformed = malformed(&text);
        // Single-byte encodings fit everything.
        let looks =
            if malformed == 0 { None } else { Some(looks_like(bytes)).filter(|coding| !coding.is_single_byte()) };
        let looks = looks.and_then(decoded);
        return Ok(looks.filter(|(looks, _)| self::malformed(looks) < malformed).unwrap_or((text, encoding)));
    }
    decoded(looks_like(bytes)).ok_or_else(|| refused(bytes))
}

/// Counts the characters that could not be decoded.
fn malformed(text: &str) -> usize {
    text.matches(char::REPLACEMENT_CHARACTER).count()
}

fn in_utf8(fit: Utf8Fit, bytes: &[u8]) -> Option<(Cow<'_, str>, Encoding)> {
    Some((fit.accept(bytes)?, Encoding::Utf8))
}

fn refused(bytes: &[u8]) -> Rejection {
    let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let message = format!("the value is not UTF-8 from byte {valid} on, and no text in another encoding");
    Rejection::new(Reject::Undecodable, message)
}

/// Decodes bytes, unless too many characters are malformed in that encoding.
fn decode_in<'r>(bytes: &'r [u8], coding: &'static coding::Encoding) -> Option<(Cow<'r, str>, Encoding)> {
    let (text, _) = coding.decode_without_bom_handling(bytes);
    let malformed = malformed(&text);
    let fits = malformed == 0 || malformed.saturating_mul(MAX_MALFORMED) <= text.chars().count();
    fits.then(|| (text, Encoding::of(coding)))
}

/// Returns the byte order of UTF-16 without a byte order mark. In it, markup, digits and spaces have a zero byte for
/// each character, nearly all on the same side.
fn unmarked_utf16(bytes: &[u8]) -> Option<&'static coding::Encoding> {
    let head = bytes.get(..DECLARED_WITHIN).unwrap_or(bytes);
    if !head.contains(&0) {
        return None;
    }
    let zeros = |side: usize| head.iter().skip(side).step_by(2).filter(|byte| **byte == 0).count();
    let [first, second] = [zeros(0), zeros(1)];
    let is_side = |zeros: usize, others: usize| zeros >= (head.len() / 16).max(4) && others <= zeros / 8;
    if is_side(second, first) {
        Some(coding::UTF_16LE)
    } else if is_side(first, second) {
        Some(coding::UTF_16BE)
    } else {
        None
    }
}

fn looks_like(bytes: &[u8]) -> &'static coding::Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    // A page may have been cut within a character, so its end says nothing.
    detector.feed(bytes, false);
    detector.guess(None, Utf8Detection::Deny)
}

/// A function that reads the name of an encoding.
type ReadLabel = fn(&[u8]) -> Option<&'static coding::Encoding>;

/// Returns whether the first declaration of a page's encoding says UTF-8.
fn says_utf8(bytes: &[u8], content_type: Option<&str>) -> bool {
    let any: ReadLabel = coding::Encoding::for_label_no_replacement;
    let declared = content_type.and_then(|value| of_content_type(value, any)).or_else(|| of_page(bytes, any));
    declared == Some(coding::UTF_8)
}

/// Reads `text/html; charset=gb2312`.
fn of_content_type(value: &str, of_label: ReadLabel) -> Option<&'static coding::Encoding> {
    of_label(label_after(value.as_bytes(), b"charset")?)
}

/// Reads `<meta charset>`, `<meta http-equiv content>` or the XML declaration, whichever comes first.
fn of_page(bytes: &[u8], of_label: ReadLabel) -> Option<&'static coding::Encoding> {
    let mut rest = bytes.get(..DECLARED_WITHIN).unwrap_or(bytes);
    if let Some(declaration) = rest.strip_prefix(b"<?xml") {
        let end = declaration.iter().position(|byte| *byte == b'>').unwrap_or(0);
        let named = declaration.get(..end).and_then(|inner| label_after(inner, b"encoding")).and_then(of_label);
        if named.is_some() {
            return named;
        }
    }
    while let Some(tag) = find(rest, b"<meta") {
        rest = rest.get(tag + b"<meta".len()..)?;
        let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
        let inner = rest.get(..end).unwrap_or_default();
        let named = label_after(inner, b"charset").and_then(of_label);
        if named.is_some() {
            return named;
        }
    }
    None
}

/// Returns the encoding of a name. Ignores UTF-8 and UTF-16: such a name says nothing about bytes that are neither.
fn of_label(label: &[u8]) -> Option<&'static coding::Encoding> {
    let found = coding::Encoding::for_label_no_replacement(label)?;
    // A page whose declaration can be read as ASCII is not in UTF-16.
    (found != coding::UTF_8 && found != coding::UTF_16LE && found != coding::UTF_16BE).then_some(found)
}

/// Returns the value that follows a name and `=`, without quotes.
fn label_after<'b>(bytes: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
    let mut rest = bytes;
    loop {
        rest = rest.get(find(rest, name)? + name.len()..)?;
        let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") else { continue };
        let value = value.trim_ascii_start();
        let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
        let is_of_label = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.' | b'+');
        let length = value.iter().take_while(|byte| is_of_label(byte)).count();
        return value.get(..length).filter(|label| !label.is_empty());
    }
}

fn find(bytes: &[u8], name: &[u8]) -> Option<usize> {
    bytes.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name))
}

/// At most one character in this many may be malformed.
pub(super) const MAX_MALFORMED: usize = 50;

/// UTF-8 is likely with this many valid multi-byte characters for each broken place. In GBK, Big5 or EUC-KR, about one
/// character in ten is valid UTF-8 by chance; in single-byte encodings, hardly any.
const LIKELY_FROM: usize = 3;

/// What reading bytes as UTF-8 finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Utf8Fit {
    /// All characters, including malformed ones.
    characters: usize,
    /// Valid characters of more than one byte.
    wide: usize,
    /// Malformed sequences, except a last one that is only cut.
    malformed: usize,
    /// Runs of malformed sequences: one broken byte may turn a character into several of them.
    broken: usize,
    /// Bytes of the last character if it was cut: 0 to 3.
    cut: usize,
}

impl Utf8Fit {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut fit = Self::default();
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let (characters, wide) = counted(chunk.valid());
            fit.characters += characters;
            fit.wide += wide;
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && lacks_its_end(invalid) {
                fit.cut = invalid.len();
            } else if !invalid.is_empty() {
                fit.broken += usize::from(fit.malformed == 0 || characters > 0);
                fit.malformed += 1;
                fit.characters += 1;
            }
        }
        fit
    }

    /// Returns whether these bytes are almost certainly UTF-8, whatever is declared.
    pub(super) fn is_likely(self) -> bool {
        match self.broken {
            // After plain ASCII, the first byte of a cut character may just as well be a letter of Windows-1252.
            0 => self.wide > 0 || self.cut > 1,
            broken => self.wide >= broken.saturating_mul(LIKELY_FROM),
        }
    }

    /// Returns whether these bytes may be UTF-8 if that is declared.
    pub(super) fn is_possible(self) -> bool {
        self.wide >= self.broken && self.is_acceptable()
    }

    /// Decodes as UTF-8, unless too many characters are malformed. The cut end of a text does not count.
    pub(super) fn accept(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        self.is_acceptable().then(|| String::from_utf8_lossy(bytes))
    }

    fn is_acceptable(self) -> bool {
        self.malformed.saturating_mul(MAX_MALFORMED) <= self.characters
    }
}

/// Counts the characters of a text, and those of more than one byte.
fn counted(text: &str) -> (usize, usize) {
    let characters = text.chars().count();
    let ascii = text.bytes().filter(u8::is_ascii).count();
    (characters, characters - ascii)
}

/// Returns whether the bytes are the beginning of a character whose other bytes are missing.
fn lacks_its_end(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHINESE: &str = "据新华社报道，中国人民银行宣布下调存款准备金率，市场反应积极，股市大幅上涨。";
    const TRADITIONAL: &str = "據中央社報導，總統府今天表示，明年經濟成長率可望超過百分之三，失業率將持續下降。";
    const JAPANESE: &str = "日本銀行は金融政策決定会合で、大規模な金融緩和策を維持することを決めました。";
    const KOREAN: &str = "한국은행은 오늘 금융통화위원회를 열고 기준금리를 현 수준에서 유지하기로 결정했습니다.";
    const RUSSIAN: &str = "Центральный банк России объявил о снижении ключевой ставки на заседании совета директоров.";

    fn page(declaration: &str, text: &str) -> String {
        format!("<html><head>{declaration}<title>t</title></head><body><p>{}</p></body></html>", text.repeat(4))
    }

    fn read(bytes: &[u8], content_type: Option<&str>) -> (String, Encoding) {
        let (text, encoding) = decode(bytes, content_type).unwrap();
        (text.into_owned(), encoding)
    }

    #[test]
    fn pages_are_read_as_they_declare_or_look() {
        let cases = [
            (coding::GBK, "gb2312", CHINESE, Encoding::Gb18030),
            (coding::GB18030, "gb18030", CHINESE, Encoding::Gb18030),
            (coding::BIG5, "Big5", TRADITIONAL, Encoding::Big5),
            (coding::SHIFT_JIS, "x-sjis", JAPANESE, Encoding::ShiftJis),
            (coding::EUC_JP, "euc-jp", JAPANESE, Encoding::OtherJapanese),
            (coding::EUC_KR, "ks_c_5601-1987", KOREAN, Encoding::EucKr),
            (coding::WINDOWS_1251, "cp1251", RUSSIAN, Encoding::Windows),
        ];
        for (coding, label, text, expected) in cases {
            let declarations = [
                format!("<meta charset={label}>"),
                format!("<META http-equiv='Content-Type' content=\"text/html; charset={label}\">"),
                String::new(),
                "<meta charset=nonsense>".to_owned(),
                "<meta charset=utf-8>".to_owned(),
                "<meta name=charset content=x>".to_owned(),
            ];
            for declaration in declarations {
                let page = page(&declaration, text);
                let (bytes, _, lossy) = coding.encode(&page);
                assert!(!lossy);
                assert_eq!(read(&bytes, None), (page.clone(), expected), "{label} {declaration}");
                assert_eq!(read(&bytes, Some(&format!("text/html;Charset=\"{label}\""))), (page, expected));
            }
        }
    }

    #[test]
    fn xml_may_declare_its_encoding_and_a_mark_says_most() {
        let text = format!("<?xml version='1.0' encoding='gbk'?><p>{CHINESE}</p>");
        let (bytes, _, _) = coding::GBK.encode(&text);
        assert_eq!(read(&bytes, None), (text, Encoding::Gb18030));
        let wide: Vec<u8> = [0xfeff].into_iter().chain(CHINESE.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(read(&wide, Some("text/html; charset=gbk")), (CHINESE.to_owned(), Encoding::Utf16));
        let marked = format!("\u{feff}{CHINESE}");
        assert_eq!(read(marked.as_bytes(), Some("charset=gbk")), (CHINESE.to_owned(), Encoding::Utf8));
    }

    /// Crawlers recode pages and leave the declaration; and pages declare what they are not.
    #[test]
    fn what_the_bytes_are_goes_before_what_is_said_of_them() {
        let recoded = page("<meta charset=gb2312>", CHINESE);
        assert_eq!(read(recoded.as_bytes(), Some("text/html; charset=gbk")), (recoded.clone(), Encoding::Utf8));
        let wrong = page("<meta charset=big5>", CHINESE);
        let (bytes, _, _) = coding::GBK.encode(&wrong);
        assert_eq!(read(&bytes, None), (wrong, Encoding::Gb18030));
        let ascii = "<meta charset=iso-2022-jp>plain";
        assert_eq!(read(ascii.as_bytes(), None), (ascii.to_owned(), Encoding::Utf8));
        let (shifted, _, _) = coding::ISO_2022_JP.encode(ascii);
        assert_eq!(read(&shifted, None).1, Encoding::Utf8);
        let mut shifted = b"<meta charset=iso-2022-jp>".to_vec();
        shifted.extend(b"\x1b$B$\"\x1b(B");
        assert_eq!(read(&shifted, None), ("<meta charset=iso-2022-jp>あ".to_owned(), Encoding::OtherJapanese));
    }

    #[test]
    fn a_page_that_was_cut_within_a_character_is_still_read() {
        let page = page("<meta charset=gbk>", CHINESE);
        let (bytes, _, _) = coding::GBK.encode(&page);
        let cut = bytes.len() - "</p></body></html>".len() - 1;
        let (text, encoding) = read(&bytes[..cut], None);
        assert_eq!(encoding, Encoding::Gb18030);
        assert!(text.ends_with("大幅上涨\u{fffd}"), "{text}");
    }

    const ENGLISH: &str = "The bank\u{2019}s chairman said: \u{201c}We will keep rates where they are.\u{201d}";
    const MOSTLY_ASCII: &str = "The chairman of the bank said that rates would stay where they are\u{2026}";

    fn declarations_of_utf8() -> [String; 4] {
        ["<meta charset=utf-8>", "<?xml encoding='utf-8'?>", "", "<meta charset=gbk>"].map(str::to_owned)
    }

    #[test]
    fn a_utf8_page_that_was_cut_anywhere_is_utf8() {
        for text in [CHINESE, TRADITIONAL, JAPANESE, KOREAN, RUSSIAN, ENGLISH, MOSTLY_ASCII] {
            for declaration in declarations_of_utf8() {
                let page = format!("{declaration}<title>t</title><p>{text}");
                for end in page.len() - 12..=page.len() {
                    let one_byte = text == MOSTLY_ASCII && end + 2 == page.len();
                    if one_byte && !declaration.contains("utf-8") {
                        // May as well be a letter of Windows-1252: either way, one letter is in doubt and no more.
                        continue;
                    }
                    let bytes = &page.as_bytes()[..end];
                    let expected = String::from_utf8_lossy(bytes).into_owned();
                    for content_type in [None, Some("text/html; charset=utf-8")] {
                        assert_eq!(
                            read(bytes, content_type),
                            (expected.clone(), Encoding::Utf8),
                            "{end} {declaration}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_utf8_page_with_a_broken_byte_is_utf8() {
        for text in [CHINESE, TRADITIONAL, JAPANESE, KOREAN, RUSSIAN, ENGLISH] {
            for declaration in declarations_of_utf8() {
                let whole = page(&declaration, text);
                for at in whole.len() / 2..whole.len() - "</p></body></html>".len() {
                    for broken in [0xff, 0xc3, 0x80] {
                        let mut bytes = whole.clone().into_bytes();
                        bytes[at] = broken;
                        let expected = String::from_utf8_lossy(&bytes).into_owned();
                        assert_eq!(read(&bytes, None), (expected, Encoding::Utf8), "{at} {declaration}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_marked_page_that_was_cut_is_read_however_short_it_is() {
        let marked = "\u{feff}新闻";
        assert_eq!(read(&marked.as_bytes()[..marked.len() - 1], None), ("新\u{fffd}".to_owned(), Encoding::Utf8));
    }

    #[test]
    fn utf8_with_many_broken_bytes_is_refused_and_not_read_as_something_else() {
        let bytes: Vec<u8> =
            CHINESE.bytes().enumerate().map(|(at, byte)| if at % 30 == 7 { 0xff } else { byte }).collect();
        assert_eq!(decode(&bytes, None).unwrap_err().reason(), Reject::Undecodable);
    }

    #[test]
    fn a_letter_of_windows_1252_is_no_cut_character() {
        for text in ["caf\u{e9}", "<p>Caf\u{e9} au lait</p><p>d\u{e9}j\u{e0} vu \u{e0} la carte ici</p>"] {
            let (bytes, _, _) = coding::WINDOWS_1252.encode(text);
            assert_eq!(read(&bytes, None), (text.to_owned(), Encoding::Windows));
            assert_eq!(read(&bytes, Some("text/plain; charset=iso-8859-1")), (text.to_owned(), Encoding::Windows));
        }
    }

    #[test]
    fn utf16_is_read_without_a_mark() {
        for text in [CHINESE, JAPANESE, KOREAN, RUSSIAN, ENGLISH, MOSTLY_ASCII] {
            for html in [page("<meta charset=utf-16>", text), page("", text)] {
                let little: Vec<u8> = html.encode_utf16().flat_map(u16::to_le_bytes).collect();
                let big: Vec<u8> = html.encode_utf16().flat_map(u16::to_be_bytes).collect();
                for bytes in [little, big] {
                    assert_eq!(read(&bytes, None), (html.clone(), Encoding::Utf16));
                    assert_eq!(read(&bytes, Some("text/html; charset=utf-8")), (html.clone(), Encoding::Utf16));
                }
            }
        }
        // Single zero bytes in UTF-8 are no UTF-16.
        for text in ["a\0b\0c\0d\0 and then a text that goes on as it should, for a while", "\0\0\0\0\0\0\0\0"] {
            assert_eq!(read(text.as_bytes(), None), (text.to_owned(), Encoding::Utf8));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let picture: Vec<u8> = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".repeat(9);
        for bytes in [&picture[..], b"%PDF-1.4\n\xff\xfe\0\x01"] {
            assert_eq!(decode(bytes, None).unwrap_err().reason(), Reject::Undecodable);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), said in "[a-z0-9;= \"-]{0,20}") {
            if let Err(rejection) = decode(&bytes, Some(&said)) {
                prop_assert_eq!(rejection.reason(), Reject::Undecodable);
            }
        }
    }

    #[test]
    fn characters_are_counted_by_what_a_reader_meets() {
        let fit = |bytes: &[u8]| {
            let Utf8Fit { characters, wide, malformed, cut, .. } = Utf8Fit::of(bytes);
            (characters, wide, malformed, cut)
        };
        assert_eq!(fit(b""), (0, 0, 0, 0));
        assert_eq!(fit("a新b".as_bytes()), (3, 1, 0, 0));
        assert_eq!(fit(b"a\xffb"), (3, 0, 1, 0));
        assert_eq!(fit(b"\xe6\x96\xb0\xe9\x97"), (1, 1, 0, 2));
        // What is not the beginning of a character lacks nothing.
        assert_eq!(fit(b"ab\xff"), (3, 0, 1, 0));
        assert_eq!(Utf8Fit::of(b"a\xff\xffb\xff").broken, 2);
        // A character cut in the middle of a text is malformed.
        assert_eq!(fit(b"\xe9\x97a"), (2, 0, 1, 0));
    }

    #[test]
    fn a_cut_end_is_likely_where_it_cannot_be_a_letter_of_one_byte() {
        assert!(!Utf8Fit::of(b"caf\xe9").is_likely());
        assert!(Utf8Fit::of(b"caf\xe9").is_possible());
        assert!(Utf8Fit::of(b"it\xe2\x80").is_likely());
        assert!(Utf8Fit::of("caf\u{e9} \u{201c}".as_bytes().split_last().unwrap().1).is_likely());
    }

    #[test]
    fn too_many_malformed_characters_are_refused() {
        let mut bytes = "新".repeat(60).into_bytes();
        bytes.push(0xff);
        assert_eq!(Utf8Fit::of(&bytes).accept(&bytes).unwrap().chars().last(), Some('\u{fffd}'));
        bytes.push(0xff);
        assert_eq!(Utf8Fit::of(&bytes).accept(&bytes), None);
    }
}
