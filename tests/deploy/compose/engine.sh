# podman and buildah with separate storage, apart from that of the machine. Sourced by run.sh.
# shellcheck shell=bash

# Settings, as files and variables for podman, buildah and compose.
engine_files() {
    # Runtime state; paths below target/ are too long for socket names.
    engine_run=/run/dupgate-compose-$(cksum <<< "$cache" | cut -d' ' -f1)
    mkdir -p "$engine_run" "$cache/storage" "$cache/networks" "$cache/temporary"
    local files processes
    files=$(ulimit -Hn)
    processes=$(ulimit -Hu)
    [[ $files != unlimited && $files -le 65536 ]] || files=65536
    [[ $processes != unlimited && $processes -le 4096 ]] || processes=4096
    cat > "$cache/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=$processes:$processes"]
[network]
network_backend = "netavark"
network_config_dir = "$cache/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "$engine_run/engine"
CONF
    cat > "$cache/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$cache/storage"
runroot = "$engine_run/storage"
CONF
    export CONTAINERS_CONF=$cache/containers.conf CONTAINERS_STORAGE_CONF=$cache/storage.conf
    # Build caches are there, too.
    export TMPDIR=$cache/temporary
    # Otherwise health checks would be systemd timers.
    export DISABLE_HC_SYSTEMD=true
    export DOCKER_HOST=unix://$engine_run/api.sock
}

engine_start() {
    engine_files
    # Left by a run that was killed.
    buildah rm --all > /dev/null 2>&1 || true
    podman rm --all --force --volumes > /dev/null 2>&1 || true
    podman volume prune --force > /dev/null 2>&1 || true
    podman network prune --force > /dev/null 2>&1 || true
    setsid podman system service --time=0 "$DOCKER_HOST" > "$cache/service.log" 2>&1 8>&- &
    service_pid=$!
    health_loop > "$cache/health.log" 2>&1 8>&- &
    health_pid=$!
    until_true 120 "podman serves Docker's interface" curl --silent --fail --output /dev/null \
        --unix-socket "$engine_run/api.sock" http://localhost/_ping
}

# Runs the health checks of containers that are not known to be healthy: podman leaves that to systemd, Docker does it
# itself. Two of these would disturb each other, so this stops together with the run that started it.
health_loop() {
    local id
    while kill -0 $$ 2> /dev/null; do
        for id in $(podman ps --quiet --filter health=starting --filter health=unhealthy); do
            podman healthcheck run "$id" || true
        done
        sleep 1
    done
}

# Processes that watch containers of this storage: `PID COMMAND` each.
monitors() { pgrep --list-full --full "^[^ ]*conmon .* -b $cache/storage/"; }

engine_stop() {
    local pid
    if [[ -n ${build_pid:-} ]]; then
        kill -- "-$build_pid" 2> /dev/null
        wait "$build_pid" 2> /dev/null
        buildah rm --all > /dev/null 2>&1
    fi
    podman rm --all --force --time 0 --volumes > /dev/null 2>&1
    podman volume prune --force > /dev/null 2>&1
    podman network prune --force > /dev/null 2>&1
    for pid in ${health_pid:-} ${service_pid:-}; do
        kill "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    monitors | while read -r pid _; do kill "$pid"; done
    rm -f "$engine_run/api.sock"
}
