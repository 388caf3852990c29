//! Numbers that count readers and what they did (`1,234 views`, `阅读 1234`), licences of sites, reading times and
//! copyright years.

use std::ops::Range;

use super::dates::{is_minutes, is_relative_time};
use super::words::{
    begins_with_one_of, ends_with_one_of, first_word, has, last_word, number, skip, skip_back, skip_preposition,
};
use crate::text::is_han;

/// Words right before or right after a counter.
#[rustfmt::skip]
const EITHER: [&str; 177] = [
    "accesări", "afisari", "afișări", "aprecieri", "aufrufe", "beğeni", "citiri", "comentarii", "comentarios",
    "comentários", "commentaires", "commenti", "comments", "compartilhamentos", "condivisioni", "curtidas", "delinger",
    "delningar", "descargas", "distribuiri", "followers", "gefällt", "görüntüleme", "görüntülenme", "gösterim",
    "hozzászólás", "hozzászólások", "izlenme", "j'aime", "jakokertaa", "katselukerrat", "katselukertaa", "kedvelés",
    "klicks", "komentar", "komentarze", "komentarzy", "komentáře", "komentářů", "kommentare", "kommentarer",
    "kommentek", "kommentit", "kommenttia", "lajków", "lajků", "lecturas", "leituras", "leserkommentare", "lesninger",
    "letture", "likes", "lukukerrat", "lukukertaa", "läsningar", "læsninger", "lượt chia", "lượt thích", "lượt tải",
    "lượt xem", "lượt đọc", "me gusta", "megosztás", "megtekintés", "megtekintések", "mi piace", "näyttökerrat",
    "näyttökertaa", "odpovědí", "odpowiedzi", "odsłon", "odsłony", "okunma", "pageviews", "partages", "partilhas",
    "paylaşım", "penayangan", "pobrań", "polubienia", "polubień", "přečtení", "raspunsuri", "reacciones", "reacties",
    "reads", "reazioni", "reações", "replies", "reposts", "reproducciones", "respostas", "respuestas", "retuits",
    "retweets", "risposte", "réactions", "réponses", "răspunsuri", "sdílení", "shares", "tayangan", "tykkäykset",
    "tykkäystä", "téléchargements", "udostępnienia", "udostępnień", "views", "visningar", "visninger", "vistas",
    "visualizaciones", "visualizações", "visualizzazioni", "vizualizari", "vizualizări", "vues", "weergaven",
    "wyświetlenia", "wyświetleń", "yorum", "yorumlar", "zhlédnutí", "zobrazení", "zugriffe", "вподобань", "коментарі",
    "коментарів", "комментариев", "комментарии", "комментария", "лайка", "лайки", "лайков", "лайків", "ответов",
    "перегляди", "переглядів", "поширень", "просмотра", "просмотров", "просмотры", "прочитань", "прочтений",
    "прочтения", "репоста", "репостов", "репосты", "репостів", "ретвитов", "скачиваний", "اعجابات", "الاعجابات",
    "التعليقات", "الردود", "القراءات", "المشاهدات", "تعليقات", "ردود", "مشاهدات", "مشاهده", "개 댓글", "개의 댓글", "공유수",
    "답글", "댓글", "댓글수", "리트윗", "명이 읽음", "재생수", "조회", "조회수", "좋아요", "추천수", "팔로워", "회 재생", "회 조회",
];

/// Words right after a counter. Before a number they are a label only with a colon or a bracket in between.
#[rustfmt::skip]
const AFTER: [&str; 93] = [
    "antwoorden", "antwort", "antworten", "balasan", "bookmarks", "bình luận", "cevap", "chia sẻ", "claps",
    "comentario", "comentariu", "comentário", "comment", "commentaire", "commento", "deling", "delning", "downloads",
    "gostos", "indirme", "jakoa", "komentarz", "komentář", "komment", "kommentar", "kommentteja", "kommentti",
    "odpovědi", "odpověď", "odpowiedź", "olvasás", "pageview", "partage", "phản hồi", "reactie", "reactii", "reactions",
    "reacții", "reakce", "reakcje", "reakcji", "reakcí", "reaksi", "reaksjoner", "reaktionen", "reaktioner",
    "reaktiota", "reply", "repost", "resposta", "respuesta", "retweet", "risposta", "réponse", "răspuns", "stažení",
    "suka", "svar", "tepki", "trả lời", "tykkäys", "unduhan", "vastaukset", "vastausta", "view", "visning",
    "vizualizare", "vue", "válasz", "wyświetlenie", "yanıt", "відповідей", "відповіді", "коментар", "коментаря",
    "комментарий", "лайк", "ответ", "ответа", "ответы", "перегляд", "поширення", "просмотр", "реакции", "реакций",
    "реакцій", "реакції", "اعجاب", "تعليق", "تعليقا", "رد", "قراءات", "قراءه",
];

