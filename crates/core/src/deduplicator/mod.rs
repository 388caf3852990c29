//! The judge without Kafka: reads lines, returns one verdict per line.
//!
//! Before: the caller reads lines and passes on what was read in each, in the order of the input. After: a
//! [`PageResult`] for each, to be shown as a verdict line or to be routed. It is the judge of the service, with the
//! same rules and the same index: [`decide`], then [`State::follow`], page by page.
//!
//! Time: if an event time field is configured, a page has the time of its field, and a page without the field has the
//! time of the page before it. If none is configured, the first page has time 1 ms, and each further page is 1 ms
//! later, so that the default window of three days holds 259 million pages. As with a broker's clock, a time that is
//! more than `window.max_future_skew` ahead of the clock that the caller passes in says nothing: the page has the time
//! of the newest one before it.
//!
//! Laws: L3, L5 (the result is a function of lines and settings, whatever the number of text threads), L6: ids are
//! remembered for at most as many originals as the index holds. Cost: that of [`decide`], and one map entry per
//! original with an id.
//!
//! Two pages can also be judged alone ([`PairVerdict`]): the second against the first, with the threshold at which each
//! stage would decide differently.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;

use serde::Serialize;

use crate::fingerprint::{FingerprintedPage, MAX_DISTANCE, PerMille};
use crate::judge::{Diverged, Refusal, State, decide, refusal};
use crate::protocol::{
    Answer, LogIdentity, Match, MatchedBy, MinHashRules, PageRequest, PageVerdict, Request, RequestBody, RequestId,
    RequestOffset, Rules, Stage, VerdictKind,
};
use crate::record::{EventTime, PartitionId, Reject, Rejection, Source, Timestamp};

/// What determines the verdicts, and the current time.
#[derive(Clone, Debug)]
pub struct DeduplicatorSettings {
    /// The judge's rules.
    pub rules: Rules,
    /// Where event time comes from.
    pub event_time: EventTime,
    /// How many judges share the pages by scope, each with its own memory.
    pub partitions: NonZeroUsize,
    /// The current time: an event time further ahead of it than the rules allow is capped.
    pub clock: Timestamp,
}

/// Judges page after page.
#[derive(Debug)]
pub struct Deduplicator {
    settings: DeduplicatorSettings,
    judges: Vec<ScopeJudge>,
    times: LineTimes,
}

/// One judge, and the ids of the originals that it holds.
#[derive(Debug)]
struct ScopeJudge {
    state: State,
    ids: HashMap<Source, String>,
    /// The keys of `ids` in the order of their sequence, with their event times.
    order: VecDeque<(Source, Timestamp)>,
}

/// Outcome of one page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageResult {
    /// Position of the page: the input's name, its number among the inputs, and the line, from 1.
    pub source: Source,
    /// Its own id, if it has one.
    pub id: Option<String>,
    /// The verdict.
    pub verdict: LineVerdict,
}

/// The verdict on one page.
#[derive(Clone, Debug, PartialEq)]
pub enum LineVerdict {
    /// The judge decided.
    Judged {
        /// What it is.
        kind: VerdictKind,
        /// What it was matched with; nothing for a unique page.
        original: Option<MatchedOriginal>,
    },
    /// No verdict is possible.
    Dead(Rejection),
}

/// What a page was matched with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedOriginal {
    /// The stage by which it matched, with the distance in its measure.
    pub by: MatchedBy,
    /// Estimated Jaccard index, in the `minhash` stage.
    pub similarity: Option<PerMille>,
    /// Position of the original.
    pub source: Source,
    /// Its id, if it had one.
    pub id: Option<String>,
}

/// Where a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// Delivered: unique and updated pages, and templates with other numbers.
    Unique,
    /// Not delivered: duplicates.
    Duplicate,
    /// Not judged.
    Dead,
}

/// Why a page could not be judged at all: the caller made a mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeduplicatorError {
    /// The position was judged before.
    #[error("{} was judged before", place_of(.0))]
    Repeated(Source),
    /// There is no judge with this number.
    #[error("page for judge {partition} of {judges}")]
    NoJudge {
        /// Number of the judge, from 0.
        partition: usize,
        /// Number of judges.
        judges: usize,
    },
    /// The state does not accept its own verdict.
    #[error(transparent)]
    Diverged(#[from] Diverged),
}

