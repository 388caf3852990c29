//! Room 2: text -> words.
//!
//! Before: `record` gives the body of a page, as plain text or HTML. After: `fingerprint` hashes the normalised text
//! and weighs its words. In order: HTML to main text, Unicode NFKC, lower case, traditional to simplified Chinese,
//! web addresses dropped, white space collapsed; then words, without stop words.
//!
//! Laws: the result is a function of the page and the settings alone; no input makes the stack grow with it.
//! Cost: some tens of microseconds for 2 KB, most of it segmentation; HTML costs about as much again.

mod analyzer;
mod extract;
mod han;
mod nesting;
mod normalize;
mod settings;
#[cfg(test)]
mod tests;
mod weight;
mod words;

#[cfg(test)]
use analyzer::default_jieba;
pub use analyzer::{Analyzer, NormalText, SettingsError, Word};
pub use han::{is_han, simplified};
pub use settings::{
    Digits, Han, HtmlText, JiebaSettings, Normalize, Segmenter, Settings, StopWords, UnicodeForm, Urls,
};
pub use weight::{AsIs, ONE, WordMap, idf};
pub use words::{CutBy, Run, runs};
