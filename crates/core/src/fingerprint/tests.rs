//! Worked examples, oracles, and pinned fingerprints that must not change unnoticed.

use super::fingerprinter::digest_of;
use super::settings::canonical;
use super::simhash::{keep_strongest, log_weight, simhash};
use super::*;
use crate::record::{Coding, EventTime, Format, InputSettings, RawRecord, Reject, Timestamp};
use crate::text;
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn reader(change: impl FnOnce(&mut InputSettings, &mut text::Settings, &mut Settings)) -> Fingerprinter {
    let (mut input, mut text, mut fingerprint) = Default::default();
    change(&mut input, &mut text, &mut fingerprint);
    Fingerprinter::new(&input, &text, &fingerprint, ONE).unwrap()
}

fn plain() -> &'static Fingerprinter {
    static READER: LazyLock<Fingerprinter> = LazyLock::new(|| reader(|input, _, _| input.format = Format::Text));
    &READER
}

fn read_with(reader: &Fingerprinter, value: &str) -> Result<FingerprintedPage, Reject> {
    let raw = RawRecord { key: None, value: Some(value.as_bytes()), headers: &() };
    reader.read(&raw, &mut Scratch::default()).map_err(|rejection| rejection.reason())
}

fn read(text: &str) -> FingerprintedPage {
    read_with(plain(), text).unwrap()
}

#[test]
fn the_example_of_weights_and_six_bits() {
    let weighted = [(5, 0b10_0101), (2, 0b10_1011), (3, 0b10_0111), (1, 0b10_1111), (4, 0b11_1011)];
    let features = weighted.map(|(weight, hash)| Feature { hash, weight });
    assert_eq!(simhash(&features, Width::B64), SimHash::B64(0b10_0111));
    assert_eq!(sums(&features)[..6], [15, 5, 3, -1, -7, 15], "bit 0 first");
}

#[test]
fn the_example_of_feature_vectors_in_three_bits() {
    // 1 means +1 and 0 means -1, the first component is the highest bit.
    let vectors = [0b101, 0b011, 0b100, 0b001, 0b110];
    let counts = [1, 2, 0, 3, 0];
    let features: Vec<Feature> =
        vectors.into_iter().zip(counts).map(|(hash, weight)| Feature { hash, weight }).collect();
    assert_eq!(sums(&features)[..3], [6, -2, -4], "the last component first");
    assert_eq!(simhash(&features, Width::B64), SimHash::B64(0b001));
    // Random hyperplanes: the rows of the same matrix.
    let document = [1_i64, 2, 0, 3, 0];
    let planes = [[1_i64, -1, 1, -1, 1], [-1, 1, -1, -1, 1], [1, 1, -1, 1, -1]];
    let sides = planes.map(|plane| plane.iter().zip(document).map(|(r, d)| r * d).sum::<i64>());
    assert_eq!(sides, [-4, -2, 6]);
    let bits = sides.iter().fold(0, |bits, side| bits << 1 | u64::from(*side > 0));
    assert_eq!(simhash(&features, Width::B64), SimHash::B64(bits));
}

/// The definition, word by word.
fn sums(features: &[Feature]) -> [i64; 128] {
    let mut sums = [0_i64; 128];
    for feature in features {
        for (bit, sum) in sums.iter_mut().enumerate() {
            if feature.hash >> bit & 1 == 1 {
                *sum += i64::from(feature.weight);
            } else {
                *sum -= i64::from(feature.weight);
            }
        }
    }
    sums
}

/// Charikar's law: two vectors lie on different sides of a random hyperplane with a probability of theta / pi, theta
/// being the angle between them. The bits of hashes stand for the components of the hyperplanes' normals.
#[test]
fn the_share_of_differing_bits_is_the_angle_over_pi() {
    const WORDS: usize = 400;
    const PAIRS: u32 = 150;
    let mut state = 7_u64;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        xxhash_rust::xxh3::xxh3_128(&state.to_le_bytes())
    };
    for shared in [0, 100, 200, 300, 360, 390] {
        let (mut differing, mut expected) = ([0.0; 3], 0.0);
        for _ in 0..PAIRS {
            let mut page = |from: &[Feature]| -> Vec<Feature> {
                let fresh = (from.len()..WORDS).map(|_| Feature { hash: draw(), weight: 256 + (draw() % 1024) as u32 });
                let fresh: Vec<Feature> = fresh.collect();
                [from, &fresh].concat()
            };
            let one = page(&[]);
            let other = page(&one[..shared]);
            for (differing, width) in differing.iter_mut().zip(Width::ALL) {
                let bits = simhash(&one, width).distance(simhash(&other, width)).unwrap();
                *differing += f64::from(bits) / f64::from(width.bits());
            }
            let dot = |a: &[Feature], b: &[Feature]| {
                let products = a.iter().zip(b).filter(|(a, b)| a.hash == b.hash);
                products.map(|(a, b)| f64::from(a.weight) * f64::from(b.weight)).sum::<f64>()
            };
            let cosine = dot(&one, &other) / (dot(&one, &one) * dot(&other, &other)).sqrt();
            expected += cosine.clamp(-1.0, 1.0).acos() / std::f64::consts::PI;
        }
        let pairs = f64::from(PAIRS);
        let expected = expected / pairs;
        for (differing, width) in differing.into_iter().zip(Width::ALL) {
            let differing = differing / pairs;
            // This many bits are drawn to a pair; components of +1 and -1 are not those of a sphere, which costs a
            // little.
            let error = (expected * (1.0 - expected) / (f64::from(width.bits()) * pairs)).sqrt();
            assert!(
                (differing - expected).abs() < 4.0 * error + 0.002,
                "{shared} of {WORDS}, {width:?}: {differing}, {expected}, {error}"
            );
        }
    }
}

