//! What happens to a fleet, what cannot happen at the same time, and in which order it happens.

use std::fmt;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Name of the pairs, in the table and in `DUPGATE_CHAOS_FAULTS`.
pub(super) const TWO_AT_ONCE: &str = "two at once";

/// After this many faults, two happen at once.
const FAULTS_PER_PAIR: usize = 3;

/// Rows of the table.
pub(super) const KINDS: usize = Fault::ALL.len() + 1;

/// What happens to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    JudgeKilled,
    WorkerKilled,
    JudgeSuspended,
    WorkerSuspended,
    BrokerKilled,
    BrokerStalled,
    BrokersSlow,
    SnapshotsRefused,
    RequestsDeleted,
    VerdictsDeleted,
    RulesChanged,
    SchemeChanged,
    TopicDropped,
    TopicRecreated,
    ClockAhead,
}

impl Fault {
    const ALL: [Self; 15] = [
        Self::JudgeKilled,
        Self::WorkerKilled,
        Self::JudgeSuspended,
        Self::WorkerSuspended,
        Self::BrokerKilled,
        Self::BrokerStalled,
        Self::BrokersSlow,
        Self::SnapshotsRefused,
        Self::RequestsDeleted,
        Self::VerdictsDeleted,
        Self::RulesChanged,
        Self::SchemeChanged,
        Self::TopicDropped,
        Self::TopicRecreated,
        Self::ClockAhead,
    ];

    /// Its name in the table, and the longest time that the outputs may pause.
    const fn described(self) -> (&'static str, Duration) {
        let (name, seconds) = match self {
            Self::JudgeKilled => ("judge killed", 30),
            Self::WorkerKilled => ("worker killed", 20),
            Self::JudgeSuspended => ("judge suspended", 20),
            Self::WorkerSuspended => ("worker suspended", 20),
            Self::BrokerKilled => ("broker killed", 30),
            Self::BrokerStalled => ("broker stalled", 25),
            Self::BrokersSlow => ("brokers slow", 30),
            Self::SnapshotsRefused => ("snapshots refused", 10),
            Self::RequestsDeleted => ("fingerprint log deleted", 60),
            Self::VerdictsDeleted => ("verdict log deleted", 60),
            Self::RulesChanged => ("rules changed", 30),
            Self::SchemeChanged => ("scheme changed", 30),
            Self::TopicDropped => ("input topic dropped", 30),
            // All instances are stopped for it.
            Self::TopicRecreated => ("input topic recreated", 60),
            Self::ClockAhead => ("crawler's clock ahead", 10),
        };
        (name, Duration::from_secs(seconds))
    }

    const fn takes_an_instance(self) -> bool {
        matches!(self, Self::JudgeKilled | Self::WorkerKilled | Self::JudgeSuspended | Self::WorkerSuspended)
    }

    const fn takes_a_broker(self) -> bool {
        matches!(self, Self::BrokerKilled | Self::BrokerStalled)
    }

    const fn deletes_a_log(self) -> bool {
        matches!(self, Self::RequestsDeleted | Self::VerdictsDeleted)
    }

    const fn restarts_all(self) -> bool {
        matches!(self, Self::RulesChanged | Self::SchemeChanged)
    }

    const fn holds_the_crawl(self) -> bool {
        matches!(self, Self::TopicDropped | Self::TopicRecreated)
    }

    /// Whether it lasts until it is ended, so that another fault can begin meanwhile.
    const fn lasts(self) -> bool {
        self.takes_an_instance()
            || self.takes_a_broker()
            || matches!(self, Self::BrokersSlow | Self::SnapshotsRefused | Self::ClockAhead)
    }

    /// Whether the two never happen at once:
    ///
    /// - two brokers: of three replicas two must be in sync, and of three controllers two must agree;
    /// - a broker and a deleted log: the new log would have no replica on that broker, and stop with the next one;
    /// - both logs: then nothing is left of any verdict, nor of the requests to judge again;
    /// - a rolling restart and a dead or suspended instance, a broker, or a deleted log: an operator begins a rolling
    ///   restart with everything ready, and waits for each instance;
    /// - a topic that is deleted, and anything else: the crawl waits meanwhile;
    /// - a snapshot folder that is a file, and anything after which instances start: they refuse to start on it.
    fn excludes(self, other: Self) -> bool {
        let one_way = |one: Self, two: Self| {
            (one.takes_a_broker() && (two.takes_a_broker() || two.deletes_a_log()))
                || (one.deletes_a_log() && two.deletes_a_log())
                || (one.restarts_all() && !matches!(two, Self::BrokersSlow | Self::ClockAhead))
                || one.holds_the_crawl()
                || (one == Self::SnapshotsRefused && (two.takes_an_instance() || two.takes_a_broker()))
        };
        self == other || one_way(self, other) || one_way(other, self)
    }
}

