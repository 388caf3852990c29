//! The web address of a page, and the site that it belongs to.

use std::borrow::Cow;

use psl::Type;
use url::{Host, Url};

/// The web address of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(Url);

impl Address {
    /// Reads an absolute address of the web (`http`, `https`). The fragment is left out: it names a place in the page.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::of(Url::parse(text).ok()?)
    }

    /// Resolves a reference from this page.
    #[must_use]
    pub(crate) fn join(&self, reference: &str) -> Option<Self> {
        Self::of(self.0.join(reference.trim()).ok()?)
    }

    fn of(mut url: Url) -> Option<Self> {
        let of_the_web = matches!(url.scheme(), "http" | "https") && url.host().is_some();
        of_the_web.then(|| {
            url.set_fragment(None);
            Self(url)
        })
    }

    /// Returns the address in its normal form.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether it is the front page of its host.
    #[must_use]
    pub(crate) fn is_front_page(&self) -> bool {
        self.0.path() == "/" && self.0.query().is_none()
    }

    /// Returns the site: the registered domain, in lower case; an IP address as it is.
    ///
    /// Only the suffixes under which registries sell names count (the ICANN part of the Public Suffix List). Some
    /// platforms give each user a subdomain (`alice.github.io`, `bob.blogspot.com`); their pages are pages of one site,
    /// because they share a frame.
    #[must_use]
    pub(crate) fn site(&self) -> Cow<'_, str> {
        match self.0.host() {
            Some(Host::Domain(host)) => Cow::Borrowed(registered(host.trim_end_matches('.'))),
            Some(Host::Ipv4(address)) => Cow::Owned(address.to_string()),
            Some(Host::Ipv6(address)) => Cow::Owned(address.to_string()),
            None => Cow::Borrowed(""),
        }
    }
}

/// Returns the public suffix of a host with the label before it, or the host itself if it has no public suffix.
fn registered(host: &str) -> &str {
    let suffix = |name: &str| psl::suffix(name.as_bytes()).map(|found| (found.as_bytes().len(), found.typ()));
    let mut parent = host;
    let length = loop {
        match suffix(parent) {
            // This is the suffix of a platform: the suffix under which the platform's own name is registered is above
            // it.
            Some((length, Some(Type::Private))) => {
                let private = parent.get(parent.len() - length..).unwrap_or_default();
                let Some((_, above)) = private.split_once('.') else { break length };
                parent = above;
            }
            Some((length, _)) => break length,
            None => return host,
        }
    };
    let Some(before) = host.len().checked_sub(length + 1).and_then(|end| host.get(..end)) else { return host };
    let label = before.rfind('.').map_or(0, |dot| dot + 1);
    host.get(label..).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(address: &str) -> String {
        Address::parse(address).unwrap().site().into_owned()
    }

    #[test]
    fn the_site_is_the_registered_domain() {
        for (address, expected) in [
            ("http://a.b.example.com/x", "example.com"),
            ("https://user:secret@WWW.Example.COM:81/", "example.com"),
            ("http://example.com./", "example.com"),
            ("http://news.bbc.co.uk/", "bbc.co.uk"),
            ("http://www.people.com.cn/", "people.com.cn"),
            ("http://a.gov.cn/", "a.gov.cn"),
            ("http://新闻.中国/", "xn--efvy88h.xn--fiqs8s"),
            ("http://a.新闻.公司.cn/", "xn--efvy88h.xn--55qx5d.cn"),
            ("http://alice.blogspot.com/", "blogspot.com"),
            ("http://alice.github.io/", "github.io"),
            ("http://bucket.s3.amazonaws.com/", "amazonaws.com"),
            ("http://b.s3.cn-north-1.amazonaws.com.cn/", "amazonaws.com.cn"),
            ("http://github.io/", "github.io"),
            ("http://a.b.city.kawasaki.jp/", "city.kawasaki.jp"),
            ("http://192.168.2.1:8080/", "192.168.2.1"),
            ("http://[2001:db8::1]/", "2001:db8::1"),
            ("http://localhost/", "localhost"),
            ("http://crawler.internal.lan/", "internal.lan"),
            ("http://co.uk/", "co.uk"),
        ] {
            assert_eq!(site(address), expected, "{address}");
        }
    }

    #[test]
    fn only_addresses_of_the_web_are_read() {
        for text in ["", "page-17", "/a/b", "example.com/a", "mailto:a@example.com", "file:///etc/x", "http://"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn references_are_resolved_in_the_page() {
        let page = Address::parse("https://m.example.com/a/b.html?x=1#y").unwrap();
        for (reference, expected) in [
            ("c.html", "https://m.example.com/a/c.html"),
            (" /c ", "https://m.example.com/c"),
            ("//www.example.com/c", "https://www.example.com/c"),
            ("HTTP://WWW.example.com:80/c", "http://www.example.com/c"),
            ("?id=2", "https://m.example.com/a/b.html?id=2"),
            ("#z", "https://m.example.com/a/b.html?x=1"),
        ] {
            assert_eq!(page.join(reference).unwrap().as_str(), expected, "{reference}");
        }
        assert_eq!(page.join("javascript:void(0)"), None);
    }
}
