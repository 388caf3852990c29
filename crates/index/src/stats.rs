//! Statistics of tables, for metrics and status.

pub use crate::table::TableStats;

/// Statistics of a [`crate::HammingIndex`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HammingStats {
    /// Codes held.
    pub entries: u64,
    /// Statistics of each table.
    pub tables: Vec<TableStats>,
    /// Whether a table of another size is being filled.
    pub is_growing: bool,
    /// Memory of the log, in bytes.
    pub log_bytes: usize,
    /// Memory of the tables, in bytes, including the one that is being filled.
    pub table_bytes: usize,
}

impl HammingStats {
    /// Returns the memory of log and tables, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.log_bytes + self.table_bytes
    }

    /// Returns the size of the largest bucket seen recently, in entries.
    #[must_use]
    pub fn largest_bucket(&self) -> u32 {
        self.tables.iter().map(|table| table.largest).max().unwrap_or(0)
    }
}