/// What happens at a time: one fault, or two, of which the second begins while the first lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) first: Fault,
    pub(super) second: Option<Fault>,
}

impl Event {
    const fn single(first: Fault) -> Self {
        Self { first, second: None }
    }

    /// Its row in the table.
    pub(super) fn row(self) -> &'static str {
        if self.second.is_some() { TWO_AT_ONCE } else { self.first.described().0 }
    }

    /// The longest time that the outputs may pause: that of two faults is the sum.
    pub(super) fn promised(self) -> Duration {
        let both = [Some(self.first), self.second].into_iter().flatten();
        both.map(|fault| fault.described().1).sum()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.first.described().0)?;
        self.second.map_or(Ok(()), |second| write!(f, ", meanwhile {}", second.described().0))
    }
}

/// The events of a run, in the order of causing: rounds of all faults that `wanted` names (all if it names none), in an
/// order drawn from the seed, and two of them at once after every few, if it names that, too.
pub(super) fn schedule(seed: u64, wanted: &str) -> impl Iterator<Item = Event> {
    let named = |name: &str| wanted.is_empty() || wanted.contains(name);
    let chosen: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| named(fault.described().0)).collect();
    let pairs = if named(TWO_AT_ONCE) { pairs_of(seed, &chosen) } else { Vec::new() };
    assert!(!chosen.is_empty() || !pairs.is_empty(), "DUPGATE_CHAOS_FAULTS names no fault: {wanted}");
    let mut pairs = pairs.into_iter().cycle();
    let rounds = (0_u64..).map_while(move |round| {
        let mut faults = chosen.clone();
        faults.sort_by_key(|fault| drawn(seed.wrapping_add(round), &[*fault]));
        // A topic is dropped once.
        faults.retain(|fault| round == 0 || *fault != Fault::TopicDropped);
        let mut events = Vec::new();
        for few in faults.chunks(FAULTS_PER_PAIR) {
            events.extend(few.iter().copied().map(Event::single));
            events.extend(pairs.next());
        }
        if faults.is_empty() {
            events.extend(pairs.next());
        }
        (!events.is_empty()).then_some(events)
    });
    rounds.flatten()
}

/// All pairs of these faults that may happen at once, in an order drawn from the seed; of any faults if there are none.
fn pairs_of(seed: u64, chosen: &[Fault]) -> Vec<Event> {
    let among = if chosen.is_empty() { &Fault::ALL } else { chosen };
    let seconds = |first: Fault| among.iter().map(move |second| (first, *second));
    let mut pairs: Vec<(Fault, Fault)> =
        among.iter().filter(|first| first.lasts()).copied().flat_map(seconds).collect();
    // The tool that sets quotas may ask the broker that is down: they are set before.
    let is_possible = |first: Fault, second: Fault| !(first.takes_a_broker() && second == Fault::BrokersSlow);
    pairs.retain(|(first, second)| !first.excludes(*second) && is_possible(*first, *second));
    pairs.sort_by_key(|(first, second)| drawn(seed, &[*first, *second]));
    pairs.into_iter().map(|(first, second)| Event { first, second: Some(second) }).collect()
}

fn drawn(seed: u64, faults: &[Fault]) -> u64 {
    let names: Vec<&str> = faults.iter().map(|fault| fault.described().0).collect();
    xxh3_64_with_seed(names.concat().as_bytes(), seed)
}

#[test]
fn faults_and_pairs_are_drawn_from_the_seed_and_the_names() {
    let named = |seed, wanted| schedule(seed, wanted).take(60).collect::<Vec<_>>();
    assert_eq!(named(7, ""), named(7, ""));
    assert_ne!(named(7, ""), named(8, ""));
    let all = named(7, "");
    for fault in Fault::ALL {
        let times = all.iter().filter(|event| **event == Event::single(fault)).count();
        assert!(if fault == Fault::TopicDropped { times == 1 } else { times >= 2 }, "{fault:?}: {times}");
    }
    assert!(all.iter().filter(|event| event.row() == TWO_AT_ONCE).count() >= 12);
    assert!(named(7, TWO_AT_ONCE).iter().all(|event| event.second.is_some()));
    let two = named(7, "judge killed,broker stalled,two at once");
    assert!(two.contains(&Event { first: Fault::JudgeKilled, second: Some(Fault::BrokerStalled) }), "{two:?}");
    assert!(named(7, "judge killed").iter().all(|event| *event == Event::single(Fault::JudgeKilled)));
    assert_eq!(named(7, "input topic dropped"), [Event::single(Fault::TopicDropped)]);
    let pair = Event { first: Fault::BrokerKilled, second: Some(Fault::JudgeSuspended) };
    assert_eq!(
        (pair.promised(), pair.to_string().as_str()),
        (Duration::from_secs(50), "broker killed, meanwhile judge suspended")
    );
}
