//! The exact mirror of the file: every key, its type, its default. Only checks that need a single value are done
//! here. Unknown keys are refused.
//!
//! What each key means is documented once, in `config/dupgate.yaml`; a test keeps that file and these defaults equal.

#![expect(missing_docs, reason = "config/dupgate.yaml, the annotated sample, documents each key")]

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::field::{Coding, RawField, one_or_many};
use super::secret::{RawProperty, RawSecret};
use super::values::{ByteSize, Level, Levels, LogFormat, Span};

/// Names in `text.stopwords` that are not paths.
pub(super) const BUILT_IN_STOPWORDS: [&str; 2] = ["zh", "en"];

/// Defines a section of the mirror: closed, with defaults for all keys.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

/// Defines a closed list of words and their conversion to a type of another module with the same variants.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$word_meta])* $word,)* }
    };
    ($(#[$meta:meta])* $name:ident = $meaning:path { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        words! { $(#[$meta])* $name { $($(#[$word_meta])* $word,)* } }

        impl From<$name> for $meaning {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$word => Self::$word,)*
                }
            }
        }
    };
}

section! {
    /// The whole file.
    Raw {
        version: u32 = 1,
        roles: Vec<Role> = vec![Role::Worker, Role::Judge],
        mode: Mode = Mode::Route,
        kafka: Kafka = Kafka::default(),
        input: Input = Input::default(),
        text: Text = Text::default(),
        r#match: Match = Match::default(),
        window: Window = Window::default(),
        index: Index = Index::default(),
        logs: Logs = Logs::default(),
        judge: Judge = Judge::default(),
        output: Output = Output::default(),
        processing: Processing = Processing::default(),
        http: Http = Http::default(),
        logging: Logging = Logging::default(),
        metrics: Metrics = Metrics::default(),
        tracing: Tracing = Tracing::default(),
        previous: Map<String, Value> = Map::new(),
    }
}

words! {
    /// The role of an instance.
    Role { Worker, Judge, }
}
words! {
    /// What happens to a judged page.
    Mode = dupgate_core::worker::Mode { Route, Tag, Observe, }
}

section! {
    Kafka {
        brokers: Vec<String> = Vec::new(),
        client_id: String = "dupgate".to_owned(),
        security: Security = Security::default(),
        properties: BTreeMap<String, RawProperty> = BTreeMap::new(),
        consumer_properties: BTreeMap<String, RawProperty> = BTreeMap::new(),
        producer_properties: BTreeMap<String, RawProperty> = BTreeMap::new(),
        skip_corrupt_verdict: Option<String> = None,
    }
}
section! {
    Security {
        protocol: Protocol = Protocol::Plaintext,
        tls: Tls = Tls::default(),
        sasl: Sasl = Sasl::default(),
    }
}
words! {
    /// How the program connects to brokers.
    Protocol { Plaintext, Ssl, SaslPlaintext, SaslSsl, }
}
section! {
    Tls {
        ca_file: Option<PathBuf> = None,
        cert_file: Option<PathBuf> = None,
        key_file: Option<PathBuf> = None,
        key_password: Option<RawSecret> = None,
        verify_hostname: bool = true,
    }
}
section! {
    Sasl {
        mechanism: Mechanism = Mechanism::ScramSha512,
        username: Option<String> = None,
        password: Option<RawSecret> = None,
        oauth: Oauth = Oauth::default(),
    }
}
words! {
    /// How the program authenticates.
    Mechanism {
        Plain,
        #[serde(rename = "scram-sha-256")]
        ScramSha256,
        #[serde(rename = "scram-sha-512")]
        ScramSha512,
        Oauthbearer,
    }
}
section! {
    Oauth {
        token_url: Option<String> = None,
        client_id: Option<String> = None,
        client_secret: Option<RawSecret> = None,
        scope: Option<String> = None,
        extensions: BTreeMap<String, String> = BTreeMap::new(),
    }
}

