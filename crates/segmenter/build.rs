//! Builds the tables of `src/tables.rs` from the dictionary and the model in `data`, each an array of numbers in the byte
//! order of the target. It runs for two seconds, optimised: `Cargo.toml` of the workspace says so.

#![expect(clippy::disallowed_methods, reason = "a build script reads the environment and writes files")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::{env, fs};

use flate2::read::GzDecoder;

/// Ids that are no labels; `src/tables.rs` says what they are.
const OTHER: u16 = 0;
const INSIDE: u16 = 2;
const OUTSIDE: u16 = u16::MAX - 1;
/// The label of an empty slot.
const EMPTY: u16 = u16::MAX;

/// A slot and the id of a child differ in these bits only.
const BLOCK: usize = 1 << 14;

/// The probability that the model gives to what it does not know.
const IMPOSSIBLE: f64 = -3.14e100;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=data");
    let dictionary = read("dict_zh.txt.gz")?;
    let words = words_of(&dictionary)?;
    let model = read("hmm_zh.txt.gz")?;
    // The first state; from B, E, M and S to each; then what each emits.
    let mut lines = model.lines().filter(|line| !line.starts_with('#'));
    let mut transitions = Vec::new();
    for number in lines.by_ref().take(5).flat_map(|line| line.split(' ')) {
        transitions.push(number.parse::<f64>()?.to_bits());
    }
    write("transitions", transitions.into_iter(), 8)?;
    let emissions = emissions_of(lines)?;
    let alphabet = Alphabet::new(&words, &emissions)?;
    write("characters", alphabet.characters().iter().map(|id| u64::from(*id)), 2)?;
    let none = [IMPOSSIBLE; 4];
    let rows = alphabet.inside().map(|c| c.and_then(|c| emissions.get(&c)).unwrap_or(&none));
    write("emissions", rows.flatten().map(|number| number.to_bits()), 8)?;

    // All words count, also those that can never match within Han text.
    let total: u64 = words.iter().map(|(_, frequency)| frequency).sum();
    let log_total = as_float(total)?.ln();
    let frequencies: BTreeSet<u64> = words.iter().map(|(_, frequency)| *frequency).collect();
    let mut logs = vec![f64::NEG_INFINITY, 0.0 - log_total];
    for frequency in &frequencies {
        logs.push(as_float(*frequency)?.ln() - log_total);
    }
    write("logs", logs.iter().map(|log| log.to_bits()), 8)?;

    let numbers: BTreeMap<u64, u16> = frequencies.iter().copied().zip(2..).collect();
    let mut entries = Vec::with_capacity(words.len());
    for (word, frequency) in &words {
        if let Some(labels) = alphabet.labels(word) {
            let log = *numbers.get(frequency).ok_or("a frequency without a number")?;
            entries.push(Entry { labels, log, frequency: *frequency });
        }
    }
    entries.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
    let mut trie = Trie::new(&entries);
    let slots = trie.place();
    write("first", trie.first(alphabet.len()), 8)?;
    write("nodes", trie.slots(slots), 8)?;
    Ok(())
}

fn read(name: &str) -> Result<String, Failure> {
    let packed = fs::read(Path::new("data").join(name))?;
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes numbers of so many bytes, in the byte order of the target.
fn write(name: &str, numbers: impl Iterator<Item = u64>, bytes: usize) -> Result<(), Failure> {
    let is_big = env::var("CARGO_CFG_TARGET_ENDIAN")? == "big";
    let mut out = Vec::new();
    for number in numbers {
        let start = out.len();
        out.extend(number.to_le_bytes().iter().take(bytes));
        if is_big {
            out.get_mut(start..).unwrap_or_default().reverse();
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join(name), out)?;
    Ok(())
}

fn as_float(number: u64) -> Result<f64, Failure> {
    Ok(f64::from(u32::try_from(number)?))
}

/// The words with their frequencies: `word frequency tag` in each line.
fn words_of(dictionary: &str) -> Result<Vec<(&str, u64)>, Failure> {
    let mut words = Vec::new();
    for line in dictionary.lines() {
        let mut parts = line.split(' ');
        let (Some(word), Some(frequency)) = (parts.next(), parts.next()) else { return Err(line.into()) };
        words.push((word, frequency.parse()?));
    }
    Ok(words)
}

/// How likely each character is in each state. A line for each of B, E, M and S: `character:logarithm`, separated by
/// commas.
fn emissions_of<'m>(lines: impl Iterator<Item = &'m str>) -> Result<BTreeMap<char, [f64; 4]>, Failure> {
    let mut emissions = BTreeMap::new();
    for (state, line) in lines.enumerate() {
        for pair in line.split(',') {
            let (c, log) = pair.split_once(':').ok_or("no colon")?;
            let row = emissions.entry(c.parse::<char>()?).or_insert([IMPOSSIBLE; 4]);
            *row.get_mut(state).ok_or("a fifth state")? = log.parse()?;
        }
    }
    Ok(emissions)
}

/// Whether `jieba-rs` takes a character of the basic plane for Han (`is_cjk`); the dictionary has no others.
fn is_han_of_jieba(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff)
}

