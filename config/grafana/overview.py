"""Dupgate / Overview: the state of the service. The first row fits on one screen and shows problems first."""

from model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCES,
    OF_REPLAYS,
    ORANGE,
    OUTPUTS,
    PURPLE,
    QUANTILES,
    RED,
    TOPICS,
    VERDICTS,
    YELLOW,
    Dashboard,
    bars,
    color,
    heatmap,
    increase,
    limit,
    lines,
    mean,
    metric,
    override,
    quantile,
    query,
    rate,
    ratio,
    runbook,
    stat,
    states,
    steps,
    table,
)

UID, TITLE = "dupgate-overview", "Dupgate / Overview"
OTHER = ("dupgate-match-quality", "Dupgate / Match quality")

DUPLICATES = 'verdict=~"exact|near"'
STOPPED = 'reason=~"breaker|manual"'
LOOKUP = 'stage="lookup"'
COMMIT = 'queue="commit"'
# Only judges and standbys have an index; the limits are configured on every instance.
OF_JUDGES = f"and on (job, instance) {metric('index_ready')}"

LAG = metric("consumer_lag_records", TOPICS)
NEWEST = f"max by (job, topic) ({metric('last_record_timestamp_seconds', TOPICS)})"
DOCUMENTS = f"sum({rate('documents_total')})"
DEAD = f"sum({rate('dead_letters_total')})"
SHARE = ratio(f"sum({rate('documents_total', DUPLICATES)})", DOCUMENTS)
FILL = (
    f"max(sum by (job, instance) ({metric('index_memory_bytes')})"
    f" / sum by (job, instance) ({metric('index_memory_limit_bytes')} {OF_JUDGES}))"
)
REACH = f"min by (job) ({metric('index_stream_timestamp_seconds')} - {metric('index_oldest_entry_timestamp_seconds')})"
WINDOW = f"max by (job) ({metric('index_window_seconds')} {OF_JUDGES})"


def quantiles(name, *matchers, which=("p50", "p95", "p99")):
    """Make one query for each quantile."""
    return [query(quantile(int(p[1:]) / 100, name, *matchers), p) for p in which]


def colors(shades, *only):
    """Colour series by their meaning; all of them, or those named."""
    return [color(name, shade) for name, shade in shades.items() if name in (only or shades)]


