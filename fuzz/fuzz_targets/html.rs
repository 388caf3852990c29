//! Whatever a page of HTML holds, reading it does no harm, and nothing of the page before it is left.

#![no_main]

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use dupgate_core::fingerprint::{Fingerprinter, Scratch, Settings};
use dupgate_core::record::{Fields, Format, InputSettings, RawRecord};
use dupgate_core::text::{self, HtmlText};
use libfuzzer_sys::fuzz_target;

static READERS: LazyLock<[Fingerprinter; 2]> = LazyLock::new(|| {
    let fields = Fields { address: "header:address".parse().ok(), ..Fields::nowhere() };
    let input = InputSettings { format: Format::Html, fields, ..InputSettings::default() };
    [HtmlText::MainText, HtmlText::AllText].map(|html| {
        let text = text::Settings { html, min_features: 1, ..text::Settings::default() };
        Fingerprinter::new(&input, &text, &Settings::default(), NonZeroUsize::MIN).expect("settings")
    })
});

fuzz_target!(|page: &[u8]| {
    let headers = vec![("address", "https://a.example/page?at=1")];
    let raw = RawRecord { key: None, value: Some(page), headers: &headers };
    for reader in &*READERS {
        let mut scratch = Scratch::default();
        let read = reader.read(&raw, &mut scratch);
        assert_eq!(reader.read(&raw, &mut scratch), read);
    }
});
