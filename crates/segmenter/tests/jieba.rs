//! All words are those of jieba-rs.

#![expect(clippy::unwrap_used, reason = "a dictionary that cannot be read fails the test")]

use std::io::{BufReader, Read};
use std::sync::LazyLock;

use dupgate_segmenter::{DICTIONARY, Piece, Scratch, cut, is_han};
use flate2::read::GzDecoder;
use jieba_rs::Jieba;
use proptest::prelude::*;
use proptest::sample::select;

static JIEBA: LazyLock<Jieba> =
    LazyLock::new(|| Jieba::with_dict(&mut BufReader::new(GzDecoder::new(DICTIONARY))).unwrap());

/// The words of the dictionary, the most frequent ones first.
static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut dictionary = String::new();
    GzDecoder::new(DICTIONARY).read_to_string(&mut dictionary).unwrap();
    let mut words: Vec<(&str, u32)> = dictionary
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(' ');
            Some((parts.next()?, parts.next()?.parse().ok()?))
        })
        .collect();
    words.sort_by_key(|(word, frequency)| (std::cmp::Reverse(*frequency), *word));
    words.into_iter().map(|(word, _)| word.to_owned()).collect()
});

fn words_of(length: impl Fn(usize) -> bool) -> Vec<String> {
    WORDS.iter().filter(|word| length(word.chars().count())).cloned().collect()
}

/// Stretches of Han and of other characters, in turn.
fn stretches(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_first_han = is_han(rest.chars().next()?);
        let length = rest.find(|c| is_han(c) != is_first_han).unwrap_or(rest.len());
        let (stretch, after) = rest.split_at(length);
        rest = after;
        Some((is_first_han, stretch))
    })
}

fn of_jieba(text: &str, hmm: bool) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (han, text) in stretches(text) {
        if han {
            pieces.extend(JIEBA.cut(text, hmm).iter().map(|token| Piece::Word(token.word)));
        } else {
            pieces.push(Piece::Other(text));
        }
    }
    pieces
}

fn of_ours<'t>(text: &'t str, hmm: bool, scratch: &mut Scratch) -> Vec<Piece<'t>> {
    let mut pieces = Vec::new();
    cut(text, hmm, scratch, |piece| pieces.push(piece));
    pieces
}

/// Compares a text with and without the model, in the same memory.
fn assert_alike(text: &str) -> Result<(), TestCaseError> {
    let mut scratch = Scratch::default();
    for hmm in [true, false] {
        prop_assert_eq!(of_ours(text, hmm, &mut scratch), of_jieba(text, hmm), "hmm: {}", hmm);
    }
    Ok(())
}

/// Pieces of text, a kind each.
fn piece() -> impl Strategy<Value = String> {
    let characters = words_of(|length| length == 1);
    let frequent = characters.iter().take(600).cloned().collect::<Vec<_>>();
    let surnames: Vec<char> =
        "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕".chars().collect();
    prop_oneof![
        6 => select(words_of(|length| length > 1).into_iter().take(40_000).collect::<Vec<_>>()),
        2 => select(WORDS.clone()),
        2 => select(words_of(|length| length > 3)),
        // The beginning of a long word, which no word may be.
        1 => (select(words_of(|length| length > 4)), 1..5_usize).prop_map(|(word, n)| word.chars().take(n).collect()),
        6 => select(frequent),
        3 => select(characters),
        // Names and foreign words: what the model joins.
        4 => (select(surnames), "[\u{4e00}-\u{9fa5}]{1,2}").prop_map(|(surname, name)| format!("{surname}{name}")),
        3 => "[\u{4e00}-\u{9fff}]",
        1 => "[\u{9fd0}-\u{9fff}\u{3400}-\u{4dbf}]{1,3}",
        1 => "[\u{f900}-\u{faff}]",
        1 => "[\u{20000}-\u{323af}]{1,3}",
        // Around what jieba takes for Han.
        1 => "[\u{2a6da}-\u{2a704}\u{2ebea}-\u{2ebf5}\u{2f7fa}-\u{2f805}\u{2fa1a}-\u{2fa24}\u{31340}-\u{31360}]{1,2}",
        2 => "[，。、 \n]",
        1 => "[a-z0-9\u{3041}-\u{3046}\u{ac00}-\u{ac05}é🙂\u{33ff}\u{4dc0}\u{a000}\u{fb00}\u{1ffff}]{1,3}",
    ]
}

/// Texts of so many pieces.
fn text(pieces: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), pieces).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn words_of_mixed_texts_are_those_of_jieba(text in text(0..40)) {
        assert_alike(&text)?;
    }

    #[test]
    fn words_of_one_and_two_characters_are_those_of_jieba(text in "[\u{4e00}-\u{9fd5}]{1,2}(。[\u{4e00}-\u{9fd5}]{1,2}){0,20}") {
        assert_alike(&text)?;
    }

    #[test]
    fn words_of_frequent_characters_are_those_of_jieba(
        characters in prop::collection::vec(select(words_of(|length| length == 1).into_iter().take(150).collect::<Vec<_>>()), 1..60),
    ) {
        assert_alike(&characters.concat())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// They are cut in batches.
    #[test]
    fn words_of_long_texts_are_those_of_jieba(text in text(1_000..4_000), mark in "[。天]") {
        assert_alike(&text)?;
        // One stretch.
        assert_alike(&text.chars().filter(|c| is_han(*c)).collect::<String>())?;
        // Every stretch is of one character.
        assert_alike(&text.chars().flat_map(|c| [c.to_string(), mark.clone()]).collect::<String>())?;
    }
}

#[test]
fn every_character_and_every_word_of_the_dictionary_is_cut_as_by_jieba() {
    for c in '\0'..=char::MAX {
        assert_alike(&c.to_string()).unwrap();
    }
    let long: String = WORDS.iter().flat_map(|word| [word.as_str(), "。"]).collect();
    assert_alike(&long).unwrap();
    let joined: String = WORDS.iter().filter(|word| word.chars().all(is_han)).map(String::as_str).collect();
    assert_alike(&joined).unwrap();
}

#[test]
fn pieces_are_the_text() {
    let text = "Hi, 我爱北京天安门。3.14，囧rz 𠀀";
    let pieces = of_ours(text, true, &mut Scratch::default());
    let all: String = pieces.iter().map(|(Piece::Word(text) | Piece::Other(text))| *text).collect();
    assert_eq!(all, text);
    assert_eq!(pieces.first(), Some(&Piece::Other("Hi, ")));
    assert_eq!(pieces.last(), Some(&Piece::Word("𠀀")));
    assert_eq!(of_ours("", true, &mut Scratch::default()), []);
}
