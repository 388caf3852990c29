use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::crawl::Damage;

fn near(original: &str) -> Truth {
    Truth::Near { edit: Edit::Typo, original: original.to_owned() }
}

fn exact(original: &str) -> Truth {
    Truth::Exact { original: original.to_owned() }
}

/// Plants a page and notes its verdict at once.
fn see(scorer: &mut Scorer, key: &str, truth: &Truth, found: Found, matched: Option<&str>) {
    scorer.plant(key, truth);
    scorer.note(key, truth, found, matched);
}

fn typos(scorer: &Scorer) -> Copies {
    scorer.report().copies[&Kind::Near(Edit::Typo)]
}

#[test]
fn a_copy_is_found_when_it_is_called_a_duplicate_of_its_family() {
    let mut scorer = Scorer::new(100);
    see(&mut scorer, "root", &Truth::Unique, Found::Unique, None);
    see(&mut scorer, "other", &Truth::Unique, Found::Unique, None);
    see(&mut scorer, "missed", &near("root"), Found::Unique, None);
    see(&mut scorer, "by the root", &near("root"), Found::Near, Some("root"));
    see(&mut scorer, "by a copy", &near("root"), Found::Exact, Some("missed"));
    see(&mut scorer, "by another", &near("root"), Found::Near, Some("other"));
    assert_eq!(typos(&scorer), Copies { planted: 4, found: 2, wrong: 1, missed: 1, dead: 0 });
    assert_eq!(typos(&scorer).recall(), Some(0.5));
    let report = scorer.report();
    assert_eq!(report.said["near"], Said { said: 2, right: 1 });
    assert_eq!(report.said["exact"], Said { said: 1, right: 1 });
    assert_eq!(report.uniques, Uniques { planted: 2, kept: 2, ..Uniques::default() });
}

#[test]
fn an_original_after_its_copy_finds_the_pair_once() {
    let mut scorer = Scorer::new(100);
    see(&mut scorer, "copy", &near("root"), Found::Unique, None);
    assert_eq!((typos(&scorer).found, typos(&scorer).missed), (0, 1));
    see(&mut scorer, "root", &Truth::Unique, Found::Near, Some("copy"));
    assert_eq!((typos(&scorer).found, typos(&scorer).missed), (1, 0));
    let report = scorer.report();
    assert_eq!(report.uniques, Uniques { planted: 1, behind_their_copy: 1, ..Uniques::default() });
    assert_eq!(report.all_said().precision(), Some(1.0));
    see(&mut scorer, "stranger", &Truth::Unique, Found::Near, Some("copy"));
    assert_eq!((scorer.report().uniques.lost, typos(&scorer).found), (1, 1));
}

#[test]
fn verdicts_may_be_seen_in_any_order() {
    let truths = [("root", Truth::Unique), ("copy", near("root")), ("far", near("root"))];
    let found = [(Found::Near, Some("copy")), (Found::Unique, None), (Found::Near, Some("root"))];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut scorer = Scorer::new(100);
        truths.iter().for_each(|(key, truth)| scorer.plant(key, truth));
        for index in order {
            let ((key, truth), (found, matched)) = (&truths[index], found[index]);
            scorer.note(key, truth, found, matched);
        }
        assert_eq!(typos(&scorer), Copies { planted: 2, found: 2, ..Copies::default() }, "{order:?}");
        assert_eq!(scorer.report().uniques.behind_their_copy, 1);
    }
}

#[test]
fn broken_records_are_right_as_dead_letters_with_their_reason() {
    let mut scorer = Scorer::new(100);
    let truth = Truth::Broken { damage: Damage::WrongType };
    see(&mut scorer, "a", &truth, Found::Dead(Reject::WrongType), None);
    see(&mut scorer, "b", &truth, Found::Dead(Reject::Undecodable), None);
    see(&mut scorer, "c", &truth, Found::Unique, None);
    see(&mut scorer, "d", &Truth::Unique, Found::Dead(Reject::NoText), None);
    let report = scorer.report();
    assert_eq!(report.broken["wrong_type"], Broken { planted: 3, dead: 1, other_reason: 1, judged: 1 });
    assert_eq!(report.uniques.dead, 1);
    assert!(report.to_string().contains("dead, not broken          1"));
}

