//! The hashes that turn a word into bits: our own, and those of two other `SimHash` programs.

use md5::{Digest, Md5};
use xxhash_rust::xxh3::xxh3_128;

use super::{FeatureHash, Width};

impl FeatureHash {
    /// Returns the widest `SimHash` that its bits can make.
    #[must_use]
    pub const fn widest(self) -> Width {
        match self {
            Self::Xxh3 | Self::Md5 => Width::B128,
            Self::Jenkins => Width::B64,
        }
    }

    /// Hashes a word for a `SimHash` of this width, to 128 bits or to 64. `xxh3` is its XXH3 (64 bits, no seed), which
    /// the `text` module has computed already.
    #[must_use]
    pub(crate) fn of(self, width: Width, word: &str, xxh3: u64) -> u128 {
        match (self, width) {
            (Self::Xxh3, Width::B32 | Width::B64) => u128::from(xxh3),
            (Self::Xxh3, Width::B128) => xxh3_128(word.as_bytes()),
            (Self::Md5, Width::B32 | Width::B64) => md5(word) & u128::from(u64::MAX),
            (Self::Md5, Width::B128) => md5(word),
            (Self::Jenkins, _) => u128::from(jenkins(word.as_bytes())),
        }
    }
}

/// Returns the digest as a big-endian number. The Python package `simhash` takes as many of its lowest bits as the
/// fingerprint has.
fn md5(word: &str) -> u128 {
    u128::from_be_bytes(Md5::digest(word.as_bytes()).into())
}

/// Returns Bob Jenkins' `hashlittle2` (lookup3, 2006) with both seeds 0 and the first of its two results in the upper
/// half, as yanyiwu/simhash does.
fn jenkins(bytes: &[u8]) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the algorithm counts modulo 2^32")]
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        add(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    if !rest.is_empty() {
        add(&mut state, rest);
        finish(&mut state);
    }
    let [_, b, c] = state;
    u64::from(c) << 32 | u64::from(b)
}

/// Adds up to 12 bytes as three numbers, lowest byte first; missing bytes are 0.
fn add(state: &mut [u32; 3], bytes: &[u8]) {
    for (word, four) in state.iter_mut().zip(bytes.chunks(4)) {
        *word = word.wrapping_add(four.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let round = |x: &mut u32, y: &mut u32, z: &mut u32, turn: u32| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(turn);
        *z = z.wrapping_add(*y);
    };
    round(a, b, c, 4);
    round(b, c, a, 6);
    round(c, a, b, 8);
    round(a, b, c, 16);
    round(b, c, a, 19);
    round(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let round = |x: &mut u32, y: u32, turn: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    round(c, *b, 14);
    round(a, *c, 11);
    round(b, *a, 25);
    round(c, *b, 16);
    round(a, *c, 4);
    round(b, *a, 14);
    round(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;
    use crate::fingerprint::SimHash;
    use crate::fingerprint::simhash::{Feature, simhash};

    fn of(hash: FeatureHash, width: Width, weighted: &[(&str, u32)]) -> SimHash {
        let features: Vec<Feature> = weighted
            .iter()
            .map(|(word, weight)| Feature { hash: hash.of(width, word, xxh3_64(word.as_bytes())), weight: *weight })
            .collect();
        simhash(&features, width)
    }

    /// What the package gives for 128 bits; for 64 and 32 it gives the lower part of that.
    fn every_width(expected: u128) -> [SimHash; 3] {
        Width::ALL.map(|width| SimHash::from_low_bits(width, expected))
    }

    #[test]
    fn md5_gives_the_fingerprints_of_the_python_package_simhash() {
        assert_eq!(md5("天安门"), 0x8296_51cd_0f76_41f9_ccc3_a1f1_ce3b_badf);
        let plain = ["a", "b", "c", "d", "e"].map(|word| (word, 1));
        for (weighted, expected) in [
            (&[("the", 3), ("cat", 2), ("mat", 1), ("天安门", 5)][..], 0x8296_51cd_0f7c_65d9_dc83_e0f1_cf33_badf),
            (&plain, 0x82e3_55b1_c537_37b5_3140_1976_6061_5723),
            (&[("中国", 5), ("经济", 2), ("x", 7)], 0x91d4_e421_028c_8014_e4c0_5206_1540_23a6),
        ] {
            assert_eq!(Width::ALL.map(|width| of(FeatureHash::Md5, width, weighted)), every_width(expected));
        }
    }

    #[test]
    fn md5_over_four_characters_each_gives_what_the_package_makes_of_a_text() {
        for (text, expected) in [
            ("How are you? I am fine. Thanks.", 0xdba4_5dd5_8a07_d408_2f73_898a_203e_e80b),
            ("你妈妈喊你回家吃饭哦，回家罗回家罗", 0xd674_ee4e_d0cb_7dd9_ecd0_2348_7442_f33b),
        ] {
            let letters: String = text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
            let letters: Vec<char> = letters.chars().collect();
            let shingles = letters.windows(4).map(|shingle| shingle.iter().collect::<String>());
            let features: Vec<Feature> = shingles.map(|shingle| Feature { hash: md5(&shingle), weight: 1 }).collect();
            assert_eq!(Width::ALL.map(|width| simhash(&features, width)), every_width(expected), "{text}");
        }
    }

    /// The same package with `xxhash.xxh3_64` and `xxhash.xxh3_128` as its hash.
    #[test]
    fn xxh3_gives_what_the_package_makes_of_the_same_hashes() {
        for (weighted, narrow, wide) in [
            (
                &[("the", 3), ("cat", 2), ("mat", 1), ("天安门", 5)][..],
                0x4a90_2a00_96b9_1676,
                0x98c3_1a4c_b2e3_a69f_4a96_ae83_52fd_6ca9,
            ),
            (&[("中国", 5), ("经济", 2), ("x", 7)], 0xaaf0_6064_00b2_cd01, 0x5c74_00c0_e422_2ea6_2250_4c44_80a0_cc11),
        ] {
            let [half, one, two] = Width::ALL.map(|width| of(FeatureHash::Xxh3, width, weighted));
            assert_eq!([half, one], [Width::B32, Width::B64].map(|width| SimHash::from_low_bits(width, narrow)));
            assert_eq!(two, SimHash::B128(wide));
        }
    }

    #[test]
    fn jenkins_gives_the_published_values_of_lookup3() {
        assert_eq!(jenkins(b""), 0xdead_beef_dead_beef);
        assert_eq!(jenkins(b"Four score and seven years ago"), 0x1777_0551_ce72_26e6);
    }

    /// The worked example of that program's documentation: weights in ten thousandths.
    #[test]
    fn jenkins_gives_the_fingerprint_of_the_example_of_yanyiwu_simhash() {
        let weighted =
            [("CEO", 117_392), ("蓝翔", 117_392), ("升职", 108_562), ("加薪", 106_426), ("手扶拖拉机", 100_089)];
        assert_eq!(of(FeatureHash::Jenkins, Width::B64, &weighted), SimHash::B64(17_831_459_094_038_722_629));
    }
}
