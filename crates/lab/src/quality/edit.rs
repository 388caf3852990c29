//! What re-publishers do to a text of any origin.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::crawl::{self, Rng};
use dupgate_core::fingerprint::dates;
use dupgate_core::text::{is_han, simplified};

/// A kind of edit. The first eleven leave a duplicate, and so do other dates; other numbers and a second article do
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edit {
    /// A line before the text and one after it.
    HeadAndFoot,
    /// A line with time, source and number of readers.
    TimeStamp,
    /// Cut off after 60 to 85 % of the text.
    Truncated,
    /// The second half first.
    HalvesSwapped,
    /// Chinese in traditional characters, other text in capitals.
    Script,
    /// 2 % of the letters wrong.
    Typos2,
    /// 5 % of the letters wrong.
    Typos5,
    /// No punctuation.
    NoPunctuation,
    /// A fifth of the sentences left out.
    SentencesDeleted,
    /// A fifth as much again added, from another text.
    SentencesInserted,
    /// The navigation of a site around the text.
    Navigation,
    /// Every digit another one: the same template with other numbers. No duplicate.
    DigitsChanged,
    /// Every date another one, as when a page is published again. Not of a text with four different dates or more:
    /// that is a timetable, which other dates make another one.
    DatesChanged,
    /// Two articles in one page: both are contained in it, the page is more.
    Joined,
    /// The unknown edit of a pair that was found and labelled by others.
    Found,
}

impl Edit {
    /// The edits after which a page is a duplicate.
    pub const DUPLICATES: [Self; 11] = [
        Self::HeadAndFoot,
        Self::TimeStamp,
        Self::Truncated,
        Self::HalvesSwapped,
        Self::Script,
        Self::Typos2,
        Self::Typos5,
        Self::NoPunctuation,
        Self::SentencesDeleted,
        Self::SentencesInserted,
        Self::Navigation,
    ];

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeadAndFoot => "head_and_foot",
            Self::TimeStamp => "time_stamp",
            Self::Truncated => "truncated",
            Self::HalvesSwapped => "halves_swapped",
            Self::Script => "script",
            Self::Typos2 => "typos_2",
            Self::Typos5 => "typos_5",
            Self::NoPunctuation => "no_punctuation",
            Self::SentencesDeleted => "sentences_deleted",
            Self::SentencesInserted => "sentences_inserted",
            Self::Navigation => "navigation",
            Self::DigitsChanged => "digits_changed",
            Self::DatesChanged => "dates_changed",
            Self::Joined => "joined",
            Self::Found => "found",
        }
    }

    /// Edits a text; `strange` is one that has nothing to do with it. `None` when this text cannot be edited so: one
    /// sentence has none to lose, a text without digits has none to change.
    pub(super) fn apply(self, text: &str, strange: &str, rng: &mut Rng) -> Option<String> {
        let edited = match self {
            Self::HeadAndFoot => head_and_foot(text, rng),
            Self::TimeStamp => format!("{}\n{text}", time_line(text, rng)),
            Self::Truncated => {
                let letters = text.chars().count() * usize::try_from(rng.between(60, 85)).unwrap_or(60) / 100;
                text.chars().take(letters).collect()
            }
            Self::HalvesSwapped => {
                let pieces = pieces(text);
                let (first, second) = pieces.split_at_checked(pieces.len() / 2)?;
                [second.concat(), first.concat()].join(gap(text))
            }
            Self::Script if is_chinese(text) => text.chars().map(traditional).collect(),
            Self::Script => text.to_uppercase(),
            Self::Typos2 => typos(text, strange, 20, rng),
            Self::Typos5 => typos(text, strange, 50, rng),
            Self::NoPunctuation => text.chars().filter(|c| c.is_alphanumeric() || c.is_whitespace()).collect(),
            Self::SentencesDeleted => delete(text, rng)?,
            Self::SentencesInserted => insert(text, strange, rng),
            Self::Navigation => navigation(text, rng),
            Self::DigitsChanged => {
                let of_dates: usize = dates(text).into_iter().filter_map(|date| text.get(date)).map(digits).sum();
                if digits(text) < of_dates + 6 {
                    return None;
                }
                text.chars().map(|c| if c.is_ascii_digit() { other_digit(c, rng) } else { c }).collect()
            }
            Self::DatesChanged => redate(text, rng)?,
            Self::Joined => format!("{text}\n{strange}"),
            Self::Found => return None,
        };
        (edited != text).then_some(edited)
    }
}

