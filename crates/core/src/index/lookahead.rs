//! Looks up the pages that come next on another thread, while the pages before them are judged.
//!
//! The tables of bands take the most time of a page: each of its keys leads to a random cache line. So another thread may
//! take them ([`Lookups`]), look up and insert some pages, and give everything back. A page is inserted before it is known
//! whether it becomes an original, so that the pages after it find it, and is removed if it does not. By the time of a
//! page's turn, the pages before it are judged, and what was found is complete. Whoever compares the originals found
//! counts the shared keys again, so no verdict depends on any of this.
//!
//! An original whose page was not looked up is missing from what was found. It makes all of that stale, and the pages
//! after it are looked up when it is their turn.

use std::collections::VecDeque;
use std::ops::Range;

use super::entries::Entries;
use super::ring::in_scope;
use crate::fingerprint::{ExactHash, Fingerprints, ScopeHash, Sketch};
use crate::protocol::{MinHashRules, PageRequest, Placement, Request, RequestId};
use dupgate_index::{ExactTags, Keys, TableStats, Tables, Task};

/// The most pages that are looked up at once. As many may wait for their turn meanwhile. Where other threads need the
/// cores as well, both sides are held up for milliseconds, and the other one has to have enough to do.
const MAX_PAGES: usize = 2_048;

/// How many requests [`super::Index::begin_lookups`] should see ahead.
pub const REQUESTS_AHEAD: usize = 2 * MAX_PAGES;

/// The fewest. Handing the tables over takes about as long as looking up some pages.
const MIN_PAGES: usize = 64;

/// How many pages ahead of its turn the lines of a page are prefetched.
const PREFETCH_DISTANCE: usize = 8;

/// For how many pages nothing is looked up ahead after what was found became stale: at first, and at most if that goes on.
const MIN_PAUSE: u64 = 1 << 12;
const MAX_PAUSE: u64 = 1 << 20;

/// After so many lookups in a row, the next pause is a first one again.
const UNDISTURBED: u32 = 4;

/// The tables of bands, unless another thread has them, and what was looked up in them ahead.
#[derive(Debug)]
pub(super) struct Lookahead {
    rules: MinHashRules,
    tables: Option<Tables<ExactTags>>,
    /// Of these tables. Lookups in earlier ones count for nothing.
    generation: u64,
    entries: Entries,
    /// The pages that were looked up and are not judged yet. Their numbers are consecutive.
    found: VecDeque<Found>,
    /// The numbers of the pages that another thread looked up last, or looks up now.
    handed_over: Range<u64>,
    /// Whether originals are missing from what the other thread finds.
    is_stale: bool,
    /// Whether the tables came back, and no further lookups were begun since.
    is_back: bool,
    last: Option<RequestId>,
    /// What is to be inserted when the tables come back.
    waiting: Vec<Keyed>,
    /// What is to be removed.
    removed: Vec<Removed>,
    /// Inserts since the tables could be resized.
    inserts: u64,
    pause: Pause,
    /// Statistics and memory of the tables when the other thread took them.
    stats: (Vec<TableStats>, usize),
}

/// The pages after stale lookups for which nothing is looked up ahead.
#[derive(Debug)]
struct Pause {
    left: u64,
    next: u64,
    /// Lookups that were not stale since it began.
    lookups: u32,
}

impl Default for Pause {
    fn default() -> Self {
        Self { left: 0, next: MIN_PAUSE, lookups: 0 }
    }
}

impl Pause {
    /// Begins it, twice as long as the last one unless lookups have gone well since.
    fn begin(&mut self) {
        let is_first = std::mem::take(&mut self.lookups) >= UNDISTURBED;
        self.left = if is_first { MIN_PAUSE } else { self.next };
        self.next = (self.left * 2).min(MAX_PAUSE);
    }

    const fn note_lookups(&mut self) {
        self.lookups += 1;
    }

    /// Counts a page. Returns whether it is after the pause.
    const fn is_over(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }
}

#[derive(Debug)]
struct Page {
    request: RequestId,
    number: u64,
    exact: ExactHash,
    /// Absent if it has none of the form in use.
    sketch: Option<Sketch>,
    scope: Option<ScopeHash>,
}

/// What a page finds, by numbers of originals or pages before it, oldest first.
#[derive(Debug)]
pub(super) struct Found {
    page: Page,
    shared: Vec<u64>,
    /// The bands in which it may find the maximum number of originals, and what it finds there.
    crowded: Vec<(usize, Vec<u64>)>,
}

/// The keys under which an original is inserted or removed.
#[derive(Debug)]
struct Keyed {
    number: u64,
    keys: Vec<Option<u64>>,
}

