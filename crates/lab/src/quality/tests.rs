//! Streams, edits and counts.

mod page_kinds;

use super::*;
use crate::crawl::Rng;
use dupgate_core::fingerprint::{
    Banding, Fingerprinter, LowConfidence, PerMille, Settings, ShingleBuffer, Shingling, SimHash, Sketch, SketchForm,
    SlotBits,
};
use dupgate_core::protocol::MinHashRules;
use dupgate_core::record::{Body, EventTime, Fields, Format, InputSettings};
use dupgate_core::text;
use proptest::prelude::*;

const ZH: &str = "国家统计局今天公布数据，今年前三季度国内生产总值同比增长5.2%。其中，第一产业增加值56374亿元！\
                  专家认为，经济运行总体平稳。下一步，要继续扩大内需。各地各部门正在落实。";
const EN: &str = "The council met on Monday, 12 May. It voted 7 to 5 for the new bridge. Work begins in 2027, officials said. \
                  Costs may reach $30 million. Critics want a tunnel. A court will decide.";
const STRANGE: &str = "A cat sat. On a mat, it did. Nobody knows why. The moon was up, though, and so were we.";

fn edited(edit: Edit, text: &str) -> String {
    edit.apply(text, STRANGE, &mut Rng::of(1, 2, 3)).unwrap()
}

#[test]
fn every_edit_changes_a_text_and_leaves_most_of_it() {
    for text in [ZH, EN] {
        for edit in Edit::DUPLICATES {
            let after = edited(edit, text);
            assert_ne!(after, text, "{edit:?}");
            let (before, length) = (text.chars().count(), after.chars().count());
            assert!((before * 55 / 100..before * 2).contains(&length), "{edit:?}: {length} of {before}");
        }
    }
}

#[test]
fn edits_do_what_their_names_say() {
    assert_eq!(edited(Edit::Script, EN), EN.to_uppercase());
    let traditional = edited(Edit::Script, ZH);
    assert!(traditional.contains("國內生產總值"), "{traditional}");
    assert_eq!(traditional.chars().map(dupgate_core::text::simplified).collect::<String>(), ZH);
    assert!(edited(Edit::NoPunctuation, ZH).chars().all(char::is_alphanumeric));
    assert!(ZH.starts_with(&edited(Edit::Truncated, ZH)));
    assert!(edited(Edit::Navigation, EN).contains(EN));
    assert!(edited(Edit::Joined, EN).ends_with(STRANGE));
    let (before, after) = (EN.chars(), edited(Edit::DigitsChanged, EN));
    for (before, after) in before.zip(after.chars()) {
        assert_eq!(before.is_ascii_digit(), before != after, "{before} {after}");
    }
    let mut swapped: Vec<char> = edited(Edit::HalvesSwapped, ZH).chars().collect();
    let mut whole: Vec<char> = ZH.chars().collect();
    swapped.sort_unstable();
    whole.sort_unstable();
    assert_eq!(swapped, whole);
    let wrong = |edit| {
        let text = ZH.repeat(50);
        let after = edited(edit, &text);
        let wrong = text.chars().zip(after.chars()).filter(|(a, b)| a != b).count();
        wrong * 1000 / text.chars().filter(|c| c.is_alphabetic()).count()
    };
    assert!((12..=28).contains(&wrong(Edit::Typos2)) && (38..=60).contains(&wrong(Edit::Typos5)));
    let sentences = |text: &str| text.matches(['.', ',']).count();
    assert!(sentences(&edited(Edit::SentencesDeleted, EN)) < sentences(EN));
}

