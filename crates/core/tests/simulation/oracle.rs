//! A second judge that is too simple to be wrong: a list and two loops, without index and bitmap. It was written from
//! the design alone.

use std::collections::{BTreeMap, BTreeSet};

use dupgate_core::fingerprint::{AddressHash, Fingerprints, IdHash, PerMille, ScopeHash, SiteHash, TitleHash};
use dupgate_core::protocol::{
    Answer, Decision, Delivered, ForgetTarget, Match, MatchedBy, NewOriginal, PageRequest, PageVerdict, Placement,
    Request, RequestBody, RequestId, Rules, SameId, Stage, Verdict,
};
use dupgate_core::record::{PartitionId, Source, Timestamp};

/// A judge of one log, fed with a copy of it.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) rules: Option<Rules>,
    judged: BTreeMap<PartitionId, BTreeSet<i64>>,
    /// Highest position that a checkpoint calls committed, and what below it was judged when it had been.
    delivered: BTreeMap<PartitionId, (i64, BTreeSet<i64>)>,
    /// Reopened, and not judged again.
    open: BTreeMap<PartitionId, BTreeSet<i64>>,
    applied: BTreeSet<RequestId>,
    originals: Vec<Held>,
    /// The stream time.
    pub(crate) newest: Option<i64>,
    /// Pages that are too far ahead of it: their smallest time, and how many more there are than others since.
    pub(crate) ahead: Option<(i64, u64)>,
    watermarks: [Option<i64>; 3],
    first_sequence: u64,
    next_sequence: u64,
    /// Some original is not in all tables.
    is_placed: bool,
}

#[derive(Clone, Debug)]
struct Held {
    sequence: u64,
    source: Source,
    time: i64,
    fingerprints: Fingerprints,
    id: Option<IdHash>,
    address: Option<AddressHash>,
    scope: Option<ScopeHash>,
    site: Option<SiteHash>,
    title: Option<TitleHash>,
    cluster: Source,
}

/// A candidate with all that its rank depends on.
type Ranked<'h> = (bool, (bool, bool), usize, Option<PerMille>, u32, u64, &'h Held);

fn index(stage: Stage) -> usize {
    match stage {
        Stage::Exact => 0,
        Stage::SimHash => 1,
        Stage::MinHash => 2,
    }
}

fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap()
}

impl Oracle {
    /// Returns whether it can judge: it knows neither families and full keys nor their effects, and of the rules about sites
    /// only that for titles, which needs no sketch.
    pub(crate) fn can_judge(&self) -> bool {
        let knows = |rules: &Rules| {
            let are_placed = rules.minhash.is_some_and(|minhash| minhash.max_bucket > 0);
            let are_of_sketches = rules.minhash.is_some() && rules.same_site.is_some();
            !are_placed && !are_of_sketches && rules.simhash_similarity.is_none()
        };
        !self.is_placed && self.rules.as_ref().is_none_or(knows)
    }

    /// Answers a request, or not if it repeats an old one.
    pub(crate) fn answer(&self, request: &Request, appended: i64) -> Option<Verdict> {
        let repeats = self.applied.contains(&request.id);
        let answer = match &request.body {
            RequestBody::Page(page) => Answer::Page(self.judge(page, appended)?),
            _ if repeats => return None,
            RequestBody::Withdraw { source, reason } => Answer::Withdrawn { source: source.clone(), reason: *reason },
            RequestBody::Forget(target) => Answer::Forgotten(target.clone()),
            RequestBody::Reopen { partition, from, to } => {
                // Nothing that may not be delivered yet.
                let (end, again) = self.delivered(partition);
                let to = (*to).min(end);
                let to = (*from..to).find(|offset| again.contains(offset)).unwrap_or(to).max(*from);
                Answer::Reopened { partition: partition.clone(), from: *from, to }
            }
            RequestBody::SetTime(time) => {
                let before = self.newest.map_or(Timestamp::MIN, Timestamp::from_millis);
                Answer::TimeSet { before, after: before.min(*time) }
            }
        };
        Some(Verdict { request: request.id, answer })
    }

