//! Recent duplicates with their matches, for people: a bounded sample, and the number of duplicates of each cluster.
//!
//! Workers offer the duplicates that they deliver. At most [`STEADY`] a second are kept, and [`BURST`] more at once
//! after a quiet time; the last [`KEPT`] of them remain. Clusters are counted in [`CLUSTERS`] places. When these are
//! full, a new cluster replaces the smallest one and inherits its count as an error (Metwally, Agrawal, El Abbadi:
//! Efficient computation of frequent and top-k elements in data streams, 2005). What is shown is the count minus the
//! error, the minimum number of duplicates of the cluster. If there are many small clusters, the counts are mostly
//! error, and none is shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use crate::compare::{Run, beginning};
use crate::fingerprint::PerMille;
use crate::protocol::VerdictKind;
use crate::record::{Source, Timestamp};

/// Number of kept pairs.
pub const KEPT: usize = 1000;

/// Maximum number of pairs kept per second, over a longer time.
pub const STEADY: u32 = 20;

/// Maximum number of pairs kept at once after a quiet time.
pub const BURST: u32 = 200;

/// Maximum number of clusters that are counted.
pub const CLUSTERS: usize = 1000;

/// Number of separately counted distances; the last one also counts all larger ones.
pub const DISTANCES: usize = 17;

/// Minimum number of duplicates for which a cluster is shown if its count may contain an error.
const STANDS_OUT: u64 = 3;

/// Maximum length of a kept id, in characters.
const LONGEST_ID: usize = 256;

/// Number of pairs that a slow listener may lag before it loses some.
const MAX_LISTENER_LAG: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredDuplicate {
    pub source: Source,
    /// Position of the page it was matched to.
    pub original: Source,
    /// Position of the first page of the cluster.
    pub cluster: Source,
    pub verdict: &'static str,
    pub stage: &'static str,
    /// Differing bits or slots, depending on the stage.
    pub distance: u8,
    /// Share of the smaller page that the other one contains, if that is why both match.
    pub contained: Option<PerMille>,
    /// Event time of the page minus that of the original.
    pub age_ms: i64,
    pub id: Option<String>,
    pub at: Timestamp,
}

/// Details of a pair, found by comparing both pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairDetails {
    /// Id of the page it was matched to.
    pub original_id: Option<String>,
    pub segmenter: Option<&'static str>,
    /// Differing bits of both codes, whichever stage matched.
    pub bits: Option<u32>,
    /// Estimated Jaccard index of both sketches.
    pub similarity: Option<PerMille>,
    /// Words of the page, of its original, and of both.
    pub words: Option<[usize; 3]>,
    /// What differs, as far as text may be shown. The first side is the original.
    pub differs: Vec<Run>,
    /// Why there are no details, if a page is gone.
    pub missing: Option<String>,
}

/// One pair. It changes only once, when both pages have been inspected.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The number of the pair among all that were kept, from 1.
    pub number: u64,
    pub seen: DeliveredDuplicate,
    /// The details from the comparison of both pages; absent until then.
    pub details: Option<PairDetails>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// These verdicts; all if empty.
    pub verdicts: Vec<String>,
    /// At least this many bits apart.
    pub min_distance: Option<u32>,
    /// At most this many bits apart.
    pub max_distance: Option<u32>,
    /// The site of either page contains this.
    pub site: Option<String>,
    pub id: Option<String>,
    pub segmenter: Option<String>,
    /// Only pairs with a larger number: newer ones.
    pub after: Option<u64>,
    /// Only pairs with a smaller number: older ones.
    pub before: Option<u64>,
    /// At most this many.
    pub limit: Option<usize>,
}

/// A part of the pairs that match a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The pairs, newest first.
    pub pairs: Vec<Arc<Pair>>,
    /// Number of matching pairs, whatever their pair numbers.
    pub matching: usize,
    /// Number of matching pairs that are newer than [`Filter::before`] allows.
    pub newer: usize,
    /// Matching near pairs by distance in bits, if known.
    pub distances: [usize; DISTANCES],
}

/// A page with many duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Position of the first page.
    pub source: Source,
    /// Its id, if a pair with it was inspected.
    pub id: Option<String>,
    /// Id of a duplicate among the recent pairs.
    pub duplicate_id: Option<String>,
    /// Minimum number of duplicates since the start.
    pub duplicates: u64,
}

