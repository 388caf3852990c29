//! Synthetic crawl with known ground truth.
//!
//! Demo, benches and quality measurements need any number of pages with known ground truth. [`Crawl`] writes them:
//! Chinese and English articles whose words are as frequent as in the language, copies of them on other sites,
//! edited copies of many kinds, and records in which no page can be read. [`score`] compares verdicts with the
//! truth.
//!
//! Laws: page `n` is a function of the settings and `n` alone, byte for byte, on every machine and in every
//! release. A copy names a page that is itself unique and at most [`CrawlSettings::reach`] pages earlier.
//! Cost: about 20 us of one core for a page of 2 KB; a copy costs its original again. Nothing is remembered of pages
//! written.

mod article;
mod edit;
mod page;
mod rng;
mod settings;
mod truth;
pub mod score;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use article::{Article, Author, Language};
use dupgate_core::record::Timestamp;
use page::Frame;

pub(crate) use article::Prose;
pub(crate) use edit::traditional;
pub(crate) use rng::Rng;

pub use settings::{CrawlError, CrawlSettings};
pub use summary::Summary;
pub use truth::{Damage, Edit, NoTruth, Truth};

/// One generated record, with what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Which page of the crawl this is, from 0.
    pub number: u64,
    /// Which of the [`CrawlSettings::topics`] it belongs on, from 0.
    pub topic: usize,
    /// Key of the record: the page's URL, different for every page. A truth names originals by it.
    pub key: String,
    /// A JSON object with `url`, `site`, `title`, `text` or `html`, and `fetched_at`, unless the truth says broken.
    pub value: Vec<u8>,
    /// Time of the fetch, for the record's timestamp.
    pub timestamp: Timestamp,
    /// What the page is.
    pub truth: Truth,
}

/// An endless crawl. As an iterator it yields page 0, 1, 2 and so on.
///
/// ```
/// # use dupgate_lab::crawl::{Crawl, CrawlSettings};
/// let mut crawl = Crawl::new(CrawlSettings { seed: 7, ..CrawlSettings::default() })?;
/// let first = crawl.next();
/// assert_eq!(first, Some(crawl.page(0)));
/// # Ok::<(), dupgate_lab::crawl::CrawlError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Crawl {
    settings: CrawlSettings,
    author: Arc<Author>,
    next: u64,
}

/// What the dice say a page is; a copy may still find no original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageKind {
    Unique,
    Exact,
    Near,
    Broken,
}

/// Purposes of a page's streams of chance.
mod purpose {
    pub(super) const LOT: u64 = 1;
    pub(super) const ARTICLE: u64 = 2;
    pub(super) const FRAME: u64 = 3;
    pub(super) const CHANGE: u64 = 4;
}

/// How often a copy looks for an original before it becomes a unique page instead.
const LOOKS: u32 = 64;

impl Crawl {
    /// Begins a crawl.
    ///
    /// # Errors
    ///
    /// [`CrawlError`] when the settings contradict themselves.
    pub fn new(settings: CrawlSettings) -> Result<Self, CrawlError> {
        settings.check()?;
        Ok(Self { settings, author: Arc::new(Author::new()), next: 0 })
    }

    /// Returns what the crawl was begun with.
    #[must_use]
    pub const fn settings(&self) -> &CrawlSettings {
        &self.settings
    }

    /// Writes page `number`, whichever were written before.
    #[must_use]
    pub fn page(&self, number: u64) -> Planted {
        let frame = self.frame(number);
        let mut rng = self.rng(number, purpose::CHANGE);
        let (value, truth) = match self.lot(number) {
            PageKind::Unique => self.unique(number, &frame),
            PageKind::Broken => {
                let damage = Damage::ALL.get(rng.index(Damage::ALL.len())).copied().unwrap_or(Damage::InvalidUtf8);
                (page::damaged(&self.article(number), &frame, damage, &mut rng), Truth::Broken { damage })
            }
            lot @ (PageKind::Exact | PageKind::Near) => match self.original_of(number, &mut rng) {
                Some(original) => self.copy(original, &frame, lot, &mut rng),
                None => self.unique(number, &frame),
            },
        };
        let topic = rng.index(self.settings.topics);
        Planted { number, topic, key: frame.url, value, timestamp: frame.fetched, truth }
    }

