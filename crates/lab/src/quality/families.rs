//! Streams of many similar pages, whose cost per page must not grow.

use std::fmt::Write as _;

use crate::crawl::{Prose, Rng};

/// A kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FamilyKind {
    /// Pages of one template: the same words, other numbers.
    Template,
    /// One text, every time in another scope.
    Scopes,
    /// Unlike pages with three tenths of their text in common.
    Block,
    /// Ten templates in turn with as many unlike pages.
    TenTemplates,
    /// Sites of ten thousand pages each, which have half of their text in common.
    SiteOfHalf,
    /// The same, with 65 hundredths in common.
    SiteOfMost,
    /// One text on one site, every time under another title.
    Titles,
    /// One page that is crawled again and again, every time with other numbers, after one that stays as it is.
    Updates,
}

/// A stream of families. Every hundredth page from the two-thousandth on is a copy of the one half as far from the
/// beginning, or of the one before it where pages are crawled again.
#[derive(Debug)]
pub struct Families {
    kind: FamilyKind,
    letters: usize,
    prose: Prose,
    /// What pages of the stream have in common.
    common: Vec<String>,
}

/// One page of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyPage {
    /// Its text.
    pub text: String,
    /// Its scope, where pages have scopes.
    pub scope: Option<usize>,
    /// Its site, where pages have addresses.
    pub site: Option<u32>,
    /// Its title, where pages have titles.
    pub title: Option<u32>,
    /// Its id, where pages have ids.
    pub id: Option<usize>,
    /// The template, the scope, the title, or the page itself: what a copy has to be matched with.
    pub family: usize,
    /// Whether it is a copy of an earlier page, with one line more; all others are to be delivered.
    pub is_copy: bool,
}

const TEMPLATES: usize = 10;
const NUMBERS: usize = 8;
/// Share of the text that pages have in common, in hundredths.
const COMMON: usize = 30;
/// Pages of a site.
const OF_SITE: usize = 10_000;
/// The first copy, and the distance to the next.
const FIRST_COPY: usize = 2000;
const COPY_STEP: usize = 100;

/// Purposes of streams of chance.
const TEXT: u64 = 201;
const NUMBER: u64 = 202;

impl FamilyKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Template,
        Self::Scopes,
        Self::Block,
        Self::TenTemplates,
        Self::SiteOfHalf,
        Self::SiteOfMost,
        Self::Titles,
        Self::Updates,
    ];

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Scopes => "scopes",
            Self::Block => "block",
            Self::TenTemplates => "ten_templates",
            Self::SiteOfHalf => "site_50",
            Self::SiteOfMost => "site_65",
            Self::Titles => "titles",
            Self::Updates => "updates",
        }
    }

    /// Returns the page that page `number` is a copy of.
    fn original_of(self, number: usize) -> Option<usize> {
        let is_copy = |number: usize| number >= FIRST_COPY && number % COPY_STEP == COPY_STEP - 1;
        let of = match self {
            Self::Updates => number.checked_sub(1)?,
            Self::Template
            | Self::Scopes
            | Self::Block
            | Self::TenTemplates
            | Self::SiteOfHalf
            | Self::SiteOfMost
            | Self::Titles => number / 2,
        };
        // The one before is no copy where this one is.
        is_copy(number).then(|| if of % COPY_STEP == COPY_STEP - 1 { of - 1 } else { of })
    }
}

impl Families {
    /// Prepares pages of about this many characters.
    #[must_use]
    pub fn new(kind: FamilyKind, letters: usize) -> Self {
        let prose = Prose::new();
        let text = |number: usize| prose.text(false, letters, &mut Rng::of(0, number as u64, TEXT));
        let common = (0..TEMPLATES).map(text).collect();
        Self { kind, letters, prose, common }
    }

    /// Writes page `number`, from 0.
    #[must_use]
    pub fn page(&self, number: usize) -> FamilyPage {
        let Some(of) = self.kind.original_of(number) else { return self.written(number) };
        let original = self.written(of);
        let text = format!("{}\nRead this and more on our site, every day again.", original.text);
        // A copy has another address.
        FamilyPage { text, is_copy: true, id: None, ..original }
    }

