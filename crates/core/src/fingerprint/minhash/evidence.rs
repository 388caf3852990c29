//! Further evidence required for low estimates.

use super::SketchForm;
use crate::fingerprint::PerMille;

/// Which estimates are so low that they may be wrong, and what further evidence they need: how much of the smaller page
/// is in the other one, or how far apart the `SimHash`es are. If the Jaccard index of unrelated texts is estimated at a
/// third, the estimate says that half of the smaller page is in the other one. A page in another site's frame, or one
/// that is cut off, is in the other one as a whole, and a copy with wrong letters keeps most of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LowConfidence {
    /// The lowest estimated Jaccard index that needs no further evidence.
    pub below: PerMille,
    /// The same for short pages: a few wrong letters leave them little in common, and menus are seldom part of their
    /// text. For pages of two sites, which share no menus, the limit is halfway between this and `below`.
    pub below_short: PerMille,
    /// A pair whose smaller page has fewer shingles than this is short.
    pub short: u16,
    /// Lowest share of the smaller page that has to be in the other one, inclusive.
    pub containment: PerMille,
    /// Largest distance of the `SimHash`es that is evidence as well, in bits, inclusive.
    pub max_distance: u8,
    /// Whether the limits become stricter with the number of originals that come near to matching, because the best of
    /// many noisy estimates is likely to be too high.
    pub of_many: bool,
}

/// The limits for one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceLimits {
    /// The lowest estimate that needs no further evidence, inclusive.
    pub least: PerMille,
    /// Whether it comes from [`LowConfidence::below_short`].
    pub is_short: bool,
    /// Largest distance of the `SimHash`es that is evidence, in bits, inclusive. If it is 0, no distance is.
    pub max_distance: u8,
}

/// What is known of a pair whose sketches are near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The estimated Jaccard index.
    pub estimate: PerMille,
    /// Share of the smaller page that is in the other one, if known.
    pub contained: Option<PerMille>,
    /// Differing bits of the `SimHash`es, if both pages have one.
    pub distance: Option<u8>,
    /// Number of shingles of the smaller page, if known.
    pub shingles: Option<u32>,
    /// Whether the pages are known to be of different sites.
    pub of_two_sites: bool,
    /// How many other originals come near to matching ([`LowConfidence::is_rival`]).
    pub rivals: u32,
}

/// By how many standard errors the largest of n normal variables exceeds their mean, in tenths: `sqrt(2 ln n)` in the
/// middle of each power of two, from 1 on.
const OF_MANY: [u16; 20] = [9, 14, 19, 22, 25, 28, 30, 32, 34, 36, 38, 40, 42, 43, 45, 46, 48, 49, 51, 52];

/// Standard deviation of the distance of two `SimHash`es of 64 bits about its expectation, in tenths of a bit.
const BITS_DEVIATION: u16 = 35;

impl Default for LowConfidence {
    fn default() -> Self {
        Self {
            below: PerMille(460),
            below_short: PerMille(330),
            short: 200,
            containment: PerMille(800),
            max_distance: 14,
            of_many: true,
        }
    }
}

impl LowConfidence {
    /// Believes every estimate.
    pub const DISABLED: Self = Self {
        below: PerMille::ZERO,
        below_short: PerMille::ZERO,
        short: 0,
        containment: PerMille::ZERO,
        max_distance: 0,
        of_many: false,
    };

    /// Returns the limits for a pair.
    #[must_use]
    pub(crate) fn limits(self, form: SketchForm, evidence: Evidence) -> EvidenceLimits {
        let is_short = evidence.shingles.is_some_and(|shingles| shingles < u32::from(self.short));
        let below = match (is_short, evidence.of_two_sites) {
            (true, _) => self.below_short,
            // The frames of two sites differ, so less similarity is as much evidence.
            (false, true) => PerMille(u16::midpoint(self.below_short.0, self.below.0)),
            (false, false) => self.below,
        };
        let errors = if self.of_many { in_tenths(evidence.rivals) } else { 0 };
        let PerMille(error) = form.standard_error(below);
        let margin = error * errors / 10;
        let stricter = u8::try_from(errors * BITS_DEVIATION / 100).unwrap_or(u8::MAX);
        EvidenceLimits {
            least: PerMille(below.0.saturating_add(margin)),
            is_short,
            max_distance: self.max_distance.saturating_sub(stricter),
        }
    }

    /// Returns whether an estimate needs no further evidence, or has it.
    #[must_use]
    pub fn is_sure(self, form: SketchForm, evidence: Evidence) -> bool {
        let Evidence { estimate, contained, distance, .. } = evidence;
        let EvidenceLimits { least, max_distance, .. } = self.limits(form, evidence);
        self.below == PerMille::ZERO
            || estimate >= least
            || contained.is_some_and(|share| share >= self.containment)
            || (max_distance > 0 && distance.is_some_and(|distance| distance <= max_distance))
    }

