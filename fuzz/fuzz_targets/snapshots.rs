//! Whatever the files of a snapshot hold, reading them does no harm, and what was read can be written again.

#![no_main]

use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::time::Duration;

use dupgate::fingerprint::SchemeId;
use dupgate::protocol::{LogIdentity, VerdictOffset};
use dupgate::snapshot::Folder;
use dupgate_core::judge::Manifest;
use libfuzzer_sys::fuzz_target;

/// Memory, where there is a file system for it.
static PATH: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("dupgate-fuzz-{}", std::process::id()))
});

/// Chunks are distinguished by their length, in two bytes before each. The right checksum is put after each, so that more
/// than the frame is tried.
fn chunks(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (chunk, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
        chunks.push([chunk, &crc32fast::hash(chunk).to_le_bytes()].concat());
        bytes = rest;
    }
    chunks
}

fuzz_target!(|bytes: &[u8]| {
    let scheme = SchemeId("sh64-0".to_owned());
    let folder = Folder::open(&*PATH, NonZeroUsize::MIN, Duration::ZERO).expect("a folder");
    let manifest = Manifest { log: LogIdentity(1), at: VerdictOffset(1), scheme: scheme.clone() };
    folder.write("chunks", &manifest, chunks(bytes)).expect("written");
    if let Some(snapshot) = folder.load("chunks", &scheme).expect("a folder").found {
        folder.store("again", &scheme, &snapshot).expect("written");
        assert_eq!(folder.load("again", &scheme).expect("a folder").found.as_ref(), Some(&snapshot));
    }
    let manifest = PATH.join("manifest");
    std::fs::create_dir_all(&manifest).expect("a folder");
    let sealed = [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
    std::fs::write(manifest.join(format!("{:020}.manifest", 1)), sealed).expect("written");
    let _ = folder.read("manifest").expect("a folder");
    drop(folder);
    let _ = std::fs::remove_dir_all(&*PATH);
});
