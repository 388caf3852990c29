//! Pages that join, digest or frame others: what each kind gets under the defaults, as `docs/QUALITY.md` says.
//!
//! All pages are of one site without an address, in its navigation and above its footer.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::crawl::{Prose, Rng};
use dupgate_core::deduplicator::{Deduplicator, DeduplicatorSettings};
use dupgate_core::fingerprint::{Fingerprinter, Scratch, Settings};
use dupgate_core::protocol::Rules;
use dupgate_core::record::{EventTime, InputSettings, PartitionId, RawRecord, Timestamp};
use dupgate_core::text;

/// A site in one language, and the content of its pages.
struct Site {
    prose: Prose,
    is_chinese: bool,
    frame: [String; 2],
}

impl Site {
    fn new(is_chinese: bool) -> Self {
        let prose = Prose::new();
        let letters = if is_chinese { 60 } else { 160 };
        let frame = [1, 2].map(|number| prose.links(is_chinese, letters, &mut Rng::of(number, 0, 0)));
        Self { prose, is_chinese, frame }
    }

    /// A page with this between navigation and footer.
    fn page(&self, main: &str) -> String {
        let [menu, footer] = self.frame.each_ref().map(|links| items(links.lines()));
        format!(
            "<html><body><nav><ul>{menu}</ul></nav><main>{main}</main><footer><ul>{footer}</ul></footer></body></html>"
        )
    }

    /// The text of an article, by its number.
    fn article(&self, number: u64) -> String {
        let letters = if self.is_chinese { 700 } else { 2400 };
        self.prose.text(self.is_chinese, letters, &mut Rng::of(3, number, 0))
    }

    /// A headline, by its number.
    fn headline(&self, number: u64) -> String {
        let letters = if self.is_chinese { 22 } else { 60 };
        self.prose.text(self.is_chinese, letters, &mut Rng::of(4, number, 0)).replace('\n', "")
    }

    /// A list of headlines, by their numbers.
    fn list(&self, numbers: Range<u64>) -> String {
        self.page(&format!("<ul>{}</ul>", items(numbers.map(|number| self.headline(number)))))
    }

    /// A page of a thread: its title, and posts by their numbers.
    fn thread(&self, posts: Range<u64>) -> String {
        let letters = if self.is_chinese { 90 } else { 240 };
        let post = |number| self.prose.text(self.is_chinese, letters, &mut Rng::of(5, number, 0));
        let posts = concat(posts.map(|number| format!("<div class=\"post\"><p>{}</p></div>", post(number))));
        self.page(&format!("<h1>{}</h1>{posts}", self.headline(0)))
    }

    /// A headline above a frame with another page in it.
    fn framed(&self, number: u64) -> String {
        self.page(&format!("<h1>{}</h1><iframe src=\"/{number}\"></iframe>", self.headline(number)))
    }

    /// A page of paragraphs.
    fn text(&self, paragraphs: &[String]) -> String {
        let all = concat(paragraphs.iter().flat_map(|text| text.lines()).map(|line| format!("<p>{line}</p>")));
        self.page(&format!("<article>{all}</article>"))
    }

    /// The weather of a day in eight cities: lowest and highest temperature and the wind, in small numbers or, in
    /// English, in Fahrenheit and miles an hour.
    fn weather(&self, day: u64) -> String {
        let mut rng = Rng::of(6, day, 0);
        let cities = if self.is_chinese {
            ["北京", "上海", "广州", "成都", "西安", "武汉", "沈阳", "昆明"]
        } else {
            ["London", "Leeds", "Bristol", "York", "Cardiff", "Belfast", "Glasgow", "Dover"]
        };
        let (words, scale) = if self.is_chinese {
            (["度至", "度，风力", "级"], 1)
        } else {
            ([" to ", " degrees, wind ", " mph"], 6)
        };
        let row = |city| {
            let [low, more, wind] =
                [(2, 9), (4, 9), (2, 6)].map(|(least, most)| rng.between(least * scale, most * scale));
            let [to, degrees, force] = words;
            format!("<tr><td>{city}</td><td>{low}{to}{}{degrees}{wind}{force}</td></tr>", low + more)
        };
        self.page(&format!("<table>{}</table>", cities.map(row).concat()))
    }
}

