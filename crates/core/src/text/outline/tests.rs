//! Articles in the layouts that site builders make.

use super::super::{Analyzer, Extraction, Settings};
use crate::record::Body;
use dupgate_testkit::site_builders::{ROW_SIZES, layouts, page, paragraphs, row, sentence};

fn analyzer() -> Analyzer {
    Analyzer::new(&Settings::default()).unwrap()
}

fn extracted(analyzer: &Analyzer, page: &str) -> (String, Extraction) {
    let mut buffer = String::new();
    let normal = analyzer.normalize(&Body::Html(page.into()), &mut buffer).unwrap();
    (normal.text.to_owned(), normal.extraction)
}

#[test]
fn an_article_in_rows_counts_whole_in_the_layouts_of_site_builders() {
    let own = analyzer();
    let mut wrong = Vec::new();
    for (name, around) in layouts() {
        for count in 2..=6 {
            for sizes in ROW_SIZES {
                let rows: Vec<_> = (0..count).map(|at| row(at + 1, sizes[at])).collect();
                let (text, extraction) = extracted(&own, &page("the site", around, &rows));
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

/// Returns how many parts of an article the text of a page with these rows leaves out.
fn lost(own: &Analyzer, rows: &str, article: &[Vec<String>]) -> usize {
    let page = format!("<title>Harbour</title><body><main><h1>Harbour</h1>{rows}</main></body>");
    let (text, _) = extracted(own, &page);
    article.iter().flatten().filter(|part| !text.contains(&part.to_lowercase())).count()
}

/// A dialogue, a poem: no line is long enough to say anything by itself.
#[test]
fn an_article_of_short_lines_counts_whole() {
    let own = analyzer();
    let mut wrong = Vec::new();
    for (name, around) in layouts() {
        for count in 2..=4 {
            for mark in [".", ""] {
                let rows: Vec<Vec<String>> = (0..count)
                    .map(|at| {
                        let words = row(at + 1, 6).join(" ").replace('.', "");
                        let words: Vec<&str> = words.split(' ').collect();
                        words.chunks(7).map(|line| format!("{}{mark}", line.join(" "))).collect()
                    })
                    .collect();
                let written = |row: &Vec<String>| format!("<p>{}</p>", row.join("</p><p>"));
                let rows_text: String = rows.iter().enumerate().map(|(at, row)| around(at, &written(row))).collect();
                let lost = lost(&own, &rows_text, &rows);
                if lost > 0 {
                    wrong.push(format!("{name}, {count} rows, `{mark}`: {lost} lines are lost"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first row is shown, and readability takes it for the article.
#[test]
fn rows_that_are_hidden_or_named_like_something_beside_are_of_the_article() {
    let own = analyzer();
    let mut wrong = Vec::new();
    for (first, other) in [
        ("<div class='row wow'>", "<div class='row wow' style='visibility: hidden'>"),
        ("<div class='tab-pane active'>", "<div class=tab-pane hidden>"),
        ("<div class='slide is-active'>", "<div class=slide aria-hidden=true>"),
        ("<article class='hentry author-jane'>", "<article class='hentry author-john'>"),
        ("<div class='teaser cmp-teaser'>", "<div class='teaser cmp-teaser'>"),
    ] {
        let end = format!("</{}>", first[1..].split(' ').next().unwrap());
        for count in 2..=5 {
            for sizes in ROW_SIZES {
                let rows: Vec<_> = (0..count).map(|at| row(at + 1, sizes[at])).collect();
                let written = |(at, row): (usize, &Vec<String>)| {
                    format!("{}{}{end}", if at == 0 { first } else { other }, paragraphs(row))
                };
                let rows_text: String = rows.iter().enumerate().map(written).collect();
                let lost = lost(&own, &rows_text, &rows);
                if lost > 0 {
                    wrong.push(format!("{other}, {count} rows of {sizes:?}: {lost} sentences are lost"));
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
fn a_block_that_is_named_and_the_article_beside_it_is_not_stays_apart() {
    let own = analyzer();
    let (article, other) = (paragraphs(&row(1, 12)), paragraphs(&row(20, 8)));
    let page = format!(
        "<title>Harbour</title><body><main><h1>Harbour</h1><div class='text story'>{article}</div>\
         <div class='text related-posts'>{other}</div></main></body>"
    );
    let (text, _) = extracted(&own, &page);
    assert!(text.contains(&sentence(111).to_lowercase()) && !text.contains(&sentence(2000).to_lowercase()), "{text}");
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
