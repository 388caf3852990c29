//! The segmenter with the Chinese dictionary of `jieba-rs`, compressed with gzip so that no C library is needed to
//! unpack it.

use std::io::BufReader;
use std::sync::{Arc, LazyLock};

use flate2::read::GzDecoder;
use jieba_rs::Jieba;

/// `dict.txt` of `jieba-rs` 0.11.0, unchanged. Another dictionary gives other words, so it is part of the scheme.
const PACKED: &[u8] = include_bytes!("dict_zh.txt.gz");

/// Returns the segmenter, loaded once for the whole process. `None` if the dictionary cannot be read, which a test
/// excludes.
#[must_use]
pub fn segmenter() -> Option<Arc<Jieba>> {
    static JIEBA: LazyLock<Option<Arc<Jieba>>> =
        LazyLock::new(|| Jieba::with_dict(&mut BufReader::new(GzDecoder::new(PACKED))).ok().map(Arc::new));
    JIEBA.clone()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_dictionary_is_that_of_the_library() {
        let mut words = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut words).unwrap();
        assert_eq!(words.lines().count(), 349_045);
        assert_eq!(xxhash_rust::xxh3::xxh3_64(words.as_bytes()), 0xb3c0_2213_c9d2_22d3);
        let jieba = segmenter().unwrap();
        assert_eq!(
            jieba.cut("我爱北京天安门", true).iter().map(|token| token.word).collect::<Vec<_>>(),
            ["我", "爱", "北京", "天安门"]
        );
    }
}