def numbers():
    """Return the two lines of large numbers at the top: whether the service works, and how well."""
    down = (
        'count((up{job=~"$job",instance=~"$instance"} == 0) and on (job) '
        'count by (job) (present_over_time(dupgate_build_info{job=~"$job",replay=""}[1d]))) or vector(0)'
    )
    standby = (
        f"count by (job) (({metric('index_ready')} == 1) unless on (job, instance) "
        f"(sum by (job, instance) ({metric('judge_active')}) > 0)) or 0 * max by (job) ({metric('index_ready')})"
    )
    paused = f"count({metric('consumer_paused', STOPPED)} == 1) or vector(0)"
    return [
        stat(
            "Instances",
            "Instances that are scraped, and targets of the same jobs that are down.",
            [query(f"count({metric('build_info')})", "up"), query(down, "down")],
            unit="short",
            no_data="none",
            thresholds=steps("text"),
            graph="none",
            overrides=[override("down", ("thresholds", steps(GREEN, (1, RED))))],
            runbooks=("DupgateDown", "DupgateInstanceDown"),
        ),
        stat(
            "Judges",
            "Partitions of the fingerprint log with an active judge, and standbys with the complete state. Without a "
            "judge no page gets a verdict; without a standby a failure costs a restore.",
            [
                query(f"sum by (job) (max by (job, log_partition) ({metric('judge_active')}))", "{{job}} judging"),
                query(standby, "{{job}} standing by"),
            ],
            unit="short",
            no_data="no judge in this selection",
            thresholds=steps("text"),
            graph="none",
            overrides=[
                override("{{job}} judging", ("thresholds", steps(RED, (1, GREEN)))),
                override("{{job}} standing by", ("thresholds", steps(YELLOW, (1, GREEN)))),
            ],
            runbooks=("DupgateNoJudge", "DupgateNoStandby"),
        ),
        stat(
            "Oldest page without a verdict",
            "Waiting time of the page that has waited longest for its verdict. Grows while no judge is active.",
            [query(f"max({metric('oldest_pending_verdict_seconds')})", "oldest")],
            unit="s",
            thresholds=steps(GREEN, (5, YELLOW), (60, RED)),
            runbooks=("DupgateNoVerdicts", "DupgateVerdictWaitHigh"),
        ),
        stat(
            "Time to drain",
            "Lag divided by the current consumption rate: the time to catch up, not counting new records. The slowest job.",
            [
                query(
                    f"max(sum by (job) ({LAG}) / clamp_min(sum by (job) ({rate('records_consumed_total', TOPICS)}), 1))",
                    "to drain",
                )
            ],
            unit="s",
            thresholds=steps(GREEN, (600, YELLOW), (3600, RED)),
            runbooks=("DupgateStalled", "DupgateDrainTimeHigh"),
        ),
        stat(
            "Time lag",
            "Wall clock minus the event time of the newest processed record, worst topic. Also grows while the crawler "
            "writes nothing: compare with the time to drain.",
            [query(f"max(time() - {NEWEST})", "behind")],
            unit="s",
            runbooks=("DupgateLatencyHigh",),
        ),
        stat(
            "Standing still",
            "Blocked partitions, and instances whose input is paused by the breaker or by an operator. Each needs "
            "manual action.",
            [query(f"sum({metric('blocked_partitions')})", "blocked partitions"), query(paused, "paused inputs")],
            unit="short",
            thresholds=steps(GREEN, (1, RED)),
            graph="none",
            runbooks=("DupgatePartitionsBlocked", "DupgateBreakerPaused", "DupgatePausedManually"),
        ),
        stat(
            "Documents",
            "Documents that got a verdict and were delivered, all instances.",
            [query(DOCUMENTS, "documents")],
            unit="cps",
        ),
        stat(
            "Duplicate share",
            "Exact and near duplicates over all documents.",
            [query(SHARE, "duplicates")],
            unit="percentunit",
            thresholds=steps("text", (0.95, RED)),
            runbooks=("DupgateDuplicateShareExtreme", "DupgateDuplicateShareShifted"),
        ),
        stat(
            "Kept away from downstream",
            "Input bytes of duplicates.",
            [query(f"sum({rate('duplicate_bytes_total')})", "duplicates")],
            unit="Bps",
        ),
        stat(
            "Dead letters",
            "Share of delivered records that got no verdict. Excludes dead letters that are held back, which have "
            "their own panel.",
            [query(ratio(DEAD, f"({DOCUMENTS} + {DEAD})"), "dead letters")],
            unit="percentunit",
            thresholds=steps(GREEN, (1e-9, YELLOW), (0.01, RED)),
            runbooks=("DupgateDeadLetters",),
        ),
        stat(
            "Index fill",
            "Index memory as a share of its limit, worst judge or standby. The limit is enforced by the number of "
            "originals, so a full index may be slightly below or above 100 %.",
            [query(FILL, "used")],
            unit="percentunit",
            no_data="no judge in this selection",
            thresholds=steps(GREEN, (0.8, YELLOW), (0.9, RED)),
            runbooks=("DupgateIndexNearlyFull",),
        ),
        stat(
            "Effective window",
            "How far back the index reaches, and the configured window. It grows for one window after a cold start; "
            "later, a shorter reach means that the index is full.",
            [query(REACH, "{{job}} reaches"), query(WINDOW, "{{job}} configured")],
            unit="s",
            no_data="no judge in this selection",
            graph="none",
            runbooks=("DupgateWindowTruncated", "DupgateColdStart"),
        ),
    ]


