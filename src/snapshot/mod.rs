//! Snapshots: the judge's state as files, for one offset of the verdict log.
//!
//! Before: `judge` takes a [`Snapshot`] at a committed offset. After: a restart loads the newest snapshot that is whole
//! and follows the verdict log from there. An edge: this module reads and writes files, and keeps no other state. If
//! all snapshots are lost, nothing else is, because the verdict log alone restores the state (law L5); so damaged files
//! are skipped and reported.
//!
//! ```text
//! DIR/lock                     held by the process that uses the folder
//! DIR/<log partition>/N.manifest     number, highest newest: log identity, offset, scheme, chunks in order
//! DIR/<log partition>/HASH.chunk     never changed; its name is the hash of its bytes
//! ```
//!
//! Originals are cut into chunks by their sequence number, so that most chunks of the next snapshot exist already and
//! are not written again.

mod chunks;
mod disk;
mod folder;

use dupgate_core::judge::{Restored, SharedSnapshot, Snapshot};

use crate::fingerprint::SchemeId;
use crate::index::Task;

pub(crate) use disk::LockState;
pub use disk::{DiskError, ProcessLock};
pub use folder::{Damage, Discarded, Folder, Manifest, Newest, Sections, SnapshotError};

impl Folder {
    /// Writes a snapshot of log partition `name`, then deletes all its snapshots except the newest ones, whose number
    /// was given to [`Folder::open`]. Returns the size of all files of the snapshot in bytes.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] with the path and the cause. Earlier snapshots remain readable.
    pub fn store(&self, name: &str, scheme: &SchemeId, snapshot: &Snapshot) -> Result<u64, SnapshotError> {
        let manifest = Manifest { log: snapshot.state.log, at: snapshot.at, scheme: scheme.clone() };
        self.write(name, &manifest, chunks::encode(snapshot))
    }

    /// Writes the same files as [`Folder::store`] from originals that are shared with an index, and releases the
    /// originals as they are written.
    ///
    /// # Errors
    ///
    /// As [`Folder::store`].
    pub fn store_shared(&self, name: &str, scheme: &SchemeId, snapshot: SharedSnapshot) -> Result<u64, SnapshotError> {
        let manifest = Manifest { log: snapshot.state.log, at: snapshot.at, scheme: scheme.clone() };
        self.write(name, &manifest, chunks::encode_shared(snapshot))
    }

    /// Loads the newest whole snapshot of log partition `name` of this scheme.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if the folder itself cannot be read. Damaged snapshots are not an error: they are skipped and
    /// listed in [`Newest::discarded`].
    pub fn load(&self, name: &str, scheme: &SchemeId) -> Result<Newest<Snapshot>, SnapshotError> {
        self.newest(name, |manifest, sections| {
            check_scheme(manifest, scheme)?;
            chunks::decode(sections)
        })
    }

    /// Loads the same snapshot as [`Folder::load`], but as a state that can judge, and without holding all originals
    /// twice meanwhile. `run` executes the tasks that build the index.
    ///
    /// # Errors
    ///
    /// As [`Folder::load`].
    pub fn restore(
        &self,
        name: &str,
        scheme: &SchemeId,
        mut run: impl FnMut(Vec<Task<'_>>),
    ) -> Result<Newest<Restored>, SnapshotError> {
        self.newest(name, |manifest, sections| {
            check_scheme(manifest, scheme)?;
            chunks::restore(sections, &mut run)
        })
    }
}

/// Checks that a snapshot has our scheme.
fn check_scheme(manifest: Manifest, expected: &SchemeId) -> Result<(), Damage> {
    let found = manifest.scheme;
    if found == *expected { Ok(()) } else { Err(Damage::AnotherScheme { found, expected: expected.clone() }) }
}

#[cfg(test)]
mod tests;