/// What leaves the tables.
#[derive(Debug)]
enum Removed {
    Original(Keyed),
    /// A page that became no original, or one that the tables of some bands do not hold. The bands are those of
    /// [`Placement::skipped`].
    Page(Page, u128),
}

impl Removed {
    fn keyed(self, rules: &MinHashRules) -> Keyed {
        match self {
            Self::Original(keyed) => keyed,
            Self::Page(page, skipped) => {
                let placement = Placement { skipped, ..Placement::EVERYWHERE };
                let keys = page.keys(rules).enumerate().map(|(band, key)| Some(key).filter(|_| !placement.holds(band)));
                Keyed { number: page.number, keys: keys.collect() }
            }
        }
    }
}

impl Keys for Keyed {
    fn key(&self, table: usize, number: u64) -> Option<u64> {
        self.keys.get(table).copied().flatten().filter(|_| number == self.number)
    }
}

/// The keys of all that is in the tables; `K` knows those of originals, by their positions.
struct EntryKeys<'a, K> {
    rules: &'a MinHashRules,
    entries: &'a Entries,
    found: &'a VecDeque<Found>,
    originals: &'a K,
}

impl<K: Keys> Keys for EntryKeys<'_, K> {
    fn key(&self, table: usize, number: u64) -> Option<u64> {
        match self.found.front().and_then(|first| number.checked_sub(first.page.number)) {
            Some(at) => self.found.get(usize::try_from(at).ok()?)?.page.key(self.rules, table),
            None => self.originals.key(table, self.entries.position(number)?),
        }
    }

    fn keys(&self, table: usize, numbers: Range<u64>, mut take: impl FnMut(Option<u64>)) {
        let judged =
            self.found.front().map_or(numbers.end, |first| first.page.number).clamp(numbers.start, numbers.end);
        self.entries.runs(numbers.start..judged, |run| match run {
            Some(positions) => self.originals.keys(table, positions, &mut take),
            None => take(None),
        });
        (judged..numbers.end).map(|number| self.key(table, number)).for_each(take);
    }
}

impl Page {
    fn keys(&self, rules: &MinHashRules) -> impl Iterator<Item = u64> {
        let sketch = self.sketch.as_deref().unwrap_or_default();
        let all = rules.banding.keys(rules.form, sketch).map(|key| in_scope(key, self.scope));
        all.take(if self.sketch.is_some() { usize::MAX } else { 0 })
    }

    fn key(&self, rules: &MinHashRules, band: usize) -> Option<u64> {
        let sketch = self.sketch.as_ref()?;
        Some(in_scope(rules.banding.key(rules.form, sketch, band), self.scope))
    }
}

/// Pages that can be looked up on another thread: see [`super::Index::begin_lookups`].
#[derive(Debug)]
pub struct Lookups {
    tables: Tables<ExactTags>,
    rules: MinHashRules,
    generation: u64,
    removed: Vec<Removed>,
    found: Vec<Found>,
    /// The number of the oldest original.
    first: u64,
}

/// Pages that were looked up: see [`super::Index::end_lookups`].
#[derive(Debug)]
pub struct LookedUp {
    tables: Tables<ExactTags>,
    generation: u64,
    found: Vec<Found>,
}

impl Lookups {
    /// Looks the pages up, and inserts them.
    #[must_use]
    pub fn run(self) -> LookedUp {
        let Self { mut tables, rules, generation, removed, mut found, first } = self;
        let end = found.first().map_or(first, |found| found.page.number);
        remove_all(&mut tables, &rules, removed, &(first..end));
        // The keys of the pages whose lines are prefetched.
        let mut ahead: VecDeque<Vec<u64>> = VecDeque::new();
        let mut unused = Vec::new();
        for at in 0..found.len() + PREFETCH_DISTANCE {
            if let Some(Found { page, .. }) = found.get(at) {
                let mut keys: Vec<u64> = std::mem::take(&mut unused);
                keys.clear();
                page.keys(&rules).for_each(|key| keys.push(key));
                tables.prefetch(keys.iter().copied());
                ahead.push_back(keys);
            }
            let now = at.checked_sub(PREFETCH_DISTANCE).and_then(|at| found.get_mut(at));
            if let Some(found) = now
                && let Some(keys) = ahead.pop_front()
            {
                if let Some(sketch) = &found.page.sketch {
                    let least = rules.least_keys(rules.form.count(sketch));
                    let numbers = first..found.page.number;
                    tables.found_in(&keys, least.into(), numbers.clone(), |number| found.shared.push(number));
                    if rules.max_bucket > 0 {
                        let key = |band: usize| keys.get(band).copied();
                        let note = |band: usize, numbers: &[u64]| found.crowded.push((band, numbers.to_vec()));
                        crowded(&tables, rules.max_bucket, key, &numbers, note);
                    }
                }
                tables.insert_only(&(first..found.page.number + 1), |band| keys.get(band).copied());
                unused = keys;
            }
        }
        LookedUp { tables, generation, found }
    }
}

