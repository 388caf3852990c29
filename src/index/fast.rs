//! What the machine can do better than portable code: fetch ahead, use large pages, compare many codes at once.
//!
//! The only file of the index with `unsafe`. None of it decides an answer: without a hint the same lines are read later, and the
//! wide comparisons give the bits that the portable ones give (`tests` compare both).
#![expect(unsafe_code, reason = "hints, large pages and wide comparisons have no safe form")]

use super::alive::Alive;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// One cache line of a table: see `lines` for what stands in it.
pub(super) type Line = [u8; LINE];

/// Bytes of a large page.
pub(super) const LARGE_PAGE: usize = 2 << 20;

/// Which comparisons to use. Both give the same answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Wide,
}

impl Engine {
    /// Comparisons that every machine can do.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Returns the best that this machine can do.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if !cfg!(miri)
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vbmi")
            && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
            && std::arch::is_x86_feature_detected!("popcnt")
        {
            return Self(Kind::Wide);
        }
        Self::PORTABLE
    }

    /// Returns a name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Wide => "avx-512",
        }
    }

    /// Runs a job with this engine's comparisons.
    #[inline]
    pub(super) fn run<J: Job>(self, job: J) -> J::Output {
        match self.0 {
            Kind::Portable => job.run::<Portable>(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` is the only maker of this kind, and it asked the machine for these features.
            Kind::Wide => unsafe { wide::run(job) },
        }
    }
}

/// Work that is compiled once for each way to compare. `run` must be `#[inline(always)]`, as all that it calls in its
/// inner loops.
pub(super) trait Job {
    /// What it gives.
    type Output;
    /// Does it.
    fn run<C: Compare>(self) -> Self::Output;
}

/// Ways to compare.
pub(super) trait Compare: Copy {
    /// Returns the slots of a line, one bit each, whose tag differs from `tag` in at most `reach` bits and whose id
    /// lives.
    fn near(line: &Line, tag: u32, reach: u32, window: Alive) -> u32;

    /// Returns the words of a line, one bit each, that are equal to `tag` where `mask` has ones, and lie in the window.
    fn equal(line: &Line, tag: u32, mask: u32, window: Alive) -> u32;

    /// Does the same with eight words of twice the width; of each the lower half comes first.
    fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: Alive) -> u32;

    /// Returns the words of a line, one bit each, that lie in the window.
    fn alive(line: &Line, window: Alive) -> u32;

    /// Writes an id and a tag into one of the nine slots of a line.
    fn put(line: &mut Line, slot: u32, tag: u32, id: u32);

    /// Returns which of eight codes differ from `code` in at most `reach` bits, one bit each.
    fn eight(codes: &[u64; 8], code: u64, reach: u32) -> u32;
}

/// Comparisons in plain code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

/// Slots of a line.
const SLOTS: usize = 9;

/// Returns a word of a line.
#[inline]
pub(super) fn word_at(line: &Line, at: u32) -> u32 {
    line.as_chunks().0.get(at as usize).map_or(0, |word| u32::from_le_bytes(*word))
}

/// Writes a word of a line.
#[inline]
pub(super) fn set_word(line: &mut Line, at: u32, value: u32) {
    if let Some(held) = line.as_chunks_mut().0.get_mut(at as usize) {
        *held = value.to_le_bytes();
    }
}

/// Takes a line apart.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
fn words(line: &Line) -> impl Iterator<Item = u32> {
    line.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// Takes the tags out of a line, where the bytes of each stand nine bytes apart.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
pub(super) fn tags(line: &Line) -> [u32; SLOTS] {
    let byte = |at: usize| line.get(size_of::<u32>() * SLOTS + at).copied().unwrap_or(0);
    std::array::from_fn(|slot| u32::from_le_bytes([byte(slot), byte(SLOTS + slot), byte(2 * SLOTS + slot), 0]))
}

/// Returns which of these words, one bit each, are equal to `tag` where `mask` has ones, and lie in the window.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of a job's inner loop")]
fn equal_words(words: impl Iterator<Item = u32>, tag: u32, mask: u32, window: Alive) -> u32 {
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
    fn near(line: &Line, tag: u32, reach: u32, window: Alive) -> u32 {
        let mut found = 0;
        for (slot, (held, id)) in tags(line).into_iter().zip(words(line)).enumerate() {
            let is_near = (held ^ tag).count_ones() <= reach;
            found |= u32::from(is_near && window.has(id)) << slot;
        }
        found
    }

    #[inline(always)]
    fn equal(line: &Line, tag: u32, mask: u32, window: Alive) -> u32 {
        equal_words(words(line), tag, mask, window)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "takes words apart")]
    fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: Alive) -> u32 {
        equal_words(words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]), tag, mask, window)
    }

    #[inline(always)]
    fn alive(line: &Line, window: Alive) -> u32 {
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

#[cfg(target_arch = "x86_64")]
mod wide {
    #![expect(clippy::inline_always, reason = "what is not inlined into `run` is compiled without its features")]
    #![expect(clippy::cast_possible_wrap, reason = "the intrinsics take bits as signed numbers")]
    use std::arch::x86_64::{
        __m512i, _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_cmplt_epu32_mask, _mm512_loadu_si512,
        _mm512_mask_set1_epi32, _mm512_mask_shuffle_epi8, _mm512_maskz_permutexvar_epi8, _mm512_popcnt_epi32,
        _mm512_popcnt_epi64, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_storeu_si512, _mm512_sub_epi32,
        _mm512_testn_epi32_mask, _mm512_xor_si512,
    };

    use super::{Alive, Compare, Job, Line};

    /// Comparisons with AVX-512. Made only in `run`.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Wide;

    /// # Safety
    ///
    /// The machine has these features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt")]
    pub(super) unsafe fn run<J: Job>(job: J) -> J::Output {
        job.run::<Wide>()
    }

    /// Which byte of a line stands where when each tag has a word of its own.
    #[rustfmt::skip]
    const TAG_BYTES: [u8; 64] = [
        36, 45, 54, 0, 37, 46, 55, 0, 38, 47, 56, 0, 39, 48, 57, 0,
        40, 49, 58, 0, 41, 50, 59, 0, 42, 51, 60, 0, 43, 52, 61, 0,
        44, 53, 62, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    /// The lower three bytes of nine words.
    const TAG_MASK: u64 = 0x0000_0007_7777_7777;

    /// Which byte of a tag stands at each place of a line, where the tags are.
    #[rustfmt::skip]
    const BYTE_OF_TAG: [u8; 64] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0,
    ];

    /// The places of the first slot's tag in a line.
    const FIRST_TAG: u64 = 1 << 36 | 1 << 45 | 1 << 54;

    /// # Safety
    ///
    /// 64 bytes can be read there, and the machine has the features of `run`.
    #[inline(always)]
    unsafe fn equal_words(words: *const __m512i, tag: u32, mask: u32, window: Alive) -> u16 {
        // SAFETY: the caller's.
        unsafe {
            let words = _mm512_loadu_si512(words);
            let differing = _mm512_xor_si512(words, _mm512_set1_epi32(tag as i32));
            let equal = _mm512_testn_epi32_mask(differing, _mm512_set1_epi32(mask as i32));
            let ages = _mm512_sub_epi32(words, _mm512_set1_epi32(window.tail as i32));
            equal & _mm512_cmplt_epu32_mask(ages, _mm512_set1_epi32(window.live as i32))
        }
    }

    impl Compare for Wide {
        #[inline(always)]
        fn near(line: &Line, tag: u32, reach: u32, window: Alive) -> u32 {
            // SAFETY: a line and the table of bytes are 64 bytes, and this is only called below `run`, which has the features.
            let near = unsafe {
                let words = _mm512_loadu_si512(line.as_ptr().cast());
                let bytes = _mm512_loadu_si512(TAG_BYTES.as_ptr().cast());
                let tags = _mm512_maskz_permutexvar_epi8(TAG_MASK, bytes, words);
                let differing = _mm512_xor_si512(tags, _mm512_set1_epi32(tag as i32));
                let near = _mm512_cmple_epu32_mask(_mm512_popcnt_epi32(differing), _mm512_set1_epi32(reach as i32));
                let ages = _mm512_sub_epi32(words, _mm512_set1_epi32(window.tail as i32));
                near & _mm512_cmplt_epu32_mask(ages, _mm512_set1_epi32(window.live as i32))
            };
            u32::from(near) & 0x1FF
        }

        #[inline(always)]
        fn equal(line: &Line, tag: u32, mask: u32, window: Alive) -> u32 {
            // SAFETY: as in `near`.
            let equal = unsafe { equal_words(line.as_ptr().cast(), tag, mask, window) };
            u32::from(equal)
        }

        #[inline(always)]
        fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: Alive) -> u32 {
            // SAFETY: eight words are 64 bytes, on this machine with their lower halves first; the features as in `near`.
            let equal = unsafe { equal_words(words.as_ptr().cast(), tag, mask, window) };
            u32::from(equal)
        }

        #[inline(always)]
        fn alive(line: &Line, window: Alive) -> u32 {
            // SAFETY: as in `near`.
            let alive = unsafe {
                let words = _mm512_loadu_si512(line.as_ptr().cast());
                let ages = _mm512_sub_epi32(words, _mm512_set1_epi32(window.tail as i32));
                _mm512_cmplt_epu32_mask(ages, _mm512_set1_epi32(window.live as i32))
            };
            u32::from(alive)
        }

        #[inline(always)]
        fn put(line: &mut Line, slot: u32, tag: u32, id: u32) {
            // The line is in a register already, where it was compared, and one store is less than four.
            // SAFETY: as in `near`.
            unsafe {
                let words = _mm512_loadu_si512(line.as_ptr().cast());
                let byte_of_tag = _mm512_loadu_si512(BYTE_OF_TAG.as_ptr().cast());
                let tags = _mm512_set1_epi32(tag as i32);
                let words = _mm512_mask_shuffle_epi8(words, FIRST_TAG << slot, tags, byte_of_tag);
                let words = _mm512_mask_set1_epi32(words, 1 << slot, id as i32);
                _mm512_storeu_si512(line.as_mut_ptr().cast(), words);
            }
        }

        #[inline(always)]
        fn eight(codes: &[u64; 8], code: u64, reach: u32) -> u32 {
            // SAFETY: eight codes are 64 bytes; the features as in `near`.
            let near = unsafe {
                let codes = _mm512_loadu_si512(codes.as_ptr().cast());
                let differing = _mm512_xor_si512(codes, _mm512_set1_epi64(code as i64));
                _mm512_cmple_epu64_mask(_mm512_popcnt_epi64(differing), _mm512_set1_epi64(i64::from(reach)))
            };
            u32::from(near)
        }
    }
}

