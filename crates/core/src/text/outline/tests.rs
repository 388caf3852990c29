//! Articles in the layouts that site builders make.

use super::super::{Analyzer, Extraction, Settings};
use crate::record::Body;

fn analyzer() -> Analyzer {
    Analyzer::new(&Settings::default()).unwrap()
}

fn extracted(analyzer: &Analyzer, page: &str) -> (String, Extraction) {
    let mut buffer = String::new();
    let normal = analyzer.normalize(&Body::Html(page.into()), &mut buffer).unwrap();
    (normal.text.to_owned(), normal.extraction)
}

/// A sentence like no other.
fn sentence(seed: usize) -> String {
    const WORDS: [&str; 16] = [
        "harbour",
        "council",
        "dredging",
        "spring",
        "report",
        "ferry",
        "channel",
        "sediment",
        "timetable",
        "works",
        "mayor",
        "budget",
        "northern",
        "pier",
        "summer",
        "engineer",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut words: Vec<String> = Vec::new();
    for _ in 0..16 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words.push(format!("{}{}", WORDS[state % WORDS.len()], state / 64 % 97));
    }
    format!("The {}.", words.join(" "))
}

/// The text of a row: `size` sentences.
fn row(seed: usize, size: usize) -> Vec<String> {
    (0..size).map(|at| sentence(seed * 100 + at)).collect()
}

fn paragraphs(row: &[String]) -> String {
    row.chunks(2).map(|pair| format!("<p>{}</p>", pair.join(" "))).collect::<Vec<_>>().concat()
}

/// What is around a row of the article, by its number.
type Layout = fn(usize, &str) -> String;

fn layouts() -> Vec<(&'static str, Layout)> {
    vec![
        ("Tailwind", |_, text| {
            format!(
                "<div class='flex flex-wrap -mx-4'><div class='w-full px-4'><div class='prose'>{text}</div></div></div>"
            )
        }),
        ("Tailwind sections", |at, text| {
            let shade = ["bg-white", "bg-gray-50"][at % 2];
            format!(
                "<section class='py-12 {shade}'><div class='container mx-auto'><div class='max-w-2xl'>{text}</div></div></section>"
            )
        }),
        ("Bootstrap", |_, text| {
            format!(
                "<div class='row'><div class='col-md-4'><img src=a.jpg></div><div class='col-md-8'>{text}</div></div>"
            )
        }),
        ("WPBakery", |_, text| {
            format!(
                "<div class='vc_row wpb_row'><div class='wpb_column vc_column_container'><div class='vc_column-inner'>\
                     <div class='wpb_wrapper'><div class='wpb_text_column wpb_content_element'><div class='wpb_wrapper'>{text}\
                     </div></div></div></div></div></div>"
            )
        }),
        ("Elementor", |_, text| {
            format!(
                "<section class='elementor-section elementor-top-section'><div class='elementor-container'>\
                     <div class='elementor-column elementor-col-100'><div class='elementor-widget-wrap'>\
                     <div class='elementor-element elementor-widget elementor-widget-text-editor'>\
                     <div class='elementor-widget-container'>{text}</div></div></div></div></div></section>"
            )
        }),
        ("Divi", |at, text| {
            format!(
                "<div class='et_pb_section et_pb_section_{at}'><div class='et_pb_row'><div class='et_pb_column et_pb_column_4_4'>\
                     <div class='et_pb_module et_pb_text'><div class='et_pb_text_inner'>{text}</div></div></div></div></div>"
            )
        }),
        ("Gutenberg columns", |_, text| {
            format!(
                "<div class='wp-block-columns'><div class='wp-block-column'>{text}</div>\
                     <div class='wp-block-column'><figure class='wp-block-image'><img src=a.jpg></figure></div></div>"
            )
        }),
        ("AEM", |_, text| {
            format!(
                "<div class='responsivegrid aem-GridColumn'><div class='aem-Grid'><div class='text parbase'>\
                     <div class='cmp-text'>{text}</div></div></div></div>"
            )
        }),
        ("Wix", |at, text| {
            format!(
                "<section id='comp-{at}' class='wixui-section'><div data-testid=columns><div class='wixui-column-strip__column'>\
                     <div class='wixui-rich-text' data-testid=richTextElement>{text}</div></div></div></section>"
            )
        }),
        ("Squarespace", |_, text| {
            format!(
                "<div class='sqs-row row'><div class='col sqs-col-12 span-12'><div class='sqs-block html-block sqs-block-html'>\
                     <div class='sqs-block-content'><div class='sqs-html-content'>{text}</div></div></div></div></div>"
            )
        }),
        ("Webflow", |_, text| {
            format!(
                "<div class='section'><div class='w-container'><div class='w-layout-grid'><div class='w-richtext'>{text}</div></div></div></div>"
            )
        }),
        ("Notion", |_, text| {
            format!(
                "<div class='column-list'><div style='width:50%' class='column'>{text}</div><div style='width:50%' class='column'>\
                     <figure class=image><img src=a.png></figure></div></div>"
            )
        }),
        ("div in div", |_, text| format!("<div><div>{text}</div></div>")),
        ("a table for the layout", |_, text| {
            format!("<table><tr><td><img src=a.gif></td><td>{text}</td></tr></table>")
        }),
        ("posts", |_, text| {
            format!("<article class='post hentry'><h2>A post</h2><div class='entry-content'>{text}</div></article>")
        }),
    ]
}

