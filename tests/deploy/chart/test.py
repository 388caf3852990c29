"""Tests the Helm chart. run.sh installs the tools and passes their folder; step names as arguments run only those steps."""

import copy
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from pathlib import Path

import yaml

from cluster import Cluster

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[2] / "helm/dupgate"
CASES = sorted(CHART.glob("ci/*-values.yaml"))
TOOLS = Path(sys.argv[1])
DUPGATE = os.environ["DUPGATE_BIN"]
VERSIONS = sorted(path.name[1:].split("-")[0] for path in TOOLS.glob("schemas/v*"))
NEWEST = VERSIONS[-1]
RELEASE, NAMESPACE = "gate", "crawl"
# URL of docs/RUNBOOKS.md, unless the values set another.
RUNBOOKS = "https://github.com/dupgate/dupgate/blob/main/docs/RUNBOOKS.md"


class Failed(Exception):
    """An expectation that does not hold."""


class StrictLoader(yaml.SafeLoader):
    """Rejects repeated keys, as strict validation by an API server does."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise Failed(f"line {node.start_mark.line + 1}: {key} is there {keys.count(key)} times")
        return super().construct_mapping(node, deep)


def expect(condition, what, why=""):
    """Prints the expectation if it holds, otherwise fails with it and the reason."""
    if not condition:
        raise Failed(f"{what}: {why}" if why else what)
    print(f"  ok  {what}", flush=True)


def run(*command, env=None, text=None):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=env, input=text, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


def helm(*arguments, env=None):
    return run(TOOLS / "bin/helm", *arguments, env=env)


@functools.cache
def template(*arguments, version=NEWEST):
    return helm("template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", version, *arguments)


def render(*arguments, version=NEWEST):
    """Returns the objects that the chart renders."""
    code, out, error = template(*arguments, version=version)
    if code:
        raise Failed(f"helm template {' '.join(map(str, arguments))}: {error.strip()}")
    return parsed(out)


def parsed(text):
    return [each for each in yaml.load_all(text, StrictLoader) if each]


def of_kind(objects, kind, name=""):
    return [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name)]


def one(objects, kind, name=""):
    found = of_kind(objects, kind, name)
    if len(found) != 1:
        raise Failed(f"{len(found)} objects {kind} *{name} instead of one")
    return found[0]


def values(case):
    return ["--values", CHART / f"ci/{case}-values.yaml"]


def sets(assignments):
    return [part for each in assignments for part in ("--set", each)]


def pods(objects):
    """Yields metadata, spec and component of every pod that the objects create."""
    for each in objects:
        spec = each.get("spec", {})
        spec = spec["jobTemplate"]["spec"] if each["kind"] == "CronJob" else spec
        pod = each if each["kind"] == "Pod" else spec.get("template")
        if each["kind"] in ("Pod", "Job", "CronJob", "StatefulSet", "Deployment"):
            yield pod["metadata"]["labels"]["app.kubernetes.io/component"], each, pod


# 1. Lint


def lint():
    for case in CASES:
        code, out, error = helm("lint", "--strict", "--kube-version", NEWEST, CHART, "--values", case)
        expect(code == 0, f"helm lint --strict with {case.name}", out + error)


# 2. Manifests against the schemas of Kubernetes


def manifests():
    for version in VERSIONS:
        texts = {}
        for case in CASES:
            code, texts[case.name], error = template("--values", case, version=version)
            expect(code == 0, f"{case.name} renders for Kubernetes {version}", error)
        conform(texts, version)


def conform(texts, version):
    """Checks manifests, by file name, with kubeconform."""
    built_in = "{{.NormalizedKubernetesVersion}}-standalone{{.StrictSuffix}}/{{.ResourceKind}}{{.KindSuffix}}.json"
    custom = "crds/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
    locations = [part for each in (built_in, custom) for part in ("-schema-location", f"{TOOLS}/schemas/{each}")]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text)
        code, out, error = run(
            TOOLS / "bin/kubeconform", "-strict", "-summary", "-kubernetes-version", version, *locations, folder
        )
    expect(code == 0, f"kubeconform -strict for Kubernetes {version}: {out.strip()}{error}")



# 3. Unusual values

OWN_NAME = r"app\.kubernetes\.io/name=prometheus"
# Texts to set over the values of all-on.
ODD = {
    "labels that repeat": [
        *("judges.podLabels.team=index", "workers.podLabels.team=text", "replayJob.podLabels.team=batch"),
        *(f"podMonitor.labels.{OWN_NAME}", f"prometheusRule.labels.{OWN_NAME}", "dashboards.label=team"),
    ],
    "annotations that repeat": [
        r"judges.podAnnotations.kubectl\.kubernetes\.io/default-container=shell",
        r"keda.annotations.example\.org/owner=keda",
    ],
    "variables that repeat": [
        *("extraEnv[0].name=REGION_TOKEN", "extraEnv[0].value=a", "extraEnv[1].name=A", "extraEnv[1].value=a"),
        *("judges.extraEnv[0].name=A", "judges.extraEnv[0].value=b"),
    ],
    "names that read as numbers or booleans": [
        *("fullnameOverride=12", "nameOverride=1e3", "serviceAccount.name=0", "priorityClassName=1"),
        *("existingSecret=123", "tls.existingSecret=1e3", "admin.existingSecret=007", "admin.secretKey=true"),
        *("secretEnv.Y.secret=0", "secretEnv.Y.key=on", "ingress.className=1", "judges.persistence.storageClassName=1"),
        *("keda.triggerMetadata.on=yes", "commonLabels.on=off", "image.tag=1", "image.digest=", "configFiles.1=a"),
        *("judges.persistence.size=1", "judges.persistence.mountPath=/a: b", "tls.mountPath=/a #b"),
    ],
    "addresses of IPv6": ["http.address=::"],
    "no instance": ["judges.roles[0]=judge"],
}
NUMBERS = {"no instance": ["judges.replicas=0", "workers.replicas=0", "keda.enabled=false"]}


def odd_values():
    """Values that repeat each other or read as another type: the manifests stay valid."""
    texts, objects = {}, {}
    for what, assignments in ODD.items():
        strings = [part for each in assignments for part in ("--set-string", each)]
        arguments = ["--kube-version", NEWEST, *values("all-on"), *strings, *sets(NUMBERS.get(what, ()))]
        # The name of a release and of a namespace may be a number, too.
        for release, namespace in ((RELEASE, NAMESPACE), ("1", "42")):
            code, text, error = helm("template", release, CHART, "--namespace", namespace, *arguments)
            expect(code == 0, f"{what}: rendered as release {release}", error)
            texts[f"{what}, {release}.yaml"] = text
        objects[what] = parsed(texts[f"{what}, {RELEASE}.yaml"])
        parsed(text)
    conform(texts, NEWEST)

    labels = {component: pod["metadata"]["labels"] for component, _, pod in pods(objects["labels that repeat"])}
    expect(
        [labels[each]["team"] for each in ("judge", "worker", "replay", "check")] == ["index", "text", "batch", "search"],
        "podLabels replace commonLabels",
        labels,
    )
    monitor = of_kind(objects["labels that repeat"], "PodMonitor")[0]
    expect(
        monitor["metadata"]["labels"]["app.kubernetes.io/name"] == "prometheus"
        and monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "dupgate",
        "podMonitor.labels replace labels of the PodMonitor, not its selector",
        monitor,
    )
    annotations = {kind: pod["metadata"]["annotations"] for _, kind, pod in annotated(objects["annotations that repeat"])}
    key = "kubectl.kubernetes.io/default-container"
    expect(
        (annotations["StatefulSet"][key], annotations["Deployment"][key]) == ("shell", "dupgate"),
        "podAnnotations replace annotations of the chart",
        annotations,
    )
    scaled = one(objects["annotations that repeat"], "ScaledObject")["metadata"]["annotations"]
    expect(scaled == {"example.org/owner": "keda"}, "keda.annotations replace commonAnnotations", scaled)

    seen = {component: environment(pod) for component, _, pod in pods(objects["variables that repeat"])}
    expect(
        {name: (seen[name]["REGION_TOKEN"], seen[name]["A"]) for name in ("judge", "worker", "check")}
        == {"judge": ("a", "b"), "worker": ("a", "a"), "check": ("a", "a")},
        "extraEnv replaces secretEnv, and that of judges replaces both",
        seen,
    )

    stopped = objects["no instance"]
    judges = one(stopped, "StatefulSet")
    expect(
        judges["spec"]["replicas"] == 0 and not of_kind(stopped, "Deployment") and not of_kind(stopped, "PodDisruptionBudget"),
        "replicas of 0 stop judges and workers, and need no disruption budget",
    )
    expect(
        judges["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "the volumes of judges that are stopped stay",
    )
    paused = ["--set-string", r"keda.annotations.autoscaling\.keda\.sh/paused-replicas=0"]
    paused = one(render(*values("workers-keda"), *paused), "ScaledObject")["metadata"]["annotations"]
    expect(paused == {"autoscaling.keda.sh/paused-replicas": "0"}, "keda.annotations pause KEDA", paused)

    replay = next(pod for component, _, pod in pods(objects["addresses of IPv6"]) if component == "replay")
    expect(
        replay["spec"]["containers"][0]["args"][-1] == "--listen=[::]:9464",
        "a replay listens on an IPv6 address",
        replay["spec"]["containers"][0]["args"],
    )
    for address in ("::", "[::]", "::1", "fd00::ffff:10.0.0.1"):
        for component in ("judge", "worker"):
            arguments = ["--set", f"http.address={address}", "--set", "workers.replicas=1"]
            rendered = render(*values("secured"), *arguments)
            listening(rendered, component, f"[{address.strip('[]')}]")


def annotated(objects):
    """Yields component, kind and pod of judges and workers."""
    return ((name, each["kind"], pod) for name, each, pod in pods(objects) if each["kind"] in ("StatefulSet", "Deployment"))


def environment(pod):
    """Returns the variables of the first container, by name; no name repeats."""
    variables = pod["spec"]["containers"][0]["env"]
    names = [each["name"] for each in variables]
    expect(len(set(names)) == len(names), "no variable is there twice", names)
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in variables}


def listening(objects, component, host):
    """The program listens on this host."""
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")}
    spec = next(pod["spec"] for name, _, pod in pods(objects) if name == component)
    with tempfile.TemporaryDirectory() as root:
        file, env = laid_out(component, spec, spec["containers"][0], maps, Path(root))
        code, shown, error = run(DUPGATE, "config", "show", "-c", file, "-o", "json", env=env)
    expect(code == 0, f"the program accepts {host} as {component}", error)
    http = json.loads(shown)["http"]
    expect(
        (http["listen"], http["admin"]["listen"]) == (f"{host}:9464", f"{host}:9465"),
        f"a {component} listens on {host}",
        http,
    )


# 4. Contents of the rendered objects


def objects():
    everything = render(*values("all-on"))
    kinds = {each["kind"] for each in everything}
    wanted = {
        "ConfigMap",
        "ServiceAccount",
        "StatefulSet",
        "Deployment",
        "Service",
        "Ingress",
        "HTTPRoute",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "PrometheusRule",
        "ScaledObject",
        "Job",
        "CronJob",
        "Pod",
    }
    expect(kinds == wanted, "all-on renders every kind of object there is", sorted(wanted ^ kinds))
    selectors(everything)

    alerts = {
        rule["alert"]: rule for group in one(everything, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]
    }
    source = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    source = {rule["alert"]: rule for group in source["groups"] for rule in group["rules"] if "alert" in rule}
    expect(set(source) - set(alerts) == {"DupgateNoJudge"}, "prometheusRule.disabled leaves out that alert alone")
    down, original = alerts["DupgateDown"], source["DupgateDown"]
    expect(
        down["labels"]["severity"] == "warning" != original["labels"]["severity"],
        "prometheusRule.severity replaces a severity",
    )
    expect(down["labels"].get("team") == "search", "prometheusRule.ruleLabels are added")
    expect(
        all(rule["expr"] == source[name]["expr"] for name, rule in alerts.items()),
        "expressions are as in files/alerts.yaml",
    )
    summary = down["annotations"]["summary"]
    expect(
        "{{ $labels" in summary and summary == original["annotations"]["summary"],
        "templates of Prometheus are left alone",
    )
    expect(
        all(
            rule["annotations"]["runbook_url"] == f"https://runbooks.example.org/dupgate/{name}"
            for name, rule in alerts.items()
        ),
        "runbook_url begins with prometheusRule.runbookBaseUrl",
    )
    page = one(render(*values("production")), "PrometheusRule")["spec"]["groups"][0]["rules"][0]
    expect(
        page["annotations"]["runbook_url"].endswith(f"/docs/RUNBOOKS.md#{page['alert'].lower()}"),
        "runbook_url is a section of a page by default",
    )
    text = json.dumps(of_kind(render(*values("all-on"), "--set", "prometheusRule.runbookBaseUrl="), "PrometheusRule"))
    expect("runbook_url" not in text and "RUNBOOKS" not in text, "without runbookBaseUrl there is no runbook_url")

    for file in sorted(CHART.glob("files/dashboards/*.json")):
        found = one(everything, "ConfigMap", f"-{file.stem}")
        expect(
            found["metadata"]["labels"].get("grafana_dashboard") == "1"
            and json.loads(found["data"][f"dupgate-{file.name}"])
            == json.loads(file.read_text().replace(RUNBOOKS, "https://runbooks.example.org/dupgate/")),
            f"dashboard {file.stem} is carried whole, with the label of the sidecar",
        )
        expect(len(json.dumps(found)) < 262144, f"dashboard {file.stem} is small enough for kubectl apply")

    moved = ["dashboards.operatorPage=https://gate.example.org/ui/?a=b&c", "prometheusRule.runbookBaseUrl=https://wiki.example.org/R.md"]
    for file in sorted(CHART.glob("files/dashboards/*.json")):
        carried = one(render(*values("production")), "ConfigMap", f"-{file.stem}")["data"][f"dupgate-{file.name}"]
        expect(json.loads(carried) == json.loads(file.read_text()), f"dashboard {file.stem} has its own addresses by default")
        carried = one(render(*values("production"), *sets(moved)), "ConfigMap", f"-{file.stem}")["data"][f"dupgate-{file.name}"]
        variables = {each["name"]: each for each in json.loads(carried)["templating"]["list"]}
        expect(
            variables["operator_page"]["current"]["value"] == "https://gate.example.org/ui/?a=b&c"
            and variables["runbooks"]["query"] == "https://wiki.example.org/R.md"
            and "localhost" not in carried
            and "github.com" not in carried,
            f"dashboard {file.stem} leads to dashboards.operatorPage and to prometheusRule.runbookBaseUrl",
        )

    roles = {
        each["kind"]: variable["value"]
        for _, each, pod in pods(render(*values("production"), *sets(["judges.roles={judge}"])))
        for variable in pod["spec"]["containers"][0].get("env", ())
        if variable["name"] == "DUPGATE_ROLES"
    }
    expect(roles == {"StatefulSet": "judge", "Deployment": "worker"}, "judges.roles says what judges do", roles)
    service_pods = [pod for _, each, pod in pods(everything) if each["kind"] in ("StatefulSet", "Deployment")]
    expect(
        not any("helm.sh/chart" in pod["metadata"]["labels"] for pod in service_pods),
        "no pod names the version of the chart, and a new one alone replaces none",
    )

    first = render(*values("first-try"))
    expect(
        {each["kind"] for each in first} == {"ConfigMap", "ServiceAccount", "Service", "StatefulSet", "Pod"},
        "first-try renders no more than it needs",
    )
    expect("volumeClaimTemplates" not in one(first, "StatefulSet")["spec"], "first-try has no volume")
    production = render(*values("production"))
    expect(
        len(of_kind(production, "PodDisruptionBudget")) == 2,
        "production has a disruption budget for judges and workers",
    )
    expect(
        not of_kind(
            render(*values("production"), *sets(["judges.replicas=1", "workers.replicas=1"])), "PodDisruptionBudget"
        ),
        "one replica has no disruption budget",
    )

    scaled = one(everything, "ScaledObject")
    workers = one(everything, "Deployment")
    expect(scaled["spec"]["scaleTargetRef"]["name"] == workers["metadata"]["name"], "KEDA scales the workers")
    expect("replicas" not in workers["spec"], "with KEDA the chart sets no number of workers")
    triggers = one(render(*values("workers-keda")), "ScaledObject")["spec"]["triggers"]
    expect(
        [each["metadata"]["topic"] for each in triggers] == ["crawl.pages", "crawl.feeds"],
        "KEDA has a trigger for each topic",
    )
    observed = render(*values("workers-keda"), "--set", "config.mode=observe")
    expect(
        one(observed, "ScaledObject")["spec"]["triggers"][0]["metadata"]["consumerGroup"] == "dupgate.observe",
        "KEDA follows the group of mode observe",
    )

    replays()

    ports = [
        port["port"]
        for rule in one(render(*values("secured")), "NetworkPolicy")["spec"]["egress"]
        for port in rule["ports"]
    ]
    expect(
        ports == [53, 53, 5353, 5353, 9093, 9094], "the network policy lets DNS and the ports of the brokers out", ports
    )
    # The program reads a list or a text, and a broker without a port listens on 9092.
    text = ["config.kafka.brokers=kafka-1\\, kafka-2:9094", "config.input.topics=crawl.pages", "networkPolicy.dnsPorts=null"]
    texts = render(*values("workers-keda"), "--set", "networkPolicy.enabled=true", *sets(text))
    egress = one(texts, "NetworkPolicy")["spec"]["egress"]
    expect(
        egress == [{"ports": [{"port": 9092, "protocol": "TCP"}, {"port": 9094, "protocol": "TCP"}]}],
        "brokers may be a text, and have no port; without dnsPorts there is no rule for DNS",
        egress,
    )
    (trigger,) = one(texts, "ScaledObject")["spec"]["triggers"]
    expect(
        (trigger["metadata"]["bootstrapServers"], trigger["metadata"]["topic"]) == ("kafka-1,kafka-2:9094", "crawl.pages"),
        "KEDA reads them, too",
        trigger,
    )
    job, hook = one(everything, "Job"), one(everything, "ConfigMap", "-topics")
    release = one(everything, "ConfigMap", "dupgate-all")
    expect(
        hook["data"] == release["data"]
        and "helm.sh/hook" in hook["metadata"]["annotations"]
        and "helm.sh/hook" not in release["metadata"].get("annotations", {}),
        "the hook has a ConfigMap of its own, the same",
    )
    expect(
        "serviceAccountName" not in job["spec"]["template"]["spec"],
        "the hook does not need the release's service account",
    )
    _, help_text, _ = run(DUPGATE, "topics", "create", "--help")
    flags = [
        arg.split("=")[0] for arg in job["spec"]["template"]["spec"]["containers"][0]["args"] if arg.startswith("--")
    ]
    expect(len(flags) == 4 and all(flag in help_text for flag in flags), f"dupgate topics create has {' '.join(flags)}")
    mounted = render("--set", "existingConfigMap=mine", "--set", "topicsJob.enabled=true")
    names = {
        volume["configMap"]["name"]
        for _, _, pod in pods(mounted)
        for volume in pod["spec"]["volumes"]
        if "configMap" in volume
    }
    expect(
        names == {"mine"} and not of_kind(mounted, "ConfigMap"),
        "existingConfigMap is mounted everywhere, and none is rendered",
    )


def replays():
    """The replay template never runs by itself; a Job created from it runs once and can be scraped."""
    made = render(*values("replay"))
    cron = one(made, "CronJob")
    job = cron["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    expect(cron["spec"]["suspend"] is True, "the CronJob of replays is suspended")
    expect(
        (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never"),
        "a replay that failed is not begun a second time",
    )
    wanted = yaml.safe_load((CHART / "ci/replay-values.yaml").read_text())["replayJob"]["args"]
    expect(
        container["args"] == ["replay", *wanted, "--listen=0.0.0.0:9464"],
        "replayJob.args follow dupgate replay, and the chart adds --listen",
        container["args"],
    )
    _, help_text, _ = run(DUPGATE, "replay", "run", "--help")
    flags = [arg.split("=")[0] for arg in container["args"] if arg.startswith("--")]
    expect(all(flag in help_text for flag in flags), f"dupgate replay run has {' '.join(flags)}")
    ports = [port["port"] for each in of_kind(made, "PodMonitor") for port in each["spec"]["podMetricsEndpoints"]]
    expect(
        ports == ["http", "http"] and [port["name"] for port in container["ports"]] == ["http"],
        "the PodMonitors ask for a port that the pods have",
    )
    policy = one(made, "NetworkPolicy")["spec"]["ingress"][0]["ports"]
    expect(policy == [{"port": "http", "protocol": "TCP"}], "the network policy lets Prometheus read the replay's metrics")
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    path = next(each["value"] for each in container["env"] if each["name"] == "DUPGATE_INDEX__PATH")
    expect(writable == [path], "the lock of a replay is written to a volume", writable)
    listed = one(render(*values("replay"), "--set", "replayJob.args={list}"), "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    expect(
        listed["spec"]["containers"][0]["args"] == ["replay", "list"] and "dupgate/serves" not in listed["metadata"]["labels"],
        "what does not listen is not scraped",
    )


def selectors(everything):
    """Every selector matches the intended pods and no others."""
    labels = {component: pod["metadata"]["labels"] for component, _, pod in pods(everything)}
    labels["judge"] = {**labels["judge"], "statefulset.kubernetes.io/pod-name": "dupgate-all-judge-1"}
    expect(set(labels) == {"judge", "worker", "topics", "replay", "check"}, "there are pods of five components")

    def found(selector):
        return {name for name, pod in labels.items() if selector.items() <= pod.items()}

    def checked(what, selector, wanted):
        expect(found(selector) == wanted, f"{what} selects {' and '.join(sorted(wanted))}")

    for service, wanted in (
        ("dupgate-all", {"judge", "worker"}),
        ("dupgate-all-judge", {"judge"}),
        ("dupgate-all-admin", {"judge"}),
    ):
        exact = [each for each in of_kind(everything, "Service") if each["metadata"]["name"] == service]
        checked(f"service {service}", exact[0]["spec"]["selector"], wanted)
        if service != "dupgate-all":
            expect(
                exact[0]["spec"].get("publishNotReadyAddresses"), f"service {service} leads to judges that are not ready, too"
            )
    for monitor, wanted in (("dupgate-all", {"judge", "worker"}), ("dupgate-all-replay", {"replay"})):
        exact = [each for each in of_kind(everything, "PodMonitor") if each["metadata"]["name"] == monitor]
        checked(f"the PodMonitor {monitor}", exact[0]["spec"]["selector"]["matchLabels"], wanted)
    checked("the network policy", one(everything, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"], set(labels))
    for kind, component in (("StatefulSet", "judge"), ("Deployment", "worker")):
        spec = one(everything, kind)["spec"]
        checked(kind, spec["selector"]["matchLabels"], {component})
        spread = [
            each["labelSelector"]["matchLabels"] for each in spec["template"]["spec"]["topologySpreadConstraints"]
        ]
        expect(len(spread) == 2 and all(found(each) == {component} for each in spread), f"{kind} spreads its own pods")
        checked(
            f"the disruption budget of {kind}",
            one(everything, "PodDisruptionBudget", f"-{component}")["spec"]["selector"]["matchLabels"],
            {component},
        )


# 5. Rendered configurations, checked by the program


def configuration():
    for case in CASES:
        objects = render("--values", case)
        maps = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")}
        for component, _, pod in pods(objects):
            container = next(
                each for each in pod["spec"]["containers"] if each["name"] in ("dupgate", "topics", "replay", "check")
            )
            with tempfile.TemporaryDirectory() as root:
                read_by_program(case, component, pod["spec"], container, maps, Path(root))


def laid_out(component, spec, container, maps, root):
    """Writes the files of a container below a folder; returns its configuration file and its environment."""
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = sorted((mount["mountPath"] for mount in container["volumeMounts"]), key=len, reverse=True)

    def moved(text):
        for path in mounts:
            text = re.sub(rf"(?<![\w.-]){re.escape(path)}(?=/|\b)", f"{root}{path}", text)
        return text

    for mount in container["volumeMounts"]:
        folder = root / mount["mountPath"][1:]
        folder.mkdir(parents=True)
        source = volumes.get(mount["name"], {}).get("configMap")
        for name, text in maps[source["name"]].items() if source else ():
            (folder / name).write_text(moved(text))
        for item in volumes.get(mount["name"], {}).get("secret", {}).get("items", ()):
            (folder / item["path"]).write_text("sixteen-characters-or-more")
    env = {"PATH": os.environ["PATH"]}
    for variable in container.get("env", ()):
        if "value" in variable:
            env[variable["name"]] = moved(variable["value"].replace("$(POD_NAME)", env.get("POD_NAME", "")))
        elif "fieldRef" in variable["valueFrom"]:
            env[variable["name"]] = f"{RELEASE}-{component}-0"
        else:
            env[variable["name"]] = "sixteen-characters-or-more"
    file = root / "etc/dupgate/dupgate.yaml"
    # Secrets that the configuration reads from mounted Secret files.
    for path in re.findall(rf"{re.escape(str(root))}/run/secrets/[\w./-]+", file.read_text()):
        Path(path).write_text("sixteen-characters-or-more")
    return file, env


def read_by_program(case, component, spec, container, maps, root):
    """Returns the configuration that the program would use in a container."""
    file, env = laid_out(component, spec, container, maps, root)
    arguments = container["args"][1:] if container["args"][0] == "run" else []
    code, _, error = run(DUPGATE, "validate", "-c", file, *arguments, env=env)
    expect(code == 0, f"{case.name}: dupgate validate as {component}", error)
    if component not in ("judge", "worker"):
        return
    _, shown, _ = run(DUPGATE, "config", "show", "-c", file, "-o", "json", env=env)
    shown = json.loads(shown)
    instance = f"{RELEASE}-judge-0" if component == "judge" else ""
    is_admin = any(port["name"] == "admin" for port in container["ports"])
    expect(
        shown["roles"] == (["worker", "judge"] if component == "judge" else ["worker"])
        and shown["input"]["instance_id"] == instance
        and shown["http"]["listen"] == "0.0.0.0:9464"
        and shown["http"]["admin"]["listen"] == ("0.0.0.0:9465" if is_admin else None)
        and (component == "worker" or shown["index"]["path"] == f"{root}/var/lib/dupgate"),
        f"{case.name}: roles, instance_id, listeners and path are those of a {component}",
    )


# 6. The command of `helm test`, against a broker


class Kafka:
    """A broker that runs as long as this object exists."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [CHART.parents[1] / "tests/broker/kafka.sh", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for line in self.process.stdout:
            if line.startswith("ready "):
                return line.split()[1]
        raise Failed("the broker did not start")

    def __exit__(self, *_):
        # The script stops the broker when its input closes.
        self.process.stdin.close()
        self.process.wait(60)


