# Runs docker-compose.yml. Sourced by run.sh.
# shellcheck shell=bash

# Runs compose on the files under test, with the test's override last.
plain=(--file docker-compose.yml --file tests/deploy/compose/override.yaml)
secure=(--file docker-compose.yml --file config/compose/secure.yaml --file tests/deploy/compose/override.yaml)
files=("${plain[@]}")
stack() { (cd "$top" && exec "$compose" --progress quiet "${files[@]}" "$@" < /dev/null 8>&-); }

# Sets NAME_PORT for each name to a free port below the ephemeral range.
draw_ports() {
    local name port drawn=" "
    for name in "$@"; do
        while :; do
            port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
            [[ $drawn != *" $port "* ]] || continue
            (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || break
        done
        drawn+="$port "
        export "${name}_PORT=$port"
    done
}

# --- The files, before anything runs ------------------------------------------------------------------------------

combination() { (cd "$top" && "$compose" "$@" config --quiet < /dev/null); }

check_files() {
    check "hadolint: Dockerfile" "$hadolint" "$top/config/docker/Dockerfile"
    check "the Dockerfile's Rust is that of rust-toolchain.toml" \
        grep -q "^ARG BUILDER=rust:$(sed -n 's/^channel = "\(.*\)"/\1/p' "$top/rust-toolchain.toml")-" "$top/config/docker/Dockerfile"
    check "the compose file's Kafka is that of the tests" \
        grep -q "<kafka.version>$(kafka_version)</kafka.version>" "$top/tests/broker/pom.xml"
    local name=docker-compose.yml override=config/compose/secure.yaml profiles
    for profiles in "" "ui" "replay"; do
        check "schema: docker-compose.yml, profiles: ${profiles:-none}" combination --file $name ${profiles:+--profile "$profiles"}
        check "schema: with secure.yaml, profiles: ${profiles:-none}" combination --file $name --file $override ${profiles:+--profile "$profiles"}
    done
    (cd "$top" && "$compose" --file $name --file $override --profile ui --profile replay config --format json < /dev/null) > "$cache/config.json"
    check "ports, health checks, capabilities, privileges and pins" python3 "$here/hardened.py" "$cache/config.json"
    local changed=$cache/changed.env
    python3 "$here/changed.py" "$top/.env" > "$changed"
    (cd "$top" && "$compose" --env-file "$changed" --file $name --file $override --profile ui --profile replay config --format json < /dev/null) > "$cache/config.json"
    check "everything in .env can be changed" python3 "$here/changed.py" "$changed" "$cache/config.json"
}

# --- The stack ----------------------------------------------------------------------------------------------------

metrics() { curl --silent --fail --max-time 30 "http://127.0.0.1:$1/metrics"; }
# Prints the sum of the series whose lines match.
total() { metrics "$1" | awk -v pattern="$2" '$0 ~ pattern { sum += $NF; found = 1 } END { if (!found) exit 1; printf "%.0f\n", sum }'; }
documents() { total "$1" '^dupgate_documents_total'; }
judges() { [[ $(total "$1" '^dupgate_judge_active') == 1 ]]; }
stands_by() { [[ $(total "$1" '^dupgate_judge_active') == 0 ]]; }
at_least() { local now; now=$(documents "$1") && ((now >= $2)); }

container() { stack ps --all --quiet "$1"; }
is_healthy() { [[ $(podman inspect --format '{{.State.Status}} {{.State.Healthcheck.Status}}' "$(container "$1")") == "running healthy" ]]; }
exit_code() { podman inspect --format '{{.State.ExitCode}}' "$(container "$1")"; }

# Queries Prometheus and evaluates a line of Python on `data`.
prometheus() {
    curl --silent --fail --max-time 30 --get --data-urlencode "query=${3:-}" "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/$1" |
        python3 -c "import json, sys; data = json.load(sys.stdin)['data']; sys.exit(not ($2))"
}
all_targets_are_up() {
    prometheus targets "len([t for t in data['activeTargets'] if t['labels']['job'] == 'dupgate']) == 3 and all(t['health'] == 'up' for t in data['activeTargets'])"
}
rules_are_loaded() {
    prometheus rules "len(data['groups']) > 0 and all(r['health'] == 'ok' for g in data['groups'] for r in g['rules'])"
}
three_instances_deliver() {
    prometheus query "len(data['result']) == 3 and all(float(r['value'][1]) > 0 for r in data['result'])" \
        "sum by (instance) (dupgate_documents_total)"
}

pairs_status() { curl --silent --output "$cache/pairs.json" --write-out '%{http_code}' "$@" "http://127.0.0.1:$DUPGATE_A_ADMIN_PORT/api/v1/pairs"; }

# Precision and recall of all delivered pages, against their ground truth.
scores_well() {
    stack exec --no-TTY dupgate-a dupgate demo score --output json > "$cache/score.json" &&
        score=$(python3 "$here/score.py" "$cache/score.json")
}

up() {
    local begin=$SECONDS
    (cd "$top" && timeout 900 "$compose" --progress quiet "${files[@]}" up --detach --no-build < /dev/null 8>&-) > "$cache/up.log" 2>&1 ||
        { cat "$cache/up.log"; fail "docker compose up"; }
    passed "docker compose up --detach ($((SECONDS - begin)) s)"
    local service
    for service in kafka dupgate-a dupgate-b worker; do
        until_true 300 "$service is healthy" is_healthy "$service"
    done
}

configuration() {
    export DUPGATE_IMAGE=$local/dupgate KAFKA_IMAGE=$local/kafka:$(kafka_version) PROMETHEUS_IMAGE=$local/prometheus DEMO_RATE=100/s
    ADMIN_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
    export ADMIN_TOKEN
    draw_ports KAFKA PROMETHEUS GRAFANA KAFKA_UI DUPGATE_A DUPGATE_A_ADMIN DUPGATE_B DUPGATE_B_ADMIN
}

run_plain() {
    local service active standby active_port standby_port before
    configuration
    stack_is_up=1
    up
    until_true 300 "prometheus is healthy" is_healthy prometheus
    check "topics are created, and the job ended well" is "$(exit_code topics)" 0
    for service in dupgate-a dupgate-b worker; do
        check "$service: read-only root, no capabilities, no new privileges" is \
            "$(podman inspect --format '{{.HostConfig.ReadonlyRootfs}} {{len .EffectiveCaps}} {{.HostConfig.SecurityOpt}}' "$(container $service)")" \
            "true 0 [no-new-privileges]"
    done
    until_true 300 "pages are judged" at_least "$DUPGATE_A_PORT" 100
    stack exec --no-TTY dupgate-a dupgate check > "$cache/check.log" 2>&1 || { cat "$cache/check.log"; fail "dupgate check"; }
    passed "dupgate check finds nothing amiss"
    if judges "$DUPGATE_A_PORT"; then
        active=dupgate-a active_port=$DUPGATE_A_PORT standby=dupgate-b standby_port=$DUPGATE_B_PORT
    else
        active=dupgate-b active_port=$DUPGATE_B_PORT standby=dupgate-a standby_port=$DUPGATE_A_PORT
    fi
    check "$active judges" judges "$active_port"
    check "$standby stands by" stands_by "$standby_port"

    until_true 300 "Prometheus reads dupgate-a, dupgate-b and worker" all_targets_are_up
    # A rule has no health before its first evaluation.
    until_true 300 "Prometheus has the alert rules" rules_are_loaded
    until_true 300 "all three deliver pages" three_instances_deliver
    check "the pair page wants the token" is "$(pairs_status)" 401
    check "and shows pairs to who has it" is "$(pairs_status --header "Authorization: Bearer $ADMIN_TOKEN")" 200

    stack stop "$active" > /dev/null 2>&1
    check "$active ends well when it is stopped" is "$(exit_code "$active")" 0
    # Sooner than the session timeout of a killed judge.
    until_true 8 "$standby judges" judges "$standby_port"
    before=$(documents "$standby_port")
    until_true 300 "pages flow on" at_least "$standby_port" $((before + 200))
    stack start "$active" > /dev/null 2>&1
    until_true 300 "$active is healthy again" is_healthy "$active"
    until_true 300 "and stands by" stands_by "$active_port"

    stack kill --signal KILL "$standby" > /dev/null 2>&1
    until_true 300 "$active judges when $standby is killed" judges "$active_port"
    stack start "$standby" > /dev/null 2>&1
    until_true 300 "$standby is healthy again" is_healthy "$standby"

    stack stop demo > /dev/null 2>&1
    until_true 300 "all pages are delivered" drained
    scores_well || fail "outputs and truth agree: ${score:-}"
    passed "outputs and truth agree: $score"
    stack --profile replay run --rm --no-deps --no-TTY replay > "$cache/replay.json" 2> "$cache/replay.log" ||
        { cat "$cache/replay.log"; fail "a replay of everything"; }
    check "a replay of everything comes to the live verdicts" python3 "$here/replayed.py" "$cache/replay.json"
    stack stop dupgate-a dupgate-b worker > /dev/null 2>&1
    for service in dupgate-a dupgate-b worker; do
        check "$service ended well" is "$(exit_code $service)" 0
    done
    down
}

# The committed offsets have reached the ends of the input, except for at most one marker per partition.
drained() {
    prometheus query "data['result'] and float(data['result'][0]['value'][1]) <= 6" "sum(dupgate_consumer_lag_records)" &&
        [[ $(total "$DUPGATE_A_PORT" '^dupgate_consumer_lag_records') -le 6 && $(total "$DUPGATE_B_PORT" '^dupgate_consumer_lag_records') -le 6 ]]
}

# --- With TLS and passwords ---------------------------------------------------------------------------------------

run_secure() {
    local network=dupgate_default
    files=("${secure[@]}")
    configuration
    up
    check "certificates are made, and the job ended well" is "$(exit_code certificates)" 0
    until_true 300 "pages are judged over TLS" at_least "$DUPGATE_A_PORT" 100
    stack exec --no-TTY dupgate-a dupgate check > "$cache/check.log" 2>&1 || { cat "$cache/check.log"; fail "dupgate check"; }
    passed "dupgate check finds nothing amiss"
    refused "the broker refuses a wrong password" stack exec --no-TTY --env DUPGATE_KAFKA__SECURITY__SASL__USERNAME=nobody dupgate-a dupgate check
    refused "and a client without TLS" stack exec --no-TTY --env DUPGATE_KAFKA__SECURITY__PROTOCOL=plaintext dupgate-a dupgate check
    down
}

# --- Its end ------------------------------------------------------------------------------------------------------

down() {
    stack down --volumes > "$cache/down.log" 2>&1 || { cat "$cache/down.log"; fail "docker compose down --volumes"; }
    passed "docker compose down --volumes"
    check "no container is left" is "$(podman ps --all --quiet)" ""
    check "no volume is left" is "$(podman volume ls --quiet)" ""
    check "no network is left" is "$(podman network ls --quiet --filter name=dupgate)" ""
    until_true 60 "no process is left" no_process
}

# Each container has a monitor process that names the storage; monitors of exec commands stay for some minutes.
no_process() { [[ -z $(monitors | grep -v -e --exec-attach) ]]; }

# Diagnostics of a failed run.
stack_report() {
    [[ -n ${stack_is_up:-} ]] || return
    stack ps --all >&2
    stack logs --no-color --tail 15 >&2
}