const MENU: &str = "<a href=/s>Sports and games</a> <a href=/w>Weather tomorrow</a> ";

fn page(around: Layout, rows: &[Vec<String>]) -> String {
    let menu =
        (0..24).map(|at| format!("<li><a href=/{at}>Section {at} of the site</a></li>")).collect::<Vec<_>>().concat();
    let rows: String = rows.iter().enumerate().map(|(at, row)| around(at, &paragraphs(row))).collect();
    format!(
        "<html><head><title>Harbour works | Example</title></head><body><header><nav><ul>{menu}</ul></nav></header>\
         <main><h1>Harbour works</h1>{rows}</main><footer><p>{MENU} All rights are reserved by the owner of this site, \
         and nothing of it may be copied.</p></footer></body></html>"
    )
}

#[test]
fn an_article_in_rows_counts_whole_in_the_layouts_of_site_builders() {
    let own = analyzer();
    let mut wrong = Vec::new();
    for (name, around) in layouts() {
        for count in 2..=6 {
            for sizes in [[4, 4, 4, 4, 4, 4], [8, 2, 4, 2, 6, 2], [2, 3, 9, 3, 2, 4]] {
                let rows: Vec<_> = (0..count).map(|at| row(at + 1, sizes[at])).collect();
                let (text, extraction) = extracted(&own, &page(around, &rows));
                let lost = rows.iter().flatten().filter(|sentence| !text.contains(&sentence.to_lowercase())).count();
                if lost > 0 {
                    wrong
                        .push(format!("{name}, {count} rows of {sizes:?}: {lost} sentences are lost ({extraction:?})"));
                }
                if extraction == Extraction::Main && text.contains("of the site") {
                    wrong.push(format!("{name}, {count} rows of {sizes:?}: the menu counts"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is beside an article reads like running text, too.
#[test]
fn what_is_beside_an_article_does_not_join_it() {
    let own = analyzer();
    let article = paragraphs(&row(1, 12));
    let beside = |from: usize, around: &dyn Fn(&str) -> String| -> String {
        (from..from + 4).map(|seed| around(&row(seed, 2).join(" "))).collect()
    };
    for (name, other) in [
        ("comments", beside(20, &|text| format!("<div class=comment><p>{text}</p></div>"))),
        (
            "a list of comments",
            format!("<ol>{}</ol>", beside(20, &|text| format!("<li><div><p>{text}</p></div></li>"))),
        ),
        (
            "teasers",
            beside(20, &|text| format!("<div class=card><h3><a href=/x>Another page</a></h3><p>{text}</p></div>")),
        ),
        (
            "teasers of more depth",
            beside(20, &|text| {
                format!("<div><header><h3><a href=/x>Another</a></h3></header><div><p>{text}</p></div></div>")
            }),
        ),
        (
            "teasers inside links",
            beside(20, &|text| format!("<a href=/x><div><h3>Another page</h3><p>{text}</p></div></a>")),
        ),
        (
            "related articles",
            format!("<section class=related-posts>{}</section>", beside(20, &|text| format!("<p>{text}</p>"))),
        ),
        ("an aside", format!("<aside>{}</aside>", beside(20, &|text| format!("<p>{text}</p>")))),
        ("a form", format!("<form>{}</form>", beside(20, &|text| format!("<p>{text}</p>")))),
        ("a dialog", format!("<div role=dialog>{}</div>", beside(20, &|text| format!("<p>{text}</p>")))),
        ("hidden text", format!("<div style='display: none'>{}</div>", beside(20, &|text| format!("<p>{text}</p>")))),
    ] {
        for around in [("<div class=text>", "</div>"), ("<article>", "</article>")] {
            let page = format!(
                "<title>Harbour</title><body><main><h1>Harbour</h1>{}{article}{}<div><div><div class=more>{other}</div></div></div></main></body>",
                around.0, around.1
            );
            let (text, extraction) = extracted(&own, &page);
            assert_eq!(extraction, Extraction::Main, "{name}");
            assert!(row(1, 12).iter().all(|sentence| text.contains(&sentence.to_lowercase())), "{name}");
            assert!(!text.contains(&sentence(2000).to_lowercase()), "{name} {}: {text}", around.0);
        }
    }
}

#[test]
fn a_teaser_inside_a_link_is_not_the_article() {
    let own = analyzer();
    let (lead, teaser) = (row(1, 2).join(" "), row(2, 4).join(" "));
    for around in [
        ("<a href=/c><article><p>", "</p></article></a>"),
        ("<a href=/c><section><p>", "</p></section></a>"),
        ("<ul><li><a href=/c><div><div><p>", "</p></div></div></a></li></ul>"),
        ("<div role=link><article><p>", "</p></article></div>"),
    ] {
        let page = format!(
            "<body><main><h1>H</h1><p class=lead>{lead}</p><section>{}{teaser}{}</section></main>",
            around.0, around.1
        );
        assert!(extracted(&own, &page).0.contains(&lead.to_lowercase()), "{}", around.0);
    }
    // A link that is not closed, and one that only marks a place, hold the article.
    for link in ["<a href=/c>", "<a name=top>"] {
        let page = format!("<body>{link}<div>{}</div></body>", paragraphs(&row(1, 40)));
        assert!(extracted(&own, &page).0.contains(&sentence(139).to_lowercase()), "{link}");
    }
}
