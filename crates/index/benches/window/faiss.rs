//! FAISS on the same codes, by way of a script: `make bench-index` installs what that needs below `target/`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::data::Data;

/// Statistics of one FAISS index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rival {
    /// Search and add, one thread.
    pub(crate) ns: f64,
    pub(crate) search_ns: f64,
    pub(crate) add_ns: f64,
    pub(crate) bytes: f64,
    /// Share of the planted pairs that were found at no more than their distance.
    pub(crate) recall: f64,
}

/// Runs the script; nothing where there is no FAISS.
pub(crate) fn run(data: &Data) -> BTreeMap<String, Rival> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.join("../..");
    let python = root.join("target/faiss/bin/python");
    if !python.exists() {
        eprintln!("no FAISS below target/faiss: make bench-index installs it");
        return BTreeMap::new();
    }
    let folder = root.join("target/bench-index");
    std::fs::create_dir_all(&folder).unwrap();
    let (codes, planted) = (folder.join("codes"), folder.join("planted"));
    let write = |path: &Path, bytes: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        bytes.for_each(|bytes| file.write_all(&bytes).unwrap());
        file.flush().unwrap();
    };
    write(&codes, &mut data.codes.iter().map(|code| code.to_le_bytes().to_vec()));
    write(&planted, &mut data.planted.iter().map(|bits| vec![bits.unwrap_or(255)]));
    let script = crate_folder.join("benches/window/faiss.py");
    let output = Command::new(python).args([&script, &codes, &planted]).arg(data.window.to_string()).output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    std::fs::remove_dir_all(&folder).unwrap();
    text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}
