use proptest::prelude::*;

use super::*;

struct HammingIndex<'a>(&'a Line, u32, u32, LiveWindow);
impl Job for HammingIndex<'_> {
    type Output = [u32; 3];
    fn run<C: Compare>(self) -> Self::Output {
        let Self(line, tag, reach, window) = self;
        let mask = (1 << reach) - 1;
        [C::near(line, tag, reach, window), C::equal(line, tag, mask, window), C::alive(line, window)]
    }
}

struct Put<'a>(&'a Line, u32, u32, u32);
impl Job for Put<'_> {
    type Output = Line;
    fn run<C: Compare>(self) -> Self::Output {
        let Self(line, slot, tag, id) = self;
        let mut line = *line;
        C::put(&mut line, slot, tag, id);
        line
    }
}

struct Eight<'a>(&'a [u64; 8], u64, u32, LiveWindow);
impl Job for Eight<'_> {
    type Output = [u32; 2];
    fn run<C: Compare>(self) -> Self::Output {
        let Self(codes, code, reach, window) = self;
        [C::eight(codes, code, reach), C::sixteen(codes, reach, (1 << reach) - 1, window)]
    }
}

proptest! {
    #[test]
    fn wide_and_portable_lines_are_written_alike(line in any::<Line>(), tag in 0..1_u32 << 24, id in any::<u32>()) {
        for slot in 0..9 {
            let portable = Backend::PORTABLE.run(Put(&line, slot, tag, id));
            prop_assert_eq!(tags(&portable)[slot as usize], tag);
            for backend in Backend::available() {
                prop_assert_eq!(backend.run(Put(&line, slot, tag, id)), portable, "{}", backend.name());
            }
        }
    }

    #[test]
    fn wide_and_portable_comparisons_agree(
        line in any::<Line>(), slot in 0..9_usize, flips in any::<u32>(), reach in 0..9_u32,
        tail in any::<u32>(), live in any::<u32>(), codes in any::<[u64; 8]>(), other in any::<u64>(),
    ) {
        // Near the tag of a slot, or nowhere near.
        let window = LiveWindow { tail, live };
        for tag in [tags(&line)[slot] ^ (flips & flips.rotate_left(9) & 0x00FF_FFFF), flips & 0x00FF_FFFF] {
            let portable = Backend::PORTABLE.run(HammingIndex(&line, tag, reach, window));
            for backend in Backend::available() {
                prop_assert_eq!(backend.run(HammingIndex(&line, tag, reach, window)), portable, "{}", backend.name());
            }
        }
        for code in [codes[slot % 8] ^ (other & other.rotate_left(7) & other.rotate_left(31)), other] {
            let portable = Backend::PORTABLE.run(Eight(&codes, code, reach, window));
            for backend in Backend::available() {
                prop_assert_eq!(backend.run(Eight(&codes, code, reach, window)), portable, "{}", backend.name());
            }
        }
    }
}

#[test]
fn what_is_given_back_is_zeros_and_can_be_used_again() {
    let mut bytes = vec![7_u8; 1 << 20];
    let (kept, given) = bytes.split_at_mut(100_000);
    give_back(given);
    assert!(kept.iter().all(|byte| *byte == 7));
    if cfg!(all(target_os = "linux", not(miri))) {
        let page = rustix::param::page_size();
        let pages = given.chunk_by(|one, next| one == next).map(|same| (same.len(), same[0]));
        let (zeros, others): (Vec<_>, Vec<_>) = pages.partition(|(_, byte)| *byte == 0);
        assert!(matches!(zeros[..], [(length, _)] if length.is_multiple_of(page)), "{zeros:?}");
        assert!(others.iter().all(|(length, byte)| *length < page && *byte == 7), "{others:?}");
    }
    given.fill(9);
    assert!(given.iter().all(|byte| *byte == 9));
    give_back(&mut []);
}
