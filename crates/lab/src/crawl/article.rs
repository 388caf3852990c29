//! The text of a page: sentences of drawn words that look like prose.

use super::{Rng, Vocabulary};

/// Language of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Chinese,
    English,
}

/// Both vocabularies, and what is written with them.
#[derive(Debug)]
pub(super) struct Author {
    chinese: Vocabulary,
    english: Vocabulary,
}

/// One page before it is put into a site's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Article {
    pub(super) language: Language,
    pub(super) title: String,
    /// When it appeared and how many read it, in words: the first line of the text.
    pub(super) time_line: String,
    /// Line of a re-publisher before everything.
    pub(super) head_line: Option<String>,
    /// Line of a re-publisher after everything.
    pub(super) foot_line: Option<String>,
    pub(super) paragraphs: Vec<Vec<String>>,
}

/// A page's theme: telling words that come again and again in it, as in prose and unlike in a bag of words.
struct Theme(Vec<&'static str>);

const THEME_WORDS: usize = 24;
/// Share of the words that come from the theme.
const THEME_PERCENT: u64 = 30;

impl Author {
    pub(super) fn new() -> Self {
        Self { chinese: Vocabulary::chinese(), english: Vocabulary::english() }
    }

    /// Writes an article of at least `bytes` bytes of text (the last sentence may go past it).
    pub(super) fn article(&self, language: Language, bytes: usize, rng: &mut Rng) -> Article {
        let theme = Theme((0..THEME_WORDS).map(|_| self.of(language).draw_telling(rng)).collect());
        let title = self.title(language, &theme, rng);
        let time_line = time_line(language, rng);
        let (mut paragraphs, mut written) = (Vec::new(), time_line.len());
        while written < bytes {
            let mut paragraph = Vec::new();
            for _ in 0..rng.between(2, 6) {
                let sentence = self.sentence(language, &theme, rng);
                written += sentence.len() + 1;
                paragraph.push(sentence);
                if written >= bytes {
                    break;
                }
            }
            paragraphs.push(paragraph);
        }
        Article { language, title, time_line, head_line: None, foot_line: None, paragraphs }
    }

    /// Writes `letters` characters of sentences on one theme, without digits. The same chance begins a longer text with
    /// a shorter one.
    pub(super) fn prose(&self, language: Language, letters: usize, rng: &mut Rng) -> String {
        let theme = Theme((0..THEME_WORDS).map(|_| self.of(language).draw_telling(rng)).collect());
        let (mut text, mut written) = (String::new(), 0);
        while written < letters {
            let sentence = self.sentence(language, &theme, rng);
            let gap = match language {
                _ if rng.below(4) == 0 => "\n",
                Language::Chinese => "",
                Language::English => " ",
            };
            let more = sentence.chars().chain(gap.chars()).filter(|c| !c.is_ascii_digit()).take(letters - written);
            more.for_each(|c| {
                text.push(c);
                written += 1;
            });
        }
        text
    }

    /// Writes `letters` characters of links of one to three words, a line each; longer ones begin with shorter ones.
    pub(super) fn links(&self, language: Language, letters: usize, rng: &mut Rng) -> String {
        let (mut text, mut written) = (String::new(), 0);
        let gap = if language == Language::English { " " } else { "" };
        while written < letters {
            let words: Vec<&str> = (0..rng.between(1, 3)).map(|_| self.of(language).draw_telling(rng)).collect();
            for c in words.join(gap).chars().chain(['\n']).take(letters - written) {
                text.push(c);
                written += 1;
            }
        }
        text
    }

    /// Writes a sentence of no page's theme.
    pub(super) fn strange_sentence(&self, language: Language, rng: &mut Rng) -> String {
        self.sentence(language, &Theme(Vec::new()), rng)
    }

    /// Draws a word by the frequencies of the language.
    pub(super) fn word(&self, language: Language, rng: &mut Rng) -> &'static str {
        self.of(language).draw(rng)
    }

    fn of(&self, language: Language) -> &Vocabulary {
        match language {
            Language::Chinese => &self.chinese,
            Language::English => &self.english,
        }
    }

    fn title(&self, language: Language, theme: &Theme, rng: &mut Rng) -> String {
        let gap = if language == Language::English { " " } else { "" };
        let words: Vec<&str> = (0..rng.between(4, 8)).map(|_| self.next(language, theme, 60, rng)).collect();
        capitalised(&words.join(gap))
    }

    fn sentence(&self, language: Language, theme: &Theme, rng: &mut Rng) -> String {
        let mut sentence = String::with_capacity(160);
        let words = rng.between(8, 26);
        let mut until_comma = rng.between(4, 10);
        for place in 0..words {
            match language {
                Language::English if place > 0 => sentence.push(' '),
                Language::English | Language::Chinese => {}
            }
            if rng.below(40) == 0 {
                number(language, rng, &mut sentence);
            } else {
                sentence.push_str(self.next(language, theme, THEME_PERCENT, rng));
            }
            until_comma -= 1;
            if until_comma == 0 && place + 2 < words {
                sentence.push_str(if language == Language::English { "," } else { "，" });
                until_comma = rng.between(4, 10);
            } else if until_comma == 0 {
                until_comma = words;
            }
        }
        let ends = match language {
            Language::Chinese => &["。", "。", "。", "。", "。", "。", "！", "？"],
            Language::English => &[".", ".", ".", ".", ".", ".", "!", "?"],
        };
        sentence.push_str(rng.pick(ends));
        capitalised(&sentence)
    }

    fn next(&self, language: Language, theme: &Theme, theme_percent: u64, rng: &mut Rng) -> &'static str {
        if !theme.0.is_empty() && rng.percent(theme_percent) { rng.pick(&theme.0) } else { self.word(language, rng) }
    }
}

