//! Values that name their schema. `apache-avro` and `prost-reflect` encode them.

use super::*;
use apache_avro::types::Value as Avro;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, Value as Proto};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A registry with these schemas.
#[derive(Debug, Default)]
struct Known(BTreeMap<SchemaId, Arc<Schema>>);

impl FindSchema for Known {
    fn find(&self, id: SchemaId) -> Result<Arc<Schema>, NoSchema> {
        self.0.get(&id).cloned().ok_or_else(|| NoSchema::Unknown("the registry does not have it".to_owned()))
    }

    fn is_known(&self, id: SchemaId) -> bool {
        self.0.contains_key(&id)
    }
}

const SEVEN: SchemaId = SchemaId::Number(7);
const GUID: [u8; 16] = *b"0123456789abcdef";

/// Settings of a format whose values have schema 7, or the same one by its GUID.
fn of(format: Format, schema: Schema) -> InputSettings {
    let schema = Arc::new(schema);
    let known = [(SEVEN, Arc::clone(&schema)), (SchemaId::Guid(GUID), schema)];
    settings(|settings| {
        settings.format = format;
        settings.schemas = Schemas::of(Arc::new(Known(known.into_iter().collect())));
    })
}

fn text_of(name: &str, text: &str) -> SchemaText {
    SchemaText { name: name.to_owned(), text: text.to_owned() }
}

/// A value behind the number of its schema.
fn framed(value: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, 7], value].concat()
}

/// What a setting reads of a value, as a text.
fn text_at(settings: &InputSettings, pointer: &str, value: &[u8]) -> Result<String, Rejection> {
    let settings =
        InputSettings { fields: Fields { text: Some(path(pointer)), ..Fields::nowhere() }, ..settings.clone() };
    decode(&settings, value).map(|document| match document.body {
        Body::Text(text) | Body::Html(text) => text.into_owned(),
    })
}

fn scope_at(settings: &InputSettings, pointer: &str, value: &[u8]) -> Option<String> {
    let fields = Fields { scope: Some(path(pointer)), ..Fields::default() };
    let settings = InputSettings { fields, ..settings.clone() };
    Decoder::new(&settings, 512).unwrap().scope(&record(value)).unwrap().map(Into::into)
}

/// Reads the page of the tests with its id and its scope, and what further pointers to scopes find.
fn assert_read(settings: &InputSettings, value: &[u8], [id, scope]: [&str; 2], scopes: &[(&str, Option<&str>)]) {
    let fields = Fields {
        html: Some(path("/html")),
        id: Some(path(id)),
        fetched_at: Some(path("/at")),
        scope: Some(path(scope)),
        ..Fields::nowhere()
    };
    let read = InputSettings { fields, event_time: EventTime::Field, ..settings.clone() };
    let document = decode(&read, value).unwrap();
    assert_eq!(document.body, Body::Html("<p>字".into()));
    assert_eq!(document.id.as_deref(), Some("https://a.example/1"));
    assert_eq!(document.scope.as_deref(), Some("inner"));
    assert_eq!(document.fetched_at, Some(Timestamp::from_millis(1_716_286_210_000)));
    for (pointer, expected) in scopes {
        assert_eq!(scope_at(settings, pointer, value).as_deref(), *expected, "{pointer}");
    }
}

fn message(read: Result<String, Rejection>) -> String {
    let rejection = read.unwrap_err();
    assert_eq!((rejection.reason(), rejection.is_for_now()), (Reject::Undecodable, false), "{rejection}");
    rejection.message().to_owned()
}

const PAGE: &str = r#"{"type": "record", "name": "Page", "namespace": "crawl", "fields": [
    {"name": "url", "type": "string"},
    {"name": "html", "type": ["null", "bytes"], "default": null},
    {"name": "meta", "type": {"type": "record", "name": "Meta", "fields": [
        {"name": "site", "type": ["null", "string", "Meta"]},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "OLD"]}}]}},
    {"name": "also", "type": ["null", "crawl.Meta"]},
    {"name": "headers", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    {"name": "number", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "uuid", "type": {"type": "fixed", "name": "Uuid", "size": 16, "logicalType": "uuid"}},
    {"name": "score", "type": ["null", "double"]},
    {"name": "ok", "type": "boolean"}]}"#;

