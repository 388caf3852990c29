//! Locks on work that only one process of a machine may do at a time: a replay, a warm-up.
//!
//! A lock is a file below `index.path` with the id of its process. The operating system keeps it locked until the process
//! ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Fatal, Reason};

/// Held while a process does the work.
#[derive(Debug)]
pub struct ProcessLock {
    path: PathBuf,
    #[expect(dead_code, reason = "dropping the file releases the lock")]
    file: File,
}

/// What this machine knows about the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockState {
    /// A process does it: this one, if its id can be read.
    Held(Option<u32>),
    /// A process has begun it, and none does it now.
    Released,
    /// No process of this machine has begun it, or its lock cannot be read.
    Unknown,
}

impl ProcessLock {
    /// Takes the lock. If another process holds it, the error says that `work` is running, and `way_on`.
    ///
    /// # Errors
    ///
    /// Another process holds it, or its file cannot be written.
    pub(crate) fn take(path: PathBuf, work: &str, way_on: &str) -> Result<Self, Fatal> {
        let failed =
            |error: io::Error| Reason::State.because(anyhow::anyhow!("{}: {error} (index.path)", path.display()));
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        // What another process has written stays until the lock is taken.
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let process = process(&mut file).map(|id| format!(" as process {id}")).unwrap_or_default();
                return Err(Reason::Config
                    .because(anyhow::anyhow!("{work} is already running on this machine{process}: {way_on}")));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { path, file })
    }

    /// Returns what this machine knows about the work of a lock.
    pub(crate) fn state(path: &Path) -> LockState {
        let Ok(mut file) = File::open(path) else { return LockState::Unknown };
        match file.try_lock_shared() {
            Ok(()) => LockState::Released,
            Err(TryLockError::WouldBlock) => LockState::Held(process(&mut file)),
            Err(TryLockError::Error(_)) => LockState::Unknown,
        }
    }

    /// Releases the lock and forgets that this machine has done the work.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub fn remove(self) -> Result<(), Fatal> {
        fs::remove_file(&self.path)
            .map_err(|error| Reason::State.because(anyhow::anyhow!("{}: {error} (index.path)", self.path.display())))
    }
}

/// Reads the id of the process that has taken a lock.
fn process(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_process_while_it_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks").join("x.lock");
        assert_eq!(ProcessLock::state(&path), LockState::Unknown);
        let take = || ProcessLock::take(path.clone(), "the work", "wait");
        let held = take().unwrap();
        let id = std::process::id();
        assert_eq!(ProcessLock::state(&path), LockState::Held(Some(id)));
        let why = take().unwrap_err().to_string();
        assert_eq!(why, format!("the work is already running on this machine as process {id}: wait"));
        drop(held);
        assert_eq!(ProcessLock::state(&path), LockState::Released);
        take().unwrap().remove().unwrap();
        assert_eq!(ProcessLock::state(&path), LockState::Unknown);
    }
}
