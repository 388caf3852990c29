//! `docs/INPUT.md` lists what crawlers send, with settings that read it: each row is tried on a record of that kind.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use dupgate::config::{ExternalInputs, Layers, Purpose};
use dupgate::record::{Body, Decoder, FindSchema, NoSchema, RawRecord, Schema, SchemaId, Schemas, Timestamp};
use std::sync::Arc;

use super::up_to_date;

const HEAD: &str = "# What crawlers send

Settings below `input` that read the records of common crawlers, data sets and connectors. Where a row sets
`fetched_at`, it needs `window.timestamp_source: field`; without that, leave it out. [CONFIGURATION.md](CONFIGURATION.md#fields)
describes paths, packed values and the accepted times.

Whatever is read, the record itself goes to the output unchanged. `dupgate sieve FILE.jsonl` tries settings on a file of
records, and `dupgate explain FILE.jsonl:1` shows what is read of one. With `format: warc`, `dupgate sieve FILE.warc.gz`
reads a WARC file record by record, and `dupgate explain FILE.warc.gz:7` shows what is read of its seventh record. Lines and
records over `input.max_document` are dead letters: only their beginning is read, and `--dead` leaves them out.

A WARC record is one Kafka value, compressed or not; [CONFIGURATION.md](CONFIGURATION.md#fields) says which of them have a
page. CloudEvents in batch mode (`application/cloudevents-batch+json`) are several pages in one value, and one verdict
cannot be given to them: send each event as its own record.

Frontera encodes messages as MessagePack by default, which is not read: set its `MESSAGE_BUS_CODEC` to
`frontera.contrib.backends.remote.codecs.json`.

Times are written as each tool writes them by default; those without a zone are UTC unless the tool was configured
otherwise. This page is generated from `tests/consistency/input.rs` by `DUPGATE_WRITE_DOCS=1 cargo test --test consistency`.

| sent by | as | settings below `input` |
|---|---|---|
";

/// 2024-05-21T10:10:10Z.
const TIME: i64 = 1_716_286_210_000;
const ID: &str = "https://a.example/1";
const TEXT: &str = "The old bridge across the river is closed for six weeks.";

/// One row. In its record, `ID`, `TEXT`, `HTML`, `BASE64` (of the HTML) and `JSON64` (of all in JSON) stand for
/// those of the page.
struct Row {
    writer: &'static str,
    form: &'static str,
    settings: &'static str,
    value: &'static str,
    key: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
    /// Type and text of the schema. Then the value lists the texts of its fields, which are encoded by it.
    schema: Option<(&'static str, &'static str)>,
}

const fn row(writer: &'static str, form: &'static str, settings: &'static str, value: &'static str) -> Row {
    Row { writer, form, settings, value, key: None, headers: &[], schema: None }
}

const ROWS: [Row; 37] = [
    row(
        "StormCrawler",
        "JSON of the indexer",
        "fields: {id: /url, text: /content}",
        r#"{"url":"ID","content":"TEXT"}"#,
    ),
    row(
        "Nutch",
        "JSON of the Kafka index writer",
        "fields: {id: /url, text: /content, fetched_at: /tstamp}",
        r#"{"id":"ID","url":"ID","content":"TEXT","tstamp":"2024-05-21T10:10:10.000Z","boost":1.0}"#,
    ),
    row(
        "Scrapy",
        "item with strings",
        "fields: {id: /url, text: /text, fetched_at: {path: /crawled, zone: UTC}}",
        r#"{"url":"ID","text":"TEXT","crawled":"2024-05-21 10:10:10"}"#,
    ),
    row(
        "Scrapy",
        "item of an ItemLoader without TakeFirst: lists of strings",
        "fields: {id: /url, text: /text}",
        r#"{"url":["ID"],"title":["Bridge"],"text":["TEXT","Trucks must use the ring road."]}"#,
    ),
    row(
        "scrapy-cluster",
        "JSON of crawled pages",
        "fields: {id: /url, html: /body, fetched_at: {path: /timestamp, zone: UTC}}",
        r#"{"url":"ID","body":"HTML","timestamp":"2024-05-21 10:10:10.000000","status_code":200}"#,
    ),
    row(
        "scrapy-cluster",
        "the same with `KAFKA_BASE_64_ENCODE`",
        "fields: {id: /url, html: {path: /body, encoding: base64}}",
        r#"{"url":"ID","body":"BASE64","encoding":"utf-8"}"#,
    ),
    row(
        "browsertrix-crawler",
        "lines of `pages.jsonl` with text",
        "fields: {id: /url, text: /text, fetched_at: /ts}",
        r#"{"id":"8d4","url":"ID","title":"Bridge","loadState":4,"ts":"2024-05-21T10:10:10.000Z","text":"TEXT"}"#,
    ),
    row(
        "C4, mC4",
        "JSON lines",
        "fields: {id: /url, text: /text, fetched_at: /timestamp}",
        r#"{"text":"TEXT","timestamp":"2024-05-21T10:10:10Z","url":"ID"}"#,
    ),
    row(
        "FineWeb",
        "JSON lines",
        "fields: {id: /url, text: /text, fetched_at: /date}",
        r#"{"text":"TEXT","id":"<urn:uuid:9>","url":"ID","date":"2024-05-21T10:10:10Z","language_score":0.98}"#,
    ),
    row(
        "RefinedWeb",
        "JSON lines",
        "fields: {id: /url, text: /content, fetched_at: {path: /timestamp, zone: UTC}}",
        r#"{"content":"TEXT","url":"ID","timestamp":"2024-05-21 10:10:10","image_urls":[]}"#,
    ),
    row(
        "OSCAR (22.01 and later)",
        "JSON lines",
        "fields: {id: /warc_headers/warc-target-uri, text: /content, fetched_at: /warc_headers/warc-date}",
        r#"{"content":"TEXT","warc_headers":{"warc-target-uri":"ID","warc-date":"2024-05-21T10:10:10Z"}}"#,
    ),
    row(
        "RedPajama",
        "JSON lines with JSON in a string",
        "fields: {id: /meta/~json/url, text: /text, fetched_at: /meta/~json/timestamp}",
        r#"{"text":"TEXT","meta":"{\"url\":\"ID\",\"timestamp\":\"2024-05-21T10:10:10Z\"}"}"#,
    ),
    row(
        "news-please",
        "JSON",
        "fields: {id: /url, text: /maintext, fetched_at: {path: /date_download, zone: UTC}}",
        r#"{"url":"ID","maintext":"TEXT","date_download":"2024-05-21 10:10:10","date_publish":null}"#,
    ),
    row(
        "Firecrawl",
        "JSON of a page",
        "fields: {id: /metadata/sourceURL, text: /markdown, html: /html}",
        r#"{"markdown":"TEXT","html":"HTML","metadata":{"sourceURL":"ID","statusCode":200}}"#,
    ),
    row(
        "crawl4ai",
        "JSON of a result",
        "fields: {id: /url, text: /markdown/raw_markdown, html: /html}",
        r#"{"url":"ID","html":"HTML","markdown":{"raw_markdown":"TEXT"}}"#,
    ),
    row(
        "Debezium",
        "JSON without schemas; columns url and body",
        "fields: {id: /after/url, html: /after/body, fetched_at: /ts_ms}",
        r#"{"before":null,"after":{"url":"ID","body":"HTML"},"op":"c","ts_ms":1716286210000}"#,
    ),
    row(
        "Debezium",
        "JSON with schemas",
        "fields: {id: /payload/after/url, html: /payload/after/body, fetched_at: /payload/ts_ms}",
        r#"{"schema":{"type":"struct"},"payload":{"after":{"url":"ID","body":"HTML"},"ts_ms":1716286210000}}"#,
    ),
    row(
        "Debezium for MongoDB",
        "JSON without schemas; the document is JSON in a string",
        "fields: {id: /after/~json/url, html: /after/~json/html, fetched_at: /ts_ms}",
        r#"{"after":"{\"_id\":{\"$oid\":\"6\"},\"url\":\"ID\",\"html\":\"HTML\"}","op":"c","ts_ms":1716286210000}"#,
    ),
    row(
        "Kafka Connect",
        "JsonConverter with schemas",
        "fields: {id: /payload/url, text: /payload/text}",
        r#"{"schema":{"type":"struct","fields":[]},"payload":{"url":"ID","text":"TEXT"}}"#,
    ),
    row(
        "Kafka Connect",
        "JsonConverter with schemas; the page in a bytes column",
        "fields: {id: /payload/url, html: {path: /payload/body, encoding: base64}}",
        r#"{"schema":{"type":"struct","fields":[]},"payload":{"url":"ID","body":"BASE64"}}"#,
    ),
    row(
        "Logstash, Filebeat",
        "JSON in the field message",
        "fields: {id: /message/~json/url, text: /message/~json/text, fetched_at: /@timestamp}",
        r#"{"@timestamp":"2024-05-21T10:10:10.000Z","message":"{\"url\":\"ID\",\"text\":\"TEXT\"}"}"#,
    ),
    row(
        "CloudEvents",
        "structured mode, JSON data",
        "fields: {id: /data/url, text: /data/text, fetched_at: /time}",
        r#"{"specversion":"1.0","id":"1","source":"/c","type":"page","time":"2024-05-21T10:10:10Z","data":{"url":"ID","text":"TEXT"}}"#,
    ),
    row(
        "Pub/Sub connectors",
        "the message's JSON with the data in base64",
        "fields: {id: /message/data/~json/url, text: /message/data/~json/text, fetched_at: /message/publishTime}",
        r#"{"message":{"data":"JSON64","messageId":"1","publishTime":"2024-05-21T10:10:10.000Z"}}"#,
    ),
    row(
        "CloudEvents",
        "structured mode, the page in `data_base64`",
        "fields: {id: /subject, html: {path: /data_base64, encoding: base64}, fetched_at: /time}",
        r#"{"specversion":"1.0","id":"1","source":"/c","type":"page","subject":"ID","time":"2024-05-21T10:10:10Z","data_base64":"BASE64"}"#,
    ),
    Row {
        schema: Some((
            "AVRO",
            r#"{"type":"record","name":"Page","fields":[{"name":"url","type":"string"},{"name":"body","type":"bytes"}]}"#,
        )),
        ..row(
            "Schema Registry",
            "Avro (Connect's AvroConverter, KafkaAvroSerializer); the page in a bytes field",
            "{format: avro, schema_registry: {url: \"http://registry:8081\"}, fields: {id: /url, html: /body}}",
            "ID|HTML",
        )
    },
    Row {
        schema: Some(("PROTOBUF", "syntax = \"proto3\"; message Page { string url = 1; string text = 2; }")),
        ..row(
            "Schema Registry",
            "Protobuf (ProtobufConverter, KafkaProtobufSerializer)",
            "{format: protobuf, schema_registry: {url: \"http://registry:8081\"}, fields: {id: /url, text: /text}}",
            "ID|TEXT",
        )
    },
    row(
        "Schema Registry",
        "JSON Schema (JsonSchemaConverter, KafkaJsonSchemaSerializer)",
        "{format: json_schema, fields: {id: /url, text: /text}}",
        "\0\0\0\0\x07{\"url\":\"ID\",\"text\":\"TEXT\"}",
    ),
    Row {
        headers: &[
            ("ce_subject", ID),
            ("ce_time", "2024-05-21T10:10:10Z"),
            ("content-type", "text/html; charset=utf-8"),
        ],
        ..row(
            "CloudEvents",
            "binary mode, the page is the value",
            "{format: html, fields: {id: \"header:ce_subject\", content_type: \"header:content-type\", fetched_at: \"header:ce_time\"}}",
            "HTML",
        )
    },
    Row {
        headers: &[("ce_time", "2024-05-21T10:10:10Z")],
        ..row(
            "CloudEvents",
            "binary mode, JSON",
            "fields: {id: /url, text: /text, fetched_at: \"header:ce_time\"}",
            r#"{"url":"ID","text":"TEXT"}"#,
        )
    },
    row(
        "Heritrix",
        "WARC response record",
        "format: warc",
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: ID\r\nWARC-Date: 2024-05-21T10:10:10Z\r\n\
         WARC-Payload-Digest: sha1:ABC\r\nWARC-IP-Address: 192.0.2.1\r\nWARC-Record-ID: <urn:uuid:1>\r\n\
         Content-Type: application/http; msgtype=response\r\nContent-Length: LENGTH\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\nCHUNKS\r\n\r\n",
    ),
    row(
        "browsertrix-crawler",
        "WARC response record",
        "format: warc",
        "WARC/1.1\r\nWARC-Target-URI: ID\r\nWARC-Date: 2024-05-21T10:10:10.000Z\r\nWARC-Type: response\r\n\
         WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/http; msgtype=response\r\n\
         WARC-Page-ID: 8d4\r\nWARC-Payload-Digest: sha256:abc\r\nContent-Length: LENGTH\r\n\r\n\
         HTTP/1.1 200\r\ncontent-type: text/html\r\nx-orig-content-encoding: gzip\r\n\r\nHTML\r\n\r\n",
    ),
    row(
        "Common Crawl",
        "WARC response record",
        "format: warc",
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Date: 2024-05-21T10:10:10Z\r\nWARC-Record-ID: <urn:uuid:1>\r\n\
         Content-Length: LENGTH\r\nContent-Type: application/http; msgtype=response\r\nWARC-Target-URI: ID\r\n\
         WARC-Identified-Payload-Type: text/html\r\n\r\n\
         HTTP/1.1 200 OK\r\nX-Crawler-Content-Encoding: gzip\r\nX-Crawler-Transfer-Encoding: chunked\r\n\r\nHTML\r\n\r\n",
    ),
    row(
        "Common Crawl",
        "WET: WARC conversion record",
        "format: warc",
        "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: ID\r\nWARC-Date: 2024-05-21T10:10:10Z\r\n\
         WARC-Record-ID: <urn:uuid:1>\r\nWARC-Refers-To: <urn:uuid:2>\r\nContent-Type: text/plain\r\n\
         Content-Length: LENGTH\r\n\r\nTEXT\r\n\r\n",
    ),
    row(
        "Frontera",
        "JSON codec until 0.7, with the bodies in the spider log (`STORE_CONTENT`)",
        "fields: {id: /r/url, html: {path: /r/body, encoding: base64}}",
        r#"{"type":"page_crawled","r":{"url":"ID","status_code":200,"meta":{},"body":"BASE64"},"links":[]}"#,
    ),
    row(
        "Frontera",
        "JSON codec since 0.8, which writes the type of each value: positions in lists",
        "fields: {id: /1/1/1/1/0/1/1, html: {path: /1/1/1/1/3/1/1, encoding: base64}}",
        r#"["dict",[[["other","type"],["other","page_crawled"]],[["other","r"],["dict",[[["other","url"],["other","ID"]],[["other","status_code"],["other",200]],[["other","meta"],["dict",[]]],[["other","body"],["bytes","BASE64"]]]]]]]"#,
    ),
    Row {
        key: Some(ID),
        ..row("any", "the page is the value, its address the key", "{format: html, fields: {id: key}}", "HTML")
    },
    Row {
        key: Some(ID),
        ..row("any", "text is the value, its address the key", "{format: text, fields: {id: key}}", "TEXT")
    },
];

fn document() -> String {
    let row = |row: &Row| {
        let settings = row.settings.trim_start_matches('{');
        let settings = if settings.len() < row.settings.len() { &settings[..settings.len() - 1] } else { settings };
        format!("| {} | {} | `{settings}` |\n", row.writer, row.form)
    };
    HEAD.to_owned() + &ROWS.iter().map(row).collect::<String>()
}

/// A registry with one schema, of number 7.
#[derive(Debug)]
struct Seven(Arc<Schema>);

impl FindSchema for Seven {
    fn find(&self, id: SchemaId) -> Result<Arc<Schema>, NoSchema> {
        assert_eq!(id, SchemaId::Number(7));
        Ok(Arc::clone(&self.0))
    }

    fn is_known(&self, _: SchemaId) -> bool {
        true
    }
}

/// Encodes a list of texts in the wire format of the registry.
fn encoded(kind: &str, texts: &str) -> Vec<u8> {
    let mut value = vec![0, 0, 0, 0, 7];
    // The first message of a Protobuf schema.
    value.extend((kind == "PROTOBUF").then_some(0));
    for (number, text) in (1_u8..).zip(texts.split('|')) {
        let mut length = text.len();
        if kind == "PROTOBUF" {
            value.push(number << 3 | 2);
        } else {
            length *= 2;
        }
        while length >= 0x80 {
            value.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        value.push(u8::try_from(length).unwrap());
        value.extend(text.as_bytes());
    }
    value
}

#[test]
fn the_page_of_inputs_agrees_with_the_rows_that_are_tried() {
    up_to_date("docs/INPUT.md", &document());
}

#[test]
fn every_row_reads_what_it_names() {
    let html = format!("<html><body><p>{TEXT}</p></body></html>");
    for row in &ROWS {
        let name = format!("{}, {}", row.writer, row.form);
        let input = row.settings.trim_start_matches('{');
        let input = if input.len() < row.settings.len() { row.settings.to_owned() } else { format!("{{{input}}}") };
        // A WARC record always says when.
        let is_timed = input.contains("fetched_at") || input.contains("format: warc");
        let mut layers = Layers::default();
        layers.file("input.yaml", &format!("input: {input}\n"));
        if is_timed {
            layers.set("window.timestamp_source=field");
        }
        let resolved = layers.resolve(&ExternalInputs::default(), Purpose::Sieve);
        let settings = resolved.unwrap_or_else(|refused| panic!("{name}: {refused}")).0;
        let json = format!(r#"{{"url":"{ID}","text":"{TEXT}"}}"#);
        let value = row.value.replace("JSON64", &BASE64_STANDARD.encode(json));
        let value = value.replace("BASE64", &BASE64_STANDARD.encode(&html)).replace("HTML", &html);
        let value = value.replace("TEXT", TEXT).replace("ID", ID);
        let chunks = format!("{:x}\r\n{html}\r\n0\r\n\r\n", html.len());
        let value = value.replace("CHUNKS", &chunks);
        // The block of a WARC record is what is between its headers and its last two line breaks.
        let block = value.split_once("\r\n\r\n").map_or(0, |(_, block)| block.len().saturating_sub(4));
        let value = value.replace("LENGTH", &block.to_string());
        let value = row.schema.map_or_else(|| value.clone().into_bytes(), |(kind, _)| encoded(kind, &value));
        let headers: Vec<(&str, &[u8])> = row.headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let record = RawRecord { key: row.key.map(str::as_bytes), value: Some(&value), headers: &headers };
        let mut input = settings.record.clone();
        if let Some((kind, text)) = row.schema {
            input.schemas = Schemas::of(Arc::new(Seven(Arc::new(Schema::parse(kind, text, &[]).unwrap()))));
        }
        let decoder = Decoder::new(&input, settings.text.max_nesting).unwrap();
        let page = decoder.decode(&record).unwrap_or_else(|rejection| panic!("{name}: {rejection}"));
        assert_eq!(page.id.as_deref(), Some(ID), "{name}");
        let (Body::Text(body) | Body::Html(body)) = &page.body;
        assert!(body.contains(TEXT), "{name}: {body}");
        assert_eq!(page.fetched_at.map(Timestamp::millis), is_timed.then_some(TIME), "{name}");
    }
}