def glance():
    """Return the panels below the numbers on the first screen."""
    severity = ("custom.cellOptions", {"type": "color-text"})
    shades = {"critical": RED, "warning": ORANGE, "info": BLUE}
    mapping = [
        {
            "type": "value",
            "options": {name: {"index": i, "text": name, "color": shade} for i, (name, shade) in enumerate(shades.items())},
        }
    ]
    alerts = table(
        "Firing alerts",
        "Firing alerts of dupgate; click a name to open its runbook. Needs the alert rules in the same Prometheus.",
        [query('ALERTS{alertname=~"Dupgate.+",alertstate="firing",job=~"$job"}', "{{alertname}}")],
        columns={"alertname": "Alert", "severity": "Severity", "job": "Job", "instance": "Instance"},
        sort="Severity",
        no_data="no alert is firing",
        overrides=[
            override("Severity", severity, ("mappings", mapping), ("custom.width", 90)),
            override(
                "Alert",
                ("links", [{"title": "Runbook", "url": "${runbooks:raw}#${__value.raw}", "targetBlank": True}]),
            ),
        ],
    )
    role = (
        f"max by (job, instance) ({metric('index_ready')}) + "
        f"(max by (job, instance) ({metric('judge_active')}) or 0 * max by (job, instance) ({metric('index_ready')}))"
    )
    return [
        (alerts, 9),
        (
            lines(
                "Documents by verdict",
                "A step without a deploy indicates a change of the crawler, or an error page.",
                [query(f"sum by (verdict) ({rate('documents_total')})", "{{verdict}}")],
                unit="cps",
                stack=True,
                overrides=colors(VERDICTS),
            ),
            9,
        ),
        (
            lines(
                "Lag by topic",
                "Records between the committed offsets and the ends of the partitions.",
                [query(f"sum by (job, topic) ({LAG})", "{{job}} {{topic}}")],
                unit="short",
                runbooks=("DupgateStalled", "DupgateDrainTimeHigh"),
            ),
            9,
        ),
        (
            lines(
                "End-to-end latency",
                "Time from a record's timestamp to the acknowledgement of its delivery. While a lag is drained, this "
                "is the age of the lag.",
                quantiles("end_to_end_latency_seconds"),
                unit="s",
                overrides=colors(QUANTILES, "p50", "p95", "p99"),
                runbooks=("DupgateLatencyHigh",),
            ),
            8,
        ),
        (
            lines(
                "Verdict wait",
                "Time from sending a request to reading its verdict, and the oldest page that is waiting now.",
                [
                    *quantiles("verdict_wait_seconds", which=("p50", "p95")),
                    query(f"max({metric('oldest_pending_verdict_seconds')})", "oldest now"),
                ],
                unit="s",
                overrides=[*colors(QUANTILES, "p50", "p95"), color("oldest now", RED)],
                runbooks=("DupgateNoVerdicts", "DupgateVerdictWaitHigh"),
            ),
            8,
        ),
        (
            states(
                "Judge and standbys",
                "State of each instance with the judge role. One line must be green at any time. An instance that "
                "judges one of several partitions counts as judging.",
                [query(role, "{{job}} {{instance}}")],
                {0: ("restoring", YELLOW), 1: ("standing by", BLUE), 2: ("judging", GREEN)},
                runbooks=("DupgateNoJudge", "DupgateIndexNotReady", "DupgateJudgeFlapping"),
            ),
            8,
        ),
    ]


def flow():
    """Return throughput: rates and errors."""
    yesterday = SHARE.replace("[$__rate_interval]", "[$__rate_interval] offset 1d")
    return [
        lines(
            "Duplicate share, now and a day ago",
            "Compare with yesterday: most changes come from the crawler.",
            [query(SHARE, "now"), query(yesterday, "a day ago")],
            unit="percentunit",
            thresholds=steps("transparent", (0.95, RED)),
            defaults={"max": 1},
            overrides=[color("now", BLUE), limit("a day ago", GREY)],
            runbooks=("DupgateDuplicateShareExtreme", "DupgateDuplicateShareShifted"),
        ),
        lines(
            "Produced by output",
            "Records acknowledged by the brokers. Together they equal the records consumed, except after redeliveries.",
            [query(f"sum by (output) ({rate('records_produced_total')})", "{{output}}")],
            unit="cps",
            stack=True,
            overrides=colors(OUTPUTS),
        ),
        lines(
            "Bytes in and out",
            "Keys and values read; keys, values and headers written.",
            [
                query(f"sum({rate('consumed_bytes_total', TOPICS)})", "in"),
                query(f"sum by (output) ({rate('produced_bytes_total')})", "{{output}}"),
            ],
            unit="Bps",
            overrides=[color("in", BLUE), *colors(OUTPUTS)],
        ),
        lines(
            "Dead letters by stage and reason",
            "Records that got no verdict. Each goes to the dead-letter topic with reason, message and original bytes.",
            [query(f"sum by (stage, reason) ({rate('dead_letters_total')})", "{{stage}}: {{reason}}")],
            unit="cps",
            thresholds=steps("transparent", (1e-9, YELLOW)),
            legend="right",
            runbooks=("DupgateDeadLetters",),
        ),
        lines(
            "Dead letters held back",
            "Records without a verdict at an instance whose breaker has paused the input. They are not delivered yet.",
            [query(f"sum by (reason) ({metric('dead_letters_held')})", "{{reason}}")],
            unit="short",
            thresholds=steps("transparent", (1, YELLOW)),
            legend="right",
            runbooks=("DupgateBreakerPaused",),
        ),
        lines(
            "Errors by component",
            "Internal errors by component and kind; the log has the details. `retriable` and `abortable` errors are "
            "retried, `corrupt` ones need investigation.",
            [query(f"sum by (component, kind) ({rate('errors_total')})", "{{component}}: {{kind}}")],
            unit="cps",
            legend="right",
            runbooks=("DupgateCorruptData", "DupgateCommitsFailing"),
        ),
        lines(
            "Records given up on",
            "Records that the brokers permanently reject, by output and reason. They become dead letters.",
            [query(f"sum by (output, reason) ({rate('produce_failures_total')})", "{{output}}: {{reason}}")],
            unit="cps",
            legend="right",
            runbooks=("DupgateProduceFailing",),
        ),
        lines(
            "Withdrawn by reason",
            "Documents that were judged but could not be delivered; the judge forgets them.",
            [query(f"sum by (reason) ({rate('withdrawn_documents_total')})", "{{reason}}")],
            unit="cps",
            legend="right",
        ),
        lines(
            "Bypassed by reason",
            "Records passed on without a lookup.",
            [query(f"sum by (reason) ({rate('bypassed_documents_total')})", "{{reason}}")],
            unit="cps",
            legend="right",
        ),
    ]


