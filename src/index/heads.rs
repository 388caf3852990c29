//! Heads: where the chain of a key begins.
//!
//! Originals with the same key hang together as a chain, newest first: the table holds the newest, and each original
//! holds how far back the next older one stands. Originals leave at the old end, so a chain is never mended: a walk
//! ends where it would leave the ring.

/// The golden ratio in 64 bits; its upper bits spread keys of any width.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Fewest heads of a table, as a power of two.
const FEWEST_BITS: u32 = 4;

/// The newest position under each key's hash. Different keys may share a head: whoever walks compares keys.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    /// Position + 1 of the newest original; 0 where there never was one.
    newest: Vec<u64>,
    bits: u32,
    key_width: u32,
}

impl Heads {
    /// Makes an empty table for about `entries` keys of `key_width` bits.
    pub(super) fn with_room(entries: usize, key_width: u32) -> Self {
        let bits = Self::bits_for(entries, key_width);
        Self { newest: vec![0; 1 << bits], bits, key_width }
    }

    fn bits_for(entries: usize, key_width: u32) -> u32 {
        let wanted = entries.checked_next_power_of_two().map_or(usize::BITS - 1, usize::trailing_zeros);
        wanted.max(FEWEST_BITS).min(key_width)
    }

    /// Says whether a table for so many entries should have another size: larger, or less than an eighth of this one.
    pub(super) fn misfits(&self, entries: usize) -> bool {
        let wanted = Self::bits_for(entries, self.key_width);
        wanted > self.bits || wanted + 3 < self.bits
    }

    /// Makes `position` the newest of its key; returns how far back the newest so far stands, 0 if there is none.
    pub(super) fn push(&mut self, key: u64, position: u64) -> u32 {
        let slot = self.slot(key);
        let Some(newest) = self.newest.get_mut(slot) else { return 0 };
        let before = std::mem::replace(newest, position + 1);
        // A ring of more than u32::MAX originals would need a terabyte.
        if before == 0 { 0 } else { u32::try_from(position + 1 - before).unwrap_or(0) }
    }

    /// Returns the newest position of the key. It may have left the ring since.
    pub(super) fn newest(&self, key: u64) -> Option<u64> {
        self.newest.get(self.slot(key)).and_then(|newest| newest.checked_sub(1))
    }

    /// With as many heads as keys this is one to one, else the upper bits of a Fibonacci hash.
    fn slot(&self, key: u64) -> usize {
        let above = 64 - self.key_width;
        let spread = key.wrapping_mul((GOLDEN >> above) | 1) << above;
        usize::try_from(spread >> (64 - self.bits)).unwrap_or(usize::MAX)
    }

    /// Returns the memory held, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.newest.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_of_narrow_keys_is_one_to_one() {
        let mut heads = Heads::with_room(1 << 20, 16);
        for key in 0..1 << 16 {
            assert_eq!(heads.push(key, key), 0, "key {key} shares its head");
        }
    }

    #[test]
    fn links_tell_how_far_back_the_next_older_stands() {
        let mut heads = Heads::with_room(1, 64);
        assert_eq!(heads.newest(7), None);
        let backs: Vec<u32> = [3, 4, 9].into_iter().map(|position| heads.push(7, position)).collect();
        assert_eq!(backs, [0, 1, 5]);
        assert_eq!(heads.newest(7), Some(9));
    }

    #[test]
    fn the_size_follows_the_entries_but_not_at_once() {
        let heads = Heads::with_room(1000, 64);
        assert!(!heads.misfits(1024) && heads.misfits(1025));
        assert!(!heads.misfits(128) && heads.misfits(64));
        assert!(!Heads::with_room(1 << 16, 16).misfits(1 << 24), "there are no more keys than that");
    }
}
