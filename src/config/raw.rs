//! The exact mirror of the file: every key, its type, its default and its range. Unknown keys are refused.
//!
//! What each key means is documented once, in `config/dupgate.yaml`; a test keeps that file and these defaults equal.

#![expect(missing_docs, reason = "config/dupgate.yaml, the annotated sample, documents each key")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::field::{Coding, RawField, one_or_many};
use super::problem::Origin;
use super::range::{Range, above, at_least, at_most, between, share};
use super::secret::{RawProperty, RawSecret};
use super::tree::{Node, join};
use super::values::{ByteSize, Level, Levels, LogFormat, Retention, ServedPartitions, Span, words};
use crate::text::VERSIONS;

/// Names in `text.stopwords` that are not paths.
pub(super) const BUILT_IN_STOPWORDS: [&str; 2] = ["zh", "en"];

/// The shortest time that Kafka's timestamps can distinguish.
const MILLISECOND: Span = Span(Duration::from_millis(1));

/// Longest window, and longest lateness: ten years.
const LONGEST_WINDOW: Span = Span(Duration::from_hours(3650 * 24));

/// Longest session of a judge: a client refuses one that is longer than its polling thread may stall.
const LONGEST_SESSION: Span = Span(Duration::from_mins(5));

/// A duration of a window; `below` refuses that of 0.
fn window(below: &'static str) -> Range<Span> {
    between(Span(Duration::from_nanos(1)), LONGEST_WINDOW).below(below)
}

/// Refuses the window of a stage of 0.
const NO_STAGE: &str = "0s remembers nothing: expected at least 1ms (match.stages turns a stage off)";

/// Largest distance for which the index promises to find every pair.
pub(super) const MAX_DISTANCE: u8 = 8;

/// Maximum number of partitions of each log.
pub(super) const MAX_PARTITIONS: u32 = 1024;

/// Defines the sections of the mirror. Each is closed and has defaults for all keys. A key is declared by its type, its
/// default and, after `=>`, its range; one without a default is a section.
macro_rules! sections {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[$key_meta:meta])* $key:ident: $type:ty $(= $default:expr $(=> $range:expr)?)?,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$key_meta])* $($(#[schemars(transform = $range)])?)? pub $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: sections!(@default $type $(, $default)?),)* }
            }
        }

        impl Section for $name {
            fn check(&self, path: &str, refuse: &mut dyn FnMut(String, String)) {
                let _ = (path, &refuse);
                $(sections!(@check self.$key, join(path, stringify!($key).trim_start_matches("r#")), refuse
                    $(, $default $(, $range)?)?);)*
            }
        }
    )*};
    (@default $type:ty) => { <$type>::default() };
    (@default $type:ty, $default:expr) => { $default };
    (@check $value:expr, $path:expr, $refuse:ident) => { $value.check(&$path, $refuse) };
    (@check $value:expr, $path:expr, $refuse:ident, $default:expr) => {};
    (@check $value:expr, $path:expr, $refuse:ident, $default:expr, $range:expr) => {
        if let Some(message) = $range.refusal($value) {
            $refuse($path, message);
        }
    };
}

/// A part of the mirror.
trait Section {
    /// Reports every value outside its range, with its path.
    fn check(&self, path: &str, refuse: &mut dyn FnMut(String, String));
}