def latency():
    """Return where time goes."""
    return [
        lines(
            "Record duration",
            "Time from poll to the brokers' acknowledgement of the routed record.",
            quantiles("record_duration_seconds"),
            unit="s",
            overrides=colors(QUANTILES, "p50", "p95", "p99"),
        ),
        lines(
            "Time per document by stage",
            "Mean time per document: of a text thread for decode to fingerprint, of the judge for lookup. Produce is "
            "the wait for the brokers, shared by all documents of a transaction.",
            [query(mean("stage_duration_seconds", "stage"), "{{stage}}")],
            unit="s",
        ),
        heatmap(
            "Lookup duration",
            "Time of the judge per document. A second band at the top means that some buckets are very full.",
            f"sum by (le) ({rate('stage_duration_seconds_bucket', LOOKUP)})",
            unit="s",
        ),
        lines(
            "Transaction duration",
            "Time from the start of a transaction to the end of its commit or abort.",
            [
                *quantiles("transaction_duration_seconds", 'result="committed"', which=("p50", "p99")),
                query(quantile(0.99, "transaction_duration_seconds", 'result="aborted"'), "p99 aborted"),
            ],
            unit="s",
            overrides=[*colors(QUANTILES, "p50", "p99"), color("p99 aborted", RED)],
        ),
        lines(
            "Records per transaction",
            "Many small transactions cost the brokers more than few large ones; see output.commit_interval.",
            quantiles("transaction_records", which=("p50", "p95")),
            unit="short",
            overrides=colors(QUANTILES, "p50", "p95"),
        ),
        lines(
            "Text thread utilisation",
            "Share of the time that text threads are busy, by instance. If it is near 1 and the lag grows, add "
            "threads or workers.",
            [
                query(
                    f"sum by (job, instance) ({rate('text_thread_busy_seconds_total')})"
                    f" / sum by (job, instance) ({metric('text_threads')})",
                    "{{job}} {{instance}}",
                )
            ],
            unit="percentunit",
            thresholds=steps("transparent", (0.9, YELLOW)),
            runbooks=("DupgateDrainTimeHigh",),
        ),
    ]


