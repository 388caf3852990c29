//! Where blocks come from: slabs, which are carved into blocks, and free lists of blocks that are no longer used.

use super::{Head, LAST, NONE, OverflowRuns, SLAB_BITS, SLAB_SOON, SLAB_UNITS, Slab, UNIT, joined, units};
use crate::simd;
use crate::tasks::{Deferred, Task};

impl OverflowRuns {
    /// Takes an empty block.
    pub(super) fn take(&mut self, class: u8) -> u32 {
        let block = self.unused(class).unwrap_or_else(|| self.carve(class));
        self.blocks_bytes += (UNIT << class) * size_of::<u64>();
        self.set_head(block, class, Head { next: NONE, first: 0, end: 0 });
        self.set_word(block, class, 1, joined(block, 0));
        block
    }

    /// Takes a block off the free lists, the half of a larger one if need be.
    fn unused(&mut self, class: u8) -> Option<u32> {
        let kept = self.free.get(usize::from(class)).copied()?;
        if kept != NONE {
            let next = self.head(kept, class).next;
            if let Some(free) = self.free.get_mut(usize::from(class)) {
                *free = next;
            }
            // Prefetches the next free block, so that it has arrived by the time it is taken.
            if let Some(word) = self.block(next, class).first() {
                simd::prefetch(word);
            }
            return Some(kept);
        }
        let block = self.unused(class + 1)?;
        self.put_free(block + units(class), class);
        Some(block)
    }

    fn carve(&mut self, class: u8) -> u32 {
        if self.slabs.is_empty() || self.fresh + units(class) > SLAB_UNITS {
            // The rest of the slab serves as smaller blocks.
            while !self.slabs.is_empty() && self.fresh < SLAB_UNITS {
                let class = u8::try_from((SLAB_UNITS - self.fresh).ilog2()).unwrap_or(0).min(LAST);
                let block = self.last_slab() + self.fresh;
                self.fresh += units(class);
                self.put_free(block, class);
            }
            // Many tables have few runs, so the first slab is small and grows.
            let is_first = self.slabs.is_empty();
            let room = if is_first { units(class) } else { SLAB_UNITS };
            let spare = self.spare.take().and_then(|slab| slab.into_inner().ok().flatten());
            self.slabs.push(spare.unwrap_or_else(|| Slab::new(room, !is_first)));
            self.fresh = 0;
        }
        let end = self.fresh + units(class);
        if let Some(slab) = self.slabs.last_mut().filter(|slab| !slab.has(end)) {
            slab.grow(end);
        }
        let block = self.last_slab() + self.fresh;
        self.fresh = end;
        block
    }

    /// Returns the task that allocates the next slab, when it is needed soon and not under way.
    pub(crate) fn maintenance_task(&mut self) -> Option<Task<'static>> {
        if self.slabs.is_empty() || self.fresh < SLAB_SOON || self.spare.is_some() {
            return None;
        }
        let (slab, task) = Deferred::of(Slab::touched);
        self.spare = Some(slab);
        Some(task)
    }

    /// Returns the first unit of the newest slab.
    fn last_slab(&self) -> u32 {
        u32::try_from(self.slabs.len().saturating_sub(1)).unwrap_or(0) << SLAB_BITS
    }

    fn put_free(&mut self, block: u32, class: u8) {
        if let Some(free) = self.free.get_mut(usize::from(class)) {
            let next = std::mem::replace(free, block);
            self.set_head(block, class, Head { next, first: 0, end: 0 });
        }
    }

    pub(super) fn give_back(&mut self, block: u32, class: u8) {
        self.blocks_bytes -= (UNIT << class) * size_of::<u64>();
        self.put_free(block, class);
    }
}
