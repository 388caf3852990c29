use dupgate_core::replay::{InputRange, Order, Reads, Target};

use super::*;
use crate::config::settings::Settings;
use crate::protocol::{Answer, Decision, Match, MatchedBy, PageVerdict, RequestId, Stage, Verdict};
use crate::record::{PartitionId, Reject, Timestamp};
use crate::text::Analyzer;

fn settings() -> Settings {
    let loaded = crate::config::load(&crate::config::Sources::default(), crate::config::Purpose::Sieve);
    loaded.unwrap_or_else(|refused| panic!("{refused}")).settings
}

fn at(offset: i64) -> Source {
    PartitionId::new("pages", 0).at(offset)
}

fn plan() -> Plan {
    let range = InputRange { topic: "pages".to_owned(), partition: 0, warm_from: 0, from: 0, to: 20 };
    Plan {
        version: Plan::VERSION,
        id: "7c1f".to_owned(),
        created_ms: 1,
        cluster: "c".to_owned(),
        group: "crawl".to_owned(),
        logs: "crawl".to_owned(),
        order: Order::Log,
        reads: Reads::Pages,
        into: Target::Verdicts,
        set: vec!["match.minhash.min_similarity=0.3".to_owned()],
        live_scheme: "s".to_owned(),
        scheme: "s".to_owned(),
        rules: vec![],
        input: vec![range],
        files: vec![],
        verdict_log: vec![],
        output: dupgate_core::replay::Shadow::default(),
        records: 20,
        warm_up_records: 0,
        warnings: vec![],
        writes: String::new(),
        replication_factor: 0,
        hash: String::new(),
    }
    .sealed()
}

/// A verdict: near another page, or unique.
fn verdict(offset: i64, original: Option<i64>) -> Verdict {
    let of = |original| Match {
        by: MatchedBy::SimHash { bits: 4 },
        source: at(original),
        age_ms: 60_000,
        cluster: at(original),
    };
    let decision = match original {
        Some(original) => Decision::Duplicate { of: of(original) },
        None => Decision::Unique { original: None },
    };
    let page = PageVerdict {
        source: at(offset),
        event_time: Timestamp::default(),
        digest: crate::fingerprint::PageDigest(0),
        decision,
    };
    Verdict { request: RequestId(1), answer: Answer::Page(page) }
}

/// Pages 0 to 9 are unique in both; 10 to 12 are near in the replay only, 13 in live only; 14 is known to live only,
/// and 15 was withdrawn by the replay.
fn counted(plan: &Plan) -> Counted<'_> {
    let rules = settings().rules;
    let live =
        std::sync::Arc::new(crate::protocol::Rules { max_distance: 3, stages: Stage::ALL.to_vec(), ..rules.clone() });
    let tried = std::sync::Arc::new(crate::protocol::Rules { max_distance: 5, stages: Stage::ALL.to_vec(), ..rules });
    let mut changes = Changes::new(&plan.ranges(), 2);
    for offset in 0..16 {
        let (before, after) = ((offset == 13).then_some(1), (10..13).contains(&offset).then_some(offset - 1));
        changes.push(Side::Before, &verdict(offset, before), Some(&live));
        match offset {
            14 => {}
            15 => {
                let answer = Answer::Withdrawn { source: at(15), reason: Reject::Gone };
                changes.push(Side::After, &Verdict { request: RequestId(1), answer }, Some(&tried));
            }
            offset => changes.push(Side::After, &verdict(offset, after), Some(&tried)),
        }
    }
    let compared = changes.finish();
    let anchors = compared.examples.iter().map(|example| example.source.clone()).collect();
    let names = Sides { before: LIVE.to_owned(), after: format!("replay {}", plan.id) };
    Counted { plan, names, compared, records: plan.records, anchors }
}

#[test]
fn counts_fit_one_line() {
    let plan = plan();
    assert_eq!(
        line(&counted(&plan)),
        "same verdict 10 (62.5 %)   unique -> near 3   unique only in live 1   unique -> withdrawn 1   near -> unique 1"
    );
}

