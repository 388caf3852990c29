//! Whatever a configuration file, an assignment and a variable hold, what comes out is settings or problems.

#![no_main]

use std::collections::BTreeMap;

use dupgate::config::{ExternalInputs, Layers, Purpose};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // The file, then an assignment, then a variable.
    let mut parts = text.split("\n%\n");
    let (file, set, variable) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let variable = variable.and_then(|variable| variable.split_once('='));
    let variables: BTreeMap<String, String> =
        variable.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let external = ExternalInputs { variables: variables.clone(), ..ExternalInputs::default() };
    for purpose in [Purpose::Run, Purpose::Sieve] {
        let mut layers = Layers::new(variables.clone());
        layers.file("fuzz.yaml", file);
        layers.environment();
        set.into_iter().for_each(|set| layers.set(set));
        if let Err(refused) = layers.resolve(&external, purpose) {
            assert!(!refused.to_string().is_empty());
        }
    }
});
