//! The contents of a line: ids with part of their codes, and the place of the overflow run.
//!
//! There are two layouts. [`FuzzyTags`] finds tags that differ in some bits, for codes. [`ExactTags`] finds only equal
//! tags and holds fifteen entries, for keys that are either equal or unrelated.

use std::fmt::Debug;

use crate::entries::LiveWindow;
use crate::shape::{Addressing, Shape, WholeKey};
use crate::simd::{Compare, Line, set_word, word_at};

/// The place of a line's overflow run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowPlace {
    /// First block.
    pub head: u32,
    /// Size class of the blocks.
    pub class: u8,
}

/// How entries are stored in a line. Ids are counted from the table's base, so that a line of zeros holds no live
/// entry.
pub trait Layout: Copy + Debug + Send + Sync {
    /// How tables of this layout use codes.
    type Addressing: Addressing;

    /// Mean number of entries in a line, in a table of full size.
    const LOAD: f64;

    /// The same for a table that is probed with flipped bits, which should take little memory.
    const LOAD_WITH_FLIPS: f64;

    /// Slots of a line that has a run.
    const BESIDE_RUN: u32;

    /// Whether runs store the codes of entries, so that these are compared there.
    const CODES: bool;

    /// Creates a layout that distinguishes this many consecutive positions, with some margin.
    fn telling(positions: u64) -> Self;

    /// Returns how many positions may be alive at a time.
    fn most_positions(self) -> u64;

    /// Returns how far before the tail an id may be before the line has to be swept.
    fn old(self) -> u32;

    /// Returns the word of an entry: all that a run stores of its id and tag, and most of what a line stores.
    fn word(self, tag: u32, id: u32) -> u32;

    /// Returns the bits of a word that are equal if tags are equal.
    fn tag_mask(self) -> u32;

    /// Converts a window of ids into one with which words are compared.
    fn window(self, alive: LiveWindow) -> LiveWindow;

    /// Returns the slots, one bit each, whose tag differs from `tag` in at most `reach` bits and whose id is alive; the
    /// place of a run counts as a slot. A layout may also return a few slots with other tags.
    fn near<C: Compare>(self, line: &Line, tag: u32, reach: u32, window: LiveWindow) -> u32;

    /// Returns how many positions after the window's tail a live entry is.
    fn age(self, word: u32, window: LiveWindow) -> u32;

    /// Returns one bit for each slot that the line has.
    fn slots(self, line: &Line) -> u32;

    /// Writes an entry into a slot.
    fn set<C: Compare>(self, line: &mut Line, slot: u32, tag: u32, word: u32);

    /// Returns the place of the run of a line, if it has one.
    fn run(self, line: &Line) -> Option<OverflowPlace>;

    /// Gives a line a run, or removes it. A slot that this frees gets the word `dead`.
    fn set_run(self, line: &mut Line, run: Option<OverflowPlace>, dead: u32);

    /// Returns the word in the slot that has to give way when a line without a run gets one.
    fn gives_way(self, line: &Line) -> Option<u32>;
}

/// Nine slots of an id of 32 bits and a tag of 24.
///
/// ```text
/// bytes 0 to 35    nine ids; with a run, the ninth is its place
/// bytes 36 to 62   lower, middle and upper bytes of the nine tags, nine bytes each
/// byte 63          0, or 1 + size class of the run
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FuzzyTags;

const SLOTS: u32 = 9;

impl Layout for FuzzyTags {
    type Addressing = Shape;

    const LOAD: f64 = 3.9;
    const LOAD_WITH_FLIPS: f64 = 4.6;
    const BESIDE_RUN: u32 = SLOTS - 1;
    const CODES: bool = true;

    fn telling(_: u64) -> Self {
        Self
    }

