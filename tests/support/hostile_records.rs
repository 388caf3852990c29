//! Records and pages that no crawler should send, each with the verdict or the reason of its dead letter.

use serde_json::json;

/// A name, the record, and its verdict or reason.
pub(crate) type Hostile = (&'static str, Vec<u8>, &'static str);

/// All of them. Some are megabytes long.
pub(crate) fn all() -> Vec<Hostile> {
    [records(), texts(), pages()].concat()
}

/// A text without similarity to any other.
fn words(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + u8::try_from(state % 26).unwrap())
    };
    let mut word = || (0..7).map(|_| letter()).collect::<String>();
    (0..40).map(|_| word()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    json!({"text": text}).to_string().into_bytes()
}

fn html(html: &str) -> Vec<u8> {
    json!({"html": html}).to_string().into_bytes()
}

/// A JSON text with a text beside another member.
fn beside(other: &str, seed: u64) -> Vec<u8> {
    format!(r#"{{"text":"{}",{other}}}"#, words(seed)).into_bytes()
}

fn nested(open: &str, close: &str, levels: usize, seed: u64) -> Vec<u8> {
    html(&[&open.repeat(levels), "<p>", &words(seed), "</p>", &close.repeat(levels)].concat())
}

/// Faults of the bytes or the JSON of a page.
fn records() -> Vec<Hostile> {
    let lists = |levels: usize| format!(r#""links":{}{}"#, "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!(r#""links":{}0{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
    vec![
        ("invalid utf-8", b"{\"text\":\"caf\xe9 noir\"}".to_vec(), "undecodable"),
        ("utf-16", "{\"text\":\"a\"}".encode_utf16().flat_map(u16::to_le_bytes).collect(), "undecodable"),
        ("a nul byte in a text", b"{\"text\":\"one\0two\"}".to_vec(), "undecodable"),
        ("nul bytes alone", vec![0; 4096], "undecodable"),
        ("a lone surrogate", br#"{"text":"half of a pair \ud83d and no more"}"#.to_vec(), "unique"),
        ("surrogates the wrong way round", br#"{"text":"\udc00\ud800"}"#.to_vec(), "unique"),
        ("an escape that is cut", br#"{"text":"\u00"}"#.to_vec(), "undecodable"),
        ("half of an object", br#"{"text":"one two"#.to_vec(), "undecodable"),
        ("two objects", br#"{"text":"a"}{"text":"b"}"#.to_vec(), "undecodable"),
        ("no JSON", b"<html><p>hello</p></html>".to_vec(), "undecodable"),
        ("not a number", br#"{"text":"a","n":NaN}"#.to_vec(), "unique"),
        ("lists of 100,000 levels", beside(&lists(100_000), 1), "too_deep"),
        ("objects of 100,000 levels", beside(&objects(100_000), 2), "too_deep"),
        ("lists that are never closed", "[".repeat(1_000_000).into_bytes(), "too_deep"),
        ("lists of 200 levels", beside(&lists(200), 3), "unique"),
        ("nothing in it", b"{}".to_vec(), "missing_field"),
        ("a list", b"[1,2,3]".to_vec(), "missing_field"),
        ("a text that is nothing", br#"{"text":null}"#.to_vec(), "missing_field"),
        ("a number for a text", br#"{"text":42}"#.to_vec(), "wrong_type"),
        ("a list for a text", br#"{"text":["a","b"]}"#.to_vec(), "unique"),
        ("a list of numbers for a text", br#"{"text":["a",1]}"#.to_vec(), "wrong_type"),
        ("an object for HTML", br#"{"html":{"a":1}}"#.to_vec(), "wrong_type"),
        ("an object for an id", br#"{"url":{},"text":"a"}"#.to_vec(), "wrong_type"),
        ("a huge number beside it", beside(r#""n":1e999999999"#, 4), "unique"),
        ("a number of a million digits beside it", beside(&format!(r#""n":{}"#, "7".repeat(1_000_000)), 5), "unique"),
        (
            "100,000 members",
            beside(&(0..100_000).map(|n| format!(r#""m{n}":{n}"#)).collect::<Vec<_>>().join(","), 6),
            "unique",
        ),
        ("a text twice, the last one counts", beside(&format!(r#""text":"{}""#, words(7)), 8), "unique"),
        ("the text that counted", text(&words(7)), "exact"),
        ("the text that did not", text(&words(8)), "unique"),
    ]
}

/// Faults of the text.
fn texts() -> Vec<Hostile> {
    let base64 = "aGVsbG8gd29ybGQhIGJhc2U2NA".repeat(160_000);
    vec![
        ("an empty text", text(""), "no_text"),
        (
            "white space of all kinds",
            text(&" \t\r\n\u{b}\u{c}\u{85}\u{a0}\u{2028}\u{2029}\u{3000}\u{feff}".repeat(100)),
            "no_text",
        ),
        ("a million spaces that are nothing", text(&"\u{200b}\u{ad}\u{2060}\u{feff}".repeat(250_000)), "no_text"),
        ("spaces that are nothing between all letters", text(&words(20).replace("", "\u{200b}")), "unique"),
        ("the same without them", text(&words(20)), "exact"),
        ("a byte order mark in front", text(&format!("\u{feff}{}", words(20))), "exact"),
        ("nul characters between words", text(&words(21).replace(' ', " \0 ")), "unique"),
        ("right-to-left overrides", text(&words(22).replace(' ', " \u{202e}\u{202d}\u{2066}")), "unique"),
        ("a letter with 500,000 accents", text(&format!("{} a{}", words(23), "\u{301}".repeat(500_000))), "unique"),
        ("emoji alone", text(&"👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪".repeat(2_000)), "unique"),
        ("punctuation alone", text(&"!?… —".repeat(20_000)), "unique"),
        ("four megabytes of base64 that no setting names", text(&base64), "undecodable"),
        ("one word 100,000 times", text(&"harbour ".repeat(100_000)), "unique"),
        ("one word of five megabytes", text(&"x".repeat(5_000_000)), "unique"),
        ("a million Han characters without an end", text(&"深海珊瑚研究人员".repeat(125_000)), "unique"),
        (
            "numbers of 100,000 digits",
            text(&format!("{} {}", words(24), "1234567890 ".repeat(10) + &"9".repeat(100_000))),
            "unique",
        ),
        ("dates and times without end", text(&"2026-11-23 14:06:00 12:30 1.000.000,00 ".repeat(20_000)), "unique"),
        ("addresses without end", text(&format!("{} {}", words(25), "https://a.example/?q=".repeat(50_000))), "unique"),
    ]
}

/// Faults of the HTML.
fn pages() -> Vec<Hostile> {
    let attribute = "x".repeat(10_000_000);
    let attributes = (0..100_000).map(|n| format!(" a{n}=1")).collect::<Vec<_>>().concat();
    let thousands = |name: &str| {
        let tag =
            |of: usize| format!("<{name}{}>", (0..1000).map(|n| format!(" a{of}x{n}")).collect::<Vec<_>>().concat());
        (0..190).map(tag).collect::<Vec<_>>().concat()
    };
    let notice = "<p>We and our partners use cookies; you consent to it or manage your choices and settings.</p>";
    vec![
        ("600 divs", nested("<div>", "</div>", 600, 40), "unique"),
        ("200 divs", nested("<div>", "</div>", 200, 41), "unique"),
        ("100,000 divs that are never closed", nested("<div>", "", 100_000, 42), "unique"),
        ("10,000 lists in lists", nested("<ul><li>", "", 10_000, 43), "unique"),
        ("10,000 tables in tables", nested("<table><tr><td>", "", 10_000, 44), "unique"),
        ("10,000 templates in templates", nested("<template>", "", 10_000, 45), "no_text"),
        ("10,000 drawings in drawings", nested("<svg><g>", "", 10_000, 46), "no_text"),
        (
            "400 fonts before 4,000 paragraphs",
            html(&format!(
                "{}{}{}",
                (0..400).map(|n| format!("<font size={n}>")).collect::<Vec<_>>().concat(),
                words(47),
                "<p>a".repeat(4_000)
            )),
            "unique",
        ),
        (
            "100 bold words that cross paragraphs",
            html(&format!("{}{}", words(48), "<b><p></b><i></p>".repeat(100))),
            "unique",
        ),
        (
            "3,000 links that are never closed",
            html(&format!("<p>{}</p>{}", words(49), "<a href=x><p>".repeat(3_000))),
            "unique",
        ),
        ("an attribute of ten megabytes", html(&format!("<p title=\"{attribute}\">{}</p>", words(50))), "unique"),
        (
            "an attribute that never ends",
            html(&format!("<p>{}</p><p title=\"{}", words(51), &attribute[..1_000_000])),
            "unique",
        ),
        ("100,000 attributes", html(&format!("<p{attributes}>{}</p>", words(52))), "unique"),
        ("190 bodies of 1,000 attributes", html(&format!("<p>{}</p>{}", words(63), thousands("body"))), "unique"),
        (
            "190 fonts of 1,000 attributes in each paragraph",
            html(&format!("<p>{}{}{}{}", words(64), thousands("font"), "<p>a".repeat(3_000), "<".repeat(12_000))),
            "unique",
        ),
        (
            "50,000 fonts after some of 1,000 attributes",
            html(&format!("<p>{}{}{}", words(65), thousands("font"), "<font>a</font>".repeat(40_000))),
            "unique",
        ),
        (
            "two million end tags under 500 bold ones",
            html(&format!("<p>{}</p>{}{}", words(66), "<b>".repeat(500), "</i>".repeat(2_000_000))),
            "unique",
        ),
        ("a comment that never ends", html(&format!("<p>{}</p><!-- {}", words(53), "-".repeat(1_000_000))), "unique"),
        ("a script that never ends", html(&format!("<script>{}", "var a = '<p>';".repeat(50_000))), "no_text"),
        (
            "plain text to the end",
            html(&format!("<p>{}<plaintext>{}", words(67), "</p><b>x ".repeat(50_000))),
            "unique",
        ),
        ("20,000 frames", html(&format!("<frameset>{}", "<frame src=a.html>".repeat(20_000))), "no_text"),
        (
            "5,000 frames within the page",
            html(&format!("<p>{}</p>{}", words(54), "<iframe src=a></iframe>".repeat(5_000))),
            "unique",
        ),
        ("50,000 options", html(&format!("<p>{}</p><select>{}", words(55), "<option>a".repeat(50_000))), "unique"),
        (
            "text between the cells of 20,000 tables",
            html(&format!("<p>{}</p>{}", words(56), "<table>x<b>".repeat(20_000))),
            "unique",
        ),
        ("an entity within an entity", html(&format!("<p>{} &{}lt;</p>", words(57), "amp;".repeat(200_000))), "unique"),
        (
            "100,000 entities",
            html(&format!(
                "<p>{}{}</p>",
                words(58),
                "&#x110000;&#0;&#99999999999999;&CounterClockwiseContourIntegral;&#xD800;".repeat(20_000)
            )),
            "unique",
        ),
        (
            "an image of four megabytes",
            html(&format!("<p>{}<img src=\"data:image/png;base64,{}\"></p>", words(59), "iVBORw0KGgo".repeat(400_000))),
            "unique",
        ),
        ("nul characters in tags", html(&format!("<p\0 ti\0tle=x>{}</p\0>", words(60))), "unique"),
        ("a million less-than signs", html(&format!("<p>{}</p>{}", words(61), "<".repeat(1_000_000))), "unique"),
        ("a megabyte of end tags", html(&format!("<p>{}</p>{}", words(62), "</p></div></b>".repeat(70_000))), "unique"),
        ("markup and no text", html(&"<p><br><hr>".repeat(5_000)), "no_text"),
        (
            "a page of notices about cookies",
            html(&format!("<article>{}</article>{}", notice.repeat(8), format!("<div>{notice}</div>").repeat(4_000))),
            "unique",
        ),
    ]
}