/// Returns a traditional form of a character: the common one where the crawl's table has it, else the first of those
/// that are simplified to it, be it a rare one; itself when there is none.
fn traditional(c: char) -> char {
    static FORMS: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
        let mut forms = HashMap::new();
        for form in '\u{4e00}'..='\u{9fa5}' {
            let plain = simplified(form);
            if plain != form {
                forms.entry(plain).or_insert(form);
            }
        }
        forms
    });
    let common = crawl::traditional(c);
    if common == c { FORMS.get(&c).copied().unwrap_or(c) } else { common }
}

pub(super) fn is_chinese(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    let (han, other): (Vec<char>, Vec<char>) = letters.partition(|c| is_han(*c));
    han.len() * 2 > other.len()
}

fn gap(text: &str) -> &'static str {
    if is_chinese(text) { "" } else { " " }
}

/// Cuts a text into sentences; one of few sentences into clauses. Together the pieces are the text.
fn pieces(text: &str) -> Vec<&str> {
    let sentences = cut(text, &['。', '！', '？', '!', '?', '\n', '.']);
    if sentences.len() < 5 {
        cut(text, &['。', '！', '？', '!', '?', '\n', '.', '，', ',', '、', '；', ';', ' '])
    } else {
        sentences
    }
}

/// Cuts after the marks; a point only where a space follows.
fn cut<'t>(text: &'t str, marks: &[char]) -> Vec<&'t str> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        let ends = marks.contains(&c) && (c != '.' || letters.peek().is_none_or(|(_, next)| next.is_whitespace()));
        let end = at + c.len_utf8();
        if ends && let Some(piece) = text.get(from..end) {
            pieces.push(piece);
            from = end;
        }
    }
    pieces.extend(text.get(from..).filter(|rest| !rest.is_empty()));
    pieces
}

fn typos(text: &str, strange: &str, per_mille: u64, rng: &mut Rng) -> String {
    let letters: Vec<char> = strange.chars().filter(|c| c.is_alphabetic()).collect();
    let replace = |c: char| {
        let wrong = c.is_alphabetic() && rng.below(1000) < per_mille;
        if wrong { letters.get(rng.index(letters.len())).copied().unwrap_or(c) } else { c }
    };
    text.chars().map(replace).collect()
}

/// Leaves out a fifth of the pieces, one at least.
fn delete(text: &str, rng: &mut Rng) -> Option<String> {
    let mut pieces = pieces(text);
    if pieces.len() < 4 {
        return None;
    }
    for _ in 0..(pieces.len() / 5).max(1) {
        pieces.remove(rng.index(pieces.len()));
    }
    Some(pieces.concat())
}

/// Adds pieces of another text until there is a fifth more.
fn insert(text: &str, strange: &str, rng: &mut Rng) -> String {
    let mut wanted = text.chars().count() / 5;
    let mut pieces = pieces(text);
    let added = cut(strange, &['。', '！', '？', '!', '?', '\n', '.', '，', ',', '；', ';']);
    let first = rng.index(added.len());
    for piece in added.iter().cycle().skip(first).take(added.len()) {
        let length = piece.chars().count();
        if length > wanted {
            break;
        }
        wanted -= length;
        pieces.insert(rng.index(pieces.len() + 1), piece);
    }
    pieces.concat()
}

fn digits(text: &str) -> usize {
    text.chars().filter(char::is_ascii_digit).count()
}