/// Passes each band in which a page may find so many entries to `visit`, with the numbers of those that it finds.
/// `key` returns the page's key of a band.
pub(super) fn crowded(
    tables: &Tables<ExactTags>,
    most: u16,
    key: impl Fn(usize) -> Option<u64>,
    numbers: &Range<u64>,
    mut visit: impl FnMut(usize, &[u64]),
) {
    let most = u32::from(most);
    let mut found = Vec::new();
    // Most tables have no key that leads to many entries, most other keys lead to a few, and these need not be
    // compared.
    for band in tables.crowded(most) {
        let Some(key) = key(band).filter(|key| tables.most_found(band, *key) >= most) else { continue };
        found.clear();
        tables.equal(band, key, numbers, |number| found.push(number));
        if found.len() >= most as usize {
            visit(band, &found);
        }
    }
}

impl Lookahead {
    /// Creates it with empty tables that grow towards so many originals. No others may have had their generation.
    pub(super) fn new(rules: MinHashRules, expected: u64, generation: u64) -> Self {
        Self {
            rules,
            tables: Some(Tables::new(usize::from(rules.banding.bands()), expected)),
            generation,
            entries: Entries::default(),
            found: VecDeque::new(),
            handed_over: 0..0,
            is_stale: false,
            is_back: false,
            last: None,
            waiting: Vec::new(),
            removed: Vec::new(),
            inserts: 0,
            pause: Pause::default(),
            stats: (Vec::new(), 0),
        }
    }

    /// Returns the tables, unless another thread has them. They know originals by numbers.
    pub(super) const fn tables(&self) -> Option<&Tables<ExactTags>> {
        self.tables.as_ref()
    }

    /// Returns the numbers in the tables: of the originals at these positions, which are all that are held, and of pages
    /// that are not judged yet.
    pub(super) fn numbers(&self, positions: &Range<u64>) -> Range<u64> {
        self.entries.number(positions.start)..self.next_number(positions.end)
    }

    /// Returns the position of an original. Numbers of pages that are none have no position, and those of originals that
    /// are no longer held may have any before the first that is held.
    #[inline]
    pub(super) fn position(&self, number: u64) -> Option<u64> {
        self.entries.position(number)
    }

    fn next_number(&self, position: u64) -> u64 {
        let ahead = self.found.back().map_or(0, |found| found.page.number + 1);
        self.entries.number(position).max(ahead).max(self.handed_over.end)
    }

    /// Returns whether pages are looked up ahead.
    pub(super) fn is_ahead(&self) -> bool {
        self.tables.is_none() || !self.found.is_empty()
    }

    /// Returns what was found for the page with this sketch, if it was looked up.
    pub(super) fn found(&self, sketch: &Sketch, scope: Option<ScopeHash>) -> Option<&Found> {
        self.found.get(self.place_of(sketch, scope)?)
    }

    /// A sketch that was looked up keeps its memory, so no other sketch can be there.
    fn place_of(&self, sketch: &Sketch, scope: Option<ScopeHash>) -> Option<usize> {
        let is_it = |held: &Sketch| held.is_clone_of(sketch);
        self.found.iter().position(|Found { page, .. }| page.sketch.as_ref().is_some_and(is_it) && page.scope == scope)
    }

    /// Returns where a page is. Pages without a sketch are told apart by their texts only.
    fn place_of_page(&self, (sketch, exact): (Option<&Sketch>, ExactHash), scope: Option<ScopeHash>) -> Option<usize> {
        match sketch.filter(|sketch| self.has_form(sketch)) {
            Some(sketch) => self.place_of(sketch, scope),
            None => self.found.iter().position(|Found { page, .. }| page.sketch.is_none() && page.exact == exact),
        }
    }

    fn has_form(&self, sketch: &Sketch) -> bool {
        sketch.len() == self.rules.form.bytes()
    }

    /// Returns whether a page can only be compared with all originals until the lookups are ended.
    pub(super) fn waits(&self, sketch: &Sketch, scope: Option<ScopeHash>) -> bool {
        self.tables.is_none() && self.has_form(sketch) && self.found(sketch, scope).is_none()
    }