def helm_test():
    with Kafka() as address, tempfile.TemporaryDirectory() as folder:
        topic = f"crawl.pages.{os.getpid()}"
        brokers = [f"config.kafka.brokers={{{address}}}", f"config.input.topics={{{topic}}}"]

        def checked(root):
            objects = render(*values("first-try"), *sets(brokers))
            maps = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")}
            spec = one(objects, "Pod")["spec"]
            (container,) = spec["containers"]
            file, env = laid_out("check", spec, container, maps, root)
            # The image has the file at the path that the program expects.
            return file, env, run(DUPGATE, *container["args"], env={**env, "DUPGATE_CONFIG": str(file)})

        file, env, (code, out, error) = checked(Path(folder) / "first")
        expect(code == 69 and topic in out and "FAIL" in out.upper(), "the test fails where a topic is missing", out + error)
        create = ("topics", "create", "--with-input", "--partitions", "2", "--replication-factor", "1", "--execute")
        code, out, error = run(DUPGATE, *create, "-c", file, env=env)
        expect(code == 0, "dupgate topics create makes them", out + error)
        _, _, (code, out, error) = checked(Path(folder) / "second")
        expect(code == 0 and "transactions" in out, "the test passes where all is there", out + error)


# 7. Values that must be rejected, with the message

