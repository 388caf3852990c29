//! The objects of a release, as `helm template` renders them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::text;

/// A version for which the chart is rendered; helm cannot ask a cluster.
const KUBERNETES: &str = "1.37.0";

/// The objects of one version of the release `dupgate`.
#[derive(Debug)]
pub(crate) struct Release(Vec<Value>);

impl Release {
    /// Renders the chart with one of its own value files (`helm/dupgate/ci`), and `more` over that.
    pub(crate) fn render(file: &str, more: &Value) -> Self {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/dupgate");
        let mut helm = Command::new(helm())
            .args(["template", "dupgate", "--namespace", "crawl", "--kube-version", KUBERNETES, "--values"])
            .arg(chart.join("ci").join(file))
            .args(["--values", "-"])
            .arg(&chart)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("helm runs");
        let mut input = helm.stdin.take().expect("an input");
        // JSON is YAML.
        input.write_all(more.to_string().as_bytes()).expect("helm reads the values");
        drop(input);
        let rendered = helm.wait_with_output().expect("helm ends");
        assert!(rendered.status.success(), "helm template: {}", rendered.status);
        let manifests = String::from_utf8(rendered.stdout).expect("helm writes UTF-8");
        Self(serde_saphyr::from_multiple(&manifests).expect("helm writes YAML"))
    }

    /// The only object of a kind.
    pub(crate) fn the(&self, kind: &str) -> &Value {
        let mut found = self.0.iter().filter(|object| object["kind"] == kind);
        let object = found.next().unwrap_or_else(|| panic!("the chart renders no {kind}"));
        assert!(found.next().is_none(), "the chart renders two objects {kind}");
        object
    }

    /// Names and files of all `ConfigMap`s.
    pub(crate) fn config_maps(&self) -> BTreeMap<&str, BTreeMap<&str, &str>> {
        let maps = self.0.iter().filter(|object| object["kind"] == "ConfigMap");
        maps.map(|map| (text(&map["metadata"]["name"]), files(map))).collect()
    }
}

/// The files of a `ConfigMap`.
fn files(map: &Value) -> BTreeMap<&str, &str> {
    let files = map["data"].as_object().expect("files");
    files.iter().map(|(name, content)| (name.as_str(), text(content))).collect()
}

/// The program of helm that all deployment tests use, installed at the first call.
fn helm() -> &'static Path {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    HELM.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deploy/chart/tools.sh");
        let installed = Command::new(script).arg("helm").stderr(Stdio::inherit()).output().expect("the script runs");
        assert!(installed.status.success(), "tests/deploy/chart/tools.sh: {}", installed.status);
        Path::new(String::from_utf8_lossy(&installed.stdout).trim()).join("bin/helm")
    })
}