    fn judge(&self, page: &PageRequest, appended: i64) -> Option<PageVerdict> {
        let rules = self.rules.as_ref()?;
        if self.judged.get(&page.source.partition).is_some_and(|judged| judged.contains(&page.source.offset)) {
            return None;
        }
        let latest = appended + millis(rules.max_future_skew);
        let newest = self.newest.unwrap_or(0).max(0).min(latest);
        let time = Some(page.event_time.millis()).filter(|time| *time <= latest).unwrap_or(newest);
        let watermarks = self.tails_at(time);
        let mut best: Option<Ranked<'_>> = None;
        for held in &self.originals {
            let relation = Relation::of(page, held);
            if relation == Relation::None && rules.same_site.is_some() && have_other_titles(page, held) {
                continue;
            }
            for &stage in &rules.stages {
                let Some((distance, contained)) = distance(stage, held, page, rules) else { continue };
                let window = millis(rules.windows.of(stage));
                if held.scope != page.scope || (held.time - time).abs() > window {
                    continue;
                }
                if watermarks[index(stage)].is_some_and(|tail| held.time < tail) || held.sequence < self.first_sequence
                {
                    continue;
                }
                let is_update = relation.is_update(page) && rules.same_id == SameId::Update;
                let is_rendering = page.is_variant
                    && relation == Relation::Elsewhere
                    && !nearly_equal(stage, distance, contained, page);
                let others = stage != Stage::Exact
                    && !is_update
                    && !is_rendering
                    && others(&held.fingerprints, &page.fingerprints, rules);
                let stranger = relation == Relation::None;
                let elsewhere = stage != Stage::Exact && relation != Relation::SameAddress;
                let found = (others, (stranger, elsewhere), index(stage), contained, distance, held.sequence, held);
                let rank = |(a, b, c, d, e, f, _): &Ranked<'_>| (*a, *b, *c, d.is_some(), *e, *f);
                if best.as_ref().is_none_or(|best| rank(&found) < rank(best)) {
                    best = Some(found);
                }
                // Each original matches in its strongest stage.
                break;
            }
        }
        let original = NewOriginal {
            fingerprints: page.fingerprints.clone(),
            id: page.id,
            scope: page.scope,
            site: page.site,
            address: page.address,
            title: page.title,
            placement: Placement::EVERYWHERE,
            cluster: None,
        };
        let fresh = original.clone();
        let remembered = watermarks.iter().any(|tail| tail.is_none_or(|tail| time >= tail));
        let decision = match best {
            None => Decision::Unique { original: remembered.then_some(original) },
            Some((others, _, stage, contained, distance, _, held)) => {
                let of = Match {
                    by: match Stage::ALL[stage] {
                        Stage::Exact => MatchedBy::Exact,
                        Stage::SimHash => MatchedBy::SimHash { bits: u8::try_from(distance).unwrap() },
                        Stage::MinHash => MatchedBy::MinHash { slots: u8::try_from(distance).unwrap(), contained },
                    },
                    source: held.source.clone(),
                    age_ms: time - held.time,
                    cluster: held.cluster.clone(),
                };
                // Its text of an earlier visit, after another one that has the page's id or the address that it says.
                let returns = Relation::of(page, held) == Relation::SameAddress
                    && self.originals.iter().any(|later| {
                        let is_live = watermarks.iter().any(|tail| tail.is_none_or(|tail| later.time >= tail));
                        let is_later = later.sequence > held.sequence && later.sequence >= self.first_sequence;
                        is_live
                            && is_later
                            && later.scope == page.scope
                            && named(page, later)
                            && Relation::of(page, later) == Relation::SameAddress
                    });
                let is_update = Relation::of(page, held).is_update(page) && (stage > 0 || returns);
                if is_update && rules.same_id == SameId::Update {
                    let newer = NewOriginal { cluster: Some(held.cluster.clone()), ..original };
                    Decision::Update { of, original: (time >= held.time).then_some(newer) }
                } else if others {
                    Decision::Template { of, original: remembered.then_some(original) }
                } else {
                    Decision::Duplicate { of }
                }
            }
        };
        let decision = match page.earlier.as_deref() {
            None => decision,
            Some(Decision::Duplicate { .. }) if rules.dual.is_none() => decision,
            Some(Decision::Unique { .. }) => Decision::Unique { original: remembered.then_some(fresh) },
            Some(Decision::Template { of, .. }) => {
                Decision::Template { of: of.clone(), original: remembered.then_some(fresh) }
            }
            Some(Decision::Update { of, .. }) => {
                let newer = NewOriginal { cluster: Some(of.cluster.clone()), ..fresh };
                Decision::Update { of: of.clone(), original: (of.age_ms >= 0).then_some(newer) }
            }
            Some(earlier @ Decision::Duplicate { .. }) => earlier.clone(),
        };
        let event_time = Timestamp::from_millis(time);
        Some(PageVerdict { source: page.source.clone(), event_time, digest: page.digest, decision })
    }