def judging():
    """Return the panels of the judge and its two logs."""
    return [
        lines(
            "Judge wait",
            "Time from fetching a request to judging it. Grows if lookups or commits are slow.",
            quantiles("judge_wait_seconds"),
            unit="s",
            overrides=colors(QUANTILES, "p50", "p95", "p99"),
            runbooks=("DupgateVerdictWaitHigh",),
        ),
        lines(
            "Lag on the internal logs",
            "fingerprints: requests that the judge has read and not judged. verdicts: verdicts that the slowest worker has "
            "not read.",
            [query(f"max by (log) ({metric('internal_log_lag_records')})", "{{log}}")],
            unit="short",
            overrides=[color("fingerprints", PURPLE), color("verdicts", BLUE)],
            runbooks=("DupgateVerdictWaitHigh",),
        ),
        lines(
            "Verdict log span",
            "Event time that the retained verdict log spans, and the time since the brokers last trimmed the logs. "
            "The span follows the retention (dashed): window plus allowed lateness, or logs.retention. If it is far "
            "above, something prevents trimming. After a change of the scheme, also what is left of the dual period.",
            [
                query(
                    f"max by (job, log_partition) ({metric('verdict_log_span_seconds')})",
                    "{{job}} partition {{log_partition}}",
                ),
                query(f"max by (job) ({metric('verdict_log_retention_seconds')} {OF_JUDGES})", "{{job}} retention"),
                query(
                    f"time() - max by (job, log_partition) ({metric('last_trim_timestamp_seconds')})",
                    "{{job}} since the last trim, partition {{log_partition}}",
                ),
                query(
                    f"max by (job, log_partition) ({metric('dual_period_remaining_seconds')})",
                    "{{job}} left of the dual period, partition {{log_partition}}",
                ),
            ],
            unit="s",
            overrides=[limit("{{job}} retention", GREY)],
            runbooks=("DupgateVerdictLogSpanHigh",),
        ),
        lines(
            "Takeovers",
            "Instances that became the judge of a partition. Each rolling update causes one or two takeovers.",
            [query(f"sum by (job, instance) ({increase('judge_takeovers_total')})", "{{job}} {{instance}}")],
            unit="short",
            bars=True,
            stack=True,
            defaults={"decimals": 0},
            runbooks=("DupgateJudgeFlapping",),
        ),
        lines(
            "Restored entries by source",
            "Originals that judges and standbys restored from snapshots and from the verdict log.",
            [query(f"sum by (source) ({increase('restored_entries_total')})", "{{source}}")],
            unit="short",
            bars=True,
            stack=True,
            runbooks=("DupgateIndexNotReady",),
        ),
        lines(
            "Unusual requests",
            "late: too old for the window when judged, delivered and not remembered. clamped: event times ahead of the "
            "brokers' clock, bounded. repeated: already judged, their verdict holds; each restart makes some.",
            [
                query(f"sum({rate('index_late_records_total')})", "late"),
                query(f"sum({rate('clamped_timestamps_total')})", "clamped"),
                query(f"sum({rate('repeated_requests_total')})", "repeated"),
            ],
            unit="cps",
            overrides=[color("late", ORANGE), color("clamped", PURPLE), color("repeated", GREY)],
            runbooks=("DupgateLateRecords",),
        ),
        lines(
            "Schema Registry",
            "failures: requests that it did not answer, or not usefully; each is repeated. waiting: instances in which "
            "records wait for a schema.",
            [
                query(f"sum({increase('schema_registry_failures_total')})", "failures"),
                query(f"sum({metric('schemas_awaited')}) or vector(0)", "waiting"),
            ],
            unit="short",
            overrides=[color("failures", ORANGE), color("waiting", RED)],
            runbooks=("DupgateSchemasAwaited",),
        ),
    ]


