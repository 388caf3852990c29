//! Where the running text of a page is, to tell a whole article from a part of it.
//!
//! The readability algorithm takes one element for the article. Where the text is laid out in rows, in columns or in
//! sections, that is one of them. This module finds what was left out and reads on like the article, and the element
//! that holds both.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use dom_query::{NodeId, NodeRef};
use html5ever::tendril::StrTendril;

use super::markup::LISTS;
use super::{consent, frame};

/// A passage of fewer bytes (a heading, a caption, a button) says nothing about where the article is.
const MIN_PASSAGE: usize = 80;

/// The same for a passage without a mark that ends a sentence: a list of tags, a line about the author.
const MIN_UNMARKED: usize = 240;

/// A line of fewer bytes is a label, and no part of a passage of several lines.
const MIN_LINE: usize = 24;

/// Marks that end a sentence.
const MARKS: [char; 15] = ['.', '!', '?', '…', '。', '！', '？', '．', '؟', '۔', '।', '։', '።', '။', '។'];

/// What is left out makes an article too small if it has at least one in this many bytes of the article's passages.
const MIN_SHARE_LEFT_OUT: usize = 5;

/// A block under a linked heading with fewer bytes of passages is a teaser of another page.
const MAX_TEASER: usize = 600;

/// How much of a passage is looked for in the article, in bytes: within a passage, the library may leave out a part.
const PROBE: usize = 48;

/// A block is compared with at most this many blocks beside it that hold a part of the article.
const MAX_COMPARED: usize = 8;

/// The most bytes that are searched for passages that are not in the article.
const MAX_SEARCHED: usize = 1 << 26;

/// The passages of a page and the elements around them.
#[derive(Default)]
pub(super) struct Outline {
    /// Each one after its parent.
    blocks: Vec<Block>,
    places: HashMap<NodeId, usize>,
    passages: Vec<Passage>,
    /// Elements with a heading that is a link.
    headed: HashSet<NodeId>,
    /// Short paragraphs in a row.
    lines: Option<Lines>,
}

/// Paragraphs in a row that are too short for a passage: a dialogue, a poem.
struct Lines {
    /// The element around all of them.
    around: NodeId,
    text: Range<usize>,
    bytes: usize,
    has_mark: bool,
}

/// Returns whether this many bytes of text are a passage.
const fn is_passage(bytes: usize, has_mark: bool) -> bool {
    bytes >= if has_mark { MIN_PASSAGE } else { MIN_UNMARKED }
}

struct Block {
    node: NodeId,
    parent: Option<usize>,
    kind: Kind,
    element: StrTendril,
    class: StrTendril,
}

impl Block {
    fn new(node: &NodeRef<'_>, parent: Option<usize>) -> Self {
        let element = node.node_name().unwrap_or_default();
        let class = node.attr("class").unwrap_or_default();
        Self { node: node.id, parent, kind: Kind::of(&element, node), element, class }
    }

    /// Returns whether two blocks beside each other are of one kind: rows, tabs, slides or posts.
    fn is_like(&self, other: &Self) -> bool {
        let has_class = |name: &str| other.class.split_ascii_whitespace().any(|known| known == name);
        self.parent == other.parent
            && self.element == other.element
            && self.class.split_ascii_whitespace().any(has_class)
    }
}

/// What an element says about the text in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Plain,
    /// It is not of the article, unless the article is in it or in another one of its kind beside it.
    Apart,
    /// The same, because it is not shown: the other tabs and slides are parts of the article.
    Hidden,
    /// A list or a quote. A table may be a layout.
    List,
    /// `article`
    Article,
    /// `main` or `body`: the article goes no further.
    Limit,
}

impl Kind {
    fn of(name: &str, node: &NodeRef<'_>) -> Self {
        let is_main = || node.attr("role").is_some_and(|role| role.eq_ignore_ascii_case("main"));
        match name {
            "main" | "body" => Self::Limit,
            name if name != "table" && LISTS.contains(&name) => Self::List,
            name if frame::is_apart(name, node) => Self::Apart,
            _ if frame::is_hidden(node) => Self::Hidden,
            _ if is_main() => Self::Limit,
            "article" => Self::Article,
            _ => Self::Plain,
        }
    }
}

/// A paragraph that may be a part of the article.
struct Passage {
    /// The element around it.
    block: usize,
    /// Where it is in the visible text.
    text: Range<usize>,
    /// Its bytes outside of links, without whitespace.
    bytes: usize,
}

/// An element that holds an article of which the library took only a part.
pub(super) struct Whole {
    pub(super) root: NodeId,
    /// Elements that hold a part of what was taken, or are beside one of their kind that does.
    of_it: HashSet<NodeId>,
    /// Teasers of other pages.
    teasers: HashSet<NodeId>,
}

impl Whole {
    /// Returns whether an element inside the root is no part of the article.
    pub(super) fn is_apart(&self, element: &str, node: &NodeRef<'_>) -> bool {
        let is_apart = || frame::is_apart(element, node) || frame::is_hidden(node);
        !self.of_it.contains(&node.id) && (self.teasers.contains(&node.id) || is_apart())
    }
}

