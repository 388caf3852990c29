#!/usr/bin/env python3
"""Check dashboards, alert rules, runbooks and their provisioning; runs only `dupgate help`.

    lint.py PROGRAM    the dupgate binary

Each line says what was checked; exit code 1 with every fault on standard error.
"""

import json
import pathlib
import re
import subprocess
import sys

import promql
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Metrics of Prometheus itself and of its client library.
FOREIGN = {
    "up": set(),
    "ALERTS": {"alertname", "alertstate", "severity"},
    "process_start_time_seconds": set(),
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "process_open_fds": set(),
    "process_max_fds": set(),
    "process_threads": set(),
}
TARGET = {"job", "instance"}
# Every series of a replay has this label; no series of the service has it.
REPLAY = "replay"
# Labels whose values are those of one job: another job may have the same values, and must not be merged with it.
OF_ONE_JOB = {"instance", "log_partition", "partition", "topic", "replay"}
# Panels of which every query is by job.
BY_JOB = {"Judges", "Judge and standbys", "Effective window", "Effective window and configured window", "Verdict log span"}
# Except these, which Prometheus creates.
WITHOUT_REPLAYS = {"ALERTS", "up"}
# Counters whose total since the process start may also fire an alert.
COUNTED_SINCE_START = {"dupgate_cold_starts_total", "dupgate_errors_total", "dupgate_second_verdicts_total"}
# Alerts that fire at once, because the event has already happened.
AT_ONCE = {"DupgateColdStart", "DupgateCorruptData", "DupgateSecondVerdict"}
# Names with dots in runbooks that are not settings of dupgate.
OTHERS = [
    "dupgate.error.reason",
    "dupgate.error.stage",
    "dupgate.error.message",
    "max.message.bytes",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "session.timeout.ms",
    "retention.ms",
    "cleanup.policy",
]
# URL of docs/RUNBOOKS.md.
PAGE = "https://github.com/dupgate/dupgate/blob/main/docs/RUNBOOKS.md"
SECTIONS = ["Meaning", "Impact", "First look", "Mitigation"]

faults = []
# Output of `dupgate help`, by command; None if there is no such command.
helps = {}


def locate(root):
    """Use the files of this folder."""
    global FILES, DASHBOARDS, METRICS, RUNBOOKS, CONFIG, KNOWN
    FILES = root / "helm/dupgate/files"
    DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
    METRICS, RUNBOOKS, CONFIG = root / "docs/METRICS.md", root / "docs/RUNBOOKS.md", root / "config"
    KNOWN = documented()


def fault(where, what):
    """Record a fault."""
    faults.append(f"{where}: {what}")


def check(is_right, where, what):
    """Record a fault unless the condition holds."""
    if not is_right:
        fault(where, what)


def say(what):
    """Print what was checked."""
    print(f"ok    {what}")


def documented():
    """Read the table of metrics: name, kind, and the values of each label, or None if they are open."""
    found = {}
    for line in METRICS.read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| `(\w+)` \| (counter|gauge|histogram) \| (.*?) \| (.*) \|", line)
        if not row:
            continue
        labels = {}
        for part in filter(None, (part.strip() for part in row[3].split(";"))):
            name, _, values = part.partition(":")
            labels[name.strip(" `")] = {value.strip() for value in values.split(",")} if values else None
        found[row[1]] = (row[2], labels)
    return found


def described(name):
    """Return kind and labels of a series, including parts of histograms; None if it is not documented."""
    if name in FOREIGN:
        return "counter" if name.endswith("_total") else "gauge", dict.fromkeys(FOREIGN[name])
    for suffix in ("_bucket", "_sum", "_count"):
        kind, labels = KNOWN.get(name.removesuffix(suffix), (None, {}))
        if name.endswith(suffix) and kind == "histogram":
            return "counter", {**labels, **({"le": None} if suffix == "_bucket" else {})}
    return KNOWN.get(name)