#[test]
fn programs_get_counts_and_examples() {
    let plan = plan();
    let object = object(&counted(&plan));
    assert_eq!(object["changed"], json!({"unique -> near": 3, "near -> unique": 1, "unique -> withdrawn": 1}));
    assert_eq!((&object["only_in_against"], &object["only_in_replay"]), (&json!({"unique": 1}), &json!({})));
    assert_eq!((&object["against"], &object["pages"], &object["same"]), (&json!("live"), &json!(16), &json!(10)));
    let examples = object["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 5, "two of three, and one of each other kind");
    let near = examples.iter().find(|example| example["change"] == "unique -> near").unwrap();
    assert_eq!(near["against"], json!({"verdict": "unique"}));
    assert_eq!((&near["replay"]["distance"], &near["replay"]["stage"]), (&json!(4), &json!("simhash")));
    assert_eq!(near["why"], "4 bits differ: live allows 3, replay 7c1f allows 5");
    let withdrawn = examples.iter().find(|example| example["change"] == "unique -> withdrawn").unwrap();
    assert_eq!(withdrawn["replay"], json!({"verdict": "withdrawn", "reason": Reject::Gone.name()}));
}

/// The page of all examples; every page of the input is this one.
fn html(counted: &Counted<'_>, id: &str, text: &str) -> String {
    let analyzer = Analyzer::new(&settings().text).unwrap();
    let pages: BTreeMap<Source, Shown> = (0..15)
        .map(|offset| (at(offset), Shown { id: Some(id.to_owned()), text: Ok(format!("{text} number {offset}")) }))
        .collect();
    let mut out = begin(counted);
    for example in &counted.compared.examples {
        section(&mut out, counted, example, &analyzer, &pages);
    }
    html::end(&mut out, Some(SCRIPT));
    out
}

#[test]
fn the_page_shows_both_texts_what_differs_and_why() {
    let plan = plan();
    let counted = counted(&plan);
    let html = html(&counted, "https://a.example/1", "the hall burned");
    assert_eq!(html.matches("<section").count(), 5);
    assert!(html.contains("<title>replay 7c1f against live</title>"), "{html}");
    assert!(html.contains("4 bits differ: live allows 3, replay 7c1f allows 5"), "{html}");
    assert!(html.contains("<del>") && html.contains("<ins>") && html.contains("https://a.example/1"), "{html}");
    assert!(html.contains("<td>unique -&gt; near</td><td class=\"n\">3</td><td class=\"n\">18.8 %</td>"), "{html}");
    assert!(html.contains("<code>match.minhash.min_similarity=0.3</code>"), "{html}");
    assert!(html.contains("<option value=\"unique only in live\">"), "{html}");
    assert!(html.contains("(the input does not hold this page any more)"), "page 15 is gone: {html}");
    for example in &counted.compared.examples {
        let place = &example.source;
        assert!(html.contains(&format!("<section id=\"{place}\"")) && html.contains(&format!("<a href=\"#{place}\">")));
    }
}

#[test]
fn a_hostile_page_is_shown_and_nothing_of_it_runs() {
    let plan = plan();
    let hostile =
        "</p></section><script>alert(1)</script><img src=x onerror=\"alert(2)\"><a href='javascript:alert(3)'>";
    let mut counted = counted(&plan);
    counted.names.before = hostile.to_owned();
    let html = html(&counted, hostile, hostile);
    assert!(html.contains("&lt;script&gt;alert(1)"), "{html}");
    assert_eq!((html.matches("<script").count(), html.matches("</section>").count()), (1, 5));
    for forbidden in ["<img", "href='", "\" onerror", "href=\"javascript", "<script>alert"] {
        assert!(!html.contains(forbidden), "{forbidden}: {html}");
    }
}

#[test]
fn the_page_loads_nothing_and_its_policy_lets_only_its_own_script_run() {
    let plan = plan();
    let html = html(&counted(&plan), "x", "y");
    for foreign in ["http://", "https://", "src=", "<link", "@import", "url(", "innerHTML", "eval(", "onclick="] {
        assert!(!html.contains(foreign), "{foreign}: {html}");
    }
    let policy = "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-";
    assert!(html.contains(policy), "{html}");
    let (_, rest) = html.split_once("<script>").unwrap();
    let (script, _) = rest.split_once("</script>").unwrap();
    assert_eq!(
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(script.as_bytes())),
        "2e9f44b494f2ec965b953829724e893c",
        "the script was changed: so must be its hash for the policy, base64 of SHA-256"
    );
}

#[test]
fn a_long_text_is_cut() {
    let plan = plan();
    let long = html(&counted(&plan), "x", &"lorem ipsum dolor sit amet ".repeat(4000));
    assert!(long.len() < 20_000, "{}", long.len());
}
