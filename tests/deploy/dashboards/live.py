#!/usr/bin/env python3
"""Run the service under a real Prometheus: every panel has data, every rule is evaluated, every fault fires its alert.

    live.py PROGRAM PROMETHEUS PROMTOOL    the binaries of dupgate, Prometheus and promtool

A real Kafka carries several deployments, each a job of its own: `crawl` is healthy, the others have a fault each. The
rules are loaded twice: as they are, to see that they are evaluated without an error, and with every duration divided,
to see them fire within the test.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILES = ROOT / "helm/dupgate/files"
BROKER = ROOT / "tests/broker/kafka.sh"

# Durations of the rules are divided by this.
FASTER = 60
# Ranges stay long enough for a few scrapes, of one second each.
SHORTEST = {"range": 8, "for": 2}
PATIENCE = 300

# Alerts that a replay must not fire by ending or by waiting.
OF_PROCESSES = {"DupgateReplayStalled", "DupgateDown", "DupgateInstanceDown", "DupgateStalled"}

# Queries without data on a healthy deployment that is a minute old, and the reason.
IDLE = {
    ("Duplicate share, now and a day ago", "B"): "there is no yesterday yet",
    ("Duplicate share, now and a week ago", "B"): "there is no last week yet",
    ("Containment of accepted matches", "A"): "match.minhash.containment is not set",
    ("Containment of accepted matches", "B"): "match.minhash.containment is not set",
}
# Queries that may have data or not.
EITHER = {
    ("Transaction duration", "C"): "a transaction is aborted only where partitions are taken away while it is under way",
    ("Rebalances and pause", "B"): "the pause is only measured where an instance had something in hand",
    ("Snapshot duration", "A"): "a snapshot is only read at a restart",
    ("Verdict log span", "C"): "the logs are trimmed for the first time after a window of event time",
}


def say(what):
    """Print what was checked."""
    print(f"ok    {what}", flush=True)


class Fault(Exception):
    """An expected event did not happen."""


def get(url, body=None):
    """Query a server; return its response as JSON."""
    data = urllib.parse.urlencode(body).encode() if body else None
    with urllib.request.urlopen(url, data=data, timeout=60) as answer:
        return json.load(answer)


def until(what, found):
    """Wait until the function finds something; return it."""
    end = time.monotonic() + PATIENCE
    while True:
        result = found()
        if result:
            return result
        if time.monotonic() > end:
            raise Fault(f"did not come within {PATIENCE} s: {what}")
        time.sleep(0.3)


# Below the system's ephemeral ports, so that no connection takes one before its server starts; each is given once.
PORTS = iter(range(10000 + os.getpid() % 1000, 20000))


def free_port():
    """Return a free port of the loopback address."""
    for port in PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Fault("no port is free")


class Kafka:
    """A broker that runs as long as this object exists."""

    def __init__(self):
        self.process = subprocess.Popen(
            [BROKER, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DUPGATE_KAFKA_OWN": "1"},
        )
        self.address = self._answer()

    def _answer(self):
        for line in self.process.stdout:
            if line.startswith("ready "):
                return line.split()[1]
            if line.startswith("failed"):
                break
            if line.startswith("done"):
                return None
        raise Fault("the broker did not start, or does not obey")

    def order(self, what):
        """Stop or kill the broker."""
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        self._answer()

    def close(self):
        """Stop the broker; its script cleans up."""
        self.process.stdin.close()
        self.process.wait(PATIENCE)


class Play:
    """The broker, Prometheus, and all processes of the test."""

    def __init__(self, program, prometheus, promtool):
        self.program, self.folder = program, pathlib.Path(tempfile.mkdtemp(prefix="dupgate-dashboards."))
        self.processes, self.names, self.targets, self.logs = [], [], {}, {}
        self.seen, self.watching = {}, True
        self.kafka = None
        self.prometheus, self.promtool = prometheus, promtool
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.watching = False
        if error is not None:
            self.tell()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self.processes:
            process.wait()
        if self.kafka:
            self.kafka.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tell(self):
        """Print the ends of all logs, and the alerts seen."""
        for name, path in self.logs.items():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
            print(f"--- {name}", *lines, sep="\n", file=sys.stderr)
        for (job, alert), states in sorted(self.seen.items()):
            print(f"--- {job}: {alert}: {states}", file=sys.stderr)

    # Processes

    def start(self, name, *command, **more):
        """Start a process with its output in a file."""
        self.logs[name] = self.folder / f"{name}.log"
        with self.logs[name].open("ab") as log:
            variables = {key: value for key, value in os.environ.items() if not key.startswith("DUPGATE_")}
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=variables, **more)
        self.processes.append(process)
        self.names.append((name, process))
        return process

    def end(self, name):
        """Kill the processes whose names start with this."""
        for known, process in self.names:
            if known.startswith(name):
                process.kill()

    def run(self, *command):
        """Run a command until it exits; return its output."""
        variables = {key: value for key, value in os.environ.items() if not key.startswith("DUPGATE_")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode:
            raise Fault(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    # Prometheus

    def scrape(self, job, port):
        """Add an instance to the scrape targets."""
        self.targets.setdefault(job, []).append(f"127.0.0.1:{port}")
        made = [{"targets": targets, "labels": {"job": job}} for job, targets in self.targets.items()]
        new = self.folder / "targets.new"
        new.write_text(json.dumps(made), encoding="utf-8")
        new.rename(self.folder / "targets.json")

    def prepare_prometheus(self):
        """Start Prometheus with the original rules, and with faster copies of them."""
        (self.folder / "targets.json").write_text("[]", encoding="utf-8")
        (self.folder / "faster.yaml").write_text(yaml.safe_dump(faster()), encoding="utf-8")
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(FILES / "alerts.yaml"), str(self.folder / "faster.yaml")],
            "scrape_configs": [{"job_name": "by file", "file_sd_configs": [{"files": [str(self.folder / "targets.json")]}]}],
        }
        path = self.folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        listen = self.url.removeprefix("http://")
        data = self.folder / "prometheus"
        self.start(
            "prometheus",
            self.prometheus,
            f"--config.file={path}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={listen}",
            "--log.level=warn",
        )
        until("Prometheus is ready", self.version)
        threading.Thread(target=self._watch, daemon=True).start()

    def version(self):
        """Return the version of Prometheus, once it responds."""
        try:
            return get(f"{self.url}/api/v1/status/buildinfo")["data"]["version"]
        except (OSError, urllib.error.URLError):
            return None

    def _watch(self):
        while self.watching:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                for alert in get(f"{self.url}/api/v1/alerts")["data"]["alerts"]:
                    labels = alert["labels"]
                    if "faster" in labels and "job" in labels:
                        self.seen.setdefault((labels["job"], labels["alertname"]), set()).add(alert["state"])
            time.sleep(0.4)

    def expect(self, job, alert, why, states=("firing",)):
        """Wait until an alert of a job fires, or is pending if that is enough."""
        until(f"{alert} of {job} fires", lambda: self.seen.get((job, alert), set()) & set(states))
        say(f"{alert:28} {'fires' if states == ('firing',) else 'is pending'}: {why}")

    def fired(self, job, alert):
        """Return whether an alert of a job has fired. One that is pending fires only if its condition lasts."""
        return "firing" in self.seen.get((job, alert), set())

    def firing(self, job):
        """Return the alerts of a job that fire now."""
        alerts = get(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {
            alert["labels"]["alertname"]
            for alert in alerts
            if alert["labels"].get("job") == job and "faster" in alert["labels"] and alert["state"] == "firing"
        }

    def value(self, expr):
        """Return the value of an expression that gives one, or none."""
        result = get(f"{self.url}/api/v1/query", {"query": expr})["data"]["result"]
        return float(result[0]["value"][1]) if result else None


def seconds(text):
    """Read a duration of Prometheus."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