fn any_features() -> impl Strategy<Value = Vec<Feature>> {
    // Small weights, so that votes are often even.
    prop::collection::vec((any::<u128>(), prop_oneof![0_u32..4, any::<u32>()]), 0..40)
        .prop_map(|features| features.into_iter().map(|(hash, weight)| Feature { hash, weight }).collect())
}

proptest! {
    #[test]
    fn simhash_is_what_its_definition_says(features in any_features()) {
        let expected = sums(&features).iter().enumerate().filter(|(_, sum)| **sum > 0).map(|(bit, _)| 1 << bit).sum();
        for width in Width::ALL {
            prop_assert_eq!(simhash(&features, width), SimHash::from_low_bits(width, expected));
        }
    }

    #[test]
    fn no_order_of_the_features_changes_a_bit(features in any_features(), shuffled in any::<u128>()) {
        let mut other = features.clone();
        other.sort_by_key(|feature| feature.hash.wrapping_mul(shuffled | 1));
        for width in Width::ALL {
            prop_assert_eq!(simhash(&other, width), simhash(&features, width));
        }
    }

    #[test]
    fn the_strongest_features_are_those_that_sorting_finds(
        hashes in prop::collection::hash_set(0_u128..100, 0..40), weights in prop::collection::vec(0_u32..4, 40), k in 0_usize..50
    ) {
        let mut features: Vec<Feature> =
            hashes.into_iter().zip(weights).map(|(hash, weight)| Feature { hash, weight }).collect();
        let order = |feature: &Feature| (u32::MAX - feature.weight, feature.hash);
        let mut expected = features.clone();
        expected.sort_by_key(order);
        if k > 0 {
            expected.truncate(k);
        }
        keep_strongest(&mut features, k);
        features.sort_by_key(order);
        prop_assert_eq!(features, expected);
    }

    #[test]
    fn exact_hashes_are_equal_when_and_only_when_normalised_texts_are(a in "[aA １1，,漢汉\n]{1,4}", b in "[aA １1，,漢汉\n]{1,4}") {
        let normal = |value: &str| {
            let mut buffer = String::new();
            let body = crate::record::Body::Text(value.into());
            plain().analyzer().normalize(&body, &mut buffer).map(|normal| normal.text.to_owned())
        };
        if let (Ok(left), Ok(right)) = (normal(&a), normal(&b)) {
            prop_assert_eq!(read(&a).fingerprints.exact == read(&b).fingerprints.exact, left == right);
        }
    }

    #[test]
    fn buffers_used_before_change_nothing(texts in prop::collection::vec("[a-z天地玄黄 ]{1,80}", 1..6)) {
        // A reader of another scheme uses them in turn.
        let other = reader(|input, _, settings| {
            input.format = Format::Text;
            settings.minhash.form = SketchForm::new(40, SlotBits::B8).ok();
            settings.minhash.min_shingles = 1;
        });
        let mut scratch = Scratch::default();
        for text in texts {
            let raw = RawRecord { key: None, value: Some(text.as_bytes()), headers: &() };
            for reader in [plain(), &other] {
                prop_assert_eq!(reader.read(&raw, &mut scratch), reader.read(&raw, &mut Scratch::default()));
            }
        }
    }
}

#[test]
fn logarithmic_weights_are_exact_at_powers_of_two_and_grow_between() {
    assert_eq!([1, 2, 4, 1024].map(log_weight), [256, 512, 768, 256 * 11]);
    assert_eq!((log_weight(0), log_weight(3), log_weight(u32::MAX)), (256, 640, 256 * 32 + 255));
    assert!((1..5000).all(|count| log_weight(count) <= log_weight(count + 1)));
}

/// A text of `count` distinct words.
fn of_words(count: usize) -> String {
    (0..count).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn too_few_features_leave_only_the_exact_stage() {
    assert_eq!((read(&of_words(19)).fingerprints.simhash, read(&of_words(19)).features), (None, 19));
    assert!(read(&of_words(20)).fingerprints.simhash.is_some());
    let none = [read("！！！"), read("……"), read("的 the")];
    assert!(none.iter().all(|reading| reading.features == 0 && reading.fingerprints.simhash.is_none()));
    assert_ne!(none[0].fingerprints.exact, none[1].fingerprints.exact, "nothing matches all others like it");
}

#[test]
fn a_small_edit_moves_few_bits_and_another_text_many() {
    let text = GOLDEN[0].0.repeat(3);
    let base = read(&text).fingerprints.simhash.unwrap();
    let edited = read(&text.replacen("研究人员", "科研人员", 1)).fingerprints.simhash.unwrap();
    let other = read(&GOLDEN[2].0.repeat(3)).fingerprints.simhash.unwrap();
    let (near, far) = (base.distance(edited).unwrap(), base.distance(other).unwrap());
    assert!(near <= 6 && far > 12, "{near}, {far}");
}

#[test]
fn traditional_and_simplified_script_give_the_same_fingerprints() {
    assert_eq!(read(GOLDEN[0].0).fingerprints, read(GOLDEN[1].0).fingerprints);
}

#[test]
fn weights_and_top_k_decide_the_fingerprint() {
    let text = format!("{} harbour harbour ferry ferry ferry the channel", GOLDEN[2].0);
    let with = |weights, top_k| {
        let reader = reader(|input, _, settings| {
            input.format = Format::Text;
            settings.simhash.weights = weights;
            settings.simhash.top_k = top_k;
        });
        read_with(&reader, &text).unwrap().fingerprints.simhash
    };
    let all = [(Weights::TfIdf, 0), (Weights::Tf, 0), (Weights::Uniform, 0), (Weights::TfIdf, 10)];
    let mut found: Vec<_> = all.into_iter().map(|(weights, top_k)| with(weights, top_k)).collect();
    assert_eq!(with(Weights::TfIdf, 200), found[0], "fewer than 200 features: all count");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), all.len());
}