/// The pairs of one instance. Clones share them.
#[derive(Clone, Debug)]
pub struct Pairs {
    state: Arc<Mutex<State>>,
    fresh: broadcast::Sender<Arc<Pair>>,
}

#[derive(Debug)]
struct State {
    kept: VecDeque<Arc<Pair>>,
    clusters: Clusters,
    /// Ids of the first pages of counted clusters, as far as known.
    ids: BTreeMap<Source, String>,
    /// Number of offered duplicates.
    offered: u64,
    /// Number of kept pairs.
    numbered: u64,
    allowance: Allowance,
}

impl Default for Pairs {
    fn default() -> Self {
        let state = State {
            kept: VecDeque::new(),
            clusters: Clusters::default(),
            ids: BTreeMap::new(),
            offered: 0,
            numbered: 0,
            allowance: Allowance { left: f64::from(BURST), since: Duration::ZERO },
        };
        Self { state: Arc::new(Mutex::new(state)), fresh: broadcast::channel(MAX_LISTENER_LAG).0 }
    }
}

impl Pairs {
    /// Counts a duplicate and, within the rate limit, keeps it. Returns the pair to inspect. `now` counts from any
    /// fixed point.
    #[must_use]
    pub fn offer(&self, now: Duration, mut seen: DeliveredDuplicate) -> Option<Arc<Pair>> {
        seen.id = seen.id.map(|id| one_line(&id));
        let mut state = self.lock();
        state.offered += 1;
        state.clusters.count(&seen.cluster);
        if !state.allowance.take(now) {
            return None;
        }
        state.numbered += 1;
        let pair = Arc::new(Pair { number: state.numbered, seen, details: None });
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(Arc::clone(&pair));
        Some(pair)
    }

    /// Sets the details of a pair, and passes it to listeners.
    pub fn set_details(&self, number: u64, mut details: PairDetails) {
        details.original_id = details.original_id.map(|id| one_line(&id));
        let mut state = self.lock();
        let first = state.kept.front().map_or(0, |pair| pair.number);
        let Some(at) = number.checked_sub(first).and_then(|at| usize::try_from(at).ok()) else { return };
        let Some(kept) = state.kept.get_mut(at) else { return };
        let pair = Arc::new(Pair { details: Some(details), ..Pair::clone(kept) });
        *kept = Arc::clone(&pair);
        state.learn_id(&pair);
        // There may be no listener.
        let _ = self.fresh.send(pair);
    }

    /// Returns the newest pairs that match and how many match in all.
    #[must_use]
    pub fn page(&self, filter: &Filter) -> Page {
        let state = self.lock();
        let mut page = Page::default();
        let limit = filter.limit.unwrap_or(KEPT);
        for pair in state.kept.iter().rev().filter(|pair| filter.matches(pair)) {
            page.matching += 1;
            page.newer += usize::from(filter.before.is_some_and(|before| pair.number >= before));
            page.count_distance(pair);
            if page.pairs.len() < limit && filter.is_in_range(pair) {
                page.pairs.push(Arc::clone(pair));
            }
        }
        page
    }

    /// Returns the newest pair of the page at a position.
    #[must_use]
    pub fn find(&self, source: &Source) -> Option<Arc<Pair>> {
        self.lock().kept.iter().rev().find(|pair| pair.seen.source == *source).cloned()
    }

    /// Returns the clusters with the most duplicates since the start.
    #[must_use]
    pub fn largest(&self, number: usize) -> Vec<Cluster> {
        let state = self.lock();
        let newest = |source: &Source| state.kept.iter().rev().find(|pair| pair.seen.cluster == *source);
        let found = state.clusters.largest(number).into_iter();
        let cluster = |(source, duplicates)| Cluster {
            id: state.ids.get(&source).cloned(),
            duplicate_id: newest(&source).and_then(|pair| pair.seen.id.clone()),
            duplicates,
            source,
        };
        found.map(cluster).collect()
    }

    /// Returns the number of duplicates offered since the start, and of kept pairs.
    #[must_use]
    pub fn totals(&self) -> (u64, usize) {
        let state = self.lock();
        (state.offered, state.kept.len())
    }