    /// Returns whether an original with this estimate could be taken for a match by chance: the estimate is at most
    /// three standard errors below the lowest similarity of a match.
    #[must_use]
    pub(crate) fn is_rival(form: SketchForm, estimate: PerMille, min_similarity: PerMille) -> bool {
        estimate.0 + 3 * form.standard_error(min_similarity).0 >= min_similarity.0
    }
}

fn in_tenths(rivals: u32) -> u16 {
    let Some(power) = rivals.checked_ilog2() else { return 0 };
    let last = OF_MANY.len() - 1;
    OF_MANY.get((power as usize).min(last)).copied().unwrap_or(0)
}

/// What pages of one site need in order to match: they have to be nearly the same. They share menus, footers and
/// related links, so that similarity alone says little (Henzinger, SIGIR 2006).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SameSite {
    /// Lowest share of the smaller page that has to be in the other one.
    pub containment: PerMille,
}

/// The evidence that two pages of one site are not one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoPages {
    /// The estimated Jaccard index.
    pub similarity: PerMille,
    /// Estimated share of the page that is in the original, if the sketches hold sizes. For renderings, it is the share
    /// of the smaller page that is in the other one.
    pub contained: Option<PerMille>,
}

/// Lowest estimated share of the smaller page that is in the other one, however uncertain the estimate is.
const MIN_CONTAINED_OF_SITE: PerMille = PerMille(800);

/// Lowest estimated share of the page that is in the original.
const MIN_OF_PAGE: PerMille = PerMille(750);

/// Lowest estimated share of the smaller of two renderings of one page that is in the other: print, mobile and AMP
/// views, session ids.
const MIN_RENDERED: PerMille = PerMille(750);

impl SameSite {
    /// Returns the evidence that a page and an original of its site are two pages; `distance` is that of their
    /// sketches. There is none if two conditions hold. The estimated Jaccard index is at most two standard errors below
    /// that of two pages of these sizes with [`containment`](Self::containment) of the smaller one in the other. And
    /// most of the page is in the original: a page with nothing but the site's menu is in all other pages of the site.
    #[must_use]
    pub(crate) fn evidence_against_same_page(
        self,
        form: SketchForm,
        page: &[u8],
        original: &[u8],
        distance: u8,
    ) -> Option<TwoPages> {
        let Compared { is_as_similar, similarity, contained } = self.compared(form, page, original, distance);
        let is_one = is_as_similar
            && contained.is_none_or(|share| share.of_smaller >= MIN_CONTAINED_OF_SITE && share.of_page >= MIN_OF_PAGE);
        (!is_one).then_some(TwoPages { similarity, contained: contained.map(|share| share.of_page) })
    }

    /// Returns the evidence that a page and an original are not renderings of one page, although one of them says so:
    /// careless sites name one canonical address in all pages of a section. Either may be the shorter one. If both have
    /// the same title, the estimated Jaccard index may be one standard error too low: the text of an article within
    /// that of a page many times as long is a small part of both.
    #[must_use]
    pub(crate) fn evidence_against_rendering(
        self,
        form: SketchForm,
        page: &[u8],
        original: &[u8],
        distance: u8,
        have_one_title: bool,
    ) -> Option<TwoPages> {
        let Compared { is_as_similar, similarity, contained } = self.compared(form, page, original, distance);
        let is_probably_rendered = || {
            let least = expected(sizes_of(form, page, original), MIN_RENDERED);
            similarity.0 + form.standard_error(least).0 >= least.0
        };
        let is_one = contained.map_or(is_as_similar, |share| {
            share.of_smaller >= MIN_RENDERED
                || (have_one_title && share.of_smaller > PerMille::ZERO && is_probably_rendered())
        });
        (!is_one).then_some(TwoPages { similarity, contained: contained.map(|share| share.of_smaller) })
    }

    fn compared(self, form: SketchForm, page: &[u8], original: &[u8], distance: u8) -> Compared {
        let sizes = sizes_of(form, page, original);
        let expected = expected(sizes, self.containment);
        let least = PerMille(expected.0.saturating_sub(2 * form.standard_error(expected).0));
        let similarity = form.similarity(distance);
        let contained = sizes.map(|[page_size, original_size]| {
            let of_smaller = form.contained(page, original, distance, 0).unwrap_or_default();
            let of_page = PerMille::of(u64::from(of_smaller.0) * page_size.min(original_size), 1000 * page_size);
            Contained { of_smaller, of_page }
        });
        Compared { is_as_similar: similarity >= least, similarity, contained }
    }
}

/// Returns the sizes of two pages, if the sketches hold them.
fn sizes_of(form: SketchForm, page: &[u8], original: &[u8]) -> Option<[u64; 2]> {
    form.count(page).zip(form.count(original)).map(|(page, original)| [page, original].map(u64::from))
}

/// Returns the Jaccard index of two pages of these sizes with this share of the smaller one in the other. Without sizes,
/// both pages count as equally large.
fn expected(sizes: Option<[u64; 2]>, containment: PerMille) -> PerMille {
    let [page_size, original_size] = sizes.unwrap_or([1000, 1000]);
    let both = u64::from(containment.0) * page_size.min(original_size);
    let all = 1000 * (page_size + original_size);
    PerMille::of(both, all.saturating_sub(both))
}

