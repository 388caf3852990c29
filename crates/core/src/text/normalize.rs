//! What counts as the same text: forms of characters, traditional and simplified Chinese, web addresses.

use std::collections::HashMap;
use std::sync::LazyLock;

use ferrous_opencc::OpenCC;
use ferrous_opencc::config::BuiltinConfig;
use unicode_normalization::UnicodeNormalization;
use xxhash_rust::xxh3::xxh3_64;

use super::settings::{Digits, Han, Normalize, UnicodeForm, Urls};

/// Brings text to the form that is compared, in one pass. Every run of whitespace becomes a single space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Normalizer {
    settings: Normalize,
    simplifier: Option<&'static Simplifier>,
}

/// The library's dictionaries cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoSimplifier;

impl Normalizer {
    pub(super) fn new(settings: Normalize) -> Result<Self, NoSimplifier> {
        let simplifier = match settings.han {
            Han::Simplified => Some(Simplifier::shared().ok_or(NoSimplifier)?),
            Han::Keep => None,
        };
        Ok(Self { settings, simplifier })
    }

    /// A text with fewer bytes than this besides its web addresses is a caption; its content is the addresses.
    const CAPTION: usize = 64;

    /// Replaces `out` by the normalised text. It neither begins nor ends with a space.
    ///
    /// Web addresses are removed, unless they hold more bytes than the rest or the rest is a mere caption: lists of
    /// links differ in nothing else.
    pub(super) fn run(&self, text: &str, out: &mut String) -> TextUrls {
        if self.settings.urls == Urls::Keep {
            self.pass(text, out, None);
            return TextUrls::default();
        }
        let mut urls = String::new();
        self.pass(text, out, Some(&mut urls));
        if urls.is_empty() {
            return TextUrls::default();
        }
        let kept = urls.len() > out.len() || out.len() < Self::CAPTION;
        if kept {
            self.pass(text, out, None);
        }
        TextUrls { hash: xxh3_64(urls.as_bytes()), kept }
    }