def kafka():
    """Return the panels of the input group and the producers."""
    return [
        lines(
            "Lag by partition",
            "The 20 partitions with the largest lag. If only one grows, it is blocked or has a hot key.",
            [query(f"topk(20, max by (job, topic, partition) ({LAG}))", "{{job}} {{topic}}:{{partition}}")],
            unit="short",
            legend="right",
            runbooks=("DupgateStalled", "DupgatePartitionsBlocked"),
        ),
        lines(
            "Time lag by topic",
            "Wall clock minus the event time of the newest processed record.",
            [query(f"time() - {NEWEST}", "{{job}} {{topic}}")],
            unit="s",
        ),
        lines(
            "Blocked partitions",
            "Blocked partitions, by reason. /readyz of the instance names them and the remedy.",
            [query(f"sum by (reason) ({metric('blocked_partitions')})", "{{reason}}")],
            unit="short",
            thresholds=steps("transparent", (1, RED)),
            runbooks=("DupgatePartitionsBlocked",),
        ),
        lines(
            "Lag of blocked partitions",
            "Records that wait in blocked partitions, until they are unblocked or retention deletes them.",
            [query(f"sum by (job, instance) ({metric('blocked_lag_records')})", "{{job}} {{instance}}")],
            unit="short",
            thresholds=steps("transparent", (1, RED)),
            runbooks=("DupgatePartitionsBlocked",),
        ),
        lines(
            "Assigned partitions by instance",
            "Shows imbalance and handovers.",
            [query(f"sum by (job, instance) ({metric('assigned_partitions', TOPICS)})", "{{job}} {{instance}}")],
            unit="short",
            stack=True,
        ),
        lines(
            "Rebalances and pause",
            "Rebalances by kind (bars), and how long the group waited for instances to release partitions (line, "
            "p95).",
            [
                query(f"sum by (kind) ({increase('rebalances_total')})", "{{kind}}"),
                query(quantile(0.95, "rebalance_pause_seconds"), "pause p95"),
            ],
            unit="short",
            bars=True,
            overrides=[
                color("assign", GREEN),
                color("revoke", YELLOW),
                color("lost", RED),
                override(
                    "pause p95",
                    ("custom.drawStyle", "line"),
                    ("custom.fillOpacity", 0),
                    ("custom.axisPlacement", "right"),
                    ("unit", "s"),
                    ("color", {"mode": "fixed", "fixedColor": PURPLE}),
                ),
            ],
            runbooks=("DupgateRebalancingOften",),
        ),
        states(
            "Paused",
            "Why the input is paused. backpressure comes and goes under load, pacing while partitions wait for a "
            "slower one, restore after a rebalance; breaker and manual stay until an operator acts.",
            [query(f"max by (job, instance, reason) ({metric('consumer_paused')})", "{{job}} {{instance}} {{reason}}")],
            {0: ("reading", GREEN), 1: ("paused", ORANGE)},
            runbooks=("DupgateBreakerPaused", "DupgatePausedManually"),
        ),
        lines(
            "Commits and polls",
            "Seconds since the last commit and since the last poll that returned, worst instance. Commits only happen "
            "if there is something to deliver; polls return continuously.",
            [
                query(f"max(time() - {metric('last_commit_timestamp_seconds')})", "since commit"),
                query(f"max(time() - {metric('last_poll_timestamp_seconds')})", "since poll"),
            ],
            unit="s",
            overrides=[color("since commit", BLUE), color("since poll", PURPLE)],
            runbooks=("DupgateCommitsFailing", "DupgateStalled"),
        ),
        lines(
            "Offset commits",
            "Transactions that carry offsets, by result.",
            [query(f"sum by (result) ({rate('offset_commits_total')})", "{{result}}")],
            unit="cps",
            overrides=[color("ok", GREEN), color("error", RED)],
            runbooks=("DupgateCommitsFailing",),
        ),
        lines(
            "Producer queue",
            "Bytes passed to the producers and not yet acknowledged. If they grow, the brokers are slower than the "
            "workers.",
            [query(f"sum by (job, instance) ({metric('producer_queue_bytes')})", "{{job}} {{instance}}")],
            unit="bytes",
        ),
    ]


