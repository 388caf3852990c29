//! The whole way from a document's body to its words, and the words of a user that no text can have, because texts are
//! cut into other words.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use jieba_rs::Jieba;
use xxhash_rust::xxh3::xxh3_64;

use super::extract::Extraction;
use super::minify::Limits;
use super::normalize::{Normalizer, TextUrls, is_han};
use super::settings::{HtmlText, Segmenter, Settings, StopWords};
use super::words::{CutBy, Cutter, IdentityHasher, load_jieba};
use super::{extract, head};
use crate::record::{Body, Reject, Rejection};

/// Why text settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Pages without a feature would all match each other.
    #[error("text.min_features is 0 (at least 1)")]
    NoFeatures,
    /// Nothing would be read.
    #[error("text.max_bytes is 0 (at least 1)")]
    NoBytes,
    /// The frequency in a line of the user dictionary is not a number.
    #[error("text.jieba.user_dict line {line}: `{frequency}` is not a frequency (expected: word [frequency [tag]])")]
    UserDict {
        /// The line, from 1.
        line: usize,
        /// The frequency as written.
        frequency: String,
    },
    /// The tables of the conversion library cannot be read: a broken build.
    #[error("the tables for text.normalize.han: simplified cannot be read")]
    NoSimplifier,
}

/// Reads texts with preprocessed settings. Shared by all text threads.
#[derive(Clone, Debug)]
pub struct Analyzer {
    settings: Settings,
    normalizer: Normalizer,
    cutter: Cutter,
    stopwords: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
}

/// A text in the form that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormalText<'s> {
    /// The text: never empty, no space at either end, no two spaces in a row.
    pub text: &'s str,
    /// Whether text past `text.max_bytes` was left unread.
    pub cut: bool,
    /// Hash of the unread text, so that pages that differ only in it are not exact duplicates; 0 if there is none.
    pub rest: u64,
    /// What was extracted from the page.
    pub extraction: Extraction,
    /// Its web addresses.
    pub urls: TextUrls,
}

/// One word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'s> {
    /// As it is in the normalised text.
    pub text: &'s str,
    /// XXH3 (64 bits, no seed) of its UTF-8 bytes.
    pub hash: u64,
}

