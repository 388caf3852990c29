//! Summary of the numbers on a page: equal words with different numbers are different pages.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::counters::is_counter;
use super::dates::{is_numeric_date, is_time, time_after, written_date, written_time};
use crate::fingerprint::PerMille;
use crate::text::{is_han, urls};

/// Marks an empty place: no hash has this value.
const NONE: u16 = u16::MAX;

/// A summary of the numbers of a text: the eight smallest of their 16-bit hashes, ascending. A text with only one
/// number has only the hash of that number.
///
/// A number is a run of digits. Runs with one mark between them (`3.5`, `1,234`, `20-30`) are also a number as a whole,
/// so that a copy without punctuation still has the numbers of the page. Ten or more digits are a telephone number or a
/// licence, and only one number. A Chinese character after a number is its unit and belongs to it: `3月` and `3人` have
/// little to do with each other.
///
/// These are not numbers:
///
/// - Times of day and dates (`3月5日`, `March 5`, `5. März`, `2026-03-05`, `05/03/26`, `14h30`, `UTC+8`): they say when
///   a copy was made, and a report of another day has other numbers, too. But if a page has at least four different
///   written dates, and more dates than other numbers, it is about the dates (the holidays of a year, a timetable). Then
///   each date is a number, unless a time of day follows it.
/// - Hexadecimal ids (UUIDs, hash sums, the request ids of block pages) and IPv4 addresses: each visit has another one.
/// - Counters of readers and their reactions (`阅读 1234`, `56 comments`, `12,4 тыс. просмотров`), the time since
///   something (`3 hours ago`, up to weeks), reading times (`4 min read`), copyright years (`© 2024`), licence numbers of
///   sites and marks of notes (`[12]`): each site puts its own beside a copy.
///
/// The words for dates, times and counters are those of Arabic, Chinese, Czech, Danish, Dutch, English, Finnish, French,
/// German, Hungarian, Indonesian, Italian, Japanese, Korean, Norwegian, Polish, Portuguese, Romanian, Russian, Spanish,
/// Swedish, Turkish, Ukrainian and Vietnamese.
///
/// The smallest hashes sample both sets by the same rule. So the hashes that both kept, below the smaller of both
/// bounds, show how much of the smaller set is in the other one. Up to eight numbers, nothing is lost, except that one
/// pair in 65,535 has equal hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Numbers([u16; Self::KEPT]);

impl Numbers {
    /// The most hashes that are kept of a page.
    pub const KEPT: usize = 8;

    /// If the last hash that is kept of one set is more than this many times that of the other, the other set is surely
    /// larger: of two sets of one size, one pair in two thousand is so far apart by chance.
    const MOST_OF_ONE_SIZE: u16 = 6;

    /// A page with fewer different dates than this is not about dates.
    const MANY_DATES: usize = 4;

    /// A number with this many digits is a telephone number or a licence, and its runs are not numbers of their own.
    const MANY_DIGITS: usize = 10;

    /// The summary of a text without numbers.
    pub const EMPTY: Self = Self([NONE; Self::KEPT]);

    /// Sums up the numbers of a normalised text.
    #[must_use]
    pub(crate) fn of(text: &str) -> Self {
        Self::with(text, std::iter::empty())
    }

    /// Sums up the numbers and web addresses of a normalised text whose content is the addresses. Each address counts
    /// as two numbers, so that one address on each side is evidence.
    #[must_use]
    pub(crate) fn with_urls(text: &str) -> Self {
        Self::with(text, urls(text))
    }

