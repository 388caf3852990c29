#!/usr/bin/env python3
"""Embeds the program's own schema of configuration files in the chart's schema of values, below `config`.

schema.py DUPGATE           writes helm/dupgate/values.schema.json
schema.py DUPGATE --check   says whether it is stale: exit code 1
"""

import json
import subprocess
import sys
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[3] / "helm/dupgate/values.schema.json"

# Texts may name variables (`${NAME}`), whatever the type of the key; a reference in a value that is not a text passes.
REFERENCE = {"type": "string", "pattern": r"\$\{"}


def scalar(schema):
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    return kinds and kinds <= {"integer", "number", "boolean", "null"} or "enum" in schema


def with_references(schema):
    """Lets `${NAME}` stand where the program takes a number, a boolean or one of some words."""
    if isinstance(schema, list):
        return [with_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: with_references(inner) for name, inner in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "items", "additionalProperties"):
            out[key] = with_references(value)
        else:
            out[key] = value
    if scalar(out) and out.get("type") != "null":
        kept = {key: out.pop(key) for key in ("description", "default") if key in out}
        return {**kept, "anyOf": [out, REFERENCE]}
    return out


def embedded(program):
    text = subprocess.run([program, "config", "schema"], check=True, capture_output=True, text=True).stdout
    schema = json.loads(text)
    schema.pop("$schema", None)
    schema["description"] = "the configuration of dupgate; what may not be missing is checked by the chart's templates"
    # Values are laid over each other: what another layer gives may be missing here.
    schema.pop("required", None)
    return with_references(schema)


def main():
    program, check = sys.argv[1], "--check" in sys.argv[2:]
    written = SCHEMA.read_text()
    schema = json.loads(written)
    schema["properties"]["config"] = embedded(program)
    wanted = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    if check:
        if written != wanted:
            sys.exit(
                "helm/dupgate/values.schema.json is not what `dupgate config schema` says: run `make chart-schema`"
            )
    else:
        SCHEMA.write_text(wanted)


if __name__ == "__main__":
    main()
