"""Panels, rows and variables of Grafana's dashboard schema, with the defaults that all panels share.

Only what the dashboards use is here. Options are written out in full: a dashboard that leaves defaults to Grafana
looks different after an upgrade.
"""

SCHEMA_VERSION = 42
WIDTH = 24

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RUNBOOKS = "https://github.com/dupgate/dupgate/blob/main/docs/RUNBOOKS.md"
OPERATOR_PAGE = "http://localhost:9465/ui/"

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e"

# One colour for one meaning, on every panel.
VERDICTS = {"unique": GREEN, "update": BLUE, "template": PURPLE, "exact": ORANGE, "near": YELLOW, "bypass": GREY}
OUTPUTS = {"unique": GREEN, "duplicate": ORANGE, "dead_letter": RED}
QUANTILES = {"p5": BLUE, "p50": GREEN, "p95": YELLOW, "p99": ORANGE}

CHOSEN = 'job=~"$job",instance=~"$instance"'
# What the service does: series of replays have the label replay.
INSTANCES = f'{CHOSEN},replay=""'
OF_REPLAYS = f'{CHOSEN},replay!=""'
TOPICS = 'topic=~"$topic"'


def metric(name, *matchers, all_instances=INSTANCES):
    """Select the series of a metric that belong to the chosen jobs and instances."""
    return f"dupgate_{name}{{{','.join((all_instances, *matchers))}}}"


def rate(name, *matchers, all_instances=INSTANCES):
    """Select the same per second."""
    return f"rate({metric(name, *matchers, all_instances=all_instances)}[$__rate_interval])"


def increase(name, *matchers):
    """Select the increase from one point of the graph to the next."""
    return f"increase({metric(name, *matchers)}[$__rate_interval])"


def ratio(part, whole):
    """Divide, so that nothing divided by nothing is 0."""
    return f"{part} / clamp_min({whole}, 1e-9)"


def quantile(q, name, *matchers, by=()):
    """Estimate a quantile of a histogram."""
    labels = ", ".join(("le", *by))
    return f"histogram_quantile({q}, sum by ({labels}) ({rate(f'{name}_bucket', *matchers)}))"


def mean(name, by):
    """Divide the sum of a histogram by its count."""
    return ratio(f"sum by ({by}) ({rate(f'{name}_sum')})", f"sum by ({by}) ({rate(f'{name}_count')})")


def query(expr, legend, **more):
    """Make one query of a panel; its letter is given when it is placed."""
    return {
        "datasource": DATA_SOURCE,
        "editorMode": "code",
        "expr": expr,
        "format": "time_series",
        "instant": False,
        "legendFormat": legend,
        "range": True,
        **more,
    }


def steps(base, *above):
    """Make thresholds: a colour, and (value, colour) from which on it changes."""
    rest = [{"color": color, "value": value} for value, color in above]
    return {"mode": "absolute", "steps": [{"color": base, "value": None}, *rest]}


def override(name, *properties):
    """Change properties of the series of this name, or of every series whose name ends in it after `{{job}}`."""
    found = [{"id": key, "value": value} for key, value in properties]
    job, _, kind = name.partition("{{job}} ")
    matcher = {"id": "byName", "options": name} if job or not kind else {"id": "byRegexp", "options": f"/ {kind}$/"}
    return {"matcher": matcher, "properties": found}


def color(name, fixed):
    """Draw the series of this name in this colour."""
    return override(name, ("color", {"mode": "fixed", "fixedColor": fixed}))


def limit(name, fixed=RED):
    """Draw the series of this name as a limit: dashed, not filled, not stacked."""
    return override(
        name,
        ("color", {"mode": "fixed", "fixedColor": fixed}),
        ("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}),
        ("custom.fillOpacity", 0),
        ("custom.stacking", {"mode": "none", "group": "limit"}),
    )


def link(title, url):
    """Link somewhere else from a panel or from the top of a dashboard."""
    return {
        "asDropdown": False,
        "icon": "external link",
        "includeVars": False,
        "keepTime": False,
        "tags": [],
        "targetBlank": True,
        "title": title,
        "tooltip": "",
        "type": "link",
        "url": url,
    }


def runbook(alert):
    """Link to the runbook of an alert."""
    return link(f"Runbook: {alert}", f"${{runbooks:raw}}#{alert.lower()}")


def panel(kind, title, description, queries, *, unit, options, defaults=None, overrides=(), runbooks=(), custom=None):
    """Make a panel without a position."""
    for letter, target in zip("ABCDEFGH", queries, strict=False):
        target["refId"] = letter
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATA_SOURCE,
        "links": [runbook(alert) for alert in runbooks],
        "targets": queries,
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "mappings": [],
                "color": {"mode": "palette-classic"},
                "thresholds": steps(GREEN),
                "custom": custom or {},
                **(defaults or {}),
            },
            "overrides": list(overrides),
        },
        "options": options,
    }


