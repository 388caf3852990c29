//! Whether a text is the one that the title of its page announces.

use std::collections::HashSet;

use super::characters::stretches;

/// What separates the headline in a title from the names of its section and site.
const SEPARATORS: [&str; 8] = ["|", "｜", "_", " - ", " – ", " — ", " · ", " » "];

/// A headline of fewer terms than this announces nothing.
const MIN_TERMS: usize = 3;

/// Letters of a word, at least; shorter ones occur in every text.
const MIN_LETTERS: usize = 4;

/// Returns whether at least half of the terms of the headline are in the text, besides the headline itself: a form for
/// comments repeats it, and a notice, terms of use or a note about the author have little to do with it.
pub(super) fn announces(title: &str, text: &str) -> bool {
    let title = title.to_lowercase();
    let parts = SEPARATORS.iter().fold(vec![title.as_str()], |parts, separator| {
        parts.into_iter().flat_map(|part| part.split(separator)).collect()
    });
    let Some((headline, wanted)) =
        parts.into_iter().map(|part| (part.trim(), terms(part))).max_by_key(|(_, terms)| terms.len())
    else {
        return false;
    };
    if wanted.len() < MIN_TERMS {
        return false;
    }
    let text = text.to_lowercase().replace(headline, "\n");
    let found = terms(&text);
    wanted.intersection(&found).count() * 2 >= wanted.len()
}

/// Returns the words of a text, and pairs of characters where the script puts no spaces between words or inflects them
/// by syllables.
fn terms(text: &str) -> HashSet<&str> {
    let mut found = HashSet::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        for (paired, part) in stretches(run, is_paired) {
            if paired {
                let starts = part.char_indices().zip(part.char_indices().skip(1));
                found.extend(starts.filter_map(|((from, first), (next, second))| {
                    // Pairs of hiragana are endings and particles.
                    let is_ending = is_hiragana(first) && is_hiragana(second);
                    part.get(from..next + second.len_utf8()).filter(|_| !is_ending)
                }));
            } else if part.chars().count() >= MIN_LETTERS {
                found.insert(part);
            }
        }
    }
    found
}

fn is_paired(c: char) -> bool {
    // Thai and Lao, kana, Han, Hangul.
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{309f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_article_is_announced_by_its_headline() {
        for (title, text) in [
            (
                "Harbour dredging delayed until autumn - The Daily Post",
                "Work to deepen the harbour has been delayed again. The port said that dredging would begin in autumn.",
            ),
            ("央行下调存款准备金率_新浪财经", "中国人民银行今天宣布，下调金融机构存款准备金率零点五个百分点。"),
            ("한국은행 기준금리 동결 | 경제신문", "한국은행이 오늘 기준금리를 현 수준에서 동결하기로 했다."),
            (
                "日本銀行、大規模な金融緩和を維持｜ニュース",
                "日本銀行は金融政策決定会合で、金融緩和策を維持することを決めた。",
            ),
        ] {
            assert!(announces(title, text), "{title}");
        }
    }

    #[test]
    fn what_stands_beside_an_article_is_not() {
        let title = "Harbour dredging delayed until autumn - The Daily Post";
        for text in [
            "We use cookies and similar technologies to personalise content and to analyse our traffic.",
            "Leave a comment on Harbour dredging delayed until autumn. Your address will not be published.",
            "The author writes about the harbour and lives in the north with two dogs and a boat.",
            "",
        ] {
            assert!(!announces(title, text), "{text}");
        }
        for title in ["", "Home", "The Daily Post", " | ", "News - Post"] {
            assert!(!announces(title, "The Daily Post has news about your home, every day."), "{title}");
        }
        assert!(!announces(
            "央行下调存款准备金率_新浪财经",
            "版权所有，未经授权不得转载。新浪财经对此不承担任何责任。"
        ));
    }
}