#[test]
fn memory_holds_no_more_pages_than_asked() {
    let mut scorer = Scorer::new(3);
    for number in 0..50 {
        see(&mut scorer, &format!("p{number}"), &Truth::Unique, Found::Unique, None);
    }
    assert_eq!((scorer.families.len(), scorer.order.len()), (3, 3));
    see(&mut scorer, "late", &exact("p1"), Found::Exact, Some("p1"));
    assert_eq!(scorer.report().copies[&Kind::Exact].wrong, 1, "a family forgotten is not vouched for");
}

#[test]
fn the_table_says_what_was_missed_by_kind() {
    let mut scorer = Scorer::new(100);
    see(&mut scorer, "root", &Truth::Unique, Found::Unique, None);
    see(&mut scorer, "a", &near("root"), Found::Unique, None);
    see(&mut scorer, "b", &exact("root"), Found::Exact, Some("root"));
    let table = scorer.report().to_string();
    let row =
        |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row("exact "), ["exact", "1", "1", "0", "0", "100.0", "%"]);
    assert_eq!(row("typo"), ["typo", "1", "0", "1", "0", "0.0", "%"]);
    assert_eq!(row("script"), ["script", "0", "0", "0", "0", "-"]);
    assert_eq!(row("all copies"), ["all", "copies", "2", "1", "1", "0", "50.0", "%"]);
    let json = scorer.report().to_json();
    assert_eq!(json.pointer("/copies/typo/missed").unwrap(), 1);
    assert_eq!(json.pointer("/verdicts/all/precision").unwrap(), 1.0);
    assert!(json.pointer("/copies/script/recall").unwrap().is_null());
}

proptest! {
    #[test]
    fn every_page_is_counted_exactly_once(steps in prop::collection::vec((0..4_u8, 0..5_u8, 0..40_usize, 0..40_usize), 0..120)) {
        let mut scorer = Scorer::new(1000);
        let mut planted: HashMap<&str, u64> = HashMap::new();
        for (number, (truth, found, original, matched)) in steps.into_iter().enumerate() {
            let of = format!("p{original}");
            let (name, truth) = match truth {
                0 => ("unique", Truth::Unique),
                1 => ("copy", exact(&of)),
                2 => ("copy", near(&of)),
                _ => ("broken", Truth::Broken { damage: Damage::EmptyText }),
            };
            *planted.entry(name).or_default() += 1;
            let matched = format!("p{matched}");
            let (found, matched) = match found {
                0 => (Found::Unique, None),
                1 => (Found::Exact, Some(matched.as_str())),
                2 => (Found::Near, Some(matched.as_str())),
                3 => (Found::Update, Some(matched.as_str())),
                _ => (Found::Dead(Reject::NoText), None),
            };
            see(&mut scorer, &format!("p{number}"), &truth, found, matched);
        }
        let of = |name: &str| planted.get(name).copied().unwrap_or(0);
        let report = scorer.report();
        let copies = report.all_copies();
        prop_assert_eq!(copies.planted, of("copy"));
        prop_assert_eq!(copies.found + copies.wrong + copies.missed + copies.dead, of("copy"));
        let it = report.uniques;
        prop_assert_eq!((it.planted, it.kept + it.behind_their_copy + it.lost + it.dead), (of("unique"), of("unique")));
        let broken: u64 = report.broken.values().map(|it| it.dead + it.other_reason + it.judged).sum();
        prop_assert_eq!(broken, of("broken"));
        let all = report.all_said();
        prop_assert!(all.right <= all.said);
    }
}
