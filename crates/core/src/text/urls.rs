//! Web addresses in a text.

/// The web addresses of a text, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextUrls {
    /// Hash of all of them in order; 0 if there are none, or if `text.normalize.urls` keeps them.
    pub hash: u64,
    /// Whether they are left in the text because it consists of little else.
    pub kept: bool,
}

/// Returns the length of the web address that the text begins with.
pub(super) fn url_length(text: &str) -> Option<usize> {
    let head = text.as_bytes();
    let scheme = ["https://", "http://", "www."]
        .into_iter()
        .find(|scheme| head.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme.as_bytes())))?;
    let ends = |c: char| !c.is_ascii_graphic() || matches!(c, '<' | '>' | '"' | '\'' | '`' | '{' | '}' | '|' | '\\');
    let length = text.find(ends).unwrap_or(text.len());
    // Punctuation at the end belongs to the sentence.
    let address = text.get(..length)?.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '*']);
    (address.len() > scheme.len()).then_some(address.len())
}

/// Returns the web addresses of a text, in order.
pub fn urls(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            let begin = rest.find(['h', 'H', 'w', 'W'])?;
            let (before, rest) = (text.get(..at + begin)?, rest.get(begin..)?);
            // Checked first, so that no address is measured where none can begin.
            let inside_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
            let length = if inside_word { None } else { url_length(rest) };
            at += begin + length.unwrap_or(1);
            if let Some(length) = length {
                return rest.get(..length);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_where_they_begin_a_word() {
        let text =
            "see https://a.b/c?d=e#f, then (WWW.X.Y) 见http://t.cn/a今天 xhttp://no http:// www. https://a.b/w/www.c";
        let found: Vec<&str> = urls(text).collect();
        assert_eq!(found, ["https://a.b/c?d=e#f", "WWW.X.Y", "http://t.cn/a", "https://a.b/w/www.c"]);
        assert_eq!(urls("").next(), None);
        assert_eq!(urls(&"xhttps://a".repeat(100_000)).next(), None, "in linear time");
    }
}