sections! {
    /// The whole file.
    Raw {
        version: u32 = 1 => between(1, 1).otherwise("{} is not a known layout of this file (only 1 is)"),
        roles: Vec<Role> = vec![Role::Worker, Role::Judge],
        mode: Mode = Mode::Route,
        kafka: Kafka,
        input: Input,
        text: Text,
        r#match: Match,
        window: Window,
        index: Index,
        logs: Logs,
        judge: Judge,
        output: Output,
        processing: Processing,
        http: Http,
        logging: Logging,
        metrics: Metrics,
        tracing: Tracing,
        previous: Map<String, Value> = Map::new(),
    }

    Kafka {
        brokers: Vec<String> = Vec::new(),
        client_id: String = "dupgate".to_owned(),
        security: Security,
        properties: BTreeMap<String, RawProperty> = BTreeMap::new(),
        consumer_properties: BTreeMap<String, RawProperty> = BTreeMap::new(),
        producer_properties: BTreeMap<String, RawProperty> = BTreeMap::new(),
        skip_corrupt_verdict: Option<String> = None,
    }

    Security {
        protocol: Protocol = Protocol::Plaintext,
        tls: Tls,
        sasl: Sasl,
    }

    Tls {
        ca_file: Option<PathBuf> = None,
        cert_file: Option<PathBuf> = None,
        key_file: Option<PathBuf> = None,
        key_password: Option<RawSecret> = None,
        verify_hostname: bool = true,
    }

    Sasl {
        mechanism: Mechanism = Mechanism::ScramSha512,
        username: Option<String> = None,
        password: Option<RawSecret> = None,
        oauth: Oauth,
    }

    Oauth {
        token_url: Option<String> = None,
        client_id: Option<String> = None,
        client_secret: Option<RawSecret> = None,
        scope: Option<String> = None,
        extensions: BTreeMap<String, String> = BTreeMap::new(),
    }

    Input {
        topics: Vec<String> = Vec::new(),
        group: String = "dupgate".to_owned(),
        instance_id: String = String::new(),
        start: String = "earliest".to_owned(),
        format: Format = Format::Json,
        #[serde(deserialize_with = "one_or_many")]
        encoding: Vec<Coding> = Vec::new(),
        schema_registry: SchemaRegistry,
        fields: Fields,
        max_document: ByteSize = ByteSize(8 << 20) => at_least(ByteSize(1)),
        tombstones: Tombstones = Tombstones::Forward,
    }

    SchemaRegistry {
        url: Option<String> = None,
        username: Option<String> = None,
        password: Option<RawSecret> = None,
        token: Option<RawSecret> = None,
        ca_file: Option<PathBuf> = None,
        timeout: Span = Span(Duration::from_secs(10)) => at_least(MILLISECOND),
    }

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

    Text {
        version: u32 = *VERSIONS.end() => between(*VERSIONS.start(), *VERSIONS.end())
            .below("{} is the text code of an older release: this one has only that of the release before and its own"),
        html: Html = Html::MainText,
        normalize: Normalize,
        segmenter: Segmenter = Segmenter::Auto,
        jieba: Jieba,
        stopwords: Vec<String> = vec!["zh".to_owned(), "en".to_owned()],
        min_features: usize = 20
            => at_least(1).below("0 is below the limit of 1: a page without words has no fingerprint"),
        max_bytes: ByteSize = ByteSize(256 << 10) => at_least(ByteSize(1)),
    }

    Normalize {
        unicode: Unicode = Unicode::Nfkc,
        lowercase: bool = true,
        han: Han = Han::Simplified,
        digits: Digits = Digits::Keep,
        urls: Urls = Urls::Drop,
    }

    Jieba {
        user_dict: Option<PathBuf> = None,
        hmm: bool = true,
    }

    Match {
        stages: Vec<StageName> = vec![StageName::Exact, StageName::Simhash, StageName::Minhash],
        simhash: Simhash,
        minhash: Minhash,
        same_id: SameIdPolicy = SameIdPolicy::Update,
        same_site: Option<f64> = Some(0.95) => share(),
        seed: Option<RawSecret> = None,
        number_guard: bool = true,
        number_overlap: f64 = 0.5 => share(),
    }

    Simhash {
        bits: u32 = 64,
        max_distance: u8 = 3 => at_most(MAX_DISTANCE),
        min_similarity: Option<f64> = Some(0.2) => share(),
        weights: Weights = Weights::TfIdf,
        top_k: usize = 200,
        hash: FeatureHash = FeatureHash::Xxh3,
    }

    Minhash {
        permutations: usize = 128,
        bits_per_slot: u32 = 8,
        shingle: Shingle,
        min_shingles: usize = 5
            => at_least(1).below("0 is below the limit of 1: a page without shingles has no sketch"),
        stop_shingles: Option<PathBuf> = None,
        bands: usize = 42,
        rows: usize = 3,
        min_shared_bands: u8 = 2,
        one_band_below: u16 = 64,
        min_similarity: f64 = 0.3 => share(),
        low_confidence: LowConfidence,
        containment: Option<f64> = None => share(),
        bottom_k: Option<usize> = None,
        max_bucket: u16 = 64,
    }

    LowConfidence {
        below: f64 = 0.46 => share(),
        below_short: f64 = 0.33 => share(),
        short: u16 = 200,
        containment: f64 = 0.8 => share(),
        max_distance: u8 = 14,
        of_many: bool = true,
    }

    Shingle {
        unit: ShingleUnit = ShingleUnit::Characters,
        han: usize = 4,
        other: usize = 6,
    }

    Window {
        size: Span = Span(Duration::from_hours(72)) => window("0s remembers nothing: expected at least 1ms"),
        timestamp_source: TimestampSource = TimestampSource::Record,
        stages: StageWindows,
        allowed_lateness: Span = Span(Duration::from_hours(6)) => at_most(LONGEST_WINDOW),
        max_future_skew: Span = Span(Duration::from_mins(10)),
    }

    StageWindows {
        #[serde(skip_serializing_if = "Option::is_none")]
        exact: Option<Span> = None => window(NO_STAGE),
        #[serde(skip_serializing_if = "Option::is_none")]
        simhash: Option<Span> = None => window(NO_STAGE),
        #[serde(skip_serializing_if = "Option::is_none")]
        minhash: Option<Span> = None => window(NO_STAGE),
    }

    Index {
        path: PathBuf = PathBuf::from("/var/lib/dupgate"),
        #[serde(skip_serializing_if = "Option::is_none")]
        max_memory: Option<ByteSize> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_entries: Option<u64> = None,
        cold_start: ColdStart = ColdStart::Proceed,
        snapshot: Snapshot,
    }

    Snapshot {
        interval: Span = Span(Duration::from_mins(5)) => at_least(Span(Duration::from_secs(1))),
        keep: usize = 2 => at_least(1),
    }

    Logs {
        prefix: Option<String> = None,
        replication_factor: Option<i32> = None => at_least(1).below("is below the limit of 1"),
        retention: Retention = Retention::Window,
    }

    Judge {
        partitions: u32 = 1 => between(1, MAX_PARTITIONS).otherwise("{} is not within 1 to 1024"),
        served_partitions: ServedPartitions = ServedPartitions::All,
        commit_interval: Span = Span(Duration::from_millis(50)) => at_least(MILLISECOND),
        checkpoint_interval_records: u64 = 100_000 => at_least(1),
        session_timeout: Span = Span(Duration::from_secs(15)) => between(Span(Duration::from_secs(1)), LONGEST_SESSION),
    }

    Output {
        unique: Topic,
        duplicate: DuplicateTopic,
        dead_letter: Topic,
        delivery: Delivery = Delivery::ExactlyOnce,
        commit_interval: Span = Span(Duration::from_millis(200)) => at_least(MILLISECOND),
        partition: Partition = Partition::Same,
        timestamp: TimestampOf = TimestampOf::Source,
        compression: Compression = Compression::Zstd,
        headers: Headers,
    }

    Topic {
        topic: Option<String> = None,
    }

    DuplicateTopic {
        topic: Option<String> = None,
        value: DuplicateValue = DuplicateValue::Original,
    }

    Headers {
        prefix: String = "dupgate.".to_owned(),
        drop: Vec<String> = Vec::new(),
    }

    Processing {
        threads: usize = 0,
        max_in_flight_bytes: ByteSize = ByteSize(64 << 20) => at_least(ByteSize(1)),
        on_bad_record: OnBadRecord = OnBadRecord::DeadLetter,
        pause_above_dead_letter_ratio: f64 = 0.5,
        shutdown_grace: Span = Span(Duration::from_secs(30)) => at_least(MILLISECOND),
    }

    Http {
        listen: String = "0.0.0.0:9464".to_owned(),
        admin: Admin,
    }

    Admin {
        listen: Option<String> = None,
        token: Option<RawSecret> = None,
        text: ShownText = ShownText::Snippet,
    }

    Logging {
        level: Levels = Levels::from(Level::Info),
        format: LogFormat = LogFormat::Auto,
    }

    Metrics {
        partition_labels: bool = true,
        labels: BTreeMap<String, String> = BTreeMap::new(),
    }

    Tracing {
        otlp_endpoint: Option<String> = None,
        sample_ratio: f64 = 0.001 => above(0.0, 1.0).otherwise("{} is not above 0 and at most 1"),
    }
}

