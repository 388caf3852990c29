#!/usr/bin/env python3
"""Write the dashboards as JSON files, or check that the files are what would be written.

    config/grafana/generate.py                     write them
    config/grafana/generate.py --check [FOLDER]    exit with 1 where one is not up to date

The files lie in the chart, which can only embed files of its own.
"""

import json
import pathlib
import sys

import match_quality
import overview

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "helm/dupgate/files/dashboards"
DASHBOARDS = {"overview.json": overview.dashboard, "match-quality.json": match_quality.dashboard}


def main(arguments):
    """Write or check every dashboard."""
    is_check = arguments[:1] == ["--check"]
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else FOLDER
    stale = []
    for name, make in DASHBOARDS.items():
        path = folder / name
        text = json.dumps(make(), indent=2, ensure_ascii=False) + "\n"
        if not is_check:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
    for path in stale:
        print(f"{path} is not up to date: run config/grafana/generate.py", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
