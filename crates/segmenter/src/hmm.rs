//! Words that the dictionary does not have: the most likely states of a run of characters (Viterbi 1967), of which each
//! begins (B), ends (E) or continues (M) a word, or is one (S).
//!
//! Sums are added in the order of `jieba-rs`, and of two equal ones the second wins, so that rounding gives the same words.

use crate::tables::{TRANSITIONS, emissions};

const B_TO_E: f64 = TRANSITIONS[1][1];
const B_TO_M: f64 = TRANSITIONS[1][2];
const E_TO_B: f64 = TRANSITIONS[2][0];
const E_TO_S: f64 = TRANSITIONS[2][3];
const M_TO_E: f64 = TRANSITIONS[3][1];
const M_TO_M: f64 = TRANSITIONS[3][2];
const S_TO_B: f64 = TRANSITIONS[4][0];
const S_TO_S: f64 = TRANSITIONS[4][3];

/// How likely the best way to each state is.
type Scores = [f64; 4];

/// The better one of two ways, and whether it is the second.
#[inline]
fn better(first: f64, second: f64) -> (f64, bool) {
    if first > second { (first, false) } else { (second, true) }
}

/// The scores of the first character.
#[inline]
fn start(row: &Scores) -> Scores {
    let [b, e, m, s] = TRANSITIONS[0];
    let [row_b, row_e, row_m, row_s] = row;
    [b + row_b, e + row_e, m + row_m, s + row_s]
}

/// The best ways to E (from B or M) and to S (from E or S).
#[inline]
fn ends([b, e, m, s]: &Scores, row: &Scores) -> [(f64, bool); 2] {
    let [_, row_e, _, row_s] = row;
    [better(b + B_TO_E + row_e, m + M_TO_E + row_e), better(e + E_TO_S + row_s, s + S_TO_S + row_s)]
}

/// The best ways to B (from E or S) and to M (from B or M).
#[inline]
fn opens([b, e, m, s]: &Scores, row: &Scores) -> [(f64, bool); 2] {
    let [row_b, _, row_m, _] = row;
    [better(e + E_TO_B + row_b, s + S_TO_B + row_b), better(b + B_TO_M + row_m, m + M_TO_M + row_m)]
}

/// Whether two characters that the model covers are one word.
#[inline]
fn is_pair(first: &Scores, second: &Scores) -> bool {
    let [(e, _), (s, _)] = ends(&start(first), second);
    e > s
}

/// For each state of a character, whether the best way to it is through the second one of the two that can precede it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    b: bool,
    e: bool,
    m: bool,
    s: bool,
}

#[derive(Clone, Copy)]
enum State {
    B,
    E,
    M,
    S,
}

/// Passes the lengths of the words of a run to `each`. What the model does not cover is one word, however long.
#[inline]
pub(crate) fn cut(ids: &[u16], steps: &mut Vec<Step>, mut each: impl FnMut(usize)) {
    if let [first, second] = ids
        && let (Some(first), Some(second)) = (emissions(*first), emissions(*second))
    {
        if is_pair(first, second) {
            each(2);
        } else {
            each(1);
            each(1);
        }
        return;
    }
    for part in ids.chunk_by(|a, b| emissions(*a).is_some() == emissions(*b).is_some()) {
        if part.len() == 1 || part.first().is_some_and(|id| emissions(*id).is_none()) {
            each(part.len());
        } else {
            viterbi(part, steps, &mut each);
        }
    }
}

/// Cuts two or more characters that the model covers.
fn viterbi(ids: &[u16], steps: &mut Vec<Step>, each: &mut impl FnMut(usize)) {
    let mut rows = ids.iter().filter_map(|id| emissions(*id));
    let Some(first) = rows.next() else { return };
    let mut scores = start(first);
    steps.clear();
    for row in rows {
        let [b, m] = opens(&scores, row);
        let [e, s] = ends(&scores, row);
        steps.push(Step { b: b.1, e: e.1, m: m.1, s: s.1 });
        scores = [b.0, e.0, m.0, s.0];
    }
    let [_, e, _, s] = scores;
    let mut state = if e > s { State::E } else { State::S };
    // Backwards, each step becomes whether a word ends before its character.
    for step in steps.iter_mut().rev() {
        state = match (state, *step) {
            (State::B, Step { b: true, .. }) | (State::S, Step { s: true, .. }) => State::S,
            (State::B | State::S, _) => State::E,
            (State::E, Step { e: true, .. }) | (State::M, Step { m: true, .. }) => State::M,
            (State::E | State::M, _) => State::B,
        };
        step.b = matches!(state, State::E | State::S);
    }
    let mut length = 1;
    for step in steps.iter() {
        if step.b {
            each(length);
            length = 0;
        }
        length += 1;
    }
    each(length);
}