REFUSED = [
    (
        "an unknown key of config",
        ["config.match.simhash.max_distnce=3"],
        "additional properties 'max_distnce' not allowed",
    ),
    ("a wrong type in config", ["config.match.simhash.max_distance=far"], "/config/match/simhash/max_distance"),
    ("an unknown mode", ["config.mode=rout"], "value must be one of 'route', 'tag', 'observe'"),
    ("an unknown value", ["judge.replicas=3"], "additional properties 'judge' not allowed"),
    ("a wrong type", ["judges.replicas=many"], "at '/judges/replicas': got string, want integer"),
    ("fewer judges than none", ["judges.replicas=-1"], "at '/judges/replicas': minimum: got -1, want 0"),
    ("scaling to zero", ["keda.minReplicas=0"], "at '/keda/minReplicas': minimum: got 0, want 1"),
    ("admin without a token", ["admin.enabled=true"], "admin.enabled needs admin.existingSecret"),
    (
        "an admin page of a judge that is not there",
        ["admin.enabled=true", "admin.existingSecret=a", "admin.judge=2"],
        "there is no judge 2",
    ),
    ("an ingress to nothing", ["ingress.enabled=true"], "ingress.enabled needs admin.enabled"),
    ("a route to nothing", ["httpRoute.enabled=true"], "httpRoute.enabled needs admin.enabled"),
    (
        "an ingress without a host",
        ["admin.enabled=true", "admin.existingSecret=a", "ingress.enabled=true"],
        "ingress.enabled needs ingress.hosts",
    ),
    (
        "a route without a gateway",
        ["admin.enabled=true", "admin.existingSecret=a", "httpRoute.enabled=true"],
        "needs httpRoute.parentRefs",
    ),
    ("a password in a ConfigMap", ["config.kafka.security.sasl.password=hunter2"], "would be readable in a ConfigMap"),
    ("roles in config", ["config.roles={worker}"], "config.roles is set by the chart"),
    ("one instance_id for all", ["config.input.instance_id=gate"], "must not be the same for all instances"),
    ("another path than the volume's", ["config.index.path=/data"], "set judges.persistence.mountPath instead"),
    ("another listener", ["config.http.listen=0.0.0.0:8080"], "set http.address and http.port instead"),
    (
        "a variable of the chart's",
        ["extraEnv[0].name=DUPGATE_ROLES", "extraEnv[0].value=judge"],
        "DUPGATE_ROLES is set by the chart",
    ),
    ("two configurations", ["existingConfigMap=mine"], "config and existingConfigMap exclude each other"),
    (
        "files beside a ConfigMap that is there",
        ["existingConfigMap=mine", "configFiles.a=b"],
        "configFiles and existingConfigMap exclude",
    ),
    ("a second dupgate.yaml", ["configFiles.dupgate\\.yaml=b"], "dupgate.yaml is written from config"),
    ("admin in config", ["config.http.admin.text=full"], "config.http.admin is set by the chart"),
    (
        "two listeners on one port",
        ["admin.enabled=true", "admin.existingSecret=a", "admin.port=9464"],
        "admin.port must not be http.port",
    ),
    (
        "a mount in the ConfigMap",
        ["tls.existingSecret=a", "tls.mountPath=/etc/dupgate/tls"],
        "nothing can be mounted in /etc/dupgate",
    ),
    (
        "an alert that is not there",
        ["prometheusRule.enabled=true", "prometheusRule.disabled={DupgateDwon}"],
        "there is no alert DupgateDwon",
    ),
    (
        "KEDA with both ways to share partitions",
        ["keda.enabled=true", "keda.limitToPartitionsWithLag=true", "keda.ensureEvenDistributionOfPartitions=true"],
        "exclude each other",
    ),
    (
        "KEDA with more workers at least than at most",
        ["keda.enabled=true", "keda.minReplicas=9"],
        "keda.maxReplicas is less than",
    ),
    (
        "KEDA on a pattern",
        ["keda.enabled=true", "config.input.topics={^crawl}"],
        "KEDA cannot follow the pattern ^crawl",
    ),
    (
        "metadata of KEDA that the chart writes",
        ["keda.enabled=true", "keda.triggerMetadata.lagThreshold=7"],
        "invalid propertyName 'lagThreshold'",
    ),
    ("judges that do not judge", ["judges.roles={worker}"], "judges.roles must have judge"),
    ("judges with an unknown role", ["judges.roles={judge,jduge}"], "at '/judges/roles/1'"),
    (
        "a label of the chart on all objects",
        [r"commonLabels.app\.kubernetes\.io/name=search"],
        "commonLabels: app.kubernetes.io/name is set by the chart",
    ),
    (
        "a label of the chart on judges",
        [r"judges.podLabels.app\.kubernetes\.io/component=worker"],
        "judges.podLabels: app.kubernetes.io/component is set by the chart",
    ),
    ("a label of the chart on workers", ["workers.podLabels.dupgate/serves=no"], "workers.podLabels: dupgate/serves is set"),
    (
        "a label of the chart on replays",
        ["replayJob.podLabels.helm\\.sh/chart=a"],
        "replayJob.podLabels: helm.sh/chart is set by the chart",
    ),
    (
        "another checksum",
        ["workers.podAnnotations.checksum/config=a"],
        "workers.podAnnotations: checksum/config is set by the chart",
    ),
    (
        "a variable of the chart from a Secret",
        ["secretEnv.DUPGATE_INDEX__PATH.secret=a", "secretEnv.DUPGATE_INDEX__PATH.key=b"],
        "secretEnv: DUPGATE_INDEX__PATH is set by the chart",
    ),
    ("an address with a port", ["http.address=0.0.0.0:9464"], "at '/http/address'"),
    ("a name in place of an address", ["http.address=localhost"], "at '/http/address'"),
    ("a replay of nothing", ["replayJob.enabled=true"], "replayJob.enabled needs replayJob.args"),
    ("another listener of a replay", ["replayJob.args={run,--listen=:1}"], "--listen is set by the chart"),
    ("a size that is none", ["judges.persistence.size=plenty"], "at '/judges/persistence/size'"),
]