    fn with<'t>(text: &'t str, urls: impl Iterator<Item = &'t str>) -> Self {
        let mut kept = Self::EMPTY;
        let (mut only, mut several, mut digits) = (None, false, String::new());
        let (mut dates, mut numbers) = (Vec::new(), 0_usize);
        each_kind(text, |kind, range| {
            let number = text.get(range.clone()).unwrap_or_default();
            match kind {
                Kind::Time | Kind::Stamp | Kind::Id | Kind::Counter => return,
                Kind::Date => {
                    digits.clear();
                    digits.extend(number.chars().filter(|c| c.is_alphanumeric()));
                    dates.push(hash_of(&digits));
                    return;
                }
                Kind::Number => {}
            }
            numbers += 1;
            digits.clear();
            digits.extend(number.chars().filter(char::is_ascii_digit));
            let unit = unit_after(text, range.end);
            digits.extend(unit);
            let whole = hash_of(&digits);
            several |= *only.get_or_insert(whole) != whole;
            kept.keep(whole);
            if number.bytes().filter(u8::is_ascii_digit).count() >= Self::MANY_DIGITS {
                return;
            }
            let mut runs = number.split(|c: char| !c.is_ascii_digit()).peekable();
            while let Some(run) = runs.next() {
                digits.clear();
                digits.push_str(run);
                digits.extend(unit.filter(|_| runs.peek().is_none()));
                kept.keep(hash_of(&digits));
            }
        });
        for url in urls {
            several = true;
            for place in ["1 ", "2 "] {
                digits.clear();
                digits.extend([place, url]);
                kept.keep(hash_of(&digits));
            }
        }
        dates.sort_unstable();
        dates.dedup();
        if dates.len() >= Self::MANY_DATES && dates.len() > numbers {
            several = true;
            dates.into_iter().for_each(|date| kept.keep(date));
        }
        if several { kept } else { only.and_then(|whole| Self::from_hashes(&[whole])).unwrap_or_default() }
    }

    /// Creates a summary from its [`hashes`](Numbers::hashes). `None` when they do not ascend, or are too many.
    #[must_use]
    pub fn from_hashes(hashes: &[u16]) -> Option<Self> {
        let mut kept = [NONE; Self::KEPT];
        kept.get_mut(..hashes.len())?.copy_from_slice(hashes);
        let ascend = hashes.is_sorted_by(|one, next| one < next) && hashes.last().is_none_or(|last| *last != NONE);
        ascend.then_some(Self(kept))
    }

    /// Returns the hashes that are kept, ascending.
    #[must_use]
    pub fn hashes(&self) -> &[u16] {
        let held = self.0.partition_point(|hash| *hash != NONE);
        self.0.get(..held).unwrap_or_default()
    }

    /// Returns whether nothing is kept.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        let [first, ..] = self.0;
        first == NONE
    }

    /// Returns the share of the smaller set of numbers that is in the other one, as far as the summaries show. Returns
    /// `None` if fewer than two numbers of a set can be compared, unless that set has only one number and the other has
    /// several: two single numbers that differ say nothing, but one and several others do.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<PerMille> {
        let bound = self.bound().min(other.bound());
        let [ours, theirs] = [self, other].map(|set| set.0.partition_point(|hash| *hash <= bound));
        let (least, most) = (ours.min(theirs), ours.max(theirs));
        let one_of_one = least == 1 && self.hashes().len().min(other.hashes().len()) == 1;
        let shared = self.0.iter().filter(|hash| **hash <= bound && other.0.binary_search(hash).is_ok()).count();
        let are_full = [self, other].into_iter().all(|set| set.hashes().len() == Self::KEPT);
        let widest = self.bound().max(other.bound());
        let are_of_one_size = widest / Self::MOST_OF_ONE_SIZE <= bound;
        if are_full && are_of_one_size && least < Self::KEPT / 2 && shared < least.max(1) && most >= Self::KEPT / 2 {
            // Most of the hashes kept of one set lie below nearly all of the other and are not in it. The few that can
            // be compared say little: among many pages of one template, some agree by chance.
            return Some(PerMille::ZERO);
        }
        if least < 2 && !(one_of_one && most > 1) {
            return None;
        }
        Some(PerMille::of(shared as u64, least as u64))
    }

    /// Returns whether two pages have different numbers: less than `least` of the smaller set is in the other.
    #[must_use]
    pub(crate) fn differ(&self, other: &Self, least: PerMille) -> bool {
        !self.is_empty() && self.overlap(other).is_some_and(|shared| shared < least)
    }

    /// Returns the hash up to which, inclusive, the whole set is kept.
    const fn bound(&self) -> u16 {
        let [.., last] = self.0;
        if last == NONE { NONE - 1 } else { last }
    }

    fn keep(&mut self, mut hash: u16) {
        if let Err(at) = self.0.binary_search(&hash) {
            // Shift the rest up; the last one drops out.
            self.0.iter_mut().skip(at).for_each(|held| std::mem::swap(held, &mut hash));
        }
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl std::fmt::Debug for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Numbers({:04x?})", self.hashes())
    }
}

