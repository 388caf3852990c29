//! The names of the months.

use super::words::{first_word, has};

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

    #[test]
    fn the_lists_are_sorted_and_apart() {
        assert_sorted(&[&OTHERS, &HUNGARIAN, &AMBIGUOUS]);
        assert!(AMBIGUOUS.iter().all(|word| !has(&OTHERS, word)));
    }
}
