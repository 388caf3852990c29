//! Values of every shape.

use super::*;
use crate::fingerprint::{AddressHash, PerMille, SameSite, SiteHash, TitleHash};
use crate::protocol::{DualPeriod, Leap, MatchedBy, RequestOffset, VerdictOffset};

fn partitions() -> impl Strategy<Value = PartitionId> {
    (prop_oneof![Just("pages".to_owned()), ".{0,6}"], prop_oneof![0..3, any::<i32>()])
        .prop_map(|(topic, number)| PartitionId::new(topic, number))
}

/// Numbers that are near one another, near a limit, or anything.
fn numbers() -> impl Strategy<Value = i64> {
    prop_oneof![0..20_i64, Just(i64::MIN), Just(i64::MAX), any::<i64>()]
}

fn times() -> impl Strategy<Value = Timestamp> {
    numbers().prop_map(Timestamp::from_millis)
}

fn sources() -> BoxedStrategy<Source> {
    (partitions(), numbers()).prop_map(|(partition, offset)| partition.at(offset)).boxed()
}

fn fingerprints() -> BoxedStrategy<Fingerprints> {
    let sketch = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
    let numbers = prop::collection::btree_set(0..u16::MAX, 0..9);
    let width = prop::sample::select(vec![Width::B32, Width::B64, Width::B128]);
    let simhash =
        prop::option::of((width, any::<u128>()).prop_map(|(width, bits)| SimHash::from_low_bits(width, bits)));
    (any::<u128>(), simhash, sketch, numbers)
        .prop_map(|(exact, simhash, sketch, numbers)| Fingerprints {
            exact: ExactHash(exact),
            simhash,
            sketch: sketch.as_deref().map(Sketch::from_bytes),
            numbers: Numbers::from_hashes(&numbers.into_iter().collect::<Vec<u16>>()).unwrap(),
        })
        .boxed()
}

fn ids() -> impl Strategy<Value = Option<IdHash>> {
    any::<Option<u64>>().prop_map(|id| id.map(IdHash))
}

fn scopes() -> impl Strategy<Value = Option<ScopeHash>> {
    any::<Option<u64>>().prop_map(|scope| scope.map(ScopeHash))
}

fn sites() -> impl Strategy<Value = Option<SiteHash>> {
    prop::option::of(any::<u32>().prop_map(SiteHash))
}

fn addresses() -> impl Strategy<Value = Option<AddressHash>> {
    prop::option::of(any::<u32>().prop_map(AddressHash))
}

fn titles() -> impl Strategy<Value = Option<TitleHash>> {
    prop::option::of(any::<u32>().prop_map(TitleHash))
}

fn placements() -> impl Strategy<Value = Placement> {
    let placed = (any::<u128>(), any::<Option<u64>>(), any::<bool>())
        .prop_map(|(skipped, family, by_title)| Placement { skipped, family, by_title });
    prop_oneof![Just(Placement::EVERYWHERE), placed]
}

fn digests() -> impl Strategy<Value = PageDigest> {
    any::<u32>().prop_map(PageDigest)
}

fn reasons() -> impl Strategy<Value = Reject> {
    prop::sample::select(&Reject::ALL[..])
}

fn targets() -> impl Strategy<Value = ForgetTarget> {
    prop_oneof![sources().prop_map(ForgetTarget::Source), any::<u64>().prop_map(|id| ForgetTarget::Id(IdHash(id)))]
}

fn stages() -> impl Strategy<Value = Stage> {
    prop::sample::select(&Stage::ALL[..])
}

pub(super) fn requests() -> impl Strategy<Value = Request> {
    let page = (
        sources(),
        times(),
        ids(),
        scopes(),
        (sites(), addresses(), titles(), any::<bool>()),
        fingerprints(),
        digests(),
        prop::option::of(decisions().prop_map(|decision| Box::new(decision.without_original()))),
    )
        .prop_map(
            |(source, event_time, id, scope, (site, address, title, is_variant), fingerprints, digest, earlier)| {
                RequestBody::Page(PageRequest {
                    source,
                    event_time,
                    id,
                    scope,
                    site,
                    address,
                    title,
                    is_variant,
                    fingerprints,
                    digest,
                    earlier,
                })
            },
        );
    let body = prop_oneof![
        4 => page,
        1 => (sources(), reasons()).prop_map(|(source, reason)| RequestBody::Withdraw { source, reason }),
        1 => targets().prop_map(RequestBody::Forget),
        1 => (partitions(), numbers(), numbers())
            .prop_map(|(partition, from, to)| RequestBody::Reopen { partition, from, to }),
        1 => times().prop_map(RequestBody::SetTime),
    ];
    (any::<u64>(), body).prop_map(|(request, body)| Request { id: RequestId(request), body })
}

