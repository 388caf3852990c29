//! A pod: what a kubelet does with its only container.
#![expect(clippy::disallowed_methods, reason = "a grace period is a time")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dupgate::config::{ExternalInputs, Layers, Purpose, Settings};
use dupgate_testkit::ports::free_address;
use serde_json::Value;

use super::chart::Release;
use super::probes::Prober;
use super::{has_only, items, number, seconds, text};
use crate::broker::wait;
use crate::cluster::http;
use crate::cluster::instance::Instance;

/// The entry point of the image (`config/docker/Dockerfile`), and its only program.
const PROGRAM: &str = "/usr/local/bin/dupgate";

/// The configuration that the program reads if nothing names another.
const CONFIGURATION: &str = "/etc/dupgate/dupgate.yaml";

/// Fields of a pod that concern other pods, the image, users and the size of machines.
const IRRELEVANT_IN_PODS: [&str; 10] = [
    "affinity",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
    "topologySpreadConstraints",
];

/// The same, of a container.
const IRRELEVANT_IN_CONTAINERS: [&str; 5] = ["image", "imagePullPolicy", "name", "resources", "securityContext"];

/// The folders of volumes and logs.
#[derive(Clone, Debug)]
pub(crate) struct Node(PathBuf);

impl Node {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Updates the files of all `ConfigMap`s, in running pods, too.
    pub(crate) fn apply(&self, release: &Release) {
        for (map, files) in release.config_maps() {
            let folder = self.config_map(map);
            std::fs::create_dir_all(&folder).expect("a folder");
            for (name, content) in files {
                // A starting program must not find a partial file.
                let partial = folder.join(format!("{name}.partial"));
                std::fs::write(&partial, content).expect("the file is written");
                std::fs::rename(&partial, folder.join(name)).expect("the file is replaced");
            }
        }
    }

    fn config_map(&self, name: &str) -> PathBuf {
        self.0.join("config-maps").join(name)
    }