def refusals():
    for what, assignments, message in REFUSED:
        code, _, error = template(*values("production"), *sets(assignments))
        expect(code != 0 and message in error, f"refused: {what}", error or "accepted")
    code, _, error = template()
    expect(code != 0 and error.count("is missing") == 5, "refused: no configuration at all, with all that is missing")
    code, _, error = template(*sets(["existingConfigMap=mine", "keda.enabled=true", "networkPolicy.enabled=true"]))
    unknown = (
        "networkPolicy.kafkaEgress",
        "keda.bootstrapServers is missing",
        "keda.topics is missing",
        "keda.consumerGroup is missing",
    )
    expect(
        code != 0 and all(each in error for each in unknown),
        "refused: existingConfigMap with what the chart cannot know",
    )
    code, _, error = template(*values("first-try"), "--set", "config.mode=route")
    expect(code != 0 and error.count("config.output.") == 3, "refused: mode route without outputs")
    observed = ["config.mode=observe", "config.input.topics={a}"]
    code, _, error = template(*sets(observed))
    expect(code != 0 and error.count("is missing") == 1 and "config.kafka.brokers" in error, "refused: no brokers")
    code, _, error = template(*sets([*observed, "extraEnv[0].name=DUPGATE_KAFKA__BROKERS", "extraEnv[0].value=k:9092"]))
    expect(code == 0, "accepted: brokers from the environment", error)
    for what, arguments in (
        ("a variable in place of a number", ["config.match.simhash.max_distance=${DISTANCE}"]),
        ("a password by a variable", ["config.kafka.security.sasl.password=${PASSWORD}"]),
    ):
        code, _, error = template(*values("production"), *sets(arguments))
        expect(code == 0, f"accepted: {what}", error)
    code, _, error = template("--set", "existingConfigMap=mine")
    expect(code == 0, "accepted: existingConfigMap without any config", error)


