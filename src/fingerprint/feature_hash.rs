//! The hash that turns a word into bits: ours, and those of two programs that people come from.

use md5::{Digest, Md5};
use xxhash_rust::xxh3::xxh3_64;

use super::FeatureHash;

impl FeatureHash {
    /// Hashes a word. `xxh3` is its XXH3 (64 bits, no seed), which the text room has made already.
    #[must_use]
    pub fn of(self, word: &str, xxh3: u64) -> u64 {
        match self {
            Self::Xxh3 => xxh3,
            Self::Md5 => md5(word),
            Self::Jenkins => jenkins(word.as_bytes()),
        }
    }

    /// Hashes a word of which nothing is known yet.
    #[must_use]
    pub fn of_word(self, word: &str) -> u64 {
        self.of(word, xxh3_64(word.as_bytes()))
    }
}

/// The lower half of the digest, as a number that begins with its highest byte: what the Python package `simhash`
/// takes for 64 bits.
fn md5(word: &str) -> u64 {
    let digest: [u8; 16] = Md5::digest(word.as_bytes()).into();
    digest.into_iter().skip(8).fold(0, |number, byte| number << 8 | u64::from(byte))
}

/// Bob Jenkins' `hashlittle2` (lookup3, 2006) with both seeds 0, the first of its two results in the upper half: what
/// yanyiwu/simhash takes.
fn jenkins(bytes: &[u8]) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the algorithm counts modulo 2^32")]
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, behind) = rest.split_at(12);
        add(&mut state, block);
        mix(&mut state);
        rest = behind;
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
    use super::*;
    use crate::fingerprint::{Feature, SimHash, simhash};

    fn of(hash: FeatureHash, weighted: &[(&str, u32)]) -> SimHash {
        let features: Vec<Feature> =
            weighted.iter().map(|(word, weight)| Feature { hash: hash.of_word(word), weight: *weight }).collect();
        simhash(&features)
    }

    #[test]
    fn md5_gives_the_fingerprints_of_the_python_package_simhash() {
        assert_eq!(md5("天安门"), 0xccc3_a1f1_ce3b_badf);
        let weighted = [("the", 3), ("cat", 2), ("mat", 1), ("天安门", 5)];
        assert_eq!(of(FeatureHash::Md5, &weighted), SimHash(0xdc83_e0f1_cf33_badf));
        let plain = ["a", "b", "c", "d", "e"].map(|word| (word, 1));
        assert_eq!(of(FeatureHash::Md5, &plain), SimHash(0x3140_1976_6061_5723));
        assert_eq!(of(FeatureHash::Md5, &[("中国", 5), ("经济", 2), ("x", 7)]), SimHash(0xe4c0_5206_1540_23a6));
    }

    #[test]
    fn md5_over_four_characters_each_gives_what_the_package_makes_of_a_text() {
        for (text, expected) in [
            ("How are you? I am fine. Thanks.", 0x2f73_898a_203e_e80b),
            ("你妈妈喊你回家吃饭哦，回家罗回家罗", 0xecd0_2348_7442_f33b),
        ] {
            let letters: String = text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
            let mut features = Vec::new();
            crate::fingerprint::shingles(&letters, 4, |shingle| {
                features.push(Feature { hash: md5(shingle), weight: 1 });
            });
            assert_eq!(simhash(&features), SimHash(expected), "{text}");
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
        assert_eq!(of(FeatureHash::Jenkins, &weighted), SimHash(17_831_459_094_038_722_629));
    }
}
