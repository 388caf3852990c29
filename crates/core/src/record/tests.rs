//! How each kind of record is read.

mod schemas;

use super::*;
use proptest::prelude::*;

fn path(text: &str) -> FieldPath {
    text.parse().unwrap()
}

fn settings(change: impl FnOnce(&mut InputSettings)) -> InputSettings {
    let mut settings = InputSettings::default();
    change(&mut settings);
    settings
}

fn with_time() -> InputSettings {
    settings(|settings| {
        settings.event_time = EventTime::Field;
        settings.fields.fetched_at = Some(path("/time"));
        settings.fields.scope = Some(path("/meta/site"));
    })
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn record(value: &[u8]) -> RawRecord<'_> {
    RawRecord { key: None, value: Some(value), headers: &() }
}

fn decode<'r>(settings: &InputSettings, value: &'r [u8]) -> Result<Document<'r>, Rejection> {
    Decoder::new(settings, 512).unwrap().decode(&record(value))
}

fn reason(settings: &InputSettings, value: impl AsRef<[u8]>) -> Reject {
    let rejection = decode(settings, value.as_ref()).unwrap_err();
    assert!(rejection.reason().is_determined_by_page());
    rejection.reason()
}

#[test]
fn the_wanted_fields_are_found_and_borrowed() {
    let value = r#"{"x":[1,{"url":"no"}],"url":"http://a/1","meta":{"site":"a","y":null},"text":"正文","time":7}"#;
    let document = decode(&with_time(), value.as_bytes()).unwrap();
    assert_eq!(document.id.as_deref(), Some("http://a/1"));
    assert_eq!(document.scope.as_deref(), Some("a"));
    assert_eq!(document.fetched_at, Some(Timestamp::from_millis(7000)));
    let Body::Text(std::borrow::Cow::Borrowed(text)) = document.body else { panic!("borrowed text") };
    assert_eq!(text, "正文");
}