# 8. README and package


def package():
    code, _, error = run(sys.executable, HERE / "readme.py", "--check")
    expect(code == 0, "the README lists every value", error)
    with tempfile.TemporaryDirectory() as folder:
        code, _, error = helm("package", CHART, "--destination", folder)
        expect(code == 0, "helm package", error)
        archive = next(Path(folder).glob("dupgate-*.tgz"))
        with tarfile.open(archive) as files:
            names = {name.removeprefix("dupgate/") for name in files.getnames()}
        expect(
            {"values.schema.json", "README.md", "files/alerts.yaml", "templates/NOTES.txt"} <= names
            and not any(name.startswith("ci/") or name.endswith("_test.yaml") for name in names),
            "the package has what it needs, and no tests",
        )
        expect(
            archive.stat().st_size < 1 << 20,
            f"{archive.name} has {archive.stat().st_size >> 10} KiB: a release fits into a Secret",
        )


# 9. An API server


def installation():
    with tempfile.TemporaryDirectory() as folder, Cluster(TOOLS / "bin", Path(folder) / "cluster") as cluster:
        print("  the API server is ready", flush=True)
        for crd in sorted((TOOLS / "crds").glob("*.yaml")):
            cluster.kubectl("apply", "--server-side", "-f", str(crd))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=240s")
        for case in CASES:
            stored(cluster, case.name.removesuffix("-values.yaml"))
        replay_of_template(cluster)
        verify_in_a_pod_of_its_own(cluster)
        lifecycle(cluster)
        procedures(cluster)
        notes(cluster)