#[test]
fn a_word_that_is_said_often_does_not_decide_a_fingerprint() {
    let list = |countries: &str| {
        let text: Vec<&str> = countries.split(' ').flat_map(|country| [country, "驻华大使、"]).collect();
        read(&text.concat()).fingerprints.simhash.unwrap()
    };
    let one = list(
        "法国 德国 英国 巴西 日本 印度 泰国 越南 埃及 智利 秘鲁 希腊 荷兰 波兰 瑞典 瑞士 比利时 匈牙利 意大利 西班牙 \
         葡萄牙 土耳其 奥地利 墨西哥 阿根廷 加拿大",
    );
    let other = list(
        "挪威 芬兰 丹麦 冰岛 古巴 伊朗 约旦 蒙古 老挝 缅甸 加纳 马里 乍得 苏丹 尼泊尔 新加坡 马来西亚 菲律宾 柬埔寨 \
         肯尼亚 尼日利亚 哥伦比亚 委内瑞拉 捷克 罗马尼亚 保加利亚",
    );
    let bits = one.distance(other).unwrap();
    assert!(bits > 5, "{bits}");
}

#[test]
fn a_reading_holds_what_an_entry_needs() {
    let reader = Fingerprinter::new(
        &InputSettings {
            event_time: EventTime::Field,
            fields: crate::record::Fields {
                fetched_at: Some("/time".parse().unwrap()),
                scope: Some("header:site".parse().unwrap()),
                ..Default::default()
            },
            ..Default::default()
        },
        &text::Settings::default(),
        &Settings::default(),
        NonZeroUsize::new(5).unwrap(),
    )
    .unwrap();
    let headers = [("site", "a.example")];
    let value = br#"{"url":"http://a.example/1","text":"one two 2","time":5}"#;
    let raw = RawRecord { key: Some(b"k"), value: Some(value), headers: &headers.to_vec() };
    let reading = reader.read(&raw, &mut Scratch::default()).unwrap();
    assert_eq!(reading.id_text.as_deref(), Some("http://a.example/1"));
    assert_eq!(reading.event_time, Some(Timestamp::from_millis(5000)));
    assert_eq!((reading.text_bytes, reading.cut), (9, false));
    assert_eq!(reader.place(&raw), Ok((reading.scope, reading.partition)));
    assert_eq!(reading.partition, partition_of(reading.scope, NonZeroUsize::new(5).unwrap()));
    assert_eq!(reading.digest, digest_of(&raw));
    for other in [RawRecord { key: None, ..raw }, RawRecord { key: Some(b""), ..raw }, RawRecord { value: None, ..raw }]
    {
        assert_ne!(digest_of(&other), reading.digest);
    }
    assert_ne!(
        digest_of(&RawRecord { key: None, ..raw }),
        digest_of(&RawRecord { key: Some(b""), ..raw }),
        "an absent key is not an empty one"
    );
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Memory is reserved by what the page holds, not by what its packed form shows.
#[test]
fn the_page_of_a_packed_value_is_the_unpacked_one() {
    let reader = |input: &InputSettings| {
        Fingerprinter::new(input, &text::Settings::default(), &Settings::default(), NonZeroUsize::MIN).unwrap()
    };
    let html = "<p>a".repeat(100);
    let json = format!(r#"{{"html":"{html}"}}"#);
    let plain = reader(&InputSettings::default());
    let page = |reader: &Fingerprinter, value: &[u8]| {
        let record = RawRecord { key: None, value: Some(value), headers: &() };
        reader.page(&record).map(std::borrow::Cow::into_owned)
    };
    assert_eq!(page(&plain, json.as_bytes()), Some(json.clone().into_bytes()));
    assert_eq!(page(&plain, &zstd(json.as_bytes())), Some(html.clone().into_bytes()));
    let mut input = InputSettings::default();
    input.fields.html_encoding = vec![Coding::Base64];
    let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &html);
    let packed = format!(r#"{{"html":"{base64}"}}"#);
    assert_eq!(page(&reader(&input), packed.as_bytes()), Some(html.into_bytes()));
    assert_eq!(page(&reader(&input), b"{}"), None);
}

#[test]
fn scopes_are_spread_over_partitions_and_no_scope_goes_to_the_first() {
    let three = NonZeroUsize::new(3).unwrap();
    assert_eq!(partition_of(None, three), 0);
    assert_eq!([5, 6, 7].map(|hash| partition_of(Some(ScopeHash(hash)), three)), [2, 0, 1]);
    assert_eq!(partition_of(Some(ScopeHash(u64::MAX)), ONE), 0);
    let error = Fingerprinter::new(&InputSettings::default(), &text::Settings::default(), &Settings::default(), three)
        .unwrap_err();
    assert_eq!(error, SettingsError::PartitionsWithoutScope(three));
}

#[test]
fn everything_that_decides_an_entry_changes_the_scheme_and_nothing_else_does() {
    type Change = fn(&mut InputSettings, &mut text::Settings, &mut Settings);
    let scheme = |change: Change, partitions: usize| {
        let (mut input, mut text, mut fingerprint) = Default::default();
        change(&mut input, &mut text, &mut fingerprint);
        scheme_id(&input, &text, &fingerprint, NonZeroUsize::new(partitions).unwrap())
    };
    let changes: [Change; 41] = [
        |_, _, _| {},
        |input, _, _| input.format = Format::Text,
        |input, _, _| input.format = Format::Html,
        |input, _, _| input.fields.id = None,
        |input, _, _| input.fields.id = "/urL".parse().ok(),
        |input, _, _| input.fields.text = "/body".parse().ok(),
        |input, _, _| input.fields.html = "header:html".parse().ok(),
        |input, _, _| input.fields.scope = "key".parse().ok(),
        |input, _, _| {
            input.event_time = EventTime::Field;
            input.fields.fetched_at = "/t".parse().ok();
        },
        |input, _, _| {
            input.event_time = EventTime::Field;
            input.fields.fetched_at = "/t".parse().ok();
            input.fields.zone = "UTC".parse().ok();
        },
        |input, _, _| input.encoding = vec![Coding::Base64],
        |input, _, _| input.fields.text_encoding = vec![Coding::Base64],
        |input, _, _| input.fields.html_encoding = vec![Coding::Base64],
        |input, _, _| input.fields.html_encoding = vec![Coding::Base64, Coding::Gzip],
        |input, _, _| input.max_document = 1,
        |_, text, _| text.html = text::HtmlText::AllText,
        |_, text, _| text.normalize.lowercase = false,
        |_, text, _| text.normalize.digits = text::Digits::Mask,
        |_, text, _| text.normalize.han = text::Han::Keep,
        |_, text, _| text.normalize.urls = text::Urls::Keep,
        |_, text, _| text.normalize.unicode = text::UnicodeForm::None,
        |_, text, _| text.segmenter = text::Segmenter::Unicode,
        |_, text, _| text.jieba.hmm = false,
        |_, text, _| text.jieba.user_dict = Some("天\nb".to_owned()),
        |_, text, _| text.stopwords = vec![text::StopWords::Zh],
        |_, text, _| text.stopwords = vec![text::StopWords::List("zh".to_owned())],
        |_, text, _| text.min_features = 3,
        |_, _, fingerprint| fingerprint.simhash.weights = Weights::Tf,
        |_, _, fingerprint| fingerprint.simhash.top_k = 0,
        |_, _, fingerprint| fingerprint.simhash.hash = FeatureHash::Md5,
        |_, _, fingerprint| fingerprint.simhash.bits = Width::B32,
        |_, _, fingerprint| fingerprint.simhash.bits = Width::B128,
        |_, _, fingerprint| fingerprint.minhash.form = None,
        |_, _, fingerprint| fingerprint.minhash.form = SketchForm::new(64, SlotBits::B8).ok(),
        |_, _, fingerprint| fingerprint.minhash.form = SketchForm::new(128, SlotBits::B4).ok(),
        |_, _, fingerprint| fingerprint.minhash.form = SketchForm::new(128, SlotBits::B8).ok(),
        |_, _, fingerprint| {
            let form = SketchForm::new(128, SlotBits::B8).unwrap();
            fingerprint.minhash.form = form.with_bottom(64).ok();
        },
        |_, _, fingerprint| fingerprint.minhash.shingle.unit = ShingleUnit::Words,
        |_, _, fingerprint| fingerprint.minhash.shingle.lengths.han = 3,
        |_, _, fingerprint| fingerprint.minhash.shingle.lengths.other = 3,
        |_, _, fingerprint| fingerprint.minhash.min_shingles = 3,
    ];
    let mut all: Vec<SchemeId> = changes.into_iter().map(|change| scheme(change, 1)).collect();
    all.push(scheme(|_, _, _| {}, 2));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), changes.len() + 1);
    let unread: Change = |input, _, _| {
        input.fields.fetched_at = "/t".parse().ok();
        input.fields.zone = "UTC".parse().ok();
    };
    assert_eq!(scheme(unread, 1), scheme(|_, _, _| {}, 1), "a field that is not read decides nothing");
    let reordered: Change = |_, text, _| text.stopwords.reverse();
    assert_eq!(scheme(reordered, 1), scheme(|_, _, _| {}, 1), "nor does the order of lists");
    let (input, text, fingerprint) = Default::default();
    let written = canonical(&input, &text, &fingerprint, ONE);
    let settings = written.strip_prefix(&format!("code={}\n", text::VERSIONS.end())).unwrap();
    assert_eq!(
        xxh3_64(settings.as_bytes()),
        0xadeb_8b23_862b_d86d,
        "the same settings are the same scheme in every release:\n{written}"
    );
    let of_width = |bits: Change| scheme(bits, 1).to_string();
    assert!(of_width(|_, _, fingerprint| fingerprint.simhash.bits = Width::B32).starts_with("sh32-"));
    assert!(of_width(|_, _, fingerprint| fingerprint.simhash.bits = Width::B128).starts_with("sh128-"));
}