impl Outline {
    /// Notes a paragraph that begins with this node: its place in the visible text, the text there, and its bytes
    /// outside and inside of links, without whitespace.
    pub(super) fn note(&mut self, first: &NodeRef<'_>, place: Range<usize>, text: &str, own: usize, linked: usize) {
        let lines = self.lines.take();
        if own == 0 && linked > 0 {
            return self.note_linked(first);
        }
        let Some(parent) = first.parent().filter(|_| own >= MIN_LINE && own >= linked) else { return };
        let has_mark = text.contains(MARKS);
        if is_passage(own, has_mark) {
            let block = self.place_of(parent);
            return self.passages.push(Passage { block, text: place, bytes: own });
        }
        let Some(around) = parent.parent() else { return };
        let lines = match lines.filter(|lines| lines.around == around.id) {
            Some(before) => Lines {
                around: around.id,
                text: before.text.start..place.end,
                bytes: before.bytes + own,
                has_mark: has_mark || before.has_mark,
            },
            None => Lines { around: around.id, text: place, bytes: own, has_mark },
        };
        if is_passage(lines.bytes, lines.has_mark) {
            let block = self.place_of(around);
            self.passages.push(Passage { block, text: lines.text, bytes: lines.bytes });
        } else {
            self.lines = Some(lines);
        }
    }