def index():
    """Return the panels of the index, in memory and on disk."""
    return [
        lines(
            "Originals in the index",
            "Originals in the index of each judge and standby. A standby has the same as the judge, with a short "
            "delay.",
            [query(f"sum by (job, instance) ({metric('index_entries')} {OF_JUDGES})", "{{job}} {{instance}}")],
            unit="short",
        ),
        lines(
            "Memory by part, and limit",
            "Index memory, summed over judges and standbys, and the sum of their limits.",
            [
                query(f"sum by (part) ({metric('index_memory_bytes')} {OF_JUDGES})", "{{part}}"),
                query(f"sum({metric('index_memory_limit_bytes')} {OF_JUDGES})", "limit"),
            ],
            unit="bytes",
            stack=True,
            overrides=[limit("limit")],
            runbooks=("DupgateIndexNearlyFull",),
        ),
        lines(
            "Index fill",
            "Index memory as a share of its limit, by instance.",
            [
                query(
                    f"sum by (job, instance) ({metric('index_memory_bytes')} {OF_JUDGES})"
                    f" / sum by (job, instance) ({metric('index_memory_limit_bytes')} {OF_JUDGES})",
                    "{{job}} {{instance}}",
                )
            ],
            unit="percentunit",
            thresholds=steps("transparent", (0.8, YELLOW), (0.9, RED)),
            runbooks=("DupgateIndexNearlyFull",),
        ),
        lines(
            "Effective window and configured window",
            "The line reaches the dashed one after one window of uptime. If it stays below, the index is full.",
            [query(REACH, "{{job}} effective"), query(WINDOW, "{{job}} configured")],
            unit="s",
            overrides=[limit("{{job}} configured", GREY)],
            runbooks=("DupgateWindowTruncated", "DupgateColdStart"),
        ),
        lines(
            "Evictions by reason",
            "expired is normal. capacity means that originals are forgotten before their window ends. forgotten ones were "
            "withdrawn, forgotten or reopened.",
            [query(f"sum by (reason) ({rate('index_evictions_total')})", "{{reason}}")],
            unit="cps",
            overrides=[color("expired", GREY), color("capacity", RED), color("forgotten", PURPLE)],
            runbooks=("DupgateWindowTruncated",),
        ),
        lines(
            "Largest bucket",
            "Originals with the most frequent lookup key. Skew makes lookups slow.",
            [query(f"max by (job, instance) ({metric('index_largest_bucket_entries')})", "{{job}} {{instance}}")],
            unit="short",
        ),
        lines(
            "Snapshot age",
            "Time since the last complete snapshot. The alert fires above three intervals (dashed).",
            [
                query(
                    f"max by (job, instance) (time() - {metric('snapshot_last_success_timestamp_seconds')})", "{{job}} {{instance}}"
                ),
                query(f"3 * max by (job) ({metric('snapshot_interval_seconds')} {OF_JUDGES})", "{{job}} limit"),
            ],
            unit="s",
            overrides=[limit("{{job}} limit")],
            runbooks=("DupgateSnapshotStale",),
        ),
        lines(
            "Snapshot duration",
            "p95 of writing and of restoring a snapshot.",
            [query(quantile(0.95, "snapshot_duration_seconds", by=("operation",)), "{{operation}}")],
            unit="s",
            overrides=[color("write", BLUE), color("restore", PURPLE)],
        ),
        lines(
            "Snapshot size",
            "Size of all files of the last complete snapshot.",
            [query(f"max by (job, instance) ({metric('snapshot_size_bytes')})", "{{job}} {{instance}}")],
            unit="bytes",
        ),
        lines(
            "Snapshot failures",
            "Snapshots that could not be written, or could not be read at a start. Without a snapshot, a start reads "
            "more of the log.",
            [query(f"sum by (operation) ({increase('snapshot_failures_total')})", "{{operation}}")],
            unit="short",
            bars=True,
            overrides=[color("write", ORANGE), color("restore", RED)],
            runbooks=("DupgateSnapshotStale", "DupgateCorruptData"),
        ),
        stat(
            "Cold starts in range",
            "Starts with an index that does not reach one window back, in the selected range. restored: indexes that were "
            "dropped and restored, because the verdict log did not go on as they did.",
            [
                query("sum by (reason) (increase(" + metric("cold_starts_total") + "[$__range]))", "{{reason}}", instant=True, range=False),
                query("sum(increase(" + metric("index_restores_total") + "[$__range]))", "restored", instant=True, range=False),
            ],
            unit="short",
            thresholds=steps(GREEN, (0.5, YELLOW)),
            graph="none",
            defaults={"decimals": 0},
            runbooks=("DupgateColdStart",),
        ),
        stat(
            "Second verdicts in range",
            "Verdicts in the verdict log on pages that already had one, in the selected range. The first one counts; "
            "each start that reads them again counts them again.",
            [query("sum(increase(" + metric("second_verdicts_total") + "[$__range]))", "second verdicts", instant=True, range=False)],
            unit="short",
            thresholds=steps(GREEN, (0.5, RED)),
            graph="none",
            defaults={"decimals": 0},
            runbooks=("DupgateSecondVerdict",),
        ),
    ]


def process():
    """Return the panels of the process."""
    return [
        lines(
            "CPU",
            "Cores in use, by instance.",
            [query(f"sum by (job, instance) (rate(process_cpu_seconds_total{{{INSTANCES}}}[$__rate_interval]))", "{{job}} {{instance}}")],
            unit="short",
        ),
        lines(
            "Resident memory",
            "Memory of the process: the index and pages in flight.",
            [query(f"sum by (job, instance) (process_resident_memory_bytes{{{INSTANCES}}})", "{{job}} {{instance}}")],
            unit="bytes",
        ),
        lines(
            "Open files",
            "Open file descriptors as a share of the limit.",
            [
                query(
                    f"max by (job, instance) (process_open_fds{{{INSTANCES}}} / process_max_fds{{{INSTANCES}}})",
                    "{{job}} {{instance}}",
                )
            ],
            unit="percentunit",
            thresholds=steps("transparent", (0.8, RED)),
        ),
        lines(
            "Internal queues",
            "Records waiting for text processing, for verdict and transaction, and in the current transaction.",
            [query(f"sum by (queue) ({metric('queue_records')})", "{{queue}}")],
            unit="short",
            stack=True,
            overrides=[color("work", BLUE), color("produce", PURPLE), color("commit", GREEN)],
        ),
        lines(
            "Transaction fill",
            "Records in the current transaction as a share of its maximum, worst instance.",
            [
                query(
                    f"max by (queue) ({metric('queue_records', COMMIT)} / {metric('queue_limit_records', COMMIT)})",
                    "{{queue}}",
                )
            ],
            unit="percentunit",
            defaults={"max": 1},
        ),
        lines(
            "Uptime",
            "Time since the start of each process. A line that keeps falling to 0, or many short lines, is a crash loop.",
            [
                query(
                    f"max by (job, instance) (time() - process_start_time_seconds{{{INSTANCES}}})",
                    "{{job}} {{instance}}",
                )
            ],
            unit="s",
            runbooks=("DupgateRestarting",),
        ),
        lines(
            "Threads",
            "Threads of the process.",
            [query(f"sum by (job, instance) (process_threads{{{INSTANCES}}})", "{{job}} {{instance}}")],
            unit="short",
        ),
    ]