#[test]
fn what_a_text_does_not_allow_is_not_done() {
    let apply = |edit: Edit, text: &str| edit.apply(text, STRANGE, &mut Rng::of(1, 2, 3));
    assert_eq!(apply(Edit::SentencesDeleted, "一句"), None);
    assert_eq!(apply(Edit::DigitsChanged, "no numbers"), None);
    assert_eq!(apply(Edit::NoPunctuation, "一句"), None);
    assert_eq!(apply(Edit::DigitsChanged, "2026年11月21日，3人"), None, "numbers of dates are none");
    assert_eq!(apply(Edit::DatesChanged, "3人受伤"), None);
    assert_eq!(apply(Edit::DatesChanged, "1月1日、2月17日、4月5日、6月19日放假"), None, "a timetable");
}

#[test]
fn dates_become_others_and_numbers_stay() {
    let text = "2026年11月21日，3人受伤。11月5日，2026-03-05 12:30，阅读 12345";
    for seed in 0..50 {
        let after = Edit::DatesChanged.apply(text, STRANGE, &mut Rng::of(seed, 2, 3)).unwrap();
        let (old, new) = (dupgate_core::fingerprint::dates(text), dupgate_core::fingerprint::dates(&after));
        assert_eq!((old.len(), new.len()), (3, 3), "{after}");
        for (old, new) in old.into_iter().zip(new) {
            assert_ne!(text[old], after[new], "{after}");
        }
        assert!(
            after.contains("3人受伤") && after.ends_with("12:30，阅读 12345") && after.starts_with("2026年"),
            "{after}"
        );
    }
}

#[test]
fn copies_follow_their_originals_and_what_is_apart_is_at_the_end() {
    let texts: Vec<String> = (0..30).map(|number| format!("{number}: {EN} {ZH}")).collect();
    let settings = PlantSettings { seed: 7, copies: 3 };
    let stream = plant(&texts, settings);
    assert_eq!(stream, plant(&texts, settings));
    assert_ne!(stream, plant(&texts, PlantSettings { seed: 8, ..settings }));
    let mut seen = [false; 30];
    for page in &stream {
        match page.role {
            Role::Original => seen[page.family] = true,
            Role::Copy(_) | Role::Apart(_) => assert!(seen[page.family]),
        }
    }
    let first_apart = stream.iter().position(|page| matches!(page.role, Role::Apart(_))).unwrap();
    assert!(stream[first_apart..].iter().all(|page| matches!(page.role, Role::Apart(_))));
    let with_dates = if dupgate_core::fingerprint::dates(&texts[0]).is_empty() { 0 } else { 6 };
    assert_eq!(stream.len() - first_apart, 6 + with_dates);
    let copies = stream.iter().filter(|page| matches!(page.role, Role::Copy(_))).count();
    assert!((80..=90).contains(&copies), "{copies}");
}

#[test]
fn a_page_of_two_texts_follows_both_or_follows_one_and_holds_a_new_one() {
    let texts: Vec<String> = (0..21).map(|number| format!("text {number}: {EN}")).collect();
    for page in plant(&texts, PlantSettings { seed: 7, copies: 1 }) {
        let holds = |number: usize| page.text.contains(&format!("text {number}: "));
        match (page.role, page.also) {
            (Role::Apart(Edit::Joined), Some(also)) => assert!(holds(page.family) && holds(also)),
            (role, also) => assert!(role != Role::Apart(Edit::Joined) && also.is_none()),
        }
    }
    let stream = plant_joined(&texts);
    let (known, joined) = stream.split_at(10);
    assert!(known.iter().all(|page| page.role == Role::Original && page.text.matches("text").count() == 1));
    for (page, original) in joined.iter().zip(known) {
        assert_eq!((page.family, page.role), (original.family, Role::Apart(Edit::Joined)));
        assert!(page.text.contains(&original.text));
        let news: Vec<&String> = texts.iter().filter(|text| page.text.contains(*text)).collect();
        assert_eq!(news.len(), 2);
        assert!(known.iter().all(|known| known.text == original.text || !page.text.contains(&known.text)));
    }
    let begins = joined.iter().zip(known).filter(|(page, original)| page.text.starts_with(&original.text)).count();
    assert_eq!((joined.len(), begins), (10, 5));
}

