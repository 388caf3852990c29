//! Articles and the text around them.

use super::super::edit::is_chinese;
use super::layout::{Block, Body, Form, Variant, render};
use super::purpose;
use crate::crawl::{Prose, Rng};

/// Writes articles, or hands out given ones, and puts them into the repeated text of sites.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) seed: u64,
    prose: Prose,
    /// Given articles, short ones first.
    given: Vec<String>,
}

impl Texts {
    pub(super) fn new(seed: u64, given: &[String]) -> Self {
        let mut given = given.to_vec();
        given.sort_by_cached_key(|text| text.chars().count());
        Self { seed, prose: Prose::new(), given }
    }

    /// Returns how many articles there are when they are not generated.
    pub(super) fn given(&self) -> Option<usize> {
        Some(self.given.len()).filter(|given| *given > 0)
    }

    /// Returns an article: a given one by its `rank`, so that articles of a site have nearly one length, or one written
    /// for page `number`. All that are written for a site have one length.
    pub(super) fn article(&self, number: usize, rank: usize, site: usize, share: usize) -> String {
        if let Some(given) = self.given.get(rank % self.given.len().max(1)) {
            return given.clone();
        }
        let mut length = Rng::of(self.seed, site as u64, purpose::LENGTH);
        let is_chinese = length.percent(50);
        let (least, more) = if is_chinese { (400, 1200) } else { (1000, 3000) };
        let page = least + length.index(more);
        self.prose.text(is_chinese, page * (100 - share) / 100, &mut self.rng(number, purpose::ARTICLE))
    }

    /// Returns the rank of one of `of` articles that have all lengths among them.
    pub(super) fn spread(&self, number: usize, of: usize) -> usize {
        self.given().map_or(number, |given| number * given / of.max(1))
    }

    /// Writes a text of its own, in either language.
    pub(super) fn text(&self, number: usize, letters: usize) -> String {
        let mut rng = self.rng(number, purpose::ARTICLE);
        let is_chinese = rng.percent(50);
        self.prose.text(is_chinese, letters, &mut rng)
    }

    /// Puts an article into as much of a site's repeated text as the share says. Short blocks begin long ones, so that
    /// articles of one length are in the same text.
    pub(super) fn page(&self, article: &str, site: usize, share: usize, form: Form, variant: Variant<'_>) -> Body {
        let letters = article.chars().count() * share / (100 - share);
        let is_chinese = is_chinese(article);
        let part = |part: usize, percent: usize| {
            let mut rng = self.rng(site * Block::PARTS + part, purpose::BLOCK);
            let letters = letters * percent / 100;
            if part == Block::LINKS {
                self.prose.links(is_chinese, letters, &mut rng)
            } else {
                self.prose.text(is_chinese, letters, &mut rng)
            }
        };
        let block = Block { menu: part(0, 20), related: part(1, 25), notice: part(2, 25), footer: part(3, 30) };
        render(article, &block, is_chinese, site, form, variant)
    }

    fn rng(&self, number: usize, purpose: u64) -> Rng {
        Rng::of(self.seed, number as u64, purpose)
    }
}
