"""Writes JSON Schemas for kubeconform from custom resource definitions: FOLDER/GROUP/KIND_VERSION.json.

    crd_schemas.py FOLDER CRD...

Strict: an object whose properties are listed has no others.
"""

import json
import sys
from pathlib import Path

import yaml


def made_strict(schema):
    if isinstance(schema, list):
        for item in schema:
            made_strict(item)
    if not isinstance(schema, dict):
        return
    closed = "properties" in schema and "additionalProperties" not in schema
    if schema.get("type") == "object" and closed and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema["additionalProperties"] = False
    if schema.pop("x-kubernetes-int-or-string", None):
        schema.pop("type", None)
        schema.pop("anyOf", None)
        schema["oneOf"] = [{"type": "string"}, {"type": "integer"}]
    if schema.get("nullable") and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    for value in schema.values():
        made_strict(value)


def main():
    folder = Path(sys.argv[1])
    for file in sys.argv[2:]:
        for definition in yaml.safe_load_all(Path(file).read_text()):
            if not definition or definition.get("kind") != "CustomResourceDefinition":
                continue
            spec = definition["spec"]
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                made_strict(schema)
                for key in ("apiVersion", "kind"):
                    schema["properties"].setdefault(key, {"type": "string"})
                schema["properties"]["metadata"] = {"type": "object"}
                target = folder / spec["group"]
                target.mkdir(parents=True, exist_ok=True)
                name = f"{spec['names']['kind'].lower()}_{version['name']}.json"
                (target / name).write_text(json.dumps(schema, separators=(",", ":")))


if __name__ == "__main__":
    main()
