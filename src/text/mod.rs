//! Room 2: text -> weighted features.

mod settings;

pub use settings::{
    Digits, Han, HtmlText, JiebaSettings, Normalize, Segmenter, Settings, StopWords, UnicodeForm, Urls,
};
