//! Statistics of the index, for metrics and status.

use dupgate_index::{HammingStats, TableStats};

/// Statistics of a [`super::Index`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Originals in memory.
    pub originals: u64,
    /// The `SimHash` codes and their tables.
    pub near: HammingStats,
    /// The table of exact hashes.
    pub exact: TableStats,
    /// Memory of the columns without the codes, in bytes.
    pub ring_bytes: usize,
    /// Memory of the table of exact hashes, in bytes.
    pub exact_bytes: usize,
    /// Memory of the tables of ids and addresses, in bytes.
    pub id_bytes: usize,
    /// Memory of the table of sources, in bytes.
    pub source_bytes: usize,
    /// The tables of the bands of sketches.
    pub bands: Vec<TableStats>,
    /// Memory of the sketches, their tables and the families, in bytes.
    pub sketch_bytes: usize,
}

impl IndexStats {
    /// Returns the memory of the columns and sketches, in bytes: the originals themselves, without tables.
    #[must_use]
    pub fn fingerprint_bytes(&self) -> usize {
        self.ring_bytes + self.near.log_bytes + self.sketch_bytes.saturating_sub(self.band_bytes())
    }

    /// Returns the memory of the tables of codes and bands, in bytes.
    #[must_use]
    pub fn bucket_bytes(&self) -> usize {
        self.near.table_bytes + self.band_bytes()
    }

    fn band_bytes(&self) -> usize {
        self.bands.iter().map(|table| table.memory_bytes).sum()
    }

    /// Returns the size of the largest bucket seen recently in any table, in entries.
    #[must_use]
    pub fn largest_bucket(&self) -> u32 {
        let bands = self.bands.iter().chain([&self.exact]).map(|table| table.largest);
        bands.chain([self.near.largest_bucket()]).max().unwrap_or(0)
    }

    /// Returns all memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.ring_bytes
            + self.near.memory_bytes()
            + self.exact_bytes
            + self.id_bytes
            + self.source_bytes
            + self.sketch_bytes
    }
}
