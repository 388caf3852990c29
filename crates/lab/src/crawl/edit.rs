//! What re-publishers do to a text.

use super::article::{Article, Author, Language, time_line};
use super::{Edit, Rng};

/// Edits the article in place. Returns whether its text is another one now: a text of one sentence loses none, and few
/// characters may hold none with a traditional form.
pub(super) fn apply(edit: Edit, article: &mut Article, author: &Author, site: &str, rng: &mut Rng) -> bool {
    let before = article.text();
    match edit {
        Edit::Punctuation => punctuation(article, rng),
        Edit::Typo => typo(article, author, rng),
        Edit::HeadLine => article.head_line = Some(head_line(article.language, site, rng)),
        Edit::FootLine => article.foot_line = Some(foot_line(article.language, site, rng)),
        Edit::TimeLine => article.time_line = time_line(article.language, rng),
        Edit::SentenceDeleted => delete(article, rng),
        Edit::SentenceInserted => {
            let sentence = author.strange_sentence(article.language, rng);
            insert(article, sentence, rng);
        }
        Edit::Truncated => truncate(article, rng),
        Edit::Script => script(article),
    }
    article.text() != before
}

fn punctuation(article: &mut Article, rng: &mut Rng) {
    for (number, sentence) in article.paragraphs.iter_mut().flatten().enumerate() {
        if rng.percent(40) {
            *sentence = sentence.replace(", ", "; ").replace('\u{ff0c}', "\u{3001}");
        }
        if number > 0 && rng.percent(60) {
            continue;
        }
        let other = match sentence.pop() {
            Some('.') => "!",
            Some('\u{3002}') => "\u{ff01}",
            Some('!' | '?') => ".",
            Some('\u{ff01}' | '\u{ff1f}') => "\u{3002}",
            Some(letter) => {
                sentence.push(letter);
                "\u{2026}"
            }
            None => "",
        };
        sentence.push_str(other);
    }
}

fn typo(article: &mut Article, author: &Author, rng: &mut Rng) {
    let language = article.language;
    let per_mille = rng.between(10, 20);
    // The first letter of a random sentence is always wrong: a short text needs its mistake too.
    let sure = rng.index(article.sentences());
    for (number, sentence) in article.paragraphs.iter_mut().flatten().enumerate() {
        let mut wrong_now = number == sure;
        let mistyped: String = sentence
            .chars()
            .map(|letter| {
                if letter.is_alphabetic() && (wrong_now || rng.below(1000) < per_mille) {
                    wrong_now = false;
                    wrong_letter(letter, language, author, rng)
                } else {
                    letter
                }
            })
            .collect();
        *sentence = mistyped;
    }
}

fn wrong_letter(right: char, language: Language, author: &Author, rng: &mut Rng) -> char {
    loop {
        let wrong = author.word(language, rng).chars().next_back();
        if let Some(wrong) = wrong.filter(|&wrong| wrong != right) {
            return wrong;
        }
    }
}

fn head_line(language: Language, site: &str, rng: &mut Rng) -> String {
    match language {
        Language::Chinese => format!("【{site}】本站快讯第{}期，点击订阅每日要闻", rng.between(1, 9999)),
        Language::English => format!("{site} daily briefing no. {}: subscribe for more stories", rng.between(1, 9999)),
    }
}

fn foot_line(language: Language, site: &str, rng: &mut Rng) -> String {
    match language {
        Language::Chinese => format!("责任编辑：{}号  来源：{site}  版权所有，转载请注明出处", rng.between(1, 999)),
        Language::English => format!("Desk {} at {site}. All rights reserved.", rng.between(1, 999)),
    }
}

fn delete(article: &mut Article, rng: &mut Rng) {
    let sentences = article.sentences();
    if sentences < 2 {
        return;
    }
    let mut gone = rng.index(sentences);
    for paragraph in &mut article.paragraphs {
        if gone < paragraph.len() {
            paragraph.remove(gone);
            break;
        }
        gone -= paragraph.len();
    }
    article.paragraphs.retain(|paragraph| !paragraph.is_empty());
}

