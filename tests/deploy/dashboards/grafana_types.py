#!/usr/bin/env python3
"""Write TypeScript that assigns every part of the dashboards to Grafana's published type for it.

    grafana_types.py FOLDER DASHBOARD...    write FOLDER/dashboards.ts and FOLDER/tsconfig.json, to be compiled by tsc

Object literals are checked for properties that their type does not have. The schema leaves open what a panel's options,
the settings of its series and its queries are; these have types of their own, one for each kind of panel.
"""

import json
import pathlib
import sys

HEADER = """\
import type * as grafana from '@grafana/schema';
import type { Dataquery } from '@grafana/grafana-foundation-sdk/prometheus';
import * as units from '@grafana/grafana-foundation-sdk/units';
"""

# Literals of a string enumeration are written as strings in JSON.
LOOSE = """
type Loose<T> = T extends string ? `${T}` : T extends readonly (infer U)[] ? Loose<U>[]
    : T extends object ? { [K in keyof T]: Loose<T[K]> } : T;
type Unit = (typeof units)[keyof typeof units];
type Query = Omit<Dataquery, '_implementsDataqueryVariant'>;
type Annotation = grafana.AnnotationQuery
    & { expr: string; step?: string; titleFormat?: string; textFormat?: string; tagKeys?: string; useValueForTime?: boolean };
type Open = Record<string, unknown>;
"""

# By kind of panel: where its types are, and whether it has settings for its series.
KINDS = {
    "stat": ("stat/panelcfg/x/StatPanelCfg_types.gen", False),
    "bargauge": ("bargauge/panelcfg/x/BarGaugePanelCfg_types.gen", False),
    "timeseries": ("timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen", True),
    "heatmap": ("heatmap/panelcfg/x/HeatmapPanelCfg_types.gen", True),
    "state-timeline": ("statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen", True),
    "table": ("table/panelcfg/x/TablePanelCfg_types.gen", True),
    "text": ("text/panelcfg/x/TextPanelCfg_types.gen", False),
}


class Writer:
    """Collects constants, each with the type that it is assigned to."""

    def __init__(self):
        self.lines = [HEADER]
        for kind, (path, _) in KINDS.items():
            self.lines.append(f"import type * as {name(kind)} from '@grafana/schema/dist/esm/raw/composable/{path}';")
        self.lines.append(LOOSE)
        self.number = 0

    def constant(self, kind, value, note):
        """Assign a value to a type."""
        self.number += 1
        text = json.dumps(value, ensure_ascii=False)
        self.lines.append(f"// {note}\nexport const c{self.number}: {kind} = {text};")

    def dashboard(self, path):
        """Assign a dashboard and its parts."""
        made = json.loads(path.read_text(encoding="utf-8"))
        panels = [inner for panel in made["panels"] for inner in (panel, *panel.get("panels", []))]
        frame = {**made, "panels": [], "annotations": {"list": []}, "templating": {"list": []}}
        self.constant("Loose<grafana.Dashboard>", frame, path.name)
        for variable in made["templating"]["list"]:
            self.constant("Loose<grafana.VariableModel>", variable, f"{path.name}: variable {variable['name']}")
        for annotation in made["annotations"]["list"]:
            self.constant("Loose<Annotation>", annotation, f"{path.name}: annotation {annotation['name']}")
        for panel in panels:
            self.panel(panel, f"{path.name}: panel {panel['id']} {panel['title']}")

    def panel(self, panel, note):
        """Assign a panel, its options, the settings of its series and its queries."""
        kind = panel["type"]
        if kind == "row":
            self.constant("Loose<grafana.RowPanel>", {**panel, "panels": []}, note)
            return
        known, has_settings = name(kind), KINDS[kind][1]
        self.constant("Loose<grafana.Panel>", {**panel, "targets": [], "options": {}}, note)
        self.constant(f"Loose<{known}.Options>", panel["options"], f"{note}: options")
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        if "unit" in defaults:
            self.constant("Unit", defaults["unit"], f"{note}: unit")
        settings = f"Loose<{known}.FieldConfig>" if has_settings else "Record<string, never>"
        if "custom" in defaults:
            self.constant(settings, defaults["custom"], f"{note}: settings of series")
        for override in panel.get("fieldConfig", {}).get("overrides", []):
            self.override(override, known if has_settings else None, note)
        for target in panel.get("targets", []):
            self.constant("Loose<Query>", target, f"{note}: query {target['refId']}")

    def override(self, override, known, note):
        """Assign what an override sets: a setting of series, or a property of fields."""
        for made in override["properties"]:
            where, key = f"{note}: {override['matcher']['options']}: {made['id']}", made["id"]
            if key.startswith("custom."):
                inner = key.removeprefix("custom.")
                self.constant(f"Loose<Required<{known}.FieldConfig>['{inner}']>", made["value"], where)
            else:
                self.constant(f"Loose<Required<grafana.FieldConfig>['{key}']>", made["value"], where)


def name(kind):
    """Make an identifier of a kind of panel."""
    return kind.replace("-", "")


def main(folder, paths):
    """Write the files."""
    writer = Writer()
    for path in paths:
        writer.dashboard(pathlib.Path(path))
    options = {
        "strict": True,
        "noEmit": True,
        "target": "ES2022",
        "module": "ES2022",
        "moduleResolution": "bundler",
        "skipLibCheck": True,
        "types": [],
    }
    tsconfig = {"compilerOptions": options, "files": ["dashboards.ts"]}
    pathlib.Path(folder, "dashboards.ts").write_text("\n".join(writer.lines) + "\n", encoding="utf-8")
    pathlib.Path(folder, "tsconfig.json").write_text(json.dumps(tsconfig, indent=2) + "\n", encoding="utf-8")
    print(writer.number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