def faster():
    """Return the rules with all durations divided."""

    def short(text, least):
        return f"{max(least, seconds(text) // FASTER)}s"

    made = yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))
    for group in made["groups"]:
        group["name"] += ".faster"
        for rule in group["rules"]:
            rule["labels"]["faster"] = "yes"
            for key in ("for", "keep_firing_for"):
                if key in rule:
                    rule[key] = short(rule[key], SHORTEST["for"])
            rule["expr"] = re.sub(r"\[(\w+)\]", lambda found: f"[{short(found[1], SHORTEST['range'])}]", rule["expr"])
            # Subqueries.
            rule["expr"] = re.sub(
                r"\[(\w+):(\w+)\]",
                lambda found: f"[{short(found[1], SHORTEST['range'])}:{short(found[2], 1)}]",
                rule["expr"],
            )
            rule["expr"] = re.sub(r"offset (\w+)", lambda found: f"offset {short(found[1], 1)}", rule["expr"])
    return made


class Deployment:
    """Instances of one group, with their own topics; one Prometheus job."""

    def __init__(self, play, job, *settings, partitions=2, topics=None):
        self.play, self.job = play, job
        self.settings = list(settings)
        self.admin, self.ports = {}, {}
        admin = AdminClient({"bootstrap.servers": play.kafka.address})
        names = {"pages": {}, "unique": {}, "duplicate": {}, "dead": {}} | (topics or {})
        made = admin.create_topics(
            [NewTopic(f"{job}.{name}", partitions, 1, config=config) for name, config in names.items()]
        )
        for future in made.values():
            future.result(PATIENCE)
        # The broker responds before it knows them itself.
        wanted = {f"{job}.{name}" for name in names}
        until(f"topics of {job}", lambda: wanted <= admin.list_topics(timeout=PATIENCE).topics.keys())

    def alter(self, topic, key, value):
        """Change a setting of a topic."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, f"{self.job}.{topic}", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.play.kafka.address})
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE)

    def config(self, name, **more):
        """Write the configuration of an instance; return its path."""
        job, play = self.job, self.play
        self.ports[name], self.admin[name] = free_port(), free_port()
        made = {
            "version": 1,
            "roles": more.get("roles", ["worker", "judge"]),
            "kafka": {"brokers": [play.kafka.address]},
            "input": {"topics": [f"{job}.pages"], "group": more.get("group", job), "instance_id": f"{job}-{name}"},
            "output": {
                "unique": {"topic": f"{job}.unique"},
                "duplicate": {"topic": f"{job}.duplicate"},
                "dead_letter": {"topic": f"{job}.dead"},
            },
            "index": {"path": str(play.folder / f"{job}-{name}"), "snapshot": {"interval": "3s"}},
            "http": {
                "listen": f"127.0.0.1:{self.ports[name]}",
                "admin": {"listen": f"127.0.0.1:{self.admin[name]}"},
            },
            "processing": {"threads": 1},
        }
        path = play.folder / f"{job}-{name}.yaml"
        path.write_text(yaml.safe_dump(made), encoding="utf-8")
        return path

    def create_logs(self, path):
        """Create the two logs of the deployment."""
        self.play.run(self.play.program, "topics", "create", "-c", path, "--execute")

    def instance(self, name, *settings, **more):
        """Start an instance and scrape it."""
        path = self.config(name, **more)
        self.play.scrape(self.job, self.ports[name])
        return self.again(name, *settings, path=path)

    def again(self, name, *settings, path=None):
        """Restart a former instance."""
        play = self.play
        path = path or play.folder / f"{self.job}-{name}.yaml"
        sets = [word for setting in (*self.settings, *settings) for word in ("--set", setting)]
        return play.start(f"{self.job}-{name}", play.program, "run", "-c", path, "--log-format", "text", *sets)

    def replay(self, name, *arguments):
        """Start a replay of the input, and scrape it as a separate job."""
        path = self.config(f"replay-{name}")
        listen = f"127.0.0.1:{self.ports[f'replay-{name}']}"
        self.play.scrape(f"{self.job}-replay", self.ports[f"replay-{name}"])
        command = (self.play.program, "replay", "run", "-c", path, "--from", "start", "--order", "time", "--id", name)
        return self.play.start(f"{self.job}-replay-{name}", *command, "--execute", "--listen", listen, *arguments)

    def feed(self, *arguments):
        """Write the generated crawl into the input."""
        play, number = self.play, len(self.play.logs)
        command = (play.program, "demo", "produce", "--brokers", play.kafka.address, "--topic", f"{self.job}.pages")
        return play.start(f"{self.job}-feed-{number}", *command, *arguments)

    def write(self, pages, timestamp=0):
        """Write given pages into the input."""
        producer = Producer({"bootstrap.servers": self.play.kafka.address, "linger.ms": 20})
        for url, text in pages:
            value = json.dumps({"url": url, "text": text})
            producer.produce(f"{self.job}.pages", value, url, timestamp=timestamp)
            producer.poll(0)
        if producer.flush(PATIENCE):
            raise Fault("pages could not be written")

    def write_value(self, value):
        """Write one record into the input."""
        producer = Producer({"bootstrap.servers": self.play.kafka.address})
        producer.produce(f"{self.job}.pages", value)
        if producer.flush(PATIENCE):
            raise Fault("a record could not be written")

    def status(self, name):
        """Return the status of an instance."""
        try:
            return get(f"http://127.0.0.1:{self.ports[name]}/status")
        except (OSError, urllib.error.URLError):
            return {}

    def await_ready(self, name):
        """Wait until an instance is ready."""
        until(f"{self.job}-{name} is ready", lambda: self.status(name).get("ready"))

    def documents(self, name):
        """Return how many documents an instance has delivered."""
        return sum(self.status(name).get("documents", {}).values())


def substituted(expr):
    """Substitute the variables of a dashboard."""
    values = {"$__rate_interval": "10s", "$__range": "1m", "$job": "crawl(-replay)?", "$instance": ".+", "$topic": ".+"}
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr


def has_data(play, expr, span=60):
    """Return whether an expression had a value within the last minute, or within a longer time."""
    now = time.time()
    body = {"query": substituted(expr), "start": now - span, "end": now, "step": 2}
    answer = get(f"{play.url}/api/v1/query_range", body)
    return any(value != "NaN" for series in answer["data"]["result"] for _, value in series["values"])


def panel_queries():
    """Return (panel, letter, expression) of all queries."""
    for path in sorted((FILES / "dashboards").glob("*.json")):
        made = json.loads(path.read_text(encoding="utf-8"))
        for panel in [inner for panel in made["panels"] for inner in (panel, *panel.get("panels", []))]:
            for target in panel.get("targets", []):
                yield panel["title"], target["refId"], target["expr"]


def check_annotations(play):
    """Check that restarts, takeovers and revocations are marked."""
    made = json.loads((FILES / "dashboards/overview.json").read_text(encoding="utf-8"))
    for annotation in made["annotations"]["list"]:
        until(f"annotation {annotation['name']}", lambda expr=annotation["expr"]: has_data(play, expr, 900))
        say(f"annotation {annotation['name']} marks what happened")


def check_panels(play):
    """Check that every query has data, or lacks it for a known reason."""
    queries = list(panel_queries())
    known = {(panel, letter) for panel, letter, _ in queries}
    for name in IDLE.keys() | EITHER.keys():
        if name not in known:
            raise Fault(f"there is no such query: {name}")
    missing = [(panel, letter, expr) for panel, letter, expr in queries if (panel, letter) not in IDLE | EITHER]
    asked = len(missing)

    def all_have():
        missing[:] = [query for query in missing if not has_data(play, query[2])]
        return not missing

    try:
        until("data for every panel", all_have)
    except Fault as fault:
        names = "\n".join(f"  {panel} {letter}: {substituted(expr)}" for panel, letter, expr in missing)
        raise Fault(f"{fault}; missing for\n{names}") from None
    for panel, letter, expr in queries:
        if (panel, letter) in IDLE and has_data(play, expr):
            raise Fault(f"{panel} {letter} has data, though {IDLE[panel, letter]}")
        # A mistake in the expression would be an error, not an empty answer.
        if (panel, letter) in EITHER:
            has_data(play, expr)
    say(f"{asked} queries of panels have data")
    for (panel, letter), why in IDLE.items():
        say(f"idle: {panel} {letter}: {why}")
    for (panel, letter), why in EITHER.items():
        say(f"may be idle: {panel} {letter}: {why}")


def check_variables(play):
    """Check that the variables have values."""
    made = json.loads((FILES / "dashboards/overview.json").read_text(encoding="utf-8"))
    for variable in made["templating"]["list"]:
        if variable["type"] != "query":
            continue
        series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
        query = urllib.parse.urlencode({"match[]": substituted(series)})

        def found(query=query, label=label):
            return get(f"{play.url}/api/v1/label/{label}/values?{query}")["data"]

        # The first scrape may not have happened yet.
        until(f"values of the variable {variable['name']}", found)
        say(f"variable {variable['name']}: {', '.join(found())}")


def check_rules(play):
    """Check that every rule was loaded and is evaluated without an error."""
    expected = {rule["alert"] for group in faster()["groups"] for rule in group["rules"]}
    groups = get(f"{play.url}/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    as_they_are = [rule for rule in rules if "faster" not in rule["labels"]]
    if {rule["name"] for rule in as_they_are} != expected:
        raise Fault("not all rules were loaded")
    for rule in rules:
        if rule["health"] != "ok":
            raise Fault(f"{rule['name']}: {rule['health']}: {rule.get('lastError')}")
    say(f"{len(as_they_are)} rules are evaluated without an error, and as many faster ones")


def scraped_metrics(play):
    """Check that the metrics in Prometheus and in the documentation are the same."""
    text = (ROOT / "docs/METRICS.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(dupgate_\w+)` \| (?:counter|gauge|histogram)", text, re.M))
    found = get(f"{play.url}/api/v1/metadata")["data"]
    ours = {name for name in found if name.startswith("dupgate_")}
    if ours - documented:
        raise Fault(f"metrics without documentation: {sorted(ours - documented)}")
    say(f"{len(ours)} of {len(documented)} documented metrics are scraped, and no other")
    with urllib.request.urlopen(f"http://{play.targets['crawl'][0]}/metrics", timeout=60) as answer:
        exposed = answer.read()
    # 3 is the exit code for names against Prometheus' conventions, 1 that for a text that cannot be parsed.
    checked = subprocess.run([play.promtool, "check", "metrics"], input=exposed, capture_output=True, timeout=60)
    lines = (checked.stdout + checked.stderr).decode().splitlines()
    if checked.returncode not in (0, 3) or any("dupgate_" in line for line in lines):
        raise Fault(f"promtool check metrics: {lines}")
    say("promtool finds nothing against the names of the metrics")


BLOCK = (
    "Access to this page has been denied because we believe you are using automation tools to browse the website. This "
    "may happen as a result of the following: scripts are disabled or blocked by an extension, or your browser does not "
    "support cookies. Please make sure that scripts and cookies are enabled on your browser and that you are not blocking "
    "them from loading before you try again."
)


def article(number):
    """Create a unique text."""
    return " ".join(f"word{number}x{each}" for each in range(60))


class Writers:
    """Threads that write pages until they are stopped."""

    def __init__(self):
        self.stop, self.threads = threading.Event(), []

    def start(self, write, pause):
        """Call a function with 0, 1, 2, ... with a pause between the calls."""

        def work():
            number = 0
            while not self.stop.is_set():
                write(number)
                number += 1
                self.stop.wait(pause)

        self.threads.append(threading.Thread(target=work, daemon=True))
        self.threads[-1].start()

    def end(self):
        """Stop all of them."""
        self.stop.set()
        for thread in self.threads:
            thread.join(PATIENCE)


def check_well(play):
    """Check dashboards and rules on a healthy deployment."""
    check_variables(play)
    check_panels(play)
    check_rules(play)
    scraped_metrics(play)
    # A new deployment may be slow at first and must settle. On a busy machine verdicts may stay slow.
    expected = {"DupgateColdStart", "DupgateConfigDrift", "DupgateVerdictWaitHigh"}
    until("quiet on the deployment that is well", lambda: not play.firing("crawl") - expected)
    say(f"on the deployment that is well fires nothing but {', '.join(sorted(play.firing('crawl')))}")
    play.expect("crawl", "DupgateColdStart", "a new deployment has an empty index")
    play.expect("crawl", "DupgateConfigDrift", "one instance has another setting")


def delete_what_waits(deployment):
    """Delete records that an instance has not read, as retention would."""
    deployment.feed("--rate", "0", "--count", "200").wait()
    admin = AdminClient({"bootstrap.servers": deployment.play.kafka.address})
    # The end of the partition: deletes all its records.
    for future in admin.delete_records([TopicPartition(f"{deployment.job}.pages", 0, -1)]).values():
        future.result(PATIENCE)


def damage(folder):
    """Change some bytes in the middle of every snapshot file."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 4096]
    for path in files:
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 64] = bytes(byte ^ 0x55 for byte in data[middle : middle + 64])
        path.write_bytes(data)
    return files