/// Texts with their fingerprints under the default settings. A change here is a change of the scheme: see
/// [`text::VERSIONS`].
const GOLDEN: [(&str, u128, u64); 10] = [
    (
        "据了解，研究人员近日在南海发现了一种此前从未记录的深海珊瑚，样本采集自水下两千米的海山。专家认为，这一计划为认识海洋生态系统提供了新的证据，也提醒人们注意保护脆弱的海底环境。",
        0xbd54_f2fe_9852_d2be_6a68_6ab9_09dc_06f0,
        0x41ab_a784_b07e_92e3,
    ),
    (
        "據瞭解，研究人員近日在南海發現了一種此前從未記錄的深海珊瑚，樣本採集自水下兩千米的海山。專家認為，這一計畫為認識海洋生態系統提供了新的證據，也提醒人們注意保護脆弱的海底環境。",
        0xbd54_f2fe_9852_d2be_6a68_6ab9_09dc_06f0,
        0x41ab_a784_b07e_92e3,
    ),
    (
        "The harbour authority announced on Tuesday that dredging of the northern channel will begin next spring, \
         after engineers found that sediment had reduced its depth by nearly two metres. Ferry companies welcomed \
         the decision but asked for guarantees about summer timetables.",
        0x4cc6_6cbd_61b9_a674_6e6b_b59c_b2b2_3040,
        0x4ec6_aca9_850d_088b,
    ),
    (
        "央行宣布下调存款准备金率0.5个百分点，释放长期资金约1万亿元。分析人士表示，此举有助于稳定市场预期，支持实体经济发展，降低企业融资成本，并为下半年的财政政策留出空间。",
        0x6046_2dae_88f3_fa73_8ab9_761d_de4b_c7f7,
        0xa38e_3007_26c3_4eba,
    ),
    (
        "Rust 1.95 发布：新版本改进了 borrow checker 的错误提示，cargo build 在 Linux 上平均快 12%，社区开发者可以通过 rustup update 升级，详情见 https://blog.rust-lang.org/ 的公告，文档、编译器与标准库同步更新。",
        0xe464_c159_f03e_0da7_1414_d516_2d0b_68f7,
        0xea3e_8b97_b84e_0068,
    ),
    ("今天天气不错", 0x85a4_0c42_fa21_e4dc_0c5a_eefb_3bac_3f31, 0),
    ("Breaking: markets close higher", 0x685f_6dbc_e0c2_0b7c_17d0_176e_14ce_0c83, 0),
    (
        "ＦＵＬＬ ｗｉｄｔｈ ｔｅｘｔ with café, naïve coöperation, ﬁne ligatures, Straße, İstanbul, Ωμέγα, русский язык, \
         日本語のテキスト, 한국어 문장, ข้อความภาษาไทย, emoji 😀 and numbers 3.14159 12,345 2026-11-21",
        0x70d7_94bd_d643_f861_9089_54a4_4612_684d,
        0x4403_cd51_fe58_4611,
    ),
    (
        "臺灣的夜市以小吃聞名，遊客喜歡珍珠奶茶、蚵仔煎與臭豆腐；當地居民則更在意攤商的衛生與價格。著名的士林夜市近年來重新規劃，乾淨的用餐環境吸引許多家庭前往，週末經常人潮洶湧。",
        0xdf02_fa0c_d102_2714_e526_cb39_b120_65f2,
        0x689a_cfe6_f31b_4e03,
    ),
    ("1234567890 1234567890", 0x7b02_1d11_63d0_0caf_f64d_9e81_2e20_bf07, 0),
];