/// How two pages of one site compare.
struct Compared {
    /// Whether they are as similar as pages of these sizes that are the same page.
    is_as_similar: bool,
    /// The estimated Jaccard index.
    similarity: PerMille,
    /// Present if the sketches hold sizes.
    contained: Option<Contained>,
}

/// Estimated shares of a page that are in the other one.
#[derive(Clone, Copy)]
struct Contained {
    of_smaller: PerMille,
    of_page: PerMille,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::SlotBits;

    fn form() -> SketchForm {
        SketchForm::new(128, SlotBits::B8).unwrap().with_count()
    }

    #[test]
    fn an_estimate_is_believed_when_it_is_high_or_has_further_evidence() {
        let low = Evidence {
            estimate: PerMille(400),
            contained: Some(PerMille(570)),
            distance: Some(20),
            shingles: Some(200),
            of_two_sites: false,
            rivals: 0,
        };
        let is_sure = |evidence| LowConfidence::default().is_sure(form(), evidence);
        assert!(!is_sure(low));
        assert!(
            is_sure(Evidence { estimate: PerMille(460), ..low })
                && !is_sure(Evidence { estimate: PerMille(459), ..low })
        );
        assert!(
            is_sure(Evidence { contained: Some(PerMille(800)), ..low })
                && !is_sure(Evidence { contained: Some(PerMille(799)), ..low })
        );
        assert!(is_sure(Evidence { distance: Some(14), ..low }) && !is_sure(Evidence { distance: Some(15), ..low }));
        assert!(is_sure(Evidence { of_two_sites: true, ..low }));
        let short = Evidence { shingles: Some(199), ..low };
        assert!(is_sure(short) && is_sure(Evidence { estimate: PerMille(330), ..short }));
        assert!(!is_sure(Evidence { estimate: PerMille(329), ..short }));
        assert!(!is_sure(Evidence { contained: None, distance: None, ..low }));
        assert!(LowConfidence::DISABLED.is_sure(form(), low));
    }

    #[test]
    fn the_best_of_many_has_to_be_better() {
        let least = |rivals| {
            let sure = |estimate: &u16| {
                let alone = Evidence {
                    estimate: PerMille(*estimate),
                    contained: None,
                    distance: None,
                    shingles: None,
                    of_two_sites: false,
                    rivals,
                };
                LowConfidence::default().is_sure(form(), alone)
            };
            (0..=1000).find(sure).unwrap()
        };
        // The expected maximum of n estimates lies sqrt(2 ln n) standard errors of .044 above their mean.
        for (rivals, expected) in [(0, 460.0), (10, 545.0), (100, 592.0), (10_000, 649.0)] {
            assert!((f64::from(least(rivals)) - expected).abs() < 20.0, "{rivals}: {}", least(rivals));
        }
        assert!([0, 1, 5, 50, 500, 5_000, u32::MAX].map(least).is_sorted());
        let near = |distance, rivals| {
            LowConfidence::default().is_sure(
                form(),
                Evidence {
                    estimate: PerMille(350),
                    contained: None,
                    distance: Some(distance),
                    shingles: None,
                    of_two_sites: false,
                    rivals,
                },
            )
        };
        assert!(near(14, 0) && near(6, 8) && !near(14, 8) && !near(1, 100_000));
    }

    /// A sketch of this many elements, the first slots of which differ from those of all zeros.
    fn sketch(differing: usize, size: usize) -> Vec<u8> {
        let mut bytes = form().cut(&[1; 128], &[], size).to_vec();
        bytes.iter_mut().take(differing).for_each(|byte| *byte ^= 1);
        bytes
    }

    #[test]
    fn pages_of_one_site_are_one_page_when_nearly_all_of_the_smaller_and_most_of_the_page_is_in_the_other() {
        let rule = SameSite { containment: PerMille(950) };
        let are_one = |differing: u8, sizes: [usize; 2]| {
            let (one, other) = (sketch(0, sizes[0]), sketch(usize::from(differing), sizes[1]));
            rule.evidence_against_same_page(form(), &one, &other, differing).is_none()
        };
        // A session id in a few links: similarity .95.
        assert!(are_one(6, [1000, 1000]));
        // Half of the page is the site's: similarity .33; three quarters of it: .6; .77 was seen on real pages.
        assert!(!are_one(86, [1000, 1000]) && !are_one(51, [1000, 1000]) && !are_one(29, [1000, 1000]));
        // The print view is the article alone: half, and two thirds of the page.
        assert!(are_one(64, [500, 1000]) && are_one(43, [660, 1000]));
        // A page with new text around all of the original: the menu of the site, fetched before.
        assert!(!are_one(64, [1000, 500]) && !are_one(39, [1000, 700]));
        assert!(are_one(13, [1000, 900]), "a paragraph more");
        // A short article and a long one, with the same block around them: 70 of 100 and of 333 shingles.
        assert!(!are_one(103, [100, 333]));
    }
}
