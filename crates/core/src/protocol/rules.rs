//! Rules: what determines a verdict. They are the judge's own configuration, spelled out in the verdict log.

use std::time::Duration;

use crate::fingerprint::{
    Banding, Evidence, Fingerprints, LowConfidence, MinHashSettings, PerMille, SameSite, SketchForm,
};
use crate::record::Timestamp;

/// A way to match, strongest first. Candidates are preferred in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Equal normalised text.
    Exact = 1,
    /// `SimHash` within `max_distance` bits.
    SimHash = 2,
    /// Sketches that estimate a Jaccard index of at least `min_similarity`.
    MinHash = 3,
}

impl Stage {
    /// Every stage, strongest first.
    pub const ALL: [Self; 3] = [Self::Exact, Self::SimHash, Self::MinHash];

    /// Returns the name used in headers, configuration and verdict lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::SimHash => "simhash",
            Self::MinHash => "minhash",
        }
    }
}

/// One value for each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerStage<T> {
    /// Value of the exact stage.
    pub exact: T,
    /// Value of the `SimHash` stage.
    pub simhash: T,
    /// Value of the `MinHash` stage.
    pub minhash: T,
}

impl<T: Copy> PerStage<T> {
    /// Gives every stage the same value.
    pub const fn all(value: T) -> Self {
        Self { exact: value, simhash: value, minhash: value }
    }

    /// Returns the value of one stage.
    pub const fn of(&self, stage: Stage) -> T {
        match stage {
            Stage::Exact => self.exact,
            Stage::SimHash => self.simhash,
            Stage::MinHash => self.minhash,
        }
    }

    /// Returns one value for each stage, computed from the stage's value.
    pub(crate) fn map<U>(&self, mut make: impl FnMut(T) -> U) -> PerStage<U> {
        PerStage { exact: make(self.exact), simhash: make(self.simhash), minhash: make(self.minhash) }
    }
}

impl<T: Copy + Ord> PerStage<T> {
    /// Returns the smallest value of all stages.
    pub(crate) fn min(&self) -> T {
        self.exact.min(self.simhash).min(self.minhash)
    }

    /// Returns the largest value of all stages.
    pub fn max(&self) -> T {
        self.exact.max(self.simhash).max(self.minhash)
    }
}

/// What to do with a page whose id is that of a near candidate but whose text changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SameId {
    /// Verdict `update`: goes to the unique topic and replaces the original.
    Update = 1,
    /// A duplicate like any other.
    Duplicate = 2,
}

/// What determines a verdict. Two judges with the same rules and the same log give the same verdicts (law L5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The stages in use, strongest first.
    pub stages: Vec<Stage>,
    /// Largest Hamming distance of a `SimHash` match, inclusive, 0 to 8.
    pub max_distance: u8,
    /// How long each stage remembers, in event time, inclusive.
    pub windows: PerStage<Duration>,
    /// How far one partition may lag another one and still find all its originals.
    pub lateness: Duration,
    /// How far a page's clock may run ahead of the brokers'.
    pub max_future_skew: Duration,
    /// The most originals that are held; when there are more, the oldest are evicted.
    pub max_entries: u64,
    /// What to do with a changed page whose id is known.
    pub same_id: SameId,
    /// Lowest share of the smaller page's numbers that a near page has to have in common, inclusive; below it, the page
    /// is a template. If absent, numbers do not count.
    pub number_guard: Option<PerMille>,
    /// How sketches are compared. If absent, the `MinHash` stage finds nothing.
    pub minhash: Option<MinHashRules>,
    /// Lowest estimated Jaccard index of pages that match by their `SimHash`, inclusive, if both have a sketch: one can
    /// choose words so that a page gets the `SimHash` of another text. If absent, only the distance counts.
    pub simhash_similarity: Option<PerMille>,
    /// What pages of one site need in order to match. If absent, they match like any others.
    pub same_site: Option<SameSite>,
    /// The dual period, while it lasts: verdicts of an earlier scheme that requests carry are taken over.
    pub dual: Option<DualPeriod>,
}