fn hash_of(number: &str) -> u16 {
    let [high, low, ..] = xxh3_64(number.as_bytes()).to_be_bytes();
    u16::from_be_bytes([high, low]).min(NONE - 1)
}

/// Returns the Chinese character that follows a number ending at `end`, without the marks and spaces between them.
fn unit_after(text: &str, end: usize) -> Option<char> {
    text.get(end..)?.chars().find(|c| c.is_alphanumeric()).filter(|c| is_han(*c))
}

/// Returns the letters and digits of a title, without dates, times and counters. In a title, numbers in brackets are
/// counters, too. A chapter number at its beginning (`4.5. Installing`) is left out, because the next edition has
/// another one.
pub(super) fn without_counters(title: &str) -> String {
    let mut kept = String::new();
    let mut at = 0;
    let mut keep =
        |part: Option<&str>| kept.extend(part.into_iter().flat_map(str::chars).filter(|c| c.is_alphanumeric()));
    each_kind(title, |kind, range| {
        let is_kept = match kind {
            Kind::Number => !is_bracketed(title, &range) && !is_outline(title, &range),
            Kind::Id => true,
            Kind::Date | Kind::Stamp | Kind::Time | Kind::Counter => false,
        };
        if !is_kept {
            keep(title.get(at..range.start));
            at = range.end;
        }
    });
    keep(title.get(at..));
    kept
}

/// Returns whether a number is a chapter number at the beginning of a title: `4.5. `, `d.4. `.
fn is_outline(title: &str, range: &Range<usize>) -> bool {
    let before = title.get(..range.start).unwrap_or_default();
    let is_first = before.strip_suffix('.').map_or(before.is_empty(), |letter| letter.chars().count() == 1);
    is_first && title.get(range.end..).is_some_and(|after| after.starts_with(". "))
}

fn is_bracketed(text: &str, range: &Range<usize>) -> bool {
    matches!(around(text, range), (Some('(' | '（'), Some(')' | '）')) | (Some('[' | '【'), Some(']' | '】')))
}

/// Returns the characters before and after a number.
fn around(text: &str, range: &Range<usize>) -> (Option<char>, Option<char>) {
    let before = text.get(..range.start).and_then(|before| before.chars().next_back());
    (before, text.get(range.end..).and_then(|after| after.chars().next()))
}

/// Returns whether a number is the mark of a note or a reference: `[12]`. Copies are often without them.
fn is_note_mark(text: &str, range: &Range<usize>) -> bool {
    let is_digits = |mark: &str| mark.bytes().all(|byte| byte.is_ascii_digit());
    range.len() <= 3 && text.get(range.clone()).is_some_and(is_digits) && around(text, range) == (Some('['), Some(']'))
}

/// What a number in a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number.
    Number,
    /// A date in words: `3月5日`, `march 5, 2026`.
    Date,
    /// A date in numbers, or one right before a time of day.
    Stamp,
    /// A time of day.
    Time,
    /// An id in hexadecimal digits, or an IPv4 address.
    Id,
    /// A count of readers or their reactions (`阅读 1234`, `56 comments`), or the licence of a site.
    Counter,
}

