//! Why the verdicts of two runs on a page differ, in one sentence.

use std::fmt::Write as _;
use std::time::Duration;

use dupgate_core::replay::{Example, RecordedVerdict, Side, Sides};

use crate::cli::output;
use crate::cli::verdict::{Form, Measure};
use crate::fingerprint::PerMille;
use crate::protocol::{Match, MatchedBy, MinHashRules, Rules, SameId, Stage, VerdictKind};
use crate::record::Source;

/// Returns the form of the sketches that a run compares.
pub(super) fn form(recorded: &RecordedVerdict) -> Form {
    recorded.rules.as_ref()?.minhash.map(|minhash| minhash.form)
}

/// Returns why the verdicts of both runs differ. `verdict` returns a run's verdict on another page.
pub(super) fn why(
    example: &Example,
    names: &Sides<String>,
    verdict: impl Fn(Side, &Source) -> Option<VerdictKind>,
) -> String {
    let Sides { before, after } = &example.verdicts;
    let (Some(before), Some(after)) = (before, after) else {
        let missing = if before.is_none() { Side::Before } else { Side::After };
        return format!("{} has no verdict on this page", names.of(missing));
    };
    let verdicts = Sides { before, after };
    for side in Side::BOTH {
        let of = verdicts.of(side);
        if of.verdict == VerdictKind::Withdrawn {
            let reason = of.reason.map_or("unknown reason", crate::record::Reject::name);
            return format!("{} withdrew the page: {reason}", names.of(side));
        }
    }
    match (before.of.as_deref(), after.of.as_deref()) {
        (Some(one), Some(other)) => of_two(Sides { before: one, after: other }, &verdicts, names, verdict),
        (Some(of), None) => of_one(Side::Before, of, &verdicts, names, verdict),
        (None, Some(of)) => of_one(Side::After, of, &verdicts, names, verdict),
        (None, None) => "no threshold explains it".to_owned(),
    }
}

/// Only one run has matched the page.
fn of_one(
    side: Side,
    of: &Match,
    verdicts: &Sides<&RecordedVerdict>,
    names: &Sides<String>,
    verdict: impl Fn(Side, &Source) -> Option<VerdictKind>,
) -> String {
    let other = side.other();
    let name = names.of(other);
    let rules = verdicts.before.rules.as_deref().zip(verdicts.after.rules.as_deref());
    let rules = rules.map(|(before, after)| Sides { before, after });
    if let Some(words) = rules.as_ref().and_then(|rules| threshold(side, of, rules, names)) {
        return words;
    }
    if let Some(original) = verdict(other, &of.source).filter(|verdict| *verdict != VerdictKind::Unique) {
        if original.is_duplicate() {
            return format!("{} matched a page that {name} calls a duplicate ({})", names.of(side), original.name());
        }
        if original == VerdictKind::Withdrawn {
            return format!("{} matched a page that {name} has withdrawn", names.of(side));
        }
    }
    let differ = rules.map(|Sides { before, after }| differing(before, after)).unwrap_or_default();
    let remembers = format!("{name} remembers other originals (window, warm-up)");
    if differ.is_empty() {
        format!("no threshold explains it: {remembers}")
    } else {
        format!("no threshold explains it: {} differs, or {remembers}", differ.join(", "))
    }
}