/// The first window of a log that follows on another scheme. The log of the earlier scheme decides, and this one
/// remembers what was decided, until it knows as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DualPeriod {
    /// The log has just begun, so the stream time may be that of a few odd pages.
    Begun,
    /// It lasts until everything before this event time has expired.
    Until(Timestamp),
}

impl DualPeriod {
    /// Returns the event time that a fleet has for the change: until then, some pages may be judged in the log of the
    /// earlier scheme alone.
    #[must_use]
    pub(crate) fn time_to_change(rules: &Rules) -> Duration {
        rules.windows.max() / 4
    }
}

impl Rules {
    /// Returns how much later the stream time will be when the dual period is over; 0 if there is none.
    #[must_use]
    pub fn left_of_dual_period(&self, stream_time: Timestamp) -> Duration {
        let kept = self.windows.max() + self.lateness;
        match self.dual {
            None => Duration::ZERO,
            Some(DualPeriod::Begun) => DualPeriod::time_to_change(self) + kept,
            Some(DualPeriod::Until(end)) if end.plus(kept) <= stream_time => Duration::ZERO,
            Some(DualPeriod::Until(end)) => Duration::from_millis(end.plus(kept).gap_millis(stream_time)),
        }
    }
}

impl Default for Rules {
    /// Returns the rules of a service whose configuration sets none, for at most a million originals.
    fn default() -> Self {
        Self {
            stages: Stage::ALL.to_vec(),
            max_distance: 3,
            windows: PerStage::all(Duration::from_hours(72)),
            lateness: Duration::from_hours(6),
            max_future_skew: Duration::from_mins(10),
            max_entries: 1_000_000,
            same_id: SameId::Update,
            number_guard: Some(PerMille(500)),
            minhash: MinHashSettings::default().form.and_then(MinHashRules::usual),
            simhash_similarity: Some(PerMille(200)),
            same_site: Some(SameSite { containment: PerMille(950) }),
            dual: None,
        }
    }
}

/// How sketches are found and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinHashRules {
    /// The form of all sketches of the scheme.
    pub form: SketchForm,
    /// Which of their slots make the keys that are looked up.
    pub banding: Banding,
    /// How many keys two sketches must share before they are compared, at least 1.
    pub min_shared_bands: u8,
    /// A page of fewer shingles than this is compared with every original that shares a single key, because an edited
    /// short text shares few keys. Only the size of the page that is judged counts, not that of the original. 0: this
    /// applies to no page.
    pub one_band_below: u16,
    /// Lowest estimated Jaccard index of a match, inclusive.
    pub min_similarity: PerMille,
    /// Lowest share of the smaller page that is in the other one, inclusive, at which pages match however unlike they
    /// are as a whole, if they share a single key. If absent, only similarity counts.
    pub containment: Option<PerMille>,
    /// When an estimate alone is not enough for a match.
    pub low_confidence: LowConfidence,
    /// The most originals that one key, or one difference in a family, finds; later ones are found by their other keys
    /// ([`Placement`](super::Placement)). 0: there is no bound, and there are no families.
    pub max_bucket: u16,
}

impl MinHashRules {
    /// Returns the default rules for sketches of this form; `None` if it has fewer slots than 42 bands of 3 rows need.
    #[must_use]
    pub fn usual(form: SketchForm) -> Option<Self> {
        let low_confidence = LowConfidence::default();
        let banding = Banding::new(42, 3, form).ok()?;
        Some(Self {
            form,
            banding,
            min_shared_bands: 2,
            one_band_below: 64,
            min_similarity: PerMille(300),
            containment: None,
            low_confidence,
            max_bucket: 64,
        })
    }

    /// Returns how many keys an original has to share with a page of this many shingles to be similar to it. If the
    /// number is not known, the page counts as not short.
    #[must_use]
    pub fn keys_needed(&self, shingles: Option<u32>) -> u8 {
        let is_short = shingles.is_some_and(|shingles| shingles < u32::from(self.one_band_below));
        if is_short { 1 } else { self.min_shared_bands }
    }

