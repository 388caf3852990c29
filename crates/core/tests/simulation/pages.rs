//! Pages of a tiny world: few texts, few ids, few scopes, so that everything collides.

use std::sync::Arc;

use dupgate_core::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, PageDigest, ScopeHash, SimHash, SiteHash, Sketch, TitleHash,
    Width,
};
use dupgate_core::protocol::{LogPartition, PageRequest};
use dupgate_core::record::{Reject, Source, Timestamp};
use dupgate_core::worker::{Earlier, Page, PageAction, PageOutcome};

use dupgate_testkit::rng::Rng;

/// The id of a page of this world; its upper half is the address that it says.
pub(crate) fn id_of(number: u64) -> IdHash {
    IdHash(number << 32 | number)
}

/// The schemes of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Current,
    /// The current one, and the earlier one beside it.
    Dual,
    /// The earlier one alone.
    Earlier,
}

/// What is in the input topic.
#[derive(Clone, Debug)]
pub(crate) struct WorldPage {
    width: Width,
    text: u64,
    variant: u64,
    too_short: bool,
    event_time: Timestamp,
    id: Option<u64>,
    scope: u64,
    digest: u32,
    pub(crate) tombstone: bool,
    /// A reason of the page itself.
    pub(crate) reject: Option<Reject>,
    /// Instances with a smaller limit withdraw it.
    size: u32,
    /// No broker takes it as an output.
    pub(crate) poison: bool,
}

impl WorldPage {
    pub(crate) fn draw(rng: &mut Rng, width: Width, now: i64, lag: i64) -> Self {
        let mut millis = now - lag - rng.pick(&[0, 0, 0, 1, 2]);
        if rng.chance(30) {
            millis += 30;
        }
        if rng.chance(30) {
            millis -= 30;
        }
        Self {
            width,
            text: rng.next() % 9,
            variant: rng.next() % 2,
            too_short: rng.chance(60),
            event_time: Timestamp::from_millis(millis),
            id: rng.chance(800).then(|| rng.next() % 10),
            scope: rng.next() % 2,
            digest: u32::try_from(rng.next() >> 32).unwrap(),
            tombstone: rng.chance(50),
            reject: rng.chance(40).then_some(Reject::NoText),
            size: if rng.chance(80) { 2 } else { 1 },
            poison: rng.chance(50),
        }
    }

    /// A null value: its end is known without a judge.
    pub(crate) fn tombstone(rng: &mut Rng, width: Width, time: i64) -> Self {
        let event_time = Timestamp::from_millis(time);
        Self { tombstone: true, event_time, ..Self::draw(rng, width, 0, 0) }
    }

    /// A page of a text that no other page has but its copies. Only the exact stage sees it.
    pub(crate) fn copy_of(text: u64, width: Width, time: i64) -> Self {
        Self {
            width,
            text,
            variant: 0,
            too_short: true,
            event_time: Timestamp::from_millis(time),
            id: None,
            scope: 0,
            digest: 0,
            tombstone: false,
            reject: None,
            size: 1,
            poison: false,
        }
    }

    /// A page of a scenario: `copy_of`, distinguished from other pages by its digest, with an id if it has one.
    pub(crate) fn scripted(text: u64, id: Option<u64>, width: Width, time: i64) -> Self {
        Self { digest: u32::try_from(text).unwrap(), id, ..Self::copy_of(text, width, time) }
    }

    /// A page long enough for all stages, or a variant of it with the same code.
    pub(crate) fn long(self, is_variant: bool) -> Self {
        Self { too_short: false, variant: u64::from(is_variant), digest: self.digest + 100, ..self }
    }

    /// A page that cannot be read.
    pub(crate) fn unreadable(self) -> Self {
        Self { reject: Some(Reject::NoText), ..self }
    }

    /// A page that no broker takes as an output.
    pub(crate) fn poisoned(self) -> Self {
        Self { poison: true, ..self }
    }

    pub(crate) fn event_time(&self) -> Timestamp {
        self.event_time
    }

    /// The log partition that this page's scope goes to.
    pub(crate) fn log(&self, logs: usize) -> LogPartition {
        LogPartition(u32::try_from(self.scope).unwrap() % u32::try_from(logs).unwrap())
    }

