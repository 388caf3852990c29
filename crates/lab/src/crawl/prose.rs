//! Text of the generated crawl by the letter, for pages that are put together elsewhere.

use super::Rng;
use super::article::{Author, Language};

/// Writes text in either language, of any length.
#[derive(Debug)]
pub(crate) struct Prose(Author);

impl Prose {
    pub(crate) fn new() -> Self {
        Self(Author::new())
    }

    /// Writes `letters` characters of sentences, without digits. The same chance begins a longer text with a shorter
    /// one.
    pub(crate) fn text(&self, is_chinese: bool, letters: usize, rng: &mut Rng) -> String {
        self.0.prose(language(is_chinese), letters, rng)
    }

    /// Writes `letters` characters of links, a line each. The same chance begins a longer list with a shorter one.
    pub(crate) fn links(&self, is_chinese: bool, letters: usize, rng: &mut Rng) -> String {
        self.0.links(language(is_chinese), letters, rng)
    }
}

const fn language(is_chinese: bool) -> Language {
    if is_chinese { Language::Chinese } else { Language::English }
}