    /// Normalises a text. Its web addresses go to `urls`, one on each line; without `urls`, they stay in the text.
    fn pass(&self, text: &str, out: &mut String, mut urls: Option<&mut String>) {
        out.clear();
        out.reserve(text.len());
        let mut sink = Sink { normalizer: self, out, pending_space: false, masking: false };
        let nfkc = self.settings.unicode == UnicodeForm::Nfkc;
        let is_masked = self.settings.digits == Digits::Mask;
        let (mut at, mut before) = (0, Before::Nothing);
        while let Some(rest) = text.get(at..) {
            let Some(c) = rest.chars().next() else { break };
            let mut read = c.len_utf8();
            let plain = if c.is_ascii() { Some(c) } else { stable(c) };
            if c.is_ascii() {
                if matches!(c, 'h' | 'H' | 'w' | 'W')
                    && before != Before::Alphanumeric
                    && let Some(urls) = urls.as_deref_mut()
                    && let Some(length) = url_length(rest)
                {
                    urls.extend([rest.get(..length).unwrap_or_default(), "\n"]);
                    sink.space();
                    at += length;
                    before = Before::Nothing;
                    continue;
                }
                let stretch = if is_masked { "" } else { plain_ascii(rest) };
                before = Before::of(stretch.chars().next_back().unwrap_or(c));
                if !stretch.is_empty() {
                    sink.plain_ascii(stretch);
                    at += stretch.len();
                    continue;
                }
            } else {
                before = Before::Nothing;
                let stretch = sink.ideographs(rest);
                if stretch > 0 {
                    at += stretch;
                    continue;
                }
                if let Some((phrase, simplified)) = self.simplifier.and_then(|table| table.phrase(c, rest)) {
                    at += phrase.len();
                    sink.text(simplified);
                    continue;
                }
            }
            // The next character may be a mark that composes with `c`; then both belong to one piece.
            let next = rest.get(read..).and_then(|rest| rest.chars().next());
            let alone = next.is_none_or(stands_alone);
            match plain {
                _ if !nfkc => sink.char(c),
                Some(plain) if alone => sink.char(plain),
                Some(_) | None => {
                    let tail = rest.get(read..).unwrap_or_default();
                    let tail = tail.find(stands_alone).unwrap_or(tail.len());
                    read += tail;
                    let piece = rest.get(..read).unwrap_or_default();
                    piece.nfkc().for_each(|c| sink.composed(unquote(c)));
                }
            }
            at += read;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Alphanumeric,
}

impl Before {
    const fn of(c: char) -> Self {
        if c.is_ascii_alphanumeric() { Self::Alphanumeric } else { Self::Nothing }
    }
}

/// Returns the stretch that a text begins with and that is normalised by lower case alone: printable ASCII, without a
/// space at either end or two in a row. It ends where a web address may begin, and before a character that may compose
/// with the one after it.
fn plain_ascii(text: &str) -> &str {
    let mut classes = text.bytes().map(|byte| CLASSES.get(usize::from(byte)).copied().unwrap_or_default());
    // No address begins with the first character, which was looked at, and a space there is between no two characters.
    let (mut before, mut class) = (ALPHANUMERIC, classes.next().unwrap_or_default() & !SPACE);
    let mut length = 0;
    for after in classes.chain([0]) {
        let is_text = class & GRAPHIC != 0 || class & SPACE != 0 && after & GRAPHIC != 0;
        let is_address = before & ALPHANUMERIC == 0 && class & ADDRESS_FIRST != 0 && after & ADDRESS_SECOND != 0;
        if !is_text || is_address || after & BEYOND_ASCII != 0 {
            break;
        }
        (before, class) = (class, after);
        length += 1;
    }
    text.get(..length).unwrap_or_default().trim_end_matches(' ')
}

/// What [`plain_ascii`] has to know of each byte.
#[expect(clippy::indexing_slicing, reason = "there is a place for each byte")]
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    loop {
        let mut class = 0;
        if byte.is_ascii_graphic() {
            class |= GRAPHIC;
        }
        if byte == b' ' {
            class |= SPACE;
        }
        if byte.is_ascii_alphanumeric() {
            class |= ALPHANUMERIC;
        }
        // `http`, `www`.
        if matches!(byte, b'h' | b'H' | b'w' | b'W') {
            class |= ADDRESS_FIRST;
        }
        if matches!(byte, b't' | b'T' | b'w' | b'W') {
            class |= ADDRESS_SECOND;
        }
        if !byte.is_ascii() {
            class |= BEYOND_ASCII;
        }
        classes[byte as usize] = class;
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

const GRAPHIC: u8 = 1;
const SPACE: u8 = 1 << 1;
const ALPHANUMERIC: u8 = 1 << 2;
const ADDRESS_FIRST: u8 = 1 << 3;
const ADDRESS_SECOND: u8 = 1 << 4;
const BEYOND_ASCII: u8 = 1 << 5;

/// Returns the NFKC form of a character that is known not to combine with what precedes it, without a look-up in the
/// Unicode tables. Most characters of Chinese pages are of this kind.
fn stable(c: char) -> Option<char> {
    match c {
        '\u{3000}' => Some(' '),
        // Full-width ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{2019}' | '\u{2018}' => Some(unquote(c)),
        // Ideographs; ideographic punctuation, dashes, quotation marks.
        '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{3001}'..='\u{3029}'
        | '\u{2010}'
        | '\u{2012}'..='\u{2016}'
        | '\u{201a}'..='\u{2023}' => Some(c),
        _ => None,
    }
}

/// Returns whether a character is known not to combine with what precedes it.
fn stands_alone(c: char) -> bool {
    c.is_ascii() || stable(c).is_some()
}

/// Replaces a typographic apostrophe, or a letter that looks like one (Uzbek, Hawaiian, Ukrainian), by a plain one.
fn unquote(c: char) -> char {
    if matches!(c, '\u{2018}' | '\u{2019}' | '\u{2bb}' | '\u{2bc}') { '\'' } else { c }
}

/// Returns the letter for one that looks the same and comes from another keyboard or an older encoding.
pub(super) fn look_alike(c: char) -> char {
    match c {
        // Romanian: with a comma, and with the cedilla that stood in for it.
        'ș' => 'ş',
        'Ș' => 'Ş',
        'ț' => 'ţ',
        'Ț' => 'Ţ',
        // Azerbaijani: the turned e of another alphabet.
        'ǝ' => 'ə',
        'Ǝ' => 'Ə',
        c => arabic_letter(c),
    }
}

/// The sign that takes the vowel off a consonant of Malayalam.
const VIRAMA: char = '\u{d4d}';

/// Returns the consonant of a letter of Malayalam that is a consonant without a vowel: older texts write it with
/// [`VIRAMA`] and a joiner.
fn chillu_consonant(c: char) -> Option<char> {
    Some(match c {
        'ൺ' => 'ണ',
        'ൻ' => 'ന',
        'ർ' => 'ര',
        'ൽ' => 'ല',
        'ൾ' => 'ള',
        'ൿ' => 'ക',
        _ => return None,
    })
}

/// The zeros of the scripts that have decimal digits (general category `Nd`), ascending; the digits one to nine follow
/// each. Digits that NFKC turns into ASCII digits are left out.
const ZEROS: [u32; 69] = [
    0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6, 0x0e50,
    0x0ed0, 0x0f20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136,
    0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0,
    0x11c50, 0x11d50, 0x11da0, 0x11de0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1e140, 0x1e2f0,
    0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0,
];

/// Returns the ASCII digit of the same value as a decimal digit of any script; other characters as they are.
pub(super) fn ascii_digit(c: char) -> char {
    let code = u32::from(c);
    let zeros = ZEROS.partition_point(|zero| *zero <= code);
    let value = zeros.checked_sub(1).and_then(|at| ZEROS.get(at)).map(|zero| code - zero);
    value.filter(|value| *value < 10).and_then(|value| char::from_digit(value, 10)).unwrap_or(c)
}

/// Returns whether a writer may leave a character out: the vowel and cantillation marks of Arabic and Hebrew, and the
/// Arabic stroke that makes a word longer. Marks that make another letter were composed with their letter before.
pub(super) fn is_optional(c: char) -> bool {
    matches!(c,
        // Tatweel, marks of vowels, superscript alef.
        '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}'
        // Signs of the Quran.
        | '\u{610}'..='\u{61a}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}' | '\u{6e7}' | '\u{6e8}'
        | '\u{6ea}'..='\u{6ed}' | '\u{8d3}'..='\u{8e1}' | '\u{8e3}'..='\u{8ff}'
        // Hebrew points and accents; the punctuation between them stays.
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}')
}

/// Returns the letter for one that looks the same and comes from another keyboard, or that many writers put in its place:
/// the pairs of Lucene's normalisers of Arabic, Persian and Sorani. The yeh with a hamza, the barree yeh of Urdu and the
/// letters that only one language has stay.
fn arabic_letter(c: char) -> char {
    match c {
        // Alef with madda, with hamza, with wasla.
        'آ' | 'أ' | 'إ' | 'ٱ' => 'ا',
        // Yeh of Arabic and of Persian, alef maksura.
        'ى' | 'ی' => 'ي',
        'ک' | 'ڪ' => 'ك',
        // Teh marbuta; the heh of Urdu, with two eyes, with yeh; the vowel ae of Sorani.
        'ة' | 'ۃ' | 'ہ' | 'ھ' | 'ۀ' | 'ۂ' | 'ە' => 'ه',
        c => c,
    }
}

/// Returns whether a character is a zero-width joiner or non-joiner, which is not seen after an Arabic letter: it only
/// changes the form of its neighbours.
pub(super) const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

pub(super) const fn is_arabic(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{64a}' | '\u{66e}'..='\u{6d5}' | '\u{6ee}' | '\u{6ef}' | '\u{6fa}'..='\u{6ff}' | '\u{750}'..='\u{77f}')
}

/// Returns whether a character is a Hangul filler: a letter that is shown as a space.
pub(super) fn is_filler(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

struct Sink<'n, 'o> {
    normalizer: &'n Normalizer,
    out: &'o mut String,
    /// Whether whitespace was read but not yet written.
    pending_space: bool,
    /// Whether the last character written represents a run of digits.
    masking: bool,
}

impl Sink<'_, '_> {
    fn space(&mut self) {
        self.pending_space = true;
    }

    fn text(&mut self, text: &str) {
        text.chars().for_each(|c| self.char(c));
    }

    /// Writes a character of composed text.
    fn composed(&mut self, c: char) {
        let is_invisible_after = |before: char| is_arabic(before) || before == VIRAMA;
        let is_invisible = || !self.pending_space && self.out.chars().next_back().is_some_and(is_invisible_after);
        if is_optional(c) || is_joiner(c) && is_invisible() {
            return;
        }
        match chillu_consonant(c) {
            Some(consonant) => [consonant, VIRAMA].into_iter().for_each(|c| self.char(c)),
            None => self.char(ascii_digit(look_alike(c))),
        }
    }

    fn char(&mut self, c: char) {
        if c.is_ascii() {
            if c.is_ascii_graphic() {
                let c = if self.normalizer.settings.lowercase { c.to_ascii_lowercase() } else { c };
                self.write(c);
            } else if c.is_ascii_whitespace() || c == '\u{b}' {
                self.pending_space = true;
            }
            // Other control characters are not text.
            return;
        }
        if ('\u{3400}'..='\u{9fff}').contains(&c) {
            let simplified = self.normalizer.simplifier.map_or(c, |table| table.char(c));
            self.write(simplified);
        } else if c.is_whitespace() || is_filler(c) {
            self.pending_space = true;
        } else if c.is_control() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{ad}') {
            // Zero-width spaces and soft hyphens are invisible.
        } else if self.normalizer.settings.lowercase && c.is_uppercase() {
            c.to_lowercase().for_each(|c| self.write(c));
        } else {
            let simplified = self.normalizer.simplifier.map_or(c, |table| table.char(c));
            self.write(simplified);
        }
    }

    /// Writes what [`plain_ascii`] has found.
    fn plain_ascii(&mut self, stretch: &str) {
        self.end_space();
        let start = self.out.len();
        self.out.push_str(stretch);
        if let Some(written) = self.out.get_mut(start..).filter(|_| self.normalizer.settings.lowercase) {
            written.make_ascii_lowercase();
        }
    }

    /// Writes the ideographs that a text begins with, up to one that may begin a phrase or compose with the character
    /// after it. Returns their length in the text. Those that stay as they are, are copied together.
    fn ideographs(&mut self, text: &str) -> usize {
        let (mut copied, mut end) = (0, text.len());
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let simplified = match self.normalizer.simplifier {
                _ if !DENSE.contains(&u32::from(c)) => None,
                Some(table) => table.alone(c),
                None => Some(c),
            };
            let Some(simplified) = simplified.filter(|_| chars.peek().is_none_or(|(_, next)| stands_alone(*next)))
            else {
                end = at;
                break;
            };
            if simplified != c {
                self.copy(text.get(copied..at).unwrap_or_default());
                self.write(simplified);
                copied = at + c.len_utf8();
            }
        }
        self.copy(text.get(copied..end).unwrap_or_default());
        end
    }

    /// Writes text that has neither spaces nor digits.
    fn copy(&mut self, text: &str) {
        if !text.is_empty() {
            self.end_space();
            self.masking = false;
            self.out.push_str(text);
        }
    }

    fn write(&mut self, c: char) {
        let digit = self.normalizer.settings.digits == Digits::Mask && c.is_ascii_digit();
        if digit && self.masking && !self.pending_space {
            return;
        }
        self.end_space();
        self.masking = digit;
        self.out.push(if digit { '0' } else { c });
    }

    fn end_space(&mut self) {
        if std::mem::take(&mut self.pending_space) && !self.out.is_empty() {
            self.out.push(' ');
        }
    }
}

/// Counts the characters that are not whitespace.
pub(super) fn non_whitespace_chars(text: &str) -> usize {
    if text.is_ascii() {
        // Without a branch, so that many bytes are counted at once.
        return text.bytes().filter(|byte| !matches!(byte, b'\t'..=b'\r' | b' ')).count();
    }
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Returns whether a text shows nothing: whitespace, byte order marks and zero-width spaces.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}'))
}

/// Cuts a text where characters of a kind begin or end, and returns each stretch with whether it is of that kind. Together
/// the stretches are the text.
pub(super) fn stretches(text: &str, is_of_kind: impl Fn(char) -> bool) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let kind = is_of_kind(rest.chars().next()?);
        let length = rest.find(|c| is_of_kind(c) != kind).unwrap_or(rest.len());
        let (stretch, after) = rest.split_at(length);
        rest = after;
        Some((kind, stretch))
    })
}

