//! HTML -> the text that a reader sees: by a tree, or without one for pages whose tree would be too large.

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};

use super::head::title_of;
use super::markup::{HIDDEN, INLINE, LISTS, Piece, Place, READINGS, decode_into, is_any, pieces};
use super::minify::{Limits, MAX_ESCAPING, Minified, Shape, escaping_cost, minified};
use super::normalize::non_whitespace_chars;
use super::outline::Outline;
use super::settings::HtmlText;
use super::tree::MAX_ATTRIBUTES;
use super::{consent, frame, head, tree};

/// Main text shorter than this many bytes is not trusted; all visible text is used instead. Visible text shorter than
/// this does not identify a page, so the title is added.
const MIN_MAIN_TEXT: usize = 120;

/// Main text of fewer characters than this may be a notice beside the article: terms of use, a disclaimer, a note about
/// the author. It is trusted only if it has at least one in `MIN_SHARE_OF_TEXT` characters of the page's running text.
const SURE_MAIN_TEXT: usize = 4000;
const MIN_SHARE_OF_TEXT: usize = 5;

/// The same, with `MIN_SHARE_OF_SHORT`, for main text of fewer characters than this: the library extracts so little
/// only if it has found nothing better under its loosest rules.
const SHORT_MAIN_TEXT: usize = 500;
const MIN_SHARE_OF_SHORT: usize = 4;

/// The same on a page with more text in lists, tables, preformatted text and quotes than was extracted. The library
/// looks for paragraphs, so on such a page it may have taken the only paragraph for the article.
const MIN_SHARE_OF_LISTS: usize = 2;

/// Visible text of more bytes than this is not searched for the article beside a notice, so that the cost stays
/// bounded.
const MAX_SEARCHED: usize = 1 << 19;

/// Paragraphs of fewer characters (buttons, single words) stay when the other paragraphs of a notice are removed.
const MIN_PARAGRAPH: usize = 20;

/// What was extracted from a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extraction {
    /// Nothing: the page came as plain text.
    Text,
    /// The article without navigation.
    Main,
    /// All visible text, as `text.html: all_text` asks for.
    All,
    /// All visible text, because no article was found or too little of the page was taken for one.
    AllFallback,
    /// All text between the tags, because the page has too many tags for a tree, or nests them too deeply.
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

/// Extracts the text of an HTML page.
pub(super) fn text_of(html: &str, wanted: HtmlText, limits: Limits) -> (String, Extraction) {
    let page = minified(html, limits, false);
    let seen = Seen::of(&page, limits);
    if page.is_mostly_noscript(seen.characters()) {
        let page = minified(html, limits, true);
        return Seen::of(&page, limits).text(&page.html, wanted);
    }
    seen.text(&page.html, wanted)
}

/// What a reader of a page sees.
enum Seen {
    Tree(Box<Tree>),
    /// The text between its tags, because its tree would be too deep or too large.
    Stripped(String),
}

/// The tree of a page, at most `max_depth` deep, and what is visible of it.
struct Tree {
    page: Document,
    max_depth: usize,
    visible: Visible,
}

impl Seen {
    fn of(page: &Minified, limits: Limits) -> Self {
        Self::in_tree(page, limits.max_nesting)
            .unwrap_or_else(|| Self::Stripped(stripped_text(&page.html, limits.max_bytes)))
    }

    fn in_tree(page: &Minified, max_nesting: usize) -> Option<Self> {
        if !matches!(page.shape, Shape::Attributes(..=MAX_ATTRIBUTES)) {
            return None;
        }
        // The tree is deeper than the pass counted, because paragraphs, list items and cells come between the counted
        // elements.
        let max_depth = max_nesting.saturating_mul(2).saturating_add(64);
        let page = tree::build(&page.html, max_depth)?;
        let visible = visible_text(&page, max_depth)?;
        Some(Self::Tree(Box::new(Tree { page, max_depth, visible })))
    }

    /// Counts the characters, without whitespace; in a tree, outside of links.
    fn characters(&self) -> usize {
        match self {
            Self::Tree(tree) => tree.visible.running,
            Self::Stripped(text) => non_whitespace_chars(text),
        }
    }