    fn unique(&self, number: u64, frame: &Frame) -> (Vec<u8>, Truth) {
        (self.render(&self.article(number), number, frame), Truth::Unique)
    }

    fn copy(&self, original: u64, frame: &Frame, lot: PageKind, rng: &mut Rng) -> (Vec<u8>, Truth) {
        let mut article = self.article(original);
        let key = self.frame(original).url;
        if lot == PageKind::Exact {
            return (self.render(&article, original, frame), Truth::Exact { original: key });
        }
        let wanted = Edit::ALL.get(rng.index(Edit::ALL.len())).copied().unwrap_or(Edit::FootLine);
        let edit = if edit::apply(wanted, &mut article, &self.author, &frame.site, rng) {
            wanted
        } else {
            // A text too short for this edit takes one more line instead.
            edit::apply(Edit::FootLine, &mut article, &self.author, &frame.site, rng);
            Edit::FootLine
        };
        (self.render(&article, original, frame), Truth::Near { edit, original: key })
    }

    /// A copy comes in the form of its original: what a page says depends on how its text is found.
    fn render(&self, article: &Article, original: u64, frame: &Frame) -> Vec<u8> {
        let mut rng = self.rng(original, purpose::FRAME);
        if rng.share() < self.settings.html { page::with_html(article, frame) } else { page::with_text(article, frame) }
    }

    fn article(&self, number: u64) -> Article {
        let mut rng = self.rng(number, purpose::ARTICLE);
        let language = if rng.share() < self.settings.zh { Language::Chinese } else { Language::English };
        // The smaller of two draws: short pages are commoner than long ones.
        let span = u64::try_from(self.settings.bytes.end() - self.settings.bytes.start()).unwrap_or(u64::MAX);
        let more = rng.below(span + 1).min(rng.below(span + 1));
        let bytes = self.settings.bytes.start() + usize::try_from(more).unwrap_or(0);
        self.author.article(language, bytes, &mut rng)
    }

    fn frame(&self, number: u64) -> Frame {
        let mut rng = self.rng(number, purpose::FRAME);
        rng.bits();
        let site = format!("site{}.example", rng.below(self.settings.sites));
        let url = format!("https://{site}/p/{number}");
        let step = u64::try_from(self.settings.step.as_millis()).unwrap_or(u64::MAX);
        let since = Duration::from_millis(step.saturating_mul(number));
        let mark = rng.pick(&["", " - ", " | ", "_"]);
        let suffix = if mark.is_empty() { String::new() } else { format!("{mark}{site}") };
        Frame { url, site, suffix, fetched: self.settings.start.plus(since) }
    }

    fn lot(&self, number: u64) -> PageKind {
        let CrawlSettings { exact, near, broken, .. } = self.settings;
        let drawn = self.rng(number, purpose::LOT).share();
        if drawn < exact {
            PageKind::Exact
        } else if drawn < exact + near {
            PageKind::Near
        } else if drawn < exact + near + broken {
            PageKind::Broken
        } else {
            PageKind::Unique
        }
    }

    fn original_of(&self, number: u64, rng: &mut Rng) -> Option<u64> {
        let reach = number.min(self.settings.reach);
        let looks = if reach == 0 { 0 } else { LOOKS };
        (0..looks).map(|_| number - 1 - rng.below(reach)).find(|&found| self.lot(found) == PageKind::Unique)
    }

    const fn rng(&self, number: u64, purpose: u64) -> Rng {
        Rng::of(self.settings.seed, number, purpose)
    }
}

impl Iterator for Crawl {
    type Item = Planted;

    fn next(&mut self) -> Option<Planted> {
        let page = self.page(self.next);
        self.next += 1;
        Some(page)
    }
}