def check_expression(expr, where):
    """Check that all series exist as documented, and counters are only used over time."""
    allowed = set(TARGET)
    found = promql.selectors(expr)
    check(found, where, f"selects nothing: {expr}")
    for name, matchers, span in found:
        known = described(name)
        if known is None:
            fault(where, f"no such metric in docs/METRICS.md: {name}")
            continue
        kind, labels = known
        allowed |= labels.keys()
        is_of_replays = REPLAY in labels
        wanted = next((operator for label, operator, value in matchers if (label, value) == (REPLAY, "")), None)
        is_apart = is_of_replays and wanted != "=" or not is_of_replays and wanted == "="
        check(name in WITHOUT_REPLAYS or is_apart, where, f"{name} mixes replays and the service")
        for label, operator, value in matchers:
            if label in TARGET or (label, value) == (REPLAY, ""):
                continue
            if label not in labels:
                fault(where, f"{name} has no label {label}")
            elif labels[label] and not value.startswith("$"):
                chosen = [each for each in labels[label] if re.fullmatch(value if "~" in operator else re.escape(value), each)]
                parts = value.split("|") if "~" in operator else [value]
                check(chosen, where, f"no {label} of {name} is {value}")
                check(len(chosen) >= len(parts) or "!" in operator, where, f"not all of {value} are a {label} of {name}")
        # The total since the start also covers events right at the start.
        counted_since_start = name in COUNTED_SINCE_START and "process_start_time" in expr
        if kind == "counter" and not span and not counted_since_start:
            fault(where, f"{name} is a counter and needs rate or increase")
        if kind == "gauge" and span:
            check(
                re.search(rf"(delta|deriv|changes|present_over_time)\({name}", expr),
                where,
                f"{name} is a gauge: rate and increase are for counters",
            )
    for label in promql.labels(expr) - allowed:
        fault(where, f"no series of the expression has the label {label}: {expr}")


def inner_panels(dashboard):
    """Return all panels, including those inside collapsed rows."""
    return [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", []))]


def check_frame(name, made):
    """Check everything except the panels."""
    check(re.fullmatch(r"[a-z-]{8,40}", made["uid"]), name, "needs a fixed uid")
    check(made["editable"] is False, name, "must not be editable: changes would be lost")
    check(made["graphTooltip"] == 1, name, "graphs share their crosshair")
    check("dupgate" in made["tags"], name, "needs the tag dupgate")
    check("id" not in made, name, "must not have the id of one Grafana")
    variables = {variable["name"]: variable for variable in made["templating"]["list"]}
    order = ["datasource", "job", "instance", "topic", "operator_page", "runbooks"]
    check(list(variables) == order, name, f"variables are {list(variables)}, not {order}")
    if set(variables) != set(order):
        return
    chosen = variables["datasource"]
    check((chosen["type"], chosen["query"], chosen["label"]) == ("datasource", "prometheus", "Data Source"), name, "datasource")
    for variable in ("job", "instance", "topic"):
        made_as = variables[variable]
        where = f"{name}: variable {variable}"
        check(made_as["datasource"]["uid"] == "${datasource}", where, "must ask the chosen data source")
        check(made_as["refresh"] == 2, where, "must be refreshed with the time range")
        check(made_as["multi"] and made_as["includeAll"] and made_as["allValue"] == ".+", where, "must offer all and several")
        values = re.fullmatch(r"label_values\((.+), (\w+)\)", made_as["query"]["query"])
        check(values, where, "must be the values of a label")
        if values:
            source = promql.selectors(values[1])[0][0]
            check(described(source), where, f"no such metric in docs/METRICS.md: {source}")
            labels = (described(source) or (None, {}))[1]
            check(values[2] in TARGET | labels.keys(), where, f"there is no label {values[2]}")
    links = {link["title"]: link["url"] for link in made["links"]}
    check(links.get("Runbooks") == "${runbooks:raw}", name, "needs a link to the runbooks")
    check(links.get("Operator page") == "${operator_page:raw}", name, "needs a link to the operator page")
    others = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS if path.name != name]
    for other in others:
        check(links.get(other["title"]) == f"/d/{other['uid']}", name, f"needs a link to {other['title']}")
    for annotation in made["annotations"]["list"]:
        check_expression(annotation["expr"], f"{name}: annotation {annotation['name']}")


def check_grid(name, panels):
    """Check that panels have unique ids and do not overlap."""
    numbers = [panel["id"] for panel in panels]
    check(len(numbers) == len(set(numbers)), name, "two panels have one id")
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        check(0 <= place["x"] and place["x"] + place["w"] <= 24, f"{name}: {panel['title']}", "is wider than the grid")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                if other != panel["title"]:
                    fault(f"{name}: {panel['title']}", f"overlaps {other}")
                    return


