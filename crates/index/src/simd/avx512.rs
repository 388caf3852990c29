//! Comparisons with AVX-512.

#![expect(clippy::inline_always, reason = "what is not inlined into `run` is compiled without its features")]
#![expect(clippy::cast_possible_wrap, reason = "the intrinsics take bits as signed numbers")]
use std::arch::x86_64::{
    __m512i, _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_cmplt_epu32_mask, _mm512_loadu_si512,
    _mm512_mask_set1_epi32, _mm512_mask_shuffle_epi8, _mm512_maskz_permutexvar_epi8, _mm512_popcnt_epi32,
    _mm512_popcnt_epi64, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_storeu_si512, _mm512_sub_epi32,
    _mm512_testn_epi32_mask, _mm512_xor_si512,
};

use super::{Compare, Job, Line, LiveWindow};

/// Comparisons with AVX-512. Created only in `run`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512;

/// Returns whether the machine has the features of [`run`].
pub(crate) fn is_there() -> bool {
    !cfg!(miri)
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi")
        && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
        && std::arch::is_x86_feature_detected!("popcnt")
}

/// # Safety
///
/// The machine must have these features: [`is_there`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt")]
pub(crate) unsafe fn run<J: Job>(job: J) -> J::Output {
    job.run::<Avx512>()
}

/// For each word, the bytes of a line that make up its tag.
#[rustfmt::skip]
const TAG_BYTES: [u8; 64] = [
    36, 45, 54, 0, 37, 46, 55, 0, 38, 47, 56, 0, 39, 48, 57, 0,
    40, 49, 58, 0, 41, 50, 59, 0, 42, 51, 60, 0, 43, 52, 61, 0,
    44, 53, 62, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The lower three bytes of nine words.
const TAG_MASK: u64 = 0x0000_0007_7777_7777;

/// For each place of a line, the byte of a tag that belongs there.
#[rustfmt::skip]
const BYTE_OF_TAG: [u8; 64] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0,
];

/// The places of the first slot's tag in a line.
const FIRST_TAG: u64 = 1 << 36 | 1 << 45 | 1 << 54;

/// # Safety
///
/// 64 bytes must be readable there, and the machine must have the features of `run`.
#[inline(always)]
unsafe fn equal_words(words: *const __m512i, tag: u32, mask: u32, window: LiveWindow) -> u16 {
    // SAFETY: the caller's.
    unsafe {
        let words = _mm512_loadu_si512(words);
        let differing = _mm512_xor_si512(words, _mm512_set1_epi32(tag as i32));
        let equal = _mm512_testn_epi32_mask(differing, _mm512_set1_epi32(mask as i32));
        let ages = _mm512_sub_epi32(words, _mm512_set1_epi32(window.tail as i32));
        equal & _mm512_cmplt_epu32_mask(ages, _mm512_set1_epi32(window.live as i32))
    }
}

impl Compare for Avx512 {
    #[inline(always)]
    fn near(line: &Line, tag: u32, reach: u32, window: LiveWindow) -> u32 {
        // SAFETY: a line and the table of bytes are 64 bytes, and this is only called below `run`, which has the
        // features.
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
    fn equal(line: &Line, tag: u32, mask: u32, window: LiveWindow) -> u32 {
        // SAFETY: as in `near`.
        let equal = unsafe { equal_words(line.as_ptr().cast(), tag, mask, window) };
        u32::from(equal)
    }

    #[inline(always)]
    fn sixteen(words: &[u64; 8], tag: u32, mask: u32, window: LiveWindow) -> u32 {
        // SAFETY: eight words are 64 bytes, on this machine with their lower halves first; the features as in `near`.
        let equal = unsafe { equal_words(words.as_ptr().cast(), tag, mask, window) };
        u32::from(equal)
    }

    #[inline(always)]
    fn alive(line: &Line, window: LiveWindow) -> u32 {
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
        // The line is in a register already, because it was compared, and one store costs less than four.
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
