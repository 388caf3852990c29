//! Which positions of one input partition are judged, exactly, and which of them were delivered since they were judged.

use roaring::RoaringTreemap;

/// The judged offsets of one input partition: everything below a low watermark, and a compressed bitmap above it.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    low_watermark: u64,
    above: RoaringTreemap,
    /// Offsets that were reopened and not judged again: the low watermark does not pass them.
    reopened: RoaringTreemap,
}

impl Judged {
    /// Rebuilds a set from its low watermark, the judged offsets above it, and the reopened ones. Negative offsets do
    /// not exist in Kafka and count as 0.
    #[must_use]
    pub(crate) fn from_parts(low_watermark: i64, above: RoaringTreemap, reopened: RoaringTreemap) -> Self {
        let mut judged = Self { low_watermark: 0, above, reopened };
        judged.raise_low_watermark(low_watermark);
        judged
    }

    /// Returns whether the offset was judged.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        u64::try_from(offset).is_ok_and(|offset| offset < self.low_watermark || self.above.contains(offset))
    }

    /// Returns whether any offset of `from <= offset < to` was judged.
    #[must_use]
    pub fn contains_any(&self, from: i64, to: i64) -> bool {
        let (from, to) = (u64::try_from(from).unwrap_or(0), u64::try_from(to).unwrap_or(0));
        from < to && (from < self.low_watermark || self.above.range_cardinality(from..to) > 0)
    }

    /// Returns how many offsets of `from <= offset < to` were judged.
    #[must_use]
    pub fn count(&self, from: i64, to: i64) -> u64 {
        let (from, to) = (u64::try_from(from).unwrap_or(0), u64::try_from(to).unwrap_or(0));
        if from >= to {
            return 0;
        }
        self.low_watermark.clamp(from, to) - from + self.above.range_cardinality(from..to)
    }

    /// Marks the offset as judged. Returns false if it was marked before.
    pub fn insert(&mut self, offset: i64) -> bool {
        match u64::try_from(offset) {
            Ok(offset) if offset >= self.low_watermark => {
                self.reopened.remove(offset);
                self.above.insert(offset)
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Makes every offset below `low_watermark` count as judged, up to the first one that was reopened and waits to be
    /// judged again. Never lowers the low watermark.
    pub fn raise_low_watermark(&mut self, low_watermark: i64) {
        let low_watermark = u64::try_from(low_watermark).unwrap_or(0).min(self.reopened.min().unwrap_or(u64::MAX));
        if low_watermark > self.low_watermark {
            self.low_watermark = low_watermark;
            self.above.remove_range(..low_watermark);
        }
    }

    /// Clears `from <= offset < to`; offsets outside stay as they are.
    pub fn reopen(&mut self, from: i64, to: i64) {
        let (from, to) = (u64::try_from(from).unwrap_or(0), u64::try_from(to).unwrap_or(0));
        if from >= to {
            return;
        }
        if from < self.low_watermark {
            // The offsets below the low watermark are spelled out, so that only the range opens.
            self.above.insert_range(from..self.low_watermark);
            self.low_watermark = from;
        }
        // The range may be far longer than what was judged, so it is never spelled out.
        let mut opened = self.above.clone();
        opened.remove_range(..from);
        opened.remove_range(to..);
        self.reopened |= opened;
        self.above.remove_range(from..to);
    }

    /// Returns the low watermark: every offset below it counts as judged.
    #[must_use]
    pub(crate) fn low_watermark(&self) -> i64 {
        i64::try_from(self.low_watermark).unwrap_or(i64::MAX)
    }

    /// Returns the judged offsets at or above the low watermark.
    #[must_use]
    pub(crate) const fn above(&self) -> &RoaringTreemap {
        &self.above
    }

    /// Returns the offsets that were reopened and not judged again.
    #[must_use]
    pub(crate) const fn reopened(&self) -> &RoaringTreemap {
        &self.reopened
    }

    /// Returns the offset after the last one that was judged.
    #[must_use]
    pub(crate) fn end(&self) -> i64 {
        let after_last = self.above.max().map_or(0, |last| last.saturating_add(1));
        i64::try_from(self.low_watermark.max(after_last)).unwrap_or(i64::MAX)
    }

    /// Returns whether nothing at all was judged.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.low_watermark == 0 && self.above.is_empty() && self.reopened.is_empty()
    }
}

/// Two sets are equal when they hold the same offsets and the same reopened ones, wherever their low watermarks are.
impl PartialEq for Judged {
    fn eq(&self, other: &Self) -> bool {
        let (low, high) = if self.low_watermark <= other.low_watermark { (self, other) } else { (other, self) };
        let mut spelled = low.above.clone();
        let gap = spelled.insert_range(low.low_watermark..high.low_watermark);
        spelled.remove_range(..high.low_watermark);
        gap == 0 && spelled == high.above && self.reopened == other.reopened
    }
}

impl Eq for Judged {}

/// How far an input partition was seen to be delivered: everything judged below an end, except positions that were
/// judged later and that the group was not seen to have committed since. Only delivered positions may be reopened (law
/// L8).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivered {
    /// The highest position that the input group was seen to have committed.
    pub end: i64,
    /// Positions below the end that were judged later and not seen to be committed since: their latest verdicts are not
    /// delivered.
    pub pending: RoaringTreemap,
}

