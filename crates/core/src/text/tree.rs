//! HTML -> a tree of bounded size.
//!
//! A byte of HTML may cost a hundred bytes of tree, and a short page may grow without bound: each start tag creates all
//! formatting elements again that are still open, so thousands of `<p>` after hundreds of `<font>` make hundreds of
//! elements each. Therefore, the parser gets the page in chunks, and the tree is measured after each. Within a chunk,
//! elements are created without attributes once the tree is too large.

use std::borrow::Cow;
use std::cell::Cell;

use dom_query::{Document, NodeId};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ParseOpts, QualName, parse_document};

/// The largest tree, in units of a node or two attributes. Larger pages are rare: nine of ten pages have less than
/// 4,000 elements.
pub(super) const MAX_UNITS: usize = 100_000;

/// The most attributes of one tag: comparing each with all before it must stay cheap.
pub(super) const MAX_ATTRIBUTES: usize = 1024;

/// Bytes that a unit of a tree and its share of the copies take, rounded up.
const UNIT_BYTES: usize = 320;

/// The most tags and bytes given to the parser at a time.
const CHUNK_TAGS: usize = 64;
const CHUNK_BYTES: usize = 1 << 13;

/// The most places for attributes in a token that does not end: the parser compares each attribute with all before it.
const MAX_SEPARATORS_WITHOUT_TOKEN: usize = 16_384;

/// Returns how large the tree of a page with this many tags may become. A unit is a node or two attributes.
fn bound(tags: usize) -> usize {
    tags.saturating_mul(8).saturating_add(4096).min(MAX_UNITS)
}

/// Returns the most bytes of memory that reading an HTML page takes in addition to the page. `value` is the value of
/// its record, in any encoding: the page itself, or JSON that contains it.
#[must_use]
pub fn max_tree_bytes(value: &[u8]) -> usize {
    let plain = value.split(|byte| *byte == b'<').count();
    let is_tag = |escape: &&[u8]| escape.get(..5).is_some_and(|code| code.eq_ignore_ascii_case(b"u003c"));
    let escaped = value.split(|byte| *byte == b'\\').skip(1).filter(is_tag).count();
    bound(plain + escaped).saturating_mul(UNIT_BYTES).saturating_add(value.len().saturating_mul(3))
}

/// Builds the tree of a page; `None` if it would be too large, or would nest more than `max_depth` nodes.
pub(super) fn build(html: &str, max_depth: usize) -> Option<Document> {
    let tags = html.bytes().filter(|byte| *byte == b'<').count();
    if tags > MAX_UNITS {
        return None;
    }
    let max_units = bound(tags);
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let sink = Sink { most: max_units, ..Sink::default() };
    let mut parser = parse_document(sink, ParseOpts { tree_builder: options, ..ParseOpts::default() });
    let mut rest = html;
    let (mut separators_without_token, mut seen) = (0_usize, 0);
    while !rest.is_empty() {
        let most = rest.get(..rest.floor_char_boundary(CHUNK_BYTES)).unwrap_or(rest);
        let end = most.match_indices('<').nth(CHUNK_TAGS).map_or(most.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        rest = after;
        parser.process(StrTendril::from_slice(chunk));
        let sink = &parser.tokenizer.sink.sink;
        if sink.units() > max_units || sink.last_is_deeper_than(max_depth) {
            return None;
        }
        let separators = chunk.bytes().filter(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\''));
        separators_without_token =
            if sink.calls.get() == seen { separators_without_token + separators.count() } else { 0 };
        seen = sink.calls.get();
        if separators_without_token > MAX_SEPARATORS_WITHOUT_TOKEN {
            return None;
        }
    }
    Some(parser.finish())
}

/// The growing tree, and how large it is.
#[derive(Default)]
struct Sink {
    tree: Document,
    /// Size of the tree, in units, beyond which elements get no attributes: one start tag may create hundreds of
    /// elements with a thousand attributes each.
    most: usize,
    attributes: Cell<usize>,
    last: Cell<Option<NodeId>>,
    /// Changes whenever the parser ends a token.
    calls: Cell<usize>,
}

impl Sink {
    fn units(&self) -> usize {
        self.tree.tree.len().saturating_add(self.attributes.get() / 2)
    }

    fn last_is_deeper_than(&self, limit: usize) -> bool {
        let Some(last) = self.last.get() else { return false };
        let mut above = std::iter::successors(Some(last), |id| self.tree.tree.parent_of(id).map(|parent| parent.id));
        above.nth(limit.saturating_add(1)).is_some()
    }

    fn called(&self) {
        self.calls.set(self.calls.get().wrapping_add(1));
    }
}

impl TreeSink for Sink {
    type Handle = NodeId;
    type Output = Document;
    type ElemName<'a> = <Document as TreeSink>::ElemName<'a>;

    fn finish(self) -> Document {
        self.tree
    }

    /// Does nothing: a page may hold an error in each of its bytes, and errors are not used.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        self.tree.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Self::ElemName<'a> {
        self.tree.elem_name(target)
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        self.called();
        let attributes = if self.units() > self.most { Vec::new() } else { attributes };
        self.attributes.set(self.attributes.get().saturating_add(attributes.len()));
        let id = self.tree.create_element(name, attributes, flags);
        self.last.set(Some(id));
        id
    }

    fn create_comment(&self, text: StrTendril) -> NodeId {
        self.called();
        self.tree.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> NodeId {
        self.called();
        self.tree.create_pi(target, data)
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.called();
        self.tree.append(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &NodeId, before: &NodeId, child: NodeOrText<NodeId>) {
        self.called();
        self.tree.append_based_on_parent_node(element, before, child);
    }

    fn append_doctype_to_document(&self, name: StrTendril, public_id: StrTendril, system_id: StrTendril) {
        self.called();
        self.tree.append_doctype_to_document(name, public_id, system_id);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        self.tree.get_template_contents(target)
    }

    fn same_node(&self, one: &NodeId, other: &NodeId) -> bool {
        one == other
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.tree.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        self.called();
        self.tree.append_before_sibling(sibling, child);
    }

    /// Does nothing: a second `<body>` may add attributes to the first, each of which would be compared with all before
    /// it, and they are not used.
    fn add_attrs_if_missing(&self, _: &NodeId, _: Vec<Attribute>) {
        self.called();
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.tree.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.tree.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &NodeId) -> bool {
        self.tree.is_mathml_annotation_xml_integration_point(handle)
    }
}
