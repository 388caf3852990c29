//! Room 5: what near it was seen within the window?
//!
//! Before: `judge` asks about the fingerprints of one entry. After: it chooses among the candidates.
//!
//! An original matches as its stage, scope, event time and the tails say, and what happens to be in memory never
//! changes an answer (law L5). No candidate is dropped to save time: recall within the bound is exactly 1 (law L7).
//!
//! The originals stand in a ring in log order. One table leads from each exact hash, id and source to its originals,
//! and one from each key of k + 1 bands (`bands`) to the `SimHash` codes that share it: two codes within k bits
//! agree in at least one band. A table holds the newest original of a key, each original how far back the next older
//! one stands (`heads`), so that expiry moves the front of the ring and touches nothing else.
//!
//! Cost of a probe: one walk along the equal exact hashes, and k + 1 walks along the codes that share a band, one
//! XOR and popcount each. For k = 3 these are about 4 N / 65,536 codes when they are uniform, more when they are
//! not. An insert is one write in each of k + 4 tables; a table doubles by being built anew. Memory is bounded by the
//! entries held (law L6) and does not depend on what went before.

mod bands;
mod heads;
mod original;

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bands::{Band, MOST_BANDS};
use heads::Heads;
pub use original::{Candidate, Gone, Original, Probe};

use crate::fingerprint::{ExactHash, IdHash};
use crate::log::Tails;
use crate::record::{PartitionId, Source};

/// The originals held, in log order, and the tables that find them.
#[derive(Debug)]
pub struct Index {
    max_distance: u8,
    bands: Vec<Band>,
    /// Position of the oldest original held. Positions count inserts; unlike sequence numbers they have no gaps.
    front: u64,
    held: VecDeque<Held>,
    /// One for each original held, apart from it: a walk along a band reads nothing else.
    codes: VecDeque<Code>,
    last_sequence: Option<u64>,
    by_exact: Heads,
    by_id: Heads,
    by_source: Heads,
    by_band: Vec<Heads>,
    /// One copy of each topic name, whoever brings it.
    topics: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Held {
    original: Original,
    forgotten: bool,
    exact_back: u32,
    id_back: u32,
    source_back: u32,
}

#[derive(Debug, Default)]
struct Code {
    /// Meaningless in an original without a `SimHash`: no chain leads there.
    bits: u64,
    backs: [u32; MOST_BANDS],
}

impl Index {
    /// Makes an empty index whose tables find every pair within `max_distance` bits, 0 to 8.
    #[must_use]
    pub fn new(max_distance: u8) -> Self {
        let bands = bands::cut(max_distance);
        Self {
            max_distance,
            front: 0,
            held: VecDeque::new(),
            codes: VecDeque::new(),
            last_sequence: None,
            by_exact: Heads::with_room(0, 64),
            by_id: Heads::with_room(0, 64),
            by_source: Heads::with_room(0, 64),
            by_band: bands.iter().map(|band| Heads::with_room(0, band.width)).collect(),
            bands,
            topics: BTreeSet::new(),
        }
    }

    /// Lets the tables find every pair within `max_distance` bits. Builds them anew when that is a change; the
    /// originals stay.
    pub fn set_max_distance(&mut self, max_distance: u8) {
        if self.max_distance != max_distance {
            self.max_distance = max_distance;
            self.bands = bands::cut(max_distance);
            self.build_tables();
        }
    }

    /// Holds one more original. Sequence numbers ascend strictly, gaps allowed; an original that would break the
    /// order is known already and changes nothing.
    pub fn insert(&mut self, mut original: Original) {
        if self.last_sequence.is_some_and(|last| original.sequence <= last) {
            return;
        }
        self.last_sequence = Some(original.sequence);
        self.share_topic(&mut original.source.partition);
        self.share_topic(&mut original.cluster.partition);
        let bits = original.fingerprints.simhash.map_or(0, |simhash| simhash.0);
        self.held.push_back(Held { original, forgotten: false, exact_back: 0, id_back: 0, source_back: 0 });
        self.codes.push_back(Code { bits, ..Code::default() });
        if self.tables_misfit() {
            self.build_tables();
        } else {
            self.link(self.held.len() - 1);
        }
    }