#[test]
fn a_seed_changes_the_code_and_the_sketch_of_a_text() {
    let seeded = reader(|input, _, settings| {
        input.format = Format::Text;
        settings.seed = Seed::of("a secret");
    });
    let text = of_words(40);
    let (plain, seeded) = (read(&text).fingerprints, read_with(&seeded, &text).unwrap().fingerprints);
    assert!(plain.simhash.is_some() && plain.sketch.is_some());
    assert_ne!(plain.simhash, seeded.simhash);
    assert_ne!(plain.sketch, seeded.sketch);
}

#[test]
fn known_texts_keep_their_fingerprints() {
    let found: Vec<(u128, SimHash)> = GOLDEN
        .iter()
        .map(|(text, ..)| read(text).fingerprints)
        .map(|found| (found.exact.0, found.simhash.unwrap_or(SimHash::B64(0))))
        .collect();
    let expected: Vec<_> = GOLDEN.iter().map(|(_, exact, simhash)| (*exact, SimHash::B64(*simhash))).collect();
    assert_eq!(found, expected, "{found:#x?}");
}

/// What the reader hashes, what it shows to people and what a list of stop-shingles names is the same.
#[test]
fn sketches_of_runs_of_words_are_those_of_the_shingles_that_are_shown() {
    let shingling = Shingling::of_words(2, 3);
    let with = |contents: &str| {
        let stop = StopShingles::parse(&format!("{STOP_SHINGLES_HEAD}\n{contents}"), shingling);
        stop.map(|stop| {
            reader(|input, _, fingerprint| {
                input.format = Format::Text;
                fingerprint.minhash.shingle = shingling;
                fingerprint.minhash.min_shingles = 3;
                fingerprint.minhash.stop = stop;
            })
        })
    };
    let text = "长江大桥今日通车，the first buses crossed the rebuilt bridge's northern half at noon";
    let raw = RawRecord { key: None, value: Some(text.as_bytes()), headers: &() };
    let (plain, stopped) = (with("").unwrap(), with("rebuilt bridge's northern\n今日 通车\n").unwrap());
    let all = plain.inspect(&raw).unwrap().shingles;
    assert!(["今日 通车", "通车 buses", "rebuilt bridge's northern"].iter().all(|run| all.iter().any(|it| it == run)));
    let left = stopped.inspect(&raw).unwrap();
    assert_eq!((left.stopped, left.shingles.len()), (2, all.len() - 2));
    for (reader, shingles) in [(&plain, &all), (&stopped, &left.shingles)] {
        let mut hashes: Vec<u32> = shingles.iter().map(|shingle| shingle_hash(shingle)).collect();
        hashes.sort_unstable();
        let (form, mut minima) = (Settings::default().minhash.form.unwrap(), Vec::new());
        Permutations::new(128).minima(&hashes, &mut minima);
        assert_eq!(
            read_with(reader, text).unwrap().fingerprints.sketch,
            Some(form.cut(&minima, &hashes, hashes.len()))
        );
    }
    assert_ne!(stopped.scheme(), plain.scheme());
    let refused = with("rebuilt bridge's\n").unwrap_err().to_string();
    assert!(refused.contains("has 2 words, but a shingle that begins like this has 3"), "{refused}");
    // A text of one word has no run of three, whatever was read before.
    let mut scratch = Scratch::default();
    let short = RawRecord { key: None, value: Some(b"bridge"), headers: &() };
    assert!(plain.read(&raw, &mut scratch).unwrap().fingerprints.sketch.is_some());
    assert_eq!(plain.read(&short, &mut scratch).unwrap().fingerprints.sketch, None);
}