fn matches() -> BoxedStrategy<Match> {
    let contained = prop::option::weighted(0.2, shares());
    let by = prop_oneof![
        Just(MatchedBy::Exact),
        any::<u8>().prop_map(|bits| MatchedBy::SimHash { bits }),
        (any::<u8>(), contained).prop_map(|(slots, contained)| MatchedBy::MinHash { slots, contained }),
    ];
    (by, sources(), numbers(), prop::option::of(sources()))
        .prop_map(|(by, source, age_ms, elsewhere)| {
            let cluster = elsewhere.unwrap_or_else(|| source.clone());
            Match { by, source, age_ms, cluster }
        })
        .boxed()
}

fn originals() -> BoxedStrategy<NewOriginal> {
    (fingerprints(), ids(), scopes(), (sites(), addresses(), titles()), placements(), prop::option::of(sources()))
        .prop_map(|(fingerprints, id, scope, (site, address, title), placement, cluster)| NewOriginal {
            fingerprints,
            id,
            scope,
            site,
            address,
            title,
            placement,
            cluster,
        })
        .boxed()
}

fn decisions() -> BoxedStrategy<Decision> {
    prop_oneof![
        prop::option::of(originals()).prop_map(|original| Decision::Unique { original }),
        (matches(), prop::option::of(originals())).prop_map(|(of, original)| Decision::Update { of, original }),
        (matches(), prop::option::of(originals())).prop_map(|(of, original)| Decision::Template { of, original }),
        matches().prop_map(|of| Decision::Duplicate { of }),
    ]
    .boxed()
}

fn single_verdicts() -> BoxedStrategy<Verdict> {
    let page = (sources(), times(), digests(), decisions()).prop_map(|(source, event_time, digest, decision)| {
        Answer::Page(PageVerdict { source, event_time, digest, decision })
    });
    let answer = prop_oneof![
        6 => page,
        1 => (sources(), reasons()).prop_map(|(source, reason)| Answer::Withdrawn { source, reason }),
        1 => targets().prop_map(Answer::Forgotten),
        1 => (partitions(), numbers(), numbers())
            .prop_map(|(partition, from, to)| Answer::Reopened { partition, from, to }),
        1 => (times(), times()).prop_map(|(before, after)| Answer::TimeSet { before, after }),
    ];
    (any::<u64>(), answer).prop_map(|(request, answer)| Verdict { request: RequestId(request), answer }).boxed()
}