impl Article {
    /// Returns the lines of the text, from top to bottom.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let gap = if self.language == Language::English { " " } else { "" };
        let head = self.head_line.clone().into_iter().chain([self.time_line.clone()]);
        let body = self.paragraphs.iter().map(move |paragraph| paragraph.join(gap));
        head.chain(body).chain(self.foot_line.clone())
    }

    /// Returns the text as one string, a line each for head, time, every paragraph and foot.
    pub(super) fn text(&self) -> String {
        self.lines().collect::<Vec<_>>().join("\n")
    }

    /// Returns the number of sentences.
    pub(super) fn sentences(&self) -> usize {
        self.paragraphs.iter().map(Vec::len).sum()
    }
}

/// Writes when a page appeared and how many have read it.
pub(super) fn time_line(language: Language, rng: &mut Rng) -> String {
    let (month, day) = (rng.between(1, 12), rng.between(1, 28));
    let (hour, minute, readers) = (rng.below(24), rng.below(60), rng.between(10, 99_999));
    match language {
        Language::Chinese => format!("发布时间：2026-{month:02}-{day:02} {hour:02}:{minute:02}  阅读 {readers}"),
        Language::English => format!("Published 2026-{month:02}-{day:02} {hour:02}:{minute:02}, read {readers} times"),
    }
}

fn number(language: Language, rng: &mut Rng, to: &mut String) {
    let text = match (language, rng.below(4)) {
        (Language::Chinese, 0) => format!("{}年", rng.between(1978, 2026)),
        (Language::Chinese, 1) => format!("{}万元", rng.between(2, 9000)),
        (Language::English, 0) => rng.between(1978, 2026).to_string(),
        (Language::English, 1) => format!("${},{:03}", rng.between(1, 900), rng.below(1000)),
        (_, 2) => format!("{}.{}%", rng.below(100), rng.below(10)),
        _ => rng.between(2, 5000).to_string(),
    };
    to.push_str(&text);
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + letters.as_str(),
        None => String::new(),
    }
}
