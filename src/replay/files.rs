//! The files of a plan: describing them, checking that they are unchanged, and fetching single lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use dupgate_core::replay::ArchiveFile;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Fatal, Reason};
use crate::kafka::pages::PageBytes;
use crate::processing::lines::{self, InFile};
use crate::record::Source;

/// A file is hashed by this many blocks of this many bytes, spread evenly over the file; a smaller one as a whole. So a
/// plan over hundreds of gigabytes is made, and checked at each start, quickly.
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 64 << 10;

/// Describes files as a plan holds them, in the order given.
///
/// # Errors
///
/// A file cannot be read, or its name cannot be part of the positions of its pages.
pub(super) fn describe(paths: &[PathBuf]) -> Result<Vec<ArchiveFile>, Fatal> {
    paths.iter().zip(0..).map(|(path, number)| describe_one(path, number)).collect()
}

fn describe_one(path: &Path, number: usize) -> Result<ArchiveFile, Fatal> {
    let shown = path.display();
    let refuse = |why: &str| Err(Reason::Input.because(anyhow::anyhow!("{shown}: {why}")));
    if lines::is_stdin(path) {
        return refuse("standard input cannot be read a second time, by `replay resume`: write it to a file");
    }
    let Some(name) = path.to_str().filter(|name| !name.contains([':', '\n'])) else {
        return refuse("the name must be UTF-8 without a colon, because the places of pages are written FILE:0:LINE");
    };
    let unreadable = |error: io::Error| Reason::Input.because(anyhow::anyhow!("cannot read {shown}: {error}"));
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return refuse("not a regular file: it cannot be read a second time, by `replay resume`");
    }
    let (bytes, digest) = digest(path).map_err(unreadable)?;
    let file = ArchiveFile { path: name.to_owned(), bytes, digest };
    // Packed in an unsupported format, or damaged.
    lines::open_at(path, file.partition(number), InFile::default(), 0).map_err(|error| Reason::Input.because(error))?;
    Ok(file)
}