section! {
    Input {
        topics: Vec<String> = Vec::new(),
        group: String = "dupgate".to_owned(),
        instance_id: String = String::new(),
        start: String = "earliest".to_owned(),
        format: Format = Format::Json,
        #[serde(deserialize_with = "one_or_many")]
        encoding: Vec<Coding> = Vec::new(),
        schema_registry: SchemaRegistry = SchemaRegistry::default(),
        fields: Fields = Fields::default(),
        max_document: ByteSize = ByteSize(8 << 20),
        tombstones: Tombstones = Tombstones::Forward,
    }
}
section! {
    SchemaRegistry {
        url: Option<String> = None,
        username: Option<String> = None,
        password: Option<RawSecret> = None,
        token: Option<RawSecret> = None,
        ca_file: Option<PathBuf> = None,
        timeout: Span = Span(std::time::Duration::from_secs(10)),
    }
}
words! {
    /// What the value of a record is.
    Format = crate::record::Format { Json, Avro, Protobuf, JsonSchema, Text, Html, Warc, }
}
words! {
    /// What happens to a null value.
    Tombstones = dupgate_core::worker::Tombstones { Forward, Drop, }
}
section! {
    Fields {
        id: Option<RawField> = Some(RawField::at("/url")),
        text: Option<RawField> = Some(RawField::at("/text")),
        html: Option<RawField> = Some(RawField::at("/html")),
        fetched_at: Option<RawField> = None,
        scope: Option<RawField> = None,
        address: Option<RawField> = None,
        canonical: Option<RawField> = None,
        content_type: Option<String> = None,
    }
}

section! {
    Text {
        html: Html = Html::MainText,
        normalize: Normalize = Normalize::default(),
        segmenter: Segmenter = Segmenter::Auto,
        jieba: Jieba = Jieba::default(),
        stopwords: Vec<String> = vec!["zh".to_owned(), "en".to_owned()],
        min_features: usize = 20,
        max_bytes: ByteSize = ByteSize(256 << 10),
    }
}
words! {
    /// Which part of an HTML page is read.
    Html = crate::text::HtmlText { MainText, AllText, }
}
section! {
    Normalize {
        unicode: Unicode = Unicode::Nfkc,
        lowercase: bool = true,
        han: Han = Han::Simplified,
        digits: Digits = Digits::Keep,
        urls: Urls = Urls::Drop,
    }
}
words! {
    /// Which Unicode form is compared.
    Unicode = crate::text::UnicodeForm { Nfkc, None, }
}
words! {
    /// Whether traditional characters are read as simplified ones.
    Han = crate::text::Han { Simplified, Keep, }
}
words! {
    /// Whether numbers are distinguished.
    Digits = crate::text::Digits { Keep, Mask, }
}
words! {
    /// What happens to URLs in the text.
    Urls = crate::text::Urls { Drop, Keep, }
}
words! {
    /// How text is cut into words.
    Segmenter = crate::text::Segmenter { Auto, Jieba, Unicode, }
}
section! {
    Jieba {
        user_dict: Option<PathBuf> = None,
        hmm: bool = true,
    }
}

section! {
    Match {
        stages: Vec<StageName> = vec![StageName::Exact, StageName::Simhash, StageName::Minhash],
        simhash: Simhash = Simhash::default(),
        minhash: Minhash = Minhash::default(),
        same_id: SameIdPolicy = SameIdPolicy::Update,
        same_site: Option<f64> = Some(0.95),
        seed: Option<RawSecret> = None,
        number_guard: bool = true,
        number_overlap: f64 = 0.5,
    }
}
words! {
    /// A way to match.
    StageName { Exact, Simhash, Minhash, }
}
section! {
    Simhash {
        bits: u32 = 64,
        max_distance: u8 = 3,
        min_similarity: Option<f64> = Some(0.2),
        weights: Weights = Weights::TfIdf,
        top_k: usize = 200,
        hash: FeatureHash = FeatureHash::Xxh3,
    }
}
section! {
    Minhash {
        permutations: usize = 128,
        bits_per_slot: u32 = 8,
        shingle: Shingle = Shingle::default(),
        min_shingles: usize = 5,
        stop_shingles: Option<PathBuf> = None,
        bands: usize = 42,
        rows: usize = 3,
        min_shared_bands: u8 = 2,
        one_band_below: u16 = 64,
        min_similarity: f64 = 0.3,
        low_confidence: LowConfidence = LowConfidence::default(),
        containment: Option<f64> = None,
        bottom_k: Option<usize> = None,
        max_bucket: u16 = 64,
    }
}
section! {
    LowConfidence {
        below: f64 = 0.46,
        below_short: f64 = 0.33,
        short: u16 = 200,
        containment: f64 = 0.8,
        max_distance: u8 = 14,
        of_many: bool = true,
    }
}
section! {
    Shingle {
        unit: ShingleUnit = ShingleUnit::Characters,
        han: usize = 4,
        other: usize = 6,
    }
}
words! {
    /// What a shingle is a run of.
    ShingleUnit { Characters, Words, }
}
words! {
    /// How a feature is weighted.
    Weights = crate::fingerprint::Weights {
        #[serde(rename = "tf-idf")]
        TfIdf,
        Tf,
    }
}
words! {
    /// How a feature is hashed.
    FeatureHash = crate::fingerprint::FeatureHash { Xxh3, Md5, Jenkins, }
}
words! {
    /// The verdict on a changed page with a known id.
    SameIdPolicy = crate::protocol::SameId { Update, Duplicate, }
}

