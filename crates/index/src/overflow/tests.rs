use super::*;
use crate::simd::{Backend, Job};

struct All<'a>(&'a OverflowRuns, OverflowPlace, LiveWindow);
impl Job for All<'_> {
    type Output = Vec<(u32, u64)>;
    fn run<C: Compare>(self) -> Self::Output {
        let mut all = Vec::new();
        self.0.near::<C>(self.1, 0, 64, self.2, &mut |id, code| all.push((id, code)));
        all
    }
}

struct Equal<'a>(&'a OverflowRuns, OverflowPlace, u32, LiveWindow);
impl Job for Equal<'_> {
    type Output = Vec<u32>;
    fn run<C: Compare>(self) -> Vec<u32> {
        let mut equal = Vec::new();
        self.0.equal::<C>(self.1, self.2, 7, self.3, &mut |id| equal.push(id));
        equal
    }
}

#[test]
fn a_run_without_codes_shows_equal_words_and_its_dead_are_dropped_at_once() {
    for (backend, window) in [1_u32, 2, 9, 100, 4_092, 4_093, 9_000]
        .into_iter()
        .flat_map(|window| Backend::available().into_iter().map(move |backend| (backend, window)))
    {
        let mut runs = OverflowRuns::new(false);
        let mut run = runs.begin(0, 0);
        for id in 1..20_000_u32 {
            run = runs.append(run, 0, id);
            let tail = id.saturating_sub(window);
            let alive = LiveWindow { tail, live: id - tail + 1 };
            run = runs.drop_expired(run, alive, 1).unwrap();
            if id % 97 == 0 || id < 50 {
                let expected: Vec<u32> = (tail..=id).filter(|word| word % 8 == 5).collect();
                assert_eq!(backend.run(Equal(&runs, run, 5, alive)), expected, "{window} at {id}");
                assert!(runs.len(run) <= window + 1 + 4_092, "{} of {window}", runs.len(run));
                assert!(window > 4_000 || runs.len(run) == id - tail + 1, "{} of {window}", runs.len(run));
            }
        }
    }
}

#[test]
fn a_run_is_a_queue_of_any_length() {
    for window in [1_u32, 3, 4, 5, 40, 700, 1_364, 1_365, 9_000] {
        let mut runs = OverflowRuns::new(true);
        let mut run: Option<OverflowPlace> = None;
        let mut bytes = [0, 0];
        for id in 0..30_000_u32 {
            let tail = id.saturating_sub(window);
            let alive = LiveWindow { tail, live: id - tail };
            run = run.and_then(|run| runs.drop_expired(run, alive, 64));
            let code = u64::from(id) * 7;
            run = Some(match run {
                Some(run) => runs.append(run, code, id),
                None => runs.begin(code, id),
            });
            if id % 997 == 0 || id < 50 {
                let alive = LiveWindow { tail, live: id - tail + 1 };
                let expected: Vec<(u32, u64)> = (tail..=id).map(|id| (id, u64::from(id) * 7)).collect();
                assert_eq!(Backend::PORTABLE.run(All(&runs, run.unwrap(), alive)), expected);
                assert!(runs.len(run.unwrap()) as usize >= expected.len());
            }
            bytes[usize::from(id > 20_000)] = runs.memory_bytes();
        }
        assert_eq!(bytes[0], bytes[1], "window {window}");
        let last = LiveWindow { tail: 30_000 - 2, live: 2 };
        let mut run = run.unwrap();
        for _ in 0..200 {
            run = runs.drop_expired(run, last, 64).unwrap();
        }
        run = runs.shrunk(run);
        assert_eq!(Backend::PORTABLE.run(All(&runs, run, last)).len(), 2.min(window as usize + 1));
        assert_eq!(runs.drop_expired(run, LiveWindow { tail: 30_000, live: 0 }, 64), None);
        assert_eq!(runs.blocks_bytes, 0, "blocks were lost");
    }
}

#[test]
fn runs_in_many_slabs_stand_on_lines_of_their_own_and_go_a_slab_at_a_time() {
    let mut runs = OverflowRuns::new(true);
    let all: Vec<OverflowPlace> = (0..3_u32 << SLAB_BITS).map(|id| runs.begin(u64::from(id) * 7, id)).collect();
    assert_eq!(runs.memory_bytes(), 3 * LARGE_PAGE);
    for (id, run) in (0_u32..).zip(all) {
        assert_eq!((runs.code(run.head, 0, 0), runs.id(run.head, 0, 0)), (u64::from(id) * 7, id));
        assert_eq!(runs.block(run.head, 0).as_ptr().addr() % 64, 0);
    }
    let steps = (0..9).take_while(|_| !runs.discard_one()).count();
    assert_eq!((steps, runs.memory_bytes()), (2, 0));
}

