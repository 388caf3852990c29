//! Streams of sites: unlike articles in what a site puts on each of its pages, and other views of one page.
//!
//! A page that shares half of its text with the other pages of its site is no duplicate of them. [`streams`] makes
//! pages of which that is known: for every share of repeated text, for pages as text and as HTML, with and without an
//! address, on sites of ten to ten thousand pages. Beside them are streams in which pages are duplicates all the same:
//! articles on many sites, print views, session ids, AMP pages, posts.
//!
//! Generated articles and blocks have no digits, so that other numbers cannot tell them apart. A stream is a function
//! of the settings and the texts, page by page: nothing is kept of it, and a million pages cost no memory.

mod layout;
mod listed;
mod score;
#[cfg(test)]
mod tests;

use layout::{Block, Variant, render};

use super::Planted;
use super::edit::is_chinese;
use crate::crawl::{Prose, Rng};

pub use layout::{Body, Form};
pub use score::{Goal, Row, RowKind, SiteCounts, SiteScorer};

/// Shares of repeated text, in hundredths of a page's characters.
pub const SHARES: [usize; 5] = [20, 30, 40, 50, 60];

/// Pages that a site has, in turn; larger sites only where a quarter of the stream is enough for one.
const SITE_PAGES: [usize; 4] = [10, 100, 1000, 10_000];

/// Sites that publish the same articles, and the share of their repeated text.
const PUBLISHERS: usize = 50;
const PUBLISHER_SHARE: usize = 30;

/// Most pages of the stream of [`PUBLISHERS`], most pages that other views are made of, and most generated posts of
/// either kind.
const MAX_PUBLISHED: usize = 20_000;
const MAX_VIEWED: usize = 2500;
const MAX_POSTS: usize = 1000;

/// Purposes of streams of chance.
mod purpose {
    pub(super) const ARTICLE: u64 = 101;
    pub(super) const LENGTH: u64 = 102;
    pub(super) const BLOCK: u64 = 103;
    pub(super) const ADDRESS: u64 = 104;
    pub(super) const PLACE: u64 = 105;
}

/// How streams are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// Chooses one of many streams.
    pub seed: u64,
    /// Pages of a stream of unlike articles, when the articles are generated.
    pub pages: usize,
}

/// What a page of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteTruth {
    /// Row of the stream in which it counts, from 0.
    pub row: usize,
    /// Its site, whether its address says so or not.
    pub site: usize,
    /// Number of its article.
    pub family: usize,
    /// Whether another page with the article precedes it.
    pub is_copy: bool,
}

/// One page of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePage {
    /// Its address, when it is known.
    pub url: Option<String>,
    /// What a crawler fetched.
    pub body: Body,
    /// What it is.
    pub truth: SiteTruth,
}

/// Some pages in order, and the rows in which they count.
#[derive(Debug)]
pub struct SiteStream<'t> {
    rows: Vec<Row>,
    pages: usize,
    plan: Plan<'t>,
}