/// Returns which threshold of the other run the match does not pass.
fn threshold(side: Side, of: &Match, rules: &Sides<&Rules>, names: &Sides<String>) -> Option<String> {
    let (own, others) = (rules.of(side), rules.of(side.other()));
    let stage = of.by.stage();
    if !others.stages.contains(&stage) || (stage == Stage::MinHash && others.minhash.is_none()) {
        return Some(format!("{} has no stage {}", names.of(side.other()), stage.name()));
    }
    let measure = Measure::of(of, own.minhash.map(|minhash| minhash.form)).in_words();
    let both = |needs: &dyn Fn(&Rules) -> String| {
        format!("{} {}, {} {}", names.before, needs(rules.before), names.after, needs(rules.after))
    };
    match of.by {
        MatchedBy::SimHash { bits } if bits > others.max_distance => {
            return Some(format!("{measure}: {}", both(&|rules| format!("allows {}", rules.max_distance))));
        }
        MatchedBy::Exact | MatchedBy::SimHash { .. } => {}
        MatchedBy::MinHash { slots, contained } => {
            let minhash = others.minhash?;
            if let Some(contained) = contained {
                if minhash.containment.is_none_or(|min| contained < min) {
                    let needs = |rules: &Rules| {
                        let min = rules.minhash.and_then(|minhash| minhash.containment);
                        min.map_or_else(|| "does not match by containment".to_owned(), |min| format!("needs {min}"))
                    };
                    return Some(format!("{measure}: {}", both(&needs)));
                }
            } else if minhash.form.similarity(slots) < minhash.min_similarity {
                let min = |rules: &Rules| rules.minhash.map_or(PerMille::ZERO, |minhash| minhash.min_similarity);
                return Some(format!("{measure}: {}", both(&|rules| format!("needs {}", min(rules)))));
            }
        }
    }
    let age = Duration::from_millis(u64::try_from(of.age_ms).unwrap_or(0));
    (age > others.windows.of(stage)).then(|| {
        let window = |rules: &Rules| output::span(rules.windows.of(stage));
        let (before, after) = (window(rules.before), window(rules.after));
        let age = output::span(age);
        format!("the original is {age} older: {} remembers {before}, {} {after}", names.before, names.after)
    })
}

/// Both runs have matched the page.
fn of_two(
    of: Sides<&Match>,
    verdicts: &Sides<&RecordedVerdict>,
    names: &Sides<String>,
    verdict: impl Fn(Side, &Source) -> Option<VerdictKind>,
) -> String {
    if of.before.source != of.after.source {
        let measured = |side: Side| {
            let of = of.of(side);
            let measure = Measure::of(of, form(verdicts.of(side))).in_words();
            format!("{} matched {} ({measure})", names.of(side), of.source)
        };
        let mut words = format!("original differs: {}, {}", measured(Side::Before), measured(Side::After));
        for side in Side::BOTH {
            let (of, name) = (&of.of(side).source, names.of(side.other()));
            if let Some(other) = verdict(side.other(), of).filter(|other| other.is_duplicate()) {
                // Writing to a `String` cannot fail.
                let _ = write!(words, "; {of} is a duplicate in {name} ({})", other.name());
            }
        }
        return words;
    }
    let (Some(before), Some(after)) = (&verdicts.before.rules, &verdicts.after.rules) else {
        return "same original, and the rules are not known".to_owned();
    };
    let is = |one: VerdictKind| verdicts.before.verdict == one || verdicts.after.verdict == one;
    if is(VerdictKind::Update) && before.same_id != after.same_id {
        let [before, after] = [before, after].map(|rules| match rules.same_id {
            SameId::Update => VerdictKind::Update.name(),
            SameId::Duplicate => "duplicate",
        });
        return format!("same id: match.same_id is {before} in {}, {after} in {}", names.before, names.after);
    }
    if is(VerdictKind::Template) && before.number_guard != after.number_guard {
        let [before, after] = [before, after].map(|rules| match rules.number_guard {
            Some(min) => format!("needs {min} of them in common"),
            None => "does not compare them".to_owned(),
        });
        return format!("the numbers differ: {} {before}, {} {after}", names.before, names.after);
    }
    "same original, and no threshold explains it".to_owned()
}

