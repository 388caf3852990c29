//! Whatever the headers of a record hold, reading them does no harm, and those that nobody named change nothing.

#![no_main]

use std::sync::LazyLock;

use dupgate::telemetry::spans::traceparent;
use dupgate_core::record::{Decoder, EventTime, Fields, Format, InputSettings, RawRecord};
use libfuzzer_sys::fuzz_target;

static DECODERS: LazyLock<[Decoder; 3]> = LazyLock::new(|| {
    let header = |name: &str| format!("header:{name}").parse().ok();
    let fields = Fields {
        id: header("id"),
        fetched_at: header("at"),
        scope: header("scope"),
        address: header("address"),
        canonical: header("canonical"),
        content_type: Some("content-type".to_owned()),
        ..Fields::default()
    };
    [Format::Text, Format::Html, Format::JsonSchema].map(|format| {
        let settings =
            InputSettings { format, fields: fields.clone(), event_time: EventTime::Field, ..InputSettings::default() };
        Decoder::new(&settings, 512).expect("settings")
    })
});

fuzz_target!(|bytes: &[u8]| {
    // Headers as in HTTP: lines, then the value.
    let mut rest = bytes;
    let mut headers = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        headers.push((String::from_utf8_lossy(&line[..colon]), &line[colon + 1..]));
    }
    for (_, value) in &headers {
        if let Some(context) = traceparent(value) {
            assert!(context.is_valid());
        }
    }
    let mut more = headers.clone();
    more.push(("of nobody".into(), bytes));
    for decoder in &*DECODERS {
        let [read, again] = [&headers, &more]
            .map(|headers| format!("{:?}", decoder.decode(&RawRecord { key: None, value: Some(rest), headers })));
        assert_eq!(read, again);
    }
});
