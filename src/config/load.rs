//! Reads the files of the configuration and those that it names. Only this file of the module does I/O.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::layers::Layers;
use super::problem::{Origin, Problem, Refused};
use super::raw::Raw;
use super::resolve::{ExternalInputs, Purpose};
use super::secret::{RawSecret, SECRET_SLOTS};
use super::settings::Settings;

/// Sources of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Files; later ones override earlier ones. All must exist.
    pub files: Vec<PathBuf>,
    /// The file that is read if no file is named; it may be missing.
    pub default_file: Option<PathBuf>,
    /// Assignments `path=value`, which override everything else.
    pub set: Vec<String>,
    /// The variables of the environment.
    pub variables: BTreeMap<String, String>,
}

/// Settings and warnings.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Warnings, to be logged once logging is set up.
    pub warnings: Vec<Problem>,
}

/// Reads the files, the dictionaries, word lists and secrets that they name, and resolves all of it.
///
/// # Errors
///
/// Every problem found, unreadable files included.
pub fn load(sources: &Sources, purpose: Purpose) -> Result<Loaded, Refused> {
    let (mut layers, given) = gather(sources);
    if let (Purpose::Run, Ok(raw)) = (purpose, layers.raw()) {
        look_at_client(&raw, &mut layers);
    }
    if purpose == Purpose::Run && sources.files.is_empty() && layers.is_empty() {
        let file = sources.default_file.as_deref().map(|path| format!(" or write {}", path.display()));
        let message = format!(
            "there is no configuration: give -c FILE, set DUPGATE_CONFIG{}; `dupgate config init` prints one",
            file.unwrap_or_default()
        );
        return Err(Refused { problems: vec![Problem::of("", message)], warnings: Vec::new() });
    }
    layers.resolve(&given, purpose).map(|(settings, warnings)| Loaded { settings, warnings })
}

/// Reads the files, and the dictionaries, word lists and secrets that they name. An unreadable file becomes a problem
/// of the layers.
#[must_use]
pub fn gather(sources: &Sources) -> (Layers, ExternalInputs) {
    let mut layers = Layers::new(sources.variables.clone());
    let default = sources.default_file.iter().filter(|_| sources.files.is_empty());
    for (path, may_be_missing) in sources.files.iter().map(|path| (path, false)).chain(default.map(|path| (path, true)))
    {
        match std::fs::read_to_string(path) {
            Ok(text) => layers.file(&path.display().to_string(), &text),
            Err(error) if may_be_missing && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let origin = Origin::File { name: path.display().to_string().into(), line: 0, column: 0 };
                layers.refuse_file(Problem::at(origin, "", format!("cannot be read: {error}")));
            }
        }
    }
    layers.environment();
    for assignment in &sources.set {
        layers.set(assignment);
    }
    let mut given = ExternalInputs { variables: sources.variables.clone(), ..ExternalInputs::default() };
    if let Ok(raw) = layers.raw() {
        read_named_files(&raw, &mut given, &mut layers);
        if let Some(Ok(before)) = raw.before_change() {
            read_words(&before, &mut given, &mut layers);
        }
    }
    (layers, given)
}

/// Reports an unreadable file, at the key that names it.
fn refuse_named(layers: &mut Layers, key: &str, path: &Path, error: &io::Error) {
    let origin = layers.origin_of(key);
    layers.refuse(Problem::at(origin, key, format!("cannot read {}: {error}", path.display())));
}

/// Reads a file that a setting names. Reports one that cannot be read, and marks it, so that the keys that need it report
/// nothing more.
fn read_named(key: &str, path: &Path, given: &mut ExternalInputs, layers: &mut Layers) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| {
        refuse_named(layers, key, path, &error);
        given.unread.insert(path.to_owned());
        String::new()
    })
}

