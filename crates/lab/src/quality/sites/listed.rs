//! Streams of a few thousand pages that are written down before they are judged.

use super::super::{Edit, PlantSettings, Planted, Role, plant};
use super::layout::Variant;
use super::{Body, Form, Goal, Row, RowKind, SitePage, SiteTruth, Texts, address, purpose};
use crate::crawl::Rng;

/// Sites of the pages that have other views, and their repeated text; sites of planted copies.
const VIEWED_SITES: usize = 100;
const VIEWED_SHARE: usize = 30;
const ORDINARY_SITES: usize = 200;

/// Fewer posts than this show nothing.
const MIN_POSTS: usize = 20;
/// A post has fewer characters than this.
const POST: usize = 200;
/// Characters of the posts of both kinds, and copies of each post.
const SHORT: std::ops::Range<usize> = 12..40;
const FRAMED: std::ops::Range<usize> = 40..141;
const POST_COPIES: usize = 2;

/// What posts reached when this was first measured, generated and given ones: it is not to become worse.
const SHORT_FOUND: [f64; 2] = [0.799, 0.84];
const NAVIGATION_FOUND: [f64; 2] = [0.944, 0.949];

/// Gives the pages of a planted stream places on many sites.
pub(super) fn ordinary(plain: &[Planted], texts: &[String], addressed: bool, seed: u64) -> (Vec<Row>, Vec<SitePage>) {
    let mut lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    lengths.sort_unstable();
    let are_posts = lengths.get(lengths.len() / 2).is_some_and(|length| *length < POST);
    let goal = Goal { lost: Some(0.0005), found: Some(if are_posts { 0.985 } else { 0.99 }) };
    let pages = placed(plain, addressed, seed);
    (vec![row(RowKind::Ordinary, Form::Text, addressed, None, goal)], pages)
}

/// Gives each page of a planted stream a place on the site of its original, under an address of its own.
pub(super) fn of_one_site(plain: &[Planted], seed: u64) -> (Vec<Row>, Vec<SitePage>) {
    let pages = placed_on(plain, true, seed, |_, page| page.family % ORDINARY_SITES);
    (vec![row(RowKind::OneSite, Form::Text, true, None, Goal::NONE)], pages)
}

/// Plants copies of posts: `None` when there are too few of them.
pub(super) fn posts(
    texts: &Texts,
    ordinary: &[String],
    kind: RowKind,
    addressed: bool,
    seed: u64,
    posts: usize,
) -> Option<(Vec<Row>, Vec<SitePage>)> {
    let (lengths, least_found) =
        if kind == RowKind::ShortPosts { (SHORT, SHORT_FOUND) } else { (FRAMED, NAVIGATION_FOUND) };
    let is_given = texts.given().is_some();
    let base: Vec<String> = if is_given {
        ordinary.iter().filter(|text| lengths.contains(&text.chars().count())).cloned().collect()
    } else {
        let length = |number: usize| lengths.start + number % lengths.len();
        (0..posts).map(|number| texts.text(number, length(number))).collect()
    };
    if base.len() < MIN_POSTS {
        return None;
    }
    let [generated, given] = least_found;
    let found = Some(if is_given { given } else { generated });
    let plain = if kind == RowKind::Navigation {
        framed(&base, seed)
    } else {
        plant(&base, PlantSettings { seed, copies: POST_COPIES })
    };
    let pages = placed(&plain, addressed, seed);
    Some((vec![row(kind, Form::Text, addressed, None, Goal { lost: None, found })], pages))
}

/// Puts every post into the navigation of a site, after all of them.
fn framed(posts: &[String], seed: u64) -> Vec<Planted> {
    let page = |family, role, text| Planted { family, role, also: None, text };
    let originals = posts.iter().enumerate().map(|(family, text)| page(family, Role::Original, text.clone()));
    let copies = posts.iter().enumerate().filter_map(|(family, text)| {
        let mut rng = Rng::of(seed, family as u64, purpose::PLACE);
        Some(page(family, Role::Copy(Edit::Navigation), Edit::Navigation.apply(text, "", &mut rng)?))
    });
    originals.chain(copies).collect()
}

