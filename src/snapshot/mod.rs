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

mod disk;
mod folder;

use crossbeam_channel::bounded;
use dupgate_core::judge::{Manifest, Restored, Restoring, SharedSnapshot, Snapshot, decode_originals};

use crate::fingerprint::SchemeId;
use crate::index::{Original, Task};
use crate::protocol::CodecError;

pub(crate) use disk::LockState;
pub use disk::{DiskError, ProcessLock};
pub use folder::{Damage, Discarded, Folder, Newest, Sections, SnapshotError};

/// Maximum number of chunks that are decoded ahead.
const CHUNKS_AHEAD: usize = 2;

impl Folder {
    /// Writes a snapshot of log partition `name`, then deletes all its snapshots except the newest ones, whose number
    /// was given to [`Folder::open`]. Returns the size of all files of the snapshot in bytes.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] with the path and the cause. Earlier snapshots remain readable.
    pub fn store(&self, name: &str, scheme: &SchemeId, snapshot: &Snapshot) -> Result<u64, SnapshotError> {
        let manifest = Manifest { log: snapshot.state.log, at: snapshot.at, scheme: scheme.clone() };
        self.write(name, &manifest, snapshot.encode())
    }

    /// Writes the same files as [`Folder::store`] from originals that are shared with an index, and releases the
    /// originals as they are written.
    ///
    /// # Errors
    ///
    /// As [`Folder::store`].
    pub fn store_shared(&self, name: &str, scheme: &SchemeId, snapshot: SharedSnapshot) -> Result<u64, SnapshotError> {
        let manifest = Manifest { log: snapshot.state.log, at: snapshot.at, scheme: scheme.clone() };
        self.write(name, &manifest, snapshot.encode())
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
            Snapshot::decode(sections)
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
            restore(sections, &mut run)
        })
    }
}

/// Restores a state from the chunks of a snapshot. While the originals of one chunk are inserted, the next chunks are
/// decoded.
///
/// # Errors
///
/// As [`Snapshot::decode`].
fn restore<E: From<CodecError> + Send>(
    chunks: &mut (impl Iterator<Item = Result<Vec<u8>, E>> + Send),
    run: &mut impl FnMut(Vec<Task<'_>>),
) -> Result<Restored, E> {
    let mut restoring = Restoring::begin(chunks)?;
    let (decoded, all) = bounded(CHUNKS_AHEAD);
    let (used, again) = bounded(CHUNKS_AHEAD);
    std::thread::scope(|scope| {
        // Ends after the last chunk, or when the receiver is dropped.
        scope.spawn(move || {
            chunks.try_for_each(|chunk| {
                let mut originals: Vec<Original> = again.try_recv().unwrap_or_default();
                originals.clear();
                let done = chunk.and_then(|chunk| Ok(decode_originals(&chunk, &mut originals)?));
                decoded.send(done.map(|()| originals))
            })
        });
        for originals in all {
            let originals = originals?;
            restoring.add(&originals, &mut *run);
            // Return the list for reuse. This fails for the last lists, when the decoder has ended.
            let _ = used.try_send(originals);
        }
        Ok(restoring.finish(run))
    })
}

/// Checks that a snapshot has our scheme.
fn check_scheme(manifest: Manifest, expected: &SchemeId) -> Result<(), Damage> {
    let found = manifest.scheme;
    if found == *expected { Ok(()) } else { Err(Damage::AnotherScheme { found, expected: expected.clone() }) }
}

#[cfg(test)]
mod tests;