def namespace(cluster, name):
    """Creates a namespace that only admits pods that meet the restricted standard."""
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")


def stored(cluster, case):
    """Every object passes the server's validation, and every pod its admission."""
    namespace(cluster, case)
    env = cluster.environment()
    code, out, error = helm("install", RELEASE, CHART, "--namespace", case, *values(case), "--no-hooks", env=env)
    expect(code == 0, f"{case}: helm install", error)
    _, out, _ = helm("template", RELEASE, CHART, "--namespace", case, *values(case), "--kube-version", NEWEST)
    manifests = parsed(out)
    single = [copy.deepcopy(pod) for _, _, pod in pods(manifests)]
    # Containers added by the user are the user's responsibility.
    if case != "all-on":
        manifests += [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"pod-{number}", "labels": pod["metadata"]["labels"]},
                "spec": {"restartPolicy": "Always", **without_claims(pod["spec"])},
            }
            for number, pod in enumerate(single)
        ]
    else:
        manifests = [each for each in manifests if each["kind"] != "Pod"]
    text = yaml.safe_dump_all(manifests)
    done = cluster.kubectl(
        "apply",
        "--namespace",
        case,
        "--dry-run=server",
        "--validate=strict",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
        text=text,
        check=False,
    )
    warned = [line for line in done.stderr.splitlines() if "Warning" in line and "PodSecurity" not in line]
    expect(
        done.returncode == 0 and not warned,
        f"{case}: all {len(manifests)} objects and pods pass strict validation and admission",
        done.stderr,
    )


def replay_of_template(cluster):
    """The command in the notes creates a Job from the replay template."""
    case, name = "replay", f"{RELEASE}-dupgate-replay"
    cluster.kubectl("create", "job", f"{name}-1", f"--from=cronjob/{name}", "--namespace", case)
    job = json.loads(cluster.kubectl("get", "job", f"{name}-1", "--namespace", case, "-o", "json").stdout)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    expect(
        container["args"][:2] == ["replay", "run"] and not job["spec"].get("suspend"),
        "kubectl create job --from makes a replay of the suspended template",
        job["spec"],
    )


def verify_in_a_pod_of_its_own(cluster):
    """The documented command turns the pod of a judge into one that verifies, with memory of its own."""
    case, name = "production", "dupgate-judge-0"
    labels, template = next(
        (each["spec"]["selector"]["matchLabels"], pod)
        for component, each, pod in pods(render(*values(case)))
        if component == "judge"
    )
    # As the controller of a StatefulSet makes it.
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "dupgate-judge", "uid": "1", "controller": True}
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": f"state-{name}"}}
    spec = {**copy.deepcopy(template["spec"]), "nodeName": "node-1", "hostname": name, "subdomain": "dupgate-judge"}
    spec.pop("priorityClassName", None)
    spec["volumes"].append(claim)
    judge = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name, "ownerReferences": [owner]},
        "spec": spec,
    }
    made = cluster.kubectl("create", "--namespace", case, "-f", "-", "-o", "json", text=json.dumps(judge))
    (running,) = json.loads(made.stdout)["spec"]["containers"]
    page = (CHART.parents[1] / "docs/OPERATIONS.md").read_text()
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.S) if "name: dupgate-verify" in block]
    command = block.partition("kubectl -n crawl logs")[0].replace("-n crawl", f"-n {case}")
    env = cluster.environment()
    env["PATH"] = f"{cluster.binaries}:{env['PATH']}"
    code, _, error = run("bash", "-euo", "pipefail", "-c", command, env=env)
    expect(code == 0, "the documented command makes a pod for `dupgate index verify`", error)
    made = json.loads(cluster.kubectl("get", "pod", "dupgate-verify", "--namespace", case, "-o", "json").stdout)
    (container,) = made["spec"]["containers"]
    limit = container["resources"]["limits"]["memory"]
    same = [key for key in ("image", "env", "volumeMounts") if container[key] == running[key]]
    probes = [key for key in container if key.endswith("Probe")]
    expect(container["args"] == ["index", "verify"] and made["spec"]["restartPolicy"] == "Never", "it runs once", made)
    expect(limit == "11Gi" and made["spec"]["nodeName"] == "node-1", "with memory of its own, on the judge's node", made)
    expect(claim in made["spec"]["volumes"] and len(same) == 3, "with the judge's volume and configuration", made)
    is_apart = not labels.keys() & made["metadata"].get("labels", {}).keys() and "ownerReferences" not in made["metadata"]
    expect(is_apart and not probes, "and nothing takes it for an instance", made)


