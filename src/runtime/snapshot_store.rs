//! Storage of the judges' snapshots: one folder for the process, with a name for each log partition.

use std::sync::Arc;

use super::clock::{Clock, wall_time};
use super::parallel::run_parallel;
use crate::config::settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::SchemeId;
use crate::judge::{Restored, SharedSnapshot};
use crate::protocol::LogPartition;
use crate::snapshot::{Folder, SnapshotError};
use crate::telemetry::Metrics;
use crate::telemetry::labels::{Component, ErrorKind, RestoreSource, SnapshotOperation};

/// Storage of a judge's state besides the log.
pub(super) trait SnapshotStore: Send + Sync {
    /// Restores a state from the newest usable snapshot.
    fn newest(&self) -> Option<Box<Restored>>;

    /// Stores a snapshot.
    fn keep(&self, snapshot: SharedSnapshot);
}

/// The snapshots of one log partition.
pub(super) struct FsSnapshotStore {
    folder: Arc<Folder>,
    name: String,
    scheme: SchemeId,
    clock: Clock,
    metrics: Metrics,
}

/// Opens the folder of the snapshots of all judges of this process.
pub(super) fn open(index: &settings::Index) -> Result<Arc<Folder>, Fatal> {
    let opened = Folder::open(&index.path, index.snapshots_kept).map(Arc::new);
    opened.map_err(|error| {
        let path = index.path.display();
        Reason::State.because(anyhow::Error::new(error).context(format!("{path} cannot hold snapshots (index.path)")))
    })
}

impl FsSnapshotStore {
    /// Returns the store of one log partition.
    pub(super) fn new(folder: Arc<Folder>, log: LogPartition, scheme: &str, clock: Clock, metrics: Metrics) -> Self {
        Self { folder, name: log.to_string(), scheme: SchemeId(scheme.to_owned()), clock, metrics }
    }

    fn failed(&self, operation: SnapshotOperation, error: &SnapshotError) {
        let causes = anyhow::Chain::new(error).map(ToString::to_string).collect::<Vec<_>>().join(": ");
        tracing::error!(target: "dupgate::snapshot", log = self.name, "snapshot failed: {causes}");
        self.metrics.snapshot_failed(operation);
        self.metrics.error(Component::Snapshot, ErrorKind::Io);
    }
}

impl SnapshotStore for FsSnapshotStore {
    fn newest(&self) -> Option<Box<Restored>> {
        let begun = self.clock.now();
        let newest = match self.folder.restore(&self.name, &self.scheme, run_parallel) {
            Ok(newest) => newest,
            Err(error) => {
                self.failed(SnapshotOperation::Restore, &error);
                return None;
            }
        };
        for discarded in &newest.discarded {
            tracing::warn!(target: "dupgate::snapshot", log = self.name, why = %discarded.why, "{discarded}");
            self.metrics.snapshot_failed(SnapshotOperation::Restore);
            self.metrics.error(Component::Snapshot, ErrorKind::Corrupt);
        }
        let restored = newest.found?;
        self.metrics.snapshot_duration(SnapshotOperation::Restore, self.clock.now().saturating_sub(begun));
        let originals = restored.state().index().len();
        self.metrics.restored(RestoreSource::Snapshot, originals as u64);
        tracing::info!(
            target: "dupgate::snapshot",
            log = self.name, originals, at = restored.at().0, "snapshot restored"
        );
        Some(Box::new(restored))
    }

    fn keep(&self, snapshot: SharedSnapshot) {
        let begun = self.clock.now();
        match self.folder.store_shared(&self.name, &self.scheme, snapshot) {
            Ok(bytes) => {
                self.metrics.snapshot_duration(SnapshotOperation::Write, self.clock.now().saturating_sub(begun));
                self.metrics.snapshot_written(wall_time(), bytes);
                tracing::info!(target: "dupgate::snapshot", log = self.name, bytes, "snapshot written");
            }
            Err(error) => self.failed(SnapshotOperation::Write, &error),
        }
    }
}