    fn written(&self, number: usize) -> FamilyPage {
        let page = |text: String, family: usize| FamilyPage {
            text,
            scope: None,
            site: None,
            title: None,
            id: None,
            family,
            is_copy: false,
        };
        let own = |letters: usize| self.prose.text(false, letters, &mut Rng::of(1, number as u64, TEXT));
        let common = |which: usize| self.common.get(which).map_or("", String::as_str);
        match self.kind {
            FamilyKind::Template => page(with_numbers(common(0), number), 0),
            FamilyKind::Scopes => FamilyPage { scope: Some(number), ..page(common(0).to_owned(), number) },
            FamilyKind::Block => {
                let block: String = common(0).chars().take(self.letters * COMMON / 100).collect();
                page(format!("{block}\n{}", own(self.letters * (100 - COMMON) / 100)), number)
            }
            FamilyKind::TenTemplates if number.is_multiple_of(2) => {
                let template = number / 2 % TEMPLATES;
                page(with_numbers(common(template), number), template)
            }
            FamilyKind::TenTemplates => page(own(self.letters), TEMPLATES + number),
            FamilyKind::SiteOfHalf => self.of_site(number, 50),
            FamilyKind::SiteOfMost => self.of_site(number, 65),
            FamilyKind::Titles => {
                let title = u32::try_from(number).ok();
                FamilyPage { site: Some(0), title, ..page(common(0).to_owned(), number) }
            }
            // It stays, and so does in memory what comes after it.
            FamilyKind::Updates if number == 0 => page(own(self.letters), 1),
            FamilyKind::Updates => FamilyPage { id: Some(0), ..page(with_numbers(common(0), number), 0) },
        }
    }

    /// Writes a page that shares this many hundredths with all pages of its site.
    fn of_site(&self, number: usize, common: usize) -> FamilyPage {
        let site = number / OF_SITE;
        let part = |purpose: u64, of: usize, hundredths: usize| {
            self.prose.text(false, self.letters * hundredths / 100, &mut Rng::of(purpose, of as u64, TEXT))
        };
        let text = format!("{}\n{}", part(3, site, common), part(1, number, 100 - common));
        let site = u32::try_from(site).ok();
        FamilyPage { text, scope: None, site, title: None, id: None, family: number, is_copy: false }
    }
}

/// Puts the numbers of a page between the words of its template.
fn with_numbers(template: &str, number: usize) -> String {
    let words: Vec<&str> = template.split(' ').collect();
    let mut rng = Rng::of(2, number as u64, NUMBER);
    let mut text = String::with_capacity(template.len() + 8 * NUMBERS);
    for (place, word) in words.iter().enumerate() {
        text.push_str(word);
        text.push(' ');
        if place % words.len().div_ceil(NUMBERS) == 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "{} ", rng.between(100, 99_999));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_its_original_with_one_line_more() {
        for kind in FamilyKind::ALL {
            let families = Families::new(kind, 600);
            let copies: Vec<usize> = (0..6000).filter(|number| kind.original_of(*number).is_some()).collect();
            assert_eq!(
                (copies.first(), copies.len()),
                (Some(&2099), 40),
                "from the two-thousandth on, every hundredth"
            );
            for number in copies {
                let of = kind.original_of(number).unwrap();
                let (copy, original) = (families.page(number), families.page(of));
                assert!(copy.is_copy && !original.is_copy && of < number, "{number} {of}");
                assert!(copy.text.starts_with(&original.text) && copy.text != original.text);
                assert_eq!((copy.family, copy.scope), (original.family, original.scope));
                assert_eq!((copy.site, copy.title, copy.id), (original.site, original.title, None));
            }
        }
    }

    #[test]
    fn pages_have_in_common_what_their_kind_says() {
        let two = |kind| [2, 4].map(|number| Families::new(kind, 600).page(number));
        let words = |page: &FamilyPage| page.text.replace(|c: char| c.is_ascii_digit(), "");
        let [one, other] = two(FamilyKind::Template);
        assert!(words(&one) == words(&other) && one.text != other.text && one.family == other.family);
        assert!(one.text.split(' ').filter(|word| word.parse::<u32>().is_ok()).count() >= NUMBERS - 1);
        let [one, other] = two(FamilyKind::Scopes);
        assert!(one.text == other.text && one.scope != other.scope);
        let [one, other] = two(FamilyKind::Titles);
        assert!(one.text == other.text && one.site == other.site && one.title != other.title);
        let [one, other] = two(FamilyKind::Block);
        assert!(
            one.text[..180] == other.text[..180] && one.text[181..] != other.text[181..] && one.family != other.family
        );
        for (kind, common) in [(FamilyKind::SiteOfHalf, 250), (FamilyKind::SiteOfMost, 340)] {
            let [one, other] = two(kind);
            assert!(
                one.text[..common] == other.text[..common] && one.text[common + 100..] != other.text[common + 100..]
            );
            assert!(
                one.site == Some(0) && other.site == Some(0) && Families::new(kind, 600).page(10_000).site == Some(1)
            );
        }
        let [one, other] = two(FamilyKind::Updates);
        assert!(words(&one) == words(&other) && one.text != other.text && one.id == other.id);
        let [one, other] = two(FamilyKind::TenTemplates);
        assert_ne!(one.family, other.family, "templates take turns");
        let families = Families::new(FamilyKind::TenTemplates, 600);
        assert_eq!((families.page(0).family, families.page(20).family, families.page(1).family), (0, 0, 11));
    }
}