fn insert(article: &mut Article, sentence: String, rng: &mut Rng) {
    let index = rng.index(article.paragraphs.len());
    match article.paragraphs.get_mut(index) {
        Some(paragraph) => paragraph.insert(rng.index(paragraph.len() + 1), sentence),
        None => article.paragraphs.push(vec![sentence]),
    }
}

fn truncate(article: &mut Article, rng: &mut Rng) {
    let all: usize = article.paragraphs.iter().flatten().map(|sentence| sentence.chars().count()).sum();
    let percent = usize::try_from(rng.between(60, 85)).unwrap_or(60);
    let mut left = (all * percent / 100).max(1);
    for paragraph in &mut article.paragraphs {
        paragraph.retain_mut(|sentence| {
            let length = sentence.chars().count();
            if length > left {
                *sentence = sentence.chars().take(left).collect();
            }
            left -= length.min(left);
            !sentence.is_empty()
        });
    }
    article.paragraphs.retain(|paragraph| !paragraph.is_empty());
}

fn script(article: &mut Article) {
    let recast = |text: &str| match article.language {
        Language::Chinese => text.chars().map(traditional).collect::<String>(),
        Language::English => text.to_uppercase(),
    };
    let paragraphs = article
        .paragraphs
        .iter()
        .map(|paragraph| paragraph.iter().map(|sentence| recast(sentence)).collect())
        .collect();
    (article.time_line, article.paragraphs) = (recast(&article.time_line), paragraphs);
}

/// Returns the traditional form of a character of the table, every other one as it is.
pub(crate) fn traditional(simplified: char) -> char {
    use std::collections::HashMap;
    use std::sync::LazyLock;
    static FORMS: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
        let letters: Vec<char> = include_str!("words/traditional.txt").chars().filter(|c| !c.is_whitespace()).collect();
        letters.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))).collect()
    });
    FORMS.get(&simplified).copied().unwrap_or(simplified)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn article() -> (Author, Article) {
        let author = Author::new();
        let article = author.article(Language::Chinese, 1500, &mut Rng::of(1, 1, 1));
        (author, article)
    }

    #[test]
    fn a_typo_edit_changes_one_or_two_letters_in_a_hundred() {
        let (author, article) = article();
        let mut edited = article.clone();
        assert!(apply(Edit::Typo, &mut edited, &author, "s", &mut Rng::of(2, 2, 2)));
        let (before, after) = (article.text(), edited.text());
        let wrong = before.chars().zip(after.chars()).filter(|(a, b)| a != b).count();
        assert_eq!(before.chars().count(), after.chars().count());
        assert!((2..=20).contains(&wrong), "{wrong} of {}", before.chars().count());
    }

    #[test]
    fn truncation_keeps_a_prefix_of_60_to_85_percent() {
        let (author, article) = article();
        for seed in 0..20 {
            let mut edited = article.clone();
            assert!(apply(Edit::Truncated, &mut edited, &author, "s", &mut Rng::of(seed, 2, 2)));
            let (before, after) = (article.paragraphs.concat().concat(), edited.paragraphs.concat().concat());
            assert!(before.starts_with(&after));
            let percent = after.chars().count() * 100 / before.chars().count();
            assert!((59..=85).contains(&percent), "{percent} %");
        }
    }

    #[test]
    fn the_traditional_text_is_the_simplified_one_again_when_converted() {
        let (author, article) = article();
        let mut edited = article.clone();
        assert!(apply(Edit::Script, &mut edited, &author, "s", &mut Rng::of(3, 2, 2)));
        let back = ferrous_opencc::OpenCC::from_config(ferrous_opencc::config::BuiltinConfig::T2s).unwrap();
        assert_eq!(back.convert(&edited.text()), back.convert(&article.text()));
    }

    #[test]
    fn a_text_of_one_sentence_loses_none() {
        let (author, mut article) = article();
        article.paragraphs = vec![vec!["一。".to_owned()]];
        assert!(!apply(Edit::SentenceDeleted, &mut article, &author, "s", &mut Rng::of(3, 2, 2)));
    }
}