#[test]
fn halves_share_no_text_and_miss_none() {
    for number in 0..10 {
        assert_ne!(Half::Tune.has(number), Half::Report.has(number));
        assert!(Half::Both.has(number));
    }
}

/// Two families of three and one of one; one copy is missed, one goes astray, one original is lost.
#[test]
fn counts_are_those_of_a_stream_counted_by_hand() {
    let mut scorer = Scorer::default();
    let copy = Role::Copy(Edit::Typos2);
    scorer.note(0, Role::Original, None); // 0
    scorer.note(0, copy, Some(0)); // 1
    scorer.note(0, copy, Some(1)); // 2: a duplicate of a duplicate belongs to the cluster of the first
    scorer.note(1, Role::Original, None); // 3
    scorer.note(1, copy, None); // 4: missed
    scorer.note(1, Role::Copy(Edit::Script), Some(0)); // 5: astray
    scorer.note(2, Role::Original, Some(4)); // 6: lost
    scorer.note(0, Role::Apart(Edit::Joined), Some(0)); // 7
    scorer.note_of_two(1, Some(0), Role::Apart(Edit::Joined), Some(5)); // 8: near the second text that it holds
    scorer.note_of_two(1, Some(2), Role::Apart(Edit::Joined), Some(0)); // 9: near neither
    let report = scorer.report();
    assert_eq!(report.pages, 7);
    assert_eq!(report.removed, Count { planted: 4, found: 2 });
    assert_eq!(report.lost, Count { planted: 3, found: 1 });
    assert_eq!((report.strayed, report.largest), (1, 4));
    // Clusters {0, 1, 2, 5}, {3}, {4, 6}; families {0, 1, 2}, {3, 4, 5}, {6}.
    assert_eq!(report.pairs, Pairs { planted: 6, said: 7, right: 3 });
    let (by_chance, most) = (6.0 * 7.0 / 21.0, 6.5);
    assert!((report.rand_index - (3.0 - by_chance) / (most - by_chance)).abs() < 1e-12);
    assert_eq!(
        report.edits,
        [(Edit::Script, Count { planted: 1, found: 0 }), (Edit::Typos2, Count { planted: 3, found: 2 })]
    );
    assert_eq!(report.apart, [(Edit::Joined, Count { planted: 3, found: 2 })]);
}

#[test]
fn a_perfect_answer_scores_one() {
    let mut scorer = Scorer::default();
    for family in 0..5 {
        scorer.note(family, Role::Original, None);
        scorer.note(family, Role::Copy(Edit::Typos5), Some(family * 2));
    }
    let report = scorer.report();
    assert!((report.rand_index - 1.0).abs() < 1e-12 && (report.pairs.f1() - 1.0).abs() < 1e-12);
    assert!((report.removed.share() - 1.0).abs() < 1e-12 && report.lost.share() == 0.0);
}

#[test]
fn natural_copies_are_left_out() {
    let sets = [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![1, 2, 9, 10, 11], vec![1, 20, 21, 22], vec![1, 2, 3, 4]];
    assert_eq!(clean(&sets, 0.3), [true, true, false, true, false]);
}

#[test]
fn a_background_is_counted_as_pair_by_pair() {
    let sets = [vec![1, 2, 3], vec![2, 3, 4], vec![7, 8], vec![3, 7]];
    // Jaccard indices of all pairs: 2/4, 0, 1/4; 0, 1/4; 1/3.
    let banding = Banding::new(8, 2, SketchForm::new(16, SlotBits::B8).unwrap()).unwrap();
    let expected: f64 = [0.5, 0.25, 0.25, 1.0 / 3.0].map(|jaccard| banding.recall(jaccard, 1)).iter().sum();
    let found = BackgroundSimilarity::of(&sets).candidates(banding, 1, 1000);
    assert!((found - expected / 6.0 * 1000.0).abs() < 1e-9, "{found}");
    assert_eq!(set_of(&[3, 1, 3]), [1, 3]);
}