section! {
    Window {
        size: Span = Span(std::time::Duration::from_hours(72)),
        timestamp_source: TimestampSource = TimestampSource::Record,
        stages: StageWindows = StageWindows::default(),
        allowed_lateness: Span = Span(std::time::Duration::from_hours(6)),
        max_future_skew: Span = Span(std::time::Duration::from_mins(10)),
    }
}
words! {
    /// Which time is event time.
    TimestampSource { Record, Field, }
}
section! {
    StageWindows {
        #[serde(skip_serializing_if = "Option::is_none")]
        exact: Option<Span> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        simhash: Option<Span> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        minhash: Option<Span> = None,
    }
}

section! {
    Index {
        path: PathBuf = PathBuf::from("/var/lib/dupgate"),
        #[serde(skip_serializing_if = "Option::is_none")]
        max_memory: Option<ByteSize> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_entries: Option<u64> = None,
        cold_start: ColdStart = ColdStart::Proceed,
        snapshot: Snapshot = Snapshot::default(),
    }
}
words! {
    /// What to do if state is lost for good.
    ColdStart = dupgate_core::judge::ColdStart { Proceed, Stop, }
}
section! {
    Snapshot {
        interval: Span = Span(std::time::Duration::from_mins(5)),
        keep: usize = 2,
    }
}

section! {
    Logs {
        prefix: Option<String> = None,
        replication_factor: Option<i32> = None,
        retention: Retention = Retention::Window,
    }
}
/// How long verdicts stay readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// As long as the window needs.
    Window,
    /// At least this long.
    Span(Span),
}

impl Serialize for Retention {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Window => serializer.serialize_str("window"),
            Self::Span(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrSpan;
        impl Visitor<'_> for WordOrSpan {
            type Value = Retention;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`window` or a duration with its unit, such as 7d")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Retention, E> {
                if text == "window" {
                    Ok(Retention::Window)
                } else {
                    text.parse().map(Retention::Span).map_err(E::custom)
                }
            }
        }
        deserializer.deserialize_any(WordOrSpan)
    }
}

section! {
    Judge {
        partitions: u32 = 1,
        served_partitions: ServedPartitions = ServedPartitions::All,
        commit_interval: Span = Span(std::time::Duration::from_millis(50)),
        checkpoint_interval_records: u64 = 100_000,
        session_timeout: Span = Span(std::time::Duration::from_secs(15)),
    }
}
/// Which partitions of the logs an instance serves, as judge or standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedPartitions {
    /// Every one.
    All,
    /// These.
    Some(Vec<u32>),
}

impl Serialize for ServedPartitions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Some(list) => serializer.collect_seq(list),
        }
    }
}

impl<'de> Deserialize<'de> for ServedPartitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrList;
        impl<'de> Visitor<'de> for WordOrList {
            type Value = ServedPartitions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`all` or a list of partition numbers, such as [0, 2]")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ServedPartitions, E> {
                if text == "all" {
                    Ok(ServedPartitions::All)
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ServedPartitions, A::Error> {
                let mut list = Vec::new();
                while let Some(number) = seq.next_element()? {
                    list.push(number);
                }
                Ok(ServedPartitions::Some(list))
            }
        }
        deserializer.deserialize_any(WordOrList)
    }
}

section! {
    Output {
        unique: Topic = Topic::default(),
        duplicate: DuplicateTopic = DuplicateTopic::default(),
        dead_letter: Topic = Topic::default(),
        delivery: Delivery = Delivery::ExactlyOnce,
        commit_interval: Span = Span(std::time::Duration::from_millis(200)),
        partition: Partition = Partition::Same,
        timestamp: TimestampOf = TimestampOf::Source,
        compression: Compression = Compression::Zstd,
        headers: Headers = Headers::default(),
    }
}
section! {
    Topic {
        topic: Option<String> = None,
    }
}
section! {
    DuplicateTopic {
        topic: Option<String> = None,
        value: DuplicateValue = DuplicateValue::Original,
    }
}
words! {
    /// What a duplicate carries.
    DuplicateValue { Original, Reference, None, }
}
words! {
    /// What a crash may repeat.
    Delivery = crate::transaction::Delivery { ExactlyOnce, AtLeastOnce, }
}
words! {
    /// Which partition an output record goes to.
    Partition = dupgate_core::worker::Partitioning { Same, Key, Spread, }
}
words! {
    /// Which timestamp an output record carries.
    TimestampOf { Source, Now, }
}
words! {
    /// How output batches are compressed.
    Compression { None, Gzip, Snappy, Lz4, Zstd, }
}
section! {
    Headers {
        prefix: String = "dupgate.".to_owned(),
        drop: Vec<String> = Vec::new(),
    }
}

