//! Whatever a value of the Schema Registry holds, reading it does no harm and takes no more memory than the limit allows.

#![no_main]

use std::sync::{Arc, LazyLock};

use dupgate_core::record::{
    Body, Decoder, FindSchema, Format, InputSettings, NoSchema, RawRecord, Schema, SchemaId, Schemas,
};
use libfuzzer_sys::fuzz_target;

const MAX_DOCUMENT: usize = 64 << 10;

const AVRO: &str = r#"{"type": "record", "name": "Page", "fields": [
    {"name": "url", "type": "string"},
    {"name": "html", "type": ["null", "bytes", "string"]},
    {"name": "inner", "type": ["null", "Page"]},
    {"name": "headers", "type": {"type": "map", "values": {"type": "array", "items": ["string", "double", "boolean"]}}},
    {"name": "nothing", "type": {"type": "array", "items": "null"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "number", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "OLD"]}},
    {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 16}}]}"#;

const PROTOBUF: &str = r#"syntax = "proto3";
    message Page {
        string url = 1;
        bytes html = 2;
        Page inner = 3;
        repeated sint64 numbers = 4;
        map<string, Page> pages = 5;
        oneof which { double score = 6; fixed32 code = 7; }
        enum Status { NEW = 0; OLD = 1; }
        Status status = 8;
        message Inner { repeated string words = 1; }
        Inner words = 9;
    }"#;

#[derive(Debug)]
struct One(Arc<Schema>);

impl FindSchema for One {
    fn find(&self, _: SchemaId) -> Result<Arc<Schema>, NoSchema> {
        Ok(Arc::clone(&self.0))
    }

    fn is_known(&self, _: SchemaId) -> bool {
        true
    }
}

static DECODERS: LazyLock<[Decoder; 3]> = LazyLock::new(|| {
    [(Format::Avro, "AVRO", AVRO), (Format::Protobuf, "PROTOBUF", PROTOBUF), (Format::JsonSchema, "JSON", "{}")].map(
        |(format, kind, text)| {
            let schema = Schema::parse(kind, text, &[]).expect("a schema");
            let schemas = Schemas::of(Arc::new(One(Arc::new(schema))));
            let mut settings =
                InputSettings { format, max_document: MAX_DOCUMENT, schemas, ..InputSettings::default() };
            settings.fields.text = "/inner/html".parse().ok();
            settings.fields.html = "/html".parse().ok();
            settings.fields.scope = "/headers/0".parse().ok();
            Decoder::new(&settings, 512).expect("settings")
        },
    )
});

fuzz_target!(|bytes: &[u8]| {
    // The first message of a Protobuf schema has the index 0.
    let values = [bytes.to_vec(), [&[0, 0, 0, 0, 7], bytes].concat(), [&[0, 0, 0, 0, 7, 0], bytes].concat()];
    for (decoder, value) in DECODERS.iter().flat_map(|decoder| values.iter().map(move |value| (decoder, value))) {
        let raw = RawRecord { key: None, value: Some(value), headers: &() };
        assert!(decoder.is_ready(&raw));
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