fn meta(site: Avro, branch: u32, status: u32) -> Avro {
    let status = Avro::Enum(status, ["NEW", "OLD"][status as usize].to_owned());
    Avro::Record(vec![("site".to_owned(), Avro::Union(branch, Box::new(site))), ("status".to_owned(), status)])
}

fn avro_page(html: &[u8]) -> Vec<u8> {
    let inner = meta(Avro::String("inner".to_owned()), 1, 0);
    let headers = [("via".to_owned(), Avro::Array(vec!["a", "b"].into_iter().map(Avro::from).collect()))];
    let value = Avro::Record(
        [
            ("url", Avro::from("https://a.example/1")),
            ("html", Avro::Union(1, Box::new(Avro::Bytes(html.to_vec())))),
            ("meta", meta(inner, 2, 1)),
            ("also", Avro::Union(1, Box::new(meta(Avro::Null, 0, 0)))),
            ("headers", Avro::Map(HashMap::from(headers))),
            ("at", Avro::TimestampMicros(1_716_286_210_000_000)),
            ("day", Avro::Date(19_864)),
            ("local", Avro::LocalTimestampMillis(1_716_286_210_000)),
            ("number", Avro::Decimal(apache_avro::Decimal::from((-12_345_i64).to_be_bytes()))),
            ("uuid", Avro::Fixed(16, GUID.to_vec())),
            ("score", Avro::Union(1, Box::new(Avro::Double(0.5)))),
            ("ok", Avro::Boolean(true)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
    );
    let schema = apache_avro::Schema::parse_str(&PAGE.replace(r#", "logicalType": "uuid""#, "")).unwrap();
    let writer = apache_avro::writer::datum::GenericDatumWriter::builder(&schema).build().unwrap();
    framed(&writer.write_value_to_vec(value).unwrap())
}

fn avro() -> InputSettings {
    of(Format::Avro, Schema::parse("AVRO", PAGE, &[]).unwrap())
}

#[test]
fn every_type_of_avro_is_read_by_its_schema() {
    let (settings, value) = (avro(), avro_page("<p>字".as_bytes()));
    assert_eq!(text_at(&settings, "/headers/via", &value).unwrap(), "a\nb");
    let scopes = [
        ("/meta/status", Some("OLD")),
        ("/also/status", Some("NEW")),
        ("/also/site", None),
        ("/at", Some("1716286210000000")),
        ("/day", Some("2024-05-21")),
        ("/local", Some("2024-05-21T10:10:10")),
        ("/number", Some("-123.45")),
        ("/uuid", Some("30313233-3435-3637-3839-616263646566")),
        ("/score", Some("0.5")),
        ("/ok", Some("true")),
        ("/nowhere", None),
    ];
    assert_read(&settings, &value, ["/url", "/meta/site/site"], &scopes);
}

/// Numbers of days and local times would be taken for seconds and for times in UTC.
#[test]
fn dates_and_local_times_need_a_zone() {
    for pointer in ["/day", "/local"] {
        let fields = Fields { html: Some(path("/html")), fetched_at: Some(path(pointer)), ..Fields::nowhere() };
        let mut settings = InputSettings { fields, event_time: EventTime::Field, ..avro() };
        let value = avro_page(b"<p>");
        assert_eq!(decode(&settings, &value).unwrap_err().reason(), Reject::WrongType, "{pointer}");
        settings.fields.zone = Some("+02:00".parse().unwrap());
        let time = if pointer == "/day" { 1_716_242_400_000 } else { 1_716_279_010_000 };
        assert_eq!(decode(&settings, &value).unwrap().fetched_at, Some(Timestamp::from_millis(time)), "{pointer}");
    }
}

#[test]
fn bytes_are_a_page_in_its_encoding_packed_or_not() {
    const HTML: &str = r#"<meta charset="gbk"><p>据新华社报道，中国人民银行宣布下调存款准备金率"#;
    let gbk = encoding_rs::GBK.encode(HTML).0.into_owned();
    for (html, encoding) in [
        (HTML.as_bytes().to_vec(), Encoding::Utf8),
        (gbk.clone(), Encoding::Gb18030),
        (zstd(&gbk), Encoding::Gb18030),
        (zstd(HTML.as_bytes()), Encoding::Utf8),
        (HTML.encode_utf16().flat_map(u16::to_le_bytes).collect(), Encoding::Utf16),
    ] {
        let fields = Fields { html: Some(path("/html")), ..Fields::nowhere() };
        let mut settings = InputSettings { fields, ..avro() };
        let value = avro_page(&html);
        let document = decode(&settings, &value).unwrap();
        assert_eq!((document.body, document.encoding), (Body::Html(HTML.into()), encoding));
        settings.fields.html_encoding = vec![Coding::Zstd];
        let is_zstd = html.starts_with(b"\x28\xb5\x2f\xfd");
        assert_eq!(decode(&settings, &value).is_ok(), is_zstd, "{encoding:?}: the setting is obeyed");
    }
    let picture = avro_page(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\0");
    let why = message(text_at(&avro(), "/html", &picture));
    assert_eq!(why, "`/html` holds bytes that are no text");
    let packed = zstd(&avro_page(b"<p>a"));
    assert_eq!(text_at(&avro(), "/html", &packed).unwrap(), "<p>a", "the whole value is compressed");
}

#[test]
fn avro_schemas_refer_to_others() {
    let site = text_of(
        "net.Site",
        r#"{"type": "record", "name": "net.Site", "fields": [{"name": "name", "type": "string"}]}"#,
    );
    let user = r#"{"type": "record", "name": "Page", "namespace": "crawl", "fields": [
        {"name": "text", "type": "string"}, {"name": "site", "type": "net.Site"}]}"#;
    let value = framed(b"\x02a\x04bc");
    let settings = of(Format::Avro, Schema::parse("AVRO", user, std::slice::from_ref(&site)).unwrap());
    assert_eq!(text_at(&settings, "/text", &value).unwrap(), "a");
    assert_eq!(text_at(&settings, "/site/name", &value).unwrap(), "bc");
    assert_eq!(Schema::parse("AVRO", user, &[]).unwrap_err(), "the type net.Site is not defined");
    let broken = Schema::parse("AVRO", user, &[text_of("net.Site", "{}"), site]).unwrap_err();
    assert_eq!(broken, "its reference net.Site: a schema in it has no type");
    // A value that is nothing but a string, which may hold JSON.
    for (schema, value) in [
        ("\"string\"", &b"\x16{\"text\":\"a\"}"[..]),
        ("string", b"\x16{\"text\":\"a\"}"),
        ("\"bytes\"", b"{\"text\":\"a\"}"),
    ] {
        let settings = of(Format::Avro, Schema::parse("AVRO", schema, &[]).unwrap());
        let value = framed(&[&[u8::try_from(2 * 12).unwrap()][..], &value[1..]].concat());
        let value = if schema.contains("bytes") { framed(br#"{"text":"a"}"#) } else { value };
        assert_eq!(text_at(&settings, "/~json/text", &value).unwrap(), "a", "{schema}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused_with_the_place() {
    let (settings, whole) = (avro(), avro_page(b"<p>"));
    for (value, expected) in [
        ([&whole[..], b"x"].concat(), "1 of 103 bytes are left over"),
        (whole[..whole.len() - 1].to_vec(), "`/ok`: 1 bytes should follow, and 0 are left"),
        (framed(b"\x06ab"), "`/url`: 3 bytes should follow, and 2 are left"),
        (framed(b"\x01"), "`/url`: a length of -1"),
        (framed(b"\x02\xff"), "`/url`: a string is not UTF-8 from its byte 0 on"),
        (framed(b"\x02a\x06"), "`/html`: number 3 of 2 branches"),
        (framed(b"\x02a\0\0\x08"), "`/meta/status`: number 4 of 2 symbols"),
        (framed(&[0xff; 11]), "`/url`: a number has more than ten bytes"),
        (
            framed(b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
            "`/url`: 4611686018427387904 bytes should follow, and 0 are left",
        ),
    ] {
        let why = message(text_at(&settings, "/url", &value));
        assert_eq!(why, format!("the value does not fit schema 7, or is damaged: {expected}"));
    }
}

/// Nulls take no bytes at all, so a small value may promise any number of them, and any depth.
#[test]
fn small_avro_values_cannot_fill_the_memory_or_the_stack() {
    let nulls =
        r#"{"type": "record", "name": "R", "fields": [{"name": "text", "type": {"type": "array", "items": "null"}}]}"#;
    let mut settings = of(Format::Avro, Schema::parse("AVRO", nulls, &[]).unwrap());
    settings.max_document = 1 << 20;
    let value = framed(b"\x80\x80\x80\x80\x80\x80\x80\x80\x40\0");
    let rejection = text_at(&settings, "/text", &value).unwrap_err();
    assert_eq!(rejection.reason(), Reject::TooLarge);
    assert_eq!(rejection.message(), "the value takes more than 1048576 bytes as JSON (input.max_document)");
    let list = r#"{"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}"#;
    let settings = of(Format::Avro, Schema::parse("AVRO", list, &[]).unwrap());
    let deep = framed(&[2].repeat(1 << 20));
    assert_eq!(text_at(&settings, "/next", &deep).unwrap_err().reason(), Reject::TooDeep);
    // A schema that has no finite value.
    let endless = r#"{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}"#;
    let settings = of(Format::Avro, Schema::parse("AVRO", endless, &[]).unwrap());
    assert_eq!(text_at(&settings, "/a", &framed(b"")).unwrap_err().reason(), Reject::TooDeep);
}

const PROTO: &str = r#"syntax = "proto3";
package crawl;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "confluent/meta.proto";
import "net/site.proto";
message Other { string text = 1; }
message Outer {
  map<string, int64> counts = 1;
  message First { string text = 1; }
  message Page {
    string page_url = 1;
    bytes html = 2;
    google.protobuf.Timestamp at = 3;
    repeated string parts = 4;
    repeated int32 numbers = 5;
    net.Site site = 6;
    Status status = 7;
    map<int32, net.Site> sites = 8;
    google.protobuf.Struct extra = 9;
    google.protobuf.StringValue title = 10;
    sint64 delta = 11;
    double score = 12;
    fixed64 hash = 13;
    oneof body { string text = 14; bool is_empty = 15; }
    repeated Page children = 16;
    optional bool ok = 17;
    int32 negative = 18;
  }
  enum Status { UNKNOWN = 0; OLD = 1; }
}"#;

const SITE: &str = r#"syntax = "proto3"; package net; message Site { string name = 1; int32 rank = 2; }"#;

fn proto_schema() -> Schema {
    Schema::parse("PROTOBUF", PROTO, &[text_of("net/site.proto", SITE)]).unwrap()
}

/// The same, as the serializer for Python registers it.
fn compiled_schema() -> Schema {
    let pool = pool();
    let compiled = |name| BASE64_STANDARD.encode(pool.get_file_by_name(name).unwrap().encode_to_vec());
    let site = text_of("net/site.proto", &compiled("net/site.proto"));
    Schema::parse("PROTOBUF", &compiled("page.proto"), &[site]).unwrap()
}

/// The same files, compiled for the encoder.
fn pool() -> prost_reflect::DescriptorPool {
    struct Files;
    impl protox::file::FileResolver for Files {
        fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
            let text = match name {
                "page.proto" => PROTO.replace("import \"confluent/meta.proto\";", ""),
                "net/site.proto" => SITE.to_owned(),
                _ => return protox::file::GoogleFileResolver::new().open_file(name),
            };
            protox::file::File::from_source(name, &text)
        }
    }
    let mut compiler = protox::Compiler::with_file_resolver(Files);
    compiler.open_file("page.proto").unwrap();
    compiler.descriptor_pool()
}

fn message_of(pool: &prost_reflect::DescriptorPool, name: &str, fields: Vec<(&str, Proto)>) -> DynamicMessage {
    let mut message = DynamicMessage::new(pool.get_message_by_name(name).unwrap());
    for (name, value) in fields {
        message.set_field_by_name(name, value);
    }
    message
}

fn proto_page(html: &[u8]) -> Vec<u8> {
    let pool = pool();
    let of = |name: &str, fields| Proto::Message(message_of(&pool, name, fields));
    let text = |text: &str| Proto::String(text.to_owned());
    let site = |name: &str, rank| of("net.Site", vec![("name", text(name)), ("rank", Proto::I32(rank))]);
    let strings = |list: &[&str]| Proto::List(list.iter().map(|one| text(one)).collect());
    let list = of(
        "google.protobuf.ListValue",
        vec![("values", Proto::List(vec![of("google.protobuf.Value", vec![("number_value", Proto::F64(1.5))])]))],
    );
    let extra = [
        ("lang", of("google.protobuf.Value", vec![("string_value", text("zh"))])),
        ("list", of("google.protobuf.Value", vec![("list_value", list)])),
        ("none", of("google.protobuf.Value", vec![("null_value", Proto::EnumNumber(0))])),
    ];
    let extra = extra.into_iter().map(|(name, value)| (MapKey::String(name.to_owned()), value)).collect();
    let message = message_of(
        &pool,
        "crawl.Outer.Page",
        vec![
            ("page_url", text("https://a.example/1")),
            ("html", Proto::Bytes(html.to_vec().into())),
            ("at", of("google.protobuf.Timestamp", vec![("seconds", Proto::I64(1_716_286_210))])),
            ("parts", strings(&["a", "b"])),
            ("numbers", Proto::List(vec![Proto::I32(7), Proto::I32(-1)])),
            ("site", site("inner", 3)),
            ("status", Proto::EnumNumber(1)),
            ("sites", Proto::Map(HashMap::from([(MapKey::I32(-5), site("five", 5))]))),
            ("extra", of("google.protobuf.Struct", vec![("fields", Proto::Map(extra))])),
            ("title", of("google.protobuf.StringValue", vec![("value", text("Bridge"))])),
            ("delta", Proto::I64(-9)),
            ("score", Proto::F64(0.5)),
            ("hash", Proto::U64(u64::MAX)),
            ("text", text("ready")),
            ("children", Proto::List(vec![of("crawl.Outer.Page", vec![("page_url", text("child"))])])),
            ("ok", Proto::Bool(false)),
            ("negative", Proto::I32(-2)),
        ],
    );
    // Message 1 of the file, and 1 in that.
    framed(&[&[4, 2, 2], &message.encode_to_vec()[..]].concat())
}

#[test]
fn every_type_of_protobuf_is_read_by_its_schema() {
    let value = proto_page("<p>字".as_bytes());
    let scopes = [
        ("/numbers/0", Some("7")),
        ("/numbers/1", Some("-1")),
        ("/status", Some("OLD")),
        ("/sites/-5/name", Some("five")),
        ("/extra/lang", Some("zh")),
        ("/extra/list/0", Some("1.5")),
        ("/extra/none", None),
        ("/title", Some("Bridge")),
        ("/delta", Some("-9")),
        ("/score", Some("0.5")),
        ("/hash", Some("18446744073709551615")),
        ("/children/0/page_url", Some("child")),
        ("/children/0/html", None),
        ("/is_empty", None),
        ("/ok", Some("false")),
        ("/negative", Some("-2")),
    ];
    for schema in [proto_schema(), compiled_schema()] {
        let settings = of(Format::Protobuf, schema);
        assert_read(&settings, &value, ["/page_url", "/site/name"], &scopes);
        assert_eq!(text_at(&settings, "/parts", &value).unwrap(), "a\nb");
        assert_eq!(text_at(&settings, "/text", &value).unwrap(), "ready");
        let gbk = encoding_rs::GBK.encode("<p>据新华社报道，中国人民银行宣布下调存款准备金率").0.into_owned();
        assert!(text_at(&settings, "/html", &proto_page(&gbk)).unwrap().contains("中国人民银行"));
    }
}

#[test]
fn the_message_is_chosen_by_its_indexes() {
    let settings = of(Format::Protobuf, proto_schema());
    let text = b"\x0a\x01a";
    for indexes in [&[0][..], &[2, 0], &[4, 2, 0]] {
        let value = framed(&[indexes, text].concat());
        assert_eq!(text_at(&settings, "/text", &value).unwrap(), "a", "{indexes:?}");
    }
    for (indexes, expected) in [
        (&[2, 4][..], "its schema has no message 2 at level 0"),
        (&[4, 2, 4], "its schema has no message 2 at level 1"),
        (&[4, 2, 1], "its schema has no message -1 at level 1"),
        (&[1], "-1 message indexes"),
        (&[], "1 bytes should follow, and 0 are left"),
    ] {
        let why = message(text_at(&settings, "/text", &framed(indexes)));
        assert_eq!(why, format!("the value does not fit schema 7, or is damaged: {expected}"));
    }
}

/// Any encoder may write a field in parts: the last value counts, lists go on, messages are merged.
#[test]
fn fields_that_occur_again_are_merged() {
    let settings = of(Format::Protobuf, proto_schema());
    let page = |fields: &[u8]| framed(&[&[4, 2, 2], fields].concat());
    let value = page(b"\x0a\x01a\x28\x07\x32\x02\x10\x05\x0a\x01b\x2a\x02\x08\x09\x32\x03\x0a\x01s\xfa\x07\x01x");
    for (pointer, expected) in [
        ("/page_url", "b"),
        ("/numbers/0", "7"),
        ("/numbers/1", "8"),
        ("/numbers/2", "9"),
        ("/site/name", "s"),
        ("/site/rank", "5"),
    ] {
        assert_eq!(scope_at(&settings, pointer, &value).as_deref(), Some(expected), "{pointer}");
    }
    for (fields, expected) in [
        (&b"\x0a\x05a"[..], "5 bytes should follow, and 1 are left"),
        (b"\x08\x01", "`/page_url`: a varint where string is expected"),
        (b"\x0a\x01\xff", "`/page_url`: a string is not UTF-8 from its byte 0 on"),
        (b"\x32\x02\x0a\x05", "`/site`: 5 bytes should follow, and 0 are left"),
        (b"\x0f", "field 1 has the unknown wire type 7"),
        (b"\x00", "0 is no field number"),
        (b"\x0b", "1 bytes should follow, and 0 are left"),
        (b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x40", "4611686018427387904 bytes should follow, and 0 are left"),
    ] {
        let why = message(text_at(&settings, "/page_url", &page(fields)));
        assert_eq!(why, format!("the value does not fit schema 7, or is damaged: {expected}"), "{fields:?}");
    }
    // A group of a newer version of the schema, with another group in it.
    let group = page(b"\xfb\x07\x08\x01\x0b\x0c\xfc\x07\x0a\x01a");
    assert_eq!(text_at(&settings, "/page_url", &group).unwrap(), "a");
}

#[test]
fn small_protobuf_values_cannot_fill_the_memory_or_the_stack() {
    let mut settings = of(Format::Protobuf, proto_schema());
    settings.max_document = 1 << 16;
    // Four bytes of JSON for each element of one byte.
    let ones = [&[4, 2, 2, 0x2a, 0x80, 0x80, 0x02][..], &[1].repeat(1 << 15)].concat();
    assert_eq!(text_at(&settings, "/numbers", &framed(&ones)).unwrap_err().reason(), Reject::TooLarge);
    let mut deep = b"\x0a\x01a".to_vec();
    for _ in 0..2000 {
        let mut length = deep.len();
        let mut outer = vec![0x82, 0x01];
        while length >= 0x80 {
            outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        outer.push(u8::try_from(length).unwrap());
        deep = [outer, deep].concat();
    }
    let value = framed(&[&[4, 2, 2], &deep[..]].concat());
    assert_eq!(text_at(&settings, "/text", &value).unwrap_err().reason(), Reject::TooDeep);
}

#[test]
fn a_file_that_does_not_compile_is_refused_with_the_reason() {
    for (text, expected) in [
        ("syntax = \"proto3\"; message A { B b = 1; }", "B"),
        ("syntax = \"proto3\"; import \"no.proto\"; message A {}", "no.proto"),
        ("message {", "'{'"),
    ] {
        let why = Schema::parse("PROTOBUF", text, &[]).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    assert_eq!(Schema::parse("XSD", "", &[]).unwrap_err(), "it is of the type XSD: AVRO, PROTOBUF and JSON are read");
}

#[test]
fn json_with_a_schema_is_read_without_it() {
    let settings = settings(|settings| settings.format = Format::JsonSchema);
    assert_eq!(text_at(&settings, "/text", &framed(br#"{"text":"a"}"#)).unwrap(), "a");
    let why = message(text_at(&settings, "/text", br#"{"text":"a"}"#));
    assert_eq!(
        why,
        "the value does not begin with the id of its schema (a zero byte and four more), and there is no header \
         __value_schema_id: input.format json_schema reads what serializers of the Schema Registry write; input.format: \
         json reads plain JSON"
    );
    let why = message(text_at(&InputSettings::default(), "/text", &framed(br#"{"text":"a"}"#)));
    assert!(why.contains("input.format avro, protobuf or json_schema reads those"), "{why}");
}

#[test]
fn the_header_may_name_the_schema() {
    let guid = [&[1][..], &GUID].concat();
    let read = |settings: &InputSettings, pointer: &str, header: &[u8], value: &[u8]| {
        let fields = Fields { text: Some(path(pointer)), ..Fields::nowhere() };
        let settings = InputSettings { fields, ..settings.clone() };
        let headers = [("__value_schema_id", header)];
        let headers = headers.to_vec();
        let raw = RawRecord { key: None, value: Some(value), headers: &headers };
        Decoder::new(&settings, 512).unwrap().decode(&raw).map(|document| match document.body {
            Body::Text(text) | Body::Html(text) => text.into_owned(),
        })
    };
    let page = avro_page(b"<p>");
    assert_eq!(read(&avro(), "/html", &guid, &page[5..]).unwrap(), "<p>");
    assert_eq!(read(&avro(), "/html", &[0, 0, 0, 0, 7], &page[5..]).unwrap(), "<p>");
    let proto = of(Format::Protobuf, proto_schema());
    let header = [&guid[..], &[4, 2, 2]].concat();
    assert_eq!(read(&proto, "/text", &header, &proto_page(b"")[8..]).unwrap(), "ready");
    let json = settings(|settings| settings.format = Format::JsonSchema);
    assert_eq!(read(&json, "/text", &guid, br#"{"text":"a"}"#).unwrap(), "a");
    assert!(read(&avro(), "/html", b"\x02", &page).is_ok(), "another header of this name");
}

#[test]
fn a_schema_of_another_type_and_an_unknown_one_are_named() {
    let settings = of(Format::Avro, proto_schema());
    let why = message(text_at(&settings, "/text", &proto_page(b"")));
    assert_eq!(why, "schema 7 is one of protobuf: input.format protobuf reads it");
    let unknown = text_at(&settings, "/text", b"\0\0\0\0\x08a").unwrap_err();
    assert_eq!(unknown.message(), "schema 8 is unknown: the registry does not have it");
    assert!(unknown.is_for_now(), "it may have been known to another worker");
    let without = settings_without_registry();
    assert_eq!(
        message(text_at(&without, "/text", &framed(b""))),
        "schema 7 cannot be used: input.schema_registry is not set"
    );
}

fn settings_without_registry() -> InputSettings {
    settings(|settings| settings.format = Format::Avro)
}

#[test]
fn a_record_is_ready_once_its_schema_is_known() {
    let decoder = Decoder::new(&avro(), 512).unwrap();
    for (value, is_ready) in [(&b"\0\0\0\0\x07"[..], true), (b"\0\0\0\0\x08", false), (b"none", true), (b"", true)] {
        assert_eq!(decoder.is_ready(&record(value)), is_ready, "{value:?}");
    }
    assert!(Decoder::new(&InputSettings::default(), 512).unwrap().is_ready(&record(b"\0\0\0\0\x08")));
}

proptest! {
    #[test]
    fn no_bytes_make_reading_by_a_schema_panic(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (avro, proto) = (avro(), of(Format::Protobuf, proto_schema()));
        for (settings, page, indexes) in [(avro, avro_page(b"<p>\xff"), 5), (proto, proto_page(b"<p>\xff"), 8)] {
            let mut damaged = page.clone();
            let at = at.index(page.len());
            damaged[at] = byte;
            for value in [framed(&noise), [&page[..indexes], &noise].concat(), damaged, page[..at].to_vec()] {
                match text_at(&settings, "/html", &value) {
                    Ok(text) => prop_assert!(text.len() <= 3 * value.len(), "{}", text.len()),
                    Err(why) => {
                        let names = ["the value", "schema", "`/html`"].iter().any(|name| why.message().contains(name));
                        prop_assert!(names, "{why}");
                    }
                }
            }
        }
    }
}