    /// Takes the newest original of the ring. `known` are its keys, if they are remembered and none is left out.
    pub(super) fn push(
        &mut self,
        originals: &impl Keys,
        positions: &Range<u64>,
        (fingerprints, scope): (&Fingerprints, Option<ScopeHash>),
        (known, placement): (Option<&[u64]>, Placement),
    ) {
        let position = positions.end.saturating_sub(1);
        let bands = 0..usize::from(self.rules.banding.bands());
        if let Some(at) = self.place_of_page((fingerprints.sketch.as_ref(), fingerprints.exact), scope) {
            self.drop_found(at);
            // No table of bands holds members of families.
            let left_out = if placement.family.is_some() { u128::MAX } else { placement.skipped };
            if let Some(Found { page, .. }) = self.found.pop_front().filter(|_| left_out != 0) {
                self.removed.push(Removed::Page(page, left_out));
            }
            return;
        }
        if self.is_ahead() {
            self.invalidate();
        }
        let number = self.entries.number(position);
        match &mut self.tables {
            None => {
                let keys = bands.map(|band| originals.key(band, position)).collect();
                self.waiting.push(Keyed { number, keys });
            }
            Some(tables) => {
                let Self { rules, entries, found, .. } = self;
                let numbers = entries.number(positions.start)..number + 1;
                let held = positions.end - positions.start;
                let keys = EntryKeys { rules, entries, found, originals };
                match known {
                    Some(known) => tables.insert_of(&keys, &numbers, held, |band| known.get(band).copied()),
                    None => tables.insert_of(&keys, &numbers, held, |band| originals.key(band, position)),
                }
            }
        }
    }

    /// Removes an original that has its keys now, but not later.
    pub(super) fn remove(&mut self, originals: &impl Keys, positions: &Range<u64>, position: u64) {
        let numbers = self.numbers(positions);
        let Self { rules, tables, entries, found, .. } = self;
        let number = entries.number(position);
        self.waiting.retain(|waiting| waiting.number != number);
        if let Some(tables) = tables {
            tables.remove(&EntryKeys { rules, entries, found, originals }, &numbers, number);
        } else {
            let bands = 0..usize::from(rules.banding.bands());
            let keys = bands.map(|band| originals.key(band, position)).collect();
            self.removed.push(Removed::Original(Keyed { number, keys }));
        }
    }

    /// Begins lookups, if the tables are here and enough pages are left to be looked up. Call it before each page:
    /// `upcoming` begins with its request. Passes maintenance tasks of the tables to `hand_over`.
    pub(super) fn begin<'r>(
        &mut self,
        originals: &impl Keys,
        positions: &Range<u64>,
        upcoming: impl Iterator<Item = &'r Request>,
        hand_over: &mut impl FnMut(Task<'static>),
    ) -> Option<Lookups> {
        let mut upcoming = upcoming.peekable();
        if let Some(page) = upcoming.peek().and_then(|request| request.body.page()) {
            let Fingerprints { sketch, exact, .. } = &page.fingerprints;
            let at = self.place_of_page((sketch.as_ref(), *exact), page.scope);
            self.drop_found(at.unwrap_or(self.found.len()));
        }
        self.tables.as_ref()?;
        let mut pages = Vec::new();
        if self.pause.is_over() && (std::mem::take(&mut self.is_back) || self.found.is_empty()) {
            pages = self.next_pages(positions, upcoming);
        }
        let numbers = self.numbers(positions);
        let Self { rules, tables, entries, found, .. } = self;
        if pages.len() < MIN_PAGES {
            tables.iter_mut().for_each(|tables| remove_all(tables, rules, self.removed.drain(..), &numbers));
            return None;
        }
        let mut tables = tables.take()?;
        let held = positions.end - positions.start + found.len() as u64;
        tables.resize(self.inserts, &EntryKeys { rules, entries, found, originals }, &numbers, held);
        tables.maintenance(hand_over);
        self.stats = (tables.stats(), tables.memory_bytes());
        self.inserts = pages.len() as u64;
        self.handed_over = numbers.end..numbers.end + self.inserts;
        self.last = pages.last().map(|found| found.page.request);
        Some(Lookups {
            tables,
            rules: self.rules,
            generation: self.generation,
            removed: std::mem::take(&mut self.removed),
            found: pages,
            first: numbers.start,
        })
    }