/// Words right before a counter. After a number they are what an article reports.
#[rustfmt::skip]
const BEFORE: [&str; 5] = [
    "ansichten", "hits", "visitas", "visite", "visites",
];

/// What was done to the page, before or after a number of times: `read 12045 times`, `1.234 mal gelesen`.
#[rustfmt::skip]
const VIEWED: [&str; 73] = [
    "accesat", "angeklickt", "angesehen", "aufgerufen", "bekeken", "citit", "compartida", "compartido",
    "compartilhada", "compartilhado", "condiviso", "consulté", "consultée", "czytano", "delad", "delt", "dibaca",
    "dibagikan", "dilihat", "distribuit", "ditonton", "downloaded", "gedeeld", "gelesen", "gelezen", "geteilt",
    "görüntülendi", "izlendi", "jaettu", "katsottu", "lest", "letta", "letto", "leída", "leído", "lida", "lido", "lu",
    "lue", "luettu", "läst", "læst", "megtekintették", "megtekintve", "okundu", "olvasva", "partagé", "partagée",
    "paylaşıldı", "przeczytano", "přečteno", "read", "retweeted", "sdíleno", "shared", "udostępniono", "viewed",
    "visad", "vist", "visualizada", "visualizado", "visualizzato", "vizualizat", "watched", "wyświetlono",
    "zhlédnuto", "zobrazeno", "переглянуто", "просмотрен", "просмотрено", "прочитан", "прочитана", "прочитано",
];

/// Words for `times`.
#[rustfmt::skip]
const TIMES: [&str; 29] = [
    "alkalommal", "defa", "fois", "gange", "ganger", "gånger", "kali", "keer", "kertaa", "kez", "krát", "maal", "mal",
    "ori", "raz", "razy", "time", "times", "veces", "vezes", "volte", "x", "раз", "раза", "рази", "разу", "разів",
    "مرات", "مره",
];

/// Words beside the minutes that reading a page takes: `4 min read`, `lesezeit: 4 min`.
#[rustfmt::skip]
const READING: [&str; 29] = [
    "baca", "citire", "czytania", "lectura", "lecture", "lectură", "leestijd", "leitura", "lesedauer", "lesen",
    "lesetid", "lesezeit", "lettura", "lezen", "lukuaika", "läsning", "lästid", "læsetid", "læsning", "okuma",
    "olvasás", "read", "read time", "reading", "reading time", "čtení", "đọc", "читання", "чтения",
];

/// Multipliers between a number and its label, without their dot: `12.4k views`, `1,2 тыс. просмотров`.
#[rustfmt::skip]
const MULTIPLIERS: [&str; 37] = [
    "bin", "jt", "juta", "k", "m", "mii", "mil", "mila", "milhões", "milj", "million", "millionen", "millions",
    "millones", "mio", "mln", "mn", "mrd", "nghìn", "rb", "ribu", "thousand", "tis", "tr", "triệu", "tsd", "tuhatta",
    "tusen", "tys", "w", "млн", "тис", "тыс", "الف", "مليون", "만", "천",
];

/// Chinese and Japanese words right before a counter or the licence of a site, in the form of normalised text. Other
/// characters may precede them.
#[rustfmt::skip]
const HAN_BEFORE: [&str; 54] = [
    "阅读", "阅读量", "阅读数", "阅读次数", "阅读人数", "浏览", "浏览量", "浏览数", "浏览次数", "浏览人数", "点击", "点击量", "点击数",
    "点击率", "访问量", "人气", "热度", "评论", "评论数", "点赞", "点赞数", "转发", "转发数", "收藏", "收藏数", "分享", "分享数", "回复",
    "回复数", "查看", "跟帖", "跟贴", "播放量", "播放数", "播放次数", "观看次数", "下载量", "下载次数", "粉丝数", "icp备", "icp证",
    "公网安备", "閲覧", "閲覧数", "阅覧", "阅覧数", "再生数", "再生回数", "コメント", "いいね", "いいね!", "リツイート", "ブックマーク", "返信",
];