/// Gives the dates of a text another day and month; the year stays.
fn redate(text: &str, rng: &mut Rng) -> Option<String> {
    const TIMETABLE: usize = 4;
    let dates = dates(text);
    let different: HashSet<&str> = dates.iter().filter_map(|date| text.get(date.clone())).collect();
    if different.is_empty() || different.len() >= TIMETABLE {
        return None;
    }
    let mut redated = String::with_capacity(text.len());
    let mut at = 0;
    for date in dates {
        redated.push_str(text.get(at..date.start)?);
        at = date.end;
        for number in text.get(date)?.split_inclusive(|c: char| !c.is_ascii_digit()) {
            let written = number.trim_end_matches(|c: char| !c.is_ascii_digit());
            match written.parse::<u64>() {
                Ok(old) if written.len() < 4 => {
                    // Up to twelve it is a day as well as a month.
                    let new = 1 + (old + rng.below(11)) % 12;
                    // Writing to a `String` cannot fail.
                    let _ = write!(redated, "{new:0width$}", width = written.len());
                }
                Ok(_) | Err(_) => redated.push_str(written),
            }
            redated.push_str(number.get(written.len()..)?);
        }
    }
    redated.push_str(text.get(at..)?);
    Some(redated)
}

fn other_digit(digit: char, rng: &mut Rng) -> char {
    let value = u64::from(digit.to_digit(10).unwrap_or(0));
    let other = (value + rng.between(1, 9)) % 10;
    u32::try_from(other).ok().and_then(|other| char::from_digit(other, 10)).unwrap_or(digit)
}

fn head_and_foot(text: &str, rng: &mut Rng) -> String {
    let (head, foot) = if is_chinese(text) {
        let head = rng.pick(&["【本网快讯】", "转载：", "来源：某某日报", "编者按：以下内容来自网络", "热点关注"]);
        let foot =
            rng.pick(&["责任编辑：小王", "版权所有，转载请注明出处", "本文不代表本站观点", "（完）", "点击查看更多"]);
        (format!("{head}{}", rng.between(1, 999)), foot)
    } else {
        let head = rng.pick(&["Daily briefing", "Reprinted from the wire", "News in short", "From our partners"]);
        let foot =
            rng.pick(&["All rights reserved.", "Read more on our site.", "The views are the author's own.", "(END)"]);
        (format!("{head}, no. {}", rng.between(1, 999)), foot)
    };
    format!("{head}\n{text}\n{foot}")
}

fn time_line(text: &str, rng: &mut Rng) -> String {
    let (month, day, hour, minute) = (rng.between(1, 12), rng.between(1, 28), rng.below(24), rng.below(60));
    let readers = rng.between(10, 99_999);
    if is_chinese(text) {
        format!("2026年{month}月{day}日 {hour:02}:{minute:02} 阅读 {readers}")
    } else {
        format!("2026-{month:02}-{day:02} {hour:02}:{minute:02}, {readers} views")
    }
}

fn navigation(text: &str, rng: &mut Rng) -> String {
    const ZH: [&str; 16] = [
        "首页",
        "新闻",
        "体育",
        "财经",
        "娱乐",
        "科技",
        "汽车",
        "房产",
        "教育",
        "健康",
        "图片",
        "视频",
        "登录",
        "注册",
        "更多",
        "返回顶部",
    ];
    const EN: [&str; 16] = [
        "Home", "News", "Sport", "Business", "Culture", "Science", "Travel", "Weather", "Opinion", "Video", "Jobs",
        "Log in", "Register", "Contact", "More", "Search",
    ];
    let (items, foot) = if is_chinese(text) {
        (ZH, rng.pick(&["关于我们 | 联系我们 | 版权声明", "上一篇 下一篇 分享到微博", "网站地图 | 意见反馈"]))
    } else {
        (EN, rng.pick(&["About us | Contact | Privacy", "Previous | Next | Share this", "Site map | Terms of use"]))
    };
    let bar: Vec<&str> = (0..rng.between(6, 10)).map(|_| rng.pick(&items)).collect();
    format!("{}\n{text}\n{foot}", bar.join(" "))
}
