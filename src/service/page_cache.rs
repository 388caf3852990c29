//! Cache of inspected pages for the demo, whose in-process broker drops records within seconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kafka::pages::PageBytes;
use crate::record::Source;

/// A bounded number of recently used pages. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    max: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    pages: BTreeMap<Source, PageBytes>,
    /// The most recently used one is at the end.
    order: VecDeque<Source>,
}

impl PageCache {
    /// Creates a cache of at most this many pages; 0 disables it.
    pub(crate) fn of(max: usize) -> Self {
        Self { max, state: Arc::default() }
    }

    /// Creates a cache for both pages of this many pairs.
    pub(crate) fn of_pairs(max: usize) -> Self {
        Self::of(2 * max)
    }

    /// Keeps a page, and evicts the least recently used one if the cache is full: an original with many duplicates
    /// stays.
    pub(crate) fn keep(&self, source: &Source, page: &PageBytes) {
        let mut state = self.lock();
        if self.max == 0 {
            return;
        }
        if state.pages.insert(source.clone(), page.clone()).is_some() {
            state.order.retain(|kept| kept != source);
        }
        state.order.push_back(source.clone());
        if state.order.len() > self.max
            && let Some(oldest) = state.order.pop_front()
        {
            state.pages.remove(&oldest);
        }
    }

    /// Returns a page.
    pub(crate) fn get(&self, source: &Source) -> Option<PageBytes> {
        self.lock().pages.get(source).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PartitionId;

    #[test]
    fn recently_used_pages_are_kept() {
        let at = |offset| PartitionId::new("pages", 0).at(offset);
        let page = |text: &str| PageBytes { value: Some(text.into()), ..PageBytes::default() };
        let kept = PageCache::of(2);
        for offset in [1, 2, 2, 3] {
            kept.keep(&at(offset), &page("x"));
        }
        assert_eq!([1, 2, 3].map(|offset| kept.get(&at(offset)).is_some()), [false, true, true]);
        kept.keep(&at(2), &page("x"));
        kept.keep(&at(4), &page("x"));
        assert_eq!([2, 3, 4].map(|offset| kept.get(&at(offset)).is_some()), [true, false, true]);
        assert!(kept.lock().pages.len() == 2 && kept.lock().order.len() == 2);
        let none = PageCache::of(0);
        none.keep(&at(1), &page("x"));
        assert_eq!(none.get(&at(1)), None);
    }
}