impl LineVerdict {
    /// Returns the name used in verdict lines.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.kind() {
            Some(kind) => kind.name(),
            None => Reject::DEAD_LETTER,
        }
    }

    /// Returns the kind of verdict; `None` if no verdict is possible.
    #[must_use]
    pub(crate) const fn kind(&self) -> Option<VerdictKind> {
        match self {
            Self::Judged { kind, .. } => Some(*kind),
            Self::Dead(_) => None,
        }
    }

    /// Returns where the page goes.
    #[must_use]
    pub const fn route(&self) -> Route {
        match self {
            Self::Judged { kind, .. } if kind.is_duplicate() => Route::Duplicate,
            Self::Judged { .. } => Route::Unique,
            Self::Dead(_) => Route::Dead,
        }
    }

    /// Returns what the page was matched with.
    #[must_use]
    pub const fn original(&self) -> Option<&MatchedOriginal> {
        match self {
            Self::Judged { original, .. } => original.as_ref(),
            Self::Dead(_) => None,
        }
    }
}

impl Deduplicator {
    /// Creates one that holds no originals.
    #[must_use]
    pub fn new(settings: DeduplicatorSettings) -> Self {
        let judge = || ScopeJudge {
            state: State::begin(LogIdentity(0), settings.rules.clone(), RequestOffset(0)),
            ids: HashMap::new(),
            order: VecDeque::new(),
        };
        let judges = (0..settings.partitions.get()).map(|_| judge()).collect();
        let times = LineTimes { source: settings.event_time, pages: 0, latest: Timestamp::from_millis(0) };
        Self { settings, judges, times }
    }

    /// Judges what was read at `source`, after everything judged before.
    ///
    /// # Errors
    ///
    /// [`DeduplicatorError`] when the caller passes a position twice, or a page of another scheme.
    pub fn judge(
        &mut self,
        source: Source,
        reading: Result<FingerprintedPage, Rejection>,
    ) -> Result<PageResult, DeduplicatorError> {
        self.times.pages += 1;
        let reading = match reading {
            Ok(reading) => reading,
            Err(rejection) => return Ok(PageResult { source, id: None, verdict: LineVerdict::Dead(rejection) }),
        };
        let event_time = self.times.of(reading.event_time);
        let (partition, judges) = (reading.partition, self.judges.len());
        let judge = self.judges.get_mut(partition).ok_or(DeduplicatorError::NoJudge { partition, judges })?;
        let id = reading.id_text.clone();
        let page = PageRequest::of(reading, source.clone(), event_time);
        let request = Request { id: RequestId(self.times.pages), body: RequestBody::Page(page) };
        let verdict = judge.judge(&request, self.settings.clock, id.as_deref())?;
        let Some(verdict) = verdict else { return Err(DeduplicatorError::Repeated(source)) };
        Ok(PageResult { source, id, verdict })
    }

    /// Returns why a page that came now would not be a duplicate of the oldest original. `None` when no rule speaks
    /// against it, or there is no original. If several judges share the pages, the judge of this page decides.
    #[must_use]
    pub(crate) fn refusal(&self, reading: &FingerprintedPage) -> Option<Refusal> {
        let state = &self.judges.get(reading.partition)?.state;
        let oldest = state.index().live(&state.watermarks()).next()?;
        // Times do not count, because the page comes right after the original.
        let page = PageRequest::of(reading.clone(), oldest.source.clone(), oldest.event_time);
        refusal(state, &page, self.settings.clock, oldest.sequence)
    }
}

impl ScopeJudge {
    /// Judges and follows. `None` when the position was judged before.
    fn judge(
        &mut self,
        request: &Request,
        clock: Timestamp,
        id: Option<&str>,
    ) -> Result<Option<LineVerdict>, Diverged> {
        let Some(verdict) = decide(&self.state, request, clock) else { return Ok(None) };
        self.state.follow(&verdict)?;
        let Answer::Page(page) = verdict.answer else { return Ok(None) };
        let original = page.decision.matched().map(|of| self.original(of));
        let verdict = LineVerdict::Judged { kind: page.decision.kind(), original };
        self.remember(&page, id);
        Ok(Some(verdict))
    }

