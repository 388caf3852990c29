//! Dates and times of day in a text: `3月5日`, `March 5, 2026`, `2026-03-05`, `8:05`.

use std::ops::Range;

/// The months in English. Their first three or four letters are enough.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// `8:05`, `08:05:59`.
pub(super) fn is_time(number: &str) -> bool {
    let mut parts = number.split(':');
    let mut part = |most: u32| parts.next().is_some_and(|part| is_number(part, 2, most));
    let (hours, minutes) = (part(24), part(59));
    hours && minutes && parts.next().is_none_or(|seconds| is_number(seconds, 2, 59)) && parts.next().is_none()
}

/// `2026-11-21`, `2026/11/21`, `2026.11.21`; `21.11.2026`, `11/21/2026`.
pub(super) fn is_numeric_date(number: &str) -> bool {
    ['-', '/', '.'].into_iter().any(|mark| {
        let mut parts = number.split(mark);
        let (Some(first), Some(second), Some(third), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let (month, day) = (is_month_number, is_day);
        let ends_in_year = is_year(third) && (month(first) && day(second) || day(first) && month(second));
        first.len() == 4 && is_number(first, 4, 9999) && month(second) && day(third) || ends_in_year
    })
}

fn is_number(part: &str, digits: usize, most: u32) -> bool {
    part.len() <= digits && part.parse::<u32>().is_ok_and(|number| number <= most)
}

fn is_month_number(part: &str) -> bool {
    is_number(part, 2, 12)
}

fn is_day(part: &str) -> bool {
    is_number(part, 2, 31)
}

fn is_year(part: &str) -> bool {
    part.len() == 4 && part.parse::<u32>().is_ok_and(|year| (1900..2200).contains(&year))
}

/// Returns whether a time of day follows a place, with nothing but spaces in between.
pub(super) fn time_after(text: &str, place: usize) -> bool {
    let rest = text.get(place..).unwrap_or_default().trim_start();
    let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b':').count();
    rest.get(..length).is_some_and(is_time)
}

/// Finds the date whose first number begins at `at`. A month may precede the number, but not before `from`.
pub(super) fn written_date(text: &str, from: usize, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let before = text.get(from..at)?;
    if let Some(length) = chinese(rest) {
        return Some(at..at + length);
    }
    let day = day(rest)?;
    let after = rest.get(day..)?;
    if let Some(month) = month_before(before) {
        return (!begins_word(after)).then(|| from + month..at + day + year_after(after));
    }
    let spaces = after.len() - after.trim_start_matches([' ', '-']).len();
    let after = after.get(spaces..).map(|after| after.strip_prefix("of ").unwrap_or(after))?;
    let month = month_at(after).filter(|_| spaces > 0)?;
    let skipped = rest.len() - after.len() + month;
    Some(at..at + skipped + year_after(rest.get(skipped..)?))
}

/// Reads `[2026年]3月5日`, `2026年3月`, `3月5至8日`, `5日`. Returns its length.
fn chinese(text: &str) -> Option<usize> {
    // Reads a number that fits, followed by one of the marks.
    let unit = |text: &str, fits: &dyn Fn(&str) -> bool, marks: &[char]| {
        let (digits, rest) = number(text)?;
        let spaces = rest.len() - rest.trim_start().len();
        let mark = rest.trim_start().chars().next().filter(|mark| marks.contains(mark))?;
        fits(digits).then(|| digits.len() + spaces + mark.len_utf8())
    };
    let spaces =
        |text: &str, length: usize| text.get(length..).map_or(length, |rest| text.len() - rest.trim_start().len());
    let day = |text: &str| {
        let alone = unit(text, &is_day, &['日', '号', '號']);
        alone.or_else(|| {
            let (first, rest) = number(text).filter(|(first, _)| is_day(first))?;
            let mark = rest.chars().next().filter(|mark| matches!(mark, '-' | '~' | '至' | '到' | '、'))?;
            let after = first.len() + mark.len_utf8();
            unit(text.get(after..)?, &is_day, &['日', '号', '號']).map(|length| after + length)
        })
    };
    let month = |text: &str| unit(text, &is_month_number, &['月']);
    if let Some(year) = unit(text, &is_year, &['年']) {
        let year = spaces(text, year);
        let month = year + month(text.get(year..)?)?;
        let before_day = spaces(text, month);
        return Some(day(text.get(before_day..)?).map_or(month, |day| before_day + day));
    }
    if let Some(month) = month(text) {
        let before_day = spaces(text, month);
        return day(text.get(before_day..)?).map(|day| before_day + day);
    }
    // `5日` alone, unless it is an amount of yen or a five-day average.
    let alone = unit(text, &is_day, &['日'])?;
    (!text.get(alone..)?.starts_with(['元', '圆', '均', '线'])).then_some(alone)
}

