//! A long restore: `/readyz` shows its progress, and is ready at its end.

use std::process::{Command, Stdio};

use dupgate::protocol::{VerdictBatch, VerdictReader, VerdictRecord, encode_verdict};
use dupgate_core::judge::State;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use super::broker::{Broker, wait};
use super::cluster::http;
use super::first_start::{CliRunner, logs_of};
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};

/// Number of records appended to the log.
const LONG: usize = 4_000;

#[test]
fn readiness_shows_the_progress_of_a_long_restore() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let [_, verdict_log] = logs_of(&cli.create_topics(broker.address(), "", &[]));
    let run = |more: &str| {
        Process::start(
            Command::new(env!("CARGO_BIN_EXE_dupgate"))
                .args(["run", "-q", "-c", &cli.files(broker.address(), more)])
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )
    };
    let first = run("");
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    committed(broker, &cli.outputs[0], 1);
    drop(first);

    // Append batches without verdicts, each a separate fetch.
    let (mut state, mut reader) = (State::default(), VerdictReader::new());
    for (offset, record) in (0..).zip(committed(broker, &verdict_log, 1)) {
        let read = reader.push(offset, record.value.as_deref().unwrap_or_default()).expect("a record of the log");
        if let Some((_, record)) = read {
            state.follow_record(&record).expect("one follows on the other");
        }
    }
    let nothing = VerdictRecord::Verdicts(VerdictBatch {
        log: state.log().expect("a log"),
        rules: state.rules_number(),
        watermarks: state.watermarks(),
        next_request: state.next_request(),
        verdicts: Vec::new(),
    });
    let nothing = encode_verdict(&nothing, 1 << 20).remove(0);
    let producer: ThreadedProducer<DefaultProducerContext> =
        broker.client().set("enable.idempotence", "true").set("batch.num.messages", "1").create().expect("a producer");
    for _ in 0..LONG {
        let record = BaseRecord::<(), [u8]>::to(&verdict_log).partition(0).payload(&nothing);
        producer.send(record).map_err(|(why, _)| why).expect("room in the queue");
    }
    producer.flush(wait::LIMIT).expect("flush");

    let port = dupgate_testkit::ports::two();
    let _second = run(&format!(
        "http: {{listen: \"127.0.0.1:{port}\"}}\nkafka: {{consumer_properties: {{fetch.message.max.bytes: 1}}}}\n"
    ));
    let (mut percents, mut others) = (Vec::new(), Vec::new());
    wait::until("readiness", || {
        let (status, body) = http::get(([127, 0, 0, 1], port).into(), "/readyz?verbose")?;
        let of_restore = body.lines().find(|line| line.contains("restoring the index, "));
        match of_restore
            .and_then(|line| line.split_once("restoring the index, ")?.1.split_once(" % of the verdict log"))
        {
            Some((percent, _)) => {
                assert_eq!(status, 503, "{body}");
                percents.push(percent.parse::<u8>().expect("a number"));
            }
            None => others.push(status),
        }
        (status == 200).then_some(())
    });
    assert!(percents.is_sorted() && percents.iter().any(|percent| (1..100).contains(percent)), "{percents:?}");
    assert!(others.iter().rev().skip(1).all(|status| *status == 503), "{others:?}");
    // It is the previous state: the page is known.
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    assert_eq!(committed(broker, &cli.outputs[1], 1).len(), 1);
}
