//! Finds the partitions that do not hold their next offset: the client library reports that there is one without naming
//! it.

use std::time::Duration;

use crossbeam_channel::after;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::events::{ConsumerEvent, Start};
use super::fetch_states::{FetchState, Sweep};
use super::{Context, SEEK, Shared};

/// How long the polling thread looks for partitions that are out of range before it polls again.
const SWEEP: Duration = Duration::from_secs(1);

impl Shared {
    /// Begins to look for the partitions that do not hold the next offset, among all that are read.
    pub(super) fn start_sweep(&self) {
        let mut fetch_states = self.fetch_states();
        let open = fetch_states.by_partition.iter();
        let open = open.filter_map(|(partition, fetch_state)| Some((partition.clone(), fetch_state.open?)));
        fetch_states.sweep = Some(Sweep { left: open.collect(), ..Sweep::default() });
    }

    /// Looks for partitions that do not hold the next offset, and closes them; the others continue. Brokers that are
    /// away let each question wait, so this ends after a while, and goes on after the next poll.
    pub(super) fn sweep(&self, consumer: &BaseConsumer<Context>) {
        let Some(mut sweep) = self.fetch_states().sweep.take() else { return };
        let late = after(SWEEP);
        while late.try_recv().is_err() {
            let Some((partition, serial)) = sweep.left.pop_front() else { return self.swept(sweep) };
            let is_open = |fetch_state: &FetchState| fetch_state.open == Some(serial);
            let fetch_states = self.fetch_states();
            let next = fetch_states.by_partition.get(&partition).filter(|found| is_open(found)).map(|found| found.next);
            drop(fetch_states);
            let Some(offset) = next else { continue };
            match consumer.fetch_watermarks(&partition.topic, partition.number, SEEK) {
                Ok((first, end)) if offset < first || end < offset => {
                    sweep.found = true;
                    self.close(&partition);
                    let event = ConsumerEvent::OutOfRange { partition: partition.clone(), serial, offset, first, end };
                    self.hand_over(&partition, event);
                }
                Ok(_) => sweep.checked.push((partition, serial)),
                Err(error) => {
                    tracing::debug!(
                        target: "dupgate::kafka",
                        %partition, %error, "failed to check whether the partition is out of range"
                    );
                    sweep.checked.push((partition, serial));
                }
            }
        }
        self.fetch_states().sweep.get_or_insert(sweep);
    }

    /// All partitions were checked. If none was out of range, one has changed since, or does not answer: seeks each
    /// partition to its current offset.
    fn swept(&self, sweep: Sweep) {
        if sweep.found {
            return;
        }
        tracing::warn!(
            target: "dupgate::kafka",
            "out-of-range error without an out-of-range partition: seeking again"
        );
        for (partition, serial) in sweep.checked {
            let again = |fetch_state: &mut FetchState| {
                if fetch_state.open == Some(serial) {
                    fetch_state.wanted = Some((Start::Offset(fetch_state.next), serial));
                }
            };
            self.fetch_states().by_partition.entry(partition).and_modify(again);
        }
    }
}