def replays():
    """Return the progress of replays whose processes are scraped."""

    def of_replay(name):
        return metric(f"replay_{name}", all_instances=OF_REPLAYS)

    progress = of_replay("progress_ratio")
    records = rate("replay_records_total", all_instances=OF_REPLAYS)
    return [
        bars(
            "Progress",
            "Share of warm-up and range that each replay has processed. A replay is shown while its process runs and "
            "is scraped (--listen).",
            [query(f"max by (job, replay) ({progress})", "{{job}} {{replay}}")],
            unit="percentunit",
            no_data="no replay",
            defaults={"max": 1},
            runbooks=("DupgateReplayStalled",),
        ),
        lines(
            "Replay rate",
            "Records that replays process. follow: a resumed replay reads again what it has committed. warm_up: pages "
            "before the range, judged but not produced.",
            [query(f"sum by (job, replay, phase) ({records})", "{{job}} {{replay}} {{phase}}")],
            unit="cps",
            runbooks=("DupgateReplayStalled",),
        ),
        stat(
            "Time left",
            "Remaining time at the current rate.",
            [
                query(
                    f"(1 - max by (job, replay) ({progress}))"
                    f" / (max by (job, replay) (deriv({progress}[$__rate_interval])) > 0)",
                    "{{job}} {{replay}}",
                )
            ],
            unit="s",
            no_data="no replay moves",
            graph="none",
        ),
        lines(
            "Records left",
            "Remaining records of warm-up and range, by replay. Replays of files are not shown, because their lines "
            "are not counted in advance.",
            [query(f"max by (job, replay) ({of_replay('remaining_records')})", "{{job}} {{replay}}")],
            unit="short",
            runbooks=("DupgateReplayStalled",),
        ),
        states(
            "Replays that wait",
            "Replays that wait because the lag of the service exceeds --yield-to-lag.",
            [query(f"max by (job, replay) ({of_replay('yielding')})", "{{job}} {{replay}}")],
            {0: ("judging", GREEN), 1: ("waiting for the service", GREY)},
        ),
    ]


def builds():
    """Return the table of versions and configurations."""
    config = f"max by (job, instance, group, mode, algorithm, scheme, hash) ({metric('config_info')})"
    build = f"max by (job, instance, version, revision, librdkafka) ({metric('build_info')})"
    both = f"{config} * on (job, instance) group_left (version, revision, librdkafka) {build}"
    return table(
        "Build and configuration",
        "One row per instance. Different hashes of one group mean that a configuration change has not reached all "
        "instances. Different groups in one job are two deployments, which alerts do not tell apart. "
        "Instances with different schemes do not find each other's duplicates.",
        [query(both, "build and configuration")],
        columns={
            "job": "Job",
            "instance": "Instance",
            "group": "Input group",
            "version": "Version",
            "revision": "Revision",
            "librdkafka": "librdkafka",
            "mode": "Mode",
            "algorithm": "Stages",
            "scheme": "Scheme",
            "hash": "Configuration",
        },
        sort="Instance",
        runbooks=("DupgateConfigDrift", "DupgateSchemeDrift", "DupgateJobShared"),
    )


def dashboard():
    """Return the dashboard in Grafana's format."""
    made = Dashboard(UID, TITLE, "State of the service: flow, latency, judge, Kafka, index.", other=OTHER)
    made.row("At a glance")
    for number in numbers():
        made.add(number, 4, 4)
    for graph, height in glance():
        made.add(graph, 8, height)
    for title, panels in (
        ("Flow", flow()),
        ("Latency", latency()),
        ("Verdicts and judges", judging()),
        ("Kafka", kafka()),
        ("Index and state", index()),
    ):
        made.row(title)
        for graph in panels:
            made.add(graph, 8, 8)
    made.row("Process", collapsed=True)
    for graph in process():
        made.add(graph, 8, 8)
    made.add(builds(), 24, 6)
    made.row("Replay", collapsed=True)
    for graph, width in zip(replays(), (8, 8, 8, 8, 16), strict=True):
        made.add(graph, width, 8)
    return made.json()
