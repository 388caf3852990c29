//! How text is read.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Versions of the code that makes fingerprints of pages: the one in use by default, and those before that this program
/// still has, so that a service can go from one to the other without an empty index (`previous`).
///
/// There is a new one when the same pages get other fingerprints under the same settings, and only then.
/// `tests/consistency/scheme.rs` decides with a corpus of pages, whatever versions our dependencies have.
///
/// | version | what is new |
/// |---|---|
/// | 2 | the blanks that lines of an HTML page begin with are dropped before its text is measured (`text.max_bytes`) |
pub const VERSIONS: RangeInclusive<u32> = 1..=2;

/// How a document becomes weighted words (config key `text`).
///
/// Dictionaries and word lists are given as their *contents*: this module reads no files.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// One of [`VERSIONS`].
    pub version: u32,
    /// What is taken from an HTML page.
    pub html: HtmlText,
    /// What counts as the same text.
    pub normalize: Normalize,
    /// How text is cut into words.
    pub segmenter: Segmenter,
    /// How Chinese text is cut.
    pub jieba: JiebaSettings,
    /// Words that are not features.
    pub stopwords: Vec<StopWords>,
    /// Pages with fewer distinct features than this get no `SimHash`. At least 1.
    pub min_features: usize,
    /// Text past this many bytes is not read.
    pub max_bytes: usize,
    /// JSON nested more than this many levels deep is refused; such HTML is read without a tree.
    pub max_nesting: usize,
}

/// What is taken from an HTML page (`text.html`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HtmlText {
    /// The article without navigation, or all visible text if no article is found.
    #[default]
    MainText,
    /// All visible text.
    AllText,
}

/// What counts as the same text (`text.normalize`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Normalize {
    /// The Unicode form.
    pub unicode: UnicodeForm,
    /// Whether case is folded to lower case.
    pub lowercase: bool,
    /// Whether traditional Chinese characters become simplified ones.
    pub han: Han,
    /// Whether digits count.
    pub digits: Digits,
    /// Whether web addresses count.
    pub urls: Urls,
}

/// The Unicode normalisation form (`text.normalize.unicode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnicodeForm {
    /// Compatibility composition: full-width and half-width forms become equal. Decimal digits of all scripts become
    /// ASCII digits; vowel marks of Arabic and Hebrew are left out.
    #[default]
    Nfkc,
    /// Text stays as it came.
    None,
}

/// What happens to traditional Chinese characters (`text.normalize.han`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Han {
    /// They become simplified ones.
    #[default]
    Simplified,
    /// They stay.
    Keep,
}

/// What happens to digits (`text.normalize.digits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Digits {
    /// They stay.
    #[default]
    Keep,
    /// Every run of the digits 0 to 9 (of any script and width, under NFKC) becomes one `0`.
    Mask,
}

/// What happens to web addresses (`text.normalize.urls`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Urls {
    /// They are removed, unless the text consists of little else. The exact hash still covers them.
    #[default]
    Drop,
    /// They stay.
    Keep,
}

/// How text is cut into words (`text.segmenter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Segmenter {
    /// jieba for runs of Han characters, Unicode word breaks elsewhere. Scripts that write no spaces between words and
    /// have no word breaks (Thai, Lao, Burmese, Khmer) are cut into overlapping runs of characters.
    #[default]
    Auto,
    /// jieba for everything.
    Jieba,
    /// Unicode word breaks for everything: every Han character is a word. Thai and similar scripts are cut as with
    /// `auto`.
    Unicode,
}

/// How Chinese text is cut (`text.jieba`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JiebaSettings {
    /// Contents of a dictionary of further words, one `word [frequency [tag]]` on each line; lines that
    /// begin with `#` are skipped.
    pub user_dict: Option<String>,
    /// Whether a hidden Markov model finds words that no dictionary has.
    pub hmm: bool,
}

/// A list of words that are not features (`text.stopwords`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopWords {
    /// The built-in Chinese list.
    Zh,
    /// The built-in English list.
    En,
    /// Contents of a list, one word on each line; empty lines and lines that begin with `#` are skipped.
    List(String),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: *VERSIONS.end(),
            html: HtmlText::default(),
            normalize: Normalize::default(),
            segmenter: Segmenter::default(),
            jieba: JiebaSettings::default(),
            stopwords: vec![StopWords::Zh, StopWords::En],
            min_features: 20,
            max_bytes: 256 << 10,
            max_nesting: 512,
        }
    }
}

impl Default for Normalize {
    fn default() -> Self {
        Self {
            unicode: UnicodeForm::default(),
            lowercase: true,
            han: Han::default(),
            digits: Digits::default(),
            urls: Urls::default(),
        }
    }
}

impl Default for JiebaSettings {
    fn default() -> Self {
        Self { user_dict: None, hmm: true }
    }
}

impl Settings {
    /// Returns whether the code is that of this version or of a later one.
    pub(super) const fn is_since(&self, version: u32) -> bool {
        self.version >= version
    }

    /// Writes everything that determines a feature as lines of text, with one form for each meaning.
    ///
    /// The scheme is a hash of these lines, so their form cannot change without a new scheme.
    pub(crate) fn write_canonical(&self, out: &mut String) {
        let normalize = &self.normalize;
        let choice =
            |is_default: bool, default: &'static str, other: &'static str| if is_default { default } else { other };
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "text.html={}", choice(self.html == HtmlText::MainText, "main_text", "all_text"));
        let _ = writeln!(out, "text.unicode={}", choice(normalize.unicode == UnicodeForm::Nfkc, "nfkc", "none"));
        let _ = writeln!(out, "text.lowercase={}", normalize.lowercase);
        let _ = writeln!(out, "text.han={}", choice(normalize.han == Han::Simplified, "simplified", "keep"));
        let _ = writeln!(out, "text.digits={}", choice(normalize.digits == Digits::Keep, "keep", "mask"));
        let _ = writeln!(out, "text.urls={}", choice(normalize.urls == Urls::Drop, "drop", "keep"));
        let segmenter = match self.segmenter {
            Segmenter::Auto => "auto",
            Segmenter::Jieba => "jieba",
            Segmenter::Unicode => "unicode",
        };
        let _ = writeln!(out, "text.segmenter={segmenter}");
        if self.segmenter != Segmenter::Unicode {
            let _ = writeln!(out, "text.jieba.hmm={}", self.jieba.hmm);
            let _ = writeln!(out, "text.jieba.user_dict={:?}", self.jieba.user_dict.as_deref().unwrap_or_default());
        }
        // Together, the lists are one set, so their order does not matter.
        let lists = self.stopwords.iter().map(|list| match list {
            StopWords::Zh => "zh".to_owned(),
            StopWords::En => "en".to_owned(),
            StopWords::List(contents) => format!("{contents:?}"),
        });
        for list in lists.collect::<BTreeSet<String>>() {
            let _ = writeln!(out, "text.stopwords={list}");
        }
        let _ = writeln!(out, "text.min_features={}", self.min_features);
        let _ = writeln!(out, "text.max_bytes={}", self.max_bytes);
        let _ = writeln!(out, "text.max_nesting={}", self.max_nesting);
    }
}