def stat(title, description, queries, *, unit, thresholds=None, no_data="no data", graph="area", **more):
    """Make a panel of large numbers."""
    options = {
        "colorMode": "value",
        "graphMode": graph,
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": "auto" if len(queries) == 1 else "value_and_name",
        "wideLayout": True,
    }
    mode = {"mode": "thresholds"} if thresholds else {"mode": "fixed", "fixedColor": "text"}
    defaults = {
        "color": mode,
        "thresholds": thresholds or steps("text"),
        "noValue": no_data,
        "min": 0,
        **more.pop("defaults", {}),
    }
    return panel("stat", title, description, queries, unit=unit, options=options, defaults=defaults, **more)


def lines(title, description, queries, *, unit, stack=False, bars=False, fill=None, thresholds=None, legend="bottom", **more):
    """Make a graph over time."""
    custom = {
        "axisBorderShow": False,
        "axisCenteredZero": False,
        "axisColorMode": "text",
        "axisLabel": "",
        "axisPlacement": "auto",
        "barAlignment": 0,
        "barWidthFactor": 0.6,
        "drawStyle": "bars" if bars else "line",
        "fillOpacity": fill if fill is not None else (60 if stack or bars else 8),
        "gradientMode": "none",
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "insertNulls": False,
        "lineInterpolation": "linear",
        "lineStyle": {"fill": "solid"},
        "lineWidth": 1,
        "pointSize": 5,
        "scaleDistribution": {"type": "linear"},
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if thresholds else "off"},
    }
    options = {
        "legend": {
            "calcs": ["lastNotNull", "max"],
            "displayMode": "table",
            "placement": legend,
            "showLegend": True,
            "sortBy": "Last *",
            "sortDesc": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc", "hideZeros": True},
    }
    defaults = {"min": 0, **more.pop("defaults", {})}
    if thresholds:
        defaults["thresholds"] = thresholds
    return panel("timeseries", title, description, queries, unit=unit, options=options, defaults=defaults, custom=custom, **more)


def heatmap(title, description, expr, *, unit, decimals=0, **more):
    """Make a graph of a histogram's buckets over time."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {"unit": "cps"},
        "color": {
            "exponent": 0.5,
            "fill": "dark-orange",
            "mode": "scheme",
            "reverse": False,
            "scale": "exponential",
            "scheme": "Blues",
            "steps": 64,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit, "decimals": decimals},
    }
    custom = {
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "scaleDistribution": {"type": "linear"},
    }
    queries = [query(expr, "{{le}}", format="heatmap")]
    return panel("heatmap", title, description, queries, unit=unit, options=options, custom=custom, **more)


def bars(title, description, queries, *, unit, no_data="no data", **more):
    """Make a panel of horizontal bars, of which each begins at 0."""
    options = {
        "displayMode": "basic",
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
        "maxVizHeight": 60,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "text",
    }
    defaults = {"color": {"mode": "fixed", "fixedColor": BLUE}, "noValue": no_data, "min": 0, **more.pop("defaults", {})}
    return panel("bargauge", title, description, queries, unit=unit, options=options, defaults=defaults, **more)


def states(title, description, queries, values, **more):
    """Make a graph of states over time. `values` maps each number to its text and colour."""
    mapping = {
        str(number): {"index": index, "text": text, "color": shade}
        for index, (number, (text, shade)) in enumerate(values.items())
    }
    options = {
        "alignValue": "left",
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
        "mergeValues": True,
        "rowHeight": 0.85,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    custom = {
        "fillOpacity": 75,
        "lineWidth": 0,
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
    }
    defaults = {"mappings": [{"type": "value", "options": mapping}], "color": {"mode": "thresholds"}}
    return panel(
        "state-timeline", title, description, queries, unit="short", options=options, defaults=defaults, custom=custom, **more
    )


def table(title, description, queries, *, columns, sort, no_data="no data", **more):
    """Make a table of labels. `columns` names the labels that are shown, in order, with their headings."""
    for target in queries:
        target.update(format="table", instant=True, range=False)
    order = {name: index for index, name in enumerate(columns)}
    transformations = [
        {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
        {"id": "organize", "options": {"excludeByName": {}, "indexByName": order, "renameByName": columns}},
    ]
    options = {
        "cellHeight": "sm",
        "frameIndex": 0,
        "showHeader": True,
        "sortBy": [{"displayName": sort, "desc": False}],
    }
    custom = {
        "align": "auto",
        "cellOptions": {"type": "auto"},
        "filterable": False,
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "inspect": False,
    }
    defaults = {"color": {"mode": "fixed", "fixedColor": "text"}, "noValue": no_data}
    made = panel("table", title, description, queries, unit="string", options=options, defaults=defaults, custom=custom, **more)
    made["transformations"] = transformations
    return made


def text(title, description, content):
    """Make a panel of prose, in Markdown."""
    return {
        "type": "text",
        "title": title,
        "description": description,
        "links": [],
        "options": {"mode": "markdown", "content": content},
    }


def variable(name, label, expr, description):
    """Make a variable whose values are those of a label."""
    return {
        "name": name,
        "label": label,
        "description": description,
        "type": "query",
        "datasource": DATA_SOURCE,
        "query": {"query": expr, "refId": "StandardVariableQuery"},
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "hide": 0,
        "options": [],
        "skipUrlSync": False,
    }


VARIABLES = [
    {
        "name": "datasource",
        "label": "Data Source",
        "description": "The Prometheus that scrapes dupgate.",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "multi": False,
        "includeAll": False,
        "current": {"selected": False, "text": "Prometheus", "value": "prometheus"},
        "hide": 0,
        "options": [],
        "skipUrlSync": False,
    },
    variable(
        "job",
        "Job",
        "label_values(dupgate_build_info, job)",
        "Scrape jobs: one for each deployment, or two if its judges and workers are separate. Totals, shares and quantiles "
        "are over all chosen jobs; states are shown by job.",
    ),
    variable("instance", "Instance", 'label_values(dupgate_build_info{job=~"$job"}, instance)', "Instances of these jobs."),
    variable(
        "topic",
        "Topic",
        'label_values(dupgate_records_consumed_total{job=~"$job",instance=~"$instance"}, topic)',
        "Input topics, on panels that show topics.",
    ),
    {
        "name": "operator_page",
        "label": "Operator page",
        "description": "Address of the pair page of one instance (http.admin.listen); the link at the top opens it.",
        "type": "textbox",
        "query": OPERATOR_PAGE,
        "current": {"selected": True, "text": OPERATOR_PAGE, "value": OPERATOR_PAGE},
        "hide": 0,
        "options": [{"selected": True, "text": OPERATOR_PAGE, "value": OPERATOR_PAGE}],
        "skipUrlSync": False,
    },
    {
        "name": "runbooks",
        "label": "Runbooks",
        "description": "Address of the runbooks.",
        "type": "constant",
        "query": RUNBOOKS,
        "current": {"selected": True, "text": RUNBOOKS, "value": RUNBOOKS},
        "hide": 2,
        "options": [{"selected": True, "text": RUNBOOKS, "value": RUNBOOKS}],
        "skipUrlSync": True,
    },
]


def annotation(name, expr, shade, title, tag, *, enable=True):
    """Mark events on all graphs."""
    return {
        "name": name,
        "datasource": DATA_SOURCE,
        "enable": enable,
        "hide": False,
        "iconColor": shade,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "tagKeys": tag,
        "useValueForTime": False,
    }


ANNOTATIONS = [
    # One step of the query, so that each start is marked once.
    annotation("Starts", f"time() - process_start_time_seconds{{{INSTANCES}}} < 60", BLUE, "Start", "instance"),
    annotation("Takeovers", f"{increase('judge_takeovers_total')} > 0", PURPLE, "Became the judge", "instance"),
    annotation(
        "Revocations",
        "sum by (instance, kind) (" + increase("rebalances_total", 'kind=~"revoke|lost"') + ") > 0",
        ORANGE,
        "Partitions revoked",
        "instance,kind",
        enable=False,
    ),
]


class Dashboard:
    """A dashboard, filled from left to right and from top to bottom."""

    def __init__(self, uid, title, description, *, other):
        self.uid, self.title, self.description, self.other = uid, title, description, other
        self.panels, self.number = [], 0
        self.x = self.y = self.line = 0
        self.inside = None

    def row(self, title, *, collapsed=False):
        """Begin a row; the panels of a collapsed one are inside it."""
        self._wrap()
        self.number += 1
        place = {"h": 1, "w": WIDTH, "x": 0, "y": self.y}
        row = {"type": "row", "id": self.number, "title": title, "collapsed": collapsed, "gridPos": place, "panels": []}
        self.panels.append(row)
        self.inside = row["panels"] if collapsed else None
        self.y += 1

    def add(self, made, width, height):
        """Place a panel next to the last one, or below it if there is no room."""
        if self.x + width > WIDTH:
            self._wrap()
        self.number += 1
        place = {"h": height, "w": width, "x": self.x, "y": self.y}
        (self.panels if self.inside is None else self.inside).append({"id": self.number, **made, "gridPos": place})
        self.x += width
        self.line = max(self.line, height)

    def _wrap(self):
        self.y += self.line
        self.x = self.line = 0

    def json(self):
        """Return the dashboard in Grafana's format."""
        uid, title = self.other
        other = link(title, f"/d/{uid}")
        other |= {"icon": "dashboard", "targetBlank": False, "includeVars": True, "keepTime": True}
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["dupgate"],
            "schemaVersion": SCHEMA_VERSION,
            "editable": False,
            "graphTooltip": 1,
            "fiscalYearStartMonth": 0,
            "weekStart": "",
            "timezone": "browser",
            "time": {"from": "now-3h", "to": "now"},
            "timepicker": {"refresh_intervals": ["10s", "30s", "1m", "5m", "15m", "1h"]},
            "refresh": "30s",
            "liveNow": False,
            "preload": False,
            "links": [
                other,
                link("Runbooks", "${runbooks:raw}"),
                link("Operator page", "${operator_page:raw}"),
            ],
            "annotations": {"list": ANNOTATIONS},
            "templating": {"list": VARIABLES},
            "panels": self.panels,
        }
