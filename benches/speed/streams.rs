//! The other comparison: a copy by Kafka Streams with `exactly_once_v2`, of the broker's version.
//!
//! As many threads as cores, commit interval, compression and batch size of the service; everything else is the
//! library's default. One process makes all copies. The first one is not counted: by then, the JVM has compiled what it
//! runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use dupgate::config::Settings;
use dupgate::kafka::client::BATCH_BYTES;

use crate::broker::Broker;
use crate::bus::{self, Look};
use crate::copy::codec;
use crate::measure::cores;

/// A running program that copies a topic.
pub(crate) struct Streams {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Streams {
    /// Starts it with the settings of a service, and copies the topic once. `None`, after a line that says why, if there
    /// is no Kafka Streams here.
    pub(crate) fn start(broker: &Broker, settings: &Settings, input: &str, pages: usize) -> Option<Self> {
        let folder = env!("CARGO_MANIFEST_DIR");
        let mut child =
            Command::new(format!("{folder}/tests/broker/kafka.sh"))
                .arg("streams")
                .arg(format!("{folder}/benches/speed/PassThrough.java"))
                .args([input, &bus::topic(broker, "streams")])
                .arg(format!("bootstrap.servers={}", broker.address()))
                .arg("processing.guarantee=exactly_once_v2")
                .arg(format!("num.stream.threads={}", cores()))
                .arg(format!("commit.interval.ms={}", settings.output.commit_interval.as_millis()))
                .arg(format!("producer.compression.type={}", codec(settings.output.compression)))
                // As the service's clients have it.
                .arg("producer.compression.zstd.level=1")
                .arg(format!("producer.batch.size={BATCH_BYTES}"))
                .args(["key", "value"].map(|of| {
                    format!("default.{of}.serde=org.apache.kafka.common.serialization.Serdes$ByteArraySerde")
                }))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut streams = Self { child, orders, answers };
        if let Err(why) = streams.wait_for("ready") {
            println!("No row for Kafka Streams: {}", why.lines().last().unwrap_or("it does not start"));
            return None;
        }
        streams.copy(broker, input, pages);
        Some(streams)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Copies the topic once more; returns how it came along.
    pub(crate) fn copy(&mut self, broker: &Broker, input: &str, pages: usize) -> Vec<Look> {
        let group = broker.unique("streams");
        writeln!(self.orders, "{group}").unwrap();
        let looks = bus::follow(broker, &group, input, pages, || self.child.try_wait().unwrap().is_none());
        writeln!(self.orders).unwrap();
        self.wait_for("stopped").unwrap();
        looks
    }

    /// Reads up to a line; if it does not come, returns all other lines.
    fn wait_for(&mut self, wanted: &str) -> Result<(), String> {
        let mut output = String::new();
        loop {
            let start = output.len();
            if self.answers.read_line(&mut output).unwrap() == 0 {
                return Err(output);
            }
            if output[start..].trim_end() == wanted {
                return Ok(());
            }
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
