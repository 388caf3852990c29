use super::*;
use crate::cli::check::State;
use crate::cli::topics::{inherit, logs};
use crate::config::{ExternalInputs, Layers, Purpose, SAMPLE};

const DAY: i64 = 86_400_000;
const NOW: Timestamp = Timestamp::from_millis(20_000 * DAY);

fn settings() -> Settings {
    let mut layers = Layers::default();
    layers.file("f.yaml", SAMPLE);
    layers.resolve(&ExternalInputs::default(), Purpose::Run).unwrap_or_else(|refused| panic!("{refused}")).0
}

fn view(name: &str, settings: &[(&str, &str)]) -> TopicView {
    let usual =
        [("max.message.bytes", "8454144"), ("retention.ms", "604800000"), ("message.timestamp.type", "CreateTime")];
    let all = usual.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TopicView { name: name.to_owned(), partitions: 24, replicas: 3, in_sync: 3, settings: Ok(all) }
}

fn of_output(view: &TopicView, oldest_days: i64) -> Vec<(State, String, Option<String>)> {
    let input = self::view("crawl.pages", &[("max.message.bytes", "4194304")]);
    let oldest = Some(Timestamp::from_millis(NOW.millis() - oldest_days * DAY));
    let rows = output(view, inherit(&[&input]), oldest, NOW, &settings());
    rows.into_iter().map(|row| (row.state, row.text, row.fix)).collect()
}

#[test]
fn an_output_that_fits_is_ok() {
    let rows = of_output(&view("crawl.pages.unique", &[]), 5);
    assert_eq!(rows, [(State::Ok, "write; 24 partitions (same as input)".to_owned(), None)]);
}

#[test]
fn a_small_output_is_reported_with_the_size_it_needs() {
    let rows = of_output(&view("crawl.pages.duplicate", &[("max.message.bytes", "1048576")]), 5);
    let [(State::Warn, text, Some(fix))] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(text, "max.message.bytes 1 MiB is below the input's 4 MiB: larger pages become dead letters");
    assert!(fix.ends_with("--entity-name crawl.pages.duplicate --add-config max.message.bytes=8454144"), "{fix}");
    let rows = of_output(&view("crawl.pages.duplicate", &[("max.message.bytes", "8388608")]), 5);
    assert!(rows[0].1.contains("leaves no room for our headers"), "{rows:?}");
}

#[test]
fn an_output_that_is_too_small_for_compressed_pages_is_reported() {
    let fates = [
        ("crawl.pages.unique", "larger pages become dead letters"),
        ("crawl.pages.dead", "larger dead letters are cut"),
    ];
    for (name, fate) in fates {
        let rows = of_output(&view(name, &[("max.message.bytes", "4259840")]), 5);
        let [(State::Warn, text, Some(fix))] = &rows[..] else { panic!("{rows:?}") };
        let found = "max.message.bytes 4 MiB is below input.max_document 8 MiB, which compressed pages can reach";
        assert_eq!(*text, format!("{found}: {fate}"));
        assert!(fix.ends_with(&format!("--entity-name {name} --add-config max.message.bytes=8454144")), "{fix}");
    }
}

#[test]
fn pages_that_would_be_deleted_on_arrival_are_reported() {
    let rows = of_output(&view("crawl.pages.unique", &[]), 9);
    let [(State::Warn, text, Some(fix))] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        text,
        "retention.ms (7 d) is shorter than the oldest input record (9 d): old pages may be deleted on arrival"
    );
    assert!(fix.ends_with("retention.ms=-1"), "{fix}");
    assert_eq!(of_output(&view("crawl.pages.unique", &[("retention.ms", "-1")]), 9)[0].0, State::Ok);
    assert_eq!(of_output(&view("crawl.pages.unique", &[("cleanup.policy", "compact")]), 9)[0].0, State::Ok);
}

#[test]
fn partitions_and_in_sync_replicas_are_checked() {
    let few = TopicView { partitions: 6, ..view("crawl.pages.unique", &[]) };
    let rows = of_output(&few, 5);
    assert!(rows[0].1.contains("6 partitions, the input has 24") && rows[0].2.is_some(), "{rows:?}");
    assert_eq!(of_output(&TopicView { partitions: 6, ..view("crawl.pages.dead", &[]) }, 5)[0].0, State::Ok);
    let lagging = TopicView { in_sync: 1, ..view("crawl.pages.unique", &[("min.insync.replicas", "2")]) };
    assert_eq!(of_output(&lagging, 5)[0].0, State::Fail);
}