    fn text(self, html: &str, wanted: HtmlText) -> (String, Extraction) {
        let Tree { page, max_depth, mut visible } = match self {
            Self::Tree(tree) => *tree,
            Self::Stripped(mut text) => {
                add_title(&mut text, html);
                return (text, Extraction::Stripped);
            }
        };
        let length = visible.text.trim().len();
        add_title(&mut visible.text, html);
        if wanted == HtmlText::AllText {
            return (visible.text, Extraction::All);
        }
        let is_searched = length >= MIN_MAIN_TEXT && visible.escaping <= MAX_ESCAPING;
        let main = match is_searched.then(|| main_text(page)).flatten() {
            Some(notice) if consent::is_notice(&notice.text) || visible.is_frame(&notice) => {
                main_text_without(&notice.text, html, max_depth, &visible)
            }
            main => main
                .map(|main| whole_text(&main, html, max_depth, &visible).unwrap_or(main))
                .filter(|main| main.is_trusted(&visible, html)),
        };
        match main {
            Some(main) => (main.text, Extraction::Main),
            None => (visible.text, Extraction::AllFallback),
        }
    }
}

/// Searches again for the article of a page, without the paragraphs of the cookie notice or footer that was taken for
/// it. `None` if the rest holds no article that is trusted: the page may be about cookies.
fn main_text_without(notice: &str, html: &str, max_depth: usize, visible: &Visible) -> Option<MainText> {
    if visible.text.len() > MAX_SEARCHED {
        return None;
    }
    let notice = without_whitespace(notice);
    let page = tree::build(html, max_depth)?;
    let (mut paragraph, mut text, mut gone) = (Vec::new(), String::new(), Vec::new());
    walk(page.root(), max_depth, |step| match step {
        Step::Text(node, _) => {
            text.push_str(&node.text());
            paragraph.push(node);
        }
        Step::Break | Step::Line => {
            if non_whitespace_chars(&text) >= MIN_PARAGRAPH && notice.contains(&without_whitespace(&text)) {
                gone.append(&mut paragraph);
            }
            paragraph.clear();
            text.clear();
        }
    })?;
    gone.iter().for_each(NodeRef::remove_from_parent);
    let rest = visible_text(&page, max_depth)?;
    main_text(page)
        .filter(|main| main.is_trusted(&rest, html) && !consent::is_notice(&main.text) && !rest.is_frame(main))
}

/// Returns the text of the whole article if the library took a part of it: of all that is in the smallest element with
/// the rest, without frames, forms, comments, teasers and links.
fn whole_text(part: &MainText, html: &str, max_depth: usize, visible: &Visible) -> Option<MainText> {
    if visible.text.len() > MAX_SEARCHED {
        return None;
    }
    let whole = visible.outline.whole(&part.text, &visible.text)?;
    let page = tree::build(html, max_depth)?;
    remove_no_text(&page);
    // The trees of a page number their nodes alike.
    let root = NodeRef::new(whole.root, &page.tree);
    let is_apart = |node: &NodeRef<'_>| node.qual_name_ref().is_some_and(|name| whole.is_apart(&name.local, node));
    let apart: Vec<NodeRef<'_>> = root.descendants_it().filter(is_apart).collect();
    apart.iter().for_each(NodeRef::remove_from_parent);
    let (mut main, mut paragraph, mut links) = (MainText { text: String::new(), linked: 0 }, String::new(), 0);
    let mut end = |paragraph: &mut String, links: &mut usize| {
        let characters = non_whitespace_chars(paragraph);
        if links.saturating_mul(2) <= characters {
            main.text.push_str(paragraph);
            main.text.push('\n');
            main.linked += *links;
        }
        paragraph.clear();
        *links = 0;
    };
    walk(root, max_depth, |step| match step {
        Step::Text(node, inside) => {
            let text = node.text();
            links += if inside.is_link { non_whitespace_chars(&text) } else { 0 };
            paragraph.push_str(&text);
        }
        Step::Break | Step::Line => end(&mut paragraph, &mut links),
    })?;
    end(&mut paragraph, &mut links);
    Some(main)
}

/// The text that the library took for the article.
struct MainText {
    text: String,
    /// Characters inside links, without whitespace.
    linked: usize,
}

/// Removes what the library may take for the article, or for a part of it: forms, teasers inside links, and readings.
fn remove_no_text(page: &Document) {
    let is_no_text = |node: &NodeRef<'_>| {
        node.qual_name_ref().is_some_and(|name| {
            let name = &*name.local;
            READINGS.contains(&name) || frame::is_form(name, node) || frame::is_linked_teaser(name, node)
        })
    };
    let no_text: Vec<NodeRef<'_>> = page.root().descendants_it().filter(is_no_text).collect();
    no_text.iter().for_each(NodeRef::remove_from_parent);
}

fn main_text(page: Document) -> Option<MainText> {
    remove_no_text(&page);
    let config = Config { text_mode: TextMode::Formatted, disable_json_ld: true, ..Config::default() };
    let article = Readability::with_document(page, None, Some(config)).ok()?.parse().ok()?;
    Some(MainText { text: String::from(article.text_content), linked: linked(&article.content) })
}

