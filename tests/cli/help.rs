//! Help, version, completions and manual.

use super::program::{dupgate, output_of};

#[test]
fn the_version_names_the_client_library() {
    let report = output_of(dupgate().arg("--version"));
    // Silently missing in many builds: OAUTHBEARER with an identity provider needs a client built for it.
    for feature in ["ssl", "sasl_scram", "sasl_plain", "sasl_oauthbearer", "oidc", "zstd", "gzip", "lz4"] {
        let features = report.out.split([' ', ',', ';', ')', '\n']).collect::<Vec<_>>();
        assert!(features.contains(&feature), "{feature} is not built in: {}", report.out);
    }
}

#[test]
fn completions_and_manual_exist_for_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = output_of(dupgate().args(["completions", shell]));
        assert_eq!(script.code, 0, "{shell}: {}", script.err);
        assert!(script.out.contains("verdicts") && script.out.contains("log-format"), "{shell}");
    }
    let page = output_of(dupgate().arg("man")).out;
    assert!(page.contains(".TH dupgate 1") && page.contains("Exit codes"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(output_of(dupgate().args(["man", "--directory"]).arg(folder.path())).code, 0);
    let written = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert!(written("dupgate-topics-create.1").contains("execute"));
    assert!(written("dupgate-check.1").contains("dupgate check \\-c dupgate.yaml"), "{}", written("dupgate-check.1"));
}

#[test]
fn exit_codes_without_a_broker_are_as_documented() {
    let code = |arguments: &[&str]| output_of(dupgate().args(arguments)).code;
    assert_eq!(code(&["config", "schema"]), 0);
    assert_eq!(code(&["valdate"]), 2);
    assert_eq!(code(&["validate", "/no/such/file"]), 78);
    assert_eq!(code(&["index", "stats", "-s", "index.path=/no/such/folder"]), 74);
    assert_eq!(code(&["status", "--address", "127.0.0.1:1"]), 69);
    assert_eq!(code(&["sieve", "/no/such/file"]), 66);
}