/// As [`HAN_BEFORE`], but with another character before it each is part of another word: `称赞 3 名`.
const HAN_WORDS_BEFORE: [&str; 2] = ["粉丝", "赞"];

/// Chinese and Japanese words right after a counter. Other characters may follow them.
#[rustfmt::skip]
const HAN_AFTER: [&str; 46] = [
    "次阅读", "人阅读", "阅读", "次浏览", "人浏览", "浏览", "次点击", "次访问", "条评论", "个评论", "人评论", "评论", "个赞", "人点赞",
    "次转发", "人收藏", "次播放", "次观看", "次收藏", "次分享", "次下载", "条跟帖", "条跟贴", "条回复", "个回复", "人围观", "人看过",
    "分钟阅读", "回視聴", "回视聴", "回视听", "回再生", "回閲覧", "回阅覧", "閲覧", "阅覧", "件のコメント", "件の返信", "件のいいね",
    "件のリツイート", "件のブックマーク", "コメント", "いいね", "リツイート", "リポスト", "ブックマーク",
];

/// As [`HAN_AFTER`], but with another character after it each says something else: `318人参与投票`.
const HAN_WORDS_AFTER: [&str; 7] = ["赞", "人参与", "人喜欢", "人推荐", "人分享", "人转发", "人回复"];

/// Returns whether a character may be between a counter and its label.
fn is_beside(c: char) -> bool {
    c.is_whitespace() || is_mark(c)
}

fn is_mark(c: char) -> bool {
    matches!(c, ':' | '：' | '(' | ')' | '（' | '）' | '[' | ']' | '【' | '】')
}

/// Returns whether a number counts readers or their reactions, or the time since something, or is the licence of a
/// site, a reading time or a copyright year. The work is constant: it reads a few words on both sides.
pub(super) fn is_counter(text: &str, range: &Range<usize>) -> bool {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    let number = text.get(range.clone()).unwrap_or_default();
    is_labelled(before, after)
        || is_group_of_counter(before, number, after)
        || is_relative_time(before, after)
        || is_copyright_year(before, number, after)
}

fn is_labelled(before: &str, after: &str) -> bool {
    let label = skip_back(before, is_beside);
    let gap = before.get(label.len()..).unwrap_or_default();
    if ends_with_one_of(&EITHER, label)
        || ends_with_one_of(&BEFORE, label)
        || gap.contains(is_mark) && ends_with_one_of(&AFTER, label)
        || is_han_label_before(label)
    {
        return true;
    }
    // `100+ views`, `4-min read`, `1.234-mal gelesen`
    let after = after.strip_prefix('+').unwrap_or(after);
    let joined = after.strip_prefix('-').filter(|rest| rest.starts_with(char::is_alphabetic));
    let after = joined.unwrap_or_else(|| skip(after, is_beside));
    begins_with_label(label, after) || without_multiplier(after).is_some_and(|after| begins_with_label(label, after))
}

/// The most groups of three digits besides the one that is looked at.
const MAX_GROUPS: usize = 3;

/// Returns whether a number is a group of digits of a counter whose groups are separated by spaces: `1 234 vues`.
fn is_group_of_counter(before: &str, number: &str, after: &str) -> bool {
    let is_group = |digits: &str| matches!(digits.len(), 1..=3) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_group(number) {
        return false;
    }
    let (mut first, mut label, mut rest) = (number, before, after);
    for _ in 0..MAX_GROUPS {
        let Some(digits) = label.strip_suffix(' ').filter(|_| first.len() == 3) else { break };
        let length = digits.bytes().rev().take(4).take_while(u8::is_ascii_digit).count();
        let Some((before, group)) = digits.split_at_checked(digits.len() - length) else { break };
        if !is_group(group) {
            break;
        }
        (first, label) = (group, before);
    }
    for _ in 0..MAX_GROUPS {
        let Some((_, after)) = rest.strip_prefix(' ').and_then(self::number).filter(|(group, _)| group.len() == 3)
        else {
            break;
        };
        rest = after;
    }
    (label.len() < before.len() || rest.len() < after.len()) && is_labelled(label, rest)
}