    fn original(&self, of: &Match) -> MatchedOriginal {
        let id = self.ids.get(&of.source).cloned();
        let minhash = self.state.rules().and_then(|rules| rules.minhash);
        let similarity = match (of.by, minhash) {
            (MatchedBy::MinHash { slots, .. }, Some(minhash)) => Some(minhash.form.similarity(slots)),
            _ => None,
        };
        MatchedOriginal { by: of.by, similarity, source: of.source.clone(), id }
    }

    fn remember(&mut self, page: &PageVerdict, id: Option<&str>) {
        if let (Some(id), true) = (id, page.decision.original().is_some()) {
            self.ids.insert(page.source.clone(), id.to_owned());
            self.order.push_back((page.source.clone(), page.event_time));
        }
        // The front is the oldest original. It leaves when it expires, or when more are remembered than fit.
        let tail = self.state.watermarks().times.min();
        let capacity = self.state.rules().map_or(u64::MAX, |rules| rules.max_entries);
        while let Some((oldest, time)) = self.order.front() {
            let held = u64::try_from(self.order.len()).unwrap_or(u64::MAX);
            if *time >= tail && held <= capacity {
                break;
            }
            self.ids.remove(oldest);
            self.order.pop_front();
        }
    }
}

/// Returns a position in the form in which people look for it in a file: `pages.jsonl:17`.
#[must_use]
pub fn place_of(source: &Source) -> String {
    format!("{}:{}", source.partition.topic, source.offset)
}

/// The members of a verdict line, in this order.
#[derive(Debug, Default, Serialize)]
struct Line<'a> {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    match_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    containment: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl PageResult {
    /// Returns the verdict line, without its line break. A page without an id has no member `id`. Only a match has
    /// `stage`, `match`, `match_id` and `distance` (or `similarity`), and only a match by containment has
    /// `containment`. Only a dead letter has `reason` and `message`.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = Line {
            source: place_of(&self.source),
            id: self.id.as_deref(),
            verdict: self.verdict.name(),
            ..Line::default()
        };
        if let Some(MatchedOriginal { by, similarity, source, id }) = self.verdict.original() {
            line.stage = Some(by.stage().name());
            line.distance = Some(by.distance()).filter(|_| similarity.is_none());
            line.similarity = similarity.map(PerMille::share);
            line.containment = by.contained().map(PerMille::share);
            line.matched = Some(place_of(source));
            line.match_id = id.as_deref();
        }
        if let LineVerdict::Dead(rejection) = &self.verdict {
            line.reason = Some(rejection.reason().name());
            line.message = Some(rejection.message());
        }
        // The line holds only strings and numbers, so it can always be written.
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// Event times of lines, in their order.
///
/// ```
/// # use dupgate_core::record::{EventTime, Timestamp};
/// # use dupgate_core::deduplicator::LineTimes;
/// let mut times = LineTimes { source: EventTime::Field, pages: 1, latest: Timestamp::from_millis(0) };
/// assert_eq!(times.of(Some(Timestamp::from_millis(7))), Timestamp::from_millis(7));
/// times.pages += 1;
/// assert_eq!(times.of(None), Timestamp::from_millis(7));
/// ```
#[derive(Clone, Debug)]
pub struct LineTimes {
    /// Where times come from.
    pub source: EventTime,
    /// Number of pages up to the current one.
    pub pages: u64,
    /// Event time of the last page that could be judged.
    pub latest: Timestamp,
}

impl LineTimes {
    /// Returns the event time of this page, which names the time `own`, if any. Call it only for a page that can be
    /// judged.
    pub fn of(&mut self, own: Option<Timestamp>) -> Timestamp {
        self.latest = match self.source {
            EventTime::Record => Timestamp::from_millis(i64::try_from(self.pages).unwrap_or(i64::MAX)),
            EventTime::Field => own.unwrap_or(self.latest),
        };
        self.latest
    }
}

/// What the judge says about a pair of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct PairVerdict {
    /// The verdict on the second page when the first is the only original.
    pub verdict: LineVerdict,
    /// Why the second page is not a duplicate of the first, if it is unique or a template.
    pub refusal: Option<Refusal>,
    /// What each stage says when it decides alone, strongest first, whether it is in use or not.
    pub stages: Vec<StageResult>,
}

