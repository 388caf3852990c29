//! Elements of HTML that need special handling.

/// Elements whose content is text up to their end tag, whatever is in it.
pub(super) const RAW: [&str; 8] = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];

/// Elements whose content is not shown, or is a choice in a form, like the lists of countries that are equal on
/// thousands of sites.
pub(super) const HIDDEN: [&str; 12] = [
    "head", "script", "style", "noscript", "template", "iframe", "object", "textarea", "svg", "title", "select",
    "datalist",
];

/// Elements that do not end a word.
pub(super) const INLINE: [&str; 26] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "small", "span", "strike", "strong", "sub", "sup", "u", "wbr",
];
