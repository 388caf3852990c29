#!/usr/bin/env bash
# Tests the Helm chart, and lints the workflows that publish it: `make test-chart`. DUPGATE_BIN is the program that checks rendered configurations.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../../../target}"
newest="$(ls -t "$target/debug/dupgate" "$target/release/dupgate" 2>/dev/null | head -n 1 || true)"
DUPGATE_BIN="${DUPGATE_BIN:-$newest}"
[ -x "$DUPGATE_BIN" ] || { echo "there is no program: run cargo build, or set DUPGATE_BIN" >&2; exit 1; }
DUPGATE_BIN="$(realpath "$DUPGATE_BIN")"
SECONDS=0
tools="$("$here/tools.sh")"
echo "tools are there ($SECONDS s)"
export DUPGATE_BIN PYTHONDONTWRITEBYTECODE=1
"$tools/bin/actionlint" "$here"/../../../.github/workflows/*.yml
echo "ok   the workflows suit GitHub's schema (actionlint)"
exec "$tools/python/bin/python" "$here/test.py" "$tools" "$@"