#[test]
fn a_log_that_would_lose_records_fails() {
    let settings = settings();
    let [requested, answered] = logs(&settings, 3);
    let good = |plan: &TopicPlan| TopicView {
        name: plan.name.clone(),
        partitions: 1,
        replicas: 3,
        in_sync: 3,
        settings: Ok(plan.settings.clone()),
    };
    let kind = |plan: &TopicPlan| {
        if plan.name == requested.name { LogKind::Fingerprints } else { LogKind::Verdicts }
    };
    let look = |plan: &TopicPlan, change: &[(&str, &str)]| {
        let mut view = good(plan);
        if let Ok(settings) = &mut view.settings {
            settings.extend(change.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        }
        let rows = log(kind(plan), plan, Some(&view), 3, &settings);
        rows.into_iter().map(|row| (row.state, row.text)).collect::<Vec<_>>()
    };
    assert_eq!(look(&requested, &[])[0].0, State::Ok);
    assert_eq!(look(&answered, &[("retention.ms", "604800000")])[0].0, State::Fail);
    assert_eq!(look(&answered, &[("cleanup.policy", "compact")])[0].0, State::Fail);
    assert_eq!(look(&requested, &[("message.timestamp.type", "CreateTime")])[0].0, State::Fail);
    assert_eq!(look(&requested, &[("unclean.leader.election.enable", "true")])[0].0, State::Warn);
    assert_eq!(look(&requested, &[("min.insync.replicas", "1")])[0].0, State::Warn);
    assert_eq!(look(&requested, &[("min.insync.replicas", "3")])[0].0, State::Ok);
    assert_eq!(look(&answered, &[("max.message.bytes", "1048588")])[0].0, State::Ok, "the brokers' default");
    assert_eq!(look(&answered, &[("max.message.bytes", "8388608")])[0].0, State::Ok);
    assert_eq!(look(&answered, &[("max.message.bytes", "500000")])[0].0, State::Warn);
    let of_log = |view: Option<&TopicView>, brokers| log(kind(&requested), &requested, view, brokers, &settings);
    let replicated = |replicas, brokers| {
        let rows = of_log(Some(&TopicView { replicas, ..good(&requested) }), brokers);
        rows.into_iter().map(|row| (row.state, row.text)).collect::<Vec<_>>()
    };
    let single = replicated(1, 3);
    assert!(single[0].0 == State::Fail && single[0].1.contains("one replica on 3 brokers"), "{single:?}");
    let few = replicated(2, 3);
    assert!(few[0].0 == State::Warn && few[0].1.contains("replication factor 2 on 3 brokers"), "{few:?}");
    assert_eq!(replicated(1, 1)[0].0, State::Ok);
    assert_eq!(of_log(None, 3)[0].state, State::Ok);
    let split = TopicView { partitions: 2, ..good(&requested) };
    assert_eq!(of_log(Some(&split), 3)[0].state, State::Fail);
}

#[test]
fn an_input_from_the_future_is_reported() {
    let ends = |newest: i64| {
        Ok(Ends { oldest: None, newest: Some(Timestamp::from_millis(newest)), partitions: 24, records: 0 })
    };
    let states = |newest: i64| {
        let rows = input(&view("crawl.pages", &[]), &ends(newest), NOW, &settings());
        rows.into_iter().map(|row| row.state).collect::<Vec<_>>()
    };
    assert_eq!(states(NOW.millis() + 600_000), [State::Ok, State::Ok], "as far as is allowed");
    assert_eq!(states(NOW.millis() + 600_001), [State::Ok, State::Warn]);
}

#[test]
fn sizes_and_spans_are_short() {
    assert_eq!([size(4_194_304), size(1_048_588), size(900), size(1_572_864)], ["4 MiB", "1 MiB", "900 B", "1.5 MiB"]);
    assert_eq!([span(-1), span(604_800_000), span(90_061_001), span(5)], ["unlimited", "7 d", "1 d 1 h", "5 ms"]);
}

#[test]
fn logs_of_other_schemes_are_named_with_the_command_that_removes_them() {
    let settings = settings();
    let (prefix, current) = (&settings.logs.prefix, settings.scheme());
    let names = [
        format!("{prefix}.fingerprints.{current}"),
        format!("{prefix}.verdicts.{current}"),
        format!("{prefix}.fingerprints.sh64-0dd5ce"),
        format!("{prefix}.verdicts.sh64-0dd5ce"),
        format!("{prefix}.verdicts.sh128-000000"),
        // Of another service, or not a log.
        format!("other-{prefix}.verdicts.sh64-0dd5ce"),
        format!("{prefix}.more.verdicts.sh64-0dd5ce"),
        format!("{prefix}.verdicts.daily"),
        format!("{prefix}.verdicts.sh64-0dd5ce.copy"),
    ];
    let rows = other_schemes(&names.into_iter().collect(), &settings);
    let [one, two] = &rows[..] else { panic!("{rows:?}") };
    assert!(one.text.starts_with(&format!("{prefix}.verdicts.sh128-000000: of scheme sh128-000000")), "{}", one.text);
    assert_eq!((two.state, two.subject.as_str()), (State::Warn, "schemes"));
    let both = format!("{prefix}.fingerprints.sh64-0dd5ce and {prefix}.verdicts.sh64-0dd5ce: ");
    assert!(two.text.starts_with(&both), "{}", two.text);
    let prefix = prefix.replace('.', "\\.");
    let pattern = format!("--delete --topic '{prefix}\\.fingerprints\\.sh64-0dd5ce|{prefix}\\.verdicts\\.sh64-0dd5ce'");
    assert!(two.fix.as_ref().is_some_and(|fix| fix.ends_with(&pattern)), "{:?}", two.fix);
}