def check_panel(name, panel, alerts):
    """Check one panel."""
    where = f"{name}: {panel['title']}"
    check(panel.get("title"), where, "needs a title")
    check(panel.get("description", "").endswith("."), where, "needs a description")
    for link in panel.get("links", []):
        found = re.fullmatch(r"\$\{runbooks:raw\}#(\w+)", link["url"])
        alert = link["title"].removeprefix("Runbook: ")
        check(found and alert in alerts and found[1] == alert.lower(), where, f"links to no runbook: {link['url']}")
    if panel["type"] == "text":
        return
    check(panel["datasource"]["uid"] == "${datasource}", where, "must ask the chosen data source")
    defaults = panel["fieldConfig"]["defaults"]
    check(defaults.get("unit"), where, "needs a unit")
    targets = panel["targets"]
    check(targets, where, "asks nothing")
    letters = [target["refId"] for target in targets]
    check(len(letters) == len(set(letters)), where, "two queries have one letter")
    legends = set()
    for target in targets:
        here = f"{where}: query {target['refId']}"
        check(target["datasource"]["uid"] == "${datasource}", here, "must ask the chosen data source")
        check(target["legendFormat"] and target["legendFormat"] != "__auto", here, "needs a legend")
        check_expression(target["expr"], here)
        check_selection(target["expr"], here)
        check_jobs(target["expr"], here, OF_ONE_JOB)
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        check("job" in named or not named & OF_ONE_JOB, here, "the legend of a series of one job names the job")
        legends |= legend_values(target)
    for override in panel["fieldConfig"]["overrides"]:
        series = override["matcher"]["options"]
        if override["matcher"]["id"] == "byRegexp":
            # The legend up to the end, whatever the value of the label at its beginning.
            is_matched = any(re.search(series.strip("/"), target["legendFormat"]) for target in targets)
            check(is_matched, where, f"changes a series that never comes: {series}")
            continue
        is_column = panel["type"] == "table" and any(series in step["options"].get("renameByName", {}).values()
                                                      for step in panel["transformations"])
        check(series in legends or is_column, where, f"changes a series that never comes: {series}")
    if panel["type"] == "timeseries":
        legend = panel["options"]["legend"]
        is_table = legend["displayMode"] == "table" and legend["sortBy"] == "Last *" and legend["sortDesc"]
        check(is_table and "lastNotNull" in legend["calcs"], where, "needs a legend as a table, sorted by the last value")
    if panel["type"] == "heatmap":
        check(all(target["format"] == "heatmap" for target in targets), where, "must ask for buckets")
        check(panel["options"]["calculate"] is False, where, "has buckets already")
    if panel["type"] in ("stat", "bargauge"):
        check("noValue" in defaults, where, "must say what no data means")


def legend_values(target):
    """Return the names that the series of a query may have, if all values are known."""
    legend = target["legendFormat"]
    names = re.findall(r"\{\{(\w+)\}\}", legend)
    if not names:
        return {legend}
    if len(names) > 1:
        return set()
    values = set()
    for metric, _, _ in promql.selectors(target["expr"]):
        known = described(metric)
        values |= (known and known[1].get(names[0])) or set()
    return {legend.replace(f"{{{{{names[0]}}}}}", value) for value in values}


def check_jobs(expr, where, wherever):
    """Check that the job is in each list of labels by which the expression groups, wherever it has one of these labels."""
    for found in promql.label_lists(expr):
        check("job" in found or not wherever & found, where, f"merges jobs by {', '.join(sorted(found))}: {expr}")


def check_selection(expr, where):
    """Check that queries use the variables of the dashboard, and that rate windows fit the graph."""
    for name, matchers, span in promql.selectors(expr):
        chosen = {label: value for label, _, value in matchers}
        # Rules may leave out the instance.
        for label in ("job",) if name == "ALERTS" or "present_over_time" in expr and name == "dupgate_build_info" else ("job", "instance"):
            check(chosen.get(label) == f"${label}", where, f"{name} does not ask for ${label}")
        if "topic" in (described(name) or (None, {}))[1]:
            check(chosen.get("topic") == "$topic", where, f"{name} does not ask for $topic")
        if span:
            check(span in ("$__rate_interval", "$__range", "1d"), where, f"a range of {span} fits no graph")
    if "histogram_quantile" in expr:
        check(re.search(r"sum by \(le\b", expr), where, "a quantile needs the label le")


