//! Which positions of one input partition were delivered since they were judged.

use roaring::RoaringTreemap;

/// How far an input partition was seen to be delivered: everything judged below an end, except positions that were
/// judged later and that the group was not seen to have committed since. Only delivered positions may be reopened (law
/// L8).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivered {
    end: i64,
    /// Positions below the end that were judged later and not seen to be committed since.
    pending: RoaringTreemap,
}

impl Delivered {
    /// Everything that is judged below a position is delivered.
    #[must_use]
    pub fn up_to(end: i64) -> Self {
        Self::from_parts(end, RoaringTreemap::new())
    }

    /// Rebuilds it from its end and the positions below it that are not delivered.
    #[must_use]
    pub const fn from_parts(end: i64, pending: RoaringTreemap) -> Self {
        Self { end, pending }
    }

    /// Returns the highest position that the input group was seen to have committed.
    #[must_use]
    pub const fn end(&self) -> i64 {
        self.end
    }

    /// Returns the positions below the end whose latest verdicts are not delivered.
    #[must_use]
    pub const fn pending(&self) -> &RoaringTreemap {
        &self.pending
    }

    /// Notes that a position is judged. An earlier commit did not deliver this verdict.
    pub fn judge(&mut self, offset: i64) {
        if offset < self.end
            && let Ok(offset) = u64::try_from(offset)
        {
            self.pending.insert(offset);
        }
    }

    /// Notes that the offsets `from <= offset < to` are not judged any more.
    pub fn reopen(&mut self, from: i64, to: i64) {
        self.pending.remove_range(unsigned(from)..unsigned(to));
    }

    /// Notes that the input group had committed this position. This says nothing about the `unsettled` offsets: their
    /// verdicts were not in the log when the group was asked.
    pub fn commit(&mut self, position: i64, mut unsettled: RoaringTreemap) {
        unsettled.remove_range(unsigned(position)..);
        self.pending.remove_range(..unsigned(position));
        self.pending |= unsettled;
        self.end = self.end.max(position);
    }

    /// Returns the end of the longest range from `from` on, up to `to` at most, that may be reopened because everything
    /// judged in it is delivered.
    #[must_use]
    pub fn cut(&self, from: i64, to: i64) -> i64 {
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

    /// The same, one offset at a time: when each was judged, and what the group answered when.
    #[derive(Default)]
    struct Naive {
        now: usize,
        /// Judged offsets, and when their verdicts were in the log.
        judged: Vec<(i64, usize)>,
        /// What the group had committed, and when it was asked.
        answers: Vec<(i64, usize)>,
    }

    impl Naive {
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
            let (mut delivered, mut naive) = (Delivered::default(), Naive::default());
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
                proptest::prop_assert_eq!(delivered.end(), naive.end());
                for from in 0..20 {
                    proptest::prop_assert_eq!(delivered.cut(from, 25), naive.cut(from, 25), "from {}", from);
                }
                delivered = Delivered::from_parts(delivered.end(), delivered.pending().clone());
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
        assert_eq!((delivered.cut(-5, i64::MAX), delivered.pending().len()), (20, 0));
        // The log may hold a reopening of what is not delivered.
        [3, 4, 9].into_iter().for_each(|offset| delivered.judge(offset));
        delivered.reopen(0, 9);
        assert_eq!(delivered.cut(0, 20), 9);
    }
}
