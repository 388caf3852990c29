#!/usr/bin/env python3
"""Break dashboards, rules and runbooks on purpose, one thing at a time, and check that the lint catches each.

    broken.py PROGRAM    the dupgate binary
"""

import contextlib
import io
import pathlib
import shutil
import sys
import tempfile

import lint

ROOT = pathlib.Path(__file__).resolve().parents[3]
NEEDED = ["helm/dupgate/files", "config", "docs"]
OVERVIEW, QUALITY = "helm/dupgate/files/dashboards/overview.json", "helm/dupgate/files/dashboards/match-quality.json"
ALERTS, TESTS = "helm/dupgate/files/alerts.yaml", "helm/dupgate/files/alerts_test.yaml"
RUNBOOKS = "docs/RUNBOOKS.md"

# File, text to replace (once), replacement, and the expected message of the lint.
BREAKAGES = [
    (OVERVIEW, '"title": "Lag by topic"', '"title": "Lag of topics"', "not what config/grafana/generate.py writes"),
    (OVERVIEW, '"uid": "dupgate-overview"', '"uid": "x"', "needs a fixed uid"),
    (OVERVIEW, '"editable": false', '"editable": true', "must not be editable"),
    (OVERVIEW, '"name": "topic"', '"name": "subject"', "variables are"),
    (OVERVIEW, '"refresh": 2', '"refresh": 1', "must be refreshed with the time range"),
    (OVERVIEW, '"allValue": ".+"', '"allValue": ".*"', "must offer all and several"),
    (OVERVIEW, '"url": "/d/dupgate-match-quality"', '"url": "/d/other"', "needs a link to Dupgate / Match quality"),
    (OVERVIEW, '"url": "${operator_page:raw}"', '"url": "${page}"', "needs a link to the operator page"),
    (OVERVIEW, '"id": 3,', '"id": 2,', "two panels have one id"),
    (OVERVIEW, '"x": 4,\n        "y": 1', '"x": 3,\n        "y": 1', "overlaps"),
    (OVERVIEW, '"x": 20,\n        "y": 1', '"x": 22,\n        "y": 1', "is wider than the grid"),
    (OVERVIEW, '"description": "Documents that got', '"descriptions": "Documents that got', "needs a description"),
    (OVERVIEW, '"unit": "cps"', '"units": "cps"', "needs a unit"),
    (OVERVIEW, '"uid": "${datasource}"\n      },\n      "links"', '"uid": "abc"\n      },\n      "links"', "must ask the chosen data source"),
    (OVERVIEW, '"legendFormat": "oldest"', '"legendFormat": "__auto"', "needs a legend"),
    (OVERVIEW, '"sortBy": "Last *"', '"sortBy": "Name"', "sorted by the last value"),
    (OVERVIEW, '"refId": "B"', '"refId": "A"', "two queries have one letter"),
    (OVERVIEW, "dupgate_build_info{job", "dupgate_built_info{job", "no such metric in docs/METRICS.md: dupgate_built_info"),
    (OVERVIEW, 'verdict=~\\"exact|near\\"', 'verdict=~\\"exact|nearly\\"', "not all of exact|nearly"),
    (OVERVIEW, 'stage=\\"lookup\\"', 'stage=\\"look\\"', "no stage of"),
    (OVERVIEW, "sum by (verdict)", "sum by (output)", "has the label output"),
    (OVERVIEW, "[$__rate_interval]", "", "is a counter and needs rate"),
    (OVERVIEW, "1e-9)\",\n", "1e-9) + sum(rate(dupgate_repeated_requests_total[5m]))\",\n", "fits no graph"),
    (OVERVIEW, 'dupgate_build_info{job=~\\"$job\\",instance', 'dupgate_build_info{instance', "does not ask for $job"),
    (OVERVIEW, ',topic=~\\"$topic\\"', "", "does not ask for $topic"),
    (OVERVIEW, 'dupgate_documents_total{job=~\\"$job\\",instance=~\\"$instance\\",replay=\\"\\"', 'dupgate_documents_total{job=~\\"$job\\",instance=~\\"$instance\\"', "mixes replays and the service"),
    (ALERTS, '{replay=""}', "", "mixes replays and the service"),
    (OVERVIEW, ',replay!=\\"\\"', ',replay=\\"\\"', "mixes replays and the service"),
    (OVERVIEW, "sum by (le)", "sum by (job)", "a quantile needs the label le"),
    (OVERVIEW, '"options": "exact"', '"options": "exactly"', "changes a series that never comes: exactly"),
    (OVERVIEW, "#dupgatenojudge", "#dupgatenobody", "links to no runbook"),
    (OVERVIEW, '"value": 0.95', '"value": 0.9', "is red from 95 % on"),
    (OVERVIEW, '"value": 0.8', '"value": 0.7', "thresholds: Index fill"),
    (OVERVIEW, '"options": "/ configured$/"', '"options": "/ effective$/"', "the configured window is dashed"),
    (OVERVIEW, '"options": "/ configured$/"', '"options": "/ configures$/"', "changes a series that never comes: / configures$/"),
    (QUALITY, '"options": "/ window$/"', '"options": "p99"', "the window is dashed"),
    (OVERVIEW, "max by (job, log_partition) (dupgate_last_trim", "max by (log_partition) (dupgate_last_trim", "merges jobs by log_partition"),
    (OVERVIEW, '"{{job}} since the last trim, partition', '"since the last trim, partition', "the legend of a series of one job names the job"),
    (OVERVIEW, "sum by (job) (max by (job, log_partition)", "sum(max by (job, log_partition)", "Judges: query A merges jobs"),
    (ALERTS, "count by (job, group, hash)", "count by (group, hash)", "merges jobs by group, hash"),
    (QUALITY, "dupgate_index_full_keys_total", "dupgate_index_late_records_total", "metrics that no panel shows"),
    (RUNBOOKS, "$ dupgate status --address 127.0.0.1:9464 --ready\n", "$ ps\n", "DupgateDown: its first look has no command"),
    (RUNBOOKS, "LOG OFFSET  VERDICT", "```\n\n```console\n$ dupgate status\n```\n\n```text", "does not show what the command prints"),
    (RUNBOOKS, "`POST /api/v1/resume`", "`curl -X POST localhost:9465/api/v1/resume`", "needs curl"),
    (ALERTS, "severity: critical", "severity: urgent", "needs a severity"),
    (ALERTS, "        for: 5m\n", "", "needs a time that it must last"),
    (ALERTS, "RUNBOOKS.md#dupgatedown", "RUNBOOKS.md#down", "RUNBOOKS.md#dupgatedown"),
    (ALERTS, "dupgate_index_ready", "dupgate_index_is_ready", "no such metric"),
    (ALERTS, 'reason="capacity"', 'reason="full"', "no reason of dupgate_index_evictions_total is full"),
    (ALERTS, "by (job, log_partition)", "by (job, partition)", "has the label partition"),
    (ALERTS, "alert: DupgateHotCluster", "alert: DupgateWarmCluster", "alerts and sections differ"),
    (TESTS, "alertname: DupgateConfigDrift, exp_alerts: []", "alertname: DupgateDown, exp_alerts: []", "are never silent: ['DupgateConfigDrift']"),
    (TESTS, 'component="log", kind="corrupt"', 'component="disk", kind="corrupt"', "has no component disk"),
    (RUNBOOKS, "## DupgateStalled", "## DupgateStopped", "alerts and sections differ"),
    (RUNBOOKS, "**Impact.**", "**Harm.**", "its section has the parts"),
    (RUNBOOKS, "Severity: critical.", "Severity: warning.", "must tell the severity"),
    (RUNBOOKS, "$ dupgate index top", "$ dupgate index tops", "no such subcommand"),
    (RUNBOOKS, "dupgate tap --verdict", "dupgate tap --verdicts", "no option --verdicts"),
    (RUNBOOKS, "anel *Paused*", "anel *Halted*", "there is no panel Halted"),
    (RUNBOOKS, "`judge.session_timeout`", "`judge.session_time`", "no such setting: judge.session_time"),
    (RUNBOOKS, "(#dupgatedraintimehigh)", "(#dupgatedrain)", "links to no section"),
    (RUNBOOKS, "worker: waits for verdicts", "worker: waits for rulings", "printed once: waits for rulings"),
    ("config/prometheus/prometheus.yml", "dupgate-b:9464", "dupgate-c:9464", "prometheus.yml: scrapes"),
    ("config/grafana/provisioning/datasources/prometheus.yaml", "uid: prometheus", "uid: prom", "its uid is prometheus"),
    ("config/grafana/provisioning/dashboards/dupgate.yaml", "/var/lib/grafana/dashboards", "/dashboards", "the folder that is mounted"),
    ("docs/METRICS.md", "| `dupgate_index_entries` |", "| `dupgate_entries` |", "no such metric in docs/METRICS.md: dupgate_index_entries"),
]