/// Whether `jieba-rs` asks its model about a character (`is_hmm_han`).
fn is_inside(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fd5}')
}

/// The ids of the characters: first those that the model covers, then the others of the dictionary, the most frequent ones
/// first. Frequent children of a node are then close to each other in the array.
struct Alphabet {
    inside: Vec<char>,
    ids: BTreeMap<char, u16>,
}

impl Alphabet {
    fn new(words: &[(&str, u64)], emissions: &BTreeMap<char, [f64; 4]>) -> Result<Self, Failure> {
        let mut counts: BTreeMap<char, u64> = emissions.keys().filter(|c| is_inside(**c)).map(|c| (*c, 0)).collect();
        for (word, frequency) in words.iter().filter(|(word, _)| word.chars().all(is_han_of_jieba)) {
            for c in word.chars() {
                *counts.entry(c).or_default() += frequency;
            }
        }
        let mut characters: Vec<(char, u64)> = counts.into_iter().collect();
        characters.sort_by_key(|(c, count)| (!is_inside(*c), std::cmp::Reverse(*count)));
        let ids: BTreeMap<char, u16> = characters.iter().map(|(c, _)| *c).zip(INSIDE + 1..).collect();
        if ids.len() + 3 > BLOCK {
            return Err("too many characters".into());
        }
        let inside = characters.iter().map(|(c, _)| *c).filter(|c| is_inside(*c)).collect();
        Ok(Self { inside, ids })
    }

    /// The number of ids, from 0.
    fn len(&self) -> usize {
        self.ids.len() + usize::from(INSIDE) + 1
    }

    /// The characters that the model covers in the order of their ids; `None` for ids of no character.
    fn inside(&self) -> impl Iterator<Item = Option<char>> {
        [None; 3].into_iter().chain(self.inside.iter().copied().map(Some))
    }

    /// The id of every character of the basic plane.
    fn characters(&self) -> Vec<u16> {
        let id = |code: u32| {
            let Some(c) = char::from_u32(code).filter(|c| is_han_of_jieba(*c)) else { return OTHER };
            let unknown = if is_inside(c) { INSIDE } else { OUTSIDE };
            self.ids.get(&c).copied().unwrap_or(unknown)
        };
        (0..0x1_0000).map(id).collect()
    }

    /// The ids of a word of Han characters.
    fn labels(&self, word: &str) -> Option<Vec<u16>> {
        word.chars().map(|c| self.ids.get(&c).copied()).collect()
    }
}

/// A word of Han characters.
struct Entry {
    labels: Vec<u16>,
    /// Number of its logarithm.
    log: u16,
    frequency: u64,
}

struct Node {
    label: u16,
    /// Number of the word's logarithm, 0 if it is none.
    log: u16,
    /// 0 for a leaf.
    base: usize,
    /// Unused for first characters.
    slot: usize,
}

/// The children of one node.
struct Family {
    /// The node.
    parent: usize,
    children: std::ops::Range<usize>,
    /// How often the words below occur.
    weight: u64,
}

/// The trie.
struct Trie {
    /// Children of a node are next to each other.
    nodes: Vec<Node>,
    /// The number of first characters: their nodes come first.
    firsts: usize,
    /// Children of all nodes but the root.
    families: Vec<Family>,
}

impl Trie {
    /// Takes the words in the order of their labels.
    fn new(entries: &[Entry]) -> Self {
        let mut trie = Self { nodes: Vec::new(), firsts: 0, families: Vec::new() };
        // Words that begin alike, how many labels they share, and the node of these.
        let mut todo = vec![(entries, 0, None)];
        while let Some((entries, depth, parent)) = todo.pop() {
            let begin = trie.nodes.len();
            let weight = entries.iter().map(|entry| entry.frequency).sum();
            for group in entries.chunk_by(|a, b| a.labels.get(depth) == b.labels.get(depth)) {
                let Some(first) = group.first() else { continue };
                let Some(label) = first.labels.get(depth).copied() else { continue };
                let is_word = first.labels.len() == depth + 1;
                let below = if is_word { group.get(1..).unwrap_or_default() } else { group };
                if !below.is_empty() {
                    todo.push((below, depth + 1, Some(trie.nodes.len())));
                }
                trie.nodes.push(Node { label, log: if is_word { first.log } else { 0 }, base: 0, slot: 0 });
            }
            match parent {
                Some(parent) => trie.families.push(Family { parent, children: begin..trie.nodes.len(), weight }),
                None => trie.firsts = trie.nodes.len(),
            }
        }
        trie
    }