def without_claims(spec):
    """A StatefulSet adds the volumes of its claims to its pods."""
    spec = copy.deepcopy(spec)
    there = {volume["name"] for volume in spec["volumes"]}
    if "state" not in there and any(mount["name"] == "state" for mount in spec["containers"][0]["volumeMounts"]):
        spec["volumes"].append({"name": "state", "emptyDir": {}})
    # A controller manager would provide these.
    spec.pop("priorityClassName", None)
    return spec


def lifecycle(cluster):
    """Install, upgrade, roll back, uninstall."""
    namespace(cluster, NAMESPACE)
    env, flags = cluster.environment(), ["--namespace", NAMESPACE, "--no-hooks"]

    def seen():
        found = json.loads(
            cluster.kubectl("get", "statefulset,deployment", "--namespace", NAMESPACE, "-o", "json").stdout
        )["items"]
        checksums = {each["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for each in found}
        config = json.loads(
            cluster.kubectl("get", "configmap", f"{RELEASE}-dupgate", "--namespace", NAMESPACE, "-o", "json").stdout
        )
        expect(len(found) == 2 and len(checksums) == 1, "judges and workers have the checksum of one configuration")
        return checksums.pop(), config["data"]["dupgate.yaml"]

    def done(what, *arguments):
        code, _, error = helm(*arguments, env=env)
        expect(code == 0, what, error)

    scaled = "judges.persistence.retentionPolicy.whenScaled=Delete"
    done("helm install", "install", RELEASE, CHART, *flags, *values("production"), "--set", scaled)
    first = seen()
    done("helm upgrade of the retention of volumes", "upgrade", RELEASE, CHART, *flags, *values("production"))
    expect(seen() == first, "no pod is replaced when only the retention of volumes changed")
    done(
        "helm upgrade of other values",
        "upgrade",
        RELEASE,
        CHART,
        *flags,
        *values("production"),
        "--set",
        "podMonitor.enabled=false",
    )
    expect(seen() == first, "no pod is replaced when the configuration did not change")
    done(
        "helm upgrade of the configuration",
        "upgrade",
        RELEASE,
        CHART,
        *flags,
        *values("production"),
        "--set",
        "config.window.size=48h",
    )
    second = seen()
    expect(second[0] != first[0] and "size: 48h" in second[1], "a change of the configuration changes the checksum")
    done("helm rollback", "rollback", RELEASE, "1", *flags)
    expect(seen() == first, "the rollback brings the first configuration and checksum back")
    done("helm uninstall", "uninstall", RELEASE, *flags)
    left = cluster.kubectl(
        "get",
        "all,configmap,serviceaccount,poddisruptionbudget,podmonitor,prometheusrule",
        "--namespace",
        NAMESPACE,
        "-l",
        f"app.kubernetes.io/instance={RELEASE}",
        "-o",
        "name",
    ).stdout.split()
    expect(not left, "nothing is left after helm uninstall", left)


def procedures(cluster):
    """The commands of docs/HELM.md that stop and start workers and all instances, and run `index warm`."""
    page = (CHART.parents[1] / "docs/HELM.md").read_text()
    section = page.partition("\n## Stopping workers, or all instances\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    expect(len(blocks) == 6, "docs/HELM.md has six blocks of commands to stop and start instances", len(blocks))
    for case in ("production", "workers-keda"):
        name, keda = "dupgate", case == "workers-keda"
        text = yaml.safe_load((CHART / f"ci/{case}-values.yaml").read_text())
        text["replayJob"] = {"enabled": True, "args": ["list"]}
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "helm").symlink_to(CHART.parent)
            for file in ("values.yaml", "old.yaml", "new.yaml"):
                (folder / file).write_text(yaml.safe_dump(text if file == "values.yaml" else {"version": 1}))
            env = cluster.environment()
            env["PATH"] = f"{TOOLS}/bin:{env['PATH']}"

            def typed(commands):
                # There is no kubelet, so no pod to look into.
                skipped = r" rollout status | exec | logs " + ("" if keda else "|only with KEDA")
                lines = [line for line in commands.splitlines() if not re.search(skipped, line)]
                done = subprocess.run(
                    ["bash", "-euc", "\n".join(lines)], cwd=folder, env=env, capture_output=True, text=True, timeout=300
                )
                expect(done.returncode == 0, f"{case}: $ {lines[0].split('#')[0].strip()}", done.stderr)

            def state():
                """Replicas and roles of the judges, replicas of the workers (which KEDA sets), and annotation of KEDA."""
                kinds = "statefulset,deployment" + (",scaledobject" if keda else "")
                listed = json.loads(cluster.kubectl("get", kinds, "--namespace", NAMESPACE, "-o", "json").stdout)["items"]
                found = {each["kind"]: each for each in listed}
                judges = found["StatefulSet"]["spec"]
                workers = found.get("Deployment", {"spec": {"replicas": 0}})["spec"]["replicas"]
                annotations = found.get("ScaledObject", {"metadata": {}})["metadata"].get("annotations", {})
                (container,) = judges["template"]["spec"]["containers"]
                roles = next(each["value"] for each in container["env"] if each["name"] == "DUPGATE_ROLES")
                paused = annotations.get("autoscaling.keda.sh/paused-replicas")
                return judges["replicas"], roles, "KEDA's" if keda and workers else workers, paused

            typed(f"helm install {name} helm/dupgate --namespace {NAMESPACE} --values values.yaml")
            before = state()
            paused = "0" if keda else None
            expect(before == (2, "worker,judge", "KEDA's" if keda else 3, None), f"{case}: judges and workers run", before)
            typed(blocks[0])
            now = state()
            expect(now == (2, "judge", "KEDA's" if keda else 0, paused), f"{case}: all workers are stopped", now)
            typed(blocks[2])
            expect(state() == before, f"{case}: workers run again", state())
            typed(blocks[3])
            expect(state() == (0, "worker,judge", 0, paused), f"{case}: all instances are stopped", state())
            typed(blocks[4])
            # KEDA itself starts the workers again.
            expect(state() == (before[:2] + ((0,) if keda else (3,)) + (None,)), f"{case}: instances run again", state())
            typed(blocks[5])
            job = json.loads(cluster.kubectl("get", "job", "dupgate-warm", "--namespace", NAMESPACE, "-o", "json").stdout)
            spec = job["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            config = next(each for each in spec["volumes"] if each["name"] == "config")["configMap"]["name"]
            args = container["args"]
            expect(args[:2] == ["index", "warm"] and config == "dupgate-warm", f"{case}: the Job runs dupgate index warm", spec)
            _, help_text, _ = run(DUPGATE, "index", "warm", "--help")
            flags = [each for each in args if each.startswith("-")]
            expect(all(flag in help_text for flag in flags), f"dupgate index warm has {' '.join(flags)}")
            for command in (f"helm uninstall {name} --namespace {NAMESPACE}", "kubectl -n crawl delete job,configmap dupgate-warm"):
                typed(command)


# 10. NOTES

# Values on top of production, and the only warning that they must cause.
WARNED = [
    # 1.2 x 16 GiB + 6 x 64 MiB + 512 MiB.
    (["judges.resources.limits.memory=20Gi"], "a judge needs 20.1 GiB"),
    (["judges.resources.limits.memory=21G"], "a judge needs 20.1 GiB"),
    (["judges.resources.limits.memory=20Gi", "config.judge.partitions=5"], "a judge needs 20.5 GiB"),
    (
        ["judges.resources.limits.memory=20Gi", "config.judge.partitions=5", "config.judge.served_partitions={0,4}"],
        "a judge needs 20.2 GiB",
    ),
    (
        ["judges.resources.limits.memory=30Gi", "config.previous.match.simhash.bits=128"],
        "a judge needs 39.4 GiB",
    ),
    (["config.previous.judge.partitions=5", "judges.resources.limits.memory=30Gi"], "a judge needs 39.9 GiB"),
    (["config.index.max_memory=20000MiB"], "a judge needs 24.3 GiB"),
    (["config.index.max_memory=22000000000"], "a judge needs 25.5 GiB"),
    (["config.processing.max_in_flight_bytes=1GiB", "workers.resources.limits.memory=8Gi"], "a judge needs 25.7 GiB"),
    (["config.processing.max_in_flight_bytes=86MiB"], "a worker needs 1.0 GiB"),
    (["config.processing.max_in_flight_bytes=257MiB", "config.input.format=text"], "a worker needs 1.0 GiB"),
    (["workers.resources.limits.memory=895Mi"], "a worker needs 0.9 GiB"),
    (["networkPolicy.enabled=true"], "a Prometheus outside of the namespace crawl reads no metrics"),
    (["judges.resources.limits=null"], "judges.resources.limits.memory is not set"),
    (["replayJob.enabled=true", "replayJob.args={list}"], "replayJob.resources.limits.memory is 6Gi"),
    (["terminationGracePeriodSeconds=44"], "processing.shutdown_grace 30s"),
    (["config.processing.shutdown_grace=1m 16s"], "processing.shutdown_grace 1m 16s"),
    (["judges.replicas=1"], "there is no standby"),
    (["judges.replicas=0", "admin.enabled=true", "admin.existingSecret=a"], "judges.replicas is 0: no page is judged"),
    (["judges.replicas=0", "workers.replicas=0", "judges.roles={judge}"], "judges.replicas is 0: no page is judged"),
    (["judges.roles={judge}", "workers.replicas=0"], "no instance reads the input"),
    (
        ["judges.roles={judge}", "keda.enabled=true", r"keda.annotations.autoscaling\.keda\.sh/paused-replicas='0'"],
        "no instance reads the input",
    ),
    (["judges.persistence.enabled=false"], "reads the whole verdict log again"),
    (["inputPartitions=4"], "2 judges and 3 workers share 4 partitions"),
    (["keda.enabled=true", "keda.maxReplicas=23"], "2 judges and 23 workers share 24 partitions"),
    (
        ["admin.enabled=true", "admin.existingSecret=a", "ingress.enabled=true", "ingress.hosts={a.example.org}"],
        "plain text",
    ),
    (
        [
            "admin.enabled=true",
            "admin.existingSecret=a",
            "httpRoute.enabled=true",
            "httpRoute.parentRefs[0].name=public",
            "networkPolicy.enabled=true",
            "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b",
        ],
        "keeps the gateway from the pair page",
    ),
]
# Values just short of a warning.
SILENT = [
    ["judges.resources.limits.memory=20557Mi"],
    ["config.index.max_memory=20GB"],
    ["config.index.max_memory=20GB", "judges.resources.limits.memory=24939524097"],
    ["config.processing.max_in_flight_bytes=85MiB"],
    ["config.processing.max_in_flight_bytes=256MiB", "config.input.format=text"],
    ["config.processing.max_in_flight_bytes=1GiB", "workers.resources.limits.memory=6656Mi", "judges.roles={judge}"],
    ["networkPolicy.enabled=true", "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b"],
    ["networkPolicy.enabled=true", "podMonitor.enabled=false"],
    ["judges.roles={judge}", "inputPartitions=3"],
    ["terminationGracePeriodSeconds=45"],
    ["config.processing.shutdown_grace=75s"],
    ["inputPartitions=5"],
    ["config.index.max_entries=50000000", "config.index.max_memory=null", "judges.resources.limits.memory=4Gi"],
]


def notes(cluster):
    env = cluster.environment()

    def printed(*arguments):
        code, out, error = helm(
            "install",
            RELEASE,
            CHART,
            "--namespace",
            NAMESPACE,
            "--dry-run=client",
            "--hide-secret",
            *arguments,
            env=env,
        )
        if code:
            raise Failed(f"helm install --dry-run: {error}")
        text = out.partition("NOTES:\n")[2]
        return text, [line for line in text.splitlines() if line.startswith("WARNING")]

    for case in CASES:
        text, warnings = printed("--values", case)
        expect(
            not warnings and "port-forward" in text and "dupgate status" in text,
            f"{case.name}: the notes say how to look, and warn of nothing",
            warnings,
        )
        if "inputPartitions" not in case.read_text() and "replicas: 1" not in case.read_text():
            expect("Set inputPartitions" in text, f"{case.name}: the notes say that partitions are not known")
    for assignments, warning in WARNED:
        _, warnings = printed(*values("production"), *sets(assignments))
        expect(
            len(warnings) == 1 and warning in warnings[0], f'{" ".join(assignments)}: warned of "{warning}"', warnings
        )
    text, _ = printed(*values("production"), "--set", "judges.replicas=0")
    expect("-judge-0" not in text and "active" not in text, "the notes name no judge where there is none", text)
    for assignments in SILENT:
        _, warnings = printed(*values("production"), *sets(assignments))
        expect(not warnings, f"{' '.join(assignments)}: no warning", warnings)


STEPS = [lint, manifests, odd_values, objects, configuration, helm_test, refusals, package, installation]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = sys.argv[2:]
    begun, failures = time.monotonic(), 0
    for step in STEPS:
        if wanted and step.__name__ not in wanted:
            continue
        print(step.__name__, flush=True)
        start = time.monotonic()
        try:
            step()
        except Failed as failure:
            failures += 1
            print(f"  FAILED  {failure}", flush=True)
        except Exception:
            failures += 1
            print(f"  FAILED  {traceback.format_exc()}", flush=True)
        print(f"{step.__name__} took {time.monotonic() - start:.1f} s", flush=True)
    print(f"chart: {'FAILED' if failures else 'passed'} ({time.monotonic() - begun:.0f} s)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