/// Returns whether the label of a number follows it. `before` is the text before the number.
fn begins_with_label(before: &str, after: &str) -> bool {
    if begins_with_one_of(&EITHER, after) || begins_with_one_of(&AFTER, after) || is_han_label_after(after) {
        return true;
    }
    let word = first_word(after);
    let rest = after.get(word.len()..).unwrap_or_default();
    if has(&TIMES, word) {
        return has(&VIEWED, last_word(before)) || has(&VIEWED, first_word(skip(rest, char::is_whitespace)));
    }
    let rest = skip_preposition(skip(rest, |c| c == '.' || c.is_whitespace()));
    is_minutes(word) && (begins_with_one_of(&READING, rest) || ends_with_one_of(&READING, before))
}

/// Leaves out the multiplier that a text begins with, and what may follow it.
fn without_multiplier(after: &str) -> Option<&str> {
    let touching = after.strip_prefix(['千', '万', '萬', '亿', '億', '천', '만']);
    let rest = touching.or_else(|| {
        let word = first_word(after);
        let rest = after.get(word.len()..).filter(|_| has(&MULTIPLIERS, word) || word == "de")?;
        Some(rest.strip_prefix('.').unwrap_or(rest))
    })?;
    Some(skip_preposition(skip(rest.strip_prefix('+').unwrap_or(rest), is_beside)))
}

fn is_cjk(c: char) -> bool {
    is_han(c) || matches!(c, '\u{3040}'..='\u{30ff}')
}

fn is_han_label_before(text: &str) -> bool {
    let is_word = |rest: &str| !rest.ends_with(is_han);
    // Nearly all of them differ in the last byte.
    let last = text.as_bytes().last();
    text.ends_with(|c| is_cjk(c) || c == '!')
        && (HAN_BEFORE.iter().any(|label| label.as_bytes().last() == last && text.ends_with(label))
            || HAN_WORDS_BEFORE.iter().any(|label| text.strip_suffix(label).is_some_and(is_word)))
}

fn is_han_label_after(text: &str) -> bool {
    let is_word = |rest: &str| !rest.starts_with(is_han);
    text.starts_with(is_cjk)
        && (HAN_AFTER.iter().any(|label| text.starts_with(label))
            || HAN_WORDS_AFTER.iter().any(|label| text.strip_prefix(label).is_some_and(is_word)))
}

/// Returns whether a number is the year, or a range of years, of a copyright notice: `© 2024`, `(c) 2020-2024`.
fn is_copyright_year(before: &str, number: &str, after: &str) -> bool {
    let is_year = |part: &str| part.len() == 4 && matches!(part.get(..2), Some("19" | "20"));
    let before = skip_back(before, char::is_whitespace);
    let is_notice = |before: &str| ["©", "(c)", "copyright", "版权所有"].iter().any(|sign| before.ends_with(sign));
    // In `© 2020 - 2024`, each year is a number.
    let first_year = || {
        let rest = skip_back(before.strip_suffix(['-', '–', '—'])?, char::is_whitespace);
        let (rest, year) = rest.split_at_checked(rest.len().checked_sub(4)?)?;
        is_year(year).then(|| skip_back(rest, char::is_whitespace))
    };
    number.split(['-', '–', '—', ',']).take(3).all(is_year)
        && (is_notice(before)
            || first_year().is_some_and(is_notice)
            || skip(after, char::is_whitespace).starts_with('©'))
}

#[cfg(test)]
mod tests {
    use super::super::numbers::numbers_in;
    use super::super::words::assert_sorted;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lists_are_sorted() {
        assert_sorted(&[&EITHER, &AFTER, &BEFORE, &VIEWED, &TIMES, &READING, &MULTIPLIERS]);
    }

