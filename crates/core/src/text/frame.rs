//! Recognises the frame of a page (footers, asides, navigation and cookie notices), and forms for comments and logins.
//!
//! Many sites use a `<div>` for these, and say so in its role, id or class.

use dom_query::NodeRef;

/// Elements that never hold the article.
const FRAME: [&str; 3] = ["aside", "footer", "nav"];

/// Elements whose role, id and class say what they are. The names of smaller elements describe a part of the text.
const NAMED: [&str; 6] = ["div", "section", "p", "table", "td", "ul"];

/// Words of an id or class that name a footer.
const FOOTER: [&str; 6] = ["footer", "foot", "copyright", "colophon", "contentinfo", "footnav"];

/// Words beside them that only give the element's position, or say that it has a footer.
const NOT_A_FOOTER: [&str; 10] = ["has", "with", "no", "without", "above", "before", "sticky", "push", "note", "notes"];

/// Words that name a cookie notice together with the word `cookie`.
const NOTICE: [&str; 16] = [
    "banner",
    "notice",
    "consent",
    "bar",
    "popup",
    "modal",
    "message",
    "overlay",
    "law",
    "alert",
    "dialog",
    "disclaimer",
    "warning",
    "accept",
    "info",
    "box",
];

/// Whole names of cookie notices.
const NOTICES: [&str; 6] = ["cookiebanner", "cookienotice", "cookiebar", "cookiepopup", "cookielaw", "cmp"];

/// Beginnings of the ids and classes that consent products use.
const PRODUCTS: [&str; 20] = [
    "onetrust",
    "ot-sdk",
    "cybotcookiebot",
    "didomi",
    "usercentrics",
    "uc-banner",
    "cookieconsent",
    "cc-window",
    "cc-banner",
    "cmplz",
    "moove_gdpr",
    "moove-gdpr",
    "osano-cm",
    "truste",
    "qc-cmp",
    "sp_message",
    "iubenda-cs",
    "tarteaucitron",
    "borlabs-cookie",
    "gdpr",
];

/// Words that name a form together with one of [`ASKED_FOR`].
const FORM: [&str; 3] = ["form", "respond", "reply"];

/// What such a form asks a reader for.
const ASKED_FOR: [&str; 6] = ["comment", "comments", "review", "reviews", "login", "signup"];

/// Whole names of forms that ask a reader for something.
const FORMS: [&str; 5] = ["respond", "commentform", "loginform", "registerform", "reviewform"];

/// Elements that hold the text of a teaser.
const BLOCKS: [&str; 8] = ["article", "blockquote", "div", "li", "main", "p", "section", "td"];

const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];

/// A link with fewer bytes besides its headings is a headline.
const MIN_TEASER: usize = 80;

/// A form with more bytes of text, or more nodes, is a page: some frameworks put all of it into one form.
const MAX_FORM_TEXT: usize = 1500;
const MAX_FORM_NODES: usize = 500;

/// Further elements that are never a part of the article around them.
const APART: [&str; 2] = ["dialog", "form"];

/// Further elements whose names are read to find out what is no part of the article around them.
const NAMED_APART: [&str; 4] = ["article", "ol", "li", "span"];

/// Words of an id or class that name what is beside an article.
const BESIDE: [&str; 37] = [
    "advert",
    "advertisement",
    "author",
    "bio",
    "breadcrumb",
    "breadcrumbs",
    "comment",
    "commentlist",
    "comments",
    "disclaimer",
    "disqus",
    "modal",
    "newsletter",
    "pagination",
    "paywall",
    "popular",
    "popup",
    "promo",
    "promotion",
    "recirc",
    "recommendation",
    "recommendations",
    "recommended",
    "related",
    "replies",
    "share",
    "sharing",
    "sidebar",
    "signup",
    "sponsor",
    "sponsored",
    "subscribe",
    "subscription",
    "teaser",
    "teasers",
    "tooltip",
    "trending",
];