#[derive(Debug)]
enum Plan<'t> {
    /// Unlike articles on sites of several sizes.
    Uniques { texts: &'t SiteTexts, sizes: Vec<usize>, share: usize, form: Form, addressed: bool, pages: usize },
    /// The same articles on all publishers' sites.
    Published { texts: &'t SiteTexts, articles: usize, form: Form, addressed: bool },
    /// Ready pages.
    Listed(Vec<SitePage>),
}

/// Where articles and repeated blocks come from.
#[derive(Debug)]
pub struct SiteTexts(Texts);

impl SiteTexts {
    /// Prepares generated articles.
    #[must_use]
    pub fn generated(seed: u64) -> Self {
        Self(Texts::new(seed, &[]))
    }

    /// Prepares these texts as the articles; only the blocks are generated.
    #[must_use]
    pub fn given(seed: u64, texts: &[String]) -> Self {
        Self(Texts::new(seed, texts))
    }
}

/// Makes all streams: of `texts`, and of `ordinary` texts those that have nothing to do with sites. `plain` is the
/// stream that is judged without addresses elsewhere ([`super::plant()`]).
#[must_use]
pub fn streams<'t>(
    texts: &'t SiteTexts,
    ordinary: &[String],
    plain: &[Planted],
    settings: SiteSettings,
) -> Vec<SiteStream<'t>> {
    let mut streams = Vec::new();
    let articles = texts.0.given().unwrap_or(settings.pages).max(1);
    for form in Form::ALL {
        for addressed in [true, false] {
            for share in SHARES {
                streams.push(SiteStream::of_uniques(texts, form, addressed, share, articles));
            }
        }
    }
    streams.push(SiteStream::of_ready(listed::of_one_site(plain, settings.seed)));
    for addressed in [true, false] {
        streams.push(SiteStream::of_ready(listed::ordinary(plain, ordinary, addressed, settings.seed)));
        for form in Form::ALL {
            streams.push(SiteStream::of_published(texts, form, addressed, articles));
            let viewed = (articles / 4).clamp(1, MAX_VIEWED);
            streams.push(SiteStream::of_ready(listed::views(&texts.0, form, addressed, viewed)));
        }
        for kind in [RowKind::ShortPosts, RowKind::Navigation] {
            let posts = articles.min(MAX_POSTS);
            let posts = listed::posts(&texts.0, ordinary, kind, addressed, settings.seed, posts);
            streams.extend(posts.map(SiteStream::of_ready));
        }
    }
    streams
}

impl<'t> SiteStream<'t> {
    fn of_uniques(texts: &'t SiteTexts, form: Form, addressed: bool, share: usize, pages: usize) -> Self {
        let mut sizes: Vec<usize> = SITE_PAGES.into_iter().filter(|size| *size <= pages / 4).collect();
        if sizes.is_empty() {
            sizes.push(10);
        }
        let row = |size: &usize| Row {
            kind: RowKind::Unlike,
            form,
            addressed,
            share: Some(share),
            site_pages: Some(*size),
            goal: Goal::of_share(share),
        };
        let rows = sizes.iter().map(row).collect();
        Self { rows, pages, plan: Plan::Uniques { texts, sizes, share, form, addressed, pages } }
    }

    fn of_published(texts: &'t SiteTexts, form: Form, addressed: bool, articles: usize) -> Self {
        let articles = match texts.0.given() {
            Some(given) => given.min(MAX_PUBLISHED / PUBLISHERS),
            None => (articles.min(MAX_PUBLISHED) / PUBLISHERS).max(1),
        };
        let row = Row {
            kind: RowKind::Published,
            form,
            addressed,
            share: Some(PUBLISHER_SHARE),
            site_pages: Some(articles),
            goal: Goal { lost: None, found: Some(0.98) },
        };
        let plan = Plan::Published { texts, articles, form, addressed };
        Self { rows: vec![row], pages: articles * PUBLISHERS, plan }
    }

    fn of_ready((rows, pages): (Vec<Row>, Vec<SitePage>)) -> Self {
        Self { rows, pages: pages.len(), plan: Plan::Listed(pages) }
    }

    /// Returns the rows in which its pages count.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the number of its pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Writes a page, from 0; `None` after the last.
    #[must_use]
    pub fn page(&self, number: usize) -> Option<SitePage> {
        if number >= self.pages {
            return None;
        }
        match &self.plan {
            Plan::Listed(pages) => pages.get(number).cloned(),
            Plan::Uniques { texts, sizes, share, form, addressed, pages } => {
                let place = Place::of(number, sizes, *pages);
                let article = texts.0.article(number, place.rank, place.site, *share);
                let body = texts.0.page(&article, place.site, *share, *form, Variant::Whole);
                let truth = SiteTruth { row: place.class, site: place.site, family: number, is_copy: false };
                let url = addressed.then(|| address(texts.0.seed, place.site, number));
                Some(SitePage { url, body, truth })
            }
            Plan::Published { texts, articles, form, addressed } => {
                let (family, copy) = (number % articles, number / articles);
                let site = (family + copy) % PUBLISHERS;
                // The article has the length that its first page asks for, wherever it is.
                let article = texts.0.article(family, texts.0.spread(family, *articles), family, PUBLISHER_SHARE);
                let body = texts.0.page(&article, site, PUBLISHER_SHARE, *form, Variant::Whole);
                let truth = SiteTruth { row: 0, site, family, is_copy: copy > 0 };
                let url = addressed.then(|| address(texts.0.seed, site, family));
                Some(SitePage { url, body, truth })
            }
        }
    }
}