    /// Finds a slot for each node but those of first characters; returns the number of slots.
    fn place(&mut self) -> usize {
        // The most frequent ones first: what is often read is then close together.
        self.families.sort_by_key(|family| std::cmp::Reverse(family.weight));
        let mut array = Slots::default();
        for family in &self.families {
            let children = self.nodes.get_mut(family.children.clone()).unwrap_or_default();
            let labels: Vec<usize> = children.iter().map(|child| usize::from(child.label)).collect();
            let base = array.place(&labels);
            for (child, label) in children.iter_mut().zip(labels) {
                child.slot = base ^ label;
            }
            if let Some(parent) = self.nodes.get_mut(family.parent) {
                parent.base = base;
            }
        }
        array.len()
    }

    /// The nodes of first characters, by id.
    fn first(&self, ids: usize) -> impl Iterator<Item = u64> {
        let mut first = vec![0; ids];
        for node in self.nodes.iter().take(self.firsts) {
            if let Some(entry) = first.get_mut(usize::from(node.label)) {
                *entry = node.packed();
            }
        }
        first.into_iter()
    }

    /// All other nodes, by slot.
    fn slots(&self, slots: usize) -> impl Iterator<Item = u64> {
        let mut array = vec![u64::from(EMPTY); slots];
        for node in self.nodes.iter().skip(self.firsts) {
            if let Some(entry) = array.get_mut(node.slot) {
                *entry = node.packed();
            }
        }
        array.into_iter()
    }
}

impl Node {
    fn packed(&self) -> u64 {
        u64::try_from(self.base).unwrap_or(0) << 32 | u64::from(self.log) << 16 | u64::from(self.label)
    }
}

/// Which slots are free.
#[derive(Default)]
struct Slots {
    /// A free slot leads to itself, a taken one towards the next free one (a forest of disjoint sets).
    next: Vec<usize>,
    is_base: Vec<bool>,
    /// Where the search for families of a size begins.
    begin: BTreeMap<usize, usize>,
}

/// A search that passes more free slots begins here next time: families of this size rarely fit before.
const PATIENCE: usize = 32;

impl Slots {
    fn len(&self) -> usize {
        self.next.len()
    }

    fn is_free(&self, slot: usize) -> bool {
        self.next.get(slot) == Some(&slot)
    }

    /// The first free slot from this one on; [`Slots::len`] if there is none.
    fn free_from(&mut self, mut slot: usize) -> usize {
        while let Some(next) = self.next.get(slot).copied() {
            if next == slot {
                break;
            }
            let after = self.next.get(next).copied().unwrap_or(next);
            if let Some(entry) = self.next.get_mut(slot) {
                *entry = after;
            }
            slot = after;
        }
        slot
    }

    /// Finds the first base for which the slots of all these children are free, takes them, and returns it. No two
    /// nodes have one base, so the label in a slot tells whose child is there; none has base 0, that of a leaf.
    fn place(&mut self, labels: &[usize]) -> usize {
        let Some((first, others)) = labels.split_first() else { return 0 };
        let begin = self.begin.get(&labels.len()).copied().unwrap_or(0);
        let (mut slot, mut passed) = (self.free_from(begin), 0);
        loop {
            if slot >= self.len() {
                self.grow();
            }
            let base = slot ^ first;
            if self.is_base.get(base) == Some(&false) && others.iter().all(|label| self.is_free(base ^ label)) {
                for label in labels {
                    if let Some(next) = self.next.get_mut(base ^ label) {
                        *next += 1;
                    }
                }
                if let Some(is_base) = self.is_base.get_mut(base) {
                    *is_base = true;
                }
                if passed > PATIENCE {
                    self.begin.insert(labels.len(), slot);
                }
                return base;
            }
            slot = self.free_from(slot + 1);
            passed += 1;
        }
    }

    fn grow(&mut self) {
        let len = self.len();
        self.next.extend(len..len + BLOCK);
        self.is_base.resize(len + BLOCK, false);
        if let Some(leaf) = self.is_base.first_mut() {
            *leaf = true;
        }
    }
}