/// Those of the first and the third text, of 128 bits. Of 32 bits they are the lower half of those of 64.
const WIDE: [(usize, u128); 2] =
    [(0, 0x9e97_1915_e50b_5a74_ddd8_19dc_672e_0725), (2, 0xbfc7_75c5_bcab_357b_7281_732d_7d87_dbba)];

#[test]
fn known_texts_keep_their_fingerprints_of_other_widths() {
    let [narrow, wide] = [Width::B32, Width::B128].map(|width| {
        reader(|input, _, settings| {
            input.format = Format::Text;
            settings.simhash.bits = width;
        })
    });
    for (text, _, code) in GOLDEN.iter().filter(|(.., code)| *code > 0) {
        let found = read_with(&narrow, text).unwrap().fingerprints;
        assert_eq!(found.simhash, Some(SimHash::from_low_bits(Width::B32, u128::from(*code))));
    }
    let found = WIDE.map(|(text, _)| (text, read_with(&wide, GOLDEN[text].0).unwrap().fingerprints.simhash.unwrap()));
    assert_eq!(found, WIDE.map(|(text, code)| (text, SimHash::B128(code))), "{found:x?}");
}

#[test]
fn a_hash_of_words_that_is_too_short_is_refused() {
    let with = |hash, bits| {
        let simhash = SimHashSettings { bits, hash, ..SimHashSettings::default() };
        let settings = Settings { simhash, ..Settings::default() };
        Fingerprinter::new(&InputSettings::default(), &text::Settings::default(), &settings, ONE).map(|_| ())
    };
    let refused = with(FeatureHash::Jenkins, Width::B128).unwrap_err();
    assert_eq!(refused.to_string(), "match.simhash.hash jenkins has 64 bits, match.simhash.bits is 128");
    assert_eq!(with(FeatureHash::Jenkins, Width::B64), Ok(()));
    assert_eq!(with(FeatureHash::Md5, Width::B128), Ok(()));
}

#[test]
fn stop_shingles_are_left_out_of_sketches_and_are_part_of_the_scheme() {
    let lengths = Settings::default().minhash.shingle;
    let with = |contents: &str| {
        let stop = StopShingles::parse(&format!("{STOP_SHINGLES_HEAD}\n{contents}"), lengths).unwrap();
        reader(|input, _, fingerprint| {
            input.format = Format::Text;
            fingerprint.minhash.stop = stop;
        })
    };
    let text = "责任编辑王小明，本报北京讯，长江大桥今日通车";
    let (plain, stopped) = (plain(), with("责任编辑\n江大桥今\n"));
    let sketch = |reader: &Fingerprinter, text: &str| read_with(reader, text).unwrap().fingerprints.sketch;
    assert_ne!(sketch(&stopped, text), sketch(plain, text));
    assert_ne!(stopped.scheme(), plain.scheme());
    assert_eq!(with("江大桥今\n# other words\n责任编辑\n").scheme(), stopped.scheme());
    assert_eq!(with("# none").scheme(), plain.scheme());
    // What counts alone makes the same sketch.
    let raw = RawRecord { key: None, value: Some(text.as_bytes()), headers: &() };
    let inspected = stopped.inspect(&raw).unwrap();
    assert_eq!((inspected.stopped, inspected.shingles.len()), (2, plain.inspect(&raw).unwrap().shingles.len() - 2));
    let hashes: Vec<u32> = inspected.shingles.iter().map(|shingle| shingle_hash(shingle)).collect();
    let (form, mut minima) = (Settings::default().minhash.form.unwrap(), Vec::new());
    Permutations::new(128).minima(&hashes, &mut minima);
    assert_eq!(sketch(&stopped, text), Some(form.cut(&minima, &hashes, hashes.len())));
    // Its size is that of what counts, each once.
    let twice = sketch(&with("责任编辑"), &text.repeat(30)).unwrap();
    let different = plain.inspect(&RawRecord { key: None, value: Some(text.repeat(30).as_bytes()), headers: &() });
    assert_eq!(form.count(&twice), u32::try_from(different.unwrap().shingles.len() - 1).ok());
    // Of a page of nothing else there is none.
    let all: String = plain.inspect(&raw).unwrap().shingles.join("\n");
    assert_eq!(sketch(&with(&all), text), None);
}

#[test]
fn pages_that_differ_in_their_web_addresses_are_not_equal() {
    let of = |text: &str| read(text).fingerprints;
    // In an article they do not count but for the exact stage.
    let article = |address: &str| of(&format!("{EN} See {address} for more."));
    let (one, other) = (article("https://a.example/x"), article("https://b.example/y?z=1"));
    assert_ne!(one.exact, other.exact);
    assert_eq!(Fingerprints { exact: one.exact, ..other }, one);
    assert_eq!(article("https://a.example/x"), one);
    assert_ne!(of(&format!("{EN} See for more.")).exact, one.exact);
    // A post that shares a link, and a list of links.
    let post = |address: &str| of(&format!("New post: https://blog.example/{address}"));
    let list = |from: usize| {
        let links: Vec<String> = (from..from + 30).map(|at| format!("https://site.example/story/{at}.html")).collect();
        of(&format!("Further reading for students of the history of the town\n{}", links.join("\n")))
    };
    for (one, other) in [(post("left"), post("right")), (list(0), list(500))] {
        assert_ne!(one.exact, other.exact);
        assert!(one.numbers.differ(&other.numbers, PerMille(500)));
    }
    assert_eq!(list(7), list(7));
    let only = RawRecord { key: None, value: Some(b"https://a.example/x"), headers: &() };
    assert_eq!(plain().inspect(&only).unwrap().numbers, ["https://a.example/x"]);
}

