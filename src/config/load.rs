//! Reads what the configuration names: the only file of this room that touches the machine.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::layers::Layers;
use super::problem::{Origin, Problem, Refused};
use super::raw::Raw;
use super::resolve::{Given, Purpose};
use super::secret::{RawSecret, SECRET_SLOTS};
use super::settings::Settings;

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Files, later ones win. All must exist.
    pub files: Vec<PathBuf>,
    /// Read when no file is named; may be missing.
    pub default_file: Option<PathBuf>,
    /// `path=value`, over everything else.
    pub set: Vec<String>,
    /// The environment.
    pub variables: BTreeMap<String, String>,
}

/// Settings, and what deserves a warning.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// To be logged once logging stands.
    pub warnings: Vec<Problem>,
}

/// Reads the files, the dictionaries, word lists and secrets that they name, and resolves all of it.
///
/// # Errors
///
/// Every problem found, unreadable files included.
pub fn load(sources: &Sources, purpose: Purpose) -> Result<Loaded, Refused> {
    let mut layers = Layers::new(sources.variables.clone());
    for path in &sources.files {
        match std::fs::read_to_string(path) {
            Ok(text) => layers.file(&path.display().to_string(), &text),
            Err(error) => layers.refuse(unreadable(path, &error)),
        }
    }
    if let (true, Some(path)) = (sources.files.is_empty(), &sources.default_file) {
        match std::fs::read_to_string(path) {
            Ok(text) => layers.file(&path.display().to_string(), &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => layers.refuse(unreadable(path, &error)),
        }
    }
    layers.environment();
    for assignment in &sources.set {
        layers.set(assignment);
    }
    let mut given = Given { variables: sources.variables.clone(), ..Given::default() };
    if let Ok(raw) = layers.raw() {
        read_named_files(&raw, &mut given, &mut layers);
    }
    layers.resolve(&given, purpose).map(|(settings, warnings)| Loaded { settings, warnings })
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let origin = Origin::File { name: path.display().to_string().into(), line: 0, column: 0 };
    Problem { origin, path: String::new(), message: format!("cannot be read: {error}") }
}

/// A file that cannot be read is told here; what needed it says nothing more.
fn read_named_files(raw: &Raw, given: &mut Given, layers: &mut Layers) {
    for path in raw.word_files() {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| {
            layers.refuse(unreadable(path, &error));
            String::new()
        });
        given.words.insert(path.to_owned(), text);
    }
    for slot in SECRET_SLOTS {
        let Some(RawSecret::File(path)) = raw.secret(slot) else { continue };
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| {
            layers.refuse(unreadable(path, &error));
            String::new()
        });
        let text = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
        given.secrets.insert(path.clone(), SecretString::from(text));
    }
}