    #[test]
    fn counters_and_licences_are_none() {
        for text in [
            "阅读 12345",
            "阅读量：12345",
            "浏览次数(88)",
            "56条评论",
            "评论 (7)",
            "1,234 views",
            "views: 1,234",
            "3 comments",
            "京icp备12345678号",
            "京公网安备 11010802012345号",
            "the harbour[1] was closed[12]",
        ] {
            assert_eq!(numbers_in(text), [""; 0], "{text}");
        }
        for text in
            ["[1000]", "[12 cm]", "阅读理解 12 题", "56 commentators", "reviews 12", "12 overviews", "12 条", "icp 12"]
        {
            assert_eq!(numbers_in(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn counters_of_many_languages_are_no_numbers() {
        for text in [
            "read 12045 times",
            "4 min read",
            "4-min read",
            "318 retweets",
            "12.4k views",
            "100+ comments",
            "views: 12.4k",
            "1.234 aufrufe",
            "12 tsd. aufrufe",
            "kommentare (56)",
            "56 kommentare",
            "kommentar: 1",
            "1234 mal gelesen",
            "1.234-mal gelesen",
            "gelesen 1234x",
            "lesezeit: 4 min",
            "4 min. lesezeit",
            "1 234 vues",
            "vues : 12 234 567",
            "12 commentaires",
            "318 j'aime",
            "lu 1234 fois",
            "temps de lecture : 4 min",
            "4 min de lecture",
            "1.234 visualizaciones",
            "318 me gusta",
            "2 millones de reproducciones",
            "visitas: 1234",
            "leído 1234 veces",
            "1,2 mil visualizações",
            "56 comentários",
            "318 curtidas",
            "1.234 visualizzazioni",
            "318 mi piace",
            "1.234 weergaven",
            "56 reacties",
            "1234 keer bekeken",
            "1234 wyświetleń",
            "2 tys. wyświetleń",
            "56 komentarzy",
            "3 komentarze",
            "1234 просмотра",
            "12,4 тыс. просмотров",
            "просмотров: 1234",
            "56 комментариев",
            "прочитано 1234 раза",
            "1234 перегляди",
            "56 коментарів",
            "1.234 görüntülenme",
            "56 yorum",
            "1.234 kez okundu",
            "1234 zobrazení",
            "komentáře (56)",
            "přečteno 1234x",
            "1234 visningar",
            "56 kommentarer",
            "svar: 12",
            "12 svar",
            "1234 visninger",
            "1234 katselukertaa",
            "56 kommenttia",
            "luettu 1234 kertaa",
            "1234 megtekintés",
            "56 hozzászólás",
            "123 de vizualizări",
            "56 comentarii",
            "1.234 kali dilihat",
            "56 komentar",
            "1.234 lượt xem",
            "56 bình luận",
            "bình luận (56)",
            "조회수 1234",
            "조회 1,234",
            "조회수 1.2만회",
            "댓글 56개",
            "56개의 댓글",
            "좋아요 318",
            "閲覧数 1234",
            "1.2万回再生",
            "コメント 56",
            "56件のコメント",
            "いいね! 318",
            "1234 مشاهده",
            "التعليقات (5)",
            "赞 318",
            "318赞",
            "点赞 318",
            "12045次播放",
            "1.2万次播放",
            "1.2万阅读",
            "10w+阅读",
            "318人参与",
            "粉丝 318",
            "© 2024",
            "(c) 2020-2024",
            "© 2020–2024",
            "© 2020 - 2024",
            "copyright 2024",
            "copyright © 2024",
        ] {
            assert_eq!(numbers_in(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn facts_of_articles_are_numbers() {
        for text in [
            "500 besucher",
            "vor 500 zuschauern",
            "318 votes",
            "2000 subscribers",
            "read 12 books",
            "played 12 times",
            "12 lectures",
            "4 min walk",
            "lecture de 12 pages",
            "3 visitas de estado",
            "chia sẻ 3 bí quyết",
            "trả lời 3 câu hỏi",
            "antworten 3 von vielen",
            "500 leser der zeitung",
            "12 mil personas",
            "12k runners",
            "12 viewsx",
            "12 mi",
            "12 me",
            "신용조회 3회",
            "차량공유 3사",
            "シェア12%",
            "称赞 3 名",
            "12赞助商",
            "318人参与投票",
            "1.2万名",
            "in 2024",
            "(b) 2024",
            "© 12",
            "500 посетителей",
            "12 голосов",
        ] {
            assert_eq!(numbers_in(text).len(), 1, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_beside_a_number_is_searched(before in ".{0,20}", after in ".{0,20}",
                                                marks in "[a-zя한万赞の:() .+'-]{0,20}") {
            for (before, after) in [(&before, &after), (&marks, &after), (&before, &marks), (&marks, &marks)] {
                let text = format!("{before}12{after}");
                is_counter(&text, &(before.len()..before.len() + 2));
            }
        }
    }
}
