//! The corpus: pages of every kind that are fixed for good.
//!
//! The texts are files of `tests/golden/scheme`; this module combines them to pages. Both are frozen: pages that
//! change or disappear cannot show any more that their fingerprints are the same. Add pages as a group of their own.

use dupgate::record::Format;

const PASSAGES: &str = include_str!("../../golden/scheme/passages.txt");
const LAYOUTS: &str = include_str!("../../golden/scheme/layouts.txt");
const TITLES: &str = include_str!("../../golden/scheme/titles.txt");
const ADDRESSES: &str = include_str!("../../golden/scheme/addresses.txt");
const SHORT: &str = include_str!("../../golden/scheme/short.txt");
const NUMBERS: &str = include_str!("../../golden/scheme/numbers.txt");
const DATES: &str = include_str!("../../golden/scheme/dates.txt");
const CHARACTERS: &str = include_str!("../../golden/scheme/characters.txt");
const ENCODINGS: &str = include_str!("../../golden/scheme/encodings.txt");

/// One record, and the format in which it is read.
pub(super) struct Page {
    pub(super) format: Format,
    pub(super) value: Vec<u8>,
    pub(super) content_type: Option<String>,
}

/// Pages of one kind.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) pages: Vec<Page>,
}

/// Returns all pages.
pub(super) fn groups() -> Vec<Group> {
    let json = |name, pages: Vec<String>| {
        let page = |value: String| Page { format: Format::Json, value: value.into_bytes(), content_type: None };
        Group { name, pages: pages.into_iter().map(page).collect() }
    };
    vec![
        json("texts", texts()),
        json("html", html()),
        json("titles", titles()),
        json("addresses", addresses()),
        json("numbers", numbers()),
        json("short", short()),
        json("characters", characters()),
        json("json", odd_json()),
        json("long", long()),
        Group { name: "encodings", pages: encodings() },
    ]
}

/// A linear congruential generator, here so that no other code changes the pages.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one_of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn of_text(number: usize, text: &str) -> String {
    format!(r#"{{"url":"https://www.example.com/t/{number}","text":{}}}"#, quoted(text))
}

fn passages() -> Vec<&'static str> {
    PASSAGES.trim_end().split("\n\n").collect()
}

/// Passages, their parts, and passages of several languages in one page.
fn texts() -> Vec<String> {
    let (passages, mut chance) = (passages(), Chance(1));
    let mut texts: Vec<String> = passages.iter().map(|&passage| passage.to_owned()).collect();
    for passage in &passages {
        let letters: Vec<char> = passage.chars().collect();
        texts.push(letters[..letters.len() / 2].iter().collect());
        texts.push(letters[letters.len() / 3..].iter().collect());
        texts.push(letters.iter().rev().collect());
        texts.push(passage.to_uppercase());
        texts.push([*passage; 3].join("\n\n"));
    }
    for count in 0..600 {
        let mut parts: Vec<&str> = (0..2 + count % 4).map(|_| chance.one_of(&passages)).collect();
        if count % 3 == 0 {
            parts.push(parts[0]);
        }
        texts.push(parts.join(if count % 2 == 0 { "\n\n" } else { " " }));
    }
    texts.iter().enumerate().map(|(number, text)| of_text(number, text)).collect()
}