    /// Subscribes to all further pairs, once they are inspected.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Arc<Pair>> {
        self.fresh.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Stores the id of a cluster's first page, if that page is the original of an inspected pair.
    fn learn_id(&mut self, pair: &Pair) {
        let DeliveredDuplicate { original, cluster, .. } = &pair.seen;
        let id = pair.details.as_ref().and_then(|details| details.original_id.as_ref());
        let Some(id) = id.filter(|_| original == cluster && self.clusters.counts.contains_key(cluster)) else { return };
        self.ids.insert(cluster.clone(), id.clone());
        if self.ids.len() > 2 * CLUSTERS {
            let counts = &self.clusters.counts;
            self.ids.retain(|source, _| counts.contains_key(source));
        }
    }
}

impl Page {
    fn count_distance(&mut self, pair: &Pair) {
        // Exact duplicates are all at distance 0, and would hide the rest.
        let bits = pair.bits().filter(|_| pair.seen.verdict != VerdictKind::Exact.name());
        let at = bits.and_then(|bits| usize::try_from(bits).ok()).map(|bits| bits.min(DISTANCES - 1));
        if let Some(count) = at.and_then(|at| self.distances.get_mut(at)) {
            *count += 1;
        }
    }
}

/// A limit of pairs per second, with a burst after a quiet time.
#[derive(Debug)]
struct Allowance {
    left: f64,
    since: Duration,
}

impl Allowance {
    fn take(&mut self, now: Duration) -> bool {
        let more = now.saturating_sub(self.since).as_secs_f64() * f64::from(STEADY);
        self.left = (self.left + more).min(f64::from(BURST));
        self.since = now;
        let is_open = self.left >= 1.0;
        if is_open {
            self.left -= 1.0;
        }
        is_open
    }
}

/// The largest clusters, counted in a fixed number of places.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    /// Count, and its possible error.
    counts: BTreeMap<Source, (u64, u64)>,
    by_count: BTreeSet<(u64, Source)>,
}

impl Clusters {
    /// Counts a duplicate of this cluster.
    pub(crate) fn count(&mut self, cluster: &Source) {
        let known = self.counts.get(cluster).copied();
        let (count, error) = if let Some((count, error)) = known {
            self.by_count.remove(&(count, cluster.clone()));
            (count, error)
        } else if self.counts.len() >= CLUSTERS
            && let Some((min, other)) = self.by_count.pop_first()
        {
            self.counts.remove(&other);
            (min, min)
        } else {
            (0, 0)
        };
        self.counts.insert(cluster.clone(), (count + 1, error));
        self.by_count.insert((count + 1, cluster.clone()));
    }

    /// Returns the largest clusters, each with its minimum number of duplicates; among equal clusters, the earlier
    /// position comes first. Clusters whose count is mostly inherited are left out.
    pub(crate) fn largest(&self, number: usize) -> Vec<(Source, u64)> {
        let sure = self.counts.iter().map(|(cluster, (count, error))| (cluster, count - error, *error));
        let mut found: Vec<(&Source, u64)> = sure
            .filter(|(_, min, error)| *error == 0 || *min >= STANDS_OUT)
            .map(|(cluster, min, _)| (cluster, min))
            .collect();
        found.sort_by_key(|(_, min)| std::cmp::Reverse(*min));
        found.into_iter().take(number).map(|(cluster, min)| (cluster.clone(), min)).collect()
    }
}

fn one_line(id: &str) -> String {
    let line: String = id.chars().filter(|c| !c.is_control()).take(LONGEST_ID + 1).collect();
    beginning(&line, LONGEST_ID)
}

/// Returns the host of a URL; `None` for other ids.
fn site(id: Option<&str>) -> Option<&str> {
    let (_, rest) = id?.split_once("://")?;
    rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())
}

impl Filter {
    /// Returns whether a pair passes the filter, ignoring `limit`.
    #[must_use]
    pub fn passes(&self, pair: &Pair) -> bool {
        self.is_in_range(pair) && self.matches(pair)
    }

    fn is_in_range(&self, pair: &Pair) -> bool {
        self.after.is_none_or(|after| pair.number > after) && self.before.is_none_or(|before| pair.number < before)
    }