    fn tails_at(&self, time: i64) -> [Option<i64>; 3] {
        let Some(rules) = &self.rules else { return self.watermarks };
        let newest = self.newest.map_or(time, |newest| newest.max(time));
        let mut watermarks = self.watermarks;
        for stage in Stage::ALL {
            let tail = newest - millis(rules.lateness) - millis(rules.windows.of(stage));
            watermarks[index(stage)] = Some(watermarks[index(stage)].map_or(tail, |before| before.max(tail)));
        }
        watermarks
    }

    /// Remembers what was answered.
    pub(crate) fn take(&mut self, verdict: &Verdict) {
        match &verdict.answer {
            Answer::Page(page) => return self.take_page(page),
            Answer::Withdrawn { source, .. } => {
                self.close(source);
                self.originals.retain(|held| held.source != *source);
            }
            Answer::Forgotten(ForgetTarget::Source(source)) => self.originals.retain(|held| held.source != *source),
            Answer::Forgotten(ForgetTarget::Id(id)) => self.originals.retain(|held| held.id != Some(*id)),
            Answer::Reopened { partition, from, to } => {
                let judged = self.judged.entry(partition.clone()).or_default();
                let opened: BTreeSet<i64> = judged.range(from..to).copied().collect();
                judged.retain(|offset| !opened.contains(offset));
                let delivered = self.delivered.entry(partition.clone()).or_default();
                delivered.1.retain(|offset| !(*from..*to).contains(offset));
                // A recreated topic, perhaps: what comes is another page than what was delivered.
                if from < to && judged.is_empty() {
                    *delivered = Default::default();
                }
                self.open.entry(partition.clone()).or_default().extend(opened);
                let within = |source: &Source| source.partition == *partition && (*from..*to).contains(&source.offset);
                self.originals.retain(|held| !within(&held.source));
            }
            Answer::TimeSet { after, .. } => self.set_back(after.millis()),
        }
        self.applied.insert(verdict.request);
    }

    /// Moves the stream time on: a step at once, a leap once eight pages in excess say so, over the time of the skew.
    fn move_on(&mut self, time: i64) {
        let Some(rules) = &self.rules else { return };
        let (lateness, skew) = (millis(rules.lateness), millis(rules.max_future_skew));
        let Some(newest) = self.newest else {
            self.newest = Some(time);
            return;
        };
        let furthest = newest + lateness.max(skew);
        if time > furthest {
            let (from, count) = self.ahead.map_or((time, 1), |(from, count)| (from.min(time), count + 1));
            let is_proved = count >= 8 && time - from >= skew;
            self.ahead = (!is_proved).then_some((from, count));
            if is_proved {
                self.newest = Some(time);
            }
            return;
        }
        let newest = newest.max(time);
        self.newest = Some(newest);
        let left = self.ahead.map(|(from, count)| (from, count - 1));
        self.ahead = left.filter(|(from, count)| *count > 0 && *from > newest + lateness.max(skew));
    }

    /// Sets the stream time back, if it is later. What is not live then never is again.
    fn set_back(&mut self, time: i64) {
        let Some(rules) = self.rules.clone().filter(|_| self.newest.is_some_and(|newest| time < newest)) else {
            return;
        };
        let live = self.live();
        self.originals.retain(|held| live.contains(&held.source));
        (self.newest, self.ahead) = (Some(time), None);
        for stage in Stage::ALL {
            let tail = time - millis(rules.lateness) - millis(rules.windows.of(stage));
            let before = &mut self.watermarks[index(stage)];
            *before = before.map(|before| before.min(tail));
        }
    }

    fn close(&mut self, source: &Source) {
        self.judged.entry(source.partition.clone()).or_default().insert(source.offset);
        let (end, again) = self.delivered.entry(source.partition.clone()).or_default();
        if source.offset < *end {
            again.insert(source.offset);
        }
        self.open.entry(source.partition.clone()).or_default().remove(&source.offset);
    }

    fn take_page(&mut self, page: &PageVerdict) {
        let time = page.event_time.millis();
        self.move_on(time);
        self.watermarks = self.tails_at(self.newest.unwrap());
        self.close(&page.source);
        if let Decision::Update { of, original: Some(_) } = &page.decision {
            self.originals.retain(|held| held.source != of.source);
        }
        if let Some(original) = page.decision.original() {
            self.is_placed |= original.placement != Placement::EVERYWHERE;
            self.originals.push(Held {
                sequence: self.next_sequence,
                source: page.source.clone(),
                time,
                fingerprints: original.fingerprints.clone(),
                id: original.id,
                address: original.address,
                scope: original.scope,
                site: original.site,
                title: original.title,
                cluster: original.cluster.clone().unwrap_or_else(|| page.source.clone()),
            });
            self.next_sequence += 1;
            let most = self.rules.as_ref().map_or(u64::MAX, |rules| rules.max_entries);
            self.first_sequence = self.first_sequence.max(self.next_sequence.saturating_sub(most));
        }
    }