/// The characters that have an entry in the dense part of the table: extension A and the unified ideographs.
const DENSE: std::ops::RangeInclusive<u32> = 0x3400..=0x9fff;
/// The ideographs beyond the basic plane; few of them are converted.
const SPARSE: std::ops::RangeInclusive<u32> = 0x2_0000..=0x3_23af;

/// The library's conversion as tables: many times faster than the library, with the same results.
#[derive(Debug)]
pub(super) struct Simplifier {
    /// `None` for a character that begins a phrase.
    dense: Vec<Option<char>>,
    /// Characters that are not in the dense part, or that begin a phrase.
    sparse: HashMap<char, char>,
    /// Phrases by their first character, the longest first.
    phrases: HashMap<char, Vec<(&'static str, String)>>,
}

/// The tables, built once for the whole process.
static SIMPLIFIER: LazyLock<Option<Simplifier>> = LazyLock::new(Simplifier::build);

impl Simplifier {
    /// Returns the tables; `None` when the library's own dictionaries cannot be read.
    pub(super) fn shared() -> Option<&'static Self> {
        SIMPLIFIER.as_ref()
    }

    fn build() -> Option<Self> {
        let library = OpenCC::from_config(BuiltinConfig::T2s).ok()?;
        let mut buffer = [0; 4];
        let mut convert = |c: char| {
            let converted = library.convert(c.encode_utf8(&mut buffer));
            let mut chars = converted.chars();
            chars.next().filter(|_| chars.next().is_none()).unwrap_or(c)
        };
        let mut dense: Vec<Option<char>> = DENSE.filter_map(char::from_u32).map(|c| Some(convert(c))).collect();
        let converted = SPARSE.filter_map(char::from_u32).map(|c| (c, convert(c)));
        let mut sparse: HashMap<char, char> = converted.filter(|(c, to)| c != to).collect();
        let mut phrases: HashMap<char, Vec<(&'static str, String)>> = HashMap::new();
        let keys = include_str!("t2s_phrases.txt").lines().filter(|line| !line.starts_with('#'));
        for phrase in keys.flat_map(str::split_whitespace) {
            let first = phrase.chars().next()?;
            phrases.entry(first).or_default().push((phrase, library.convert(phrase)));
            sparse.extend(dense.get_mut(dense_place(first)?)?.take().map(|simplified| (first, simplified)));
        }
        #[expect(clippy::iter_over_hash_type, reason = "each list is sorted by itself")]
        for list in phrases.values_mut() {
            list.sort_by_key(|(phrase, _)| std::cmp::Reverse(phrase.len()));
        }
        Some(Self { dense, sparse, phrases })
    }

    /// Converts a character of the dense part that begins no phrase.
    fn alone(&self, c: char) -> Option<char> {
        dense_place(c).and_then(|place| *self.dense.get(place)?)
    }

    /// Converts one character.
    pub(super) fn char(&self, c: char) -> char {
        match self.alone(c) {
            Some(simplified) => simplified,
            None if is_han(c) => self.sparse.get(&c).copied().unwrap_or(c),
            None => c,
        }
    }

    /// Finds the longest phrase that `text` begins with, and its simplified form. `first` is its first character.
    pub(super) fn phrase(&self, first: char, text: &str) -> Option<(&'static str, &str)> {
        let begins = self.dense.get(dense_place(first)?)?.is_none();
        let list = if begins { self.phrases.get(&first)? } else { return None };
        list.iter().find(|(phrase, _)| text.starts_with(phrase)).map(|(phrase, to)| (*phrase, to.as_str()))
    }
}

fn dense_place(c: char) -> Option<usize> {
    let code = u32::from(c);
    if DENSE.contains(&code) { usize::try_from(code - DENSE.start()).ok() } else { None }
}

/// Returns the simplified form of a character, or the character itself if it has none or the tables cannot be read.
#[must_use]
pub fn simplified(c: char) -> char {
    Simplifier::shared().map_or(c, |tables| tables.char(c))
}

/// Returns whether the character is an ideograph: jieba cuts runs of them, and shingles of them are shorter.
#[must_use]
#[inline]
pub fn is_han(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_23af)
}