fn spans() -> BoxedStrategy<Duration> {
    prop_oneof![
        (0..4_000_000_000_u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
    ]
    .boxed()
}

fn rules() -> BoxedStrategy<Rules> {
    let windows =
        (spans(), spans(), spans()).prop_map(|(exact, simhash, minhash)| PerStage { exact, simhash, minhash });
    let same_id = prop_oneof![Just(SameId::Update), Just(SameId::Duplicate)];
    let share = || prop::option::of(shares());
    let dual = prop::option::of(prop_oneof![Just(DualPeriod::Begun), times().prop_map(DualPeriod::Until)]);
    let guards = (same_id, share(), share(), share(), dual);
    let minhash = prop::option::of(minhash_rules());
    (prop::collection::vec(stages(), 0..4), any::<u8>(), windows, spans(), spans(), any::<u64>(), guards, minhash)
        .prop_map(|(stages, max_distance, windows, lateness, max_future_skew, max_entries, guards, minhash)| Rules {
            stages,
            max_distance,
            windows,
            lateness,
            max_future_skew,
            max_entries,
            same_id: guards.0,
            minhash,
            number_guard: guards.1,
            simhash_similarity: guards.2,
            same_site: guards.3.map(|containment| SameSite { containment }),
            dual: guards.4,
        })
        .boxed()
}

fn minhash_rules() -> impl Strategy<Value = MinHashRules> {
    let bits = prop::sample::select(vec![SlotBits::B4, SlotBits::B8, SlotBits::B16]);
    let (bottom, limits) = (prop::option::of(16..=255_usize), any::<(u16, u16)>());
    let options = (any::<bool>(), bottom, prop::option::of(shares()), low_confidence(), limits);
    (8..=127_usize, bits, 1..=8_usize, 1..=2_usize, any::<u8>(), shares(), options).prop_map(
        |(
            pairs,
            bits,
            bands,
            rows,
            min_shared_bands,
            min_similarity,
            (counts, bottom, containment, low_confidence, (max_bucket, one_band_below)),
        )| {
            let plain = SketchForm::new(pairs * 2, bits).unwrap();
            let counted = if counts { plain.with_count() } else { plain };
            let form = bottom.map_or(counted, |k| counted.with_bottom(k).unwrap());
            let banding = Banding::new(bands, rows, form).unwrap();
            MinHashRules {
                form,
                banding,
                min_shared_bands,
                one_band_below,
                min_similarity,
                containment,
                low_confidence,
                max_bucket,
            }
        },
    )
}

fn shares() -> impl Strategy<Value = PerMille> {
    any::<u16>().prop_map(PerMille)
}

fn low_confidence() -> impl Strategy<Value = LowConfidence> {
    (shares(), shares(), shares(), any::<(u16, u8, bool)>()).prop_map(
        |(below, below_short, containment, (short, max_distance, of_many))| LowConfidence {
            below,
            below_short,
            short,
            containment,
            max_distance,
            of_many,
        },
    )
}

fn watermarks() -> BoxedStrategy<ExpiryWatermarks> {
    (times(), times(), times(), any::<u64>())
        .prop_map(|(exact, simhash, minhash, first_sequence)| ExpiryWatermarks {
            times: PerStage { exact, simhash, minhash },
            first_sequence,
        })
        .boxed()
}

/// Judged sets as they come about: inserts, a low watermark, a reopened range; low and high in 64 bits.
fn judged() -> BoxedStrategy<Judged> {
    let offsets = prop::collection::vec(prop_oneof![0..500_i64, (1 << 40)..(1 << 40) + 500_i64], 0..60);
    (offsets, 0..400_i64, prop::option::of((0..500_i64, 0..500_i64)))
        .prop_map(|(offsets, low_watermark, reopened)| {
            let mut judged = Judged::default();
            judged.raise_low_watermark(low_watermark);
            for offset in offsets {
                judged.insert(offset);
            }
            if let Some((from, to)) = reopened {
                judged.reopen(from, to);
            }
            judged
        })
        .boxed()
}

/// Everything below an end is delivered, or not all of it is.
fn delivered() -> BoxedStrategy<Delivered> {
    let some = (numbers(), prop::collection::vec(0..600_u64, 0..40))
        .prop_map(|(end, pending)| Delivered { end, pending: pending.into_iter().collect() });
    prop_oneof![numbers().prop_map(|end| Delivered { end, ..Delivered::default() }), some].boxed()
}

pub(super) fn checkpoints() -> impl Strategy<Value = Checkpoint> {
    let said = (judged(), numbers(), delivered()).prop_map(|(judged, low_watermark, delivered)| PartitionCheckpoint {
        judged,
        low_watermark,
        delivered,
    });
    let partitions = prop::collection::btree_map(partitions(), said, 0..5);
    let applied = prop::collection::vec(any::<u64>().prop_map(RequestId), 0..5);
    let leap = prop::option::of((times(), 1_u64..1_000));
    let first = (any::<u64>(), any::<u32>(), rules(), (times(), leap), watermarks());
    let second = (any::<u64>(), numbers(), prop::option::of(numbers()), partitions, applied);
    (first, second).prop_map(
        |(
            (log, number, rules, (stream_time, leap), watermarks),
            (next_sequence, next_request, previous, partitions, applied),
        )| {
            Checkpoint {
                log: LogIdentity(log),
                rules_number: RulesNumber(number),
                rules,
                stream_time,
                leap: leap.map(|(from, pages)| Leap { from, pages }),
                watermarks,
                next_sequence,
                next_request: RequestOffset(next_request),
                previous: previous.map(VerdictOffset),
                partitions,
                applied,
            }
        },
    )
}

pub(super) fn verdicts() -> impl Strategy<Value = VerdictRecord> {
    let batch = (any::<u64>(), any::<u32>(), watermarks(), numbers(), prop::collection::vec(single_verdicts(), 0..12))
        .prop_map(|(log, number, watermarks, next_request, verdicts)| {
            let (log, rules) = (LogIdentity(log), RulesNumber(number));
            VerdictRecord::Verdicts(VerdictBatch {
                log,
                rules,
                watermarks,
                next_request: RequestOffset(next_request),
                verdicts,
            })
        });
    let new_rules = (any::<u64>(), any::<u32>(), rules()).prop_map(|(log, number, rules)| {
        VerdictRecord::Rules(RulesRecord { log: LogIdentity(log), number: RulesNumber(number), rules })
    });
    prop_oneof![
        3 => batch,
        1 => new_rules,
        2 => checkpoints().prop_map(|checkpoint| VerdictRecord::Checkpoint(Box::new(checkpoint))),
    ]
}