/// Counts the characters inside links, without whitespace; a character reference counts as it is written.
fn linked(html: &str) -> usize {
    let (mut links, mut characters) = (0_usize, 0);
    for piece in pieces(html) {
        match piece {
            Piece::Start(tag) => links += usize::from(tag.name.eq_ignore_ascii_case("a")),
            Piece::End(name) => links = links.saturating_sub(usize::from(name.eq_ignore_ascii_case("a"))),
            Piece::Text(text) if links > 0 => characters += non_whitespace_chars(text),
            Piece::Text(_) | Piece::Raw(_) => {}
        }
    }
    characters
}

impl MainText {
    /// Returns whether this is the article, and not the cookie notice, the comment form or the navigation beside it: a
    /// list of links is not an article, however long it is.
    fn is_trusted(&self, visible: &Visible, html: &str) -> bool {
        let characters = non_whitespace_chars(&self.text);
        let share = match characters {
            _ if visible.in_lists > characters => MIN_SHARE_OF_LISTS,
            ..SHORT_MAIN_TEXT => MIN_SHARE_OF_SHORT,
            _ => MIN_SHARE_OF_TEXT,
        };
        self.text.trim().len() >= MIN_MAIN_TEXT
            && self.linked.saturating_mul(2) <= characters
            && (characters >= SURE_MAIN_TEXT
                || characters.saturating_mul(share) >= visible.running
                || (visible.in_lists <= characters || characters >= SHORT_MAIN_TEXT)
                    && title_of(html).is_some_and(|title| head::announces(&title, &self.text)))
    }
}

/// All text that a reader of the page sees. Characters are counted without whitespace and outside links, because
/// navigation consists of links.
#[derive(Default)]
struct Visible {
    text: String,
    /// Number of characters.
    running: usize,
    /// Number of those in lists, tables, preformatted text and quotes.
    in_lists: usize,
    /// The text of footers, asides, navigation and notices about cookies.
    frame: String,
    /// Steps that it takes to write the text as HTML. Past [`MAX_ESCAPING`], the article is not searched for.
    escaping: usize,
    outline: Outline,
}

/// The paragraph that is read.
#[derive(Default)]
struct Paragraph<'a> {
    /// Its first text.
    first: Option<NodeRef<'a>>,
    /// Where it begins.
    start: usize,
    /// Bytes outside and inside of links, without whitespace.
    own: usize,
    linked: usize,
}

impl Visible {
    fn push<'a>(&mut self, node: NodeRef<'a>, inside: Inside, paragraph: &mut Paragraph<'a>) {
        let text = node.text();
        let text = &*text;
        let bytes = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
        if paragraph.first.is_none() && bytes > 0 {
            *paragraph = Paragraph { first: Some(node), start: self.text.len(), ..Paragraph::default() };
        }
        self.text.push_str(text);
        if inside.is_link {
            paragraph.linked += bytes;
        } else {
            paragraph.own += bytes;
            let characters = non_whitespace_chars(text);
            self.running += characters;
            self.in_lists += if inside.is_list { characters } else { 0 };
        }
        if inside.is_frame {
            self.frame.push_str(text);
        }
        self.escaping = self.escaping.saturating_add(escaping_cost(text.as_bytes()));
    }

    fn end(&mut self, paragraph: &mut Paragraph<'_>) {
        let Paragraph { first, start, own, linked } = std::mem::take(paragraph);
        if let Some(first) = first {
            let text = self.text.get(start..).unwrap_or_default();
            self.outline.note(&first, start..self.text.len(), text, own, linked);
        }
    }

    /// Returns whether most of the main text is text of the frame.
    fn is_frame(&self, main: &MainText) -> bool {
        if self.frame.is_empty() || self.text.len() > MAX_SEARCHED || non_whitespace_chars(&main.text) >= SURE_MAIN_TEXT
        {
            return false;
        }
        let frame = without_whitespace(&self.frame);
        let paragraphs = main.text.lines().map(without_whitespace).filter(|paragraph| !paragraph.is_empty());
        let (mut all, mut framed) = (0, 0);
        for paragraph in paragraphs {
            all += paragraph.len();
            framed += if frame.contains(&paragraph) { paragraph.len() } else { 0 };
        }
        framed * 2 > all
    }
}

/// Adds the title of the page to a short text. Without it, all pages that a script fills in the browser ("Loading...")
/// would be exact duplicates of each other.
fn add_title(text: &mut String, html: &str) {
    if (1..MIN_MAIN_TEXT).contains(&text.trim().len())
        && let Some(title) = title_of(html)
    {
        text.push('\n');
        text.push_str(&title);
    }
}

