//! The pure stages of a run, without a broker: their CPU time alone for the same pages.
//!
//! Decode, text, fingerprint; requests written and read; decide and follow; verdicts written and read. On as many
//! threads at once as the machine has cores: a core that shares its caches and its pipes with a busy neighbour needs
//! more time for the same page, and in the run every core is busy.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;

use dupgate::config::Settings;
use dupgate::crawl::Planted;
use dupgate::fingerprint::{Fingerprinter, Scratch};
use dupgate::protocol::{
    DEFAULT_PART_BYTES, LogIdentity, PageRequest, Request, RequestBody, RequestId, RequestOffset, Verdict,
    VerdictBatch, VerdictReader, VerdictRecord, decode_requests, encode_requests, encode_verdict,
};
use dupgate::record::{PartitionId, RawRecord};
use dupgate_core::judge::{State, decide};

use crate::bus::PARTITIONS;
use crate::measure::{cores, cpu_of, median};

/// Requests in a record of the fingerprint log, and verdicts in one of the verdict log, about as a busy worker has
/// them.
const BATCH: usize = 32;

/// Microseconds of CPU for a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pure {
    pub(crate) read: f64,
    pub(crate) codec: f64,
    pub(crate) judge: f64,
}

impl Pure {
    pub(crate) fn all(self) -> f64 {
        self.read + self.codec + self.judge
    }
}

/// Measures the stages over these pages, which make one log.
pub(crate) fn measure(settings: &Settings, pages: &[Planted]) -> Pure {
    let reader =
        Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN).unwrap();
    let found: Vec<Pure> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(|| once(&reader, settings, pages))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let middle = |number: fn(&Pure) -> f64| median(found.iter().map(number));
    Pure { read: middle(|pure| pure.read), codec: middle(|pure| pure.codec), judge: middle(|pure| pure.judge) }
}

fn once(reader: &Fingerprinter, settings: &Settings, pages: &[Planted]) -> Pure {
    let mut scratch = Scratch::default();
    // Warms up.
    for page in pages.iter().take(200) {
        drop(black_box(reader.read(&raw(page), &mut scratch)));
    }
    let topic: Arc<str> = Arc::from("pages");
    let (read, requests) =
        cpu_of(|| pages.iter().filter_map(|page| request(reader, page, &topic, &mut scratch)).collect::<Vec<_>>());
    let (written, records) = cpu_of(|| {
        let encoded = requests.chunks(BATCH).map(|requests| {
            let mut bytes = Vec::new();
            encode_requests(requests, &mut bytes);
            bytes
        });
        encoded.collect::<Vec<_>>()
    });
    let (decoded, requests) =
        cpu_of(|| records.iter().map(|record| decode_requests(record).unwrap()).collect::<Vec<_>>());
    let mut state = State::begin(LogIdentity(1), settings.rules.clone(), RequestOffset(0));
    let (judged, batches) =
        cpu_of(|| (0..).zip(&requests).map(|(offset, batch)| judge(&mut state, offset, batch)).collect::<Vec<_>>());
    let (read_back, ()) = cpu_of(|| {
        let mut verdicts = VerdictReader::new();
        for (offset, batch) in (0..).zip(&batches) {
            for part in encode_verdict(batch, DEFAULT_PART_BYTES) {
                black_box(verdicts.push(offset, &part).unwrap());
            }
        }
    });
    let per_page = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / pages.len() as f64;
    Pure { read: per_page(read), codec: per_page(written + decoded + read_back), judge: per_page(judged) }
}

fn raw(page: &Planted) -> RawRecord<'_> {
    RawRecord { key: Some(page.key.as_bytes()), value: Some(&page.value), headers: &() }
}

fn request(reader: &Fingerprinter, page: &Planted, topic: &Arc<str>, scratch: &mut Scratch) -> Option<Request> {
    let reading = reader.read(&raw(page), scratch).ok()?;
    let partitions = u64::try_from(PARTITIONS).unwrap();
    let partition = PartitionId::new(Arc::clone(topic), i32::try_from(page.number % partitions).unwrap());
    let body = RequestBody::Page(PageRequest {
        source: partition.at(i64::try_from(page.number / partitions).unwrap()),
        event_time: page.timestamp,
        id: reading.id,
        scope: reading.scope,
        site: None,
        address: None,
        title: None,
        is_variant: false,
        fingerprints: reading.fingerprints,
        digest: reading.digest,
        earlier: None,
    });
    Some(Request { id: RequestId(page.number), body })
}

fn judge(state: &mut State, offset: i64, requests: &[Request]) -> VerdictRecord {
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(requests.len());
    for request in requests {
        let append_time = match &request.body {
            RequestBody::Page(page) => page.event_time,
            RequestBody::Withdraw { .. }
            | RequestBody::Forget(_)
            | RequestBody::Reopen { .. }
            | RequestBody::SetTime(_) => continue,
        };
        let Some(verdict) = decide(state, request, append_time) else { continue };
        state.follow(&verdict).unwrap();
        verdicts.push(verdict);
    }
    VerdictRecord::Verdicts(VerdictBatch {
        log: LogIdentity(1),
        rules: state.rules_number(),
        watermarks: state.watermarks(),
        next_request: RequestOffset(offset + 1),
        verdicts,
    })
}