/// Visits everything that is written in digits, in order, including repeats.
pub(super) fn each_kind(text: &str, mut each: impl FnMut(Kind, Range<usize>)) {
    let (mut at, mut no_id_to) = (0, 0);
    while let Some(range) = next_number(text, at) {
        let number = text.get(range.clone()).unwrap_or_default();
        let token = (range.start >= no_id_to).then(|| hexadecimal_token(text, at, range.start));
        no_id_to = token.as_ref().map_or(no_id_to, |token| token.end);
        let id = token.filter(|token| is_id(text, token)).or_else(|| is_ipv4(number).then(|| range.clone()));
        let (kind, range) = if let Some(id) = id {
            (Kind::Id, range.start..id.end.max(range.end))
        } else if is_time(number) {
            (Kind::Time, range)
        } else if let Some(time) = written_time(text, at, &range) {
            (Kind::Time, time)
        } else if is_numeric_date(number) {
            (Kind::Stamp, range)
        } else if let Some(date) = written_date(text, at, range.start) {
            (if time_after(text, date.end) { Kind::Stamp } else { Kind::Date }, date)
        } else if is_counter(text, &range) || is_note_mark(text, &range) {
            (Kind::Counter, range)
        } else {
            (Kind::Number, range)
        };
        at = range.end;
        each(kind, range);
    }
}

/// The fewest hexadecimal digits of an id.
const MIN_ID_DIGITS: usize = 12;

/// Returns the hexadecimal digits around `place`, with dots and hyphens between them, but nothing before `from`.
fn hexadecimal_token(text: &str, from: usize, place: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let is_mark = |at: usize| bytes.get(at).is_some_and(|byte| matches!(byte, b'.' | b'-'));
    let (mut start, mut end) = (place, place);
    while start > from && (is_digit(start - 1) || (is_mark(start - 1) && start > from + 1 && is_digit(start - 2))) {
        start -= 1;
    }
    while is_digit(end) || (is_mark(end) && is_digit(end + 1)) {
        end += 1;
    }
    start..end
}

/// Returns whether hexadecimal digits are an id: there are enough of them, letters and digits alternate, and no letter
/// or digit is beside them.
fn is_id(text: &str, token: &Range<usize>) -> bool {
    let bytes = text.as_bytes();
    let is_letter = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    let digits = bytes.get(token.clone()).unwrap_or_default().iter().filter(|byte| byte.is_ascii_hexdigit());
    let turns = digits.clone().zip(digits.clone().skip(1));
    let turns = turns.filter(|(one, next)| one.is_ascii_digit() != next.is_ascii_digit()).count();
    digits.count() >= MIN_ID_DIGITS
        && turns >= 2
        && !is_letter(token.start.checked_sub(1))
        && !is_letter(Some(token.end))
}

fn is_ipv4(number: &str) -> bool {
    number.split('.').count() == 4 && number.split('.').all(|part| part.len() <= 3 && part.parse::<u8>().is_ok())
}

/// Visits every number of a text, without dates, times, ids and counters.
pub(super) fn each_number<'t>(text: &'t str, mut each: impl FnMut(&'t str)) {
    each_kind(text, |kind, range| {
        if kind == Kind::Number {
            each(text.get(range).unwrap_or_default());
        }
    });
}

/// Returns every number of a text, as [`each_number`] visits them.
#[cfg(test)]
pub(super) fn numbers_in(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    each_number(text, |number| found.push(number));
    found
}

/// Returns the ranges of the dates in a text, in order.
#[must_use]
pub fn dates(text: &str) -> Vec<Range<usize>> {
    let mut dates = Vec::new();
    each_kind(text, |kind, range| {
        if matches!(kind, Kind::Date | Kind::Stamp) {
            dates.push(range);
        }
    });
    dates
}