    /// Shows every original that matches the probe, each once with its strongest stage, in no order.
    ///
    /// A probe that reaches farther than the tables ([`Index::set_max_distance`]) is answered by a scan of all codes.
    pub fn candidates(&self, probe: &Probe<'_>, mut visit: impl FnMut(Candidate)) {
        let mut show = |held: &Held| {
            if held.forgotten {
                return;
            }
            if let Some((stage, distance)) = probe.verify(&held.original) {
                let same_id = probe.id.is_some() && probe.id == held.original.id;
                visit(Candidate { sequence: held.original.sequence, stage, distance, same_id });
            }
        };
        let exact = probe.fingerprints.exact;
        self.with_exact(exact).for_each(&mut show);

        let Some(simhash) = probe.fingerprints.simhash else { return };
        let mut show_near = |at: usize| {
            // Equal exact hashes were shown above, at whatever stage they match.
            if let Some(held) = self.held.get(at).filter(|held| held.original.fingerprints.exact != exact) {
                show(held);
            }
        };
        let reach = u32::from(probe.max_distance);
        if probe.max_distance > self.max_distance {
            (0..self.held.len()).for_each(show_near);
            return;
        }
        // One step along each band in turn: the memory fetches the next code of all of them at once.
        let mut steps = [None; MOST_BANDS];
        for (step, (band, heads)) in steps.iter_mut().zip(self.bands.iter().zip(&self.by_band)) {
            *step = self.place_of(heads.newest(band.key(simhash.0)));
        }
        while steps.iter().any(Option::is_some) {
            for (number, step) in steps.iter_mut().enumerate() {
                let Some(at) = step.take() else { continue };
                let Some(code) = self.codes.get(at) else { continue };
                *step = code.backs.get(number).and_then(|&back| older(at, back));
                // A pair that agrees in several bands is shown in the first of them.
                if (code.bits ^ simhash.0).count_ones() <= reach
                    && self.bands.iter().position(|band| band.agrees(code.bits, simhash.0)) == Some(number)
                {
                    show_near(at);
                }
            }
        }
    }