    /// Notes a paragraph that is a link: a heading makes a teaser of what is around it.
    fn note_linked(&mut self, first: &NodeRef<'_>) {
        let is_heading = |node: &NodeRef<'_>| {
            node.node_name().is_some_and(|name| matches!(&*name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6"))
        };
        let mut around = std::iter::successors(first.parent(), NodeRef::parent);
        if around.by_ref().take(4).any(|node| is_heading(&node)) {
            self.headed.extend(around.take(2).map(|node| node.id));
        }
    }

    fn place_of(&mut self, node: NodeRef<'_>) -> usize {
        let mut path = Vec::new();
        let mut known = None;
        for node in std::iter::successors(Some(node), NodeRef::parent) {
            known = self.places.get(&node.id).copied();
            if known.is_some() {
                break;
            }
            path.push(node);
        }
        for node in path.iter().rev() {
            let place = self.blocks.len();
            self.blocks.push(Block::new(node, known));
            self.places.insert(node.id, place);
            known = Some(place);
        }
        known.unwrap_or_default()
    }

    /// Returns where the whole article is if `article` is a part of it, because passages are left out that belong to
    /// it: they are not in a frame, a comment, a teaser, a list or a cookie notice, and have at least a fifth of the
    /// bytes of those that were taken.
    pub(super) fn whole(&self, article: &str, visible: &str) -> Option<Whole> {
        let is_taken = self.taken(article, visible)?;
        let (all, taken) = (self.sums(|_| true), self.sums(|at| is_taken.get(at) == Some(&true)));
        let total = taken.first().copied().filter(|total| *total > 0)?;
        // The smallest element with most of the article: a teaser elsewhere may repeat a passage.
        let smallest = taken.iter().rposition(|bytes| bytes.saturating_mul(5) >= total.saturating_mul(4))?;
        let above: Vec<usize> = std::iter::successors(Some(smallest), |at| self.parent(*at)).collect();
        let levels: HashMap<usize, usize> = above.iter().enumerate().map(|(level, at)| (*at, level)).collect();
        let is_teaser = |at: usize| {
            self.blocks.get(at).is_some_and(|block| self.headed.contains(&block.node))
                && all.get(at).is_some_and(|bytes| *bytes <= MAX_TEASER)
        };
        let alike = self.alike(&taken);
        let left: Vec<Left<'_>> = self
            .passages
            .iter()
            .zip(&is_taken)
            .filter(|(passage, is_taken)| !**is_taken && !consent::names_cookies(text_of(passage, visible)))
            .filter_map(|(passage, _)| self.left(passage, &levels, &alike, is_teaser))
            .collect();
        let root = self.root(&above, &left, total)?;
        let ids = |is_one: &dyn Fn(usize) -> bool| {
            self.blocks.iter().enumerate().filter(|(at, _)| is_one(*at)).map(|(_, block)| block.node).collect()
        };
        Some(Whole {
            root: self.blocks.get(*above.get(root)?)?.node,
            of_it: ids(&|at| alike.contains(&at) || taken.get(at).is_some_and(|bytes| *bytes > 0)),
            teasers: ids(&is_teaser),
        })
    }

    /// Returns of each passage whether it is in the article; `None` if that would take long.
    fn taken(&self, article: &str, visible: &str) -> Option<Vec<bool>> {
        let article: String = article.split_whitespace().collect();
        let (mut at, mut searched) = (0, 0_usize);
        let mut is_taken = Vec::with_capacity(self.passages.len());
        let (mut begin, mut end) = (String::new(), String::new());
        for passage in &self.passages {
            let text = text_of(passage, visible);
            probe(text.chars(), &mut begin);
            probe(text.chars().rev(), &mut end);
            end = end.chars().rev().collect();
            // Passages are in one order in both, so that most are found at once.
            let found = [&begin, &end].into_iter().find_map(|probe| {
                let (before, after) = article.split_at_checked(at)?;
                after.find(probe).map(|found| at + found).or_else(|| before.find(probe))
            });
            match found {
                Some(found) => at = found,
                None => searched = searched.saturating_add(article.len().saturating_mul(2)),
            }
            if searched > MAX_SEARCHED {
                return None;
            }
            is_taken.push(found.is_some());
        }
        Some(is_taken)
    }

    fn parent(&self, block: usize) -> Option<usize> {
        self.blocks.get(block)?.parent
    }

    /// Returns the bytes of the passages inside each block.
    fn sums(&self, counts: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut sums = vec![0_usize; self.blocks.len()];
        for (_, passage) in self.passages.iter().enumerate().filter(|(at, _)| counts(*at)) {
            if let Some(sum) = sums.get_mut(passage.block) {
                *sum += passage.bytes;
            }
        }
        for (at, block) in self.blocks.iter().enumerate().rev() {
            let own = sums.get(at).copied().unwrap_or_default();
            if let Some(sum) = block.parent.and_then(|parent| sums.get_mut(parent)) {
                *sum += own;
            }
        }
        sums
    }

    /// Returns the blocks that are hidden or named like something beside an article, although others of their kind beside
    /// them hold a part of what was taken (`taken`, by block).
    fn alike(&self, taken: &[usize]) -> HashSet<usize> {
        let mut with_article: HashMap<Option<usize>, Vec<&Block>> = HashMap::new();
        for (block, _) in self.blocks.iter().zip(taken).filter(|(_, bytes)| **bytes > 0) {
            with_article.entry(block.parent).or_default().push(block);
        }
        let is_alike = |block: &Block| {
            let beside = with_article.get(&block.parent).into_iter().flatten().take(MAX_COMPARED);
            let mut of_kind = beside.filter(|other| block.is_like(other));
            match block.kind {
                Kind::Hidden => of_kind.next().is_some(),
                // The taken one has such a name, too.
                Kind::Apart => of_kind.any(|other| other.kind == Kind::Apart),
                Kind::Plain | Kind::List | Kind::Article | Kind::Limit => false,
            }
        };
        self.blocks.iter().enumerate().filter(|(_, block)| is_alike(block)).map(|(at, _)| at).collect()
    }

    /// Returns how a passage that was left out is related to the article, whose element and the ones above it have
    /// these levels; `None` if it is no part of it.
    fn left<'o>(
        &self,
        passage: &'o Passage,
        levels: &HashMap<usize, usize>,
        alike: &HashSet<usize>,
        is_teaser: impl Fn(usize) -> bool,
    ) -> Option<Left<'o>> {
        let mut is_in_article = false;
        for at in std::iter::successors(Some(passage.block), |at| self.parent(*at)) {
            if let Some(&level) = levels.get(&at) {
                return Some(Left { passage, level, is_in_article });
            }
            let kind = self.blocks.get(at)?.kind;
            let is_apart = matches!(kind, Kind::Apart | Kind::Hidden | Kind::List) || is_teaser(at);
            if is_apart && !alike.contains(&at) {
                return None;
            }
            is_in_article |= kind == Kind::Article;
        }
        None
    }

    /// Returns the level of the element that holds the whole article. With each element that is reached, there have to
    /// be enough new passages. Beyond an `article`, only those of other ones count.
    fn root(&self, above: &[usize], left: &[Left<'_>], total: usize) -> Option<usize> {
        let (mut whole, mut new, mut root, mut is_beyond) = (total, 0_usize, None, false);
        for (level, at) in above.iter().enumerate() {
            let here = left.iter().filter(|left| left.level == level && (left.is_in_article || !is_beyond));
            new += here.map(|left| left.passage.bytes).sum::<usize>();
            if new > 0 && new.saturating_mul(MIN_SHARE_LEFT_OUT) >= whole {
                whole += new;
                new = 0;
                root = Some(level);
            }
            match self.blocks.get(*at)?.kind {
                Kind::Limit => break,
                Kind::Article => is_beyond = true,
                Kind::Plain | Kind::Apart | Kind::Hidden | Kind::List => {}
            }
        }
        root
    }
}

/// Replaces `probe` by the first characters that are no whitespace, of at least [`PROBE`] bytes if there are so many.
fn probe(chars: impl Iterator<Item = char>, probe: &mut String) {
    probe.clear();
    for c in chars.filter(|c| !c.is_whitespace()) {
        if probe.len() >= PROBE {
            break;
        }
        probe.push(c);
    }
}

fn text_of<'v>(passage: &Passage, visible: &'v str) -> &'v str {
    visible.get(passage.text.clone()).unwrap_or_default()
}

/// A passage that was left out.
struct Left<'o> {
    passage: &'o Passage,
    /// The level of the smallest element with the article and the passage.
    level: usize,
    /// Whether it is in an `article` inside that element.
    is_in_article: bool,
}

#[cfg(test)]
mod tests;
