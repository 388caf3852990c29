//! What the machine can do better than portable code: fetch ahead, use large pages and give them back, compare many codes
//! at once.
//!
//! This is the only module of the index with `unsafe`. None of it changes a result: without a hint, the same lines are
//! read later, what is given back is not read again, and the wide comparisons give the same bits as the portable ones
//! (`tests` compare all).
#![expect(unsafe_code, reason = "hints, large pages and wide comparisons have no safe form")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::entries::LiveWindow;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// One cache line of a table: see `buckets` for what is in it.
pub(crate) type Line = [u8; LINE];

/// Bytes of a large page.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Which comparisons to use. All give the same results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Backend {
    /// Comparisons that every machine can do.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Returns all backends that this machine supports, the best last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let wide = [(Kind::Avx2, avx2::is_there()), (Kind::Avx512, avx512::is_there())];
        #[cfg(not(target_arch = "x86_64"))]
        let wide: [(Kind, bool); 0] = [];
        let wide = wide.into_iter().filter_map(|(kind, is_there)| is_there.then_some(Self(kind)));
        std::iter::once(Self::PORTABLE).chain(wide).collect()
    }

    /// Returns the best backend that this machine supports.
    #[must_use]
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::PORTABLE)
    }

    /// Returns a name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx-512",
        }
    }

    /// Runs a job with this backend's comparisons.
    #[inline]
    pub(crate) fn run<J: Job>(self, job: J) -> J::Output {
        match self.0 {
            Kind::Portable => job.run::<Portable>(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `available` creates this kind, and it has checked `is_there`.
            Kind::Avx2 => unsafe { avx2::run(job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx512 => unsafe { avx512::run(job) },
        }
    }
}

/// Work that is compiled once for each backend. `run` must be `#[inline(always)]`, and so must everything that it calls
/// in its inner loops.
pub(crate) trait Job {
    /// The result of the work.
    type Output;
    /// Does the work.
    fn run<C: Compare>(self) -> Self::Output;
}

/// Ways to compare.
pub trait Compare: Copy {
    /// Returns the slots of a line, one bit each, whose tag differs from `tag` in at most `reach` bits and whose id is
    /// alive.
    fn near(line: &Line, tag: u32, reach: u32, window: LiveWindow) -> u32;

    /// Returns the words of a line, one bit each, that are equal to `tag` where `mask` has ones, and lie in the window.
    fn equal(line: &Line, tag: u32, mask: u32, window: LiveWindow) -> u32;

    /// Does the same with eight words of twice the width, of which the lower half comes first.
    fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: LiveWindow) -> u32;

    /// Returns the words of a line, one bit each, that lie in the window.
    fn alive(line: &Line, window: LiveWindow) -> u32;

    /// Writes an id and a tag into one of the nine slots of a line.
    fn put(line: &mut Line, slot: u32, tag: u32, id: u32);

    /// Returns which of eight codes differ from `code` in at most `reach` bits, one bit each.
    fn eight(codes: &[u64; 8], code: u64, reach: u32) -> u32;
}

/// Comparisons in plain code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Slots of a line.
const SLOTS: usize = 9;

/// Returns a word of a line.
#[inline]
pub(crate) fn word_at(line: &Line, at: u32) -> u32 {
    line.as_chunks().0.get(at as usize).map_or(0, |word| u32::from_le_bytes(*word))
}

/// Writes a word of a line.
#[inline]
pub(crate) fn set_word(line: &mut Line, at: u32, value: u32) {
    if let Some(held) = line.as_chunks_mut().0.get_mut(at as usize) {
        *held = value.to_le_bytes();
    }
}

/// Returns the words of a line.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
fn words(line: &Line) -> impl Iterator<Item = u32> {
    line.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// Returns the tags of a line, in which the bytes of a tag are nine bytes apart.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
pub(crate) fn tags(line: &Line) -> [u32; SLOTS] {
    let byte = |at: usize| line.get(size_of::<u32>() * SLOTS + at).copied().unwrap_or(0);
    std::array::from_fn(|slot| u32::from_le_bytes([byte(slot), byte(SLOTS + slot), byte(2 * SLOTS + slot), 0]))
}

/// Returns which of these words, one bit each, are equal to `tag` where `mask` has ones, and lie in the window.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
fn equal_words(words: impl Iterator<Item = u32>, tag: u32, mask: u32, window: LiveWindow) -> u32 {
    let mut found = 0;
    for (place, word) in words.enumerate() {
        let is_equal = (word ^ tag) & mask == 0;
        found |= u32::from(is_equal && window.has(word)) << place;
    }
    found
}

#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
impl Compare for Portable {
    #[inline(always)]
    fn near(line: &Line, tag: u32, reach: u32, window: LiveWindow) -> u32 {
        let mut found = 0;
        for (slot, (held, id)) in tags(line).into_iter().zip(words(line)).enumerate() {
            let is_near = (held ^ tag).count_ones() <= reach;
            found |= u32::from(is_near && window.has(id)) << slot;
        }
        found
    }

    #[inline(always)]
    fn equal(line: &Line, tag: u32, mask: u32, window: LiveWindow) -> u32 {
        equal_words(words(line), tag, mask, window)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes words apart")]
    fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: LiveWindow) -> u32 {
        equal_words(words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]), tag, mask, window)
    }

    #[inline(always)]
    fn alive(line: &Line, window: LiveWindow) -> u32 {
        Self::equal(line, 0, 0, window)
    }

    #[inline(always)]
    fn put(line: &mut Line, slot: u32, tag: u32, id: u32) {
        set_word(line, slot, id);
        let (_, tags) = line.split_at_mut(size_of::<u32>() * SLOTS);
        for (plane, byte) in tags.chunks_exact_mut(SLOTS).zip(tag.to_le_bytes()) {
            if let Some(held) = plane.get_mut(slot as usize) {
                *held = byte;
            }
        }
    }

    #[inline(always)]
    fn eight(codes: &[u64; 8], code: u64, reach: u32) -> u32 {
        let mut found = 0;
        for (place, held) in codes.iter().enumerate() {
            found |= u32::from((held ^ code).count_ones() <= reach) << place;
        }
        found
    }
}