/// Two news reports in Thai. Its letters are those of every other Thai text.
const THAI: [&str; 2] = [
    "กระทรวงทรัพยากรน้ำแจ้งเมื่อวันอังคารว่าระดับน้ำในแม่น้ำสูงขึ้นในสัปดาห์ที่ผ่านมาหลังฝนตกหนักทางภาคเหนือของประเทศ \
     และเตือนประชาชนที่อาศัยอยู่ใกล้ตลิ่งให้ระวังน้ำท่วม โฆษกกระทรวงกล่าวว่าเจ้าหน้าที่ช่างกำลังเฝ้าดูเขื่อนตลอดยี่สิบสี่ชั่วโมง \
     และแผนฉุกเฉินพร้อมดำเนินการหากฝนยังตกต่อเนื่อง",
    "สมาคมฟุตบอลประกาศเลื่อนการแข่งขันรอบชิงชนะเลิศออกไปหนึ่งเดือน เพราะสนามกีฬาแห่งชาติยังซ่อมแซมหลังคาไม่เสร็จ \
     ผู้จัดการทีมเจ้าบ้านบอกนักข่าวว่านักเตะหลายคนบาดเจ็บจึงดีใจที่ได้พัก แต่แฟนบอลที่ซื้อบัตรล่วงหน้าต่างผิดหวังและเรียกร้องให้คืนเงิน \
     ฝ่ายขายรับปากจะตอบภายในเจ็ดวัน",
];

#[test]
fn thai_texts_differ_by_more_than_their_letters() {
    let simhash = |text: &str| read(text).fingerprints.simhash.unwrap();
    let [report, other] = THAI;
    let far = simhash(report).distance(simhash(other)).unwrap();
    let edited = report.replacen("วันอังคาร", "วันพุธ", 1);
    let near = simhash(report).distance(simhash(&edited)).unwrap();
    assert!(far > 20 && near < 12, "{far}, {near}");
}

/// A market report with these numbers.
fn report(numbers: [&str; 5]) -> String {
    let [index, shares, value, risen, fallen] = numbers;
    format!(
        "أغلق المؤشر العام لسوق الأسهم اليوم عند {index} نقطة بعد تداول {shares} مليون سهم بقيمة {value} مليون ريال، \
         وارتفعت أسهم {risen} شركة وانخفضت أسهم {fallen} شركة. وقال محللون إن السوق سيظل متقلبا في الأسابيع المقبلة."
    )
}

#[test]
fn numbers_in_other_digits_are_numbers() {
    let numbers = |numbers| read(&report(numbers)).fingerprints;
    let monday = numbers(["١١٢٣٤", "٢٠٥", "٦١٢٠", "٩٨", "٧٧"]);
    let friday = numbers(["١٠٨٧٦", "٣١٨", "٧٧٤٥", "٥٤", "١٢١"]);
    assert!(monday.numbers.differ(&friday.numbers, PerMille(500)));
    assert_eq!(monday, numbers(["11234", "205", "6120", "98", "77"]), "the same numbers");
}

/// The lists of words are in the form of normalised text.
#[test]
fn dates_times_and_counters_are_known_in_pages_as_they_are_written() {
    for text in [
        "Am 5. März 2024 um 14.30 Uhr, vor 3 Stunden, 1.234 Aufrufe",
        "Em 1º de Março de 2024, 318 Curtidas",
        "5 Марта 2024, 12\u{a0}234 Просмотра",
        "5 AĞUSTOS 2024, 1.234 Görüntülenme",
        "閲覧数 1234、1.2万回視聴、令和６年３月５日１４時３０分、３時間前",
        "瀏覽 1234，1.2萬次閱讀，贊 318，民國113年3月5日下午2點30分，3小時前",
        "2024년 3월 5일 오후 2시 30분, 조회수 1,234, 3시간 전",
        "٥ مارس ٢٠٢٤، ١٢٣٤ مشاهدة، منذ ٣ ساعات",
        "Copyright © 2020–2024",
    ] {
        let page = RawRecord { key: None, value: Some(text.as_bytes()), headers: &() };
        let numbers = plain().inspect(&page).unwrap().numbers;
        assert_eq!(numbers, [""; 0], "{text}");
    }
}

const EN: &str = "The harbour authority announced on Tuesday that dredging of the northern channel will begin next spring, \
    after engineers found that sediment had reduced its depth by nearly two metres.";

/// Reads a page of HTML at this address with the default settings.
fn at(address: &str, html: &str) -> FingerprintedPage {
    let value = serde_json::json!({"url": address, "html": html}).to_string();
    read_with(&reader(|_, _, _| {}), &value).unwrap()
}

#[test]
fn variants_that_name_one_canonical_address_are_one_page() {
    let page = |head: &str| format!("<html><head>{head}</head><body><p>{EN}</p></body></html>");
    let own = at("https://www.a.example.com/story", &page(""));
    assert_eq!((own.id, own.canonical.as_deref()), (Some(id_hash("https://www.a.example.com/story")), None));
    for (address, head, is_variant) in [
        ("https://amp.example.com/story", "<link rel=canonical href=https://www.a.example.com/story>", true),
        ("https://www.a.example.com/story?sid=1#top", "<link rel='canonical' href='/story'>", true),
        ("https://m.example.com/x", "<base href=//www.a.example.com/news/><link rel=canonical href=../story#x>", true),
        ("https://www.a.example.com/story", "<link rel=canonical href=story>", false),
    ] {
        let variant = at(address, &page(head));
        assert_eq!((variant.id, variant.site), (own.id, own.site), "{address}");
        assert_eq!(variant.canonical.is_some(), is_variant, "{address}");
    }
    // Tags without end make a page too large for a tree, and the head is read all the same.
    let large = format!("{}{}", page("<link rel=canonical href=/story>"), "<br>a".repeat(100_001));
    let large = at("https://www.a.example.com/story?print", &large);
    assert_eq!((large.id, large.extraction), (own.id, text::Extraction::Stripped));
}

