//! Texts -> a stream of originals and edited copies.

use super::Edit;
use crate::crawl::Rng;

/// How a stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantSettings {
    /// Chooses one of many streams from the same texts.
    pub seed: u64,
    /// Edited copies of each text. The kinds of edits come in turn.
    pub copies: usize,
}

/// Which of the texts are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Half {
    /// Every second one, from the first: to choose settings by.
    Tune,
    /// The others: to report results on.
    #[default]
    Report,
    /// All.
    Both,
}

impl Half {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Tune, Self::Report, Self::Both];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tune => "tune",
            Self::Report => "report",
            Self::Both => "both",
        }
    }

    /// Returns whether the text of this number, from 0, is in this half.
    #[must_use]
    pub const fn has(self, number: usize) -> bool {
        match self {
            Self::Tune => number.is_multiple_of(2),
            Self::Report => !number.is_multiple_of(2),
            Self::Both => true,
        }
    }
}

/// What a planted page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A text as it came: like no other.
    Original,
    /// A duplicate, made by this edit.
    Copy(Edit),
    /// Made by an edit that does not leave a duplicate; at the end of the stream, and counted on its own.
    Apart(Edit),
}

/// One page of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Number of the text that it was made of: equal for original and copies.
    pub family: usize,
    /// What it is.
    pub role: Role,
    /// Number of the second text in it, if it holds one that is the text of an original, too.
    pub also: Option<usize>,
    /// Its text.
    pub text: String,
}

/// Plants copies of all texts: originals and copies mixed, each copy somewhere after its original.
#[must_use]
pub fn plant(texts: &[String], settings: PlantSettings) -> Vec<Planted> {
    let mut stream: Vec<(u64, Planted)> = Vec::new();
    let mut apart = Vec::new();
    for (family, text) in texts.iter().enumerate() {
        let mut rng = Rng::of(settings.seed, family as u64, 1);
        let stranger = (family + texts.len() / 2) % texts.len();
        let strange = texts.get(stranger).map_or("", String::as_str);
        let place = rng.bits() >> 1;
        stream.push((place, Planted { family, role: Role::Original, also: None, text: text.clone() }));
        for copy in 0..settings.copies {
            let turn = family * settings.copies + copy;
            let wanted = Edit::DUPLICATES.get(turn % Edit::DUPLICATES.len()).copied().unwrap_or(Edit::HeadAndFoot);
            // What this text does not allow leaves the turn empty.
            if let Some(text) = wanted.apply(text, strange, &mut rng) {
                let later = place + 1 + rng.bits() % (u64::MAX - place);
                stream.push((later, Planted { family, role: Role::Copy(wanted), also: None, text }));
            }
        }
        for (wanted, turn) in
            [(Edit::DigitsChanged, 0), (Edit::Joined, 5), (Edit::DatesChanged, 2), (Edit::DatesChanged, 7)]
        {
            if family % 10 == turn
                && let Some(text) = wanted.apply(text, strange, &mut rng)
            {
                let also = (wanted == Edit::Joined).then_some(stranger);
                apart.push(Planted { family, role: Role::Apart(wanted), also, text });
            }
        }
    }
    stream.sort_by_key(|(place, _)| *place);
    stream.into_iter().map(|(_, page)| page).chain(apart).collect()
}

/// Plants pages that hold two texts of which only one was seen before: every second text as an original, and after all
/// of them one page for each, in which a text that is in no other comes before it or after it.
#[must_use]
pub fn plant_joined(texts: &[String]) -> Vec<Planted> {
    let (pairs, _) = texts.as_chunks::<2>();
    let known = pairs.iter().enumerate().map(|(family, [known, _])| Planted {
        family,
        role: Role::Original,
        also: None,
        text: known.clone(),
    });
    let joined = pairs.iter().enumerate().map(|(family, [known, new])| {
        let [first, second] = if family.is_multiple_of(2) { [known, new] } else { [new, known] };
        let text = format!("{first}\n{second}");
        Planted { family, role: Role::Apart(Edit::Joined), also: None, text }
    });
    known.chain(joined).collect()
}