impl Delivered {
    /// Notes that a position is judged. An earlier commit did not deliver this verdict.
    pub(crate) fn judge(&mut self, offset: i64) {
        if offset < self.end
            && let Ok(offset) = u64::try_from(offset)
        {
            self.pending.insert(offset);
        }
    }

    /// Notes that the offsets `from <= offset < to` are not judged any more.
    pub(crate) fn reopen(&mut self, from: i64, to: i64) {
        self.pending.remove_range(unsigned(from)..unsigned(to));
    }

    /// Notes that the input group had committed this position. This says nothing about the `unsettled` offsets: their
    /// verdicts were not in the log when the group was asked.
    pub(crate) fn commit(&mut self, position: i64, mut unsettled: RoaringTreemap) {
        unsettled.remove_range(unsigned(position)..);
        self.pending.remove_range(..unsigned(position));
        self.pending |= unsettled;
        self.end = self.end.max(position);
    }

    /// Returns the end of the longest range from `from` on, up to `to` at most, that may be reopened because everything
    /// judged in it is delivered.
    #[must_use]
    pub(crate) fn cut(&self, from: i64, to: i64) -> i64 {
        let before = unsigned(from).checked_sub(1).map_or(0, |last| self.pending.rank(last));
        let pending = self.pending.select(before).and_then(|offset| i64::try_from(offset).ok());
        to.min(self.end).min(pending.unwrap_or(i64::MAX)).max(from)
    }
}