    /// Below the low watermark everything counts as judged, but it waits for what was reopened. Returns where it came
    /// to.
    pub(crate) fn raise_low_watermark(&mut self, partition: &PartitionId, low_watermark: i64) -> i64 {
        let waits = self.open.get(partition).and_then(|open| open.first().copied());
        let low_watermark = waits.map_or(low_watermark, |waits| low_watermark.min(waits));
        self.judged.entry(partition.clone()).or_default().extend(0..low_watermark);
        low_watermark
    }

    /// Takes over what a checkpoint says is delivered. Says what is wrong with it, as far as the log shows that.
    pub(crate) fn deliver(&mut self, partition: &PartitionId, said: &Delivered) -> Result<(), String> {
        let (end, again) = self.delivered(partition);
        let pending: BTreeSet<i64> = said.pending.iter().map(|offset| i64::try_from(offset).unwrap()).collect();
        if said.end < end {
            return Err(format!("{} of {partition} are delivered, after {end}", said.end));
        }
        let judged = self.judged(partition);
        let known = |offset: &&i64| judged.contains(offset) && (again.contains(offset) || **offset >= end);
        if let Some(offset) = pending.iter().find(|offset| !known(offset) || **offset >= said.end) {
            return Err(format!("{partition}:{offset} is not judged again, but on its way"));
        }
        self.delivered.insert(partition.clone(), (said.end, pending));
        Ok(())
    }

    fn delivered(&self, partition: &PartitionId) -> (i64, BTreeSet<i64>) {
        self.delivered.get(partition).cloned().unwrap_or_default()
    }

    pub(crate) fn is_judged(&self, source: &Source) -> bool {
        self.judged.get(&source.partition).is_some_and(|judged| judged.contains(&source.offset))
    }

    pub(crate) fn judged(&self, partition: &PartitionId) -> BTreeSet<i64> {
        self.judged.get(partition).cloned().unwrap_or_default()
    }

    /// The originals that may still be matched.
    pub(crate) fn live(&self) -> BTreeSet<Source> {
        let lives = |held: &&Held| {
            let in_time = self.watermarks.iter().any(|tail| tail.is_none_or(|tail| held.time >= tail));
            in_time && held.sequence >= self.first_sequence
        };
        self.originals.iter().filter(lives).map(|held| held.source.clone()).collect()
    }

    /// Expiry watermarks as they are in the log: exact, simhash, first sequence.
    pub(crate) fn watermarks(&self) -> ([i64; 3], u64) {
        (self.watermarks.map(|tail| tail.unwrap_or(i64::MIN)), self.first_sequence)
    }

    pub(crate) fn applied(&self) -> &BTreeSet<RequestId> {
        &self.applied
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}

/// What ids and addresses say of a page and an original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    None,
    /// One page, at two addresses or who knows where.
    Elsewhere,
    SameAddress,
}

impl Relation {
    fn of(page: &PageRequest, held: &Held) -> Self {
        let said = |id: Option<IdHash>| id.map(AddressHash::of);
        let same_id = page.id.is_some() && page.id == held.id;
        let page_is_named = page.address.is_some() && page.address == said(held.id);
        let held_is_named = held.address.is_some() && held.address == said(page.id);
        let both_tell = page.is_variant && page.address.is_some() && page.address == held.address;
        if !(same_id || page_is_named || held_is_named || both_tell) {
            return Self::None;
        }
        let own = page.address.or(if page.is_variant { None } else { said(page.id) });
        if own.is_some() && own == held.address.or(said(held.id)) { Self::SameAddress } else { Self::Elsewhere }
    }

    /// A text of the same page that is no rendering.
    fn is_update(self, page: &PageRequest) -> bool {
        self == Self::SameAddress || (self == Self::Elsewhere && !page.is_variant)
    }
}

/// Returns whether an original has the id of a page, or the address that this id says.
fn named(page: &PageRequest, held: &Held) -> bool {
    let said = page.id.map(AddressHash::of);
    page.id.is_some() && (held.id == page.id || held.address == said)
}

/// Returns whether both are of one site and have titles, other ones.
fn have_other_titles(page: &PageRequest, held: &Held) -> bool {
    let is_of_site = page.site.is_some() && page.site == held.site;
    is_of_site && page.title.is_some() && held.title.is_some() && page.title != held.title
}