#[test]
fn the_memory_of_few_runs_grows_with_them() {
    let mut runs = OverflowRuns::new(false);
    let mut all: Vec<OverflowPlace> = Vec::new();
    for units in [1, 3, 40, 1_000, 5_000_usize] {
        all.extend((all.len()..units).map(|id| runs.begin(0, u32::try_from(id).unwrap())));
        let reserved = runs.slabs.iter().map(|slab| slab.words.len()).sum::<usize>();
        assert!(reserved <= if units < 2_000 { units * 9 * UNIT } else { SLAB + UNIT }, "{reserved} words for {units}");
        for (id, run) in (0..).zip(&all) {
            assert_eq!(runs.id(run.head, 0, 0), id, "of {units}");
        }
    }
}

#[test]
fn the_next_slab_is_made_by_the_thread_that_takes_the_task() {
    let bytes = SLAB * size_of::<u64>();
    for is_done in [true, false] {
        let mut runs = OverflowRuns::new(true);
        assert!(runs.maintenance_task().is_none());
        let begun: Vec<OverflowPlace> = (0..SLAB_SOON).map(|id| runs.begin(u64::from(id), id)).collect();
        assert!(runs.memory_bytes() < bytes);
        let task = runs.maintenance_task().unwrap();
        assert!(runs.maintenance_task().is_none(), "it is under way");
        assert_eq!(runs.memory_bytes(), 2 * bytes);
        if is_done {
            task();
        } else {
            drop(task);
        }
        let more: Vec<OverflowPlace> =
            (SLAB_SOON..(1 << SLAB_BITS) + 1_000).map(|id| runs.begin(u64::from(id), id)).collect();
        assert_eq!((runs.memory_bytes(), runs.maintenance_task().is_none()), (2 * bytes, true));
        for (id, run) in (0..).zip(begun.into_iter().chain(more)).step_by(999) {
            assert_eq!(Backend::detect().run(All(&runs, run, LiveWindow { tail: id, live: 1 })), [(id, u64::from(id))]);
        }
    }
}

/// A list of entries from which any may be taken, of a few at a time or of several blocks.
#[test]
fn what_is_removed_is_gone_and_nothing_else() {
    for (with_codes, most) in [(true, 3), (true, 40), (true, 5_000), (false, 40), (false, 15_000)] {
        let mut runs = OverflowRuns::new(with_codes);
        let (mut run, mut list): (Option<OverflowPlace>, Vec<u32>) = (None, Vec::new());
        let mut bits = 1_u64;
        // Ids come round on the way.
        let first = u32::MAX - 3_000;
        for number in 0..8 * most {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let chance = usize::try_from(bits >> 33).unwrap();
            let id = first.wrapping_add(number);
            let alive = LiveWindow { tail: first, live: number + 1 };
            // First it grows, then it gets smaller until nothing is left, again and again.
            if number % (2 * most) < most || list.is_empty() {
                list.push(id);
                run = Some(match run {
                    Some(run) => runs.append(run, id.into(), id),
                    None => runs.begin(id.into(), id),
                });
            }
            let removed = if number % (2 * most) < most { chance.is_multiple_of(3).then_some(1) } else { Some(2) };
            for at in 0..removed.unwrap_or(0).min(list.len()) {
                // Any of them, or one of the first, or of the last.
                let place = [chance % list.len(), at.min(list.len() - 1), list.len() - 1][chance / 7 % 3];
                run = runs.remove(run.unwrap(), list.remove(place));
            }
            assert_eq!(run.is_none(), list.is_empty());
            run = run.map(|run| runs.remove(run, id.wrapping_add(9)).unwrap());
            if number % 997 == 0 || number < 50 {
                let mut words: Vec<u32> = Vec::new();
                if let Some(run) = run {
                    assert_eq!(runs.len(run) as usize, list.len());
                    words = if with_codes {
                        Backend::PORTABLE.run(All(&runs, run, alive)).into_iter().map(|(id, _)| id).collect()
                    } else {
                        (0..8).flat_map(|tag| Backend::PORTABLE.run(Equal(&runs, run, tag, alive))).collect()
                    };
                }
                words.sort_unstable_by_key(|id| id.wrapping_sub(first));
                assert_eq!(words, list, "{most} at {number}");
            }
        }
        for id in list {
            run = runs.remove(run.unwrap(), id);
        }
        assert_eq!((run, runs.blocks_bytes), (None, 0), "blocks were lost");
    }
}