    /// Returns whether a pair passes the filter, ignoring its number.
    fn matches(&self, pair: &Pair) -> bool {
        let details = pair.details.as_ref();
        let bits = pair.bits();
        let is_near_enough = |min: u32, max: u32| bits.is_some_and(|bits| (min..=max).contains(&bits));
        let by_distance = match (self.min_distance, self.max_distance) {
            (None, None) => true,
            (min, max) => is_near_enough(min.unwrap_or(0), max.unwrap_or(u32::MAX)),
        };
        let by_site = self.site.as_ref().is_none_or(|wanted| {
            let other = details.and_then(|details| details.original_id.as_deref());
            [site(pair.seen.id.as_deref()), site(other)]
                .into_iter()
                .flatten()
                .any(|site| site.contains(wanted.as_str()))
        });
        let by_segmenter = self
            .segmenter
            .as_ref()
            .is_none_or(|wanted| details.and_then(|details| details.segmenter) == Some(wanted.as_str()));
        by_distance
            && self.id.as_ref().is_none_or(|id| pair.seen.id.as_deref() == Some(one_line(id).as_str()))
            && by_site
            && by_segmenter
            && (self.verdicts.is_empty() || self.verdicts.iter().any(|verdict| verdict == pair.seen.verdict))
    }
}

impl Pair {
    /// Returns the differing bits of both codes, if known.
    #[must_use]
    pub fn bits(&self) -> Option<u32> {
        let details = self.details.as_ref().and_then(|details| details.bits);
        // Sketches are compared by slots, not by bits.
        details.or_else(|| (self.seen.stage != "minhash").then(|| u32::from(self.seen.distance)))
    }

    /// Returns the pair as shown in lists.
    #[must_use]
    pub fn json(&self) -> Value {
        let DeliveredDuplicate { source, original, cluster, verdict, stage, distance, contained, age_ms, id, at } =
            &self.seen;
        let mut object = json!({
            "number": self.number,
            "at_ms": at.millis(),
            "source": source.to_string(),
            "match": original.to_string(),
            "cluster": cluster.to_string(),
            "verdict": verdict,
            "stage": stage,
            // Sketches are compared by slots, not by bits.
            "distance": (*stage != "minhash").then_some(distance),
            "age_ms": age_ms,
            "bits": self.bits(),
        });
        if let (Value::Object(object), Some(contained)) = (&mut object, contained) {
            object.insert("containment".to_owned(), contained.share().into());
        }
        if let (Value::Object(object), Some(id)) = (&mut object, id) {
            object.insert("id".to_owned(), id.as_str().into());
        }
        if let (Value::Object(object), Some(details)) = (&mut object, &self.details) {
            object.extend(details.json());
        }
        object
    }
}

impl PairDetails {
    fn json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        };
        put("match_id", self.original_id.as_deref().map(Value::from));
        put("segmenter", self.segmenter.map(Value::from));
        put("similarity", self.similarity.map(|similarity| Value::from(similarity.share())));
        put("words", self.words.map(|[own, other, both]| json!({"own": own, "match": other, "common": both})));
        put("missing", self.missing.as_deref().map(Value::from));
        put("differs", Some(runs(&self.differs)));
        object
    }
}

/// Returns the differences as JSON: `[{"side": "match", "text": …}, …]`, the sides being `both`, `own` and `match`.
#[must_use]
pub fn runs(runs: &[Run]) -> Value {
    let side = |run: &Run| match run.side {
        crate::compare::Side::Both => "both",
        crate::compare::Side::First => "match",
        crate::compare::Side::Second => "own",
    };
    runs.iter().map(|run| json!({"side": side(run), "text": run.text})).collect()
}

/// Receives duplicates as they are delivered.
#[derive(Clone, Debug)]
pub(crate) struct PairRecorder {
    /// The duplicates that are kept for operators.
    pub(crate) pairs: Pairs,
    queue: Sender<Arc<Pair>>,
}

impl PairRecorder {
    /// Creates a recorder, and the queue of pairs to inspect.
    pub(crate) fn new() -> (Self, Receiver<Arc<Pair>>) {
        let (queue, waiting) = bounded(KEPT);
        (Self { pairs: Pairs::default(), queue }, waiting)
    }