/// Prefetches the line that holds this value. Reads nothing.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_at(std::ptr::from_ref(value).cast());
}

/// Prefetches all lines of a value. Reads nothing.
#[inline]
pub fn prefetch_lines<T: ?Sized>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<i8>();
    let last = size_of_val(value).saturating_sub(1);
    (0..last).step_by(LINE).chain([last]).for_each(|byte| prefetch_at(first.wrapping_add(byte)));
}

#[inline]
fn prefetch_at(address: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint cannot fault, and the feature belongs to every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}

/// Requests large pages for these values, so that a random read misses only the cache and not the page table as well.
pub(crate) fn use_large_pages<T>(values: &mut [T]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let bytes = values.as_mut_ptr().cast::<u8>();
        let start = bytes.align_offset(LARGE_PAGE);
        let length = size_of_val(values).saturating_sub(start) / LARGE_PAGE * LARGE_PAGE;
        if length > 0 {
            let from = bytes.wrapping_add(start);
            // SAFETY: the range lies within the slice; this advice changes no byte of it. If the kernel refuses, small
            // pages serve as well.
            let _ = unsafe { rustix::mm::madvise(from.cast(), length, rustix::mm::Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = values;
}

/// Gives the whole pages among these bytes back to the system: they are zeros from then on, and take memory again when
/// they are touched. Does nothing on systems other than Linux.
pub(crate) fn give_back(bytes: &mut [u8]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let page = rustix::param::page_size();
        let start = bytes.as_mut_ptr().align_offset(page);
        let length = bytes.len().saturating_sub(start) / page * page;
        if length > 0 {
            let from = bytes.as_mut_ptr().wrapping_add(start);
            // SAFETY: the range lies within the slice, which nobody else reads meanwhile. Its memory is private and has
            // no file behind it, so its bytes become zeros, which are bytes like any others.
            let _ = unsafe { rustix::mm::madvise(from.cast(), length, rustix::mm::Advice::LinuxDontNeed) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}

#[cfg(test)]
mod tests;