section! {
    Processing {
        threads: usize = 0,
        max_in_flight_bytes: ByteSize = ByteSize(64 << 20),
        on_bad_record: OnBadRecord = OnBadRecord::DeadLetter,
        pause_above_dead_letter_ratio: f64 = 0.5,
        shutdown_grace: Span = Span(std::time::Duration::from_secs(30)),
    }
}
words! {
    /// What happens to a record that cannot be judged.
    OnBadRecord = dupgate_core::worker::BadRecords { DeadLetter, Skip, Stop, }
}

section! {
    Http {
        listen: String = "0.0.0.0:9464".to_owned(),
        admin: Admin = Admin::default(),
    }
}
section! {
    Admin {
        listen: Option<String> = None,
        token: Option<RawSecret> = None,
        text: ShownText = ShownText::Snippet,
    }
}
words! {
    /// How much of a page's text the pair page shows.
    ShownText { None, Snippet, Full, }
}
section! {
    Logging {
        level: Levels = Levels::from(Level::Info),
        format: LogFormat = LogFormat::Auto,
    }
}
section! {
    Metrics {
        partition_labels: bool = true,
        labels: BTreeMap<String, String> = BTreeMap::new(),
    }
}

section! {
    Tracing {
        otlp_endpoint: Option<String> = None,
        sample_ratio: f64 = 0.001,
    }
}

impl Raw {
    /// Returns the file as it was before a change of the scheme: with the settings of `previous`. `None` if there are
    /// none.
    ///
    /// # Errors
    ///
    /// Settings that do not exist, or of wrong types.
    pub(super) fn before_change(&self) -> Option<serde_json::Result<Self>> {
        if self.previous.is_empty() {
            return None;
        }
        let mut tree = json!({
            "input": self.input, "text": self.text, "match": self.r#match, "window": self.window, "judge": self.judge,
        });
        overlay(&mut tree, &Value::Object(self.previous.clone()));
        let before = serde_json::from_value(tree).map(|before: Self| {
            // Secrets are not in the tree.
            let seed = self.r#match.seed.clone();
            let schema_registry = self.input.schema_registry.clone();
            Self {
                input: Input { schema_registry, ..before.input },
                text: before.text,
                r#match: Match { seed, ..before.r#match },
                window: before.window,
                judge: before.judge,
                previous: Map::new(),
                ..self.clone()
            }
        });
        Some(before)
    }

    /// Lists the files whose contents are part of the settings, dictionaries and word lists, each with the key that
    /// names it.
    pub fn word_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let lists = self.text.stopwords.iter().filter(|list| !BUILT_IN_STOPWORDS.contains(&list.as_str()));
        let named = [
            ("text.jieba.user_dict", &self.text.jieba.user_dict),
            ("match.minhash.stop_shingles", &self.r#match.minhash.stop_shingles),
        ];
        let named = named.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)));
        named.chain(lists.map(|list| ("text.stopwords", Path::new(list))))
    }

    /// Returns the secret in one of [`super::SECRET_SLOTS`].
    #[must_use]
    pub fn secret(&self, slot: &str) -> Option<&RawSecret> {
        let security = &self.kafka.security;
        match slot {
            "kafka.security.tls.key_password" => security.tls.key_password.as_ref(),
            "kafka.security.sasl.password" => security.sasl.password.as_ref(),
            "kafka.security.sasl.oauth.client_secret" => security.sasl.oauth.client_secret.as_ref(),
            "input.schema_registry.password" => self.input.schema_registry.password.as_ref(),
            "input.schema_registry.token" => self.input.schema_registry.token.as_ref(),
            "http.admin.token" => self.http.admin.token.as_ref(),
            "match.seed" => self.r#match.seed.as_ref(),
            _ => None,
        }
    }
}

/// Puts values over those of a tree: maps are merged, everything else is replaced.
fn overlay(tree: &mut Value, over: &Value) {
    match (tree, over) {
        (Value::Object(tree), Value::Object(over)) => {
            for (key, value) in over {
                overlay(tree.entry(key).or_insert(Value::Null), value);
            }
        }
        (place, value) => *place = value.clone(),
    }
}