/// The web addresses of a text, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextUrls {
    /// Hash of all of them in order; 0 if there are none, or if `text.normalize.urls` keeps them.
    pub hash: u64,
    /// Whether they are left in the text because it consists of little else.
    pub kept: bool,
}

/// Returns the length of the web address that the text begins with.
pub(super) fn url_length(text: &str) -> Option<usize> {
    let head = text.as_bytes();
    let scheme = ["https://", "http://", "www."]
        .into_iter()
        .find(|scheme| head.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme.as_bytes())))?;
    let ends = |c: char| !c.is_ascii_graphic() || matches!(c, '<' | '>' | '"' | '\'' | '`' | '{' | '}' | '|' | '\\');
    let length = text.find(ends).unwrap_or(text.len());
    // Punctuation at the end belongs to the sentence.
    let address = text.get(..length)?.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '*']);
    (address.len() > scheme.len()).then_some(address.len())
}

/// Returns the web addresses of a text, in order.
pub(crate) fn urls(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            let begin = rest.find(['h', 'H', 'w', 'W'])?;
            let (before, rest) = (text.get(..at + begin)?, rest.get(begin..)?);
            // Checked first, so that no address is measured where none can begin.
            let inside_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
            let length = if inside_word { None } else { url_length(rest) };
            at += begin + length.unwrap_or(1);
            if let Some(length) = length {
                return rest.get(..length);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn simplify(text: &str) -> String {
        let table = Simplifier::shared().unwrap();
        let (mut out, mut rest) = (String::new(), text);
        while let Some(c) = rest.chars().next() {
            let (read, to) = match table.phrase(c, rest) {
                Some((phrase, to)) => (phrase.len(), to.to_owned()),
                None => (c.len_utf8(), table.char(c).to_string()),
            };
            out.push_str(&to);
            rest = &rest[read..];
        }
        out
    }

    fn library(text: &str) -> String {
        static LIBRARY: LazyLock<OpenCC> = LazyLock::new(|| OpenCC::from_config(BuiltinConfig::T2s).unwrap());
        LIBRARY.convert(text)
    }

    #[test]
    fn every_single_character_converts_as_in_the_library() {
        for c in DENSE.chain(SPARSE).filter_map(char::from_u32) {
            assert_eq!(simplify(&c.to_string()), library(&c.to_string()));
        }
    }

    #[test]
    fn phrases_convert_as_a_whole() {
        assert_eq!(simplify("據瞭解，乾隆年間的計畫乾燥"), "据了解，乾隆年间的计划干燥");
        let keys = include_str!("t2s_phrases.txt").lines().filter(|line| !line.starts_with('#'));
        for phrase in keys.flat_map(str::split_whitespace) {
            assert_eq!(simplify(phrase), library(phrase));
        }
    }

    proptest! {
        #[test]
        fn any_mix_of_phrases_and_characters_converts_as_in_the_library(
            parts in prop::collection::vec((0_usize..277, 0_usize..14, 0x4e00_u32..0x9fa6), 0..12)
        ) {
            let keys = include_str!("t2s_phrases.txt").lines().filter(|line| !line.starts_with('#'));
            let keys: Vec<&str> = keys.flat_map(str::split_whitespace).collect();
            let mut text = String::new();
            for (key, chars, single) in parts {
                text.extend(keys[key].chars().take(chars));
                text.extend(char::from_u32(single).filter(|_| chars % 3 == 0));
            }
            prop_assert_eq!(simplify(&text), library(&text));
        }
    }

    #[test]
    fn addresses_are_found_where_they_begin_a_word() {
        let text =
            "see https://a.b/c?d=e#f, then (WWW.X.Y) 见http://t.cn/a今天 xhttp://no http:// www. https://a.b/w/www.c";
        let found: Vec<&str> = urls(text).collect();
        assert_eq!(found, ["https://a.b/c?d=e#f", "WWW.X.Y", "http://t.cn/a", "https://a.b/w/www.c"]);
        assert_eq!(urls("").next(), None);
        assert_eq!(urls(&"xhttps://a".repeat(100_000)).next(), None, "in linear time");
    }

    proptest! {
        #[test]
        fn stretches_are_normalised_as_character_by_character(
            text in "([a-dHh,. ]{0,9}|[ht/.w:]{0,12}|https?://[ab./]{0,3}|  |\t|[\u{301}é乾天國干著' ]{0,4}){0,60}",
        ) {
            let normal = |digits| {
                let mut out = String::new();
                let urls = Normalizer::new(Normalize { digits, ..Normalize::default() }).unwrap().run(&text, &mut out);
                (out, urls)
            };
            // Where digits are masked, there are no stretches of ASCII; this text has none.
            prop_assert_eq!(normal(Digits::Keep), normal(Digits::Mask));
        }
    }
}
