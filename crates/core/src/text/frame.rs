//! Recognises the frame of a page: footers, asides, navigation, and cookie notices.
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

/// Returns whether an element belongs to the frame.
pub(super) fn is_frame(element: &str, node: &NodeRef<'_>) -> bool {
    FRAME.contains(&element) || (NAMED.contains(&element) && is_named_so(node))
}

fn is_named_so(node: &NodeRef<'_>) -> bool {
    node.attr("role").is_some_and(|role| role.eq_ignore_ascii_case("contentinfo"))
        || ["id", "class"]
            .into_iter()
            .filter_map(|name| node.attr(name))
            .any(|names| names.split_ascii_whitespace().any(|name| is_footer(name) || is_notice(name)))
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
}