def steps_of(dashboard, title):
    """Return thresholds of a panel as (value, colour)."""
    (panel,) = [panel for panel in inner_panels(dashboard) if panel["title"] == title]
    return [(step["value"], step["color"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]


def dashed(dashboard, title):
    """Return the series of a panel that are drawn dashed, without the job that is before their names."""
    (panel,) = [panel for panel in inner_panels(dashboard) if panel["title"] == title]
    found = set()
    for override in panel["fieldConfig"]["overrides"]:
        styles = [made["value"]["fill"] for made in override["properties"] if made["id"] == "custom.lineStyle"]
        if "dash" in styles:
            found.add(override["matcher"]["options"].strip("/ $"))
    return found


def check_thresholds(overview, quality):
    """Check that the important thresholds are drawn."""
    name = "thresholds"
    for dashboard, title in (
        (overview, "Duplicate share"),
        (overview, "Duplicate share, now and a day ago"),
        (quality, "Duplicate share"),
    ):
        check(steps_of(dashboard, title) == [(0.95, "red")], name, f"{title} is red from 95 % on")
    for title in ("Index fill",):
        drawn = [panel for panel in inner_panels(overview) if panel["title"] == title]
        check(len(drawn) == 2, name, "Index fill is a number and a graph")
        for panel in drawn:
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]
            check([(step["value"], step["color"]) for step in steps] == [(0.8, "yellow"), (0.9, "red")], name, title)
    check(steps_of(overview, "Dead letters")[0] == (1e-9, "yellow"), name, "dead letters are yellow above 0")
    check(steps_of(overview, "Dead letters by stage and reason") == [(1e-9, "yellow")], name, "dead letters are yellow above 0")
    check("configured" in dashed(overview, "Effective window and configured window"), name, "the configured window is dashed")
    check("window" in dashed(quality, "Age of matches"), name, "the window is dashed beside the age of matches")


def check_states(overview):
    """Check that states are shown by job: the judge of one deployment must not hide that another has none."""
    for panel in inner_panels(overview):
        if panel["title"] in BY_JOB:
            for target in panel["targets"]:
                is_grouped = re.match(r"(time\(\) - )?(sum|min|max|count) by \(job\b", target["expr"])
                is_named = target["legendFormat"].startswith("{{job}} ")
                check(is_grouped and is_named, panel["title"], f"query {target['refId']} merges jobs")
    titles = {panel["title"] for panel in inner_panels(overview)}
    check(BY_JOB <= titles, "states", f"there are no panels {sorted(BY_JOB - titles)}")


def check_dashboards(alerts):
    """Check both dashboards."""
    made = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}
    check(sorted(made) == ["match-quality.json", "overview.json"], "dashboards", f"there are {sorted(made)}")
    for name, dashboard in made.items():
        panels = inner_panels(dashboard)
        check_frame(name, dashboard)
        check_grid(name, panels)
        for panel in panels:
            if panel["type"] != "row":
                check_panel(name, panel, alerts)
        queries = sum(len(panel.get("targets", [])) for panel in panels)
        say(f"{name}: {len(panels)} panels and rows, {queries} queries: variables, places, units, legends, metrics, labels")
    check_thresholds(made["overview.json"], made["match-quality.json"])
    say("thresholds are drawn: duplicate share, index fill, dead letters, windows")
    check_states(made["overview.json"])
    say(f"states are shown by job: {', '.join(sorted(BY_JOB))}")
    shown = {name for dashboard in made.values() for panel in inner_panels(dashboard) for target in panel.get("targets", [])
             for name, _, _ in promql.selectors(target["expr"])}
    hidden = [name for name in KNOWN if not shown & {name, f"{name}_bucket", f"{name}_count", f"{name}_sum"}]
    # Shown in bytes instead.
    check(set(hidden) <= {"dupgate_producer_queue_records"}, "dashboards", f"metrics that no panel shows: {hidden}")
    say(f"all {len(KNOWN)} metrics are on a panel, but for {', '.join(hidden)}")
    return {panel["title"] for dashboard in made.values() for panel in inner_panels(dashboard)}


