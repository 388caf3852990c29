//! How well bytes that are not quite valid fit UTF-8: pages cut within a character, pages with a broken byte.

use std::borrow::Cow;

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
    use super::*;

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
