//! The `SimHash` codes of the originals, of any width.
//!
//! A log has one scheme and so one width, which the first code reveals: a follower of the log needs no setting for it.
//! The width is checked once for each probe or insert, never for each entry.

use std::ops::Range;

use crate::fingerprint::{SimHash, Width};
use dupgate_index::{Backend, HammingIndex, HammingStats, Plan, PlanRequirements, SharedCodes, Task};

/// Memory that the tables of `SimHash` codes may take for each original, in bytes.
pub const CODE_TABLES_BYTES: f64 = 100.0;

/// The most codes that a plan is chosen by: enough to see where shared keys would cost time.
const SAMPLED: u64 = 8_192;

/// Codes by the positions of the ring of originals, from the first one within the window of the `SimHash` stage.
#[derive(Debug)]
pub(super) struct SimHashIndex {
    /// The number of originals that the tables are made for.
    expected: u64,
    window: Window,
}

#[derive(Debug)]
enum Window {
    /// Of 32 or 64 bits.
    Single(HammingIndex<u64>),
    /// Of 128 bits.
    Double(HammingIndex<u128>),
}

/// The codes at one moment: see [`super::Index::share`].
#[derive(Debug)]
pub(super) struct SharedSimHashes {
    width: Width,
    ring: SharedWindow,
}

#[derive(Debug)]
enum SharedWindow {
    Single(SharedCodes<u64>),
    Double(SharedCodes<u128>),
}

impl SharedSimHashes {
    /// Returns the code of an original.
    pub(super) fn kept(&self, position: u64) -> Option<SimHash> {
        let bits = match &self.ring {
            SharedWindow::Single(ring) => ring.code(position).map(u128::from),
            SharedWindow::Double(ring) => ring.code(position),
        };
        bits.map(|bits| SimHash::from_low_bits(self.width, bits))
    }

    /// Drops what is before a position.
    pub(super) fn drop_before(&mut self, position: u64) {
        match &mut self.ring {
            SharedWindow::Single(ring) => ring.drop_before(position),
            SharedWindow::Double(ring) => ring.drop_before(position),
        }
    }
}

/// Evaluates the same expression with either window.
macro_rules! either {
    ($window:expr, $near:ident => $does:expr) => {
        match $window {
            Window::Single($near) => $does,
            Window::Double($near) => $does,
        }
    };
}

impl Window {
    fn starting_at(plan: Plan, expected: u64, position: u64) -> Self {
        let backend = Backend::detect();
        match plan.width() {
            Width::B32 | Width::B64 => Self::Single(HammingIndex::starting_at(plan, expected, backend, position)),
            Width::B128 => Self::Double(HammingIndex::starting_at(plan, expected, backend, position)),
        }
    }
}

/// Returns a code's only word, or the lower one.
#[expect(clippy::cast_possible_truncation, reason = "the upper word is asked for elsewhere")]
fn single(code: SimHash) -> u64 {
    code.bits() as u64
}

fn plan_for(width: Width, max_distance: u8, entries: u64, sample: &[u128]) -> Plan {
    Plan::choose(&PlanRequirements { width, max_distance, entries, bytes_per_entry: CODE_TABLES_BYTES, sample })
}

impl SimHashIndex {
    /// Creates an empty index, with the plan that suits this many codes of the default width.
    pub(super) fn sized(max_distance: u8, expected: u64) -> Self {
        let plan = plan_for(Width::default(), max_distance, expected, &[]);
        Self { expected, window: Window::starting_at(plan, expected, 0) }
    }

    /// Makes the tables find every pair within `max_distance` bits; rebuilds them if they did not.
    pub(super) fn set_max_distance(&mut self, max_distance: u8) {
        if max_distance > self.plan().max_distance() {
            let plan = self.plan_within(max_distance);
            either!(&mut self.window, near => near.set_plan(plan));
        }
    }

    /// Prepares the tables to grow towards this many codes.
    pub(super) const fn expect(&mut self, entries: u64) {
        self.expected = entries;
        either!(&mut self.window, near => near.expect(entries));
    }

    const fn width(&self) -> Width {
        self.plan().width()
    }

    /// Prepares for codes of this width, and drops codes of another one. A log never holds both.
    fn turn_to(&mut self, width: Width) {
        if width != self.width() {
            let plan = plan_for(width, self.plan().max_distance(), self.expected, &[]);
            self.window = Window::starting_at(plan, self.expected, self.positions().end);
        }
    }

    /// Appends the code of an original, which may have none.
    pub(super) fn push(&mut self, code: Option<SimHash>) {
        code.into_iter().for_each(|code| self.turn_to(code.width()));
        match &mut self.window {
            Window::Single(near) => near.push(code.map(single)),
            Window::Double(near) => near.push(code.map(SimHash::bits)),
        };
    }

