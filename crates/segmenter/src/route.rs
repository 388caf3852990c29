//! The most likely way to cut a text into words of the dictionary.

use std::hint::select_unpredictable;

use crate::tables::{LONE, Node, unknown};

/// How many of the next positions are remembered. The longest word has 16 characters.
const KEPT: usize = 32;

/// How likely the text is from a position on, for the next positions.
struct Ahead([f64; KEPT]);

impl Ahead {
    #[inline]
    fn get(&self, position: usize) -> f64 {
        self.0.get(position % KEPT).copied().unwrap_or(0.0)
    }

    #[inline]
    fn set(&mut self, position: usize, log: f64) {
        if let Some(entry) = self.0.get_mut(position % KEPT) {
            *entry = log;
        }
    }
}

/// Writes for each character how long the best word is that begins there. `pairs` and `triples` are the nodes of the
/// two and three characters from each one on.
///
/// As in `jieba-rs`: from the end to the beginning, so that sums are rounded alike; of equally likely words the longest
/// one; a character that begins no word is as likely as a word that occurs once; a block ends at characters that are not
/// Han, and at lone ones.
///
/// Words of up to three characters are compared without branches: which one wins is hard to guess. Few positions have
/// longer ones.
pub(crate) fn find(ids: &[u16], pairs: &[Node], triples: &[Node], lengths: &mut [u8]) {
    let mut ahead = Ahead([0.0; KEPT]);
    // How likely the text is from each of the next three characters on.
    let (mut after_one, mut after_two, mut after_three) = (0.0, 0.0, 0.0);
    let positions = ids.iter().zip(pairs).zip(triples).zip(lengths).enumerate().rev();
    for (position, (((id, pair), triple), length)) in positions {
        let one = Node::first(*id).log() + after_one;
        let two = pair.log() + after_two;
        let three = triple.log() + after_three;
        *length = 1 + u8::from(two >= one);
        let mut best = if two > one { two } else { one };
        *length = select_unpredictable(three >= best, 3, *length);
        best = if three > best { three } else { best };
        if triple.leads_on() {
            let mut node = *triple;
            for (characters, id) in (4..).zip(ids.get(position + 3..).unwrap_or_default()) {
                node = node.child(*id);
                let longer = node.log() + ahead.get(position + usize::from(characters));
                if longer >= best {
                    (best, *length) = (longer, characters);
                }
                if !node.leads_on() {
                    break;
                }
            }
        }
        if best == f64::NEG_INFINITY {
            *length = 1;
            best = if *id <= LONE { 0.0 } else { unknown() + after_one };
        }
        ahead.set(position, best);
        (after_one, after_two, after_three) = (best, after_one, after_two);
    }
}
