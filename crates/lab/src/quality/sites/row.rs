//! What is counted together, and what it has to reach.

use serde::Serialize;

use super::layout::Form;

/// What kind of pages a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Unlike articles in the repeated text of their sites.
    Unlike,
    /// Edited copies on other sites, as `eval` plants them.
    Ordinary,
    /// Edited copies on the site of their original: what the strict rule for pages of one site costs.
    OneSite,
    /// Articles on fifty sites, each in the repeated text of its own.
    Published,
    /// Pages that have other views.
    Viewed,
    /// The article without what the site puts around it.
    Print,
    /// The same page under an address with a session id.
    Session,
    /// The same page under an address with a session id, and with another time of day.
    SessionTime,
    /// The article in another frame, which names the address of the page.
    Amp,
    /// Edited copies of posts of fewer than forty characters.
    ShortPosts,
    /// Posts inside navigation.
    Navigation,
}

/// Floors of a row: least share found of the copies, most share lost of the unique pages, inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Goal {
    /// Most unique pages that may be lost.
    pub lost: Option<f64>,
    /// Least copies that must be found.
    pub found: Option<f64>,
}

/// One row: how its pages were made, and what they have to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What kind of pages.
    pub kind: RowKind,
    /// As what they were fetched.
    pub form: Form,
    /// Whether they have addresses.
    pub addressed: bool,
    /// Repeated text, in hundredths of a page's characters.
    pub share: Option<usize>,
    /// Pages of a site.
    pub site_pages: Option<usize>,
    /// What it has to reach.
    pub goal: Goal,
}

impl RowKind {
    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unlike => "unlike",
            Self::Ordinary => "ordinary",
            Self::OneSite => "one_site",
            Self::Published => "published",
            Self::Viewed => "viewed",
            Self::Print => "print",
            Self::Session => "session",
            Self::SessionTime => "session_time",
            Self::Amp => "amp",
            Self::ShortPosts => "short_posts",
            Self::Navigation => "navigation",
        }
    }
}

impl Goal {
    /// Nothing is asked for.
    pub const NONE: Self = Self { lost: None, found: None };

    /// Returns what pages of this share of repeated text may lose: one in a thousand up to 40 %, one in a hundred up to
    /// half.
    pub(super) const fn of_share(share: usize) -> Self {
        let lost = match share {
            0..=40 => Some(0.001),
            41..=50 => Some(0.01),
            _ => None,
        };
        Self { lost, found: None }
    }
}