    /// Counts a duplicate; if it is kept, both pages will be inspected.
    pub(crate) fn offer(&self, now: Duration, seen: DeliveredDuplicate) {
        if let Some(pair) = self.pairs.offer(now, seen) {
            // The queue is as long as the buffer: a pair that does not fit would be evicted before it is inspected.
            let _ = self.queue.try_send(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Side;
    use crate::record::PartitionId;

    fn source(offset: i64) -> Source {
        PartitionId::new("pages", 0).at(offset)
    }

    fn seen(offset: i64, verdict: &'static str, distance: u8) -> DeliveredDuplicate {
        DeliveredDuplicate {
            source: source(offset),
            original: source(0),
            cluster: source(0),
            verdict,
            stage: "simhash",
            distance,
            contained: None,
            age_ms: 5,
            id: Some(format!("https://a.example/{offset}\n")),
            at: Timestamp::from_millis(1),
        }
    }

    fn offsets(pairs: &Pairs, filter: &Filter) -> Vec<i64> {
        pairs.page(filter).pairs.iter().map(|pair| pair.seen.source.offset).collect()
    }

    #[test]
    fn the_newest_are_kept_and_the_oldest_make_room() {
        let pairs = Pairs::default();
        for offset in 1..=1010 {
            // One each second is within the limit.
            let now = Duration::from_secs(u64::try_from(offset).unwrap());
            assert!(pairs.offer(now, seen(offset, "near", 1)).is_some());
        }
        let kept = offsets(&pairs, &Filter::default());
        assert_eq!((kept.len(), kept.first(), kept.last()), (KEPT, Some(&1010), Some(&11)));
        assert_eq!(offsets(&pairs, &Filter { limit: Some(2), ..Filter::default() }), [1010, 1009]);
        assert_eq!(offsets(&pairs, &Filter { after: Some(1008), ..Filter::default() }), [1010, 1009]);
        assert!(pairs.find(&source(10)).is_none() && pairs.find(&source(11)).is_some());
        // Late details change nothing.
        pairs.set_details(3, PairDetails { bits: Some(9), ..PairDetails::default() });
        assert!(pairs.page(&Filter::default()).pairs.iter().all(|pair| pair.details.is_none()));
    }

    #[test]
    fn a_flood_is_counted_and_only_sampled() {
        let pairs = Pairs::default();
        let flood = |now: u64| {
            (0..1000).filter(|_| pairs.offer(Duration::from_secs(now), seen(7, "exact", 0)).is_some()).count()
        };
        assert_eq!(flood(1), usize::try_from(BURST).unwrap());
        assert_eq!(flood(3), usize::try_from(2 * STEADY).unwrap());
        assert_eq!(pairs.totals(), (2000, 240));
        let largest: Vec<(Source, u64)> =
            pairs.largest(3).into_iter().map(|one| (one.source, one.duplicates)).collect();
        assert_eq!(largest, [(source(0), 2000)]);
    }

    #[test]
    fn pairs_are_found_by_verdict_distance_site_and_segmenter() {
        let pairs = Pairs::default();
        for (offset, verdict, distance) in [(1, "exact", 0), (2, "near", 2), (3, "near", 5)] {
            pairs.offer(Duration::ZERO, seen(offset, verdict, distance)).unwrap();
        }
        let differs =
            vec![Run { side: Side::First, text: "old".into() }, Run { side: Side::Second, text: "new".into() }];
        let details = PairDetails {
            original_id: Some("http://Mirror.example?x".into()),
            segmenter: Some("jieba"),
            bits: Some(3),
            differs,
            ..PairDetails::default()
        };
        let mut heard = pairs.listen();
        pairs.set_details(2, details);
        assert_eq!(heard.try_recv().unwrap().seen.source.offset, 2);
        let by = |filter: Filter| offsets(&pairs, &filter);
        assert_eq!(by(Filter { verdicts: vec!["near".into()], ..Filter::default() }), [3, 2]);
        assert_eq!(by(Filter { min_distance: Some(3), max_distance: Some(3), ..Filter::default() }), [2]);
        assert_eq!(by(Filter { max_distance: Some(0), ..Filter::default() }), [1]);
        assert_eq!(by(Filter { site: Some("Mirror".into()), ..Filter::default() }), [2]);
        assert_eq!(by(Filter { site: Some("a.example".into()), ..Filter::default() }), [3, 2, 1]);
        assert_eq!(by(Filter { segmenter: Some("jieba".into()), ..Filter::default() }), [2]);
        assert_eq!(by(Filter { id: Some("https://a.example/2\n".into()), ..Filter::default() }), [2]);
        assert_eq!(by(Filter { id: Some("https://a.example/".into()), ..Filter::default() }), [] as [i64; 0]);
        let json = pairs.find(&source(2)).unwrap().json();
        assert_eq!(json["differs"], json!([{"side": "match", "text": "old"}, {"side": "own", "text": "new"}]));
        assert_eq!(
            (&json["id"], &json["distance"], &json["bits"]),
            (&json!("https://a.example/2"), &json!(2), &json!(3))
        );
    }

    #[test]
    fn a_page_of_the_list_counts_all_matches() {
        let pairs = Pairs::default();
        for (offset, verdict, distance) in
            [(1, "near", 2), (2, "exact", 0), (3, "near", 2), (4, "near", 40), (5, "near", 0)]
        {
            pairs.offer(Duration::ZERO, seen(offset, verdict, distance)).unwrap();
        }
        let near = Filter { verdicts: vec!["near".into()], limit: Some(2), ..Filter::default() };
        let age_of = |before: Option<u64>| {
            let page = pairs.page(&Filter { before, ..near.clone() });
            let offsets: Vec<i64> = page.pairs.iter().map(|pair| pair.seen.source.offset).collect();
            (offsets, page.newer, page.matching)
        };
        assert_eq!(age_of(None), (vec![5, 4], 0, 4));
        assert_eq!(age_of(Some(4)), (vec![3, 1], 2, 4));
        assert_eq!(age_of(Some(1)), (vec![], 4, 4));
        let distances = pairs.page(&Filter { limit: Some(1), ..Filter::default() }).distances;
        assert_eq!((distances[0], distances[2], distances[DISTANCES - 1]), (1, 2, 1), "exact ones are not counted");
        assert_eq!(distances.iter().sum::<usize>(), 4);
    }

    #[test]
    fn a_cluster_has_the_id_of_its_first_page_once_that_is_known() {
        let pairs = Pairs::default();
        let details = |id: &str| PairDetails { original_id: Some(id.into()), ..PairDetails::default() };
        pairs.offer(Duration::ZERO, seen(1, "near", 1)).unwrap();
        pairs.offer(Duration::ZERO, DeliveredDuplicate { original: source(1), ..seen(2, "near", 1) }).unwrap();
        // The page that it was matched to is itself a duplicate of the first one.
        pairs.set_details(2, details("https://a.example/1"));
        let largest = pairs.largest(1).remove(0);
        assert_eq!((largest.id, largest.duplicate_id.as_deref()), (None, Some("https://a.example/2")));
        pairs.set_details(1, details("https://a.example/0\n"));
        assert_eq!(pairs.largest(1).remove(0).id.as_deref(), Some("https://a.example/0"));
    }

    #[test]
    fn a_late_large_cluster_is_not_missed() {
        let mut clusters = Clusters::default();
        let many = i64::try_from(CLUSTERS).unwrap();
        for offset in (0..many).chain(0..many) {
            clusters.count(&source(offset));
        }
        // Every slot is in use, and each page of the large one is followed by an unrelated page.
        for stranger in 0..2 * many {
            clusters.count(&source(-1));
            clusters.count(&source(many + stranger));
        }
        assert_eq!(clusters.counts.len(), CLUSTERS);
        let (largest, count) = clusters.largest(1).remove(0);
        assert!(largest == source(-1) && count >= 2 * u64::try_from(many).unwrap(), "{largest} {count}");
    }

    #[test]
    fn no_shown_count_is_too_large_and_noise_is_not_shown() {
        let mut clusters = Clusters::default();
        let mut truth: BTreeMap<i64, u64> = BTreeMap::new();
        let mut draw = 1_u64;
        // A few clusters among very many that are seen once or twice, as in a crawl.
        for step in 0..50_000 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let dice = i64::try_from(draw >> 40).unwrap();
            let cluster = if dice % 50 == 0 { dice % 7 } else { 100 + step / 2 };
            clusters.count(&source(cluster));
            *truth.entry(cluster).or_default() += 1;
        }
        let shown = clusters.largest(20);
        assert!(shown.len() >= 7, "{shown:?}");
        for (cluster, min) in &shown {
            assert!(*min <= truth[&cluster.offset], "{cluster} has {}, shown with {min}", truth[&cluster.offset]);
            assert!(cluster.offset < 100, "{cluster} with {min} is noise");
        }
        // In noise nothing stands out.
        let mut clusters = Clusters::default();
        (0..50_000).for_each(|step| clusters.count(&source(step / 2)));
        assert_eq!(clusters.largest(20).into_iter().filter(|(_, min)| *min > 2).count(), 0);
    }

    #[test]
    fn ids_are_kept_in_one_short_line() {
        assert_eq!(one_line("a\u{7}\nb"), "ab");
        assert_eq!(one_line(&"x".repeat(300)).chars().count(), LONGEST_ID + 1);
    }
}
