//! What the title of a page says: the headline of its text, the names of section and site, and the kind of rendering.

use std::borrow::Cow;
use std::collections::HashSet;

use super::normalize::stretches;

/// What separates the headline in a title from the names of its section and site.
const SEPARATORS: [&str; 8] = ["|", "｜", "_", " - ", " – ", " — ", " · ", " » "];

/// A headline of fewer terms than this announces nothing.
const MIN_TERMS: usize = 3;

/// Letters of a word, at least; shorter ones occur in every text.
const MIN_LETTERS: usize = 4;

/// What the titles of print, mobile and AMP renderings add, in lower case.
const RENDERINGS: [&str; 36] = [
    "amp",
    "amp version",
    "amp-version",
    "drucken",
    "druckansicht",
    "druckversion",
    "imprimer",
    "imprimir",
    "mobil",
    "mobile",
    "mobile site",
    "mobile version",
    "mobile-version",
    "mobilversion",
    "print",
    "print article",
    "print page",
    "print version",
    "print view",
    "printable version",
    "printer friendly",
    "printer-friendly",
    "printer friendly version",
    "printer-friendly version",
    "stampa",
    "version imprimable",
    "version mobile",
    "versión para imprimir",
    "versión móvil",
    "versão para impressão",
    "versione stampabile",
    "версия для печати",
    "мобильная версия",
    "手机版",
    "打印",
    "打印版",
];

/// Returns the parts of a title in lower case: the headline, and the names of section and site.
fn parts_of(title: &str) -> impl Iterator<Item = &str> {
    let parts = SEPARATORS
        .iter()
        .fold(vec![title], |parts, separator| parts.into_iter().flat_map(|part| part.split(separator)).collect());
    parts.into_iter().map(str::trim)
}

/// Returns a title without what only says how the page is rendered: `Print: Red shoe | Shop` and `Red shoe - Shop - AMP`
/// are titles of one page. What is left is in lower case.
pub(super) fn without_rendering(title: &str) -> Cow<'_, str> {
    let lower = title.to_lowercase();
    let is_rendering = |part: &str| RENDERINGS.contains(&part.trim_matches(['(', ')', '[', ']', ' ']));
    let prefix = lower.split_once(':').filter(|(prefix, _)| is_rendering(prefix));
    let parts: Vec<&str> = parts_of(prefix.map_or(&lower, |(_, rest)| rest)).collect();
    let kept: Vec<&str> = parts.iter().copied().filter(|part| !is_rendering(part)).collect();
    let mut left = kept.join(" | ");
    // `Red shoe (print version)`, `Red shoe - Shop mobile`.
    let is_last = |at: &usize| left.get(*at..).is_some_and(is_rendering);
    let bracketed = left.rfind(['(', '[']).filter(is_last);
    let last = bracketed.or_else(|| left.rfind(' ').filter(|at| kept.len() > 1 && is_last(at)));
    last.into_iter().for_each(|at| left.truncate(at));
    if left.is_empty() || (prefix.is_none() && kept.len() == parts.len() && last.is_none()) {
        return Cow::Borrowed(title);
    }
    Cow::Owned(left)
}

/// Returns whether a title says nothing of a page with this heading: it has words, and none of them is in the heading.
/// Then it is the title of the whole site.
pub(super) fn is_of_site(title: &str, heading: &str) -> bool {
    let (title, heading) = (title.to_lowercase(), heading.to_lowercase());
    let (title, heading) = (terms(&title), terms(&heading));
    !heading.is_empty() && title.is_disjoint(&heading)
}

/// Returns whether at least half of the terms of the headline are in the text, besides the headline itself: a form for
/// comments repeats it, and a notice, terms of use or a note about the author have little to do with it.
pub(super) fn announces(title: &str, text: &str) -> bool {
    let title = title.to_lowercase();
    let parts = parts_of(&title).map(|part| (part, terms(part)));
    let Some((headline, wanted)) = parts.max_by_key(|(_, terms)| terms.len()) else {
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
    fn a_title_is_the_same_in_every_rendering() {
        for (title, kept) in [
            ("Print: Red shoe | Shop", "red shoe | shop"),
            ("Red shoe - Shop - AMP", "red shoe | shop"),
            ("Red shoe | Shop", "Red shoe | Shop"),
            ("Red shoe – Shop mobile", "red shoe | shop"),
            ("Red shoe (Print version)", "red shoe"),
            ("Rote Schuhe - Laden [Druckversion]", "rote schuhe | laden"),
            ("版本说明_手机版", "版本说明"),
            ("Версия для печати: Красный", "красный"),
            // These are what the pages are about.
            ("Nokia mobile", "Nokia mobile"),
            ("Fine Print", "Fine Print"),
            ("Print", "Print"),
            ("Mobile | AMP", "Mobile | AMP"),
            ("Amp: repairs", "repairs"),
            ("", ""),
        ] {
            assert_eq!(without_rendering(title).trim(), kept, "{title}");
        }
    }

    #[test]
    fn a_title_without_a_word_of_the_heading_is_that_of_the_site() {
        for (title, heading, expected) in [
            ("The Daily Post", "Harbour dredging delayed", true),
            ("Harbour dredging delayed - The Daily Post", "Dredging of the harbour is delayed", false),
            ("新浪财经", "央行下调存款准备金率", true),
            ("央行下调准备金率_新浪财经", "央行下调存款准备金率", false),
            ("The Daily Post", "", false),
            ("The Daily Post", "5 of 6", false),
            ("Home", "Harbour", true),
        ] {
            assert_eq!(is_of_site(title, heading), expected, "{title}: {heading}");
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