fn without_whitespace(text: &str) -> String {
    text.split_whitespace().collect()
}

/// One step through the visible content.
enum Step<'a> {
    /// A text node, and what is around it.
    Text(NodeRef<'a>, Inside),
    /// A block begins or ends: words do not span it.
    Break,
    /// A line ends within a block.
    Line,
}

/// What is around a node.
#[derive(Clone, Copy, Default)]
struct Inside {
    is_link: bool,
    is_list: bool,
    is_frame: bool,
}

impl Inside {
    /// Returns what is around the children of an element.
    fn element(self, name: &str, node: &NodeRef<'_>) -> Self {
        Self {
            is_link: self.is_link || name == "a",
            is_list: self.is_list || LISTS.contains(&name),
            is_frame: self.is_frame || frame::is_frame(name, node),
        }
    }
}

/// Collects the visible text; `None` when the tree is deeper than `max_depth`.
fn visible_text(page: &Document, max_depth: usize) -> Option<Visible> {
    let (mut visible, mut paragraph) = (Visible::default(), Paragraph::default());
    walk(page.root(), max_depth, |step| match step {
        Step::Text(node, inside) => visible.push(node, inside, &mut paragraph),
        Step::Break => {
            visible.end(&mut paragraph);
            visible.text.push('\n');
        }
        Step::Line => visible.text.push('\n'),
    })?;
    visible.end(&mut paragraph);
    Some(visible)
}

/// Walks through the visible content of an element without recursion; `None` when it is deeper than `max_depth`.
fn walk<'a>(root: NodeRef<'a>, max_depth: usize, mut see: impl FnMut(Step<'a>)) -> Option<()> {
    let mut inside = Inside::default();
    // Of each open node: what is around it, and whether it is a block.
    let mut open: Vec<(Inside, bool)> = Vec::new();
    let mut node = root;
    loop {
        let (mut is_shown, mut is_block, mut within) = (true, false, inside);
        if let Some(element) = node.qual_name_ref() {
            let name = &*element.local;
            is_block = !INLINE.contains(&name);
            is_shown = !HIDDEN.contains(&name);
            match name {
                "br" => see(Step::Line),
                _ if is_block => see(Step::Break),
                _ => {}
            }
            if is_shown {
                within = inside.element(name, &node);
            }
        } else if node.is_text() {
            see(Step::Text(node, inside));
        }
        if is_shown && let Some(child) = node.first_child() {
            if open.len() >= max_depth {
                return None;
            }
            open.push((inside, is_block));
            inside = within;
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
            let (parent, (around, is_block)) = node.parent().zip(open.pop())?;
            (node, inside) = (parent, around);
            if is_block {
                see(Step::Break);
            }
        }
    }
}

/// Returns the text between the tags, up to `most` bytes and the rest of the piece in which they end.
pub(super) fn stripped_text(html: &str, most: usize) -> String {
    let mut text = String::new();
    // The open hidden element, and how many elements of its name are open.
    let mut hidden: Option<(&str, usize)> = None;
    let mut shows_raw = false;
    for piece in pieces(html) {
        if text.len() > most {
            break;
        }
        match (piece, &mut hidden) {
            (Piece::Start(tag), Some((name, open))) => {
                *open += usize::from(tag.name.eq_ignore_ascii_case(name));
            }
            (Piece::End(ended), Some((name, open))) => {
                *open -= usize::from(ended.eq_ignore_ascii_case(name));
                if *open == 0 {
                    hidden = None;
                }
            }
            (_, Some(_)) => {}
            (Piece::Text(piece), None) => decode_into(piece, Place::Text, &mut text),
            (Piece::Raw(raw), None) => {
                if shows_raw {
                    text.push_str(raw);
                }
            }
            (Piece::Start(tag), None) => {
                let name = tag.name;
                end_word(tag.name, &mut text);
                shows_raw = is_any(name, &["xmp", "noembed", "noframes"]);
                let empty = is_any(name, &["svg"]) && tag.is_closed();
                // A `<head>` is not hidden as a whole: its end tag may be left out, and its contents are hidden anyway.
                if is_any(name, &HIDDEN) && !is_any(name, &["head"]) && !empty {
                    hidden = Some((tag.name, 1));
                }
            }
            (Piece::End(name), None) => end_word(name, &mut text),
        }
    }
    text
}

fn end_word(element: &str, text: &mut String) {
    if !text.ends_with('\n') && !is_any(element, &INLINE) {
        text.push('\n');
    }
}
