//! Times of which a page says how long ago they were: `3 hours ago`, `vor 3 Stunden`, `3小时前`.

use super::words::{begins_with_one_of, ends_with_one_of, first_word, has, skip, skip_back, skip_preposition};

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
    use super::super::words::assert_sorted;
    use super::*;

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
