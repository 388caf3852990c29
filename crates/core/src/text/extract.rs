//! HTML -> the text that a reader sees.

use super::consent;
use super::elements::{HIDDEN, INLINE};
use super::markup::{Piece, pieces};
use super::nesting::{self, Shape};
use super::settings::HtmlText;
use super::solid::solid;
use super::stripped;
use super::tree::{self, MAX_ATTRIBUTES, NoTree};
use crate::record::{Reject, Rejection};
use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};

/// Main text shorter than this many bytes is not trusted: then all visible text counts. Visible text shorter than this
/// does not identify a page, so its title counts, too.
const MIN_MAIN_TEXT: usize = 120;

/// Main text of fewer characters than this may be a notice beside the article. The library takes less than this only
/// where it has found nothing better under its loosest rules.
const SURE_MAIN_TEXT: usize = 500;

/// Main text that may be a notice is not trusted unless it has at least one in this many characters of the page's
/// running text.
const MIN_SHARE_OF_TEXT: usize = 4;

/// Visible text of more bytes than this is not searched for the article beside a notice: reading stays bounded.
const MAX_SEARCHED: usize = 1 << 19;

/// Paragraphs of fewer characters stay where the others of a notice are left out: buttons and single words.
const MIN_PARAGRAPH: usize = 20;

/// What was taken out of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extraction {
    /// Nothing had to be: the page came as text.
    Text,
    /// The article without navigation.
    Main,
    /// All visible text, as `text.html: all_text` asks for.
    All,
    /// All visible text, because no article was found or too little of the page was taken for one.
    AllFallback,
    /// All text between the tags, because the page has too many of them for a tree.
    Stripped,
}

impl Extraction {
    /// Returns the word used in headers, metrics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Main => "main",
            Self::All => "all",
            Self::AllFallback => "all_fallback",
            Self::Stripped => "stripped",
        }
    }
}

/// How a page is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Levels of nesting.
    pub(super) max_nesting: usize,
    /// Text past this many bytes is not used.
    pub(super) max_bytes: usize,
}

/// Takes the text out of an HTML page.
pub(super) fn text_of(html: &str, wanted: HtmlText, limits: Limits) -> Result<(String, Extraction), Rejection> {
    let Limits { max_nesting, max_bytes } = limits;
    let too_deep = || {
        let message = format!("HTML is nested deeper than {max_nesting} levels");
        Rejection::new(Reject::TooDeep, message)
    };
    let stripped = || Ok((stripped::text_of(html, max_bytes), Extraction::Stripped));
    match nesting::shape_of(html, max_nesting) {
        Shape::TooDeep => return Err(too_deep()),
        Shape::TooCostly => return stripped(),
        Shape::Attributes(most) if most > MAX_ATTRIBUTES => return stripped(),
        Shape::Attributes(_) => {}
    }
    // Paragraphs, list items and cells come between the elements that the scan counted.
    let max_depth = max_nesting.saturating_mul(2).saturating_add(64);
    let page = match tree::build(html, max_depth) {
        Ok(page) => page,
        Err(NoTree::TooLarge) => return stripped(),
        Err(NoTree::TooDeep) => return Err(too_deep()),
    };
    let mut visible = visible_text(&page, max_depth).ok_or_else(too_deep)?;
    let length = visible.text.trim().len();
    if (1..MIN_MAIN_TEXT).contains(&length) {
        visible.add_title(&page);
    }
    if wanted == HtmlText::AllText {
        return Ok((visible.text, Extraction::All));
    }
    let main = if length < MIN_MAIN_TEXT { None } else { main_text(page) };
    let main = match main {
        Some(notice) if consent::is_notice(&notice.text) => main_text_without(&notice.text, html, max_depth, &visible),
        main => main.filter(|main| main.is_trusted(&visible)),
    };
    Ok(match main {
        Some(main) => (main.text, Extraction::Main),
        None => (visible.text, Extraction::AllFallback),
    })
}

/// Looks for the article of a page whose notice about cookies was taken for it: without the paragraphs of the notice.
/// `None` where what is left has no article, or a small one; the page may be about cookies.
fn main_text_without(notice: &str, html: &str, max_depth: usize, visible: &Visible) -> Option<MainText> {
    if visible.text.len() > MAX_SEARCHED {
        return None;
    }
    let solid_text = |text: &str| text.split_whitespace().collect::<String>();
    let notice = solid_text(notice);
    let page = tree::build(html, max_depth).ok()?;
    let (mut paragraph, mut text, mut gone) = (Vec::new(), String::new(), Vec::new());
    walk(&page, max_depth, |step| match step {
        Step::Text { node, .. } => {
            text.push_str(&node.text());
            paragraph.push(node);
        }
        Step::Break => {
            if solid(&text) >= MIN_PARAGRAPH && notice.contains(&solid_text(&text)) {
                gone.append(&mut paragraph);
            }
            paragraph.clear();
            text.clear();
        }
    })?;
    gone.iter().for_each(NodeRef::remove_from_parent);
    main_text(page).filter(|main| main.is_trusted(visible) && !consent::is_notice(&main.text))
}