/// Finds the first number at or after `from`: runs of digits with a single mark between each two.
fn next_number(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let start = from + bytes.get(from..)?.iter().position(u8::is_ascii_digit)?;
    let mut end = start;
    loop {
        while is_digit(end) {
            end += 1;
        }
        let mark = text.get(end..).and_then(|rest| rest.chars().next());
        match mark.filter(|c| !c.is_alphanumeric() && !c.is_whitespace()) {
            Some(mark) if is_digit(end + mark.len_utf8()) => end += mark.len_utf8(),
            _ => return Some(start..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_telephone_number_is_one_number() {
        assert_eq!(Numbers::of("call 0755-12345678, 7 days").hashes().len(), 2);
        assert_eq!(Numbers::of("from 20-30 to 1,234").hashes().len(), 6);
        let page = |telephone: &str| Numbers::of(&format!("12 of 40 rooms, {telephone}"));
        assert!(!page("0755-12345678").differ(&page("0211-87654321"), PerMille(500)));
    }

    #[test]
    fn a_title_is_its_letters_and_digits_without_counters_and_dates() {
        for (title, expected) in [
            ("red shoe, size 42 - the shop", "redshoesize42theshop"),
            ("(3) inbox – 2026-03-05", "inbox"),
            ("inbox [12]", "inbox"),
            ("django 1.3.6 release notes", "django136releasenotes"),
            ("繁体字 第2页", "繁体字第2页"),
            ("1,234 views - a film", "viewsafilm"),
            ("today, march 5: a story", "todayastory"),
            ("4.5. installing", "installing"),
            ("d.4. ppp over ethernet", "dpppoverethernet"),
            ("1.3.6 release", "136release"),
            ("part 4. the end", "part4theend"),
        ] {
            assert_eq!(without_counters(title), expected, "{title}");
        }
    }

    #[test]
    fn a_number_goes_on_over_one_mark_between_digits() {
        assert_eq!(numbers_in("up 3.5% to 1,234 points, 20-30 a day、10、20。"), ["3.5", "1,234", "20-30", "10、20"]);
        assert_eq!(numbers_in("covid19 and b2b: 5--6, 7 8"), ["19", "2", "5", "6", "7", "8"]);
        assert_eq!(numbers_in("none"), [""; 0]);
    }

    #[test]
    fn times_and_dates_are_none() {
        let nothing = [
            "12:30",
            "8:05:59",
            "2026-11-21 08:05",
            "2026/1/2",
            "2026.11.21",
            "21.11.2026",
            "11/21/2026",
            "2026年11月21日 12:30",
            "2026年11月21日12:30",
            "11月21号 12:30",
            "3月5日",
            "新华社北京5日电",
        ];
        for text in nothing {
            assert_eq!(numbers_in(text), [""; 0], "{text}");
        }
        assert_eq!(numbers_in("2026年11月21日 得票 12345"), ["12345"]);
        assert_eq!(numbers_in("5 of 11月21日 12:30, 7"), ["5", "7"]);
        assert_eq!(numbers_in("1年2月3日4 12:30"), ["1", "4"]);
        assert_eq!(
            numbers_in("25:21, 12:75, 12:30-13:45, 2026-13-01"),
            ["25:21", "12:75", "12:30-13:45", "2026-13-01"]
        );
    }

    #[test]
    fn ids_and_addresses_are_none() {
        for text in [
            "reference #18.2b85a437.1794379170.403afee",
            "ray id: 8d3f2a1b4c5d6e7f",
            "uuid 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "编号3f2504e04f8911d3，",
            "your ip: 203.0.113.7",
        ] {
            assert_eq!(numbers_in(text), [""; 0], "{text}");
        }
        assert_eq!(numbers_in("1794379170123456 of 4k, 5kg at 1.2.3"), ["1794379170123456", "4", "5", "1.2.3"]);
        assert_eq!(
            numbers_in("z3f2504e04f8911d3 3f2504e04f8911d3g"),
            ["3", "2504", "04", "8911", "3", "3", "2504", "04", "8911", "3"]
        );
        assert_eq!(numbers_in("id 3f2504e04f8911d3, then 7"), ["7"]);
        let long = "1a".repeat(1_000_000) + "z";
        assert_eq!(numbers_in(&long).len(), 1_000_000);
    }

    #[test]
    fn a_copy_with_another_date_has_the_same_numbers() {
        for (text, copy) in [
            ("3月5日，3人受伤，5人失踪。", "2026年4月16日，3人受伤，5人失踪。"),
            ("march 5: 3 hurt, 5 missing", "16 april 2026: 3 hurt, 5 missing"),
            ("2026-03-05 3 hurt, 5 missing", "5/4/2026 3 hurt, 5 missing"),
        ] {
            assert_eq!(Numbers::of(text), Numbers::of(copy), "{text}");
        }
        assert!(Numbers::of("北京3月5日电").is_empty());
    }

    #[test]
    fn where_there_are_mostly_dates_they_are_the_numbers() {
        let holidays = |dates: [&str; 4]| {
            let [one, two, three, four] = dates;
            Numbers::of(&format!(
                "元旦：{one}放假，共1天。春节：{two}起放假。清明节：{three}放假。端午节：{four}放假。"
            ))
        };
        let year = holidays(["1月1日", "2月17日", "4月5日", "6月19日"]);
        assert!(year.differ(&holidays(["1月1日", "2月6日", "4月4日", "6月9日"]), PerMille(500)));
        assert!(!year.differ(&holidays(["1月1日", "2月17日", "4月5日", "6月9日"]), PerMille(500)));
        let stamped = "a 3月5日 12:30 b 3月6日 12:30 c 3月7日 12:30 d 3月8日 12:30 e 3月9日 12:30";
        assert!(Numbers::of(stamped).is_empty(), "when somebody wrote is not what a page is about");
    }

    #[test]
    fn the_same_words_with_other_numbers_differ() {
        let of = |text: &str| Numbers::of(text);
        let monday = of("今日最高气温21度，风力3级，降水概率40%");
        assert_eq!(monday.overlap(&monday), Some(PerMille::ONE));
        assert!(monday.differ(&of("今日最高气温28度，风力5级，降水概率10%"), PerMille(500)));
        assert!(
            !monday.differ(&of("今日最高气温21度，风力3级，降水概率10%"), PerMille(500)),
            "two of three are the same"
        );
        assert!(!of("3人受伤，5人失踪").differ(&of("3人受伤"), PerMille(1000)), "it is one of both");
        let one = of("【10万元移民】10万瑞典克朗（约10万元）");
        assert_eq!(one.hashes().len(), 1);
        assert!(one.differ(&of("【21万元移民】65万瑞典克朗（约96万元）"), PerMille(1)));
        assert!(!one.differ(&of("【21万元移民】21万瑞典克朗（约21万元）"), PerMille(1000)), "one and one say nothing");
        assert_eq!(of("涨幅3.5%").hashes(), of("涨幅35%").hashes(), "one number, however it is written");
    }

    #[test]
    fn web_addresses_are_numbers_where_they_are_what_a_page_says() {
        let of = Numbers::with_urls;
        let one = of("new post: https://a.example/x");
        assert!(one.differ(&of("new post: https://a.example/y"), PerMille(500)));
        assert!(!one.differ(&of("our new post https://a.example/x"), PerMille(1000)));
        assert_eq!(Numbers::of("new post: https://a.example/x"), Numbers::EMPTY);
        assert_eq!(of("3 hurt, 5 missing"), Numbers::of("3 hurt, 5 missing"));
    }

    #[test]
    fn a_unit_belongs_to_its_number_and_marks_do_not() {
        let whole = Numbers::of("3月5日，涨幅3.5亿元，共1,200家；比分10、20。");
        assert_eq!(Numbers::of("3月降水5毫米").overlap(&Numbers::of("3人5次")), Some(PerMille::ZERO), "other units");
        for copy in ["3月5日涨幅35亿元共1200家比分1020", "3月5日 涨幅3 5亿元 共1 200家 比分10 20 "]
        {
            assert!(
                !whole.differ(&Numbers::of(copy), PerMille(500)),
                "{copy}: {:?}",
                whole.overlap(&Numbers::of(copy))
            );
        }
    }

    /// The page has many more numbers than its copy: a table beside the article.
    #[test]
    fn a_much_larger_set_of_which_little_can_be_compared_says_nothing() {
        let few = Numbers::from_hashes(&[9_000, 15_000, 21_000, 30_000, 38_000, 46_000, 55_000, 60_000]).unwrap();
        let many = Numbers::from_hashes(&[100, 900, 1_700, 2_500, 4_000, 5_500, 6_000, 8_000]).unwrap();
        assert_eq!(few.overlap(&many), None);
        // Of one size, the same shows that hardly anything is equal.
        let others = Numbers::from_hashes(&[100, 900, 1_700, 2_500, 9_500, 15_500, 16_000, 18_000]).unwrap();
        assert_eq!(few.overlap(&others), Some(PerMille::ZERO));
    }

    #[test]
    fn hashes_that_do_not_ascend_are_no_summary() {
        assert_eq!(Numbers::from_hashes(&[]), Some(Numbers::EMPTY));
        assert!(Numbers::from_hashes(&[1, 2, 3, 4, 5, 6, 7, 65_534]).is_some());
        assert_eq!(Numbers::from_hashes(&[2, 1]), None);
        assert_eq!(Numbers::from_hashes(&[1, 1]), None);
        assert_eq!(Numbers::from_hashes(&[1, NONE]), None);
        assert_eq!(Numbers::from_hashes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), None);
    }

    /// Sums up hashes as they come.
    fn kept(hashes: impl IntoIterator<Item = u16>) -> Numbers {
        let mut kept = Numbers::EMPTY;
        hashes.into_iter().for_each(|hash| kept.keep(hash));
        kept
    }

    proptest! {
        #[test]
        fn the_eight_smallest_are_kept(hashes in prop::collection::vec(0..200_u16, 0..40)) {
            let smallest: Vec<u16> = hashes.iter().copied().collect::<BTreeSet<u16>>().into_iter().take(8).collect();
            let kept = kept(hashes);
            prop_assert_eq!(kept.hashes(), &smallest);
            prop_assert_eq!(Numbers::from_hashes(&smallest), Some(kept));
            prop_assert_eq!(kept.is_empty(), smallest.is_empty());
        }

        /// Up to eight numbers a summary is the set itself.
        #[test]
        fn of_few_numbers_the_overlap_is_exact(one in prop::collection::btree_set(0..20_u16, 0..8),
                                               other in prop::collection::btree_set(0..20_u16, 0..8)) {
            let fewer = one.len().min(other.len());
            let tells = fewer > 1 || fewer == 1 && one.len().max(other.len()) > 1;
            let expected = tells.then(|| PerMille(u16::try_from(one.intersection(&other).count() * 1000 / fewer).unwrap()));
            let [a, b] = [&one, &other].map(|set| kept(set.iter().copied()));
            prop_assert_eq!(a.overlap(&b), expected);
            prop_assert_eq!(b.overlap(&a), expected);
        }

        /// Beyond that, only what both would have kept is compared: of a set within another one nothing is missed.
        #[test]
        fn a_part_of_a_page_never_has_other_numbers(all in prop::collection::btree_set(0..5000_u16, 0..60), part in 0..60_usize) {
            let some = kept(all.iter().copied().enumerate().filter(|(number, _)| number % 7 != part % 7).map(|(_, hash)| hash));
            prop_assert!(kept(all).overlap(&some).is_none_or(|shared| shared == PerMille(1000)));
        }

        #[test]
        fn any_text_is_read(text in ".{0,40}", more in "[0-9年月日号:. -]{0,30}") {
            for text in [&text, &more] {
                let numbers = Numbers::of(text);
                prop_assert!(Numbers::from_hashes(numbers.hashes()) == Some(numbers));
                prop_assert!(numbers_in(text).iter().all(|number| number.starts_with(|c: char| c.is_ascii_digit())));
            }
        }
    }
}
