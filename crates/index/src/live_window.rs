//! The window of live ids: those of the newest positions.

/// A window of ids. Ids are positions cut to 32 bits, so they wrap; ids at most 2^31 old are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveWindow {
    /// Id of the oldest live entry.
    pub tail: u32,
    /// How many ids are alive.
    pub live: u32,
}

impl LiveWindow {
    /// Creates the window of the positions from `tail` up to `head`.
    pub fn between(tail: u64, head: u64) -> Self {
        Self { tail: id_of(tail), live: u32::try_from(head.saturating_sub(tail)).unwrap_or(u32::MAX) }
    }

    /// Returns whether an id is alive.
    #[inline]
    pub const fn has(self, id: u32) -> bool {
        id.wrapping_sub(self.tail) < self.live
    }

    /// Returns the window as seen by ids counted from `base`.
    #[inline]
    pub const fn counted_from(self, base: u32) -> Self {
        Self { tail: self.tail.wrapping_sub(base), live: self.live }
    }
}

/// Returns the id of a position.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "ids wrap")]
pub(crate) const fn id_of(position: u64) -> u32 {
    position as u32
}

/// Returns the position of an id that is alive, from `tail` on.
#[inline]
pub(crate) fn position_of(id: u32, tail: u64) -> u64 {
    tail + u64::from(id.wrapping_sub(id_of(tail)))
}