    /// The folder of a volume that belongs to a pod of this name.
    fn volume(&self, pod: &str, volume: &str) -> PathBuf {
        let folder = self.0.join("volumes").join(format!("{volume}-{pod}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }
}

/// A container: its command line, variables, files and ports as a process has them.
#[derive(Debug)]
pub(crate) struct Container {
    spec: Value,
    line: Vec<String>,
    variables: BTreeMap<String, String>,
    /// Paths in the container, and their folders.
    mounts: Vec<(String, PathBuf)>,
    /// Ports of the container, and the addresses that stand for them.
    ports: BTreeMap<u16, SocketAddr>,
}

impl Container {
    fn new(node: &Node, pod: &str, spec: &Value, claims: &[Value]) -> Self {
        has_only(
            "pod",
            spec,
            &[&IRRELEVANT_IN_PODS[..], &["containers", "terminationGracePeriodSeconds", "volumes"]].concat(),
        );
        let [container] = items(&spec["containers"]) else { panic!("{pod} has not one container: {spec}") };
        let acted_out = ["args", "command", "env", "lifecycle", "ports", "volumeMounts"];
        let probes = ["startupProbe", "livenessProbe", "readinessProbe"];
        has_only("container", container, &[&IRRELEVANT_IN_CONTAINERS[..], &acted_out, &probes].concat());
        let mut this = Self {
            spec: container.clone(),
            line: Vec::new(),
            variables: BTreeMap::new(),
            mounts: mounts(node, pod, spec, claims),
            ports: BTreeMap::new(),
        };
        for port in items(&container["ports"]) {
            let number = u16::try_from(number(&port["containerPort"], 0)).expect("a port");
            this.ports.insert(number, free_address());
        }
        // The container runtime sets it.
        this.variables.insert("HOSTNAME".to_owned(), pod.to_owned());
        for variable in items(&container["env"]) {
            has_only("variable", variable, &["name", "value", "valueFrom"]);
            let value = if variable["valueFrom"].is_null() {
                this.expanded(variable["value"].as_str().unwrap_or_default())
            } else {
                let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
                assert_eq!(field, "metadata.name", "the test does not act out {variable}");
                pod.to_owned()
            };
            this.variables.insert(text(&variable["name"]).to_owned(), value);
        }
        let given = |name: &str| items(&container[name]).iter().map(|word| this.expanded(text(word)));
        let image = items(&container["command"]).is_empty().then(|| PROGRAM.to_owned());
        this.line = image.into_iter().chain(given("command")).chain(given("args")).collect();
        for value in this.variables.clone() {
            let translated = this.translated(&value.1);
            this.variables.insert(value.0, translated);
        }
        // The program knows this path itself, so no argument and no variable that could be translated names it.
        if let Some(file) = this.in_a_mount(CONFIGURATION) {
            let configuration = std::fs::read_to_string(&file).expect("a configuration");
            let named = this.mounts.iter().find(|(mount, _)| configuration.contains(mount));
            assert_eq!(named, None, "the test does not translate paths in files");
            this.variables.entry("DUPGATE_CONFIG".to_owned()).or_insert(file);
        }
        this
    }

    /// A field of the manifest.
    pub(crate) fn field(&self, name: &str) -> &Value {
        &self.spec[name]
    }

    /// The address that stands for a port, given by number or name.
    fn address(&self, port: &Value) -> SocketAddr {
        let named = items(&self.spec["ports"]).iter().find(|declared| declared["name"] == *port);
        let number = u16::try_from(number(named.map_or(port, |declared| &declared["containerPort"]), 0));
        self.ports[&number.expect("a port")]
    }

    /// Replaces `$(NAME)` by the value of a variable that is defined before.
    fn expanded(&self, text: &str) -> String {
        assert!(!text.contains("$$"), "the test does not act out escapes: {text}");
        self.variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
    }

    /// The path of a file below a mount.
    fn in_a_mount(&self, path: &str) -> Option<String> {
        let inside = |(mount, folder): &(String, PathBuf)| Some(folder.join(Path::new(path).strip_prefix(mount).ok()?));
        Some(self.mounts.iter().find_map(inside)?.to_str().expect("a path of text").to_owned())
    }

    /// What a word of the container is outside of it.
    fn translated(&self, word: &str) -> String {
        match word.parse::<SocketAddr>() {
            // Pods share the address of the machine, so each of their ports has another number there.
            Ok(listener) if listener.ip().is_unspecified() => {
                let address = self.ports.get(&listener.port());
                address.unwrap_or_else(|| panic!("no port of the container is {word}: {:?}", self.ports)).to_string()
            }
            _ => self.in_a_mount(word).unwrap_or_else(|| word.to_owned()),
        }
    }

    /// A command of the container. The image does not even have a shell.
    fn command(&self, line: &[String]) -> Command {
        let (program, arguments) = line.split_first().expect("a program");
        assert_eq!(program, PROGRAM, "the image has no other program");
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        command.args(arguments.iter().map(|word| self.translated(word))).env_clear().envs(&self.variables);
        command
    }
}

/// The mounts of the only container: paths, and the folders of volumes.
fn mounts(node: &Node, pod: &str, spec: &Value, claims: &[Value]) -> Vec<(String, PathBuf)> {
    let mut volumes = BTreeMap::new();
    for volume in items(&spec["volumes"]) {
        has_only("volume", volume, &["configMap", "emptyDir", "name"]);
        let name = text(&volume["name"]);
        let map = &volume["configMap"];
        let folder = if map.is_null() { node.volume(pod, name) } else { node.config_map(text(&map["name"])) };
        volumes.insert(name, folder);
    }
    for claim in claims {
        let name = text(&claim["metadata"]["name"]);
        // A pod finds it again when it is replaced.
        volumes.insert(name, node.volume(pod, name));
    }
    let mount = |mount: &Value| {
        has_only("mount", mount, &["mountPath", "name", "readOnly"]);
        (text(&mount["mountPath"]).to_owned(), volumes[text(&mount["name"])].clone())
    };
    items(&spec["containers"][0]["volumeMounts"]).iter().map(mount).collect()
}

/// What a probe or a hook does.
#[derive(Clone, Debug)]
pub(crate) enum Handler {
    Exec(Vec<String>),
    HttpGet { path: String, port: Value },
    Sleep(Duration),
}

impl Handler {
    /// The fields that say it.
    pub(crate) const FIELDS: [&'static str; 3] = ["exec", "httpGet", "sleep"];

    pub(crate) fn new(spec: &Value) -> Self {
        if let Some(words) = spec["exec"]["command"].as_array() {
            return Self::Exec(words.iter().map(|word| text(word).to_owned()).collect());
        }
        if spec["httpGet"].is_object() {
            has_only("httpGet", &spec["httpGet"], &["path", "port"]);
            return Self::HttpGet {
                path: text(&spec["httpGet"]["path"]).to_owned(),
                port: spec["httpGet"]["port"].clone(),
            };
        }
        assert!(spec["sleep"].is_object(), "{spec} says nothing to do");
        Self::Sleep(seconds(&spec["sleep"]["seconds"], 0))
    }

    /// Does it, and returns whether it has succeeded in time.
    pub(crate) fn holds(&self, container: &Container, timeout: Duration) -> bool {
        match self {
            Self::Exec(line) => succeeds(&mut container.command(line), timeout),
            Self::HttpGet { path, port } => {
                let answer = http::get_within(container.address(port), path, timeout);
                answer.is_some_and(|(status, _)| (200..400).contains(&status))
            }
            Self::Sleep(time) => {
                let end = Instant::now() + (*time).min(timeout);
                while Instant::now() < end {
                    std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
                }
                *time <= timeout
            }
        }
    }
}

/// Whether a command ends with code 0 in time. One that does not is killed.
fn succeeds(command: &mut Command, timeout: Duration) -> bool {
    let begun = Instant::now();
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = silent.spawn().expect("the program starts");
    while begun.elapsed() < timeout {
        if let Some(status) = child.try_wait().expect("the state of the process") {
            return status.success();
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    child.kill().and_then(|()| child.wait()).expect("the process is killed");
    false
}

/// A running pod.
#[derive(Debug)]
pub(crate) struct Pod {
    grace: Duration,
    container: Arc<Container>,
    prober: Prober,
    instance: Instance,
}

impl Pod {
    /// Starts a pod of this template; `claims` are the volumes that are its own.
    pub(crate) fn start(node: &Node, name: &str, template: &Value, claims: &[Value]) -> Self {
        let spec = &template["spec"];
        let container = Arc::new(Container::new(node, name, spec, claims));
        has_only("lifecycle", container.field("lifecycle"), &["preStop"]);
        let http = container.address(&Value::from("http"));
        let instance = Instance::spawn(name, &node.0, http, container.command(&container.line));
        let prober = Prober::start(&container);
        Self { grace: seconds(&spec["terminationGracePeriodSeconds"], 30), container, prober, instance }
    }

    pub(crate) fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The settings that its configuration and its variables resolve to.
    pub(crate) fn settings(&self) -> Settings {
        let variables = &self.container.variables;
        let mut layers = Layers::new(variables.clone());
        layers.file(CONFIGURATION, &std::fs::read_to_string(&variables["DUPGATE_CONFIG"]).expect("a configuration"));
        layers.environment();
        layers.resolve(&ExternalInputs::default(), Purpose::Run).expect("a valid configuration").0
    }

    /// Whether it has been ready for this long. Neither a probe nor the program may have ended the container.
    pub(crate) fn is_available(&mut self, min_ready: Duration) -> bool {
        let (name, health) = (self.instance.name().to_owned(), self.prober.health());
        assert_eq!(self.instance.has_ended(), None, "{name} ended by itself");
        assert_eq!(health.failed, None, "{name} would be restarted by its probe");
        health.ready_since.is_some_and(|since| since.elapsed() >= min_ready)
    }

    /// Stops it: the hook, then SIGTERM. It must end by itself within its grace period, with code 0.
    pub(crate) fn terminate(self) {
        let begun = Instant::now();
        let Self { grace, container, prober, instance } = self;
        drop(prober);
        let hook = &container.field("lifecycle")["preStop"];
        if !hook.is_null() {
            has_only("preStop", hook, &Handler::FIELDS);
            let name = instance.name();
            assert!(Handler::new(hook).holds(&container, grace), "the hook of {name} failed: {hook}");
        }
        instance.stop_within(grace.saturating_sub(begun.elapsed()));
    }
}

/// Waits until all of these pods have been ready for this long.
pub(crate) fn wait_until_available(pods: &mut [Pod], min_ready: Duration) {
    for pod in pods {
        let what = format!("{} to be available: {}", pod.instance().name(), pod.instance().readiness());
        wait::until(&what, || pod.is_available(min_ready).then_some(()));
    }
}
