#!/usr/bin/env bash
# Checks dashboards, alert rules, runbooks and their provisioning, and tests them with the real service.
#
#   run.sh PROGRAM         runs everything; PROGRAM is the dupgate binary
#   run.sh PROGRAM quick   skips everything that needs a broker
#
# Installs missing tools below target/deploy, or DUPGATE_DEPLOY_TOOLS, and reuses them: Python packages, Grafana's
# TypeScript types, and Prometheus unless it is in the PATH. Requires python3, node and npm, and for the broker Java and
# Maven (tests/tools.sh test).
set -euo pipefail

program=$(realpath "${1:?usage: run.sh PROGRAM [quick]}")
what=${2:-all}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
tools=${DUPGATE_DEPLOY_TOOLS:-${CARGO_TARGET_DIR:-$root/target}/deploy}
files=$root/helm/dupgate/files
work=$(mktemp -d "${TMPDIR:-/tmp}/dupgate-dashboards.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

begin() { printf '\n%s\n' "== $1"; }
ok() { echo "ok    $1"; }

# Ensures a complete folder: uses an existing one, or has the command create it.
have() {
    local folder=$1 wanted=$2
    shift 2
    cmp -s "$wanted" "$folder/made-of" && return
    echo "installing into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    "$@" "$folder" >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; return 1; }
    cp "$wanted" "$folder/made-of"
}

install_python() { python3 -m venv "$1" && "$1/bin/pip" --quiet install --requirement "$here/requirements.txt"; }
install_types() {
    cp "$here/package.json" "$1/" &&
        npm install --prefix "$1" --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error
}
install_prometheus() {
    # Unpacks Debian's package without installing it: no service is set up, and root is not needed.
    (
        cd "$1"
        apt-get download prometheus || { apt-get update && apt-get download prometheus; }
        dpkg -x prometheus_*.deb . && rm prometheus_*.deb
    )
}

begin "tools"
mkdir -p "$tools"
exec 9>"$tools/dashboards.lock"
flock 9
have "$tools/dashboards-python" "$here/requirements.txt" install_python
have "$tools/dashboards-types" "$here/package.json" install_types
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    prometheus=$(command -v prometheus) promtool=$(command -v promtool)
else
    have "$tools/prometheus" "$here/run.sh" install_prometheus
    prometheus=$tools/prometheus/usr/bin/prometheus promtool=$tools/prometheus/usr/bin/promtool
fi
flock -u 9
python=$tools/dashboards-python/bin/python
ok "$("$promtool" --version 2>&1 | head -n 1), $(node --version | sed 's/^/node /'), Grafana's types $(sed -n 's/.*schema": "\(.*\)",/\1/p' "$here/package.json")"

begin "lint"
"$python" "$here/lint.py" "$program"
"$python" "$here/broken.py" "$program"

begin "types of Grafana"
cp -r "$tools/dashboards-types/." "$work/types"
checked=$("$python" "$here/grafana_types.py" "$work/types" "$files"/dashboards/*.json)
(cd "$work/types" && node node_modules/typescript/bin/tsc --project tsconfig.json) | cut -c1-300
ok "$checked parts of the dashboards have the types that Grafana publishes for them"

begin "rules and configuration of Prometheus"
"$promtool" check rules "$files/alerts.yaml" | sed -n 's/^ *SUCCESS/ok    check rules/p'
sed "s#/etc/prometheus/rules/dupgate.yaml#$files/alerts.yaml#" "$root/config/prometheus/prometheus.yml" >"$work/prometheus.yml"
"$promtool" check config "$work/prometheus.yml" >"$work/config.log" || { cat "$work/config.log" >&2; exit 1; }
ok "check config"
"$promtool" test rules "$files/alerts_test.yaml" >"$work/rules.log" 2>&1 || { cat "$work/rules.log" >&2; exit 1; }
ok "test rules: $(grep -c '^  - name:' "$files/alerts_test.yaml") tests"

[[ $what == quick ]] && exit

begin "the service under Prometheus"
"$python" "$here/live.py" "$program" "$prometheus" "$promtool"
