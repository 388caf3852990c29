//! Comparisons with AVX2.

#![expect(clippy::inline_always, reason = "what is not inlined into `run` is compiled without its features")]
#![expect(clippy::cast_possible_wrap, reason = "the intrinsics take bits as signed numbers")]
#![expect(clippy::cast_sign_loss, reason = "they give masks as signed numbers")]
use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8,
    _mm_srli_si128, _mm_xor_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_castsi128_si256, _mm256_castsi256_pd,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cmpgt_epi64, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_max_epu32, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_sad_epu8, _mm256_set_m128i,
    _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_sub_epi32, _mm256_xor_si256,
};

use super::{Compare, Job, LINE, Line, LiveWindow, Portable, SLOTS, word_at};

/// Comparisons with AVX2. Created only in `run`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2;

/// Returns whether the machine has the features of [`run`].
pub(crate) fn is_there() -> bool {
    !cfg!(miri) && std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt")
}

/// # Safety
///
/// The machine must have these features: [`is_there`].
#[target_feature(enable = "avx2,popcnt")]
pub(crate) unsafe fn run<J: Job>(job: J) -> J::Output {
    job.run::<Avx2>()
}

/// How many ones each number below sixteen has, twice.
#[rustfmt::skip]
const ONES: [u8; 32] = [
    0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
];

/// Counts the ones of each byte, a half at a time (Muła, Kurz and Lemire, Computer Journal 2018).
///
/// # Safety
///
/// The machine must have the features of `run`. The same holds for all functions below.
#[inline(always)]
unsafe fn ones(bytes: __m256i) -> __m256i {
    // SAFETY: the caller's; the table is 32 bytes.
    unsafe {
        let table = _mm256_loadu_si256(ONES.as_ptr().cast());
        let half = _mm256_set1_epi8(15);
        let lower = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, half));
        let upper = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half));
        _mm256_add_epi8(lower, upper)
    }
}

/// Returns which of eight words lie in the window, one bit each.
#[inline(always)]
unsafe fn alive(words: __m256i, window: LiveWindow) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        let ages = _mm256_sub_epi32(words, _mm256_set1_epi32(window.tail as i32));
        let oldest = _mm256_max_epu32(ages, _mm256_set1_epi32(window.live as i32));
        let dead = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(oldest, ages)));
        !(dead as u32) & 0xFF
    }
}

/// Returns which of eight words are equal to `tag` where `mask` has ones, and lie in the window.
#[inline(always)]
unsafe fn equal_eight(words: __m256i, tag: u32, mask: u32, window: LiveWindow) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        let differing = _mm256_xor_si256(words, _mm256_set1_epi32(tag as i32));
        let differing = _mm256_and_si256(differing, _mm256_set1_epi32(mask as i32));
        let equal = _mm256_cmpeq_epi32(differing, _mm256_setzero_si256());
        _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32 & alive(words, window)
    }
}

/// Does the same with sixteen words.
///
/// # Safety
///
/// In addition, 64 bytes must be readable there.
#[inline(always)]
unsafe fn equal_sixteen(words: *const __m256i, tag: u32, mask: u32, window: LiveWindow) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        equal_eight(_mm256_loadu_si256(words), tag, mask, window)
            | equal_eight(_mm256_loadu_si256(words.add(1)), tag, mask, window) << 8
    }
}

/// Returns which of four codes differ from `code` in more than `reach` bits, one bit each.
#[inline(always)]
unsafe fn far(codes: __m256i, code: u64, reach: u32) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        let differing = ones(_mm256_xor_si256(codes, _mm256_set1_epi64x(code as i64)));
        let distances = _mm256_sad_epu8(differing, _mm256_setzero_si256());
        let far = _mm256_cmpgt_epi64(distances, _mm256_set1_epi64x(i64::from(reach)));
        _mm256_movemask_pd(_mm256_castsi256_pd(far)) as u32
    }
}