/// Reads the files that settings name.
fn read_named_files(raw: &Raw, given: &mut ExternalInputs, layers: &mut Layers) {
    read_words(raw, given, layers);
    for slot in SECRET_SLOTS {
        let Some(RawSecret::File(path)) = raw.secret(slot) else { continue };
        let text = read_named(slot, path, given, layers);
        let text = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
        given.secrets.insert(path.clone(), SecretString::from(text));
    }
}

/// Reads dictionaries and word lists, each once.
fn read_words(raw: &Raw, given: &mut ExternalInputs, layers: &mut Layers) {
    for (key, path) in raw.word_files() {
        if !given.words.contains_key(path) {
            let text = read_named(key, path, given, layers);
            given.words.insert(path.to_owned(), text);
        }
    }
}

/// Reports what clients would refuse: unknown properties and missing certificates.
fn look_at_client(raw: &Raw, layers: &mut Layers) {
    let kafka = &raw.kafka;
    for (section, map) in kafka.property_maps() {
        for (key, value) in map {
            if let Err(why) = crate::kafka::client::takes(key, &value.0) {
                let path = format!("kafka.{section}.{key}");
                layers.refuse(Problem::at(layers.origin_of(&path), path, why));
            }
        }
    }
    let (tls, encrypts) = (&kafka.security.tls, kafka.security.protocol.encrypts());
    let certificates = [
        ("input.schema_registry.ca_file", &raw.input.schema_registry.ca_file, true),
        ("kafka.security.tls.ca_file", &tls.ca_file, encrypts),
        ("kafka.security.tls.cert_file", &tls.cert_file, encrypts),
        ("kafka.security.tls.key_file", &tls.key_file, encrypts),
    ];
    for (key, path, is_used) in certificates {
        if let Some(path) = path.as_ref().filter(|_| is_used)
            && let Err(error) = std::fs::File::open(path)
        {
            refuse_named(layers, key, path, &error);
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;
    use crate::config::settings::Sasl;

    fn sources(files: &[&Path], set: &[String]) -> Sources {
        Sources {
            files: files.iter().map(|path| path.to_path_buf()).collect(),
            set: set.to_vec(),
            ..Sources::default()
        }
    }

    #[test]
    fn files_that_are_named_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let secret = path("secret", "hunter2\r\n");
        let words = path("words", "the\n");
        let first =
            path("a.yaml", "window: {size: 1h}\nkafka: {security: {protocol: sasl_ssl, sasl: {username: u}}}\n");
        let second = path("b.yaml", "window: {size: 2h}\n");
        let set = [
            format!("kafka.security.sasl.password={{file: {}}}", secret.display()),
            format!("text.stopwords=en,{}", words.display()),
        ];
        let settings = load(&sources(&[&first, &second], &set), Purpose::Sieve).unwrap().settings;
        assert_eq!(settings.rules.windows.exact.as_secs(), 7200);
        assert_eq!(settings.text.stopwords.last(), Some(&crate::text::StopWords::List("the\n".to_owned())));
        let Some(Sasl::Password { password, .. }) = settings.kafka.security.sasl else { panic!("no identity") };
        assert_eq!(password.expose_secret(), "hunter2", "without the line break at its end");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_problem_and_the_default_file_is_not() {
        let nowhere = Path::new("/no/such/file");
        let missing = Sources { default_file: Some(nowhere.to_owned()), ..Sources::default() };
        assert!(load(&missing, Purpose::Sieve).is_ok());
        let set = ["text.jieba.user_dict=/no/such/words".to_owned()];
        let refused = load(&sources(&[nowhere], &set), Purpose::Sieve).unwrap_err().to_string();
        assert!(refused.contains("/no/such/file: cannot be read: No such file"), "{refused}");
        assert!(refused.contains("text.jieba.user_dict: cannot read /no/such/words: No such file"), "{refused}");
        let set = ["match.minhash.stop_shingles=/no/such/list".to_owned()];
        let refused = load(&sources(&[], &set), Purpose::Sieve).unwrap_err();
        assert_eq!(refused.problems.len(), 1, "once is enough: {refused}");
    }

    #[test]
    fn settings_that_the_client_library_refuses_are_reported_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let more = folder.path().join("more.yaml");
        let text = "kafka:\n  security:\n    protocol: ssl\n    tls: {ca_file: /no/such/ca.pem}\n  properties:\n    foo.bar: 1\n  \
                    producer_properties:\n    linger.ms: soon\n";
        std::fs::write(&more, text).unwrap();
        let sample = folder.path().join("sample.yaml");
        std::fs::write(&sample, crate::config::SAMPLE).unwrap();
        let message = load(&sources(&[&sample, &more], &[]), Purpose::Run).unwrap_err().to_string();
        for expected in [
            "more.yaml:4:20: kafka.security.tls.ca_file: cannot read /no/such/ca.pem: No such file",
            "more.yaml:6:14: kafka.properties.foo.bar: the Kafka client knows no such property",
            "more.yaml:8:16: kafka.producer_properties.linger.ms: the Kafka client does not take this value",
        ] {
            assert!(message.contains(expected), "{expected}\n{message}");
        }
        assert!(load(&sources(&[&sample, &more], &[]), Purpose::Sieve).is_ok(), "nothing connects");
    }

    #[test]
    fn an_empty_file_is_the_only_problem_reported() {
        let folder = tempfile::tempdir().unwrap();
        let tab = folder.path().join("tab.yaml");
        std::fs::write(&tab, "kafka:\n\tbrokers: [a:1]\n").unwrap();
        for file in [Path::new("/no/such/file"), &tab] {
            let refused = load(&sources(&[file], &[]), Purpose::Run).unwrap_err();
            assert_eq!(refused.problems.len(), 1, "{refused}");
        }
        let default_file = Some(folder.path().join("none.yaml"));
        let refused = load(&Sources { default_file, ..Sources::default() }, Purpose::Run).unwrap_err();
        assert_eq!(refused.problems.len(), 1, "{refused}");
        assert!(refused.to_string().contains("`dupgate config init` prints one"), "{refused}");
        // A misspelt key is not reported as missing, too.
        let slip = folder.path().join("slip.yaml");
        let text = crate::config::SAMPLE.replace("  topics: [", "  topcis: [");
        std::fs::write(&slip, text).unwrap();
        let refused = load(&sources(&[&slip], &[]), Purpose::Run).unwrap_err();
        assert_eq!(refused.problems.len(), 1, "{refused}");
        assert_eq!(refused.problems[0].hint(), Some("topics"), "{refused}");
    }

    #[test]
    fn variables_that_miss_a_setting_by_a_little_are_named_with_the_right_name() {
        let variables = ["DUPGATE_WINDOW_SIZE", "DUPGATE_WINDOW__SZE", "DUPGATE_SERVICE_HOST"];
        let variables = variables.map(|name| (name.to_owned(), "3h".to_owned())).into();
        let loaded = load(&Sources { variables, ..Sources::default() }, Purpose::Sieve).unwrap();
        let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        for warning in warnings {
            assert!(warning.contains("did you mean `DUPGATE_WINDOW__SIZE`?"), "{warning}");
        }
    }

    #[test]
    fn the_default_file_is_read_only_when_no_other_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let default_file = folder.path().join("default.yaml");
        let named = folder.path().join("named.yaml");
        std::fs::write(&default_file, "window: {size: 1h}").unwrap();
        std::fs::write(&named, "").unwrap();
        let window = |files: Vec<PathBuf>| {
            let sources = Sources { files, default_file: Some(default_file.clone()), ..Sources::default() };
            load(&sources, Purpose::Sieve).unwrap().settings.rules.windows.exact
        };
        assert_eq!(window(Vec::new()), std::time::Duration::from_hours(1));
        assert_eq!(window(vec![named]), std::time::Duration::from_hours(72));
    }
}
