//! How each kind of record is read.

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
    assert_eq!(document.fetched_at, Some(Timestamp::from_millis(7)));
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
fn event_time_is_milliseconds_or_rfc_3339_and_its_unit_is_not_guessed() {
    let time = |time: &str| {
        let value = format!(r#"{{"text":"a","time":{time}}}"#);
        decode(&with_time(), value.as_bytes()).map(|document| document.fetched_at.map(Timestamp::millis))
    };
    assert_eq!(time("1700000000000"), Ok(Some(1_700_000_000_000)));
    assert_eq!(time("1700000000000000000"), Ok(Some(1_700_000_000_000_000_000)), "nanoseconds stay as they are");
    assert_eq!(time("-1"), Ok(Some(-1)));
    assert_eq!(time("null"), Ok(None));
    assert_eq!(time(r#""2026-01-02T03:04:05.678+08:00""#), Ok(Some(1_767_294_245_678)));
    assert_eq!(time(r#""1700000000000""#), Ok(Some(1_700_000_000_000)));
    for wrong in ["1.5", "true", "{}", "[]", r#""yesterday""#, "99999999999999999999"] {
        assert_eq!(time(wrong).unwrap_err().reason(), Reject::WrongType, "{wrong}");
    }
    let value = br#"{"text":"a","fetched_at":{}}"#;
    assert!(decode(&InputSettings::default(), value).is_ok(), "not read unless it is asked for");
}

#[test]
fn every_bad_record_ends_with_its_reason() {
    let json = InputSettings::default();
    let text = settings(|settings| settings.format = Format::Text);
    assert_eq!(reason(&json, b"{\"text\":\"\xff\"}"), Reject::Undecodable);
    assert_eq!(reason(&text, b"a\xff\0b"), Reject::Undecodable);
    for broken in ["", "{", r#"{"text":"a"#, r#"{"text":"a"} x"#, r#"{"text":"a",}"#, r#"{"text":"\ud800"}"#] {
        assert_eq!(reason(&json, broken), Reject::Undecodable, "{broken}");
    }
    for wrong in [r#"{"text":1}"#, r#"{"text":["a"]}"#, r#"{"html":true}"#, r#"{"text":"a","url":{}}"#] {
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
    assert_eq!(rejection.message(), "the value has 11 bytes, at most 10 are read");
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
    for value in [r#"{"text":"SECRET"#, r#"{"text":{"SECRET":1}}"#, r#"{"url":["SECRET"],"text":"a"}"#, "SECRET"] {
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
    assert_eq!(error.to_string(), "input.fields.scope is the JSON pointer /site, but input.format is not json");
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
