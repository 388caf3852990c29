#!/usr/bin/env bash
# Injects bugs, one at a time, and checks that the simulation catches each.
#
#   tests/mutants.sh            every bug in crates/core/tests/simulation/mutants
#   tests/mutants.sh 07 13      those whose names start with these numbers
#
# A bug is a patch with a sentence that describes it. The script applies it to a copy of the sources and never changes
# the originals. MUTANT_SEEDS=FROM..TO and MUTANT_STEPS=N limit the search for each bug.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seeds=${MUTANT_SEEDS:-0..300}
steps=${MUTANT_STEPS:-3000}
limit=${MUTANT_SECONDS:-600}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# A separate folder: next to the real sources, cargo would confuse builds of both.
export CARGO_TARGET_DIR=$root/target/mutants

sources() {
    rm -rf "$copy/src" "$copy/crates" "$copy/tests"
    for item in Cargo.toml Cargo.lock rust-toolchain.toml clippy.toml .cargo build.rs benches config crates src tests; do
        if [[ -e $root/$item ]]; then cp -R "$root/$item" "$copy/"; fi
    done
}

# Builds the simulation; prints its path.
build() {
    (cd "$copy" && cargo test --locked --quiet -p dupgate-core --test simulation --no-run --message-format=json 2>"$copy/build.log") |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

run() { DUPGATE_SIM_SEEDS=$seeds DUPGATE_SIM_STEPS=$steps DUPGATE_SIM_TRIES=0 timeout "$limit" "$1" >"$copy/run.log" 2>&1; }

wanted() {
    [[ $# -eq 1 ]] && return 0
    local name=$1 prefix
    shift
    for prefix in "$@"; do [[ $name == "$prefix"* ]] && return 0; done
    return 1
}

row() { printf '%-42s %-10s %s\n' "$1" "$2" "$3"; }

sources
program=$(build || true)
if [[ -z $program ]]; then
    cat "$copy/build.log"
    echo "the sources do not build" >&2
    exit 1
fi

failures=0
row BREAKAGE OUTCOME 'HOW IT SHOWED'
for patch in "$root"/crates/core/tests/simulation/mutants/*.patch; do
    name=$(basename "$patch" .patch)
    wanted "$name" "$@" || continue
    sources
    if ! (cd "$copy" && git apply -C1 --recount "$patch") 2>"$copy/apply.log"; then
        row "$name" STALE "$(head -n 1 "$copy/apply.log")"
        failures=$((failures + 1))
        continue
    fi
    program=$(build)
    if [[ -z $program ]]; then
        row "$name" STALE "does not build: $(grep -m 1 '^error' "$copy/build.log" || true)"
        failures=$((failures + 1))
        continue
    fi
    outcome=0
    run "$program" || outcome=$?
    case $outcome in
    0)
        row "$name" SURVIVED "seeds $seeds, $steps steps each: no law is broken"
        failures=$((failures + 1))
        ;;
    124)
        row "$name" caught "still running after $limit s"
        ;;
    *)
        shown=$(grep -m 1 -oE '^(seed [0-9]+, step [0-9]+ of [0-9]+: .*|a crash .*)' "$copy/run.log" ||
            grep -m 1 -E 'panicked' "$copy/run.log" || echo "exit code $outcome")
        row "$name" caught "${shown:0:160}"
        ;;
    esac
done
if ((failures > 0)); then
    echo "$failures not caught" >&2
    exit 1
fi
