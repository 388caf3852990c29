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
    for (engine, window) in [1_u32, 2, 9, 100, 4_092, 4_093, 9_000]
        .into_iter()
        .flat_map(|window| Backend::available().into_iter().map(move |engine| (engine, window)))
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
                assert_eq!(engine.run(Equal(&runs, run, 5, alive)), expected, "{window} at {id}");
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
fn the_next_slab_is_made_by_whoever_takes_the_chore() {
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
