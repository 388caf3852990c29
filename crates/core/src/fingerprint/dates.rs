//! Dates in a text: `3月5日`, `March 5, 2026`, `5. März 2026`, `2026-03-05`.

use std::ops::Range;

use super::times::is_number;
use super::words::{first_word, has, last_word, number, skip_back};
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
    if let Some(length) = cjk(before, rest).or_else(|| hungarian(rest)).or_else(|| spaced(rest)) {
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
fn cjk(before: &str, text: &str) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::super::words::assert_sorted;
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
        fn any_text_is_searched(text in "[0-9年月日号 ,.a-cmrth至-]{0,30}") {
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
}