/// Words beside them that say something else: `no-sidebar`, `comments-open`, `tag-comments`.
const NOT_BESIDE: [&str; 13] =
    ["has", "with", "no", "non", "without", "tag", "category", "cat", "open", "closed", "left", "right", "content"];

/// Roles of what is beside an article.
const ROLES: [&str; 6] = ["alertdialog", "banner", "complementary", "dialog", "navigation", "search"];

/// Returns whether an element is no part of an article around it: it belongs to the frame, or is named a comment, a
/// teaser, a dialog or the like.
pub(super) fn is_apart(element: &str, node: &NodeRef<'_>) -> bool {
    let is_named = NAMED.contains(&element) || NAMED_APART.contains(&element);
    let has_role = || node.attr("role").is_some_and(|role| is_one_of(&role, &ROLES));
    APART.contains(&element) || is_frame(element, node) || (is_named && (has_role() || has_name(node, is_beside)))
}

/// Returns whether a browser hides an element, until a script or the reader shows it.
pub(super) fn is_hidden(node: &NodeRef<'_>) -> bool {
    let is_unshown = |style: &str| {
        style.split(';').filter_map(|rule| rule.split_once(':')).any(|(name, value)| {
            let value = value.trim().trim_end_matches("!important").trim_end();
            (name.trim().eq_ignore_ascii_case("display") && value.eq_ignore_ascii_case("none"))
                || (name.trim().eq_ignore_ascii_case("visibility") && value.eq_ignore_ascii_case("hidden"))
        })
    };
    node.attr("hidden").is_some_and(|value| !value.eq_ignore_ascii_case("until-found"))
        || node.attr("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || node.attr("style").is_some_and(|style| is_unshown(&style))
}

/// Returns whether an element is a link around blocks with a text of their own, besides headings: the teaser of another
/// page. Longer links are ones that are not closed.
pub(super) fn is_linked_teaser(element: &str, node: &NodeRef<'_>) -> bool {
    let has_role = || node.attr("role").is_some_and(|role| role.eq_ignore_ascii_case("link"));
    if !((element == "a" && node.attr("href").is_some()) || has_role()) {
        return false;
    }
    let (mut has_block, mut length, mut own) = (false, 0, 0);
    for (number, node) in node.descendants_it().enumerate() {
        if number >= MAX_FORM_NODES || length > MAX_FORM_TEXT {
            return false;
        }
        if node.is_text() {
            let bytes = node.text().trim().len();
            let is_heading =
                |node: NodeRef<'_>| node.qual_name_ref().is_some_and(|name| HEADINGS.contains(&&*name.local));
            length += bytes;
            own += if node.ancestors_it(Some(3)).any(is_heading) { 0 } else { bytes };
        } else if let Some(name) = node.qual_name_ref() {
            has_block |= BLOCKS.contains(&&*name.local);
        }
    }
    has_block && own >= MIN_TEASER
}

/// Returns whether an element belongs to the frame.
pub(super) fn is_frame(element: &str, node: &NodeRef<'_>) -> bool {
    let is_footer_by_role = || node.attr("role").is_some_and(|role| role.eq_ignore_ascii_case("contentinfo"));
    FRAME.contains(&element)
        || (NAMED.contains(&element)
            && (is_footer_by_role() || has_name(node, |name| is_footer(name) || is_notice(name))))
}

/// Returns whether an element is a form that asks for a text, like a comment, or for a password, or the block around
/// such a form.
pub(super) fn is_form(element: &str, node: &NodeRef<'_>) -> bool {
    (element == "form" && asks(node) == Some(true))
        || (NAMED.contains(&element) && has_name(node, is_form_name) && asks(node).is_some())
}

/// Returns whether an element asks for a text or a password; `None` if it holds more than a form does.
fn asks(element: &NodeRef<'_>) -> Option<bool> {
    let (mut asks, mut length) = (false, 0);
    for (number, node) in element.descendants_it().enumerate() {
        if number >= MAX_FORM_NODES || length > MAX_FORM_TEXT {
            return None;
        }
        if node.is_text() {
            length += node.text().trim().len();
        } else if let Some(name) = node.qual_name_ref() {
            let is_password = || node.attr("type").is_some_and(|kind| kind.eq_ignore_ascii_case("password"));
            asks |= &*name.local == "textarea" || (&*name.local == "input" && is_password());
        }
    }
    Some(asks)
}

/// Returns whether a name in the id or class of an element is one of those wanted.
fn has_name(node: &NodeRef<'_>, is_wanted: impl Fn(&str) -> bool) -> bool {
    let mut names = ["id", "class"].into_iter().filter_map(|name| node.attr(name));
    names.any(|names| names.split_ascii_whitespace().any(&is_wanted))
}

/// Returns whether a name is that of a footer: `footer`, `site-footer`, `footerBottom`, but not `has-footer`.
fn is_footer(name: &str) -> bool {
    words(name).any(|word| is_one_of(word, &FOOTER)) && !words(name).any(|word| is_one_of(word, &NOT_A_FOOTER))
}

/// Returns whether a name is that of a cookie notice: `cookie-banner`, `onetrust-consent-sdk`.
fn is_notice(name: &str) -> bool {
    let begins = |product: &&str| name.get(..product.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(product));
    let names = |known: &[&str]| words(name).any(|word| is_one_of(word, known));
    is_one_of(name, &NOTICES) || PRODUCTS.iter().any(begins) || (names(&["cookie", "cookies"]) && names(&NOTICE))
}

/// Returns whether a name is that of something beside an article: `related-posts`, `commentList`.
fn is_beside(name: &str) -> bool {
    words(name).any(|word| is_one_of(word, &BESIDE)) && !words(name).any(|word| is_one_of(word, &NOT_BESIDE))
}

/// Returns whether a name is that of a form for comments or logins: `comment-respond`, `review_form`, `login-form`.
fn is_form_name(name: &str) -> bool {
    let names = |known: &[&str]| words(name).any(|word| is_one_of(word, known));
    is_one_of(name, &FORMS) || (names(&ASKED_FOR) && names(&FORM))
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Returns the words of a name. Hyphens, underscores and other marks separate them, as does a capital letter after a
/// small one.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_mark);
        let mut is_after_small = false;
        let end = rest.find(|c: char| {
            let is_border = is_mark(c) || (is_after_small && c.is_ascii_uppercase());
            is_after_small = c.is_ascii_lowercase();
            is_border
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

const fn is_mark(c: char) -> bool {
    matches!(c, '-' | '_' | ':' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_footers_are_known() {
        for name in
            ["footer", "FOOTER", "site-footer", "footerBottom", "page_footer", "copyright-footer", "foot", "colophon"]
        {
            assert!(is_footer(name), "{name}");
        }
        for name in ["has-footer", "sticky-footer-page", "footnotes", "foot-notes", "content", "football", "", "--"] {
            assert!(!is_footer(name), "{name}");
        }
    }

    #[test]
    fn names_of_notices_about_cookies_are_known() {
        for name in [
            "cookie-banner",
            "cookieNotice",
            "cookie_law_info",
            "onetrust-banner-sdk",
            "CybotCookiebotDialog",
            "cookiebar",
        ] {
            assert!(is_notice(name), "{name}");
        }
        for name in ["cookie", "cookie-recipe", "tag-cookies", "banner", "consent-form", "article"] {
            assert!(!is_notice(name), "{name}");
        }
    }

    #[test]
    fn names_of_forms_are_known() {
        for name in ["respond", "comment-respond", "commentform", "comment-form", "review_form", "loginForm"] {
            assert!(is_form_name(name), "{name}");
        }
        for name in ["comments", "comment-list", "review", "form", "responders", "platform", "login"] {
            assert!(!is_form_name(name), "{name}");
        }
    }
}