#[test]
fn ready_text_wins_over_html_and_null_counts_as_absent() {
    let read = |value: &'static str| decode(&InputSettings::default(), value.as_bytes()).unwrap();
    assert_eq!(read(r#"{"html":3,"text":"a"}"#).body, Body::Text("a".into()));
    assert_eq!(read(r#"{"html":"<p>","text":null,"url":null}"#).body, Body::Html("<p>".into()));
    assert_eq!(read(r#"{"html":"<p>","url":null}"#).id, None);
}

#[test]
fn a_blank_text_counts_as_absent_beside_html() {
    let body = |text: &str, html: Option<&str>| {
        let value = serde_json::json!({"text": text, "html": html}).to_string();
        match decode(&InputSettings::default(), value.as_bytes()).unwrap().body {
            Body::Text(text) => Body::Text(text.into_owned().into()),
            Body::Html(html) => Body::Html(html.into_owned().into()),
        }
    };
    for text in ["", " \n\u{3000}"] {
        assert_eq!(body(text, Some("<p>")), Body::Html("<p>".into()), "{text:?}");
        assert_eq!(body(text, None), Body::Text(text.into()), "without html the text counts");
    }
}

#[test]
fn a_blank_id_is_none() {
    for id in ["", " ", "\t"] {
        let value = serde_json::json!({"url": id, "text": "a"}).to_string();
        assert_eq!(decode(&InputSettings::default(), value.as_bytes()).unwrap().id, None, "{id:?}");
        for (field, headers) in [("header:id", vec![("id", id)]), ("key", vec![])] {
            let settings = settings(|settings| settings.fields.id = Some(path(field)));
            let raw = RawRecord { key: Some(id.as_bytes()), value: Some(br#"{"text":"a"}"#), headers: &headers };
            assert_eq!(Decoder::new(&settings, 512).unwrap().decode(&raw).unwrap().id, None, "{field} {id:?}");
        }
    }
    let spaced = decode(&InputSettings::default(), br#"{"url":" 1 ","text":"a"}"#).unwrap();
    assert_eq!(spaced.id.as_deref(), Some(" 1 "), "other ids are taken as they are");
}

#[test]
fn escapes_are_decoded_and_the_last_of_equal_names_counts() {
    let value = br#"{"text":"a","te\u0078t":"\u5b57\n\ud83d\ude00","meta":{"site":"a"},"meta":{}}"#;
    let document = decode(&with_time(), value).unwrap();
    assert_eq!(document.body, Body::Text("字\n😀".into()));
    assert_eq!(document.scope, None, "the second `meta` replaces the first");
}

/// Writers that cut texts in UTF-16 leave half a surrogate pair; all other readers of JSON accept it.
#[test]
fn half_a_surrogate_pair_is_a_replacement_character() {
    let settings = with_time();
    let read = |text: &str| {
        let value =
            format!(r#"{{"x\ud83d":"\udc00","text":"{text}","url":"{text}","meta":{{"\udfff":1,"site":"{text}"}}}}"#);
        let document = decode(&settings, value.as_bytes()).unwrap_or_else(|rejection| panic!("{text}: {rejection}"));
        let Body::Text(body) = document.body else { panic!("a text") };
        assert_eq!((document.id.as_deref(), document.scope.as_deref()), (Some(&*body), Some(&*body)));
        body.into_owned()
    };
    for (written, expected) in [
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ude00b", "\u{fffd}b"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\uD83D\uDE00", "😀"),
        (r"\ud83d\n\ude00", "\u{fffd}\n\u{fffd}"),
        (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        (r"\\ud83d", r"\ud83d"),
        (r#"\\\ud83d\""#, "\\\u{fffd}\""),
        (r"字\ud83d字", "字\u{fffd}字"),
    ] {
        assert_eq!(read(written), expected, "{written}");
    }
    assert_eq!(reason(&settings, r#"{"text":"\ud83d"#), Reject::Undecodable, "a text that is cut is still refused");
}

/// Python and Gson write them although JSON has no such numbers.
#[test]
fn numbers_that_json_does_not_have_count_as_null() {
    for word in ["NaN", "Infinity", "-Infinity"] {
        let value = format!(
            r#"{{"a":[{word}, {word}],"b" : {word} ,"text":"-Infinity, NaN: \ud83d","url":{word},"time":{word},"c":{{"d":{word}}}}}"#
        );
        let document = decode(&with_time(), value.as_bytes()).unwrap();
        assert_eq!((document.id, document.fetched_at), (None, None), "{word}");
        assert_eq!(document.body, Body::Text("-Infinity, NaN: \u{fffd}".into()), "texts keep their words");
        assert_eq!(reason(&InputSettings::default(), format!(r#"{{"text":{word}}}"#)), Reject::MissingField);
    }
    for broken in
        [r#"{"text":"a","b":1NaN}"#, r#"{"text":"a","b":NaNs}"#, r#"{"text":"a",NaN:1}"#, r#"{"text":"a","b":nan}"#]
    {
        assert_eq!(reason(&InputSettings::default(), broken), Reject::Undecodable, "{broken}");
    }
}

/// Scrapy's item loaders store lists.
#[test]
fn lists_of_strings_are_paragraphs_and_a_list_of_one_is_its_element() {
    let value =
        r#"{"url":["http://a/1"],"text":["p1",null,"p\u0032","\ud83d"],"time":[1700000000],"meta":{"site":["s"]}}"#;
    let document = decode(&with_time(), value.as_bytes()).unwrap();
    assert_eq!(document.body, Body::Text("p1\np2\n\u{fffd}".into()));
    assert_eq!((document.id.as_deref(), document.scope.as_deref()), (Some("http://a/1"), Some("s")));
    assert_eq!(document.fetched_at, Some(Timestamp::from_millis(1_700_000_000_000)));
    let decoder = Decoder::new(&with_time(), 512).unwrap();
    assert_eq!(decoder.scope(&record(value.as_bytes())).unwrap().as_deref(), Some("s"));
    let document =
        decode(&with_time(), br#"{"url":[],"text":[],"html":["<p>a","<p>b"],"time":[null],"meta":{"site":[7]}}"#)
            .unwrap();
    assert_eq!(document.body, Body::Html("<p>a\n<p>b".into()), "an empty list is absent");
    assert_eq!((document.id, document.scope.as_deref(), document.fetched_at), (None, Some("7"), None));
    let rejection = decode(&InputSettings::default(), br#"{"url":["a","b"],"text":"a"}"#).unwrap_err();
    assert_eq!(rejection.message(), "`/url` holds a list of 2, expected one value: /url/0 reads the first one");
}

/// Debezium, Logstash and data sets of pages carry JSON in strings.
#[test]
fn json_in_a_string_is_read() {
    use base64::prelude::{BASE64_STANDARD, Engine as _};

    let inside = settings(|settings| {
        settings.fields.id = Some(path("/meta/~json/url"));
        settings.fields.text = Some(path("/message/~json/page/~json/0"));
        settings.fields.html = Some(path("/message/~json/html"));
        settings.fields.scope = Some(path("/message"));
    });
    let page = serde_json::json!(["正文 \"a\"\n\u{1f600}"]).to_string();
    let message = serde_json::json!({"page": page, "html": "<p>"}).to_string();
    let value =
        serde_json::json!({"message": message, "meta": r#"{"url":"http://a/1","score":NaN,"x":"\ud83d"}"#}).to_string();
    let document = decode(&inside, value.as_bytes()).unwrap();
    assert_eq!(document.id.as_deref(), Some("http://a/1"), "lenient as outside");
    assert_eq!(document.body, Body::Text("正文 \"a\"\n\u{1f600}".into()));
    assert_eq!(document.scope.as_deref(), Some(&*message), "the string itself can be a field, too");
    // An object is read as it is; null, a blank string and a number hold nothing.
    assert_eq!(reason(&inside, r#"{"message":{"page":["a"]},"meta":""}"#), Reject::WrongType, "a scope is no object");
    let inside = InputSettings { fields: Fields { scope: None, ..inside.fields.clone() }, ..inside.clone() };
    for meta in ["\" \"", "null", "7", "{}"] {
        let document = decode(&inside, format!(r#"{{"message":{{"page":["a"]}},"meta":{meta}}}"#).as_bytes())
            .map(|document| document.id.is_none());
        assert_eq!(document, Ok(true), "{meta}");
    }
    for (value, expected, place) in [
        (r#"{"message":"words"}"#.to_owned(), Reject::Undecodable, "`/message` holds no JSON"),
        (r#"{"message":"{\"page\":\"[1\"}"}"#.to_owned(), Reject::Undecodable, "`/message/~json/page` holds no JSON"),
        (
            serde_json::json!({"message": "[".repeat(600)}).to_string(),
            Reject::TooDeep,
            "`/message` holds JSON nested deeper",
        ),
        (r#"{"message":"{}"}"#.to_owned(), Reject::MissingField, "`/message/~json/html`"),
    ] {
        let rejection = decode(&inside, value.as_bytes()).unwrap_err();
        assert_eq!(rejection.reason(), expected, "{value}");
        assert!(rejection.message().contains(place), "{rejection}");
    }
    let whole = settings(|settings| settings.fields.text = Some(path("/~json/text")));
    let value = serde_json::Value::from(r#"{"text":"a","url":1}"#).to_string();
    assert_eq!(decode(&whole, value.as_bytes()).unwrap().body, Body::Text("a".into()), "JSON that was encoded twice");
    // Pub/Sub and CloudEvents encode the data, whatever it is.
    for json in [r#"{"text":"正文??>>","url":1}"#, " [] "] {
        let plain = BASE64_STANDARD.encode(json);
        for packed in [plain.clone(), plain.replace('+', "-").replace('/', "_").replace('=', "")] {
            let value = serde_json::Value::from(packed).to_string();
            let read = decode(&whole, value.as_bytes()).map(|document| document.body);
            let expected = json.contains("text").then(|| Body::Text("正文??>>".into()));
            assert_eq!(read.ok(), expected, "{value}");
        }
    }
    let value = serde_json::Value::from(BASE64_STANDARD.encode("{\"text\":")).to_string();
    assert_eq!(reason(&whole, &value), Reject::Undecodable, "malformed inside");
    // The last of equal names counts inside, too.
    let twice = settings(|settings| settings.fields.text = Some(path("/m/~json/text")));
    assert_eq!(reason(&twice, r#"{"m":"{\"text\":\"a\"}","m":"{}"}"#), Reject::MissingField);
}

#[test]
fn a_packed_page_is_read_by_its_setting_and_refused_without_it() {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    let page = "<html><head><meta charset=gbk></head><body>据新华社报道，中国人民银行</body></html>";
    let (gbk, _, _) = encoding_rs::GBK.encode(page);
    let written = BASE64_STANDARD.encode(&gbk);
    let value = serde_json::json!({"url": "u", "html": written}).to_string();
    let packed = settings(|settings| settings.fields.html_encoding = vec![Coding::Base64]);
    let document = decode(&packed, value.as_bytes()).unwrap();
    assert_eq!((document.body, document.encoding), (Body::Html(page.into()), Encoding::Gb18030));
    let rejection = decode(&InputSettings::default(), value.as_bytes()).unwrap_err();
    assert_eq!(rejection.reason(), Reject::Undecodable);
    assert_eq!(
        rejection.message(),
        "`/html` holds base64: set input.fields.html: {path: /html, encoding: base64} to read it"
    );
    let rejection = decode(&packed, br#"{"html":"<p>not base64</p>"}"#).unwrap_err();
    assert_eq!(rejection.to_string(), "undecodable: `/html` is not base64, or damaged");
    let picture =
        serde_json::json!({"html": BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".repeat(9))}).to_string();
    assert_eq!(reason(&packed, picture), Reject::Undecodable);
    let zstd = BASE64_STANDARD.encode(zstd(page.as_bytes()));
    let value = serde_json::json!({ "html": zstd }).to_string();
    let rejection = decode(&packed, value.as_bytes()).unwrap_err();
    assert_eq!(rejection.message(), "`/html` holds zstd once it is unpacked: add it to the encoding");
    let twice = settings(|settings| settings.fields.html_encoding = vec![Coding::Base64, Coding::Zstd]);
    assert_eq!(decode(&twice, value.as_bytes()).unwrap().body, Body::Html(page.into()));
    // The whole value.
    let html = settings(|settings| settings.format = Format::Html);
    let rejection = decode(&html, written.as_bytes()).unwrap_err();
    assert_eq!(rejection.message(), "the value holds base64: set input.encoding: base64 to read it");
    let html = InputSettings { encoding: vec![Coding::Base64], ..html };
    assert_eq!(decode(&html, written.as_bytes()).unwrap().body, Body::Html(page.into()));
}

#[test]
fn a_compressed_value_is_read_in_every_format() {
    let json = r#"{"url":"u","text":"a","meta":{"site":"s"}}"#;
    let packed = zstd(json.as_bytes());
    let decoder = Decoder::new(&with_time(), 512).unwrap();
    let document = decoder.decode(&record(&packed)).unwrap();
    assert_eq!((document.id.as_deref(), document.body), (Some("u"), Body::Text("a".into())));
    assert_eq!(decoder.scope(&record(&packed)).unwrap().as_deref(), Some("s"));
    let html = settings(|settings| (settings.format, settings.max_document) = (Format::Html, 100));
    assert_eq!(decode(&html, &zstd(b"<p>a")).unwrap().body, Body::Html("<p>a".into()));
    let bomb = zstd(&[b' '; 101]);
    assert_eq!(reason(&html, &bomb), Reject::TooLarge);
    assert_eq!(reason(&html, bomb.get(..bomb.len() - 1).unwrap()), Reject::Undecodable);
}

#[test]
fn json_may_begin_with_one_byte_order_mark() {
    let value = "\u{feff}{\"text\":\"a\",\"meta\":{\"site\":\"s\"}}";
    let decoder = Decoder::new(&with_time(), 512).unwrap();
    assert_eq!(decoder.decode(&record(value.as_bytes())).unwrap().body, Body::Text("a".into()));
    assert_eq!(decoder.scope(&record(value.as_bytes())).unwrap().as_deref(), Some("s"));
    assert_eq!(reason(&with_time(), format!("\u{feff}{value}")), Reject::Undecodable);
}

#[test]
fn a_field_may_stand_inside_another_and_inside_an_array() {
    let settings = settings(|settings| {
        settings.fields.id = Some(path("/pages/1/id"));
        settings.fields.scope = Some(path("/pages/1"));
        settings.fields.text = Some(path("/pages/0"));
    });
    let document = decode(&settings, br#"{"pages":["text",{"id":12.50},"x"]}"#).unwrap_err();
    assert_eq!(document.reason(), Reject::WrongType, "a scope is no object");
    let settings = InputSettings { fields: Fields { scope: None, ..settings.fields }, ..settings };
    let document = decode(&settings, br#"{"pages":["text",{"id":12.50},"x"]}"#).unwrap();
    assert_eq!((document.id.as_deref(), document.body), (Some("12.50"), Body::Text("text".into())));
    assert_eq!(reason(&settings, br#"{"pages":[]}"#), Reject::MissingField);
}

#[test]
fn headers_and_the_key_can_hold_fields() {
    let settings = settings(|settings| {
        settings.fields.id = Some(path("key"));
        settings.fields.scope = Some(path("header:site"));
    });
    let headers = vec![("site", b"old".to_vec()), ("site", b"new".to_vec())];
    let raw = RawRecord { key: Some(b"k"), value: Some(br#"{"text":"a"}"#), headers: &headers };
    let decoder = Decoder::new(&settings, 512).unwrap();
    let document = decoder.decode(&raw).unwrap();
    assert_eq!((document.id.as_deref(), document.scope.as_deref()), (Some("k"), Some("new")));
    assert_eq!(decoder.scope(&RawRecord { value: None, ..raw }).unwrap().as_deref(), Some("new"));
    let raw = RawRecord { key: Some(b"\xff"), ..raw };
    assert_eq!(decoder.decode(&raw).unwrap_err().reason(), Reject::Undecodable);
}

#[test]
fn event_time_is_a_number_or_a_text_and_what_it_is_not_is_named() {
    let time = |settings: &InputSettings, time: &str| {
        let value = format!(r#"{{"text":"a","time":{time}}}"#);
        decode(settings, value.as_bytes()).map(|document| document.fetched_at.map(Timestamp::millis))
    };
    let settings = with_time();
    assert_eq!(time(&settings, "1700000000"), Ok(Some(1_700_000_000_000)));
    assert_eq!(time(&settings, "1700000000000"), Ok(Some(1_700_000_000_000)));
    assert_eq!(time(&settings, "1700000000000000000"), Ok(Some(1_700_000_000_000)));
    assert_eq!(time(&settings, "1700000000.25"), Ok(Some(1_700_000_000_250)));
    assert_eq!(time(&settings, "-1"), Ok(Some(-1000)));
    for unset in ["null", "0", r#""0""#, r#""0001-01-01T00:00:00Z""#] {
        assert_eq!(time(&settings, unset), Ok(None), "{unset}");
    }
    assert_eq!(time(&settings, r#""2026-01-02T03:04:05.678+08:00""#), Ok(Some(1_767_294_245_678)));
    assert_eq!(time(&settings, r#""1700000000000""#), Ok(Some(1_700_000_000_000)));
    let refused = |text: &str, part: &str| {
        let rejection = time(&settings, text).unwrap_err();
        assert_eq!(rejection.reason(), Reject::WrongType, "{text}");
        assert!(rejection.message().contains(part), "{text}: {rejection}");
    };
    for wrong in ["true", "{}", r#""yesterday""#, "99999999999999999999"] {
        refused(wrong, "expected a time");
    }
    refused("[1,2]", "`/time` holds a list of 2");
    refused("20240521101010", "`/time` holds the digits of a date");
    refused("638518830100000000", "`/time` holds a number that is not counted from 1970");
    let local = r#""2024-05-21 10:10:10""#;
    refused(local, "input.fields.fetched_at: {path: /time, zone: UTC}");
    let mut in_zone = settings.clone();
    in_zone.fields.zone = Some("Asia/Shanghai".parse().unwrap());
    assert_eq!(time(&in_zone, local), Ok(Some(1_716_257_410_000)));
    let value = br#"{"text":"a","fetched_at":{}}"#;
    assert!(decode(&InputSettings::default(), value).is_ok(), "not read unless it is asked for");
}

#[test]
fn every_bad_record_ends_with_its_reason() {
    let json = InputSettings::default();
    let text = settings(|settings| settings.format = Format::Text);
    assert_eq!(reason(&json, b"{\"text\":\"\xff\"}"), Reject::Undecodable);
    assert_eq!(reason(&text, b"a\xff\0b"), Reject::Undecodable);
    for broken in ["", "{", r#"{"text":"a"#, r#"{"text":"a"} x"#, r#"{"text":"a",}"#, r#"{"text":"\ud80"}"#] {
        assert_eq!(reason(&json, broken), Reject::Undecodable, "{broken}");
    }
    for wrong in [
        r#"{"text":1}"#,
        r#"{"text":["a",1]}"#,
        r#"{"text":[["a"]]}"#,
        r#"{"html":true}"#,
        r#"{"text":"a","url":{}}"#,
        r#"{"text":"a","url":["b","c"]}"#,
        r#"{"text":"a","url":[{}]}"#,
    ] {
        assert_eq!(reason(&json, wrong), Reject::WrongType, "{wrong}");
    }
    for missing in ["{}", "[]", "1", "null", r#""text""#, r#"{"text":null,"html":null}"#, r#"{"a":{"text":"b"}}"#] {
        assert_eq!(reason(&json, missing), Reject::MissingField, "{missing}");
    }
    let raw = RawRecord { key: None, value: None, headers: &() };
    assert_eq!(Decoder::new(&json, 512).unwrap().decode(&raw).unwrap_err().reason(), Reject::MissingField);
}

#[test]
fn the_largest_document_is_read_and_one_byte_more_is_not() {
    let settings = settings(|settings| {
        settings.format = Format::Text;
        settings.max_document = 10;
    });
    assert!(decode(&settings, b"0123456789").is_ok());
    let rejection = decode(&settings, b"0123456789a").unwrap_err();
    assert_eq!(rejection.reason(), Reject::TooLarge);
    assert_eq!(rejection.message(), "the value has 11 bytes, at most 10 are read (input.max_document)");
    assert_eq!(reason(&InputSettings::default(), vec![b'a'; 10 << 20]), Reject::TooLarge);
}

#[test]
fn nesting_is_read_up_to_the_limit_and_refused_above_it_without_growing_the_stack() {
    let nested = |levels: usize| {
        let inner = levels - 1;
        format!(r#"{{"x":{}{},"text":"a"}}"#, "[".repeat(inner), "]".repeat(inner))
    };
    for levels in [2, 200, 511, 512] {
        assert!(decode(&InputSettings::default(), nested(levels).as_bytes()).is_ok(), "{levels}");
    }
    for levels in [513, 100_000] {
        assert_eq!(reason(&InputSettings::default(), nested(levels)), Reject::TooDeep, "{levels}");
    }
    assert_eq!(reason(&InputSettings::default(), "[{\"a\":".repeat(100_000)), Reject::TooDeep);
}

#[test]
fn no_message_quotes_the_document() {
    for value in [
        r#"{"text":"SECRET"#,
        r#"{"text":{"SECRET":1}}"#,
        r#"{"url":["SECRET","SECRET"],"text":"a"}"#,
        r#"{"text":[["SECRET"]]}"#,
        "SECRET",
    ] {
        let rejection = decode(&InputSettings::default(), value.as_bytes()).unwrap_err();
        assert!(!rejection.message().contains("SECRET"), "{rejection}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let refuse = |change: fn(&mut InputSettings)| Decoder::new(&settings(change), 512).unwrap_err();
    let error = refuse(|settings| (settings.fields.text, settings.fields.html) = (None, None));
    assert_eq!(error, InputSettingsError::NoTextField);
    assert_eq!(refuse(|settings| settings.event_time = EventTime::Field), InputSettingsError::NoTimeField);
    let error = refuse(|settings| {
        settings.format = Format::Html;
        settings.fields.scope = Some(path("/site"));
    });
    assert_eq!(
        error.to_string(),
        "input.fields.scope is the JSON pointer /site, but values of this input.format have no fields"
    );
}

/// Brackets outside strings, counted by recursion: one level is read by one call.
fn depth_by_recursion(value: &serde_json::Value) -> usize {
    let inner = match value {
        serde_json::Value::Array(items) => items.iter().map(depth_by_recursion).max(),
        serde_json::Value::Object(items) => items.values().map(depth_by_recursion).max(),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => return 0,
    };
    1 + inner.unwrap_or(0)
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![Just(serde_json::Value::Null), "[\\[{\\\\\"}\\]a]{0,6}".prop_map(Into::into)];
    leaf.prop_recursive(10, 40, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::vec(("[a\"{\\\\]{0,3}", inner), 0..3)
                .prop_map(|items| serde_json::Value::Object(items.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_text_with_escapes_is_what_the_library_reads(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", "字", " ", "u00e9", r"\n", r"\t", r"\r", r"\b", r"\f", r"\/", r"\\", r#"\""#, r"\u0000", r"\u00e9",
                r"\u5B57", r"\u005c", r"\uD83D\ude00", "😀",
            ]),
            0..12,
        )
    ) {
        let text = format!("\"a{}\"", parts.concat());
        let value = format!("{{\"text\":{text}}}");
        let document = decode(&InputSettings::default(), value.as_bytes()).unwrap();
        prop_assert_eq!(document.body, Body::Text(serde_json::from_str::<String>(&text).unwrap().into()));
    }

    #[test]
    fn the_scan_counts_the_nesting_that_recursion_counts(value in any_json()) {
        let (text, depth) = (value.to_string(), depth_by_recursion(&value));
        prop_assert_eq!(json::nesting(text.as_bytes(), 1000), depth);
        let settings = settings(|settings| settings.fields.text = Some(path("/a")));
        let refused = |limit: usize| {
            let result = Decoder::new(&settings, limit).unwrap().decode(&record(text.as_bytes())).map(drop);
            result.is_err_and(|rejection| rejection.reason() == Reject::TooDeep)
        };
        prop_assert!(!refused(depth));
        prop_assert!(depth == 0 || refused(depth - 1));
    }

    #[test]
    fn a_pointer_finds_what_a_tree_finds(value in any_json(), steps in prop::collection::vec("[a\"{0-2]{0,1}", 1..4)) {
        let pointer = format!("/{}", steps.join("/"));
        let settings = settings(|settings| {
            settings.fields.text = Some(path(&pointer));
            settings.fields.html = None;
            settings.fields.id = None;
        });
        let text = value.to_string();
        let found = decode(&settings, text.as_bytes());
        match value.pointer(&pointer) {
            Some(serde_json::Value::String(text)) => prop_assert_eq!(found.unwrap().body, Body::Text(text.into())),
            None | Some(serde_json::Value::Null) => {
                prop_assert_eq!(found.unwrap_err().reason(), Reject::MissingField);
            }
            Some(serde_json::Value::Array(list)) if list.iter().all(|it| it.is_null() || it.is_string()) => {
                let texts: Vec<&str> = list.iter().filter_map(serde_json::Value::as_str).collect();
                match found {
                    Ok(found) => prop_assert_eq!(found.body, Body::Text(texts.join("\n").into())),
                    Err(rejection) => prop_assert_eq!((rejection.reason(), texts.len()), (Reject::MissingField, 0)),
                }
            }
            Some(_) => prop_assert_eq!(found.unwrap_err().reason(), Reject::WrongType),
        }
    }

    #[test]
    fn no_bytes_make_decoding_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        for format in Format::ALL {
            let _ = decode(&settings(|settings| settings.format = format), &bytes);
        }
        // Damaged JSON comes further than noise.
        let noise = bytes.first().copied().unwrap_or(0);
        bytes = br#"{"url":"a","text":"b\u00e9","meta":{"site":[1,2.5e3,true,null]},"time":17}"#.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = noise;
        let _ = decode(&with_time(), &bytes);
        let _ = decode(&with_time(), &bytes[..at]);
    }
}

/// A page of the format with a header.
fn decode_with(settings: &InputSettings, header: (&str, &str), value: &[u8]) -> Result<String, Rejection> {
    let headers = [("other", "x"), header];
    let headers: &[(&str, &str)] = &headers;
    let raw = RawRecord { key: None, value: Some(value), headers: &headers.to_vec() };
    let document = Decoder::new(settings, 512).unwrap().decode(&raw)?;
    let (Body::Text(text) | Body::Html(text)) = document.body;
    Ok(text.into_owned())
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_value_is_unpacked_as_its_header_says() {
    use base64::Engine as _;
    let base64 = |bytes: &[u8]| base64::prelude::BASE64_STANDARD.encode(bytes).into_bytes();
    let json = br#"{"text":"words"}"#;
    for name in ["content-encoding", "Content-Encoding", "CONTENT-ENCODING"] {
        for (value, packed) in [
            ("deflate", zlib(json)),
            ("zstd", zstd(json)),
            ("base64", base64(json)),
            ("deflate, base64", base64(&zlib(json))),
            ("identity", json.to_vec()),
            ("utf-8", json.to_vec()),
        ] {
            let read = decode_with(&InputSettings::default(), (name, value), &packed);
            assert_eq!(read.as_deref(), Ok("words"), "{name}: {value}");
        }
    }
    let html = settings(|settings| settings.format = Format::Html);
    assert_eq!(decode_with(&html, ("content-encoding", "deflate"), &zlib(b"<p>a")).as_deref(), Ok("<p>a"));
    let set = settings(|settings| settings.encoding = vec![Coding::Zstd]);
    let read = decode_with(&set, ("content-encoding", "deflate"), &zstd(json));
    assert_eq!(read.as_deref(), Ok("words"), "the setting decides");
}

#[test]
fn a_header_of_a_response_whose_body_is_already_decoded_is_passed_over() {
    let json = br#"{"text":"words"}"#;
    for value in ["gzip", "br", "deflate", "zstd", "base64", "compress", "gzip, lz4"] {
        let header = ("content-encoding", value);
        let read = decode_with(&InputSettings::default(), header, json);
        assert_eq!(read.as_deref(), Ok("words"), "{value}");
        let read = decode_with(&InputSettings::default(), header, &zstd(json));
        assert_eq!(read.as_deref(), Ok("words"), "{value}, in zstd");
        let html = settings(|settings| settings.format = Format::Html);
        let gbk = encoding_rs::GBK.encode("<meta charset=gbk><p>据新华社报道，中国人民银行").0;
        let read = decode_with(&html, header, &gbk).unwrap();
        assert!(read.contains("据新华社报道"), "{value}: {read}");
    }
}

#[test]
fn a_damaged_value_is_a_dead_letter_that_names_its_header() {
    let text = settings(|settings| settings.format = Format::Text);
    let packed = zlib("words and more words: the bridge is closed until autumn".as_bytes());
    let cut = packed.get(..packed.len() - 5).unwrap();
    for (value, message) in [
        ("deflate", "the value is not deflate, as its header content-encoding says, or damaged"),
        ("br", "the value is not br, as its header content-encoding says, or damaged"),
        ("lz4", "the header content-encoding of the value says `lz4`: expected base64, br, deflate, gzip or zstd"),
    ] {
        let rejection = decode_with(&text, ("content-encoding", value), cut).unwrap_err();
        assert_eq!(rejection.to_string(), format!("undecodable: {message}"));
    }
    let small = settings(|settings| settings.max_document = 1000);
    let rejection = decode_with(&small, ("content-encoding", "deflate"), &zlib(&[b' '; 10_000])).unwrap_err();
    assert_eq!(rejection.reason(), Reject::TooLarge);
}

#[test]
fn plain_text_is_read_in_its_declared_marked_or_shown_encoding() {
    let text = settings(|settings| {
        settings.format = Format::Text;
        settings.fields.content_type = Some("content-type".to_owned());
    });
    let words = "据新华社报道，中国人民银行宣布下调存款准备金率";
    let greek = "Η γέφυρα θα μείνει κλειστή έως το φθινόπωρο";
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (value, content_type, expected) in [
        (words.as_bytes().to_vec(), "text/plain", words),
        ([b"\xef\xbb\xbf", words.as_bytes()].concat(), "text/plain; charset=gbk", words),
        (encoding_rs::GBK.encode(words).0.into_owned(), "text/plain; charset=\"GB2312\"", words),
        (encoding_rs::ISO_8859_7.encode(greek).0.into_owned(), "text/plain;charset=iso-8859-7", greek),
        (utf_16(&format!("\u{feff}{words}")), "text/plain", words),
        (utf_16("plain words without a mark"), "text/plain", "plain words without a mark"),
    ] {
        assert_eq!(decode_with(&text, ("content-type", content_type), &value).as_deref(), Ok(expected));
    }
}

#[test]
fn a_warc_record_gives_id_time_scope_and_page() {
    let warc = settings(|settings| {
        settings.format = Format::Warc;
        settings.event_time = EventTime::Field;
        settings.fields.id = Some(path("/warc-target-uri"));
        settings.fields.fetched_at = Some(path("/WARC-Date"));
        settings.fields.scope = Some(path("/WARC-Crawl"));
    });
    // One letter, which looks like another one in a more common encoding.
    let greek = encoding_rs::ISO_8859_7.encode("<p>b α").0;
    let http = [b"HTTP/1.0 200 OK\r\nContent-Type: text/html; charset=iso-8859-7\r\n\r\n", &*greek].concat();
    let head = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <https://a.example/>\r\nWARC-Date: 1970-01-01T00:00:07Z\r\n\
         WARC-Crawl: weekly\r\nContent-Type: application/http\r\nContent-Length: {}\r\n\r\n",
        http.len()
    );
    let value = [head.as_bytes(), &http, b"\r\n\r\n"].concat();
    for value in [value.clone(), zstd(&value)] {
        let decoder = Decoder::new(&warc, 512).unwrap();
        let document = decoder.decode(&record(&value)).unwrap();
        assert_eq!(document.id.as_deref(), Some("https://a.example/"));
        assert_eq!((document.scope.as_deref(), document.encoding), (Some("weekly"), Encoding::Other));
        assert_eq!(document.fetched_at, Some(Timestamp::from_millis(7000)));
        assert_eq!(document.body, Body::Html("<p>b α".into()));
        assert_eq!(decoder.scope(&record(&value)).unwrap().as_deref(), Some("weekly"));
    }
    let nested = settings(|settings| {
        settings.format = Format::Warc;
        settings.fields.id = Some(path("/a/b"));
    });
    let error = Decoder::new(&nested, 512).unwrap_err().to_string();
    assert!(error.contains("input.fields.id is /a/b") && error.contains("/WARC-Target-URI"), "{error}");
}