words! {
    /// The role of an instance.
    Role { Worker, Judge, }
    /// What happens to a judged page.
    Mode = dupgate_core::worker::Mode { Route, Tag, Observe, }
    /// How the program connects to brokers.
    Protocol {
        Plaintext = "plaintext",
        Ssl = "ssl",
        SaslPlaintext = "sasl_plaintext",
        SaslSsl = "sasl_ssl",
    }
    /// How the program authenticates.
    Mechanism {
        Plain = "plain",
        ScramSha256 = "scram-sha-256",
        ScramSha512 = "scram-sha-512",
        Oauthbearer = "oauthbearer",
    }
    /// What the value of a record is.
    Format = crate::record::Format { Json, Avro, Protobuf, JsonSchema, Text, Html, Warc, }
    /// What happens to a null value.
    Tombstones = dupgate_core::worker::Tombstones { Forward, Drop, }
    /// Which part of an HTML page is read.
    Html = crate::text::HtmlText { MainText, AllText, }
    /// Which Unicode form is compared.
    Unicode = crate::text::UnicodeForm { Nfkc, None, }
    /// Whether traditional characters are read as simplified ones.
    Han = crate::text::Han { Simplified, Keep, }
    /// Whether numbers are distinguished.
    Digits = crate::text::Digits { Keep, Mask, }
    /// What happens to URLs in the text.
    Urls = crate::text::Urls { Drop, Keep, }
    /// How text is cut into words.
    Segmenter = crate::text::Segmenter { Auto, Jieba, Unicode, }
    /// A way to match.
    StageName { Exact, Simhash, Minhash, }
    /// What a shingle is a run of.
    ShingleUnit { Characters, Words, }
    /// How a feature is weighted.
    Weights = crate::fingerprint::Weights { #[serde(rename = "tf-idf")] TfIdf, Tf, }
    /// How a feature is hashed.
    FeatureHash = crate::fingerprint::FeatureHash { Xxh3, Md5, Jenkins, }
    /// The verdict on a changed page with a known id.
    SameIdPolicy = crate::protocol::SameId { Update, Duplicate, }
    /// Which time is event time.
    TimestampSource { Record, Field, }
    /// What to do if state is lost for good.
    ColdStart = dupgate_core::judge::ColdStart { Proceed, Stop, }
    /// What a duplicate carries.
    DuplicateValue { Original, Reference, None, }
    /// What a crash may repeat.
    Delivery = crate::transaction::Delivery { ExactlyOnce, AtLeastOnce, }
    /// Which partition an output record goes to.
    Partition = dupgate_core::worker::Partitioning { Same, Key, Spread, }
    /// Which timestamp an output record carries.
    TimestampOf { Source, Now, }
    /// How output batches are compressed.
    Compression { None = "none", Gzip = "gzip", Snappy = "snappy", Lz4 = "lz4", Zstd = "zstd", }
    /// What happens to a record that cannot be judged.
    OnBadRecord = dupgate_core::worker::BadRecords { DeadLetter, Skip, Stop, }
    /// How much of a page's text the pair page shows.
    ShownText { None, Snippet, Full, }
}

impl Protocol {
    /// Returns whether connections are encrypted.
    pub(super) const fn encrypts(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }
}

impl Raw {
    /// Reports every value outside its range, with its key. What has no effect is not checked.
    pub(super) fn check_ranges(&self, mut refuse: impl FnMut(String, String)) {
        let has_sketches = self.r#match.minhash.permutations > 0;
        let is_used = |path: &str| match path.strip_prefix("match.minhash.") {
            Some(_) => has_sketches,
            None => path != "input.schema_registry.timeout" || self.input.schema_registry.url.is_some(),
        };
        self.check("", &mut |path, message| {
            if is_used(&path) {
                refuse(path, message);
            }
        });
    }

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
        let mut tree = Node::at(&[], &Origin::Default, serde_json::to_value(self).unwrap_or_default());
        tree.overlay(Node::at(&[], &Origin::Default, Value::Object(self.previous.clone())));
        let before = serde_json::from_value(tree.value()).map(|before: Self| {
            // Secrets are not in the tree.
            let schema_registry = self.input.schema_registry.clone();
            Self {
                kafka: self.kafka.clone(),
                input: Input { schema_registry, ..before.input },
                r#match: Match { seed: self.r#match.seed.clone(), ..before.r#match },
                http: self.http.clone(),
                previous: Map::new(),
                ..before
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