/// Every layout with passages of several languages.
fn html() -> Vec<String> {
    let (passages, titles, mut chance) = (passages(), TITLES.lines().collect::<Vec<_>>(), Chance(2));
    let layouts = LAYOUTS.split("=== ").skip(1).map(|layout| layout.split_once('\n').unwrap().1);
    let mut pages = Vec::new();
    for layout in layouts {
        for number in 0..24 {
            let html = layout
                .replace("{title}", chance.one_of(&titles))
                .replace("{number}", &number.to_string())
                .replace("{a}", chance.one_of(&passages))
                .replace("{b}", chance.one_of(&passages))
                .replace("{c}", chance.one_of(&passages));
            let url = chance.one_of(&["https://www.example.org/", "https://shop.example.co.uk/p/", "news/"]);
            pages.push(format!(r#"{{"url":"{url}{number}","html":{}}}"#, quoted(&html)));
        }
    }
    let nested = ["<div>", "<span><b>", "<ul><li>", "<table><tr><td>"];
    for open in nested {
        for depth in [100, 511, 513, 1000] {
            let html = format!("<title>Nested</title>{}{}", open.repeat(depth), passages[depth % passages.len()]);
            pages.push(format!(r#"{{"url":"https://www.example.org/{depth}","html":{}}}"#, quoted(&html)));
        }
    }
    pages
}

/// Titles as an HTML page, each with two addresses.
fn titles() -> Vec<String> {
    let (passages, mut chance) = (passages(), Chance(3));
    let mut pages = Vec::new();
    for title in TITLES.lines() {
        for host in ["www.example.com", "example.de"] {
            let html = format!(
                "<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{}</p></body></html>",
                chance.one_of(&passages)
            );
            pages.push(format!(r#"{{"url":"https://{host}/","html":{}}}"#, quoted(&html)));
        }
    }
    pages
}

/// Addresses as ids, as the page's address beside another id, and as canonical addresses.
fn addresses() -> Vec<String> {
    let text = passages()[0];
    let mut pages = Vec::new();
    for address in ADDRESSES.lines() {
        let (quoted_address, text) = (quoted(address), quoted(text));
        pages.push(format!(r#"{{"url":{quoted_address},"text":{text}}}"#));
        pages.push(format!(r#"{{"url":"4711","at":{quoted_address},"text":{text}}}"#));
        let html = quoted(&format!(r#"<link rel=canonical href="{address}"><p>{text}</p>"#));
        pages.push(format!(r#"{{"url":"https://www.example.com/a/b","html":{html},"scope":{quoted_address}}}"#));
    }
    pages
}

/// Templates of reports with many numbers and dates.
fn numbers() -> Vec<String> {
    let (dates, mut chance) = (DATES.lines().collect::<Vec<_>>(), Chance(4));
    let mut texts = Vec::new();
    for template in NUMBERS.lines() {
        for _ in 0..20 {
            let date = chance.one_of(&dates).replace("{d}", &(1 + chance.below(28)).to_string());
            let mut text = template.replace("{date}", &date);
            for field in ["{n}", "{m}", "{p}", "{q}"] {
                text = text.replace(field, &(10 + chance.below(80)).to_string());
            }
            texts.push(text);
        }
    }
    texts.iter().enumerate().map(|(number, text)| of_text(number, text)).collect()
}

/// Short texts, alone, doubled, and as HTML.
fn short() -> Vec<String> {
    let mut pages = Vec::new();
    for (number, text) in SHORT.lines().chain([""]).enumerate() {
        pages.push(of_text(number, text));
        pages.push(of_text(number, &format!("{text} {text}")));
        pages.push(format!(r#"{{"url":"{number}","html":{}}}"#, quoted(&format!("<p>{text}</p>"))));
    }
    pages
}

/// All characters that are assigned, in words of four.
fn characters() -> Vec<String> {
    let ranges = CHARACTERS.lines().map(|line| {
        let (first, last) = line.split_once('-').unwrap();
        let code = |hex| u32::from_str_radix(hex, 16).unwrap();
        code(first)..=code(last)
    });
    let all: Vec<char> = ranges.flatten().filter_map(char::from_u32).collect();
    let text = |block: &[char]| {
        let words: Vec<String> = block.chunks(4).map(|word| word.iter().collect()).collect();
        words.join(" ")
    };
    all.chunks(256).enumerate().map(|(number, block)| of_text(number, &text(block))).collect()
}

/// Fields that are missing, empty, doubled, escaped, of another type, or no JSON at all.
fn odd_json() -> Vec<String> {
    let (text, html) = (quoted(passages()[14]), quoted(&format!("<p>{}</p>", passages()[1])));
    let mut pages: Vec<String> = [
        r#"{"text":T}"#,
        r#"{"url":null,"text":T}"#,
        r#"{"url":17,"text":T}"#,
        r#"{"url":1.50,"text":T}"#,
        r#"{"url":true,"text":T}"#,
        r#"{"url":"","text":T}"#,
        r#"{"url":" https://www.example.com/x ","text":T}"#,
        r#"{"url":["a"],"text":T}"#,
        r#"{"url":"a"}"#,
        r#"{"url":"a","text":null,"html":H}"#,
        r#"{"url":"a","text":"","html":H}"#,
        r#"{"url":"a","text":"  ","html":H}"#,
        r#"{"url":"a","text":T,"html":H}"#,
        r#"{"url":"a","text":T,"text":"other"}"#,
        r#"{"url":"a","text":7}"#,
        r#"{"url":"a","text":["x","y"]}"#,
        r#"{"url":"a","html":{"body":H}}"#,
        r#"{"url":"a","text":"\u4e2d\u6587 \ud83d\ude00 \u0000 \n\t\/ \u00e9 e\u0301"}"#,
        r#"{"url":"a","text":"\ud83d alone"}"#,
        r#"{"url":"a","text":T,"scope":"s","at":"https://example.com/y","canonical":"https://example.com/z","t":1773476865000}"#,
        r#"{"url":"a","text":T,"t":"2026-03-14T08:27:45Z"}"#,
        r#"{"url":"a","text":T,"t":"2026-03-14T08:27:45.123+08:00"}"#,
        r#"{"url":"a","text":T,"t":"yesterday"}"#,
        r#"{"url":"a","text":T,"t":-1}"#,
        r#"{"url":"a","text":T,"t":1.5e12}"#,
        r#"{"url":"a","text":T"#,
        r#"{"url":"a","text":T} trailing"#,
        r#" {"url" : "a" , "text" : T } "#,
        r#"[{"url":"a","text":T}]"#,
        r#""text""#,
        "null",
        "",
        "plain text, no JSON",
    ]
    .map(|page| page.replace('T', &text).replace('H', &html))
    .into();
    for depth in [100, 511, 513, 5000] {
        pages.push(format!(r#"{{"url":"a","text":{text},"more":{}{}}}"#, "[".repeat(depth), "]".repeat(depth)));
    }
    pages
}

/// Texts around the limit of what is read of a page.
fn long() -> Vec<String> {
    let passages = passages();
    let of = |passages: &[&str], bytes: usize| {
        let mut text = passages.join("\n").repeat(1 + bytes / 10_000);
        text.truncate(text.floor_char_boundary(bytes));
        text
    };
    let mut pages = Vec::new();
    for (number, bytes) in [100_000, 262_143, 262_144, 262_145, 400_000].into_iter().enumerate() {
        pages.push(of_text(number, &of(&passages, bytes)));
    }
    let html = format!("<article><p>{}</p></article>", of(&passages[14..30], 60_000).replace('\n', "</p><p>"));
    pages.push(format!(r#"{{"url":"https://www.example.org/long","html":{}}}"#, quoted(&html)));
    pages
}

/// Texts in many encodings: declared by a header, by the page, wrongly and not at all.
fn encodings() -> Vec<Page> {
    let mut pages = Vec::new();
    for line in ENCODINGS.lines() {
        let (label, hex) = line.split_once(' ').unwrap();
        let bytes = dupgate_testkit::hex::records(hex).concat();
        for format in [Format::Text, Format::Html] {
            for content_type in [None, Some(label), Some("iso-8859-1"), Some("utf-8")] {
                let content_type = content_type.map(|label| format!("text/html; charset={label}"));
                pages.push(Page { format, value: bytes.clone(), content_type });
            }
        }
        for declared in [label, "iso-8859-1"] {
            let head = format!(r#"<html><head><meta charset="{declared}"><title>"#).into_bytes();
            let value = [head, bytes[..bytes.len() / 4 * 2].to_vec(), b"</title></head><body>".to_vec(), bytes.clone()];
            pages.push(Page { format: Format::Html, value: value.concat(), content_type: None });
        }
    }
    pages
}
