#!/usr/bin/env python3
"""Writes the table of values in the README of the chart from values.yaml: key, default, and the comment after `# --`.

readme.py           writes helm/dupgate/README.md
readme.py --check   exits with code 1 if it is stale
"""

import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[3] / "helm/dupgate"
BEGIN, END = "<!-- values: written by `make chart-readme` -->", "<!-- end of values -->"


def comments(text):
    """Returns the comment of each key, by its path."""
    found, path, comment = {}, [], None
    for line in text.splitlines():
        if begun := re.match(r" *# -- (.*)", line):
            comment = [begun[1]]
        elif (more := re.match(r" *# (.*)", line)) and comment is not None:
            comment.append(more[1])
        elif key := re.match(r"( *)([A-Za-z]\w*):", line):
            path = path[: len(key[1]) // 2] + [key[2]]
            if comment:
                found[".".join(path)] = " ".join(comment)
            comment = None
        else:
            comment = None
    return found


def leaves(values, explained, path=()):
    """Yields the keys that get a row: those with a comment, and those without commented keys below them."""
    for key, value in values.items():
        name = ".".join((*path, key))
        inner = [other for other in explained if other.startswith(name + ".")]
        if name in explained or not inner:
            yield name, value
        else:
            yield from leaves(value, explained, (*path, key))


def table():
    text = (CHART / "values.yaml").read_text()
    explained = comments(text)
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for name, value in leaves(yaml.safe_load(text), explained):
        if name not in explained:
            sys.exit(f"values.yaml: {name} has no comment that begins with `# --`")
        default = json.dumps(value, ensure_ascii=False).replace("|", "\\|")
        rows.append(f"| `{name}` | `{default}` | {explained[name].replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def main():
    file = CHART / "README.md"
    written = file.read_text()
    before, _, rest = written.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if written != wanted:
            sys.exit("helm/dupgate/README.md does not list the values of values.yaml: run `make chart-readme`")
    else:
        file.write_text(wanted)


if __name__ == "__main__":
    main()