/// Makes pages of planted texts: originals on sites in turn, each copy on a site that chance chooses of the other ones.
fn placed(plain: &[Planted], addressed: bool, seed: u64) -> Vec<SitePage> {
    placed_on(plain, addressed, seed, |number, page| {
        let others = match page.role {
            Role::Original => 0,
            Role::Copy(_) | Role::Apart(_) => {
                1 + Rng::of(seed, number as u64, purpose::PLACE).index(ORDINARY_SITES - 1)
            }
        };
        (page.family + others) % ORDINARY_SITES
    })
}

/// Makes pages of planted texts, each on the site that `site_of` its number says.
fn placed_on(
    plain: &[Planted],
    addressed: bool,
    seed: u64,
    site_of: impl Fn(usize, &Planted) -> usize,
) -> Vec<SitePage> {
    let pages = plain.iter().enumerate().filter(|(_, page)| !matches!(page.role, Role::Apart(_)));
    let pages = pages.map(|(number, page)| {
        let site = site_of(number, page);
        let truth = SiteTruth { row: 0, site, family: page.family, is_copy: page.role != Role::Original };
        let url = addressed.then(|| address(seed, site, number));
        SitePage { url, body: Body::Text(page.text.clone()), truth }
    });
    pages.collect()
}

/// Writes pages of some sites, and each of them again as it is printed, under session ids, and as an AMP page.
pub(super) fn views(texts: &Texts, form: Form, addressed: bool, pages: usize) -> (Vec<Row>, Vec<SitePage>) {
    let mut kinds = vec![RowKind::Viewed, RowKind::Print, RowKind::Session, RowKind::SessionTime];
    if form == Form::Html && addressed {
        kinds.push(RowKind::Amp);
    }
    let goal = |kind: RowKind| {
        if kind == RowKind::Viewed {
            return Goal::of_share(VIEWED_SHARE);
        }
        Goal { lost: None, found: Some(if kind == RowKind::Amp { 1.0 } else { 0.98 }) }
    };
    let rows = kinds.iter().map(|kind| row(*kind, form, addressed, Some(VIEWED_SHARE), goal(*kind))).collect();
    let mut stream: Vec<(u64, SitePage)> = Vec::new();
    for family in 0..pages {
        let site = family % VIEWED_SITES;
        let article = texts.article(family, texts.spread(family, pages), site, VIEWED_SHARE);
        let own = format!("https://www.site{site}.example/p/{family}");
        let mut rng = Rng::of(texts.seed, family as u64, purpose::PLACE);
        let first = rng.bits() >> 1;
        let session = format!("{:016x}", rng.bits());
        let when = format!("{:02}:{:02}", rng.below(24), rng.below(60));
        let views = [
            (own.clone(), Variant::Whole),
            (format!("{own}/print"), Variant::Print),
            (format!("{own}?sid={session}"), Variant::Whole),
            (format!("{own};jsessionid={session}"), Variant::Fetched(&when)),
            (format!("https://amp.site{site}.example/p/{family}"), Variant::Amp(&own)),
        ];
        for (row, (url, variant)) in views.into_iter().enumerate().take(kinds.len()) {
            let is_copy = row > 0;
            let place = if is_copy { first + 1 + rng.bits() % (u64::MAX - first) } else { first };
            let body = texts.page(&article, site, VIEWED_SHARE, form, variant);
            let truth = SiteTruth { row, site, family, is_copy };
            stream.push((place, SitePage { url: addressed.then_some(url), body, truth }));
        }
    }
    stream.sort_by_key(|(place, _)| *place);
    (rows, stream.into_iter().map(|(_, page)| page).collect())
}

fn row(kind: RowKind, form: Form, addressed: bool, share: Option<usize>, goal: Goal) -> Row {
    Row { kind, form, addressed, share, site_pages: None, goal }
}