    /// Numbers as a function of the text: common ones, few, others, none.
    fn numbers(&self) -> &'static [u16] {
        match (self.text % 4, self.variant) {
            (0, 0) | (1, _) => &[10, 20, 30],
            (0, _) => &[10, 20, 40],
            (2, 0) => &[30, 50, 60],
            (2, _) => &[70, 80],
            _ => &[],
        }
    }

    /// Its own address where the id does not say it, and whether the id is that of another page, which it names. Pages
    /// of scenarios, whose digests are small, are what their ids say.
    fn names(&self) -> (Option<AddressHash>, bool) {
        let drawn = self.digest >> 8;
        let at = AddressHash(drawn / 8 % 10);
        let at = (self.id.map(|id| AddressHash::of(id_of(id))) != Some(at)).then_some(at);
        match (self.id, drawn % 8) {
            (_, 0) if drawn > 0 => (at, false),
            // An older release wrote no address.
            (Some(_), 1) => (None, true),
            (Some(_), 2 | 3) => (at, at.is_some()),
            _ => (None, false),
        }
    }

    /// Two texts in three are of one of two sites.
    fn site(&self) -> Option<SiteHash> {
        u32::try_from(self.text % 3).ok().filter(|site| *site > 0).map(SiteHash)
    }

    /// One of two titles, or none. Pages of scenarios, whose digests are small, have none.
    fn title(&self) -> Option<TitleHash> {
        let drawn = self.digest >> 12;
        (drawn > 0 && !drawn.is_multiple_of(3)).then_some(TitleHash(drawn % 3))
    }

    fn request(&self, source: &Source) -> PageRequest {
        // Neighbouring texts differ in one bit, about the middle; the variant changes the text, but no bit.
        let simhash = || SimHash::from_low_bits(self.width, ((1 << self.text) - 1) << (self.width.bits() / 2 - 4));
        let fingerprints = Fingerprints {
            exact: ExactHash(u128::from(self.text * 2 + self.variant)),
            simhash: (!self.too_short).then(simhash),
            // Neighbouring texts differ in three of sixteen slots; after them is how long each is.
            sketch: (!self.too_short).then(|| {
                let slot = |slot: u64| u8::try_from((self.text + slot * 3) / 5 % 251).unwrap();
                let size = [0, u8::try_from(10 + self.text * self.text * 3).unwrap()];
                Sketch::from_bytes(&(0..16).map(slot).chain(size).collect::<Vec<u8>>())
            }),
            numbers: Numbers::from_hashes(self.numbers()).unwrap(),
        };
        let (address, is_variant) = self.names();
        PageRequest {
            source: source.clone(),
            event_time: self.event_time,
            id: self.id.map(id_of),
            scope: Some(ScopeHash(self.scope)),
            site: self.site(),
            address,
            title: self.title(),
            is_variant,
            fingerprints,
            digest: PageDigest(self.digest),
            earlier: None,
        }
    }

    /// The request by the earlier scheme, which does not tell some texts apart.
    fn earlier_request(&self, source: &Source) -> PageRequest {
        Self { text: self.text / 2 * 2, ..self.clone() }.request(source)
    }

    /// The text work of an instance that takes pages up to `limit`; `panics` is what no function of the page explains.
    pub(crate) fn read(
        self: &Arc<Self>,
        source: &Source,
        limit: u32,
        logs: usize,
        panics: bool,
        scheme: Scheme,
    ) -> Page<Arc<WorldPage>> {
        let action = if self.tombstone {
            PageAction::Settled(PageOutcome::Tombstone)
        } else if let Some(reason) = self.reject {
            PageAction::Settled(PageOutcome::DeadLetter(reason))
        } else if self.size > limit {
            PageAction::Withdraw(self.log(logs), Reject::TooLargeForOutput)
        } else if panics {
            PageAction::Withdraw(self.log(logs), Reject::TextPanic)
        } else {
            let request = if scheme == Scheme::Earlier { self.earlier_request(source) } else { self.request(source) };
            PageAction::Ask(self.log(logs), request)
        };
        let asks_earlier = scheme == Scheme::Dual && !matches!(action, PageAction::Settled(_));
        let earlier = asks_earlier.then(|| {
            let request = matches!(action, PageAction::Ask(..)).then(|| self.earlier_request(source));
            let log = LogPartition(self.log(logs).0 + u32::try_from(logs).unwrap());
            Box::new(Earlier::new(log, request))
        });
        let event_time = self.event_time;
        Page {
            source: source.clone(),
            bytes: 1,
            event_time,
            paced_by: event_time,
            action,
            earlier,
            payload: Arc::clone(self),
        }
    }
}