/// Converts an offset. Negative offsets do not exist in Kafka and count as 0.
fn unsigned(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_counted_below_and_above_the_floor() {
        let mut judged = Judged::default();
        judged.raise_low_watermark(10);
        judged.insert(12);
        judged.insert(14);
        let counts = [(0, 5), (5, 20), (9, 13), (11, 14), (15, 99), (5, 5), (7, 3), (-3, 2)];
        let counts = counts.map(|(from, to)| judged.count(from, to));
        assert_eq!(counts, [5, 7, 2, 1, 0, 0, 0, 2]);
    }

    #[test]
    fn reopening_below_the_floor_opens_the_range_alone() {
        let mut judged = Judged::default();
        judged.raise_low_watermark(10);
        judged.insert(12);
        judged.reopen(3, 6);
        judged.raise_low_watermark(20);
        let open: Vec<i64> = (0..14).filter(|&offset| !judged.contains(offset)).collect();
        assert_eq!(open, [3, 4, 5, 10, 11, 13]);
    }

    /// What a set of judged offsets means, one offset at a time.
    #[derive(Default)]
    struct NaiveJudged {
        low_watermark: i64,
        judged: Vec<i64>,
        reopened: Vec<i64>,
    }

    impl NaiveJudged {
        fn contains(&self, offset: i64) -> bool {
            self.judged.contains(&offset)
        }

        fn insert(&mut self, offset: i64) {
            self.reopened.retain(|&other| other != offset);
            self.judged.push(offset);
        }

        fn raise_low_watermark(&mut self, low_watermark: i64) {
            let low_watermark = self.reopened.iter().copied().fold(low_watermark, i64::min);
            if low_watermark > self.low_watermark {
                self.low_watermark = low_watermark;
                self.judged.extend(0..low_watermark);
            }
        }

        fn reopen(&mut self, from: i64, to: i64) {
            let range = from..to;
            if range.is_empty() {
                return;
            }
            self.reopened.extend(self.judged.iter().filter(|offset| range.contains(offset)));
            self.judged.retain(|offset| !range.contains(offset));
            self.low_watermark = self.low_watermark.min(from);
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_list(steps in proptest::collection::vec((0_u8..4, 0_i64..40, 0_i64..40), 0..60)) {
            let (mut judged, mut naive) = (Judged::default(), NaiveJudged::default());
            for (kind, a, b) in steps {
                match kind {
                    0 => {
                        proptest::prop_assert_eq!(judged.insert(a), !naive.contains(a));
                        naive.insert(a);
                    }
                    1 => {
                        judged.raise_low_watermark(a);
                        naive.raise_low_watermark(a);
                    }
                    2 => {
                        judged.reopen(a, b);
                        naive.reopen(a, b);
                    }
                    _ => judged = Judged::from_parts(judged.low_watermark(), judged.above().clone(), judged.reopened().clone()),
                }
                for offset in 0..45 {
                    proptest::prop_assert_eq!(judged.contains(offset), naive.contains(offset), "offset {}", offset);
                }
                let any = (a..b).any(|offset| naive.contains(offset));
                proptest::prop_assert_eq!(judged.contains_any(a, b), any, "{}..{}", a, b);
            }
        }
    }

    #[test]
    fn a_range_without_an_end_takes_no_more_memory_than_what_was_judged() {
        let mut judged = Judged::default();
        judged.raise_low_watermark(1_000);
        [1_001, 1_000_000, 1 << 40].into_iter().for_each(|offset| assert!(judged.insert(offset)));
        judged.reopen(10, i64::MAX);
        assert!((0..10).all(|offset| judged.contains(offset)));
        assert!(!judged.contains_any(10, i64::MAX));
        assert_eq!(judged.reopened().len(), 990 + 3);
        assert!(judged.reopened().serialized_size() + judged.above().serialized_size() < 4_000);
        judged.reopen(0, i64::MAX);
        assert_eq!((judged.reopened().len(), judged.low_watermark()), (1_003, 0));
    }

    #[test]
    fn all_of_a_long_topic_that_is_reopened_stays_a_range() {
        let mut judged = Judged::default();
        judged.raise_low_watermark(1_000_000_000);
        judged.reopen(5, i64::MAX);
        assert_eq!((judged.low_watermark(), judged.reopened().len()), (5, 999_999_995));
        let statistics = judged.reopened().bitmaps().map(|(_, bitmap)| bitmap.statistics());
        let (bitmaps, arrays) = statistics.fold((0, 0), |(bitmaps, arrays), of| {
            (bitmaps + of.n_bytes_bitset_containers, arrays + of.n_bytes_array_containers)
        });
        assert_eq!((bitmaps, arrays), (0, 0), "containers that spell out what is in them, in bytes");
        assert!(judged.reopened().serialized_size() < 500_000, "{}", judged.reopened().serialized_size());
    }

    #[test]
    fn equality_does_not_see_the_floor() {
        let mut spelled = Judged::default();
        (0..10).for_each(|offset| assert!(spelled.insert(offset)));
        let mut floored = Judged::default();
        floored.raise_low_watermark(10);
        assert_eq!(spelled, floored);
        floored.reopen(9, 10);
        assert_ne!(spelled, floored);
    }

    /// The same, one offset at a time: when each was judged, and what the group answered when.
    #[derive(Default)]
    struct NaiveDelivered {
        now: usize,
        /// Judged offsets, and when their verdicts were in the log.
        judged: Vec<(i64, usize)>,
        /// What the group had committed, and when it was asked.
        answers: Vec<(i64, usize)>,
    }

    impl NaiveDelivered {
        fn judge(&mut self, offset: i64) {
            self.now += 1;
            if self.judged.iter().all(|(judged, _)| *judged != offset) {
                self.judged.push((offset, self.now));
            }
        }

        fn is_delivered(&self, offset: i64, since: usize) -> bool {
            self.answers.iter().any(|(position, asked)| *asked >= since && offset < *position)
        }

        fn end(&self) -> i64 {
            self.answers.iter().map(|(position, _)| *position).fold(0, i64::max)
        }

        fn cut(&self, from: i64, to: i64) -> i64 {
            let may_open = |offset: &i64| {
                let judged = self.judged.iter().filter(|(judged, _)| judged == offset);
                *offset < self.end() && judged.into_iter().all(|(offset, since)| self.is_delivered(*offset, *since))
            };
            (from..to).find(|offset| !may_open(offset)).unwrap_or(to).max(from)
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_list_of_all_that_happened(
            steps in proptest::collection::vec((0_u8..5, 0_i64..20, 0_i64..20), 0..60)
        ) {
            let (mut delivered, mut naive) = (Delivered::default(), NaiveDelivered::default());
            // The question that is out: when it was asked, what was committed, and what was judged since.
            let mut asked: Option<(usize, i64, RoaringTreemap)> = None;
            for (kind, a, b) in steps {
                match kind {
                    0 | 1 => {
                        if naive.judged.iter().all(|(judged, _)| *judged != a) {
                            delivered.judge(a);
                            if let Some((_, _, unsettled)) = &mut asked {
                                unsettled.insert(a.unsigned_abs());
                            }
                        }
                        naive.judge(a);
                    }
                    2 => asked = Some((naive.now, a, RoaringTreemap::new())),
                    3 => {
                        if let Some((when, position, unsettled)) = asked.take() {
                            delivered.commit(position, unsettled);
                            naive.answers.push((position, when));
                        }
                    }
                    _ => {
                        let to = delivered.cut(a, b);
                        delivered.reopen(a, to);
                        naive.judged.retain(|(offset, _)| !(a..to).contains(offset));
                    }
                }
                proptest::prop_assert_eq!(delivered.end, naive.end());
                for from in 0..20 {
                    proptest::prop_assert_eq!(delivered.cut(from, 25), naive.cut(from, 25), "from {}", from);
                }
                delivered = Delivered { end: delivered.end, pending: delivered.pending.clone() };
            }
        }
    }

    #[test]
    fn what_is_judged_again_is_delivered_once_the_group_has_passed_it_again() {
        let mut delivered = Delivered::default();
        delivered.commit(10, RoaringTreemap::new());
        assert_eq!(delivered.cut(0, i64::MAX), 10);
        delivered.reopen(2, 8);
        [3, 4, 12].into_iter().for_each(|offset| delivered.judge(offset));
        assert_eq!([0, 3, 4, 5, 9].map(|from| delivered.cut(from, 9)), [3, 3, 4, 9, 9]);
        // The group was asked before 4 was in the log, and 12 is where it begins first.
        delivered.commit(20, RoaringTreemap::from_iter([4, 12, 30]));
        assert_eq!((delivered.cut(0, 9), delivered.cut(5, i64::MAX)), (4, 12));
        delivered.commit(13, RoaringTreemap::new());
        assert_eq!((delivered.cut(-5, i64::MAX), delivered.pending.len()), (20, 0));
        // The log may hold a reopening of what is not delivered.
        [3, 4, 9].into_iter().for_each(|offset| delivered.judge(offset));
        delivered.reopen(0, 9);
        assert_eq!(delivered.cut(0, 20), 9);
    }
}