impl Analyzer {
    /// Loads word lists, which takes some milliseconds the first time; with words of the user also jieba-rs, which takes a
    /// tenth of a second or two.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] when a list or a number cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        if settings.min_features == 0 {
            return Err(SettingsError::NoFeatures);
        }
        if settings.max_bytes == 0 {
            return Err(SettingsError::NoBytes);
        }
        let normalizer = Normalizer::new(settings.normalize).map_err(|_| SettingsError::NoSimplifier)?;
        let user_dict = settings.jieba.user_dict.as_ref().filter(|_| settings.segmenter != Segmenter::Unicode);
        let jieba = user_dict.map(|words| jieba_with(words, &normalizer)).transpose()?.map(Arc::new);
        let mut stopwords = HashSet::default();
        let mut normal = String::new();
        for list in &settings.stopwords {
            let contents = match list {
                StopWords::Zh => include_str!("stopwords_zh.txt"),
                StopWords::En => include_str!("stopwords_en.txt"),
                StopWords::List(contents) => contents,
            };
            for word in lines_of(contents).flat_map(|(_, line)| line.split_whitespace()) {
                normalizer.run(word, &mut normal);
                stopwords.insert(xxh3_64(normal.as_bytes()));
            }
        }
        let cutter = Cutter::new(settings.segmenter, jieba, settings.jieba.hmm);
        Ok(Self { settings: settings.clone(), normalizer, cutter, stopwords })
    }

    /// Returns the settings in use.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Brings a body to the form that is compared, in `buffer`.
    ///
    /// # Errors
    ///
    /// [`Reject::NoText`] when nothing is left.
    pub fn normalize<'s>(&self, body: &Body<'_>, buffer: &'s mut String) -> Result<NormalText<'s>, Rejection> {
        self.normalize_as(body, self.settings.html, buffer)
    }

    /// Like [`Analyzer::normalize`], but extracts `wanted` from an HTML page, whatever `text.html` says.
    ///
    /// # Errors
    ///
    /// As [`Analyzer::normalize`].
    pub(crate) fn normalize_as<'s>(
        &self,
        body: &Body<'_>,
        wanted: HtmlText,
        buffer: &'s mut String,
    ) -> Result<NormalText<'s>, Rejection> {
        let extracted;
        let (text, extraction): (&str, _) = match body {
            Body::Text(text) => (text, Extraction::Text),
            Body::Html(html) => {
                let Settings { max_nesting, max_bytes, .. } = self.settings;
                let has_indents = !self.settings.is_since(2);
                let extraction;
                (extracted, extraction) =
                    extract::text_of(html, wanted, Limits { max_nesting, max_bytes, has_indents });
                (&extracted, extraction)
            }
        };
        let read = text.get(..text.floor_char_boundary(self.settings.max_bytes)).unwrap_or(text);
        let urls = self.normalizer.run(read, buffer);
        if buffer.is_empty() {
            return Err(Rejection::new(Reject::NoText, "no text is left after normalisation"));
        }
        let rest = text.get(read.len()..).filter(|rest| !rest.is_empty());
        let hash = rest.map_or(0, |rest| xxh3_64(rest.as_bytes()));
        Ok(NormalText { text: buffer, cut: rest.is_some(), rest: hash, extraction, urls })
    }

    /// Returns the title of an HTML page in the form that is compared, without what only says how the page is rendered.
    /// If the title says nothing of the page's heading, it is that of the site, and the heading is added. `None` if
    /// there is no letter, or if the page came as text.
    #[must_use]
    pub(crate) fn title(&self, body: &Body<'_>) -> Option<String> {
        let Body::Html(html) = body else { return None };
        let title = head::title_of(html)?;
        let mut title = head::without_rendering(&title);
        if let Some(heading) = head::heading_of(html).filter(|heading| head::is_of_site(&title, heading)) {
            title.to_mut().extend(["\n", &heading]);
        }
        let mut normal = String::new();
        let read = title.get(..title.floor_char_boundary(self.settings.max_bytes)).unwrap_or(&title);
        self.normalizer.run(read, &mut normal);
        normal.chars().any(char::is_alphabetic).then_some(normal)
    }

    /// Returns a word of a list in the form that is compared; `None` if nothing is left of it.
    pub(super) fn normal_word(&self, word: &str) -> Option<String> {
        let mut normal = String::new();
        self.normalizer.run(word, &mut normal);
        Some(normal).filter(|normal| !normal.is_empty())
    }

    /// Passes the words of a normalised text to `each` in order, without stop words and punctuation, and returns what
    /// cut them.
    pub fn words<'s>(&self, normal: &'s str, mut each: impl FnMut(Word<'s>)) -> CutBy {
        self.cutter.words(normal, |text| {
            let hash = xxh3_64(text.as_bytes());
            if !self.stopwords.contains(&hash) {
                each(Word { text, hash });
            }
        })
    }
}

/// Returns the lines of a list of words, without comments, and their numbers, from 1.
pub(super) fn lines_of(list: &str) -> impl Iterator<Item = (usize, &str)> {
    (1_usize..).zip(list.lines()).filter(|(_, line)| !line.starts_with('#'))
}

/// Adds words to the library's dictionary, in normalised form.
fn jieba_with(words: &str, normalizer: &Normalizer) -> Result<Jieba, SettingsError> {
    let mut jieba = load_jieba();
    let mut word = String::new();
    for (line, text) in lines_of(words) {
        let mut parts = text.split_whitespace();
        let Some(written) = parts.next() else { continue };
        let frequency = parts.next().map(|frequency| {
            let refuse = |_| SettingsError::UserDict { line, frequency: frequency.to_owned() };
            frequency.parse::<u32>().map_err(refuse)
        });
        let frequency = frequency.transpose()?.and_then(|frequency| usize::try_from(frequency).ok());
        normalizer.run(written, &mut word);
        jieba.add_word(&word, frequency, parts.next());
    }
    Ok(jieba)
}