/// What was taken for the article.
struct MainText {
    text: String,
    /// Characters inside of links, blanks not counted.
    linked: usize,
}

fn main_text(page: Document) -> Option<MainText> {
    let config = Config { text_mode: TextMode::Formatted, disable_json_ld: true, ..Config::default() };
    let article = Readability::with_document(page, None, Some(config)).ok()?.parse().ok()?;
    Some(MainText { text: String::from(article.text_content), linked: linked(&article.content) })
}

/// Counts the characters inside of links that are no blanks; a character reference counts as it is written.
fn linked(html: &str) -> usize {
    let (mut links, mut characters) = (0_usize, 0);
    for piece in pieces(html) {
        match piece {
            Piece::Start(tag) => links += usize::from(tag.name.eq_ignore_ascii_case("a")),
            Piece::End(name) => links = links.saturating_sub(usize::from(name.eq_ignore_ascii_case("a"))),
            Piece::Text(text) if links > 0 => characters += solid(text),
            Piece::Text(_) | Piece::Raw(_) => {}
        }
    }
    characters
}

impl MainText {
    /// Returns whether this is the article, and not the notice about cookies, the form for comments or the navigation
    /// beside it: a list of links is no article, however long.
    fn is_trusted(&self, visible: &Visible) -> bool {
        let characters = solid(&self.text);
        self.text.trim().len() >= MIN_MAIN_TEXT
            && self.linked.saturating_mul(2) <= characters
            && (characters >= SURE_MAIN_TEXT || characters.saturating_mul(MIN_SHARE_OF_TEXT) >= visible.running)
    }
}

/// All that a reader of the page sees.
struct Visible {
    text: String,
    /// Characters outside of links, blanks not counted: navigation is links.
    running: usize,
}

impl Visible {
    /// Adds the title of the page. Without it all pages that a script fills in the browser ("Loading...") would be exact
    /// duplicates of each other.
    fn add_title(&mut self, page: &Document) {
        let title = page.select_single("head > title").text();
        if !title.trim().is_empty() {
            self.text.push('\n');
            self.text.push_str(&title);
        }
    }
}

/// One step through what is shown.
enum Step<'a> {
    /// A text node, and whether it is inside a link.
    Text { node: NodeRef<'a>, is_link: bool },
    /// A block begins or ends: words do not span it.
    Break,
}

/// Collects what is shown; `None` when the tree is deeper than `max_depth`.
fn visible_text(page: &Document, max_depth: usize) -> Option<Visible> {
    let mut visible = Visible { text: String::new(), running: 0 };
    walk(page, max_depth, |step| match step {
        Step::Text { node, is_link } => {
            let text = node.text();
            visible.text.push_str(&text);
            visible.running += if is_link { 0 } else { solid(&text) };
        }
        Step::Break => visible.text.push('\n'),
    })?;
    Some(visible)
}

/// Walks through what is shown without recursion; `None` when the tree is deeper than `max_depth`.
fn walk<'a>(page: &'a Document, max_depth: usize, mut see: impl FnMut(Step<'a>)) -> Option<()> {
    let (mut depth, mut links) = (0_usize, 0_usize);
    let root = page.root();
    let mut node = root;
    loop {
        let mut shown = true;
        let mut is_link = false;
        if node.is_text() {
            see(Step::Text { node, is_link: links > 0 });
        } else if let Some(name) = node.node_name() {
            shown = !HIDDEN.contains(&&*name);
            is_link = &*name == "a";
            if !INLINE.contains(&&*name) {
                see(Step::Break);
            }
        }
        if shown && let Some(child) = node.first_child() {
            depth += 1;
            if depth > max_depth {
                return None;
            }
            links += usize::from(is_link);
            node = child;
            continue;
        }
        loop {
            if node.id == root.id {
                return Some(());
            }
            if let Some(sibling) = node.next_sibling() {
                node = sibling;
                break;
            }
            let Some(parent) = node.parent() else { return Some(()) };
            node = parent;
            depth = depth.saturating_sub(1);
            if let Some(name) = node.node_name() {
                links -= usize::from(&*name == "a" && links > 0);
                if !INLINE.contains(&&*name) {
                    see(Step::Break);
                }
            }
        }
    }
}