/// Position of page `number` of a stream of unlike articles.
struct Place {
    class: usize,
    /// Number of the site among all classes.
    site: usize,
    /// Its rank when the pages are counted site by site within the class, and class by class in turn.
    rank: usize,
}

impl Place {
    /// Classes take turns, and within a class its sites: pages of one site are spread over the whole stream.
    fn of(number: usize, sizes: &[usize], pages: usize) -> Self {
        let classes = sizes.len().max(1);
        let class = number % classes;
        let of_class = (pages - class).div_ceil(classes);
        let count = (of_class / sizes.get(class).copied().unwrap_or(1)).max(1);
        let turn = number / classes;
        let (site, index) = (turn % count, turn / count);
        let before = site * (of_class / count) + site.min(of_class % count);
        Self { class, site: class * 1_000_000 + site, rank: (before + index) * classes + class }
    }
}

/// Returns the address of a page: a site has one domain and some hosts.
fn address(seed: u64, site: usize, page: usize) -> String {
    let host = Rng::of(seed, page as u64, purpose::ADDRESS).pick(&["www.", "www.", "news.", ""]);
    format!("https://{host}site{site}.example/p/{page}")
}

impl SitePage {
    /// Writes the record that a crawler would put on its bus: a JSON object with `url`, where it is known, and `text`
    /// or `html`.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut record = serde_json::Map::new();
        record.extend(self.url.clone().map(|url| ("url".to_owned(), url.into())));
        let (name, body) = match &self.body {
            Body::Text(text) => ("text", text),
            Body::Html(html) => ("html", html),
        };
        record.insert(name.to_owned(), body.clone().into());
        serde_json::Value::Object(record).to_string().into_bytes()
    }
}

/// Writes articles, or hands out given ones, and puts them into the repeated text of sites.
#[derive(Debug)]
struct Texts {
    seed: u64,
    prose: Prose,
    /// Given articles, short ones first.
    given: Vec<String>,
}

impl Texts {
    fn new(seed: u64, given: &[String]) -> Self {
        let mut given = given.to_vec();
        given.sort_by_cached_key(|text| text.chars().count());
        Self { seed, prose: Prose::new(), given }
    }

    /// Returns how many articles there are when they are not generated.
    fn given(&self) -> Option<usize> {
        Some(self.given.len()).filter(|given| *given > 0)
    }

    /// Returns an article: a given one by its `rank`, so that articles of a site have nearly one length, or one written
    /// for page `number`. All that are written for a site have one length.
    fn article(&self, number: usize, rank: usize, site: usize, share: usize) -> String {
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
    fn spread(&self, number: usize, of: usize) -> usize {
        self.given().map_or(number, |given| number * given / of.max(1))
    }

    /// Writes a text of its own, in either language.
    fn text(&self, number: usize, letters: usize) -> String {
        let mut rng = self.rng(number, purpose::ARTICLE);
        let is_chinese = rng.percent(50);
        self.prose.text(is_chinese, letters, &mut rng)
    }

    /// Puts an article into as much of a site's repeated text as the share says. Short blocks begin long ones, so that
    /// articles of one length are in the same text.
    fn page(&self, article: &str, site: usize, share: usize, form: Form, variant: Variant<'_>) -> Body {
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