    /// Forgets the code of an original.
    pub(super) fn remove(&mut self, position: u64) {
        either!(&mut self.window, near => near.remove(position));
    }

    /// Appends the codes of many originals. No table finds them before the tables are built.
    pub(super) fn fill(&mut self, codes: impl Iterator<Item = Option<SimHash>>) {
        for code in codes {
            code.into_iter().for_each(|code| self.turn_to(code.width()));
            match &mut self.window {
                Window::Single(near) => near.fill([code.map(single)]),
                Window::Double(near) => near.fill([code.map(SimHash::bits)]),
            }
        }
    }

    /// Returns the tasks that build the tables, by the plan that suits the codes held.
    pub(super) fn build_tasks(&mut self) -> Vec<Task<'_>> {
        let plan = self.plan_within(self.plan().max_distance());
        either!(&mut self.window, near => near.build_tasks(plan))
    }

    /// Chooses a plan for a distance. How often codes share a key is measured on the codes held, not assumed.
    fn plan_within(&self, max_distance: u8) -> Plan {
        let (held, sample) = either!(&self.window, near => (near.held(), near.sample(SAMPLED)));
        plan_for(self.width(), max_distance, self.expected.max(held), &sample)
    }

    /// Returns a copy of the codes that shares the memory.
    pub(super) fn share(&self) -> SharedSimHashes {
        let ring = match &self.window {
            Window::Single(near) => SharedWindow::Single(near.share()),
            Window::Double(near) => SharedWindow::Double(near.share()),
        };
        SharedSimHashes { width: self.width(), ring }
    }

    /// Returns the code of an original, even if only kept and no longer found.
    pub(super) fn kept(&self, position: u64) -> Option<SimHash> {
        let bits = match &self.window {
            Window::Single(near) => near.code_kept(position).map(u128::from),
            Window::Double(near) => near.code_kept(position),
        };
        bits.map(|bits| SimHash::from_low_bits(self.width(), bits))
    }

    /// Returns the differing bits of a code and that of an original.
    pub(super) fn distance_to(&self, code: SimHash, position: u64) -> Option<u8> {
        u8::try_from(self.kept(position)?.distance(code)?).ok()
    }

    /// Passes every original within `reach` bits to `visit`: see [`dupgate_index::HammingIndex::probe`].
    pub(super) fn probe(&self, code: SimHash, reach: u8, visit: impl FnMut(u64, u8)) -> u32 {
        match &self.window {
            _ if code.width() != self.width() => 0,
            Window::Single(near) => near.probe(single(code), reach, visit),
            Window::Double(near) => near.probe(code.bits(), reach, visit),
        }
    }

    /// Prefetches what a probe of this code will read first.
    #[inline]
    pub(super) fn prefetch(&self, code: SimHash) {
        match &self.window {
            Window::Single(near) => near.prefetch(single(code)),
            Window::Double(near) => near.prefetch(code.bits()),
        }
    }

    /// Prefetches what a probe will read next.
    #[inline]
    pub(super) fn prefetch_runs(&self, code: SimHash) {
        match &self.window {
            Window::Single(near) => near.prefetch_runs(single(code)),
            Window::Double(near) => near.prefetch_runs(code.bits()),
        }
    }

    /// Expires every code before `position`, but keeps those from `keep_from` on for [`SimHashIndex::kept`].
    pub(super) fn expire_keeping(&mut self, position: u64, keep_from: u64) {
        either!(&mut self.window, near => near.expire_keeping(position, keep_from));
    }

    /// Finds every kept code from `position` on again.
    pub(super) fn readmit(&mut self, position: u64) {
        either!(&mut self.window, near => near.readmit(position));
    }

    /// Passes deferred maintenance tasks to `hand_over`: see [`dupgate_index::HammingIndex::maintenance`].
    pub(super) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        either!(&mut self.window, near => near.maintenance(hand_over));
    }

    /// Shrinks the tables at once when almost nothing is held.
    pub(super) fn shrink_if_idle(&mut self) {
        either!(&mut self.window, near => near.shrink_if_idle());
    }

    /// Returns the positions whose codes a probe finds.
    pub(super) const fn positions(&self) -> Range<u64> {
        either!(&self.window, near => near.positions())
    }

    /// Returns the plan of the tables.
    pub(super) const fn plan(&self) -> &Plan {
        either!(&self.window, near => near.plan())
    }

    /// Returns statistics for monitoring.
    pub(super) fn stats(&self) -> HammingStats {
        either!(&self.window, near => near.stats())
    }
}