/// Lists the settings that decide verdicts and that differ.
fn differing(one: &Rules, other: &Rules) -> Vec<&'static str> {
    let minhash = |differs: fn(MinHashRules, MinHashRules) -> bool| {
        one.minhash.zip(other.minhash).is_some_and(|(one, other)| differs(one, other))
    };
    [
        ("match.stages", one.stages != other.stages),
        ("match.simhash.max_distance", one.max_distance != other.max_distance),
        ("match.simhash.min_similarity", one.simhash_similarity != other.simhash_similarity),
        ("match.minhash.min_similarity", minhash(|one, other| one.min_similarity != other.min_similarity)),
        ("match.minhash.containment", minhash(|one, other| one.containment != other.containment)),
        (
            "match.minhash.bands",
            minhash(|one, other| one.banding != other.banding || one.min_shared_bands != other.min_shared_bands),
        ),
        ("match.minhash.one_band_below", minhash(|one, other| one.one_band_below != other.one_band_below)),
        ("match.minhash.low_confidence", minhash(|one, other| one.low_confidence != other.low_confidence)),
        ("match.minhash.max_bucket", minhash(|one, other| one.max_bucket != other.max_bucket)),
        ("match.same_id", one.same_id != other.same_id),
        ("match.same_site", one.same_site != other.same_site),
        ("match.number_guard", one.number_guard != other.number_guard),
        ("window", one.windows != other.windows || one.lateness != other.lateness),
        ("index.max_memory", one.max_entries != other.max_entries),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::PerStage;
    use crate::record::{PartitionId, Reject};

    fn rules(assignments: &[&str]) -> Rules {
        let set: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
        let sources = crate::config::Sources { set, ..crate::config::Sources::default() };
        let loaded = crate::config::load(&sources, crate::config::Purpose::Sieve);
        loaded.unwrap_or_else(|refused| panic!("{refused}")).settings.rules
    }

    fn at(offset: i64) -> Source {
        PartitionId::new("pages", 0).at(offset)
    }

    fn matched(by: MatchedBy, original: i64) -> Match {
        Match { by, source: at(original), age_ms: 3_600_000, cluster: at(original) }
    }

    fn recorded(verdict: VerdictKind, of: Option<Match>, rules: &Rules) -> RecordedVerdict {
        RecordedVerdict { verdict, of: of.map(Box::new), reason: None, rules: Some(Arc::new(rules.clone())) }
    }

    fn words(
        before: Option<RecordedVerdict>,
        after: Option<RecordedVerdict>,
        reason: &[(Side, i64, VerdictKind)],
    ) -> String {
        let names = Sides { before: "live".to_owned(), after: "replay 7c1f".to_owned() };
        why(&Example { source: at(9), verdicts: Sides { before, after } }, &names, |side, source| {
            let (_, _, verdict) = reason.iter().find(|(of, offset, _)| (*of, *offset) == (side, source.offset))?;
            Some(*verdict)
        })
    }

    /// Live is unique, the replay near.
    fn gained(of: Match, live: &Rules, tried: &Rules, reason: &[(Side, i64, VerdictKind)]) -> String {
        words(
            Some(recorded(VerdictKind::Unique, None, live)),
            Some(recorded(VerdictKind::Near, Some(of), tried)),
            reason,
        )
    }

    #[test]
    fn the_threshold_that_the_match_does_not_pass_is_named_with_both_values() {
        let live = rules(&["match.minhash.min_similarity=0.5"]);
        let tried = rules(&["match.minhash.min_similarity=0.3"]);
        let form = live.minhash.unwrap().form;
        let slots = (0..=u8::MAX).find(|slots| form.similarity(*slots) < PerMille(450)).unwrap();
        let similarity = form.similarity(slots);
        let of = matched(MatchedBy::MinHash { slots, contained: None }, 3);
        let expected = format!("similarity {similarity}: live needs 0.5, replay 7c1f needs 0.3");
        assert_eq!(gained(of.clone(), &live, &tried, &[]), expected);
        let lost = words(
            Some(recorded(VerdictKind::Near, Some(of), &tried)),
            Some(recorded(VerdictKind::Unique, None, &live)),
            &[],
        );
        assert_eq!(lost, format!("similarity {similarity}: live needs 0.3, replay 7c1f needs 0.5"));

        let bits = |max_distance| Rules { max_distance, stages: Stage::ALL.to_vec(), ..live.clone() };
        let of = matched(MatchedBy::SimHash { bits: 4 }, 3);
        assert_eq!(gained(of, &bits(3), &bits(4), &[]), "4 bits differ: live allows 3, replay 7c1f allows 4");

        let mut by_containment = live.clone();
        by_containment.minhash.as_mut().unwrap().containment = Some(PerMille(800));
        let of = matched(MatchedBy::MinHash { slots, contained: Some(PerMille(875)) }, 3);
        assert_eq!(
            gained(of, &live, &by_containment, &[]),
            "0.875 of the smaller page is in the other: live does not match by containment, replay 7c1f needs 0.8"
        );
    }

    #[test]
    fn a_stage_that_is_missing_and_a_window_that_is_shorter_are_named() {
        let live = rules(&[]);
        let without = Rules { stages: vec![Stage::Exact], ..live.clone() };
        assert_eq!(
            gained(matched(MatchedBy::MinHash { slots: 0, contained: None }, 3), &without, &live, &[]),
            "live has no stage minhash"
        );
        let short = Rules { windows: PerStage::all(Duration::from_mins(30)), ..live.clone() };
        let long = Rules { windows: PerStage::all(Duration::from_hours(2)), ..live };
        assert_eq!(
            gained(matched(MatchedBy::MinHash { slots: 0, contained: None }, 3), &short, &long, &[]),
            "the original is 1 h older: live remembers 30 min, replay 7c1f 2 h"
        );
    }

    #[test]
    fn without_a_threshold_the_original_or_the_remembered_originals_explain_it() {
        let live = rules(&[]);
        let of = || matched(MatchedBy::MinHash { slots: 0, contained: None }, 3);
        assert_eq!(
            gained(of(), &live, &live, &[(Side::Before, 3, VerdictKind::Near)]),
            "replay 7c1f matched a page that live calls a duplicate (near)"
        );
        assert_eq!(
            gained(of(), &live, &live, &[(Side::Before, 3, VerdictKind::Withdrawn)]),
            "replay 7c1f matched a page that live has withdrawn"
        );
        assert_eq!(
            gained(of(), &live, &live, &[(Side::Before, 3, VerdictKind::Unique), (Side::After, 3, VerdictKind::Near)]),
            "no threshold explains it: live remembers other originals (window, warm-up)"
        );
        let other = Rules { same_site: None, max_entries: 7, ..live.clone() };
        let reason = gained(of(), &other, &live, &[]);
        assert!(
            reason.ends_with("index.max_memory differs, or live remembers other originals (window, warm-up)"),
            "{reason}"
        );
    }

    #[test]
    fn two_matches_differ_by_their_original_or_by_other_comparisons_than_text() {
        let live = rules(&[]);
        let of =
            |verdict, original| Some(recorded(verdict, Some(matched(MatchedBy::SimHash { bits: 2 }, original)), &live));
        assert_eq!(
            words(of(VerdictKind::Near, 3), of(VerdictKind::Template, 4), &[(Side::Before, 4, VerdictKind::Exact)]),
            "original differs: live matched pages:0:3 (2 bits differ), replay 7c1f matched pages:0:4 (2 bits differ); \
             pages:0:4 is a duplicate in live (exact)"
        );
        assert_eq!(
            words(of(VerdictKind::Near, 3), of(VerdictKind::Template, 3), &[]),
            "same original, and no threshold explains it"
        );
        let guarded = Rules { number_guard: Some(PerMille(250)), ..live.clone() };
        let plain = Rules { number_guard: None, ..live.clone() };
        let near =
            |verdict, rules: &Rules| Some(recorded(verdict, Some(matched(MatchedBy::SimHash { bits: 2 }, 3)), rules));
        assert_eq!(
            words(near(VerdictKind::Near, &plain), near(VerdictKind::Template, &guarded), &[]),
            "the numbers differ: live does not compare them, replay 7c1f needs 0.25 of them in common"
        );
        let update = Rules { same_id: SameId::Update, ..live.clone() };
        let duplicate = Rules { same_id: SameId::Duplicate, ..live };
        assert_eq!(
            words(near(VerdictKind::Update, &update), near(VerdictKind::Near, &duplicate), &[]),
            "same id: match.same_id is update in live, duplicate in replay 7c1f"
        );
    }

    #[test]
    fn a_page_that_one_run_lacks_or_withdrew_is_named_as_such() {
        let live = rules(&[]);
        let unique = || Some(recorded(VerdictKind::Unique, None, &live));
        assert_eq!(words(unique(), None, &[]), "replay 7c1f has no verdict on this page");
        let withdrawn = RecordedVerdict { reason: Some(Reject::Gone), ..recorded(VerdictKind::Withdrawn, None, &live) };
        let verdicts = words(Some(withdrawn), unique(), &[]);
        assert_eq!(verdicts, format!("live withdrew the page: {}", Reject::Gone.name()));
    }
}
