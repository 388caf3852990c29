//! Whatever is pushed, expired and asked in whatever order: the window answers as a list and two loops do.
#![no_main]

use dupgate_index::{Backend, Codeword, HammingIndex, Plan, Width};
use libfuzzer_sys::fuzz_target;

/// Few codes near each other, so that lines fill, run over and empty again.
fn code(one: u8, other: u8, width: Width) -> u128 {
    let centre = [0, u128::MAX, 0x0123_4567_89AB_CDEF << 32, 1 << 127 | 1 << 63 | 1][usize::from(one & 3)];
    let centre = centre ^ (1 << (one >> 2)) ^ (1 << (other & 63)) ^ (u128::from(other >> 6) << 30);
    // The upper word differs where the lower one does, or alone.
    let code = if other & 32 == 0 { centre } else { centre ^ u128::from(one & 28) << 90 };
    code & (u128::MAX >> (128 - width.bits()))
}

/// How a window begins: which plan, which engine, which position.
struct Start {
    width: Width,
    distance: u8,
    which: usize,
    engine: Backend,
    first: u64,
}

fn drive<W: Codeword>(start: &Start, make: impl Fn(u128) -> W, steps: &[u8]) {
    let &Start { width, distance, which, engine, first } = start;
    let plans = Plan::all(width, distance);
    let mut near: HammingIndex<W> = HammingIndex::starting_at(plans[which % plans.len()].clone(), 50, engine, first);
    let mut list: Vec<Option<u128>> = Vec::new();
    let mut tail = 0;
    for step in steps.chunks_exact(3) {
        let (kind, code) = (step[0], code(step[1], step[2], width));
        match kind % 8 {
            // Most steps add, some of them many of a kind.
            0..=3 => {
                for _ in 0..=kind >> 5 {
                    let code = (kind % 8 != 3).then_some(code);
                    assert_eq!(near.push(code.map(&make)), first + list.len() as u64);
                    list.push(code);
                }
            }
            4 => {
                tail = list.len().min(tail + usize::from(kind >> 3));
                near.expire_to(first + tail as u64);
            }
            5 if kind > 250 => {
                tail = list.len();
                near.expire_to(first + tail as u64);
            }
            6 if kind > 240 => near.set_plan(plans[usize::from(step[1]) % plans.len()].clone()),
            _ => {
                let reach = if kind >> 4 == 15 { step[2] % 12 } else { distance };
                let mut expected = Vec::new();
                for (at, held) in list.iter().enumerate().skip(tail) {
                    let bits = held.map_or(128, |held| (held ^ code).count_ones());
                    if bits <= u32::from(reach) {
                        expected.push((first + at as u64, bits as u8));
                    }
                }
                let mut found = Vec::new();
                near.probe(make(code), reach, |position, bits| found.push((position, bits)));
                found.sort_unstable();
                assert_eq!(found, expected);
                let best = expected.iter().map(|&(position, bits)| (bits, position)).min();
                assert_eq!(near.nearest(make(code), reach), best);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[distance, which, start, engine], steps)) = bytes.split_first_chunk::<4>() else { return };
    let start = Start {
        width: Width::ALL[usize::from(engine / 2) % 3],
        distance: distance % 9,
        which: usize::from(which),
        engine: if engine % 2 == 0 { Backend::PORTABLE } else { Backend::detect() },
        // Often just before ids come round.
        first: if start == 0 { 0 } else { (1 << 32) - u64::from(start) },
    };
    match start.width {
        Width::B32 | Width::B64 => drive(&start, |code| code as u64, steps),
        Width::B128 => drive(&start, |code| code, steps),
    }
});
