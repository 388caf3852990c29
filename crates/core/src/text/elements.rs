//! Elements of HTML that need special handling.

/// Elements whose content is text up to their end tag, whatever is in it.
pub(super) const RAW: [&str; 8] = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];

/// Elements whose content is not shown, is a choice in a form, like the lists of countries that are equal on
/// thousands of sites, or says how to read the characters beside it (`rt`).
pub(super) const HIDDEN: [&str; 14] = [
    "head", "script", "style", "noscript", "template", "iframe", "object", "textarea", "svg", "title", "select",
    "datalist", "rt", "rp",
];

/// Those of them that say how to read the characters beside them.
pub(super) const READINGS: [&str; 2] = ["rt", "rp"];

/// Elements that do not end a word.
pub(super) const INLINE: [&str; 30] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "em", "font", "i", "ins", "kbd", "mark", "q",
    "rb", "rp", "rt", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "u", "wbr",
];

/// Elements whose text the library seldom takes for an article.
pub(super) const LISTS: [&str; 7] = ["ul", "ol", "dl", "table", "pre", "blockquote", "menu"];
