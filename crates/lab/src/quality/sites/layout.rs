//! An article and a site's repeated text -> what a crawler fetches.

use std::fmt::Write as _;

use serde::Serialize;

/// As what pages are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Ready text.
    Text,
    /// The page as a browser gets it.
    Html,
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Ready text.
    Text(String),
    /// An HTML page.
    Html(String),
}

/// Which view of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant<'a> {
    /// The article in all of its site's text.
    Whole,
    /// The same, with a line that says when it was fetched.
    Fetched(&'a str),
    /// The article alone.
    Print,
    /// The article in a small frame, which names the address of the page.
    Amp(&'a str),
}

/// What a site puts around its articles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Header and navigation.
    pub(super) menu: String,
    /// Headlines of other pages.
    pub(super) related: String,
    /// What is between the paragraphs: subscribe, follow, support us.
    pub(super) notice: String,
    pub(super) footer: String,
}

impl Block {
    pub(super) const PARTS: usize = 4;
    /// The part that is links and no sentences.
    pub(super) const LINKS: usize = 0;
}

impl Form {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Text, Self::Html];

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Html => "html",
        }
    }
}

/// Sites with an even number say by the names of elements what is what, the others have nothing but `div`.
pub(super) fn render(
    article: &str,
    block: &Block,
    is_chinese: bool,
    site: usize,
    form: Form,
    variant: Variant<'_>,
) -> Body {
    match form {
        Form::Text => Body::Text(text(article, block, variant)),
        Form::Html => Body::Html(html(article, block, is_chinese, site.is_multiple_of(2), variant)),
    }
}

fn text(article: &str, block: &Block, variant: Variant<'_>) -> String {
    let Block { menu, related, notice, footer } = block;
    let whole = || format!("{menu}\n{article}\n{notice}\n{related}\n{footer}");
    match variant {
        Variant::Whole => whole(),
        Variant::Fetched(when) => format!("{when}\n{}", whole()),
        Variant::Print => article.to_owned(),
        // Text names no address: never called.
        Variant::Amp(_) => format!("{article}\n{footer}"),
    }
}

fn html(article: &str, block: &Block, is_chinese: bool, has_names: bool, variant: Variant<'_>) -> String {
    let language = if is_chinese { "zh" } else { "en" };
    let lines: Vec<String> = article.lines().map(escaped).collect();
    let title: String = article.lines().next().unwrap_or_default().chars().take(60).collect();
    let title = escaped(&title);
    let mut page =
        format!("<!doctype html>\n<html lang=\"{language}\"><head><meta charset=\"utf-8\"><title>{title}</title>");
    // Writing to a string cannot fail.
    let mut put = |piece: std::fmt::Arguments<'_>| {
        let _ = page.write_fmt(piece);
    };
    if let Variant::Amp(address) = variant {
        put(format_args!("<link rel=\"canonical\" href=\"{address}\">"));
    }
    put(format_args!("</head>\n<body>\n"));
    let [header, nav, main, aside, footer] =
        if has_names { ["header", "nav", "article", "aside", "footer"] } else { ["div", "div", "div", "div", "div"] };
    let is_whole = matches!(variant, Variant::Whole | Variant::Fetched(_));
    if is_whole {
        put(format_args!("<{header}><{nav}><ul>\n"));
        block.menu.lines().for_each(|link| put(format_args!("<li><a href=\"/s\">{link}</a></li>\n")));
        put(format_args!("</ul></{nav}></{header}>\n"));
    }
    if let Variant::Fetched(when) = variant {
        put(format_args!("<div>{when}</div>\n"));
    }
    put(format_args!("<{main}>\n"));
    lines.iter().for_each(|line| put(format_args!("<p>{line}</p>\n")));
    if is_whole {
        block.notice.lines().for_each(|line| put(format_args!("<p>{line}</p>\n")));
    }
    put(format_args!("</{main}>\n"));
    if is_whole {
        put(format_args!("<{aside}><ul>\n"));
        block.related.lines().for_each(|link| put(format_args!("<li><a href=\"/r\">{link}</a></li>\n")));
        put(format_args!("</ul></{aside}>\n"));
    }
    if variant != Variant::Print {
        put(format_args!("<{footer}>\n"));
        block.footer.lines().for_each(|line| put(format_args!("<p>{line}</p>\n")));
        put(format_args!("</{footer}>\n"));
    }
    put(format_args!("</body></html>\n"));
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