    /// Returns the pages that were not looked up yet, numbered.
    fn next_pages<'r>(&self, positions: &Range<u64>, mut upcoming: impl Iterator<Item = &'r Request>) -> Vec<Found> {
        if let Some(last) = self.last.filter(|_| !self.found.is_empty()) {
            upcoming.by_ref().take_while(|request| request.id != last).for_each(drop);
        }
        let requests = upcoming.filter_map(|request| Some((request.id, request.body.page()?)));
        let numbered = requests.zip(self.next_number(positions.end)..).take(MAX_PAGES);
        let page = |((request, page), number): ((RequestId, &PageRequest), u64)| {
            let Fingerprints { sketch, exact, .. } = &page.fingerprints;
            let sketch = sketch.as_ref().filter(|sketch| self.has_form(sketch)).cloned();
            let page = Page { request, number, exact: *exact, sketch, scope: page.scope };
            Found { page, shared: Vec::new(), crowded: Vec::new() }
        };
        numbered.map(page).collect()
    }

    /// Drops pages that did not become originals.
    fn drop_found(&mut self, count: usize) {
        for Found { page, .. } in self.found.drain(..count) {
            self.entries.add_gap(page.number);
            self.removed.push(Removed::Page(page, u128::MAX));
        }
    }

    /// Drops what was looked up, and what the other thread looks up now.
    fn invalidate(&mut self) {
        self.drop_found(self.found.len());
        if self.tables.is_none() && !std::mem::replace(&mut self.is_stale, true) {
            self.handed_over.clone().for_each(|number| self.entries.add_gap(number));
        }
        self.pause.begin();
    }

    /// Takes back what [`Lookahead::begin`] handed over.
    pub(super) fn end(&mut self, looked_up: LookedUp, positions: &Range<u64>) {
        let LookedUp { mut tables, generation, found } = looked_up;
        if generation != self.generation {
            return;
        }
        if std::mem::take(&mut self.is_stale) {
            let numbers = self.numbers(positions);
            let all = found.into_iter().map(|found| Removed::Page(found.page, u128::MAX));
            remove_all(&mut tables, &self.rules, self.removed.drain(..).chain(all), &numbers);
            for waiting in self.waiting.drain(..) {
                let key = |band| waiting.key(band, waiting.number);
                tables.insert_only(&(numbers.start..waiting.number + 1), key);
            }
        } else {
            self.found.extend(found);
            self.is_back = true;
            self.pause.note_lookups();
        }
        self.tables = Some(tables);
    }

    /// Returns the positions of the originals that a page shares keys with, oldest first.
    pub(super) fn originals_of<'a>(&'a self, found: &'a Found) -> impl Iterator<Item = u64> + 'a {
        found.shared.iter().filter_map(|number| self.position(*number))
    }

    /// Returns the bands in which a page may find the maximum number of originals, and the positions of what it finds.
    pub(super) fn crowded<'a>(
        &'a self,
        found: &'a Found,
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = u64> + 'a)> + 'a {
        let positions = |numbers: &'a [u64]| numbers.iter().filter_map(|number| self.position(*number));
        found.crowded.iter().map(move |(band, numbers)| (*band, positions(numbers)))
    }

    /// Shrinks the tables when almost nothing is held, and forgets what expired.
    pub(super) fn expire(&mut self, originals: &(impl Keys + Sync), positions: &Range<u64>) {
        self.entries.drop_before(positions.start);
        if self.tables.is_some() {
            let numbers = self.numbers(positions);
            let Self { rules, tables, entries, found, .. } = self;
            let Some(tables) = tables else { return };
            let held = positions.end - positions.start + found.len() as u64;
            tables.shrink_if_idle(&EntryKeys { rules, entries, found, originals }, &numbers, held);
        }
    }

    /// Passes deferred maintenance tasks to `hand_over`.
    pub(super) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.tables.iter_mut().for_each(|tables| tables.maintenance(hand_over));
    }

    /// Returns empty tables, in place of those before. Their numbers are positions.
    pub(super) fn replace_tables(&mut self, expected: u64, generation: u64) -> Option<&mut Tables<ExactTags>> {
        *self = Self::new(self.rules, expected, generation);
        self.tables.as_mut()
    }

    /// Returns the statistics of the tables, as of when another thread took them.
    pub(super) fn stats(&self) -> Vec<TableStats> {
        self.tables.as_ref().map_or_else(|| self.stats.0.clone(), Tables::stats)
    }

    /// Returns the memory of the tables, in bytes, as of when another thread took them.
    pub(super) fn memory_bytes(&self) -> usize {
        self.tables.as_ref().map_or(self.stats.1, Tables::memory_bytes)
    }
}

fn remove_all(
    tables: &mut Tables<ExactTags>,
    rules: &MinHashRules,
    removed: impl IntoIterator<Item = Removed>,
    numbers: &Range<u64>,
) {
    for removed in removed {
        let keyed = removed.keyed(rules);
        tables.remove(&keyed, numbers, keyed.number);
    }
}

#[cfg(test)]
mod tests;