#[test]
fn a_histogram_tells_nearly_as_much_as_the_pairs_themselves() {
    // Pairs of texts of 40 to 140 shingles that share few of them: indices from 0.004 to 0.2.
    let sets: Vec<Vec<u32>> = (0_u32..60)
        .map(|text| {
            let own = text * 1000..text * 1000 + 40 + (text * 37) % 100;
            set_of(&own.chain((0..text % 23).map(|shared| 100_000 + shared)).collect::<Vec<_>>())
        })
        .collect();
    let background = BackgroundSimilarity::of(&sets);
    let again = BackgroundSimilarity::from_histogram(&background.histogram());
    for (bands, rows, least) in [(42, 3, 1), (42, 3, 2), (14, 8, 1), (16, 2, 3)] {
        let banding = Banding::new(bands, rows, SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
        let [exact, repeated] =
            [&background, &again].map(|background| background.candidates(banding, least, 1_000_000));
        assert!((repeated / exact - 1.0).abs() < 0.2, "{bands} x {rows}, {least}: {repeated}, exactly {exact}");
    }
}

#[test]
fn longer_shingles_and_more_keys_find_fewer_strangers_in_every_kind_of_text() {
    let banding = Banding::new(42, 3, SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
    let at = |han, other, min_shared_bands| {
        chances(Shingling::of_characters(han, other), banding, min_shared_bands, 10_000_000)
    };
    let mut before = at(1, 1, 1);
    assert_eq!(before.len(), 3, "a kind without a row");
    assert!(chances(Shingling::of_words(2, 3), banding, 1, 10_000_000).is_empty(), "words are not counted");
    for (han, other) in [(3, 5), (4, 6), (5, 7), (6, 8)] {
        let found = at(han, other, 1);
        for (longer, shorter) in found.iter().zip(&before) {
            assert!(longer.found < shorter.found, "{longer:?} {shorter:?}");
            assert!((longer.found - longer.compared).abs() < 1e-9, "one key: all that is found is compared");
        }
        before = found;
    }
    // What `eval` measured on another cut of the same texts: 1,536 and 12, 79 and 11, 928 and 7.
    let defaults = at(4, 7, 2);
    for (chance, (found, compared)) in defaults.iter().zip([(1536.0, 12.0), (79.0, 11.0), (928.0, 7.0)]) {
        let (found, compared) = (chance.found / found, chance.compared / compared);
        assert!((0.3..3.0).contains(&found) && (0.1..4.0).contains(&compared), "{chance:?}");
    }
    assert_eq!(at(4, 99, 2), at(4, 9, 2), "the nearest length that was measured");
}

/// Pages of a small vocabulary with codes and sketches of few values, so that all kinds of pairs occur.
fn any_page() -> impl Strategy<Value = Sample> {
    let code = proptest::option::of(0_u64..16);
    let bytes =
        (proptest::collection::vec(0_u8..2, 16), 5_u8..40).prop_map(|(slots, size)| [&slots[..], &[0, size]].concat());
    (code, proptest::option::of(bytes), proptest::collection::vec(0_u32..12, 0..8)).prop_map(
        |(code, bytes, shingles)| {
            let (simhash, sketch) = (code.map(SimHash::B64), bytes.map(|bytes| Sketch::from_bytes(&bytes)));
            Sample { simhash, sketch, shingles: set_of(&shingles) }
        },
    )
}

proptest! {
    /// Two nested loops over all pairs.
    #[test]
    fn a_sweep_finds_and_counts_what_a_scan_does(
        pages in proptest::collection::vec(any_page(), 0..12), most in 0_u8..=8,
        least in (0_u16..1000).prop_map(PerMille), truth in 0.1..1.0_f64, one_band_below in 0_u16..6
    ) {
        let form = SketchForm::new(16, SlotBits::B8).unwrap().with_count();
        let low_confidence = LowConfidence { below: PerMille(500), containment: PerMille(700), ..LowConfidence::DISABLED };
        let banding = Banding::new(5, 3, form).unwrap();
        let rules = MinHashRules {
            form,
            banding,
            min_shared_bands: 2,
            one_band_below,
            min_similarity: PerMille::ZERO,
            containment: None,
            low_confidence,
            max_bucket: 0,
        };
        let sweep = Sweep::of(&pages, Some(rules));
        let (mut expected, mut by_bits, mut near) = (Vec::new(), Pairs::default(), std::collections::BTreeSet::new());
        for (other, page) in pages.iter().enumerate() {
            for (one, earlier) in pages[..other].iter().enumerate() {
                let jaccard = jaccard(&page.shingles, &earlier.shingles);
                let bits = page.simhash.zip(earlier.simhash).map(|(a, b)| (a.bits() ^ b.bits()).count_ones());
                let estimate = page.sketch.as_ref().zip(earlier.sketch.as_ref()).and_then(|(a, b)| {
                    let bands = (0..5).filter(|band| a.bytes()[band * 3..][..3] == b.bytes()[band * 3..][..3]).count();
                    let distance = form.distance(a, b);
                    let estimate = form.similarity(distance);
                    let sure = estimate >= PerMille(500) || form.contained(a, b, distance, 3) >= Some(PerMille(700));
                    let needed = if page.shingles.len() < usize::from(one_band_below) { 1 } else { 2 };
                    (bands >= needed && sure).then_some(estimate)
                });
                if jaccard >= 0.1 || bits.is_some_and(|bits| bits <= 8) || estimate.is_some_and(|it| it >= PerMille(100)) {
                    expected.push(Alike { one, other, jaccard, bits, estimate });
                }
                let (right, said) = (jaccard >= truth, bits.is_some_and(|bits| bits <= u32::from(most)));
                by_bits.planted += u64::from(right);
                by_bits.said += u64::from(said);
                by_bits.right += u64::from(right && said);
                if said {
                    near.insert(other);
                }
            }
        }
        prop_assert_eq!(&sweep.alike, &expected);
        prop_assert_eq!(sweep.bits(most, truth), Tried { near: near.len(), pairs: by_bits });
        let by_sketch = expected.iter().filter(|alike| alike.estimate.is_some_and(|it| it >= least.max(PerMille(100)))).count();
        prop_assert_eq!(sweep.similarity(least.max(PerMille(100)), truth).pairs.said, by_sketch as u64);
    }
}

fn alike(jaccard: f64, bits: u32) -> Alike {
    Alike { one: 0, other: 1, jaccard, bits: Some(bits), estimate: None }
}

#[test]
fn the_valley_lies_between_the_strangers_and_the_copies() {
    let of = |pairs: &[(f64, usize)]| {
        let alike = pairs.iter().flat_map(|&(jaccard, count)| vec![alike(jaccard, 9); count]).collect();
        Sweep { alike }.valley()
    };
    let strangers = [(0.12, 900), (0.17, 100), (0.22, 20), (0.27, 3)];
    let copies = [(0.52, 5), (0.67, 20), (0.82, 60), (0.97, 300)];
    let valley = of(&[strangers, copies].concat()).unwrap();
    assert!((0.34..0.46).contains(&valley), "{valley}");
    // Copies of all degrees, close upon the unrelated texts: the first rise counts, not the emptiest cell farther on.
    let low = of(&[&strangers[..2], &[(0.22, 8), (0.32, 45), (0.42, 87), (0.52, 70), (0.97, 300)]].concat()).unwrap();
    assert!((0.19..0.3).contains(&low), "{low}");
    assert_eq!(of(&strangers), None, "strangers alone");
    assert_eq!(of(&[&strangers[..], &[(0.45, 1), (0.6, 1)]].concat()), None, "a pair or two by chance");
    assert_eq!(of(&[]), None);
}

#[test]
fn a_distance_is_recommended_as_long_as_its_own_pairs_are_confirmed() {
    let recommended = |pairs: &[(u32, f64, usize)]| {
        let alike = pairs.iter().flat_map(|&(bits, jaccard, count)| vec![alike(jaccard, bits); count]).collect();
        Sweep { alike }.recommended_bits(0.5)
    };
    assert_eq!(recommended(&[(0, 1.0, 9)]), Some(0), "what is not needed is not recommended");
    assert_eq!(recommended(&[(1, 0.9, 9), (4, 0.8, 3)]), Some(4), "a gap is no end");
    let bad = [(1, 0.9, 9), (3, 0.8, 40), (3, 0.1, 2), (5, 0.1, 1), (6, 0.9, 50)];
    assert_eq!(recommended(&bad), Some(3), "the first bad one is");
    assert_eq!((recommended(&[(2, 0.2, 1)]), recommended(&[])), (None, None), "nothing is known");
}

#[test]
fn pairs_in_doubt_come_first_and_equal_texts_never() {
    let sweep = Sweep { alike: vec![alike(1.0, 0), alike(0.9, 20), alike(0.2, 1), alike(0.45, 30), alike(0.1, 30)] };
    let doubtful: Vec<f64> = sweep.doubtful(0.5, 3, PerMille(500), 4).iter().map(|alike| alike.jaccard).collect();
    assert_eq!(doubtful, [0.2, 0.9, 0.45, 0.1]);
}

fn originals(texts: &[&str]) -> Vec<Planted> {
    let page =
        |(family, text): (usize, &&str)| Planted { family, role: Role::Original, also: None, text: (*text).to_owned() };
    texts.iter().enumerate().map(page).collect()
}

fn reader() -> Fingerprinter {
    let input = InputSettings { format: Format::Text, event_time: EventTime::Record, ..InputSettings::default() };
    let input = InputSettings { fields: Fields::nowhere(), ..input };
    Fingerprinter::new(&input, &text::Settings::default(), &Settings::default(), std::num::NonZeroUsize::MIN).unwrap()
}

#[test]
fn a_page_is_matched_with_the_most_alike_of_those_called_unique() {
    // 1 is a copy of 0; 2 is most like 1, which is not there to be found; 4 is as like to 0 as to 3.
    let likes =
        SimilarPairs::of([&[][..], &[(0, 900)], &[(0, 300), (1, 950)], &[(0, 150)], &[(0, 700), (1, 800), (3, 700)]]);
    let stream = originals(&[""; 5]);
    let verdicts = |least| Baseline::Jaccard.verdicts(&likes, least, &stream);
    assert_eq!(verdicts(200), [None, Some(0), Some(0), None, Some(0)]);
    assert_eq!(verdicts(301), [None, Some(0), None, None, Some(0)]);
    assert_eq!(verdicts(900), [None, Some(0), None, None, None]);
    assert_eq!(verdicts(901), [None, None, Some(1), None, None], "the threshold belongs to what matches");
}

#[test]
fn what_shares_a_band_is_joined_and_what_is_apart_joins_nothing() {
    // 3 joins 0 and 2, which came before; 5, apart, is like 1 and 4.
    let likes = SimilarPairs::of([&[][..], &[], &[(1, 1)], &[(0, 1), (2, 1)], &[], &[(1, 1), (4, 1)]]);
    let mut stream = originals(&[""; 6]);
    stream[5].role = Role::Apart(Edit::Joined);
    let verdicts = Baseline::WordBands.verdicts(&likes, 1, &stream);
    assert_eq!(verdicts, [None, Some(0), Some(0), Some(0), None, Some(0)]);
}

#[test]
fn a_threshold_is_chosen_in_the_middle_of_the_best() {
    // One copy at .62; unrelated texts at .33: what is best lies above .33 and up to .62.
    let likes = SimilarPairs::of([&[][..], &[(0, 620)], &[(0, 330), (1, 330)]]);
    let mut stream = originals(&[""; 3]);
    (stream[1].family, stream[1].role) = (0, Role::Copy(Edit::Typos2));
    assert_eq!(Baseline::Jaccard.choose(&likes, &stream), 500, "of 350, 400 ... 600");
}

#[test]
fn baselines_see_what_a_scan_of_all_pairs_sees() {
    let texts: Vec<String> = (0..8).map(|number| format!("{} {EN} {ZH}", STRANGE.repeat(number % 3))).collect();
    let stream = plant(&texts, PlantSettings { seed: 3, copies: 5 });
    let reader = reader();
    let looker = PairwiseReader::new(&reader, &Settings::default()).unwrap();
    let shingles = Settings::default().minhash.shingle;
    let sets: Vec<Vec<u32>> = stream
        .iter()
        .map(|page| {
            let (mut normal, mut hashes) = (String::new(), Vec::new());
            let body = Body::Text((&*page.text).into());
            let normal = reader.analyzer().normalize(&body, &mut normal).unwrap().text;
            shingles.hashes(reader.analyzer(), normal, &mut ShingleBuffer::default(), &mut hashes);
            set_of(&hashes)
        })
        .collect();
    let expected: Vec<Vec<(u32, u16)>> = (0..stream.len())
        .map(|page| {
            let how = |other: usize| {
                let exact = jaccard(&sets[page], &sets[other]) * 1000.0 + 1e-6;
                (0..=1000).rev().find(|how| f64::from(*how) <= exact).unwrap()
            };
            (0..page).map(|other| (u32::try_from(other).unwrap(), how(other))).filter(|(_, how)| *how >= 100).collect()
        })
        .collect();
    assert_eq!(looker.likes(Baseline::Jaccard, &stream), SimilarPairs::of(expected.iter().map(Vec::as_slice)));
}

#[test]
fn rare_words_make_pages_alike_and_their_order_does_not() {
    let stream =
        originals(&["the zebra and the cat", "cat the the and zebra", "the and the", "the dog and a bird", ""]);
    let reader = reader();
    let looker = PairwiseReader::new(&reader, &Settings::default()).unwrap();
    // Pages with it: the 4, and 4, zebra 2, cat 2, dog 1, a 1, bird 1; of 5 pages.
    let idf = |pages: f64| (6.0 / (1.0 + pages)).ln() + 1.0;
    let (common, rare, once) = (idf(4.0), idf(2.0), idf(1.0));
    let norm = |weights: &[f64]| weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
    let [zoo, bare, yard] = [
        norm(&[2.0 * common, common, rare, rare]),
        norm(&[2.0 * common, common]),
        norm(&[common, common, once, once, once]),
    ];
    let how = |product: f64| (0..=1000).rev().find(|how| f64::from(*how) <= product * 1000.0).unwrap();
    let to_bare = how(bare * bare / (zoo * bare));
    let to_yard = how(3.0 * common * common / (zoo * yard));
    let expected = [
        &[][..],
        &[(0, 1000)],
        &[(0, to_bare), (1, to_bare)],
        &[(0, to_yard), (1, to_yard), (2, how(3.0 * common * common / (bare * yard)))],
        &[],
    ];
    assert_eq!(looker.likes(Baseline::Cosine, &stream), SimilarPairs::of(expected));
}

#[test]
fn word_bands_find_copies_and_pages_without_five_words_nothing() {
    let long = EN.repeat(3);
    let nearly = long.replacen("Monday", "Tuesday", 1);
    let stream = originals(&[&long, "four words are few", "four words are few", STRANGE, &long, &nearly]);
    let reader = reader();
    let looker = PairwiseReader::new(&reader, &Settings::default()).unwrap();
    let verdicts = |baseline: Baseline| baseline.verdicts(&looker.likes(baseline, &stream), baseline.usual(), &stream);
    assert_eq!(verdicts(Baseline::WordBands), [None, None, None, None, Some(0), Some(0)]);
    assert_eq!(verdicts(Baseline::SimHash)[..5], [None, None, Some(1), None, Some(0)], "equal texts are equal");
}