/// Cuts off the number that a text begins with.
fn number(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits).filter(|_| digits > 0)
}

/// Reads `5`, `05`, `5th`. Returns the length.
fn day(text: &str) -> Option<usize> {
    let (digits, rest) = number(text)?;
    let ordinal = ["st", "nd", "rd", "th"].iter().find(|end| rest.starts_with(**end));
    let ordinal = ordinal.filter(|end| !rest.get(end.len()..).is_some_and(begins_word)).map_or(0, |end| end.len());
    (is_number(digits, 2, 31) && digits != "0").then_some(digits.len() + ordinal)
}

fn begins_word(text: &str) -> bool {
    text.chars().next().is_some_and(char::is_alphanumeric)
}

/// Finds a month, followed by spaces, at the end of a text. Returns its offset.
fn month_before(text: &str) -> Option<usize> {
    let word_end = text.trim_end_matches(' ');
    if word_end.len() == text.len() {
        return None;
    }
    let word_end = word_end.strip_suffix('.').unwrap_or(word_end);
    let (start, _) = word_end.char_indices().rev().take_while(|(_, c)| c.is_alphabetic()).last()?;
    word_end.get(start..).is_some_and(is_month).then_some(start)
}

/// Returns the length of the month that a text begins with.
fn month_at(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    text.get(..length).filter(|word| is_month(word)).map(str::len)
}

fn is_month(word: &str) -> bool {
    let begins = |month: &str| month.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    let short = |month: &str| matches!(word.len(), 3 | 4) && begins(month);
    MONTHS.iter().any(|month| month.eq_ignore_ascii_case(word) || short(month))
}

/// Returns the length of ` 2026`, `, 2026`, `. 2026` at the beginning of a text, 0 when there is no year.
fn year_after(text: &str) -> usize {
    let rest = text.strip_prefix([',', '.']).unwrap_or(text).trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let is_whole = !rest.get(digits..).is_some_and(begins_word);
    match rest.get(..digits) {
        Some(year) if digits > 0 && rest.len() < text.len() && is_year(year) && is_whole => {
            text.len() - rest.len() + digits
        }
        Some(_) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The date whose first number is the first one of a text.
    fn date(text: &str) -> Option<&str> {
        let at = text.find(|c: char| c.is_ascii_digit()).unwrap();
        written_date(text, 0, at).map(|range| &text[range])
    }

    #[test]
    fn dates_are_known_as_they_are_written() {
        for (text, found) in [
            ("于3月5日抵达", "3月5日"),
            ("2026年3月5日", "2026年3月5日"),
            ("2026 年 3 月 5 日", "2026 年 3 月 5 日"),
            ("2026年3月,共3", "2026年3月"),
            ("3月5号", "3月5号"),
            ("3月5至8日", "3月5至8日"),
            ("3月5-8日", "3月5-8日"),
            ("记者5日获悉", "5日"),
            ("on march 5, 2026, 3", "march 5, 2026"),
            ("on mar. 5th 2026", "mar. 5th 2026"),
            ("Sept 5 at", "Sept 5"),
            ("on may 5. 2000 people", "may 5. 2000"),
            ("may 5; 2000", "may 5"),
            ("the 5th of march 2026", "5th of march 2026"),
            ("5 mar 2026", "5 mar 2026"),
            ("5-mar-2026", "5-mar"),
            ("march 5 3 2", "march 5"),
        ] {
            assert_eq!(date(text), Some(found), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_date_is_none() {
        for text in [
            "3月",
            "2026年",
            "13月5日",
            "3月32日",
            "35日",
            "5日元",
            "5日均线",
            "5天",
            "3月5万",
            "marching 5",
            "march 50",
            "march5",
            "may 5m",
            "5 people",
            "5 marches",
            "32 march",
            "5th avenue",
            "5march",
            "1年2月",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_of_day_may_follow() {
        assert!(time_after("3月5日 12:30 x", "3月5日".len()));
        assert!(time_after("3月5日8:05:59", "3月5日".len()));
        assert!(!time_after("3月5日 12", "3月5日".len()));
    }

    proptest! {
        #[test]
        fn any_text_is_searched(text in "[0-9年月日号 ,.a-cmrth至-]{0,30}") {
            for (at, _) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
                if let Some(found) = written_date(&text, 0, at) {
                    prop_assert!(found.end > at && text.get(found).is_some());
                }
            }
        }
    }
}