def load(text):
    """Read YAML with the faster parser."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def rules():
    """Return all alerts by name."""
    groups = load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    names = [rule["alert"] for rule in found]
    check(len(names) == len(set(names)), "alerts.yaml", "two alerts have one name")
    return {rule["alert"]: rule for rule in found}


def check_alerts(alerts):
    """Check the rules and the list of their tests."""
    for name, rule in alerts.items():
        check(re.fullmatch(r"Dupgate([A-Z][a-z]+)+", name), name, "names are in camel case")
        check(rule["labels"].get("severity") in ("critical", "warning", "info"), name, "needs a severity")
        check("for" in rule or name in AT_ONCE, name, "needs a time that it must last")
        notes = rule["annotations"]
        check(set(notes) == {"summary", "description", "runbook_url"}, name, "needs summary, description and runbook_url")
        check(notes["runbook_url"] == f"{PAGE}#{name.lower()}", name, f"its runbook is {PAGE}#{name.lower()}")
        check(notes["summary"].endswith(".") and notes["description"].endswith("."), name, "annotations are sentences")
        check_expression(rule["expr"], name)
        check_jobs(rule["expr"], name, promql.labels(rule["expr"]))
    say(f"alerts.yaml: {len(alerts)} alerts: severity, annotations, metrics, labels")
    fires, silent = set(), set()
    for test in load((FILES / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]:
        for series in test["input_series"]:
            (name, matchers, _) = promql.selectors(series["series"])[0]
            for label, _, value in matchers:
                known = described(name)
                check(known, test["name"], f"no such metric: {name}")
                if label not in TARGET | {REPLAY} and known:
                    check(label in known[1], test["name"], f"{name} has no label {label}")
                    check(not known[1].get(label) or value in known[1][label], test["name"], f"{name} has no {label} {value}")
        for case in test["alert_rule_test"]:
            (fires if case["exp_alerts"] else silent).add(case["alertname"])
    check(fires == alerts.keys(), "alerts_test.yaml", f"never fire: {sorted(alerts.keys() - fires)}")
    check(silent == alerts.keys(), "alerts_test.yaml", f"are never silent: {sorted(alerts.keys() - silent)}")
    say("alerts_test.yaml: every alert fires once and is silent once, on series that exist")


def commands(text):
    """Return the commands of dupgate in a text, in code or in a block of shell commands."""
    blocks = [line.removeprefix("$ ") for block in re.findall(r"```console\n(.*?)```", text, re.S)
              for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in [*blocks, *re.findall(r"`([^`\n]+)`", text)] if line.startswith("dupgate ")]


def check_command(program, line):
    """Check that a command and its options exist."""
    words = line.split(" #")[0].split()[1:]
    names = []
    for word in words:
        if not re.fullmatch(r"[a-z-]+", word) or word.startswith("-"):
            break
        names.append(word)
    # Arguments after the last subcommand may be files.
    while names:
        key = " ".join(names)
        if key not in helps:
            asked = subprocess.run([program, "help", *names], capture_output=True, text=True, check=False)
            helps[key] = asked.stdout if asked.returncode == 0 else None
        if helps[key] is not None:
            break
        names.pop()
    if not names:
        fault("RUNBOOKS.md", f"no such command: {line}")
        return
    has_subcommands = "\nCommands:\n" in helps[" ".join(names)]
    check(not has_subcommands or len(words) > 1, "RUNBOOKS.md", f"names no subcommand: {line}")
    if has_subcommands and len(words) > len(names) and not words[len(names)].startswith("-"):
        fault("RUNBOOKS.md", f"no such subcommand: {line}")
    for option in (word.split("=")[0] for word in words if word.startswith("-")):
        check(re.search(rf"(^|\s|,){re.escape(option)}\b", helps[" ".join(names)]), "RUNBOOKS.md", f"no option {option}: {line}")


def check_runbooks(program, alerts, panels):
    """Check that runbooks and alerts match, and that everything they name exists."""
    if not RUNBOOKS.exists():
        fault("RUNBOOKS.md", "is missing")
        return
    text = RUNBOOKS.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (Dupgate\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    check(sections.keys() == alerts.keys(), "RUNBOOKS.md", f"alerts and sections differ: {sorted(sections.keys() ^ alerts.keys())}")
    for name, section in sections.items():
        found = re.findall(r"^\*\*([A-Z][a-z ]+)\.\*\*", section, re.M)
        check(found == SECTIONS, name, f"its section has the parts {found}, not {SECTIONS}")
        look = re.search(r"^\*\*First look\.\*\*(.*?)^\*\*Mitigation", section, re.M | re.S)
        blocks = re.findall(r"```console\n(.*?)```", look[1], re.S) if look else []
        check(look and commands(look[1]), name, "its first look has no command")
        is_shown = all(not block.splitlines()[-1].startswith("$ ") for block in blocks)
        check(is_shown, name, "its first look does not show what the command prints")
        # The image contains only the program.
        check("curl" not in section, name, "needs curl: the recipe is above the sections")
        severity = alerts.get(name, {}).get("labels", {}).get("severity")
        check(re.search(rf"^Severity: {severity}\.", section, re.M), name, "its section must tell the severity of the rule")
    for panel in re.findall(r"[Pp]anel \*([^*]+)\*", text):
        check(" ".join(panel.split()) in panels, "RUNBOOKS.md", f"there is no panel {panel}")
    for metric in re.findall(r"`(dupgate_\w+)", text):
        check(described(metric), "RUNBOOKS.md", f"no such metric: {metric}")
    for alert in re.findall(r"\[(Dupgate\w+)\]\(#(\w+)\)", text):
        check(alert[0] in sections and alert[1] == alert[0].lower(), "RUNBOOKS.md", f"links to no section: {alert}")
    settings = (CONFIG / "dupgate.yaml").read_text(encoding="utf-8")
    # Topic settings, Kafka client settings and headers also have dots.
    settings += "".join(f"{part}:" for name in OTHERS for part in name.split("."))
    for setting in re.findall(r"`([a-z]+(?:\.[a-z_]+)+)`", text):
        check(all(re.search(rf"\b{part}:", settings) for part in setting.split(".")), "RUNBOOKS.md", f"no such setting: {setting}")
    for old in re.findall(r"waits for rulings|\d+days|trimmed behind", text):
        fault("RUNBOOKS.md", f"shows what the program printed once: {old}")
    found = commands(text)
    for line in found:
        check_command(program, line)
    say(f"RUNBOOKS.md: {len(sections)} sections for {len(alerts)} alerts, {len(found)} commands: all exist")


def check_services():
    """Check the provisioning of dashboards and rules."""
    sources = load((CONFIG / "grafana/provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8"))
    (source,) = sources["datasources"]
    check((source["uid"], source["type"]) == ("prometheus", "prometheus"), "data source", "its uid is prometheus")
    providers = load((CONFIG / "grafana/provisioning/dashboards/dupgate.yaml").read_text(encoding="utf-8"))
    (provider,) = providers["providers"]
    check(provider["options"]["path"] == "/var/lib/grafana/dashboards", "dashboards", "the folder that is mounted")
    check(provider["folder"] == "Dupgate", "dashboards", "the folder in Grafana is Dupgate")
    scrape = load((CONFIG / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    check(scrape["rule_files"] == ["/etc/prometheus/rules/dupgate.yaml"], "prometheus.yml", "the rule file that is mounted")
    jobs = {job["job_name"]: job for job in scrape["scrape_configs"]}
    check(set(jobs) == {"dupgate", "prometheus"}, "prometheus.yml", "scrapes dupgate and itself")
    named = [target for group in jobs["dupgate"]["static_configs"] for target in group["targets"]]
    named += [f"{name}:{group['port']}" for group in jobs["dupgate"]["dns_sd_configs"] for name in group["names"]]
    check(named == ["dupgate-a:9464", "dupgate-b:9464", "worker:9464"], "prometheus.yml", f"scrapes {named}")
    interval = scrape["global"]["scrape_interval"]
    check(source["jsonData"]["timeInterval"] == interval, "data source", "knows the scrape interval")
    say("config: data source, folder of dashboards, scraped targets, rule file")


def check_generated():
    """Check that the dashboards are up to date with their generator."""
    command = [sys.executable, ROOT / "config/grafana/generate.py", "--check", FILES / "dashboards"]
    made = subprocess.run(command, capture_output=True, check=False)
    check(made.returncode == 0, "dashboards", "are not what config/grafana/generate.py writes")
    say("the dashboards are what config/grafana/generate.py writes")


def check_all(program, root):
    """Check everything below a folder; return the faults."""
    faults.clear()
    locate(root)
    alerts = rules()
    panels = check_dashboards(alerts)
    check_alerts(alerts)
    check_runbooks(program, alerts, panels)
    check_services()
    return faults


def main(program):
    """Check this repository."""
    found = list(check_all(program, ROOT))
    faults.clear()
    check_generated()
    for each in found + faults:
        print(f"FAIL  {each}", file=sys.stderr)
    return bool(found + faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