/// Makes sure that a file is as it was when the plan was made.
///
/// # Errors
///
/// [`Reason::State`] with the name of the file.
pub(super) fn verify(file: &ArchiveFile) -> Result<(), Fatal> {
    let path = &file.path;
    let refuse = |why: String| Err(Reason::State.because(anyhow::anyhow!("{why}")));
    match digest(Path::new(path)) {
        Err(error) => refuse(format!(
            "cannot read {path}: {error}: a replay of files runs where the files are, in the folder that their names count from"
        )),
        Ok((bytes, _)) if bytes != file.bytes => {
            let before = file.bytes;
            refuse(format!("{path} has changed since the plan was made: it has {bytes} bytes and had {before}"))
        }
        Ok((_, digest)) if digest != file.digest => {
            refuse(format!("{path} has changed since the plan was made: it has the same size and other contents"))
        }
        Ok(_) => Ok(()),
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((bytes, digest_of(file, bytes)?))
}

fn digest_of(mut file: impl Read + Seek, bytes: u64) -> io::Result<String> {
    let mut hash = Xxh3::new();
    let is_small = bytes <= BLOCKS * BLOCK_BYTES;
    let (blocks, length) = if is_small { (1, bytes) } else { (BLOCKS, BLOCK_BYTES) };
    let mut block = Vec::new();
    for number in 0..blocks {
        let last = u128::from(bytes - length);
        let start = last * u128::from(number) / u128::from((blocks - 1).max(1));
        file.seek(SeekFrom::Start(u64::try_from(start).unwrap_or(u64::MAX)))?;
        block.clear();
        file.by_ref().take(length).read_to_end(&mut block)?;
        hash.update(&block);
    }
    Ok(format!("{:032x}", hash.digest128()))
}

/// Fetches single lines. Lines of files that cannot be read or have changed are missing in the answer, as are lines longer
/// than `max_document` bytes.
#[must_use]
pub fn fetch_lines(files: &[ArchiveFile], sources: &[&Source], max_document: usize) -> BTreeMap<Source, PageBytes> {
    let wanted: BTreeSet<&Source> = sources.iter().copied().collect();
    let mut found = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        let partition = file.partition(number);
        let mut left = wanted.iter().filter(|source| source.partition == partition).count();
        if left == 0 || verify(file).is_err() {
            continue;
        }
        let opened = lines::open_at(Path::new(&file.path), partition, InFile::default(), max_document);
        let Ok(mut input) = opened else { continue };
        while left > 0
            && let Ok(batch) = input.batch()
            && !batch.is_empty()
        {
            for line in batch.into_iter().filter(|line| wanted.contains(&line.source)) {
                left -= 1;
                if line.cut.is_some() {
                    continue;
                }
                let value = Some(line.content().to_vec());
                found.insert(line.source, PageBytes { key: None, value, headers: Vec::new() });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of_bytes(bytes: &[u8]) -> String {
        digest_of(io::Cursor::new(bytes), bytes.len() as u64).unwrap()
    }

    #[test]
    fn every_byte_of_a_small_file_counts_and_both_ends_of_a_large_one() {
        let small = vec![b'x'; 5000];
        for at in [0, 1, 2500, 4999] {
            let mut other = small.clone();
            other[at] = b'y';
            assert_ne!(digest_of_bytes(&small), digest_of_bytes(&other), "{at}");
        }
        assert_ne!(digest_of_bytes(b""), digest_of_bytes(b"x"));
        let length = usize::try_from(BLOCKS * BLOCK_BYTES * 3).unwrap();
        let large = vec![b'x'; length];
        for at in [0, length - 1, length / 63 * 31] {
            let mut other = large.clone();
            other[at] = b'y';
            assert_ne!(digest_of_bytes(&large), digest_of_bytes(&other), "{at}");
        }
        assert_eq!(digest_of_bytes(&large), digest_of_bytes(&large));
    }

    #[test]
    fn a_missing_or_changed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let file = describe(std::slice::from_ref(&path)).unwrap().remove(0);
        verify(&file).unwrap();
        let why = |text: Option<&str>| {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            verify(&file).unwrap_err().to_string()
        };
        assert!(why(Some("[]\n")).contains("pages.jsonl has changed since the plan was made: it has the same size"));
        assert!(why(Some("{}\n{}\n")).contains("it has 6 bytes and had 3"));
        assert!(why(None).contains("runs where the files are"));
    }

    #[test]
    fn files_that_cannot_be_read_again_or_named_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let packed = folder.path().join("pages.jsonl.bz2");
        std::fs::write(&packed, b"BZh91AY").unwrap();
        std::fs::write(folder.path().join("a:b"), b"{}").unwrap();
        for (path, why) in [
            (PathBuf::from("-"), "cannot be read a second time"),
            (folder.path().to_owned(), "not a regular file"),
            (folder.path().join("none"), "cannot read"),
            (folder.path().join("a:b"), "without a colon"),
            (packed, "cannot read"),
        ] {
            let refused = describe(std::slice::from_ref(&path)).unwrap_err().to_string();
            assert!(refused.contains(why), "{}: {refused}", path.display());
        }
    }

    #[test]
    fn single_lines_are_fetched_from_files_that_have_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "one\n\nthree\na line that is too long\n").unwrap();
        std::fs::write(&paths[1], "four\n").unwrap();
        let files = describe(&paths).unwrap();
        std::fs::write(&paths[1], "five\n").unwrap();
        let (first, second) = (files[0].partition(0), files[1].partition(1));
        let wanted = [first.at(3), first.at(4), first.at(9), second.at(1)];
        let found = fetch_lines(&files, &wanted.iter().collect::<Vec<_>>(), 5);
        let found: Vec<_> = found.into_iter().map(|(source, page)| (source, page.value.unwrap())).collect();
        assert_eq!(found, [(first.at(3), b"three".to_vec())]);
    }
}
