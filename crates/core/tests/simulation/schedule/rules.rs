//! The rules of an instance, by chance.

use std::time::Duration;

use dupgate_core::fingerprint::{Banding, LowConfidence, PerMille, SameSite, SketchForm, SlotBits};
use dupgate_core::protocol::{MinHashRules, PerStage, Rules, SameId, Stage};
use dupgate_testkit::rng::Rng;

const WINDOW: u64 = 8;
const LATENESS: u64 = 4;

/// Rules for the sketches of the pages: five bands of three of their sixteen slots.
fn minhash(
    min_shared_bands: u8,
    min_similarity: PerMille,
    containment: Option<PerMille>,
    low_confidence: LowConfidence,
) -> MinHashRules {
    let form = SketchForm::new(16, SlotBits::B8).unwrap().with_count();
    let banding = Banding::new(5, 3, form).unwrap();
    MinHashRules {
        form,
        banding,
        min_shared_bands,
        one_band_below: 0,
        min_similarity,
        containment,
        low_confidence,
        max_bucket: 0,
    }
}

pub(super) fn rules(rng: &mut Rng, plain: bool) -> Rules {
    let ms = Duration::from_millis;
    if plain {
        return Rules {
            stages: Stage::ALL.to_vec(),
            max_distance: 1,
            windows: PerStage::all(ms(WINDOW)),
            lateness: ms(LATENESS),
            max_future_skew: ms(3),
            max_entries: 50,
            same_id: SameId::Update,
            minhash: None,
            number_guard: Some(PerMille(500)),
            simhash_similarity: None,
            same_site: None,
            dual: None,
        };
    }
    Rules {
        stages: rng
            .pick(&[&Stage::ALL[..], &Stage::ALL, &[Stage::Exact], &[Stage::SimHash], &[Stage::Exact, Stage::MinHash]])
            .to_vec(),
        max_distance: rng.pick(&[1, 1, 0, 2]),
        windows: PerStage {
            exact: ms(rng.pick(&[WINDOW, WINDOW, 4])),
            simhash: ms(rng.pick(&[WINDOW, WINDOW, 4, 12])),
            minhash: ms(rng.pick(&[WINDOW, WINDOW, 5])),
        },
        lateness: ms(rng.pick(&[LATENESS, 2])),
        max_future_skew: ms(3),
        max_entries: rng.pick(&[50, 6, 3]),
        same_id: rng.pick(&[SameId::Update, SameId::Update, SameId::Duplicate]),
        minhash: Some(minhash(
            rng.pick(&[1, 2]),
            rng.pick(&[300, 600, 800].map(PerMille)),
            rng.pick(&[None, Some(PerMille(600)), Some(PerMille(950))]),
            rng.pick(&[
                LowConfidence::DISABLED,
                LowConfidence { below: PerMille(850), containment: PerMille(900), ..LowConfidence::DISABLED },
            ]),
        )),
        number_guard: rng.pick(&[None, Some(PerMille(500)), Some(PerMille(700))]),
        simhash_similarity: None,
        same_site: None,
        dual: None,
    }
}

/// Rules by which keys are full and families have members before long, and sites count. They are drawn from a copy of
/// the stream of chance, so that all else in the world is as it would be.
pub(super) fn crowded(rng: &Rng) -> Rules {
    let mut rng = Rng::new(rng.clone().next());
    let rules = rules(&mut rng, false);
    let max_bucket = rng.pick(&[1, 2, 3]);
    let one_band_below = rng.pick(&[0, 24]);
    Rules {
        minhash: rules.minhash.map(|minhash| MinHashRules { max_bucket, one_band_below, ..minhash }),
        same_site: rng.pick(&[None, Some(SameSite { containment: PerMille(900) })]),
        simhash_similarity: rng.pick(&[None, Some(PerMille(300))]),
        ..rules
    }
}

/// How long originals are kept by these rules.
pub(super) fn kept(rules: &Rules) -> Duration {
    rules.windows.max() + rules.lateness
}
