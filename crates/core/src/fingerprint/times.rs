//! Times of day in a text: `8:05`, `14.30 Uhr`, `14h30`, `下午2点30分`, `14時30分`, `오후 2시`.
//!
//! Times of which a page says how long ago they were: `3 hours ago`, `vor 3 Stunden`, `3小时前`.

use std::ops::Range;

use super::words::{begins_with_one_of, ends_with_one_of, first_word, has, number, skip, skip_back, skip_preposition};

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
        uhr(after).or_else(|| french(after)).or_else(|| cjk(before, after))
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
fn cjk(before: &str, after: &str) -> Option<usize> {
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
    use super::super::numbers::numbers_in;
    use super::super::words::assert_sorted;
    use super::*;
    use proptest::prelude::*;

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
        fn any_text_is_searched(text in "[0-9点時时시分분 h:.+-]{0,20}", before in "(오후|下午|utc|uhr|.)") {
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