    /// Returns how many keys two sketches must share before they are compared: with containment, a single one.
    #[must_use]
    pub fn least_keys(&self, shingles: Option<u32>) -> u8 {
        if self.containment.is_some() { 1 } else { self.keys_needed(shingles) }
    }

    /// Returns the share of the smaller page that is in the other one, estimated from their sketches on the assumption
    /// that they share a key; `None` if it cannot be estimated.
    #[must_use]
    pub fn share_contained(&self, one: &Fingerprints, other: &Fingerprints) -> Option<PerMille> {
        one.contained(other, self.form, self.banding.rows())
    }

    /// Returns whether the estimated similarity of a pair of sketches that share a key can be trusted.
    #[must_use]
    pub(crate) fn is_sure(&self, evidence: Evidence) -> bool {
        self.low_confidence.is_sure(self.form, evidence)
    }

    /// Returns the evidence for a pair of sketches at this distance. `bits` is how many bits of the pages' `SimHash`es
    /// differ, `of_two_sites` whether the pages are known to be of different sites, and `rivals` how many other
    /// originals are nearly as similar. Sketches without counts lack one kind of evidence.
    #[must_use]
    pub(crate) fn evidence(
        &self,
        [one, other]: [&[u8]; 2],
        distance: u8,
        bits: Option<u8>,
        of_two_sites: bool,
        rivals: u32,
    ) -> Evidence {
        let contained = self.form.contained(one, other, distance, self.banding.rows());
        let shingles = self.form.count(one).zip(self.form.count(other)).map(|(one, other)| one.min(other));
        let estimate = self.form.similarity(distance);
        Evidence { estimate, contained, distance: bits, shingles, of_two_sites, rivals }
    }

    /// Returns whether a pair of sketches at this distance might be taken for a match by chance.
    #[must_use]
    pub(crate) fn is_rival(&self, distance: u8) -> bool {
        LowConfidence::is_rival(self.form, self.form.similarity(distance), self.min_similarity)
    }

    /// Returns the share of the smaller page by which a pair of sketches that share a key matches by containment, at
    /// this distance; `None` if it does not match.
    #[must_use]
    pub(crate) fn contained(&self, one: &[u8], other: &[u8], distance: u8) -> Option<PerMille> {
        let least = self.containment?;
        self.form.contained(one, other, distance, self.banding.rows()).filter(|share| *share >= least)
    }
}

/// Number of a set of rules within one verdict log, from 1; 0 before any rules were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RulesNumber(pub u32);

/// Expiry watermarks: originals before them are expired. They only move forward, unless an operator sets the stream time
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExpiryWatermarks {
    /// Originals with an earlier event time are expired, by stage.
    pub times: PerStage<Timestamp>,
    /// Originals with a smaller sequence number are evicted.
    pub first_sequence: u64,
}

impl ExpiryWatermarks {
    /// Nothing is expired yet.
    pub const START: Self = Self { times: PerStage::all(Timestamp::MIN), first_sequence: 0 };

    /// Returns them with event times that are not later than these.
    #[must_use]
    pub(crate) fn not_after(self, times: PerStage<Timestamp>) -> Self {
        let times = PerStage {
            exact: self.times.exact.min(times.exact),
            simhash: self.times.simhash.min(times.simhash),
            minhash: self.times.minhash.min(times.minhash),
        };
        Self { times, ..self }
    }

    /// Returns the later of both for each watermark.
    #[must_use]
    pub(crate) fn later(self, other: Self) -> Self {
        Self {
            times: PerStage {
                exact: self.times.exact.max(other.times.exact),
                simhash: self.times.simhash.max(other.times.simhash),
                minhash: self.times.minhash.max(other.times.minhash),
            },
            first_sequence: self.first_sequence.max(other.first_sequence),
        }
    }
}
