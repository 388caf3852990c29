//! The operations on files below `index.path`, and locks on work that only one process of a machine may do at a time: a
//! replay, a warm-up. Tests stop before each operation on a file, as a power cut would.
//!
//! A lock is a file with the id of its process. The operating system keeps it locked until the process ends, however it
//! ends.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Fatal, fatal};

/// Extension of files that are not completely written.
const UNFINISHED: &str = "unfinished";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Create(&'a Path),
    /// Bytes are written to a temporary file.
    Write(&'a Path),
    /// These bytes are synced to the disk.
    Sync(&'a Path),
    /// The file is renamed to its final name.
    Rename(&'a Path),
    /// The names in a folder are synced to the disk.
    SyncFolder(&'a Path),
    Remove(&'a Path),
}

impl Change<'_> {
    const fn parts(&self) -> (&'static str, &Path) {
        match self {
            Self::Create(path) => ("create", path),
            Self::Write(path) => ("write", path),
            Self::Sync(path) | Self::SyncFolder(path) => ("sync", path),
            Self::Rename(path) => ("rename", path),
            Self::Remove(path) => ("remove", path),
        }
    }
}

/// A change or a read that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}")]
pub struct DiskError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl DiskError {
    /// Returns the error of an operation on a path.
    pub(super) fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self { doing, path: path.to_owned(), source }
    }

    /// Returns whether there is no space left.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Called before each change. If it returns an error, the operation stops there, as after a power cut.
pub(super) type Watch<'a> = &'a mut dyn FnMut(Change<'_>) -> io::Result<()>;

/// Returns the name of a file, or the final name of an unfinished one.
pub(super) fn finished_name(file: &str) -> &str {
    file.strip_suffix(UNFINISHED).and_then(|name| name.strip_suffix('.')).unwrap_or(file)
}

fn change(watch: Watch<'_>, change: Change<'_>, make: impl FnOnce() -> io::Result<()>) -> Result<(), DiskError> {
    watch(change).and_then(|()| make()).map_err(|source| {
        let (doing, path) = change.parts();
        DiskError::new(doing, path, source)
    })
}

/// Creates a folder and its parents. Only the owner can read a created folder: a snapshot shows which pages were
/// crawled.
pub(super) fn create_folder(watch: Watch<'_>, path: &Path) -> Result<(), DiskError> {
    change(watch, Change::Create(path), || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    })
}

/// Puts a whole file into place: write, sync, rename. The folder is synced by [`sync_folder`].
pub(super) fn put(watch: Watch<'_>, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let unfinished = path.with_added_extension(UNFINISHED);
    let mut file = None;
    change(watch, Change::Write(&unfinished), || {
        let mut created = File::create(&unfinished)?;
        created.write_all(bytes)?;
        file = Some(created);
        Ok(())
    })?;
    change(watch, Change::Sync(&unfinished), || file.map_or(Ok(()), |file| file.sync_all()))?;
    change(watch, Change::Rename(path), || fs::rename(&unfinished, path))
}

/// Syncs the names in a folder to the disk.
pub(super) fn sync_folder(watch: Watch<'_>, path: &Path) -> Result<(), DiskError> {
    change(watch, Change::SyncFolder(path), || File::open(path)?.sync_all())
}

pub(super) fn remove(watch: Watch<'_>, path: &Path) -> Result<(), DiskError> {
    change(watch, Change::Remove(path), || fs::remove_file(path))
}

/// Reads a whole file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, DiskError> {
    fs::read(path).map_err(|source| DiskError::new("read", path, source))
}

/// Returns when a file was last written, if that is known.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|known| known.modified()).ok()
}

/// Returns whether a file has these bytes, without reading all of it at once.
pub(super) fn holds(path: &Path, bytes: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut buffer = vec![0; 1 << 16];
    let mut rest = bytes;
    loop {
        let Ok(count) = file.read(&mut buffer) else { return false };
        let Some(held) = buffer.get(..count).filter(|held| !held.is_empty()) else { return rest.is_empty() };
        let Some(after) = rest.strip_prefix(held) else { return false };
        rest = after;
    }
}

/// Returns whether there is a file of this length.
pub(super) fn has_length(path: &Path, length: usize) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == length as u64)
}

/// Lists the names of the files in a folder; none if there is no folder.
pub(super) fn names(path: &Path) -> Result<Vec<String>, DiskError> {
    let listed = fs::read_dir(path).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
    });
    match listed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| DiskError::new("list", path, source)),
    }
}

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
        let failed = |error: io::Error| fatal!(State, "{}: {error} (index.path)", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        // What another process has written stays until the lock is taken.
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let process = process(&mut file).map(|id| format!(" as process {id}")).unwrap_or_default();
                return Err(fatal!(Config, "{work} is already running on this machine{process}: {way_on}"));
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
        fs::remove_file(&self.path).map_err(|error| fatal!(State, "{}: {error} (index.path)", self.path.display()))
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