    /// Returns the original with this sequence number, unless it was forgotten or has left the memory. It may be
    /// behind the tails.
    #[must_use]
    pub fn get(&self, sequence: u64) -> Option<&Original> {
        let first = self.held.front()?.original.sequence;
        let last = self.held.back()?.original.sequence;
        // Without gaps both bounds are the place itself.
        let most = usize::try_from(sequence.checked_sub(first)?).unwrap_or(usize::MAX);
        let from_end = usize::try_from(last.checked_sub(sequence)?).unwrap_or(usize::MAX);
        let (mut low, mut high) =
            ((self.held.len() - 1).saturating_sub(from_end), most.saturating_add(1).min(self.held.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            let held = self.held.get(middle)?;
            match held.original.sequence.cmp(&sequence) {
                std::cmp::Ordering::Equal => return (!held.forgotten).then_some(&held.original),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Forgets the original that this position made; returns how many there were.
    pub fn forget_source(&mut self, source: &Source) -> u64 {
        let newest = self.by_source.newest(key_of_source(source));
        let found: Vec<usize> = self
            .chain(newest, |at| Some(self.held.get(at)?.source_back))
            .filter(|&at| self.held.get(at).is_some_and(|held| held.original.source == *source))
            .collect();
        self.forget(&found)
    }

    /// Forgets every original with this id that the tails do not forget anyway; returns how many there were.
    pub fn forget_id(&mut self, id: IdHash, tails: &Tails) -> u64 {
        let found: Vec<usize> = self
            .chain(self.by_id.newest(id.0), |at| Some(self.held.get(at)?.id_back))
            .filter(|&at| {
                let held = self.held.get(at).map(|held| &held.original);
                held.is_some_and(|original| original.id == Some(id) && !is_behind(original, tails))
            })
            .collect();
        self.forget(&found)
    }

    /// Forgets the originals made by `from <= offset < to` of a partition; returns how many there were. Scans all
    /// that is held when the range is longer than that.
    pub fn forget_range(&mut self, partition: &PartitionId, from: i64, to: i64) -> u64 {
        let length =
            usize::try_from(i128::from(to) - i128::from(from)).unwrap_or(if from < to { usize::MAX } else { 0 });
        if length <= self.held.len() {
            return (from..to).map(|offset| self.forget_source(&partition.at(offset))).sum();
        }
        let found: Vec<usize> = self
            .held
            .iter()
            .enumerate()
            .filter(|(_, held)| {
                let source = &held.original.source;
                (from..to).contains(&source.offset) && source.partition == *partition
            })
            .map(|(at, _)| at)
            .collect();
        self.forget(&found)
    }

    /// Drops from the memory what no probe with these tails can match any more, as far as it stands at the front.
    /// What stands behind a live original is ignored by every probe and leaves when its turn comes.
    pub fn advance(&mut self, tails: &Tails) -> Gone {
        let mut gone = Gone::default();
        while let Some(held) = self.held.front() {
            if !held.forgotten {
                if held.original.event_time < tails.times.min() {
                    gone.expired += 1;
                } else if held.original.sequence < tails.first_sequence {
                    gone.evicted += 1;
                } else {
                    break;
                }
            }
            self.held.pop_front();
            self.codes.pop_front();
            self.front += 1;
        }
        if self.held.capacity() > 64 && self.held.len() < self.held.capacity() / 4 {
            self.held.shrink_to(self.held.len() * 2);
            self.codes.shrink_to(self.held.len() * 2);
            if self.tables_misfit() {
                self.build_tables();
            }
        }
        gone
    }

    /// Returns the originals that some stage can still match under these tails, in log order.
    pub fn live<'a>(&'a self, tails: &'a Tails) -> impl Iterator<Item = &'a Original> + 'a {
        let first = self.held.partition_point(|held| held.original.sequence < tails.first_sequence);
        self.held
            .range(first..)
            .filter(|held| !held.forgotten && !is_behind(&held.original, tails))
            .map(|held| &held.original)
    }

    /// Returns how many originals are in memory, those included that were forgotten and wait to leave.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Says whether no original is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the memory reserved for originals and tables, in bytes. Topic names, which are shared, are left out.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let tables = [&self.by_exact, &self.by_id, &self.by_source];
        self.held.capacity() * size_of::<Held>()
            + self.codes.capacity() * size_of::<Code>()
            + tables.into_iter().chain(&self.by_band).map(Heads::memory_bytes).sum::<usize>()
    }

    fn with_exact(&self, exact: ExactHash) -> impl Iterator<Item = &Held> {
        self.chain(self.by_exact.newest(key_of_exact(exact)), |at| Some(self.held.get(at)?.exact_back))
            .filter_map(|at| self.held.get(at))
            .filter(move |held| held.original.fingerprints.exact == exact)
    }

    /// Walks a chain from its newest position to the oldest that is still held; gives places in the ring.
    fn chain(&self, newest: Option<u64>, back: impl Fn(usize) -> Option<u32>) -> impl Iterator<Item = usize> {
        std::iter::successors(self.place_of(newest), move |&at| older(at, back(at)?))
    }

    /// Returns where a position stands in the ring, unless it has left.
    fn place_of(&self, position: Option<u64>) -> Option<usize> {
        usize::try_from(position?.checked_sub(self.front)?).ok()
    }

    fn forget(&mut self, places: &[usize]) -> u64 {
        let mut forgotten = 0;
        for &at in places {
            if let Some(held) = self.held.get_mut(at).filter(|held| !held.forgotten) {
                held.forgotten = true;
                forgotten += 1;
            }
        }
        forgotten
    }

    fn share_topic(&mut self, partition: &mut PartitionId) {
        match self.topics.get(&partition.topic) {
            Some(topic) => partition.topic = Arc::clone(topic),
            None => {
                self.topics.insert(Arc::clone(&partition.topic));
            }
        }
    }

    fn tables_misfit(&self) -> bool {
        self.by_exact.misfits(self.held.len())
    }

    fn build_tables(&mut self) {
        let entries = self.held.len();
        self.by_exact = Heads::with_room(entries, 64);
        self.by_id = Heads::with_room(entries, 64);
        self.by_source = Heads::with_room(entries, 64);
        self.by_band = self.bands.iter().map(|band| Heads::with_room(entries, band.width)).collect();
        (0..entries).for_each(|at| self.link(at));
    }

    /// Hangs the original at this place of the ring into its chains.
    fn link(&mut self, at: usize) {
        let position = self.front + at as u64;
        let (Some(held), Some(code)) = (self.held.get_mut(at), self.codes.get_mut(at)) else { return };
        held.exact_back = self.by_exact.push(key_of_exact(held.original.fingerprints.exact), position);
        held.source_back = self.by_source.push(key_of_source(&held.original.source), position);
        held.id_back = held.original.id.map_or(0, |id| self.by_id.push(id.0, position));
        if held.original.fingerprints.simhash.is_some() {
            for ((band, heads), back) in self.bands.iter().zip(&mut self.by_band).zip(&mut code.backs) {
                *back = heads.push(band.key(code.bits), position);
            }
        }
    }
}

/// Steps along a chain: `back` places, unless the chain ends here or leads out of the ring.
fn older(at: usize, back: u32) -> Option<usize> {
    if back == 0 { None } else { at.checked_sub(back as usize) }
}

/// Says whether no stage can match the original any more.
fn is_behind(original: &Original, tails: &Tails) -> bool {
    original.sequence < tails.first_sequence || original.event_time < tails.times.min()
}

fn key_of_exact(exact: ExactHash) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
    let (low, high) = (exact.0 as u64, (exact.0 >> 64) as u64);
    low ^ high
}

fn key_of_source(source: &Source) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
