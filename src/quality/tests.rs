//! Streams, edits and counts.

use super::*;
use crate::crawl::Rng;
use crate::fingerprint::{Banding, ShingleLengths, SketchForm, SlotBits};

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
    assert_eq!(traditional.chars().map(crate::text::simplified).collect::<String>(), ZH);
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
    assert_eq!(apply(Edit::DigitsChanged, "no figures"), None);
    assert_eq!(apply(Edit::NoPunctuation, "一句"), None);
}

#[test]
fn copies_stand_behind_their_originals_and_what_is_apart_at_the_end() {
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
    assert_eq!(stream.len() - first_apart, 6);
    let copies = stream.iter().filter(|page| matches!(page.role, Role::Copy(_))).count();
    assert!((80..=90).contains(&copies), "{copies}");
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
    assert_eq!(report.apart, [(Edit::Joined, Count { planted: 1, found: 1 })]);
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
fn a_crowd_is_counted_as_pair_by_pair() {
    let sets = [vec![1, 2, 3], vec![2, 3, 4], vec![7, 8], vec![3, 7]];
    // Jaccard indices of all pairs: 2/4, 0, 1/4; 0, 1/4; 1/3.
    let banding = Banding::new(8, 2, SketchForm::new(16, SlotBits::B8).unwrap()).unwrap();
    let expected: f64 = [0.5, 0.25, 0.25, 1.0 / 3.0].map(|jaccard| banding.recall(jaccard, 1)).iter().sum();
    let found = Crowd::of(&sets).candidates(banding, 1, 1000);
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
    let crowd = Crowd::of(&sets);
    let again = Crowd::from_histogram(&crowd.histogram());
    for (bands, rows, least) in [(42, 3, 1), (42, 3, 2), (14, 8, 1), (16, 2, 3)] {
        let banding = Banding::new(bands, rows, SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
        let [exact, told] = [&crowd, &again].map(|crowd| crowd.candidates(banding, least, 1_000_000));
        assert!((told / exact - 1.0).abs() < 0.2, "{bands} x {rows}, {least}: {told}, exactly {exact}");
    }
}

#[test]
fn longer_shingles_and_more_keys_find_fewer_strangers_in_every_kind_of_text() {
    let banding = Banding::new(42, 3, SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
    let at = |han, other, agree| chances(ShingleLengths { han, other }, banding, agree, 10_000_000);
    let mut before = at(1, 1, 1);
    assert_eq!(before.len(), 3, "a kind without a row");
    for (han, other) in [(3, 5), (4, 6), (5, 7), (6, 8)] {
        let found = at(han, other, 1);
        for (longer, shorter) in found.iter().zip(&before) {
            assert!(longer.found < shorter.found, "{longer:?} {shorter:?}");
            assert!((longer.found - longer.compared).abs() < 1e-9, "one key: all that is found is compared");
        }
        before = found;
    }
    // What `eval` measured on another cut of the same texts (docs/QUALITY.md): 1,536 and 12, 79 and 11, 928 and 7.
    let defaults = at(4, 7, 2);
    for (chance, (found, compared)) in defaults.iter().zip([(1536.0, 12.0), (79.0, 11.0), (928.0, 7.0)]) {
        let (found, compared) = (chance.found / found, chance.compared / compared);
        assert!((0.3..3.0).contains(&found) && (0.1..4.0).contains(&compared), "{chance:?}");
    }
    assert_eq!(at(4, 99, 2), at(4, 9, 2), "the nearest length that was measured");
}