    fn most_positions(self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn old(self) -> u32 {
        1 << 30
    }

    #[inline]
    fn word(self, _: u32, id: u32) -> u32 {
        id
    }

    #[inline]
    fn tag_mask(self) -> u32 {
        0
    }

    #[inline]
    fn window(self, alive: LiveWindow) -> LiveWindow {
        alive
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    fn near<C: Compare>(self, line: &Line, tag: u32, reach: u32, window: LiveWindow) -> u32 {
        C::near(line, tag, reach, window)
    }

    #[inline]
    fn age(self, word: u32, window: LiveWindow) -> u32 {
        word.wrapping_sub(window.tail)
    }

    #[inline]
    fn slots(self, line: &Line) -> u32 {
        if self.run(line).is_some() { (1 << (SLOTS - 1)) - 1 } else { (1 << SLOTS) - 1 }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    fn set<C: Compare>(self, line: &mut Line, slot: u32, tag: u32, word: u32) {
        C::put(line, slot, tag, word);
    }

    #[inline]
    fn run(self, line: &Line) -> Option<OverflowPlace> {
        let [.., class] = line;
        class.checked_sub(1).map(|class| OverflowPlace { head: word_at(line, SLOTS - 1), class })
    }

    fn set_run(self, line: &mut Line, run: Option<OverflowPlace>, dead: u32) {
        set_word(line, SLOTS - 1, run.map_or(dead, |run| run.head));
        let [.., class] = line;
        *class = run.map_or(0, |run| run.class + 1);
    }

    fn gives_way(self, line: &Line) -> Option<u32> {
        Some(word_at(line, SLOTS - 1))
    }
}

/// Fifteen slots of one word each, whose lower bits are a tag. The more positions an id has to distinguish, the fewer
/// these bits are. The last word is 0 or the place of the run.
///
/// The bits of a run's place can address 16 GiB of runs for each table.
#[derive(Clone, Copy, Debug)]
pub struct ExactTags {
    pub(crate) tag_bits: u32,
}

const WORDS: u32 = 16;

/// Bits of the last word for the size class, which has to be less than 15.
const CLASS_BITS: u32 = 4;

/// The most bits of a tag: a line of eleven entries shows one with an equal tag by chance once in 372 probes. More would
/// save nothing.
const MAX_TAG_BITS: u32 = 12;

impl Layout for ExactTags {
    type Addressing = WholeKey;

    const LOAD: f64 = 11.0;
    const LOAD_WITH_FLIPS: f64 = 11.0;
    const BESIDE_RUN: u32 = WORDS - 1;
    const CODES: bool = false;

    fn telling(positions: u64) -> Self {
        let bits = positions.saturating_mul(8).max(1).ilog2() + 1;
        Self { tag_bits: 32_u32.saturating_sub(bits).min(MAX_TAG_BITS) }
    }

    fn most_positions(self) -> u64 {
        if self.tag_bits == 0 { u64::MAX } else { 1 << (30 - self.tag_bits) }
    }

    #[inline]
    fn old(self) -> u32 {
        1 << (30 - self.tag_bits)
    }

    #[inline]
    fn word(self, tag: u32, id: u32) -> u32 {
        id << self.tag_bits | tag & self.tag_mask()
    }

    #[inline]
    fn tag_mask(self) -> u32 {
        (1 << self.tag_bits) - 1
    }

    #[inline]
    fn window(self, alive: LiveWindow) -> LiveWindow {
        // The tag below the id moves no word across the tail or the head of the window.
        LiveWindow { tail: alive.tail << self.tag_bits, live: alive.live << self.tag_bits }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    fn near<C: Compare>(self, line: &Line, tag: u32, _: u32, window: LiveWindow) -> u32 {
        C::equal(line, tag, self.tag_mask(), window)
    }

    #[inline]
    fn age(self, word: u32, window: LiveWindow) -> u32 {
        word.wrapping_sub(window.tail) >> self.tag_bits
    }

    #[inline]
    fn slots(self, _: &Line) -> u32 {
        (1 << (WORDS - 1)) - 1
    }

    #[inline]
    fn set<C: Compare>(self, line: &mut Line, slot: u32, _: u32, word: u32) {
        set_word(line, slot, word);
    }

    #[inline]
    fn run(self, line: &Line) -> Option<OverflowPlace> {
        let word = word_at(line, WORDS - 1);
        let class = u8::try_from(word & ((1 << CLASS_BITS) - 1)).ok()?.checked_sub(1)?;
        Some(OverflowPlace { head: word >> CLASS_BITS, class })
    }

    fn set_run(self, line: &mut Line, run: Option<OverflowPlace>, _: u32) {
        set_word(line, WORDS - 1, run.map_or(0, |run| run.head << CLASS_BITS | (u32::from(run.class) + 1)));
    }

    fn gives_way(self, _: &Line) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{LINE, Portable, tags};

    #[test]
    fn slots_and_runs_do_not_touch_each_other() {
        let mut line = [0; LINE];
        let ids = |line: &Line| -> [u32; 9] { std::array::from_fn(|slot| word_at(line, u32::try_from(slot).unwrap())) };
        for slot in 0..SLOTS {
            FuzzyTags.set::<Portable>(&mut line, slot, 0x00AB_CDE0 + slot, 100 + slot);
        }
        assert_eq!(tags(&line), std::array::from_fn(|slot| 0x00AB_CDE0 + u32::try_from(slot).unwrap()));
        assert_eq!(ids(&line), std::array::from_fn(|slot| 100 + u32::try_from(slot).unwrap()));
        assert_eq!((FuzzyTags.run(&line), FuzzyTags.slots(&line)), (None, 0x1FF));
        let run = OverflowPlace { head: 77, class: 4 };
        FuzzyTags.set_run(&mut line, Some(run), 0);
        assert_eq!((FuzzyTags.run(&line), FuzzyTags.slots(&line)), (Some(run), 0xFF));
        FuzzyTags.set::<Portable>(&mut line, 7, 0, 1);
        assert_eq!(FuzzyTags.run(&line), Some(run));
        assert_eq!(
            tags(&line)[..7],
            std::array::from_fn::<u32, 7, _>(|slot| 0x00AB_CDE0 + u32::try_from(slot).unwrap())
        );
        FuzzyTags.set_run(&mut line, None, 5);
        assert_eq!((FuzzyTags.run(&line), word_at(&line, 8)), (None, 5));
    }

    #[test]
    fn a_dense_word_is_an_id_and_a_tag_and_the_last_is_a_run() {
        for (positions, bits) in
            [(0, 12), (130_000, 12), (2_000_000, 8), (10_000_000, 5), (100_000_000, 2), (1 << 29, 0), (u64::MAX, 0)]
        {
            let layout = ExactTags::telling(positions);
            assert_eq!(layout.tag_bits, bits, "{positions}");
            assert!(layout.most_positions() >= positions, "{positions}");
            let window = LiveWindow { tail: 1_000, live: 500 };
            let mut line = [0; LINE];
            for slot in 0..15 {
                layout.set::<Portable>(&mut line, slot, 0, layout.word(0xF3F3, 1_000 + slot));
                assert_eq!(layout.age(word_at(&line, slot), layout.window(window)), slot);
            }
            assert_eq!(layout.run(&line), None);
            let run = OverflowPlace { head: (1 << 28) - 1, class: 8 };
            layout.set_run(&mut line, Some(run), 0);
            assert_eq!((layout.run(&line), layout.slots(&line)), (Some(run), 0x7FFF));
            assert_eq!(layout.age(word_at(&line, 14), layout.window(window)), 14);
            layout.set_run(&mut line, None, 0);
            assert_eq!(layout.run(&line), None);
        }
    }
}
