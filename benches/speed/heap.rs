//! Counts what each thread takes from the heap. Only the bench has this allocator; an allocation costs a nanosecond
//! more by it.

#![expect(unsafe_code, reason = "an allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ALLOCATED: Cell<Allocated> = const { Cell::new(Allocated { count: 0, bytes: 0 }) };
}

/// Allocations of a thread. One that grows or shrinks a block is an allocation of its new size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocated {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// Returns what the calling thread allocates in `work`.
pub(crate) fn allocated_by(work: impl FnOnce()) -> Allocated {
    let before = ALLOCATED.get();
    work();
    let after = ALLOCATED.get();
    Allocated { count: after.count - before.count, bytes: after.bytes - before.bytes }
}

/// The allocator of the system.
struct Counting;

fn count(bytes: usize) {
    let Allocated { count, bytes: before } = ALLOCATED.get();
    ALLOCATED.set(Allocated { count: count.wrapping_add(1), bytes: before.wrapping_add(bytes) });
}

// SAFETY: the allocator of the system gets all calls as they are. Counting allocates nothing: the counters of a thread
// are constants at first, and nothing is dropped when it ends.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}
