//! Whatever the value of a record holds, decoding it does no harm and takes no more memory than the limit allows.

#![no_main]

use std::sync::LazyLock;

use dupgate_core::record::{Body, Coding, Decoder, EventTime, FieldPath, Fields, Format, InputSettings, RawRecord};
use libfuzzer_sys::fuzz_target;

const MAX_DOCUMENT: usize = 64 << 10;

fn settings(format: Format, encoding: &[Coding]) -> InputSettings {
    let pointer = |path: &str| path.parse::<FieldPath>().ok().filter(|_| format.has_fields());
    let fields = Fields {
        id: pointer("/url"),
        text: pointer("/text"),
        html: pointer("/page/html"),
        html_encoding: vec![Coding::Base64, Coding::Gzip],
        fetched_at: pointer("/at").or_else(|| "key".parse().ok()),
        zone: "Europe/Berlin".parse().ok(),
        scope: pointer("/scope/~1/0"),
        address: pointer("/pages/0/address"),
        canonical: "key".parse().ok(),
        ..Fields::nowhere()
    };
    let (event_time, encoding) = (EventTime::Field, encoding.to_vec());
    InputSettings { format, fields, event_time, encoding, max_document: MAX_DOCUMENT, ..InputSettings::default() }
}

static DECODERS: LazyLock<Vec<Decoder>> = LazyLock::new(|| {
    let plain = [Format::Json, Format::Text, Format::Html].map(|format| settings(format, &[]));
    let packed = [Coding::Base64, Coding::Gzip, Coding::Zstd, Coding::Deflate, Coding::Brotli];
    let packed = packed.map(|coding| settings(Format::Json, &[coding]));
    plain.iter().chain(&packed).map(|settings| Decoder::new(settings, 512).expect("settings")).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let raw = RawRecord { key: Some(bytes), value: Some(bytes), headers: &() };
    for decoder in &*DECODERS {
        match decoder.decode(&raw) {
            // A byte of another encoding has at most three in UTF-8.
            Ok(document) => {
                let (Body::Text(text) | Body::Html(text)) = document.body;
                assert!(text.len() <= 3 * MAX_DOCUMENT);
            }
            Err(rejection) => assert!(!rejection.is_for_now() && !rejection.message().is_empty()),
        }
    }
});