#[test]
fn an_address_is_one_id_however_it_is_written() {
    let normal = "https://www.example.com/%E6%96%B0%E9%97%BB/1";
    let amp = at("https://m.example.com/amp/1", &format!("<link rel=canonical href='{normal}'><p>{EN}"));
    for written in [
        "https://www.example.com/新闻/1",
        "HTTPS://WWW.Example.com:443/%E6%96%B0%E9%97%BB/1",
        "https://www.example.com/a/../新闻/1#top",
        normal,
    ] {
        let page = at(written, EN);
        assert_eq!((page.id, page.address), (amp.id, None), "{written}");
        // What an operator names is found.
        assert_eq!(page.id, Some(id_hash(written)));
        assert_eq!(page.id_text.as_deref(), Some(written), "headers carry it as it came");
    }
    assert_eq!(amp.address, Some(AddressHash::of(id_hash("https://m.example.com/amp/1"))));
    assert_ne!(id_hash("Page-17"), id_hash("page-17"), "what is no address is taken as it is");
}

#[test]
fn a_page_whose_id_is_no_address_tells_its_own() {
    let fields = crate::record::Fields {
        id: "/id".parse().ok(),
        address: "/url".parse().ok(),
        ..crate::record::Fields::default()
    };
    let reader = reader(|input, _, _| input.fields = fields);
    let read = |id: &str, url: &str, html: &str| {
        read_with(&reader, &serde_json::json!({"id": id, "url": url, "html": html}).to_string()).unwrap()
    };
    let page = read("17", "https://www.example.com/新闻", EN);
    let amp =
        read("18", "https://m.example.com/x", &format!("<link rel=canonical href=//www.example.com/新闻><p>{EN}"));
    assert_eq!((page.id, page.address), (Some(id_hash("17")), amp.id.map(AddressHash::of)));
    assert_eq!(amp.address, Some(AddressHash::of(id_hash("https://m.example.com/x"))));
    // An id that is the address says it.
    let named = read("https://www.example.com/a", "https://www.example.com/a", EN);
    assert_eq!(named.address, None);
}

#[test]
fn pages_that_differ_in_counters_and_dates_have_one_title() {
    let titled = |title: &str| at("https://a.example.com/x", &format!("<title>{title}</title><p>{EN}")).title;
    assert_eq!(titled("(3) Inbox"), titled("INBOX (4)"));
    assert_eq!(titled("News of 2026-03-05"), titled("News of 2026-03-06"));
    assert_ne!(titled("Bearing 6204"), titled("Bearing 6205"));
    assert!(titled("Red shoe").is_some() && titled("Red shoe") != titled("Blue shoe"));
    assert_eq!(titled("404"), None);
    let text =
        serde_json::json!({"url": "https://a.example.com/x", "text": format!("<title>x</title>{EN}")}).to_string();
    assert_eq!(read_with(&reader(|_, _, _| {}), &text).unwrap().title, None);
    // Tags without end make a page too large for a tree, and the title is read all the same.
    let large = at("https://a.example.com/x", &format!("<title>Red shoe</title>{}", "<br>a".repeat(100_001)));
    assert_eq!((large.title, large.extraction), (titled("Red shoe"), text::Extraction::Stripped));
}

#[test]
fn a_canonical_address_of_another_site_is_not_believed() {
    for named in ["https://example.org/story", "http://example.com.evil.net/story", "javascript:x", "http://["] {
        let page = at("https://a.example.com/copy", &format!("<link rel=canonical href=\"{named}\"><p>{EN}"));
        assert_eq!((page.id, page.canonical), (Some(id_hash("https://a.example.com/copy")), None), "{named}");
    }
    let front = at("https://a.example.com/story?page=2", &format!("<link rel=canonical href=/><p>{EN}"));
    assert_eq!((front.id, front.canonical), (Some(id_hash("https://a.example.com/story?page=2")), None));
    let nameless = at("page-17", &format!("<link rel=canonical href=https://a.example.com/x><p>{EN}"));
    assert_eq!((nameless.id, nameless.site), (Some(id_hash("page-17")), None), "an id that is no address has no site");
}

#[test]
fn pages_of_one_registered_domain_are_of_one_site() {
    let site = |address: &str| at(address, EN).site;
    assert_eq!(site("http://a.news.example.co.uk:81/x"), site("https://EXAMPLE.co.uk/"));
    assert_eq!(site("http://alice.blogspot.com/"), site("http://bob.blogspot.com/"), "one platform, one frame");
    assert_ne!(site("http://a.co.uk/"), site("http://b.co.uk/"));
    assert!(site("http://10.0.0.1/").is_some());
}

#[test]
fn records_may_carry_address_and_canonical_address() {
    let fields = crate::record::Fields {
        id: "/id".parse().ok(),
        address: "/url".parse().ok(),
        canonical: "header:canonical".parse().ok(),
        ..crate::record::Fields::default()
    };
    let reader = reader(|input, _, _| input.fields = fields);
    let headers = vec![("canonical", "/b")];
    let value = br#"{"id":17,"url":"http://a.example.com/a","text":"one two three"}"#;
    let record = RawRecord { key: None, value: Some(value), headers: &headers };
    let reading = reader.read(&record, &mut Scratch::default()).unwrap();
    assert_eq!(reading.canonical.as_deref(), Some("http://a.example.com/b"));
    assert_eq!((reading.id, reading.id_text.as_deref()), (Some(id_hash("http://a.example.com/b")), Some("17")));
    assert!(reading.site.is_some());
}