/// Asks the memory for the line that holds this value. Reads nothing.
#[inline]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint cannot fault, and the feature belongs to every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = value;
}

/// Asks for large pages behind these values: a random read then misses the cache, but not the page table as well.
pub(super) fn use_large_pages<T>(values: &mut [T]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let bytes = values.as_mut_ptr().cast::<u8>();
        let start = bytes.align_offset(LARGE_PAGE);
        let length = size_of_val(values).saturating_sub(start) / LARGE_PAGE * LARGE_PAGE;
        if length > 0 {
            let from = bytes.wrapping_add(start);
            // SAFETY: the range lies within the slice; this advice changes no byte of it. Where the kernel does not
            // want it, small pages serve as well.
            let _ = unsafe { rustix::mm::madvise(from.cast(), length, rustix::mm::Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Near<'a>(&'a Line, u32, u32, Alive);
    impl Job for Near<'_> {
        type Output = [u32; 3];
        fn run<C: Compare>(self) -> Self::Output {
            let Self(line, tag, reach, window) = self;
            let mask = (1 << reach) - 1;
            [C::near(line, tag, reach, window), C::equal(line, tag, mask, window), C::alive(line, window)]
        }
    }

    struct Put<'a>(&'a Line, u32, u32, u32);
    impl Job for Put<'_> {
        type Output = Line;
        fn run<C: Compare>(self) -> Self::Output {
            let Self(line, slot, tag, id) = self;
            let mut line = *line;
            C::put(&mut line, slot, tag, id);
            line
        }
    }

    struct Eight<'a>(&'a [u64; 8], u64, u32, Alive);
    impl Job for Eight<'_> {
        type Output = [u32; 2];
        fn run<C: Compare>(self) -> Self::Output {
            let Self(codes, code, reach, window) = self;
            [C::eight(codes, code, reach), C::sixteen(codes, reach, (1 << reach) - 1, window)]
        }
    }

    proptest! {
        #[test]
        fn wide_and_portable_lines_are_written_alike(line in any::<Line>(), tag in 0..1_u32 << 24, id in any::<u32>()) {
            for slot in 0..9 {
                let portable = Engine::PORTABLE.run(Put(&line, slot, tag, id));
                prop_assert_eq!(tags(&portable)[slot as usize], tag);
                prop_assert_eq!(Engine::detect().run(Put(&line, slot, tag, id)), portable);
            }
        }

        #[test]
        fn wide_and_portable_comparisons_agree(
            line in any::<Line>(), slot in 0..9_usize, flips in any::<u32>(), reach in 0..9_u32,
            tail in any::<u32>(), live in any::<u32>(), codes in any::<[u64; 8]>(), other in any::<u64>(),
        ) {
            // Near the tag of a slot, or nowhere near.
            let window = Alive { tail, live };
            for tag in [tags(&line)[slot] ^ (flips & flips.rotate_left(9) & 0x00FF_FFFF), flips & 0x00FF_FFFF] {
                let portable = Engine::PORTABLE.run(Near(&line, tag, reach, window));
                prop_assert_eq!(Engine::detect().run(Near(&line, tag, reach, window)), portable);
            }
            for code in [codes[slot % 8] ^ (other & other.rotate_left(7) & other.rotate_left(31)), other] {
                let portable = Engine::PORTABLE.run(Eight(&codes, code, reach, window));
                prop_assert_eq!(Engine::detect().run(Eight(&codes, code, reach, window)), portable);
            }
        }
    }
}