/// Words of the user's lists that are never used, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedWords {
    /// In the lists of `text.stopwords`.
    pub stopwords: Vec<String>,
    /// In `text.jieba.user_dict`.
    pub dictionary: Vec<String>,
}

impl UnusedWords {
    /// Finds them. Loads dictionaries if there are lists of the user.
    ///
    /// # Errors
    ///
    /// As [`Analyzer::new`].
    pub fn of(settings: &Settings) -> Result<Self, SettingsError> {
        let lists = || {
            settings.stopwords.iter().filter_map(|list| match list {
                StopWords::List(contents) => Some(contents),
                StopWords::Zh | StopWords::En => None,
            })
        };
        let dictionary = settings.jieba.user_dict.as_deref().unwrap_or_default();
        if lists().next().is_none() && dictionary.is_empty() {
            return Ok(Self::default());
        }
        // Stop words themselves are left out of the words of a text.
        let analyzer = Analyzer::new(&Settings { stopwords: Vec::new(), ..settings.clone() })?;
        let is_one_word = |written: &str| {
            let Some(normal) = analyzer.normal_word(written) else { return false };
            let mut words = Vec::new();
            analyzer.words(&normal, |word| words.push(word.text.to_owned()));
            words == [normal]
        };
        let words = lists().flat_map(|list| lines_of(list)).flat_map(|(_, line)| line.split_whitespace());
        let stopwords = words.filter(|word| !is_one_word(word));
        let is_of_dictionary = |word: &str| match settings.segmenter {
            Segmenter::Unicode => false,
            // Only Han text is cut by the dictionary. How often a word occurs decides where it is joined.
            Segmenter::Auto => analyzer.normal_word(word).is_some_and(|word| word.chars().all(is_han)),
            Segmenter::Jieba => {
                analyzer.normal_word(word).is_some_and(|word| word.chars().all(is_han)) || is_one_word(word)
            }
        };
        let words = lines_of(dictionary).filter_map(|(_, line)| line.split_whitespace().next());
        let dictionary = words.filter(|word| !is_of_dictionary(word));
        Ok(Self {
            stopwords: stopwords.map(str::to_owned).collect(),
            dictionary: dictionary.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused(segmenter: Segmenter) -> UnusedWords {
        let stopwords = "the\nSK-II\n[...]\n的\nfoo bar\ndon't\n# a comment\n记者\n3.14\n";
        let dictionary = "石墨烯電池 100000 n\n\nSK-II 10\n卡拉OK\n云计算\n[...]\n";
        UnusedWords::of(&Settings {
            segmenter,
            stopwords: vec![StopWords::Zh, StopWords::List(stopwords.to_owned())],
            jieba: crate::text::JiebaSettings { user_dict: Some(dictionary.to_owned()), hmm: true },
            ..Settings::default()
        })
        .unwrap()
    }

    #[test]
    fn words_that_texts_are_never_cut_into_are_found() {
        let auto = unused(Segmenter::Auto);
        assert_eq!(auto.stopwords, ["SK-II", "[...]"]);
        assert_eq!(auto.dictionary, ["SK-II", "卡拉OK", "[...]"]);
        let unicode = unused(Segmenter::Unicode);
        assert_eq!(unicode.dictionary.len(), 5, "no dictionary is used: {unicode:?}");
        assert!(unicode.stopwords.contains(&"SK-II".to_owned()), "{unicode:?}");
        let jieba = unused(Segmenter::Jieba);
        assert_eq!(jieba.dictionary, ["[...]"], "the dictionary joins Latin, too");
    }

    #[test]
    fn built_in_lists_are_not_reported() {
        assert_eq!(UnusedWords::of(&Settings::default()), Ok(UnusedWords::default()));
    }
}
