//! A page costs a judge no more if many others are like it. The cost is counted in originals compared, so it does not
//! depend on a clock.
//!
//! `benches/families` measures the time, on ten times as many pages.

use std::num::NonZeroUsize;

use dupgate_core::fingerprint::{
    Fingerprinter, Fingerprints, IdHash, PageDigest, ScopeHash, Scratch, Settings, SiteHash, TitleHash,
};
use dupgate_core::judge::{State, decide_observed};
use dupgate_core::protocol::{
    Answer, Decision, LogIdentity, PageRequest, Request, RequestBody, RequestId, RequestOffset, Rules,
};
use dupgate_core::record::{EventTime, Fields, Format, InputSettings, PartitionId, RawRecord, Timestamp};
use dupgate_core::text;
use dupgate_lab::quality::{Families, FamilyKind};

const PAGES: usize = 20_000;
const THOUSAND: usize = 1000;
/// Characters of a page.
const LETTERS: usize = 900;

/// Judges a stream and compares the work of each thousand pages with that of the second one.
fn judge(kind: FamilyKind) {
    let input = InputSettings {
        format: Format::Text,
        fields: Fields::nowhere(),
        event_time: EventTime::Record,
        ..InputSettings::default()
    };
    let reader =
        Fingerprinter::new(&input, &text::Settings::default(), &Settings::default(), NonZeroUsize::MIN).unwrap();
    let rules = Rules { max_entries: PAGES as u64, ..Rules::default() };
    let mut state = State::begin(LogIdentity(1), rules, RequestOffset(0));
    let (families, mut scratch) = (Families::new(kind, LETTERS), Scratch::default());
    let mut read: Option<(String, Fingerprints)> = None;
    let (mut works, mut of_page, mut copies, mut found, mut lost) = (Vec::new(), Vec::new(), 0_u32, 0_u32, 0_u32);
    for number in 0..PAGES {
        let page = families.page(number);
        of_page.push(page.family);
        if read.as_ref().is_none_or(|(text, _)| *text != page.text) {
            let record = RawRecord { key: None, value: Some(page.text.as_bytes()), headers: &() };
            let fingerprints = reader.read(&record, &mut scratch).unwrap().fingerprints;
            read = Some((page.text, fingerprints));
        }
        let body = PageRequest {
            source: PartitionId::new("pages", 0).at(i64::try_from(number).unwrap()),
            event_time: Timestamp::from_millis(1 + i64::try_from(number).unwrap()),
            id: page.id.map(|id| IdHash(id as u64)),
            scope: page.scope.map(|scope| ScopeHash(scope as u64)),
            site: page.site.map(SiteHash),
            address: None,
            title: page.title.map(TitleHash),
            is_variant: false,
            fingerprints: read.as_ref().unwrap().1.clone(),
            digest: PageDigest(0),
            earlier: None,
        };
        let request = Request { id: RequestId(number as u64), body: RequestBody::Page(body) };
        let mut work = 0;
        let verdict = decide_observed(&state, &request, Timestamp::from_millis(i64::MAX / 2), |seen| {
            work = u64::from(seen.matching) + u64::from(seen.compared);
        });
        works.push(work);
        let verdict = verdict.unwrap();
        state.follow(&verdict).unwrap();
        let Answer::Page(verdict) = verdict.answer else { continue };
        let matched = match verdict.decision {
            Decision::Duplicate { of } => usize::try_from(of.source.offset).ok(),
            Decision::Unique { .. } | Decision::Update { .. } | Decision::Template { .. } => None,
        };
        if page.is_copy {
            copies += 1;
            found += u32::from(matched.is_some_and(|of| of_page[of] == page.family));
        } else {
            lost += u32::from(matched.is_some());
        }
        // Reported as soon as it is so: what grows with every page takes minutes to reach the end.
        if (number + 1) % THOUSAND == 0 && number > 2 * THOUSAND {
            let sum = |works: &[u64]| works.iter().sum::<u64>();
            let (first, now) = (sum(&works[THOUSAND..2 * THOUSAND]), sum(&works[number + 1 - THOUSAND..]));
            assert!(
                now <= 3 * first.max(8 * THOUSAND as u64),
                "{kind:?}: {first} for the second thousand, {now} at {number}"
            );
        }
    }
    assert!(f64::from(found) >= 0.99 * f64::from(copies), "{kind:?}: {found} of {copies} copies found");
    assert!(f64::from(lost) <= 0.001 * f64::from(u32::try_from(PAGES).unwrap()), "{kind:?}: {lost} pages lost");
}

#[test]
fn pages_of_one_template_cost_no_more_the_more_there_are() {
    judge(FamilyKind::Template);
}

#[test]
fn a_text_costs_no_more_the_more_scopes_have_it() {
    judge(FamilyKind::Scopes);
}

#[test]
fn pages_with_a_block_in_common_cost_no_more_the_more_there_are() {
    judge(FamilyKind::Block);
}

#[test]
fn ten_templates_among_other_pages_cost_no_more_the_more_pages_they_have() {
    judge(FamilyKind::TenTemplates);
}

#[test]
fn pages_of_one_site_cost_no_more_the_more_there_are() {
    judge(FamilyKind::SiteOfHalf);
    judge(FamilyKind::SiteOfMost);
}

#[test]
fn pages_of_one_text_under_other_titles_cost_no_more_the_more_there_are() {
    judge(FamilyKind::Titles);
}

#[test]
fn a_page_that_is_crawled_again_and_again_costs_no_more_the_more_texts_it_had() {
    judge(FamilyKind::Updates);
}