def found_by_lint(program, root):
    """Return what the lint finds below a folder."""
    with contextlib.redirect_stdout(io.StringIO()):
        return "\n".join(lint.check_all(program, root))


def found_by_generator():
    """Return what the comparison with the generator finds in the folder of the last lint."""
    lint.faults.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        lint.check_generated()
    return "\n".join(lint.faults)


def main(program):
    """Break each thing and restore it."""
    missed = []
    with tempfile.TemporaryDirectory(prefix="dupgate-broken.") as folder:
        root = pathlib.Path(folder)
        for name in NEEDED:
            shutil.copytree(ROOT / name, root / name)
        for name, before, after, said in BREAKAGES:
            path = root / name
            text = path.read_text(encoding="utf-8")
            if before not in text:
                missed.append(f"{name} has no {before!r}")
                continue
            path.write_text(text.replace(before, after, 1), encoding="utf-8")
            found = found_by_lint(program, root)
            if "generate.py" in said:
                found = found_by_generator()
            if said not in found:
                missed.append(f"{name}: {before!r} -> {after!r} is not caught, but: {found or 'nothing'}")
            path.write_text(text, encoding="utf-8")
    for each in missed:
        print(f"FAIL  {each}", file=sys.stderr)
    print(f"ok    {len(BREAKAGES) - len(missed)} of {len(BREAKAGES)} breakages are caught by the lint")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
