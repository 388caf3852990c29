//! Counts transactions that fail in a row: one failure is ordinary, several are a fault that an operator must see.

/// Number of failures in a row that make a worker unready.
const LIMIT: usize = 2;

/// The failures since the last commit.
#[derive(Debug, Default)]
pub(super) struct FailedTransactions {
    count: usize,
    last: String,
}

impl FailedTransactions {
    /// Notes that a transaction was aborted for this reason.
    pub(super) fn failed(&mut self, why: String) {
        self.count += 1;
        self.last = why;
    }

    /// Notes that a transaction was committed.
    pub(super) fn committed(&mut self) {
        *self = Self::default();
    }

    /// Returns why the worker does not deliver, after several failures in a row.
    pub(super) fn why(&self) -> Option<String> {
        (self.count >= LIMIT).then(|| format!("the last {} transactions were aborted: {}", self.count, self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_failures_in_a_row_are_a_fault_until_a_transaction_is_committed() {
        let mut failed = FailedTransactions::default();
        failed.failed("out: gone".to_owned());
        assert_eq!(failed.why(), None);
        failed.failed("dead: gone".to_owned());
        assert_eq!(failed.why().as_deref(), Some("the last 2 transactions were aborted: dead: gone"));
        failed.committed();
        assert_eq!(failed.why(), None);
    }
}
