"""Writes the Kubernetes JSON Schemas bundled with kubernetes-validate in the layout that kubeconform reads.

    kubernetes_schemas.py FOLDER VERSION...

The package names its schemas by absolute paths, which kubeconform would look for on the network.
"""

import json
import sys
from pathlib import Path

import kubernetes_validate

CARRIED = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"


def main():
    folder = Path(sys.argv[1])
    for version in sys.argv[2:]:
        source = CARRIED / f"v{version}-local-strict"
        if not source.is_dir():
            there = sorted(path.name for path in CARRIED.iterdir())
            sys.exit(f"kubernetes-validate has no schemas of Kubernetes {version}; it has {', '.join(there)}")
        target = folder / f"v{version}-standalone-strict"
        target.mkdir(parents=True)
        for file in source.glob("*.json"):
            schema = json.loads(file.read_text().replace('"/api/_definitions.json#', '"_definitions.json#'))
            schema.pop("$id", None)
            (target / file.name).write_text(json.dumps(schema, separators=(",", ":")))


if __name__ == "__main__":
    main()