/// The verdict on the last of these pages, whose addresses are these, by their numbers.
fn verdict(pages: &[String], address: impl Fn(i64) -> Option<String>) -> String {
    let one = NonZeroUsize::MIN;
    let (input, text, fingerprint) = (InputSettings::default(), text::Settings::default(), Settings::default());
    let reader = Fingerprinter::new(&input, &text, &fingerprint, one).unwrap();
    let clock = Timestamp::from_millis(i64::MAX / 2);
    let mut judge = Deduplicator::new(DeduplicatorSettings {
        rules: Rules { max_entries: 64, ..Rules::default() },
        event_time: EventTime::Record,
        partitions: one,
        clock,
    });
    let (mut scratch, mut verdict) = (Scratch::default(), String::new());
    for (offset, html) in (0..).zip(pages) {
        let value = serde_json::json!({"url": address(offset), "html": html}).to_string();
        let record = RawRecord { key: None, value: Some(value.as_bytes()), headers: &() };
        let place = PartitionId::new("pages", 0).at(offset);
        verdict = judge.judge(place, reader.read(&record, &mut scratch)).unwrap().verdict.name().to_owned();
    }
    verdict
}

/// Writes each of these as an item of a list, which is a link.
fn items(links: impl Iterator<Item: std::fmt::Display>) -> String {
    concat(links.map(|link| format!("<li><a>{link}</a></li>")))
}

/// Joins texts without anything between them.
fn concat(texts: impl Iterator<Item = String>) -> String {
    texts.collect()
}

/// The first or the second half of a text.
fn half(text: &str, second: bool) -> String {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (one, other) = text.split_at(middle);
    if second { other } else { one }.to_owned()
}

/// The kinds of pages, each with what is known before it, and its verdicts in Chinese and in English.
fn kinds(site: &Site) -> Vec<(&'static str, Vec<String>, &'static str, &'static str)> {
    let article = |number| site.article(number);
    let alone = |number| site.text(&[site.article(number)]);
    let six: Vec<String> = (0..6).map(article).collect();
    let six_alone = || (0..6).map(alone);
    let digest: Vec<String> =
        six.iter().map(|text| text.chars().take(if site.is_chinese { 70 } else { 240 }).collect()).collect();
    let whole = article(20);
    let with = |known: Vec<String>, page: String| known.into_iter().chain([page]).collect::<Vec<_>>();
    vec![
        ("a front page with a tenth of its headlines new", vec![site.list(0..30), site.list(3..33)], "near", "near"),
        (
            "a front page with three fifths of its headlines new",
            vec![site.list(0..30), site.list(18..48)],
            "unique",
            "unique",
        ),
        (
            "the list of another section",
            vec![site.list(100..130), site.list(200..230), site.list(300..330)],
            "unique",
            "unique",
        ),
        (
            "the fifth page of a thread",
            (0..5).map(|page| site.thread(page * 10..page * 10 + 10)).collect(),
            "unique",
            "unique",
        ),
        ("the last page of a thread with two posts more", vec![site.thread(0..10), site.thread(0..12)], "near", "near"),
        ("a digest of six articles", with(six_alone().collect(), site.text(&digest)), "unique", "unique"),
        ("six whole articles", with(six_alone().collect(), site.text(&six)), "unique", "unique"),
        ("two articles that were seen", vec![alone(1), alone(2), site.text(&[article(1), article(2)])], "near", "near"),
        ("two articles, one of which was seen", vec![alone(1), site.text(&[article(1), article(2)])], "near", "near"),
        (
            "an article with a comment",
            vec![alone(1), site.text(&[site.prose.text(site.is_chinese, 60, &mut Rng::of(7, 0, 0)), article(1)])],
            "near",
            "near",
        ),
        (
            "the second half of an article",
            vec![site.text(&[half(&whole, false)]), site.text(&[half(&whole, true)])],
            "unique",
            "unique",
        ),
        (
            "an article of which both halves were seen",
            vec![
                site.text(&[half(&whole, false)]),
                site.text(&[half(&whole, true)]),
                site.text(std::slice::from_ref(&whole)),
            ],
            "near",
            "near",
        ),
        ("a headline above a frame", vec![site.framed(400), site.framed(401)], "near", "near"),
        ("the weather of another day", vec![site.weather(1), site.weather(2)], "near", "unique"),
    ]
}

#[test]
fn each_kind_of_page_gets_what_the_documents_say() {
    let (chinese, english) = (Site::new(true), Site::new(false));
    for ((kind, pages, in_chinese, in_english), (_, others, ..)) in kinds(&chinese).into_iter().zip(kinds(&english)) {
        assert_eq!(verdict(&pages, |_| None), in_chinese, "{kind}, in Chinese");
        assert_eq!(verdict(&others, |_| None), in_english, "{kind}, in English");
    }
}

#[test]
fn pages_without_a_text_of_their_own_are_distinguished_by_their_addresses() {
    for site in [Site::new(true), Site::new(false)] {
        let address = |number: i64| Some(format!("https://news.example/{number}"));
        assert_eq!(verdict(&[site.framed(400), site.framed(401)], address), "unique");
    }
}