/// Reads sixteen bytes of a line.
///
/// # Safety
///
/// In addition, this many bytes must be readable there.
#[inline(always)]
unsafe fn sixteen_bytes(line: &Line, at: usize) -> __m128i {
    // SAFETY: the caller's.
    unsafe { _mm_loadu_si128(line.as_ptr().add(at).cast()) }
}

/// Positions of the lower bytes of the tags in a line.
const TAGS: usize = size_of::<u32>() * SLOTS;

/// How many of the last sixteen bytes of a line precede the upper bytes of the tags.
const BEFORE_UPPER: i32 = 6;
const _: () = assert!(TAGS + 2 * SLOTS == LINE - 16 + BEFORE_UPPER as usize);

impl Compare for Avx2 {
    #[inline(always)]
    fn near(line: &Line, tag: u32, reach: u32, window: LiveWindow) -> u32 {
        let [lower, middle, upper, _] = tag.to_le_bytes().map(|byte| byte as i8);
        let reach = u8::try_from(reach).unwrap_or(u8::MAX);
        // SAFETY: all reads are within the 64 bytes of the line, and this is only called below `run`, which has the
        // features.
        let near = unsafe {
            // The upper bytes are read with the last sixteen bytes of the line, because a read from their beginning
            // would leave it.
            let last = _mm_srli_si128::<BEFORE_UPPER>(sixteen_bytes(line, LINE - 16));
            let two = _mm256_set_m128i(
                _mm_xor_si128(sixteen_bytes(line, TAGS + SLOTS), _mm_set1_epi8(middle)),
                _mm_xor_si128(sixteen_bytes(line, TAGS), _mm_set1_epi8(lower)),
            );
            let two = ones(two);
            let one = ones(_mm256_castsi128_si256(_mm_xor_si128(last, _mm_set1_epi8(upper))));
            let both = _mm_add_epi8(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two));
            let distances = _mm_add_epi8(both, _mm256_castsi256_si128(one));
            let near = _mm_cmpeq_epi8(_mm_min_epu8(distances, _mm_set1_epi8(reach as i8)), distances);
            let living = alive(_mm256_loadu_si256(line.as_ptr().cast()), window);
            _mm_movemask_epi8(near) as u32 & (living | u32::from(window.has(word_at(line, 8))) << 8)
        };
        near & 0x1FF
    }

    #[inline(always)]
    fn equal(line: &Line, tag: u32, mask: u32, window: LiveWindow) -> u32 {
        // SAFETY: a line is 64 bytes; the features as in `near`.
        unsafe { equal_sixteen(line.as_ptr().cast(), tag, mask, window) }
    }

    #[inline(always)]
    fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: LiveWindow) -> u32 {
        // SAFETY: eight words are 64 bytes, on this machine with their lower halves first; the features as in `near`.
        unsafe { equal_sixteen(words.as_ptr().cast(), tag, mask, window) }
    }

    #[inline(always)]
    fn alive(line: &Line, window: LiveWindow) -> u32 {
        // SAFETY: as in `equal`.
        unsafe {
            let words: *const __m256i = line.as_ptr().cast();
            alive(_mm256_loadu_si256(words), window) | alive(_mm256_loadu_si256(words.add(1)), window) << 8
        }
    }

    #[inline(always)]
    fn put(line: &mut Line, slot: u32, tag: u32, id: u32) {
        Portable::put(line, slot, tag, id);
    }

    #[inline(always)]
    fn eight(codes: &[u64; 8], code: u64, reach: u32) -> u32 {
        // SAFETY: eight codes are 64 bytes; the features as in `near`.
        unsafe {
            let codes: *const __m256i = codes.as_ptr().cast();
            let (first, last) = (_mm256_loadu_si256(codes), _mm256_loadu_si256(codes.add(1)));
            !(far(first, code, reach) | far(last, code, reach) << 4) & 0xFF
        }
    }
}
