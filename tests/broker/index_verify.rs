//! `index verify`: judges the kept log again, and names a falsified verdict.

use std::process::{Command, Stdio};

use dupgate::protocol::{Answer, Decision, VerdictReader, VerdictRecord, encode_verdict};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::Value;

use super::broker::{Broker, wait};
use super::first_start::{CliRunner, logs_of};
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};

/// Creates the topics that are missing, and returns the names of both logs.
fn logs(broker: &Broker, cli: &CliRunner, more: &str) -> [String; 2] {
    logs_of(&cli.create_topics(broker.address(), more, &["--partitions", "1"]))
}

fn write(broker: &Broker, topic: &str, values: &[Vec<u8>]) {
    let producer: ThreadedProducer<DefaultProducerContext> =
        broker.client().set("enable.idempotence", "true").create().expect("a producer");
    for value in values {
        let record = BaseRecord::<(), [u8]>::to(topic).partition(0).payload(value);
        producer.send(record).map_err(|(why, _)| why).expect("room in the queue");
    }
    producer.flush(wait::LIMIT).expect("flush");
}

fn values(broker: &Broker, topic: &str) -> Vec<Vec<u8>> {
    committed(broker, topic, 1).into_iter().filter_map(|record| record.value).collect()
}

#[test]
fn a_falsified_verdict_is_named_and_honest_ones_are_not() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let [requests, verdicts] = logs(broker, &cli, "");
    let service = Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-q", "-c", &cli.files(broker.address(), "")])
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    );
    produce(broker, &cli.input, 0, &[page(&text(1)), page(&text(2)), page(&text(1)), page(&text(3)), page(&text(2))]);
    committed(broker, &cli.outputs[0], 3);
    committed(broker, &cli.outputs[1], 2);
    // It may run beside the service.
    let report = |more: &str, code: i32| -> Value {
        let output = cli.ask_with(broker.address(), more, &["index", "verify", "-o", "json"]);
        assert_eq!(output.code, Some(code), "{}{}", output.out, output.err);
        serde_json::from_str::<Value>(&output.out).expect("JSON")[0].clone()
    };
    let honest = report("", 0);
    assert_eq!(honest["verdicts"]["judged_again"], 5, "{honest}");
    assert_eq!((&honest["verdicts"]["same"], &honest["verdicts"]["agree"]), (&5.into(), &true.into()), "{honest}");
    drop(service);

    // The same logs under another name: honest, and with one copy that is called unique.
    let (requests, verdicts) = (values(broker, &requests), values(broker, &verdicts));
    let (honest_prefix, false_prefix) = (broker.unique("honest"), broker.unique("false"));
    let prefix = |prefix: &str| format!("logs: {{prefix: {prefix}}}\n");
    let [to_requests, to_verdicts] = logs(broker, &cli, &prefix(&honest_prefix));
    write(broker, &to_requests, &requests);
    write(broker, &to_verdicts, &verdicts);
    assert_eq!(report(&prefix(&honest_prefix), 0)["verdicts"]["same"], 5);

    // Two judges have written: the log holds all verdicts twice, and the first ones count.
    let twice_prefix = broker.unique("twice");
    let [to_requests, to_verdicts] = logs(broker, &cli, &prefix(&twice_prefix));
    let mut reader = VerdictReader::new();
    let again = verdicts.iter().filter(|value| {
        matches!(reader.push(0, value).expect("a record of the log"), Some((_, VerdictRecord::Verdicts(_))))
    });
    write(broker, &to_requests, &requests);
    write(broker, &to_verdicts, &verdicts.iter().chain(again).cloned().collect::<Vec<_>>());
    let twice = report(&prefix(&twice_prefix), 0);
    let counts =
        ["judged_again", "same", "differences", "second_verdicts"].map(|name| twice["verdicts"][name].as_u64());
    assert_eq!(counts, [5, 5, 0, 5].map(Some), "{twice}");
    let table = cli.ask_with(broker.address(), &prefix(&twice_prefix), &["index", "verify", "-o", "table"]);
    assert!(table.out.contains("; 5 of pages that had one already, skipped: the first counts"), "{}", table.out);

    let copy = format!("{}:0:2", cli.input);
    let mut falsified = 0;
    let mut reader = VerdictReader::new();
    let mut changed: Vec<Vec<u8>> = Vec::new();
    for (offset, value) in (0..).zip(&verdicts) {
        let Some((_, mut record)) = reader.push(offset, value).expect("a record of the log") else { continue };
        if let VerdictRecord::Verdicts(batch) = &mut record {
            for verdict in &mut batch.verdicts {
                let Answer::Page(page) = &mut verdict.answer else { continue };
                if page.source.to_string() == copy {
                    page.decision = Decision::Unique { original: None };
                    falsified += 1;
                }
            }
        }
        changed.extend(encode_verdict(&record, 1 << 20));
    }
    assert_eq!(falsified, 1);
    let [to_requests, to_verdicts] = logs(broker, &cli, &prefix(&false_prefix));
    write(broker, &to_requests, &requests);
    write(broker, &to_verdicts, &changed);
    let found = report(&prefix(&false_prefix), 1);
    assert_eq!((&found["verdicts"]["differences"], &found["verdicts"]["same"]), (&1.into(), &4.into()), "{found}");
    let difference = &found["differences"][0];
    assert_eq!(
        (&difference["written"]["source"], &difference["written"]["verdict"]),
        (&copy.clone().into(), &"unique".into())
    );
    assert_eq!(
        (&difference["again"]["verdict"], &difference["again"]["match"]),
        (&"exact".into(), &format!("{}:0:0", cli.input).into())
    );
    let table = cli.ask_with(broker.address(), &prefix(&false_prefix), &["index", "verify", "-o", "table"]);
    assert!(
        table.out.starts_with("DIFFERS  log 0  verdicts  5 judged again under their own rules, 1 differences"),
        "{}",
        table.out
    );
    assert!(
        table.out.contains(&format!("written: {copy} unique; judged again: {copy} exact of {}:0:0 (d=0)", cli.input)),
        "{}",
        table.out
    );
    assert!(table.err.contains("keep both logs and report it"), "{}", table.err);
}
