//! Progress bars.

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a bar of this length, `None` if it is unknown, from a template of indicatif.
pub(super) fn progress_bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
