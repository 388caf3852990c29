//! The dictionary and the model as arrays that the build script writes, read in place.
//!
//! A node of the trie is one number: the label of the edge to it (16 bits), the number of its word's logarithm (16 bits,
//! [`NO_WORD`] if it is none), and its base (32 bits, 0 for a leaf). Its child by a label is in the slot `base ^ label`,
//! if that slot has this label: no two nodes have one base (Aoe 1989, with XOR as in Darts-clone).

use zerocopy::transmute;

/// A stretch of other text.
pub(crate) const OTHER: u16 = 0;
/// A Han character that jieba takes for punctuation.
pub(crate) const LONE: u16 = 1;
/// A Han character that neither the dictionary nor the model knows, beyond the characters that the model covers.
const OUTSIDE: u16 = u16::MAX - 1;

/// Of no word.
const NO_WORD: usize = 0;
/// Of a character that begins no word.
const UNKNOWN: usize = 1;

macro_rules! table {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

/// The id of each character of the basic plane: [`OTHER`] unless it is Han.
static CHARACTERS: [u16; table!("characters").len() / 2] = transmute!(*table!("characters"));
/// The node of each first character, by id.
static FIRST: [u64; table!("first").len() / 8] = transmute!(*table!("first"));
/// All other nodes, by slot.
static NODES: [u64; table!("nodes").len() / 8] = transmute!(*table!("nodes"));
/// Logarithms of relative frequencies; that of [`NO_WORD`] is negative infinity.
static LOGS: [f64; table!("logs").len() / 8] = transmute!(*table!("logs"));
/// Logarithms of the model: of the first character's state (B, E, M or S), and from B, from E, from M and from S to each.
pub(crate) const TRANSITIONS: [[f64; 4]; table!("transitions").len() / 32] = transmute!(*table!("transitions"));
/// How likely each character is in the states B, E, M and S, by id; only characters that the model covers have a row.
static EMISSIONS: [[f64; 4]; table!("emissions").len() / 32] = transmute!(*table!("emissions"));

/// Returns the id of a character.
#[inline]
pub(crate) fn id_of(c: char) -> u16 {
    let code = u32::from(c);
    match usize::try_from(code).ok().and_then(|code| CHARACTERS.get(code)) {
        Some(id) => *id,
        None => match code {
            // What jieba 0.11 takes for Han.
            0x2_0000..=0x2_a6df | 0x2_a700..=0x2_ebef | 0x2_f800..=0x2_fa1f => OUTSIDE,
            0x2_0000..=0x3_23af => LONE,
            _ => OTHER,
        },
    }
}

/// A node of the trie, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node(u64);

impl Node {
    /// The node of a first character.
    #[inline]
    pub(crate) fn first(id: u16) -> Self {
        Self(FIRST.get(usize::from(id)).copied().unwrap_or(0))
    }

    /// The child by a character, if there is one.
    #[inline]
    pub(crate) fn child(self, id: u16) -> Self {
        let slot = usize::try_from((self.0 >> 32) ^ u64::from(id)).unwrap_or(usize::MAX);
        let node = NODES.get(slot).copied().unwrap_or(0);
        // Without a branch: half of all pairs are in the trie, so the processor would often guess wrong.
        let is_child = node & 0xffff == u64::from(id);
        Self(node & u64::from(is_child).wrapping_neg())
    }

    /// Whether it has children.
    #[inline]
    pub(crate) const fn leads_on(self) -> bool {
        self.0 >> 32 != 0
    }

    /// Whether it is the end of a word.
    #[inline]
    pub(crate) fn is_word(self) -> bool {
        self.number() != NO_WORD
    }

    #[inline]
    fn number(self) -> usize {
        usize::try_from(self.0 >> 16 & 0xffff).unwrap_or(NO_WORD)
    }

    /// The logarithm of the word's relative frequency; negative infinity if this is none.
    #[inline]
    pub(crate) fn log(self) -> f64 {
        LOGS.get(self.number()).copied().unwrap_or(f64::NEG_INFINITY)
    }
}

/// The logarithm of a character with which no word begins.
#[inline]
pub(crate) fn unknown() -> f64 {
    LOGS.get(UNKNOWN).copied().unwrap_or(f64::NEG_INFINITY)
}

/// How likely a character is in the states B, E, M and S; `None` if the model does not cover it.
#[inline]
pub(crate) fn emissions(id: u16) -> Option<&'static [f64; 4]> {
    EMISSIONS.get(usize::from(id))
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    fn hash(numbers: impl IntoIterator<Item = f64>) -> u64 {
        xxh3_64(&numbers.into_iter().flat_map(|number| number.to_bits().to_le_bytes()).collect::<Vec<u8>>())
    }

    /// Another mathematical library could round a logarithm differently, and cut another word.
    #[test]
    fn the_numbers_are_the_same_wherever_they_are_computed() {
        assert_eq!(LOGS.len(), 5089);
        let model = TRANSITIONS.iter().chain(&EMISSIONS).flatten().copied();
        assert_eq!([hash(LOGS), hash(model)], [0xc42d_df0d_6c7f_e2d2, 0x0cf3_744b_608b_0dfe]);
    }

    #[test]
    fn nodes_lead_from_character_to_character() {
        let [first, second, third] = ['天', '安', '门'].map(id_of);
        let pair = Node::first(first).child(second);
        assert!(pair.leads_on());
        let word = pair.child(third);
        assert!(word.is_word() && word.log() > Node::first(id_of('囧')).log());
        assert!(!word.child(third).is_word(), "no word of four characters");
        assert!(!Node::first(OTHER).child(first).leads_on());
        assert!(!Node::default().child(OTHER).is_word());
    }
}
