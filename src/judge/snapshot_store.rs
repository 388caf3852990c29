//! Stores the snapshots of the judges: in one folder per process, under a name for each log partition.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use dupgate_core::judge::{Restored, SharedSnapshot};

use super::HOUSEKEEPING_INTERVAL;
use crate::clock::{Clock, wall_time};
use crate::config::settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::SchemeId;
use crate::protocol::LogPartition;
use crate::snapshot::{Damage, Discarded, Folder, SnapshotError};
use crate::telemetry::Metrics;
use crate::telemetry::labels::{Component, ErrorKind, RestoreSource, SnapshotOperation};
use crate::threads::{BackgroundTasks, run_parallel};

/// Stores a judge's state, so that a restart need not read the whole log.
pub(crate) trait SnapshotStore: Send + Sync {
    /// Restores a state from the newest usable snapshot.
    fn load_latest(&self) -> Option<Box<Restored>>;

    fn save(&self, snapshot: SharedSnapshot);
}

/// Restores the newest snapshot of a store. For a large one that takes minutes, during which the judge is alive: `beat` is
/// called a few times a second.
pub(super) fn load_alive(store: &dyn SnapshotStore, beat: impl Fn()) -> Option<Box<Restored>> {
    std::thread::scope(|scope| {
        let (loaded, found) = bounded(1);
        scope.spawn(move || loaded.send(store.load_latest()));
        loop {
            match found.recv_timeout(HOUSEKEEPING_INTERVAL) {
                Ok(restored) => return restored,
                Err(RecvTimeoutError::Timeout) => beat(),
                // It has panicked, and so will the scope.
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    })
}

/// Has a snapshot saved in the background, after the one that is being saved. One that still waits is dropped.
pub(super) fn save_newest<T: Send + 'static>(
    next: &Arc<Mutex<Option<T>>>,
    snapshot: T,
    tasks: &BackgroundTasks,
    save: impl Fn(T) + Send + 'static,
) {
    let swap = |next: &Mutex<Option<T>>, new: Option<T>| {
        std::mem::replace(&mut *next.lock().unwrap_or_else(PoisonError::into_inner), new)
    };
    if swap(next, Some(snapshot)).is_some() {
        // The task of the one before saves this one.
        return;
    }
    let next = Arc::clone(next);
    tasks.run_once(Box::new(move || swap(&next, None).into_iter().for_each(save)));
}

/// The snapshots of one log partition.
pub(crate) struct FsSnapshotStore {
    folder: Arc<Folder>,
    name: String,
    scheme: SchemeId,
    clock: Clock,
    metrics: Metrics,
}

/// Opens the folder of the snapshots of all judges of this process. Originals expire after `remembered`: the window and
/// the allowed lateness.
pub(crate) fn open(index: &settings::Index, remembered: Duration) -> Result<Arc<Folder>, Fatal> {
    let opened = Folder::open(&index.path, index.snapshots_kept, remembered).map(Arc::new);
    opened.map_err(|error| {
        let path = index.path.display();
        Reason::State.because(anyhow::Error::new(error).context(format!("{path} cannot hold snapshots (index.path)")))
    })
}

impl FsSnapshotStore {
    pub(crate) fn new(folder: Arc<Folder>, log: LogPartition, scheme: &str, clock: Clock, metrics: Metrics) -> Self {
        Self { folder, name: log.to_string(), scheme: SchemeId(scheme.to_owned()), clock, metrics }
    }

    /// Reports a snapshot that cannot be used. One of another scheme is no error: it remains after a change of the
    /// scheme.
    fn report_discarded(&self, discarded: &Discarded) {
        if let Damage::AnotherScheme { found, .. } = &discarded.why {
            let manifest = discarded.manifest.display();
            tracing::info!(
                target: "dupgate::snapshot",
                log = self.name, scheme = found.0, "snapshot {manifest} ignored: it is of another scheme"
            );
            return;
        }
        tracing::warn!(target: "dupgate::snapshot", log = self.name, why = %discarded.why, "{discarded}");
        self.metrics.series().snapshot_failures.of(SnapshotOperation::Restore).increment(1);
        self.metrics.error(Component::Snapshot, ErrorKind::Corrupt);
    }

    fn failed(&self, operation: SnapshotOperation, error: &SnapshotError) {
        let causes = anyhow::Chain::new(error).map(ToString::to_string).collect::<Vec<_>>().join(": ");
        tracing::error!(target: "dupgate::snapshot", log = self.name, "snapshot failed: {causes}");
        self.metrics.series().snapshot_failures.of(operation).increment(1);
        self.metrics.error(Component::Snapshot, ErrorKind::Io);
    }
}

impl SnapshotStore for FsSnapshotStore {
    fn load_latest(&self) -> Option<Box<Restored>> {
        let begun = self.clock.now();
        let newest = match self.folder.restore(&self.name, &self.scheme, run_parallel) {
            Ok(newest) => newest,
            Err(error) => {
                self.failed(SnapshotOperation::Restore, &error);
                return None;
            }
        };
        for discarded in &newest.discarded {
            self.report_discarded(discarded);
        }
        let restored = newest.found?;
        self.metrics
            .series()
            .snapshot_duration
            .of(SnapshotOperation::Restore)
            .record(self.clock.now().saturating_sub(begun));
        let originals = restored.state.index().originals();
        self.metrics.series().restored_entries.of(RestoreSource::Snapshot).increment(originals as u64);
        tracing::info!(
            target: "dupgate::snapshot",
            log = self.name, originals, at = restored.at.0, "snapshot restored"
        );
        Some(Box::new(restored))
    }

    fn save(&self, snapshot: SharedSnapshot) {
        let begun = self.clock.now();
        match self.folder.store_shared(&self.name, &self.scheme, snapshot) {
            Ok(bytes) => {
                self.metrics
                    .series()
                    .snapshot_duration
                    .of(SnapshotOperation::Write)
                    .record(self.clock.now().saturating_sub(begun));
                self.metrics.snapshot_written(wall_time(), bytes);
                tracing::info!(target: "dupgate::snapshot", log = self.name, bytes, "snapshot written");
            }
            Err(error) => self.failed(SnapshotOperation::Write, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use crossbeam_channel::{Receiver, unbounded};
    use dupgate_core::judge::Manifest;

    use super::*;
    use crate::protocol::{LogIdentity, VerdictOffset};

    const LIMIT: Duration = Duration::from_secs(20);

    /// Restores nothing, and only after two beats.
    struct Slow(Receiver<()>);

    impl SnapshotStore for Slow {
        fn load_latest(&self) -> Option<Box<Restored>> {
            (0..2).for_each(|_| self.0.recv_timeout(LIMIT).expect("a beat"));
            None
        }

        fn save(&self, _: SharedSnapshot) {}
    }

    #[test]
    fn a_judge_is_alive_while_it_restores_a_snapshot() {
        let (beat, beats) = unbounded();
        assert!(load_alive(&Slow(beats), || beat.send(()).unwrap()).is_none());
    }

    #[test]
    fn only_the_newest_snapshot_waits_while_one_is_saved() {
        let (tasks, next) = (BackgroundTasks::start("snapshots".to_owned()).unwrap(), Arc::default());
        let ((saved, seen), (go, may_go)) = (unbounded(), unbounded());
        let save = |number: u32| {
            let (saved, may_go) = (saved.clone(), may_go.clone());
            save_newest(&next, number, &tasks, move |number| {
                saved.send(number).unwrap();
                may_go.recv_timeout(LIMIT).unwrap();
            });
        };
        save(1);
        assert_eq!(seen.recv_timeout(LIMIT), Ok(1));
        (2..=4).for_each(save);
        (0..2).for_each(|_| go.send(()).unwrap());
        let end = saved.clone();
        tasks.run_once(Box::new(move || end.send(0).unwrap()));
        let later: Vec<u32> = (0..2).map(|_| seen.recv_timeout(LIMIT).unwrap()).collect();
        assert_eq!(later, [4, 0]);
    }

    /// What is counted when the snapshot of this scheme and with these chunks is restored under the scheme `sh64-new`:
    /// corrupt data and failed restores.
    fn counted(scheme: &str, sections: Vec<Vec<u8>>) -> [bool; 2] {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(Folder::open(dir.path(), NonZeroUsize::MIN, Duration::ZERO).unwrap());
        let manifest = Manifest { log: LogIdentity(7), at: VerdictOffset(3), scheme: SchemeId(scheme.to_owned()) };
        folder.write("0", &manifest, sections).unwrap();
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let store = FsSnapshotStore::new(folder, LogPartition(0), "sh64-new", Clock::start(), metrics.clone());
        assert!(store.load_latest().is_none());
        let text = metrics.render();
        let is_counted = |name: &str, label: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
            lines.any(|line| !line.ends_with(" 0"))
        };
        [is_counted("dupgate_errors_total", "corrupt"), is_counted("dupgate_snapshot_failures_total", "restore")]
    }

    #[test]
    fn a_snapshot_of_another_scheme_is_not_corrupt() {
        assert_eq!(counted("sh64-new", vec![b"no chunk".to_vec()]), [true; 2]);
        assert_eq!(counted("sh64-old", vec![b"no chunk".to_vec()]), [false; 2]);
    }
}