/// What one stage says about a pair of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageResult {
    /// The stage.
    pub stage: Stage,
    /// Whether the rules use it.
    pub in_use: bool,
    /// Whether it matches under the rules' own threshold, by similarity alone: containment does not count.
    pub matches: bool,
    /// The strictest threshold under which it still matches, with the other rules unchanged. `None` when no threshold
    /// makes it match, and for the exact stage, which has none.
    pub from: Option<Threshold>,
}

/// The threshold of a stage, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Differing bits: `match.simhash.max_distance`.
    MaxDistance(u8),
    /// Estimated Jaccard index: `match.minhash.min_similarity`.
    MinSimilarity(PerMille),
}

impl PairVerdict {
    /// Lets the judge decide on `other` right after `one`: with these rules, then stage by stage, then with the loosest
    /// threshold of each stage. Both must be read by the same reader; their times do not count.
    ///
    /// # Errors
    ///
    /// [`DeduplicatorError`] when they were read for several judges.
    pub fn of(rules: &Rules, one: &FingerprintedPage, other: &FingerprintedPage) -> Result<Self, DeduplicatorError> {
        let mut deduplicator = of_one(rules.clone(), one)?;
        let refusal = deduplicator.refusal(other);
        let verdict = second(&mut deduplicator, other)?;
        let stages = Stage::ALL.map(|stage| {
            let by_likeness = rules.minhash.map(|minhash| MinHashRules { containment: None, ..minhash });
            let alone = Rules { stages: vec![stage], minhash: by_likeness, ..rules.clone() };
            let loosest = match stage {
                Stage::Exact => None,
                Stage::SimHash => Some(Rules { max_distance: MAX_DISTANCE, ..alone.clone() }),
                Stage::MinHash => alone.minhash.map(|minhash| Rules { minhash: Some(loose(minhash)), ..alone.clone() }),
            };
            let loosest = loosest.map(|rules| ask(rules, one, other)).transpose()?;
            let from = loosest.as_ref().and_then(LineVerdict::original).filter(|original| original.by.stage() == stage);
            Ok(StageResult {
                stage,
                in_use: rules.stages.contains(&stage),
                matches: ask(alone, one, other)?.original().is_some(),
                from: from.and_then(|original| match original.by {
                    MatchedBy::Exact => None,
                    MatchedBy::SimHash { bits } => Some(Threshold::MaxDistance(bits)),
                    MatchedBy::MinHash { .. } => original.similarity.map(Threshold::MinSimilarity),
                }),
            })
        });
        let stages: Result<Vec<StageResult>, DeduplicatorError> = stages.into_iter().collect();
        let refusal = refusal.filter(|_| matches!(verdict.kind(), Some(VerdictKind::Unique | VerdictKind::Template)));
        Ok(Self { verdict, refusal, stages: stages? })
    }

    /// Returns what one stage says.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Option<&StageResult> {
        self.stages.iter().find(|says| says.stage == stage)
    }
}

fn loose(minhash: MinHashRules) -> MinHashRules {
    MinHashRules { min_similarity: PerMille::ZERO, ..minhash }
}

fn ask(rules: Rules, one: &FingerprintedPage, other: &FingerprintedPage) -> Result<LineVerdict, DeduplicatorError> {
    second(&mut of_one(rules, one)?, other)
}

/// Returns a judge that remembers one page.
fn of_one(rules: Rules, one: &FingerprintedPage) -> Result<Deduplicator, DeduplicatorError> {
    // Sized for a few originals, because tables for millions would be allocated for two pages.
    let rules = Rules { max_entries: rules.max_entries.clamp(1, 16), ..rules };
    let clock = Timestamp::from_millis(i64::MAX / 2);
    let event_time = EventTime::Record;
    let mut deduplicator =
        Deduplicator::new(DeduplicatorSettings { rules, event_time, partitions: NonZeroUsize::MIN, clock });
    deduplicator.judge(PartitionId::new("pair", 0).at(1), Ok(one.clone()))?;
    Ok(deduplicator)
}

fn second(deduplicator: &mut Deduplicator, other: &FingerprintedPage) -> Result<LineVerdict, DeduplicatorError> {
    Ok(deduplicator.judge(PartitionId::new("pair", 0).at(2), Ok(other.clone()))?.verdict)
}