def crash_loop(deployment, name, process, times):
    """Kill an instance and start it again this many times, each time when Prometheus has seen its start."""
    job, port = deployment.job, deployment.ports[name]
    started = f'process_start_time_seconds{{job="{job}",instance="127.0.0.1:{port}"}}'
    for _ in range(times):
        before = until("its start is scraped", lambda: deployment.play.value(started))
        # Start times are whole seconds.
        until("its next start is in a later one", lambda: time.time() > before + 2)
        process.kill()
        process.wait()
        process = deployment.again(name)
        until("its next start is scraped", lambda: deployment.play.value(started) not in (None, before))
    return process


def kill_within_a_transaction(play, deployment, name):
    """Kill the brokers while an instance has pages to commit. With none at that moment, no commit could fail."""
    failed = f'sum(dupgate_errors_total{{job="{deployment.job}",component="producer"}})'
    before = play.value(failed) or 0
    while True:
        play.kafka.order("pause")
        # Longer than a transaction may take.
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if (play.value(failed) or 0) > before:
                play.kafka.order("kill")
                return
            time.sleep(0.3)
        delivered = deployment.documents(name)
        play.kafka.order("resume")
        until("pages are delivered again", lambda: deployment.documents(name) > delivered)


def main(program, prometheus, promtool):
    """Run all tests."""
    begun = time.monotonic()
    writers = Writers()
    with Play(program, prometheus, promtool) as play:
        play.kafka = Kafka()
        play.prepare_prometheus()
        say(f"Kafka and Prometheus {play.version()} run")

        # A healthy deployment: an active judge, a standby, and a worker.
        crawl = Deployment(play, "crawl", partitions=3)
        crawl_processes = {"a": crawl.instance("a")}
        crawl.await_ready("a")
        crawl.feed("--rate", "80/s", "--broken", "0.002")
        # Prometheus computes an increase only for series that it saw before, and discovers targets every five seconds.
        revocations = 'sum(dupgate_rebalances_total{job="crawl",kind="revoke"})'
        until("the counters of the first instance are scraped", lambda: play.value(revocations) is not None)
        crawl_processes["b"] = crawl.instance("b")
        until("the first instance gives up partitions for the second", lambda: play.value(revocations))
        # The state after an incomplete rollout.
        crawl.instance("worker", "processing.max_in_flight_bytes=48MiB", roles=["worker"])

        # Faults, each in a separate deployment. Not all at once, because the machine may be small.
        workers = Deployment(play, "workers")
        workers.create_logs(workers.config("logs"))
        workers.instance("a", roles=["worker"])
        workers.feed("--rate", "0", "--count", "4500")
        for name in ("b", "worker"):
            crawl.await_ready(name)
        slow = crawl.replay("slow", "--into", "none", "--rate", "1/s")
        check_well(play)
        if slow.poll() is not None:
            raise Fault("the replay is over before the panels were looked at")
        # Stopping a replay must not page anyone. On a slow machine the first pages took long, which may have fired.
        until("the replay goes on", lambda: "DupgateReplayStalled" not in play.firing("crawl-replay"))
        play.seen.pop(("crawl-replay", "DupgateReplayStalled"), None)
        play.end("crawl-replay")
        play.expect("workers", "DupgateNoVerdicts", "workers without any judge")
        play.expect("workers", "DupgateStalled", "their lag stays")
        play.expect("workers", "DupgateDrainTimeHigh", "and would for hours")
        if play.fired("workers", "DupgateNoJudge"):
            raise Fault("DupgateNoJudge fires for a job of workers alone")
        say("DupgateNoJudge               is silent for a job of workers alone")

        # The judge is killed; the standby takes over when its session ends.
        status = until("the status of the first instance", lambda: crawl.status("a"))
        judge = "a" if any(status.get("judge", {}).values()) else "b"
        crawl_processes[judge].kill()
        crawl_processes[judge].wait()
        play.expect("crawl", "DupgateNoJudge", "the judge is killed")
        play.expect("crawl", "DupgateInstanceDown", "the same")
        play.expect("crawl", "DupgateNoStandby", "the other one has no standby")
        until("the standby judges", lambda: play.value('max(dupgate_judge_active{job="crawl"})') == 1)
        until("DupgateNoJudge ends", lambda: "DupgateNoJudge" not in play.firing("crawl"))
        say("the standby took over, and DupgateNoJudge ended")
        damaged = damage(play.folder / f"crawl-{judge}")
        crawl.again(judge)
        play.expect("crawl", "DupgateCorruptData", f"{len(damaged)} files of its snapshots are damaged when it comes back")
        check_annotations(play)

        # All judges are gone, and a worker is left.
        crawl.await_ready(judge)
        until("no alert on the judges", lambda: not play.firing("crawl") & {"DupgateNoJudge", "DupgateNoStandby"})
        for name in ("a", "b"):
            play.end(f"crawl-{name}")
        until("DupgateNoJudge fires again", lambda: "DupgateNoJudge" in play.firing("crawl"))
        say("DupgateNoJudge               fires: all judges are gone, and a worker is left")
        if play.fired("crawl", "DupgateDown"):
            raise Fault("DupgateDown fires while a worker is left")
        for name in ("workers-a", "crawl-feed", "crawl-worker"):
            play.end(name)

        block = Deployment(play, "block")
        block.instance("a")
        full = Deployment(play, "full", "index.max_memory=1MiB")
        full.instance("a")
        bad = Deployment(play, "bad")
        bad.instance("a")
        broken = Deployment(play, "broken")
        broken.instance("a")
        lost = Deployment(play, "lost", partitions=1)
        lost_process = lost.instance("a")
        old = Deployment(play, "old", "window.size=1h", "window.allowed_lateness=1m")
        old.instance("a")
        registry = "http://127.0.0.1:1"
        away = Deployment(play, "away", "input.format=avro", f"input.schema_registry.url={registry}")
        away.instance("a")
        for deployment in (block, full, bad, broken, lost, old, away):
            deployment.await_ready("a")
        away.write_value(b"\0\0\0\0\7\2a")

        # Instances read topic limits at the start and do not send larger records; a later change is known only to the
        # brokers.
        bad.alter("unique", "message.timestamp.before.max.ms", "3600000")
        unique_pages = ("--near", "0", "--exact", "0", "--broken", "0")
        full.feed("--rate", "100/s", "--count", "1200", *unique_pages)
        bad.feed("--rate", "40/s", "--broken", "0.2")
        broken.feed("--rate", "60/s", "--near", "0", "--exact", "0", "--broken", "0.9")
        lost.feed("--rate", "0", "--count", "300")
        ten_hours = 10 * 3600 * 1000
        writers.start(lambda n: block.write((f"https://site-{n}.example/{i}", BLOCK) for i in range(40)), 0.8)
        writers.start(
            lambda n: old.write(
                [(f"https://site.example/{n}/{i}", article(f"{n}y{i}")) for i in range(5)],
                timestamp=int(time.time() * 1000) - (n % 2) * ten_hours,
            ),
            0.5,
        )
        writers.start(
            lambda n: bad.write([(f"https://site.example/{n}", article(n))], timestamp=int(time.time() * 1000) - ten_hours),
            1,
        )

        # A partition is blocked: the next records of an instance are deleted while it is down.
        until("lost has delivered its pages", lambda: lost.documents("a") > 250)
        lost_process.terminate()
        lost_process.wait()
        delete_what_waits(lost)
        lost_process = lost.again("a")
        waiting = until("what waits there is counted", lambda: play.value('sum(dupgate_blocked_lag_records{job="lost"})'))
        say(f"{waiting:.0f} records wait in a blocked partition")
        # On a slow machine it may have fired before the first page was delivered.
        until("no alert on a stall", lambda: "DupgateStalled" not in play.firing("lost"))
        play.seen.pop(("lost", "DupgateStalled"), None)

        play.expect("block", "DupgateDuplicateShareExtreme", "one block page under many addresses")
        play.expect("block", "DupgateHotCluster", "the same")
        play.expect("full", "DupgateIndexNearlyFull", "an index that fills its 1 MiB")
        full.feed("--rate", "100/s", "--seed", "2", *unique_pages)
        play.expect("full", "DupgateWindowTruncated", "and is full")
        play.expect("bad", "DupgateDeadLetters", "a fifth of the records cannot be read")
        play.expect("bad", "DupgateProduceFailing", "the unique topic takes no old records any more")
        play.expect("broken", "DupgateBreakerPaused", "nearly no record can be read")
        held = until("dead letters are held", lambda: play.value('sum(dupgate_dead_letters_held{job="broken"})'))
        say(f"the breaker holds back {held:.0f} dead letters")
        play.expect("old", "DupgateLatencyHigh", "pages that were written ten hours ago")
        play.expect("old", "DupgateLateRecords", "the same, and the window is an hour")
        play.expect("lost", "DupgatePartitionsBlocked", "records were deleted before they were read")
        play.expect("away", "DupgateSchemasAwaited", "the Schema Registry does not answer")
        play.end("away-")

        # An operator pauses an instance and does not resume it.
        request = urllib.request.Request(f"http://127.0.0.1:{block.admin['a']}/api/v1/pause", method="POST")
        urllib.request.urlopen(request, timeout=60).close()
        play.seen.pop(("block", "DupgateStalled"), None)
        # The lag is looked at only every five seconds, in which a fast replay would be over.
        waiting = 'sum(dupgate_consumer_lag_records{job="block"})'
        until("pages wait for the instance that is paused", lambda: (play.value(waiting) or 0) > 100)
        # A replay waits until the lag is drained.
        polite = block.replay("polite", "--into", "none", "--yield-to-lag", "10")
        yielding = 'dupgate_replay_yielding{job="block-replay",replay="polite"}'
        until("a replay waits for the service that is paused", lambda: play.value(yielding) == 1)
        # Another instance can no longer write snapshots to its disk.
        folder = play.folder / "old-a"
        # Not removed: the instance may be writing there.
        folder.rename(play.folder / "old-a-before")
        folder.write_text("no folder", encoding="utf-8")
        # A third deployment gets an instance with different fingerprints, and one of another group.
        lost.instance("b", "match.simhash.bits=128")
        lost.instance("c", group="lost-other")
        play.expect("lost", "DupgateSchemeDrift", "two instances make different fingerprints")
        play.expect("lost", "DupgateJobShared", "an instance of another group is scraped as the same job")
        play.expect("old", "DupgateSnapshotStale", "the folder of snapshots is gone")
        play.expect("block", "DupgatePausedManually", "an operator paused an instance and went home")
        for job, why in (("block", "is paused manually"), ("lost", "has no partition but a blocked one")):
            if play.fired(job, "DupgateStalled"):
                raise Fault(f"DupgateStalled fires for an instance that {why}")
            say(f"DupgateStalled               is silent for an instance that {why}")

        # A crash loop: each scrape may find the instance up.
        if play.fired("lost", "DupgateRestarting"):
            raise Fault("DupgateRestarting fires for a single restart")
        lost_process = crash_loop(lost, "a", lost_process, 4)
        play.expect("lost", "DupgateRestarting", "an instance is killed and started again four times")

        # All instances of a deployment are killed; finally the brokers.
        writers.end()
        lost_process.kill()
        play.end("lost-")
        play.expect("lost", "DupgateDown", "all instances of a deployment are gone")
        if polite.poll() is not None or play.value(f"last_over_time({yielding}[15s])") != 1:
            raise Fault("the replay of a paused service went on")
        full.replay("stuck", "--rate", "5/s")
        until("a replay commits", lambda: play.value('sum(dupgate_replay_records_total{job="full-replay"})'))
        kill_within_a_transaction(play, bad, "a")
        play.expect("full-replay", "DupgateReplayStalled", "the brokers are gone while it commits")
        for job, why in (("crawl", "was ended"), ("block", "waits for the service")):
            fired = {alert for alert in OF_PROCESSES if play.fired(f"{job}-replay", alert)}
            if fired:
                raise Fault(f"{fired} for a replay that {why}")
            say(f"DupgateReplayStalled         is silent for a replay that {why}")
        # A transaction takes too long to fail for the alert to fire within the shortened ranges.
        play.expect("bad", "DupgateCommitsFailing", "the brokers are gone", states=("pending", "firing"))
        print(f"      {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    # Stop all child processes when this process is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main(*sys.argv[1:])
    except Fault as fault:
        print(f"FAIL  {fault}", file=sys.stderr)
        sys.exit(1)
