//! Dates and times in a text, which are not numbers of the page.
//!
//! - Dates: `3月5日`, `March 5, 2026`, `5. März 2026`, `2026-03-05`.
//! - Times of day: `8:05`, `14.30 Uhr`, `14h30`, `下午2点30分`, `14時30分`, `오후 2시`.
//! - How long ago something was: `3 hours ago`, `vor 3 Stunden`, `3小时前`.

use std::ops::Range;

use super::words::{
    begins_with_one_of, ends_with_one_of, first_word, has, last_word, number, skip, skip_back, skip_preposition,
};
use crate::text::is_han;

/// `2026-11-21`, `2026/11/21`, `2026.11.21`; `21.11.2026`, `11/21/2026`; `21.11.26`, `11/21/26`.
pub(super) fn is_numeric_date(number: &str) -> bool {
    ['-', '/', '.'].into_iter().any(|mark| {
        let mut parts = number.split(mark);
        let (Some(first), Some(second), Some(third), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let (month, day) = (is_month_number, is_day);
        let ends_in_year = is_year(third) && (month(first) && day(second) || day(first) && month(second));
        let is_short = mark != '-'
            && [first, second, third].iter().all(|part| part.len() == 2)
            && first != "00"
            && second != "00"
            && is_number(third, 2, 99)
            && (month(first) && day(second) || day(first) && month(second));
        first.len() == 4 && is_number(first, 4, 9999) && month(second) && day(third) || ends_in_year || is_short
    })
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

/// Finds the date whose first number begins at `at`. A month may precede the number, but not before `from`.
pub(super) fn written_date(text: &str, from: usize, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let before = text.get(from..at)?;
    if let Some(length) = cjk_date(before, rest).or_else(|| hungarian(rest)).or_else(|| spaced(rest)) {
        return Some(at..at + length);
    }
    let day = day(rest)?;
    let after = rest.get(day..)?;
    if let Some(month) = month_before(before, is_english) {
        return (!begins_word(after)).then(|| from + month..at + day + year_after(after));
    }
    if let Some(month) = month_before(before, is_hungarian).filter(|_| after.starts_with(['.', '-'])) {
        return Some(from + month..at + day + ".".len());
    }
    month_after(after).map(|length| at..at + day + length)
}

/// Reads the month, and perhaps the year, after a day. Returns the length.
fn month_after(after: &str) -> Option<usize> {
    let trimmed = after.trim_start_matches([' ', '-']);
    let has_spaces = trimmed.len() < after.len();
    let english = trimmed.strip_prefix("of ").unwrap_or(trimmed);
    let end = |rest: &str, month: usize| {
        let year = year_after(rest.get(month..)?);
        Some((after.len() - rest.len() + month + year, year > 0))
    };
    if let Some(month) = month_at(english).filter(|_| has_spaces) {
        return end(english, month).map(|(length, _)| length);
    }
    let rest = skip_ordinal(after);
    let trimmed = rest.trim_start_matches([' ', '-']);
    let has_spaces = trimmed.len() < rest.len() || after.starts_with('.');
    let trimmed = trimmed.strip_prefix("de ").unwrap_or(trimmed);
    if let Some(length) = trimmed.strip_prefix("tháng ").and_then(vietnamese) {
        return Some(after.len() - trimmed.len() + "tháng ".len() + length);
    }
    let month = month_of_others(trimmed).filter(|_| has_spaces)?;
    let (length, has_year) = end(trimmed, month.length)?;
    (has_year || !month.needs_year).then_some(length)
}

/// Leaves out what makes a number an ordinal in other languages than English: `5.`, `1er`, `1º` (normalised `1o`),
/// `5-го`, `5:e`, `5e`.
fn skip_ordinal(text: &str) -> &str {
    if let Some(rest) = text.strip_prefix(['.', '°', 'º']) {
        return rest;
    }
    let endings = ["er", "o", "-го", "-е", ":e", "e"];
    let rest = endings.iter().find_map(|end| text.strip_prefix(end));
    rest.filter(|rest| !begins_word(rest)).unwrap_or(text)
}

/// Reads the month and the year of `ngày 5 tháng 3 năm 2024`. Returns the length.
fn vietnamese(text: &str) -> Option<usize> {
    let (month, rest) = number(text).filter(|(month, _)| is_month_number(month))?;
    (!begins_word(rest)).then(|| month.len() + year_after(rest))
}

/// Reads `2024. március 5.`, `2024. március 5-én`. Returns the length.
fn hungarian(text: &str) -> Option<usize> {
    let (_, rest) = number(text).filter(|(year, _)| is_year(year))?;
    let rest = rest.strip_prefix(". ")?;
    let month = first_word(rest);
    let rest = rest.get(month.len()..).filter(|_| is_hungarian(month))?;
    let (_, rest) = number(rest.strip_prefix('.').unwrap_or(rest).strip_prefix(' ')?).filter(|(day, _)| is_day(day))?;
    (!begins_word(rest)).then(|| text.len() - rest.strip_prefix('.').unwrap_or(rest).len())
}

/// Reads `2024. 3. 5.`, `5. 3. 2024`. Returns the length.
fn spaced(text: &str) -> Option<usize> {
    let (first, rest) = number(text)?;
    let (second, rest) = number(rest.strip_prefix(". ")?)?;
    let (third, rest) = number(rest.strip_prefix(". ")?)?;
    let is_date = is_month_number(second) && (is_year(first) && is_day(third) || is_day(first) && is_year(third));
    (is_date && !begins_word(rest)).then_some(text.len() - rest.len())
}

/// The eras of Japan and the Republic of China, before the number of a year.
const ERAS: [&str; 7] = ["令和", "平成", "昭和", "大正", "明治", "民国", "民國"];

/// Reads `[2026年]3月5日`, `2026年3月`, `3月5至8日`, `5日`, `2026년 3월 5일`, and `6年3月5日` after an era. Returns its
/// length.
fn cjk_date(before: &str, text: &str) -> Option<usize> {
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
        let alone = unit(text, &is_day, &['日', '号', '號', '일']);
        alone.or_else(|| {
            let (first, rest) = number(text).filter(|(first, _)| is_day(first))?;
            let mark = rest.chars().next().filter(|mark| matches!(mark, '-' | '~' | '至' | '到' | '、'))?;
            let after = first.len() + mark.len_utf8();
            unit(text.get(after..)?, &is_day, &['日', '号', '號', '일']).map(|length| after + length)
        })
    };
    let month = |text: &str| unit(text, &is_month_number, &['月', '월']);
    let has_era = ERAS.iter().any(|era| skip_back(before, char::is_whitespace).ends_with(era));
    let year = |part: &str| is_year(part) || has_era && is_number(part, 3, 200);
    if let Some(year) = unit(text, &year, &['年', '년']) {
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
fn month_before(text: &str, is_month: impl Fn(&str) -> bool) -> Option<usize> {
    let word_end = text.trim_end_matches(' ');
    if word_end.len() == text.len() {
        return None;
    }
    let word_end = word_end.strip_suffix('.').unwrap_or(word_end);
    let month = last_word(word_end);
    is_month(month).then_some(word_end.len() - month.len())
}

/// Returns the length of the English month that a text begins with.
fn month_at(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (word, rest) = text.split_at_checked(length)?;
    // `5 mayıs` is Turkish. A Chinese character may touch the month.
    let is_whole = !rest.starts_with(|c: char| c.is_alphabetic() && !is_han(c));
    (is_whole && is_english(word)).then_some(length)
}

/// Returns the length of ` 2026`, `, 2026`, `. 2026`, ` de 2026`, ` năm 2026` at the beginning of a text, 0 when there
/// is no year.
fn year_after(text: &str) -> usize {
    let rest = text.strip_prefix([',', '.']).unwrap_or(text).trim_start();
    let has_gap = rest.len() < text.len();
    let rest = ["de ", "del ", "năm "].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    let Some((_, after)) = number(rest).filter(|(year, _)| has_gap && is_year(year)) else { return 0 };
    // The Russian and the Ukrainian word for year, abbreviated, may touch it.
    let after_word = after.strip_prefix(['г', 'р']).unwrap_or(after);
    if begins_word(after_word) { 0 } else { text.len() - after.len() }
}

/// The months in English. Their first three or four letters are enough.
const ENGLISH: [&str; 12] = [
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

/// The months of other languages than English, and their unmistakable abbreviations.
#[rustfmt::skip]
const OTHERS: [&str; 273] = [
    "abril", "agosto", "agustus", "aout", "août", "april", "aprile", "aprilie", "aralık", "august", "augusti",
    "augustus", "augusztus", "avr", "avril", "ağustos", "březen", "března", "czerwca", "czerwiec", "december",
    "decembre", "decembrie", "desember", "dezember", "dezembro", "dicembre", "diciembre", "duben", "dubna", "déc",
    "décembre", "ekim", "elokuu", "elokuuta", "enero", "eylül", "febbraio", "febr", "febrero", "februar", "februari",
    "februarie", "február", "fevereiro", "fevr", "fevrier", "févr", "février", "gennaio", "giugno", "grudnia",
    "grudzień", "haziran", "heinäkuu", "heinäkuuta", "helmikuu", "helmikuuta", "huhtikuu", "huhtikuuta", "ianuarie",
    "iulie", "iunie", "janeiro", "januar", "januari", "január", "janv", "janvier", "joulukuu", "joulukuuta", "juil",
    "juillet", "juin", "julho", "juli", "julio", "junho", "juni", "junio", "jänner", "júl", "július", "jún", "június",
    "kasım", "kesäkuu", "kesäkuuta", "květen", "května", "kwiecień", "kwietnia", "leden", "ledna", "lipca", "lipiec",
    "listopad", "listopada", "listopadu", "lokakuu", "lokakuuta", "luglio", "lutego", "luty", "maaliskuu",
    "maaliskuuta", "maart", "maerz", "maggio", "mai", "maio", "maj", "maja", "marca", "maret", "marraskuu",
    "marraskuuta", "mars", "mart", "martie", "marts", "marzec", "marzo", "março", "mayo", "mayıs", "mei", "máj",
    "május", "márc", "március", "märz", "nisan", "noiembrie", "november", "novembre", "novembro", "noviembre", "ocak",
    "octobre", "octombrie", "octubre", "okt", "oktober", "október", "ottobre", "outubro", "październik", "października",
    "prosince", "prosinec", "september", "septembre", "septiembre", "setembro", "setiembre", "settembre", "sierpień",
    "sierpnia", "srpen", "srpna", "styczeń", "stycznia", "syyskuu", "syyskuuta", "szept", "szeptember", "tammikuu",
    "tammikuuta", "temmuz", "toukokuu", "toukokuuta", "wrzesień", "września", "září", "ápr", "április", "únor", "února",
    "červen", "července", "červenec", "června", "říjen", "října", "şubat", "авг", "август", "августа", "апр", "апрель",
    "апреля", "березень", "березня", "вересень", "вересня", "грудень", "грудня", "дек", "декабрь", "декабря", "жовтень",
    "жовтня", "июль", "июля", "июнь", "июня", "квітень", "квітня", "липень", "липня", "листопад", "листопада", "лютий",
    "лютого", "май", "март", "марта", "мая", "ноя", "нояб", "ноябрь", "ноября", "окт", "октябрь", "октября", "сен",
    "сент", "сентябрь", "сентября", "серпень", "серпня", "січень", "січня", "травень", "травня", "фев", "февр",
    "февраль", "февраля", "червень", "червня", "янв", "январь", "января", "اب", "ابريل", "اذار", "اغسطس", "افريل",
    "اكتوبر", "اوت", "ايار", "ايلول", "تشرين", "تموز", "جانفي", "جوان", "جويليه", "حزيران", "ديسمبر", "سبتمبر", "شباط",
    "فبراير", "فيفري", "كانون", "مارس", "مايو", "نوفمبر", "نيسان", "يناير", "يوليو", "يونيو",
];

/// The months of Hungarian, which precede the day: `2024. március 5.`
#[rustfmt::skip]
const HUNGARIAN: [&str; 24] = [
    "aug", "augusztus", "dec", "december", "febr", "február", "jan", "január", "júl", "július", "jún", "június",
    "máj", "május", "márc", "március", "nov", "november", "okt", "október", "szept", "szeptember", "ápr", "április",
];

/// Abbreviations of months that are also words. They need a year: `5 out 2024`.
#[rustfmt::skip]
const AMBIGUOUS: [&str; 67] = [
    "abr", "ago", "agt", "agu", "ara", "ağu", "bře", "cze", "des", "dez", "dic", "dub", "eki", "ene", "eyl", "fev",
    "gen", "giu", "gru", "haz", "ian", "iul", "iun", "jän", "kas", "kvě", "kwi", "lip", "lis", "lug", "lut", "mag",
    "mrt", "mär", "nis", "noi", "oca", "ott", "out", "paź", "sep", "set", "sie", "srp", "sty", "tem", "wrz", "úno",
    "čvc", "čvn", "říj", "şub", "бер", "вер", "гру", "жов", "июл", "июн", "кві", "лип", "лис", "лют", "мар", "сер",
    "січ", "тра", "чер",
];

/// A month that a text begins with.
pub(super) struct Month {
    /// Its bytes.
    pub(super) length: usize,
    /// Whether only a year makes it a month.
    pub(super) needs_year: bool,
}

pub(super) fn is_english(word: &str) -> bool {
    let begins = |month: &str| month.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    let short = |month: &str| matches!(word.len(), 3 | 4) && begins(month);
    ENGLISH.iter().any(|month| month.eq_ignore_ascii_case(word) || short(month))
}

pub(super) fn is_hungarian(word: &str) -> bool {
    has(&HUNGARIAN, word)
}

/// Reads the month of another language than English that a text begins with.
pub(super) fn month_of_others(text: &str) -> Option<Month> {
    let word = first_word(text);
    if has(&AMBIGUOUS, word) {
        return Some(Month { length: word.len(), needs_year: true });
    }
    if !has(&OTHERS, word) {
        return None;
    }
    let rest = text.get(word.len()..)?;
    // Two Arabic names are of two words (`تشرين الأول`), and some papers write both names of a month (`آذار/مارس`).
    let is_of_two = matches!(word, "كانون" | "تشرين");
    let second =
        rest.strip_prefix(' ').map(first_word).filter(|second| is_of_two && matches!(*second, "الاول" | "الثاني"));
    let length = word.len() + second.map_or(0, |second| 1 + second.len());
    let other = text.get(length..)?.strip_prefix('/').map(first_word).filter(|other| has(&OTHERS, other));
    Some(Month { length: length + other.map_or(0, |other| 1 + other.len()), needs_year: false })
}

/// The parts of a day, before the hour.
const PARTS_OF_DAY: [&str; 11] =
    ["上午", "下午", "凌晨", "晚上", "早上", "中午", "午前", "午後", "午后", "오전", "오후"];

/// The hours that time zones differ by at most.
const MAX_OFFSET: u32 = 14;

/// `8:05`, `08:05:59`.
pub(super) fn is_time(number: &str) -> bool {
    is_time_with(':', number)
}

fn is_time_with(mark: char, number: &str) -> bool {
    let mut parts = number.split(mark);
    let mut part = |most: u32| parts.next().is_some_and(|part| is_number(part, 2, most));
    let (hours, minutes) = (part(24), part(59));
    hours && minutes && parts.next().is_none_or(|seconds| is_number(seconds, 2, 59)) && parts.next().is_none()
}

pub(super) fn is_number(part: &str, digits: usize, most: u32) -> bool {
    part.len() <= digits && part.parse::<u32>().is_ok_and(|number| number <= most)
}

/// Returns whether a time of day follows a place, with nothing but spaces in between.
pub(super) fn time_after(text: &str, place: usize) -> bool {
    let rest = text.get(place..).unwrap_or_default().trim_start();
    let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b':').count();
    rest.get(..length).is_some_and(is_time)
}

/// Finds the time of day, or the offset from universal time, whose first number is at `range`. A part of the day may
/// precede the number, but not before `from`.
pub(super) fn written_time(text: &str, from: usize, range: &Range<usize>) -> Option<Range<usize>> {
    let digits = text.get(range.clone())?;
    let before = text.get(from..range.start)?;
    let after = text.get(range.end..)?;
    let length = if is_number(digits, 2, 24) {
        uhr(after).or_else(|| french(after)).or_else(|| cjk_time(before, after))
    } else {
        uhr(after).filter(|_| is_time_with('.', digits) && digits.len() <= "14.30".len())
    };
    let is_offset =
        || is_offset_of_name(before, digits) || is_offset_after_time(text, range) || is_time_and_offset(digits);
    length.or_else(|| is_offset().then_some(0)).map(|length| range.start..range.end + length)
}

/// Reads ` uhr`, the German word after a time. Returns its length.
fn uhr(after: &str) -> Option<usize> {
    let word = skip(after, char::is_whitespace);
    (first_word(word) == "uhr").then_some(after.len() - word.len() + "uhr".len())
}

/// Reads `h30` or ` h 30` after the hours. Returns its length.
fn french(after: &str) -> Option<usize> {
    let (minutes, rest) = number(skip(skip(after, is_space).strip_prefix('h')?, is_space))?;
    let is_whole = !rest.starts_with(char::is_alphanumeric);
    (minutes.len() == 2 && is_number(minutes, 2, 59) && is_whole).then_some(after.len() - rest.len())
}

const fn is_space(c: char) -> bool {
    c == ' '
}

/// Reads `点`, `点30分`, `時30分`, `시`, `시 30분` after the hours. Unless it is Korean, minutes or a part of the day
/// must stand beside the hours: `30点` are also points of an index. Returns the length.
fn cjk_time(before: &str, after: &str) -> Option<usize> {
    let hours = skip(after, is_space);
    let rest = hours.strip_prefix(['点', '點', '时', '時', '시'])?;
    let minutes = number(skip(rest, is_space)).filter(|(minutes, _)| is_number(minutes, 2, 59));
    let minutes = minutes.and_then(|(_, rest)| skip(rest, is_space).strip_prefix(['分', '분']));
    if let Some(rest) = minutes.filter(|rest| !rest.starts_with(['钟', '鐘', '간'])) {
        return Some(after.len() - rest.len());
    }
    // `24時間` and `3시간` are spans.
    let before = skip_back(before, is_space);
    let has_part = PARTS_OF_DAY.iter().any(|part| before.ends_with(part));
    let is_span = rest.starts_with(['间', '間', '간']);
    // Only particles may follow the Korean hour: `3시에`, but not `3시즌`.
    let is_korean = hours.starts_with('시')
        && rest.chars().next().is_none_or(|c| !c.is_alphanumeric() || matches!(c, '에' | '부' | '까' | '쯤' | '경'));
    (!is_span && (has_part || is_korean)).then_some(after.len() - rest.len())
}

/// `gmt+1`, `utc+08:00`.
fn is_offset_of_name(before: &str, digits: &str) -> bool {
    let name = skip_back(before.strip_suffix(['+', '-', '−']).unwrap_or_default(), is_space);
    (name.ends_with("gmt") || name.ends_with("utc")) && is_offset(digits)
}

/// `8`, `08`, `0800`, `08:00`.
fn is_offset(digits: &str) -> bool {
    let (hours, minutes) = match digits.len() {
        ..=2 => (digits, "0"),
        4 => digits.split_at_checked(2).unwrap_or_default(),
        _ => digits.split_once(':').unwrap_or_default(),
    };
    is_number(hours, 2, MAX_OFFSET) && is_number(minutes, 2, 45) && matches!(minutes, "0" | "00" | "15" | "30" | "45")
}

/// `+0100` after `12:30 `.
fn is_offset_after_time(text: &str, range: &Range<usize>) -> bool {
    let digits = text.get(range.clone()).unwrap_or_default();
    let before = text.get(..range.start).unwrap_or_default();
    let Some(before) = before.strip_suffix(['+', '-', '−']) else { return false };
    let before = skip_back(before, is_space);
    let length = before.bytes().rev().take(8).take_while(|byte| byte.is_ascii_digit() || *byte == b':').count();
    digits.len() == 4 && is_offset(digits) && before.get(before.len() - length..).is_some_and(is_time)
}

/// `12:30+01:00`, `12:30-0500`. Between two times, a hyphen is a span: `12:30-13:45`.
fn is_time_and_offset(digits: &str) -> bool {
    let sign = digits.split_once('+').or_else(|| digits.split_once('-').filter(|(_, offset)| !offset.contains(':')));
    sign.is_some_and(|(time, offset)| is_time(time) && offset.len() >= 4 && is_offset(offset))
}

/// Units of time from the second to the week, in the forms that follow a number.
#[rustfmt::skip]
const UNITS: [&str; 215] = [
    "d", "dag", "dagar", "dage", "dagen", "dager", "dakika", "day", "days", "detik", "dia", "dias", "dk", "dnem", "dni",
    "dny", "dzień", "día", "días", "giorni", "giorno", "giây", "giờ", "godz", "godzin", "godziny", "godzinę", "gün",
    "h", "hafta", "hari", "heure", "heures", "hodinami", "hodinou", "hora", "horas", "hour", "hours", "hr", "hrs",
    "héttel", "jam", "jour", "jours", "m", "menit", "min", "minggu", "mins", "minut", "minutami", "minute", "minuten",
    "minuter", "minutes", "minuti", "minuto", "minutos", "minutou", "minutt", "minutter", "minuty", "minutę", "minuut",
    "minuutti", "minuuttia", "másodperccel", "másodperce", "napja", "nappal", "ngày", "ora", "ore", "oră", "perc",
    "perccel", "perce", "phút", "päivä", "päivää", "s", "sa", "saat", "saniye", "saptamani", "sec", "second", "seconde",
    "seconden", "secondes", "secondi", "secondo", "seconds", "secs", "secunde", "secundă", "seg", "segundo", "segundos",
    "sek", "sekund", "sekundami", "sekunde", "sekunden", "sekunder", "sekundou", "sekundy", "sekundę", "sekunti",
    "sekuntia", "semaine", "semaines", "semana", "semanas", "settimana", "settimane", "sn", "std", "stunde", "stunden",
    "săptămâni", "săptămână", "tag", "tage", "tagen", "tim", "time", "timer", "timmar", "timme", "tiếng", "tunti",
    "tuntia", "tuần", "tydzień", "tygodni", "tygodnie", "týdnem", "týdny", "uge", "uger", "uke", "uker", "uur", "vecka",
    "veckor", "viikko", "viikkoa", "vteřinami", "w", "week", "weeks", "weken", "wk", "wks", "woche", "wochen", "zi",
    "zile", "órája", "órával", "год", "годин", "години", "годину", "день", "дн", "дней", "дня", "днів", "мин", "минут",
    "минуту", "минуты", "нед", "недели", "недель", "неделю", "сек", "секунд", "секунди", "секунду", "секунды",
    "тиждень", "тижні", "тижнів", "хв", "хвилин", "хвилини", "хвилину", "ч", "час", "часа", "часов", "اسابيع", "اسبوع",
    "ايام", "ثانيه", "ثوان", "ثواني", "دقائق", "دقيقه", "ساعات", "ساعتين", "ساعه", "يوم", "يوما", "يومين", "분", "시간",
    "일", "주", "주일", "초",
];

/// The minutes among the units.
#[rustfmt::skip]
const MINUTES: [&str; 34] = [
    "dakika", "dk", "menit", "min", "mins", "minut", "minutami", "minute", "minuten", "minuter", "minutes", "minuti",
    "minuto", "minutos", "minutou", "minutt", "minutter", "minuty", "minutę", "minuut", "minuutti", "minuuttia", "perc",
    "phút", "мин", "минут", "минуту", "минуты", "хв", "хвилин", "хвилини", "хвилину", "دقائق", "دقيقه",
];

/// Words that follow the unit of a relative time.
#[rustfmt::skip]
const AGO: [&str; 18] = [
    "ago", "atras", "atrás", "ezelőtt", "fa", "geleden", "lalu", "sedan", "siden", "sitten", "temu", "trước",
    "yang lalu", "önce", "назад", "тому", "전", "전에",
];

/// Words that precede the number of a relative time. They have other meanings, too: `vor 500 Zuschauern`.
#[rustfmt::skip]
const SINCE: [&str; 9] = ["acum", "cách đây", "hace", "há", "před", "vor", "y a", "قبل", "منذ"];

/// Units of time with the ending or the syllable that says `ago`.
const UNITS_AGO: [&str; 8] = ["másodperce", "perce", "órája", "분전", "시간전", "일전", "주전", "초전"];

/// Chinese and Japanese units of time with the character that says `ago`, as they are written and normalised.
#[rustfmt::skip]
const HAN_AGO: [&str; 19] = [
    "秒前", "秒钟前", "秒鐘前", "分前", "分钟前", "分鐘前", "小时前", "小時前", "个小时前", "個小時前", "时间前", "時間前", "天前",
    "周前", "週前", "周间前", "週間前", "星期前", "个星期前",
];

/// Returns whether a number between two texts counts the seconds to weeks since a time.
pub(super) fn is_relative_time(before: &str, after: &str) -> bool {
    let after = skip(after, char::is_whitespace);
    if HAN_AGO.iter().any(|ago| {
        // `3天前往` is `3 days, go to`, `3天前后` is `around 3 days`.
        after.strip_prefix(ago).is_some_and(|rest| !rest.starts_with(['往', '后', '後', '进', '進', '列']))
    }) {
        return true;
    }
    let after = skip_preposition(after);
    let unit = first_word(after);
    if UNITS_AGO.contains(&unit) {
        return true;
    }
    if !has(&UNITS, unit) {
        return false;
    }
    let rest = after.get(unit.len()..).unwrap_or_default();
    let rest = skip(rest, |c| c == '.' || c.is_whitespace());
    // After these prepositions, `m` are metres: `vor 500 m`.
    begins_with_one_of(&AGO, rest) || unit != "m" && ends_with_one_of(&SINCE, skip_back(before, char::is_whitespace))
}

/// Returns whether a word is a form of `minute`.
pub(super) fn is_minutes(word: &str) -> bool {
    has(&MINUTES, word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::numbers::numbers_in;
    use super::super::words::assert_sorted;
    use super::*;

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
    fn dates_of_many_languages_are_known() {
        for (text, found) in [
            ("am 5. märz 2024 in", "5. märz 2024"),
            ("am 5.märz in", "5.märz"),
            ("le 1er mars", "1er mars"),
            ("le 5 février 2024,", "5 février 2024"),
            ("el 5 de marzo de 2024", "5 de marzo de 2024"),
            ("em 1o de março de 2024", "1o de março de 2024"),
            ("il 5 marzo 2024", "5 marzo 2024"),
            ("5 maart 2024", "5 maart 2024"),
            ("5 marca 2024", "5 marca 2024"),
            ("5 марта 2024", "5 марта 2024"),
            ("5 марта 2024г.", "5 марта 2024"),
            ("5-го марта", "5-го марта"),
            ("5 дек. 2024", "5 дек. 2024"),
            ("5 березня 2024", "5 березня 2024"),
            ("5 mart 2024", "5 mart 2024"),
            ("5 mayıs 2024", "5 mayıs 2024"),
            ("5. března 2024", "5. března 2024"),
            ("den 5 mars 2024", "5 mars 2024"),
            ("den 5. marts 2024", "5. marts 2024"),
            ("5. maaliskuuta 2024", "5. maaliskuuta 2024"),
            ("2024. március 5.", "2024. március 5."),
            ("2024. márc. 5-én", "2024. márc. 5"),
            ("március 5-én", "március 5-"),
            ("5 martie 2024", "5 martie 2024"),
            ("5 maret 2024", "5 maret 2024"),
            ("ngày 5 tháng 3 năm 2024", "5 tháng 3 năm 2024"),
            ("ngày 5 tháng 3", "5 tháng 3"),
            ("2024년 3월 5일", "2024년 3월 5일"),
            ("3월 5일", "3월 5일"),
            ("令和6年3月5日", "6年3月5日"),
            ("民國113年3月5日", "113年3月5日"),
            ("5 مارس 2024", "5 مارس 2024"),
            ("5 يناير", "5 يناير"),
            ("5 اذار/مارس 2024", "5 اذار/مارس 2024"),
            ("5 تشرين الثاني 2024", "5 تشرين الثاني 2024"),
            ("5 ago 2024", "5 ago 2024"),
            ("2024. 3. 5. 12", "2024. 3. 5"),
            ("5. 3. 2024", "5. 3. 2024"),
        ] {
            assert_eq!(date(text), Some(found), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_date_of_another_language_is_none() {
        for text in [
            "märz 5 tote",
            "mars 5 x",
            "március 500",
            "5. may the",
            "5 out of",
            "5 ago",
            "5 set",
            "5marzo",
            "5e arrondissement",
            "5 de los",
            "32 марта",
            "3월",
            "5일",
            "1. 2. 3",
            "tháng 5",
            "5 maisons",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
        assert_eq!(date("6年3月5日"), None, "the number of a year without its era is none");
    }

    #[test]
    fn short_years_are_dates_in_two_forms() {
        for (text, is_date) in [
            ("05/03/24", true),
            ("05.03.24", true),
            ("03/25/24", true),
            ("5.3.24", false),
            ("05-03-24", false),
            ("25.25.24", false),
            ("00.03.24", false),
            ("1.2.3", false),
        ] {
            assert_eq!(is_numeric_date(text), is_date, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_searched_for_dates(text in "[0-9年月日号 ,.a-cmrth至-]{0,30}") {
            for (at, _) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
                if let Some(found) = written_date(&text, 0, at) {
                    prop_assert!(found.end > at && text.get(found).is_some());
                }
            }
        }
    }

    #[test]
    fn the_lists_are_sorted_and_apart() {
        assert_sorted(&[&OTHERS, &HUNGARIAN, &AMBIGUOUS]);
        assert!(AMBIGUOUS.iter().all(|word| !has(&OTHERS, word)));
    }

    #[test]
    fn a_time_of_day_may_follow() {
        assert!(time_after("3月5日 12:30 x", "3月5日".len()));
        assert!(time_after("3月5日8:05:59", "3月5日".len()));
        assert!(!time_after("3月5日 12", "3月5日".len()));
    }

    #[test]
    fn times_of_day_are_no_numbers() {
        for text in [
            "14.30 uhr",
            "14:30 uhr",
            "um 18 uhr",
            "à 14h30",
            "14 h 30",
            "午後2時30分",
            "午后2时30分",
            "下午2点",
            "下午 2 点 30 分",
            "下午2点30分",
            "2点30分",
            "14時30分",
            "오후 2시 30분",
            "오후 2시",
            "14시",
            "3시에",
            "gmt+1",
            "utc+08:00",
            "12:30 utc +8",
            "12:30 +0100",
            "12:30:59 -0500",
            "12:30+01:00",
            "12:30:59-0500",
        ] {
            assert_eq!(numbers_in(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_time_is_a_number() {
        for text in [
            "30点",
            "上涨24点",
            "25点30万",
            "24時間",
            "24时间",
            "3시간",
            "3시즌",
            "下午3时间",
            "14h",
            "14h300",
            "14h75",
            "25 uhr",
            "14.75 uhr",
            "14.30 euro",
            "18 uhren",
            "gmt+15",
            "+0100",
            "rose +0100",
            "12 +0100",
        ] {
            assert!(!numbers_in(text).is_empty(), "{text}");
        }
        assert_eq!(numbers_in("下午3点, 5人"), ["5"]);
    }

    proptest! {
        #[test]
        fn any_text_is_searched_for_times(text in "[0-9点時时시分분 h:.+-]{0,20}", before in "(오후|下午|utc|uhr|.)") {
            let text = format!("{before}{text}");
            for (at, _) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
                let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
                if let Some(found) = written_time(&text, 0, &(at..at + digits)) {
                    prop_assert!(found.start == at && found.end >= at + digits && text.get(found).is_some());
                }
            }
        }
    }

    fn is_relative(text: &str) -> bool {
        let at = text.find(|c: char| c.is_ascii_digit()).unwrap();
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        is_relative_time(&text[..at], &text[at + digits..])
    }

    #[test]
    fn the_lists_are_sorted() {
        assert_sorted(&[&UNITS, &MINUTES, &AGO, &SINCE]);
        assert!(MINUTES.iter().all(|word| has(&UNITS, word)));
    }

    #[test]
    fn times_since_then_are_relative() {
        for text in [
            "3 minutes ago",
            "2h ago",
            "5m ago",
            "2 hrs. ago",
            "vor 3 stunden",
            "vor 12 minuten",
            "vor 2 tagen",
            "il y a 3 heures",
            "il y a 2 jours",
            "hace 3 horas",
            "hace 1 semana",
            "há 3 horas",
            "3 horas atrás",
            "3 ore fa",
            "3 uur geleden",
            "3 dagen geleden",
            "3 часа назад",
            "5 мин. назад",
            "3 години тому",
            "3 godziny temu",
            "3 saat önce",
            "15 dk önce",
            "před 3 hodinami",
            "för 3 timmar sedan",
            "3 timer siden",
            "3 tuntia sitten",
            "3 órája",
            "3 órával ezelőtt",
            "acum 3 ore",
            "acum 20 de minute",
            "3 giờ trước",
            "3 jam lalu",
            "3 jam yang lalu",
            "منذ 3 ساعات",
            "3小时前",
            "3 小时前",
            "3个小时前",
            "5分钟前",
            "2天前",
            "3時間前",
            "5分前",
            "3시간 전",
            "5분 전",
            "5분전",
            "2일 전에",
        ] {
            assert!(is_relative(text), "{text}");
        }
    }

    #[test]
    fn spans_and_other_amounts_are_not_relative() {
        for text in [
            "3 minutes",
            "3 years ago",
            "3 goals ago",
            "vor 500 zuschauern",
            "vor 500 m tiefe",
            "il y a 3 blessés",
            "hace 3 goles",
            "há 3 feridos",
            "před 300 diváky",
            "acum 3 mașini",
            "3 ore",
            "3 часа",
            "3小时",
            "3天前往北京",
            "3天前后",
            "3시간",
            "3일 전국",
            "3분 전반",
        ] {
            assert!(!is_relative(text), "{text}");
        }
    }
}