/// Returns whether so little differs that other numbers are what two pages are about.
fn nearly_equal(stage: Stage, distance: u32, contained: Option<PerMille>, page: &PageRequest) -> bool {
    let slots = page.fingerprints.sketch.as_ref().map_or(0, |sketch| u32::try_from(sketch.bytes().len() - 2).unwrap());
    match stage {
        Stage::Exact => false,
        Stage::SimHash => true,
        Stage::MinHash => contained.is_none() && jaccard(slots, slots - distance) * 1000.0 >= 700.0,
    }
}

/// Of a slot of 8 bits strangers agree in one of 256.
fn jaccard(slots: u32, agreeing: u32) -> f64 {
    (f64::from(agreeing) / f64::from(slots) - 1.0 / 256.0) / (1.0 - 1.0 / 256.0)
}

/// Slots that differ, when enough bands agree or the page names the original and few enough differ, or when one page
/// holds enough of the other, which is returned then: slot by slot, from the definition.
fn sketch_distance(held: &Held, page: &PageRequest, rules: &Rules) -> Option<(u32, Option<PerMille>)> {
    let minhash = rules.minhash?;
    let (one, other) = (held.fingerprints.sketch.as_ref()?.bytes(), page.fingerprints.sketch.as_ref()?.bytes());
    let ((one, [_, one_size]), (other, [_, other_size])) = (one.split_last_chunk()?, other.split_last_chunk()?);
    let rows = usize::from(minhash.banding.rows());
    let bands = one.chunks(rows).zip(other.chunks(rows)).take(usize::from(minhash.banding.bands()));
    let is_named = named(page, held);
    let agreeing = if is_named { usize::MAX } else { bands.filter(|(one, other)| one == other).count() };
    let distance = u32::try_from(one.iter().zip(other).filter(|(one, other)| one != other).count()).unwrap();
    let slots = f64::from(u32::try_from(one.len()).unwrap());
    // Of a slot of 8 bits unrelated texts agree in one of 256.
    let jaccard = |slots: f64| ((slots - f64::from(distance)) / slots - 1.0 / 256.0) / (1.0 - 1.0 / 256.0);
    let estimate = jaccard(slots);
    // A row of slots agrees in whatever is found.
    let beside = jaccard(slots - f64::from(minhash.banding.rows()));
    let (fewer, both) = (f64::from(*one_size.min(other_size)), f64::from(*one_size) + f64::from(*other_size));
    let share = (beside * both / (1.0 + beside) / fewer).min(1.0) * 1000.0 + 1e-9;
    let holds = |least: PerMille| beside >= 1.0 / 16.0 && share >= f64::from(least.0);
    let of_two_sites = held.site.zip(page.site).is_some_and(|(one, other)| one != other);
    let low_confidence = minhash.low_confidence;
    let below = if of_two_sites { low_confidence.below_short } else { low_confidence.below };
    let sure = low_confidence.below == PerMille::ZERO
        || estimate * 1000.0 >= f64::from(below.0)
        || holds(low_confidence.containment);
    let needed = if u16::from(*other_size) < minhash.one_band_below { 1 } else { minhash.min_shared_bands };
    if agreeing >= usize::from(needed) && estimate * 1000.0 >= f64::from(minhash.min_similarity.0) && sure {
        return Some((distance, None));
    }
    let holds = agreeing > 0 && holds(minhash.containment?);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousandths, rounded down")]
    holds.then_some((distance, Some(PerMille(share as u16))))
}

/// Returns whether less than the demanded share of the fewer numbers is in both; the pages of this world have few.
fn others(held: &Fingerprints, page: &Fingerprints, rules: &Rules) -> bool {
    let (one, other) = (held.numbers.hashes(), page.numbers.hashes());
    let shared = one.iter().filter(|number| other.contains(number)).count();
    let fewer = one.len().min(other.len());
    rules.number_guard.is_some_and(|least| fewer >= 2 && shared * 1000 < fewer * usize::from(least.0))
}

fn distance(stage: Stage, held: &Held, page: &PageRequest, rules: &Rules) -> Option<(u32, Option<PerMille>)> {
    let (one, other) = (&held.fingerprints, &page.fingerprints);
    match stage {
        Stage::Exact => (one.exact == other.exact).then_some((0, None)),
        Stage::SimHash => {
            let bits = (one.simhash?.bits() ^ other.simhash?.bits()).count_ones();
            (bits <= u32::from(rules.max_distance)).then_some((bits, None))
        }
        Stage::MinHash => sketch_distance(held, page, rules),
    }
}
