#!/usr/bin/env bash
# Checks for the tools that a build or a test needs, before a compiler fails in the middle of a library.
#
#   tests/tools.sh build   C and C++ compiler, make, cmake, pkg-config, headers of OpenSSL and zlib
#   tests/tools.sh test    the same, and one of the ways to a Kafka broker: by default Java 17 and Maven (and openssl,
#                          for the certificates of the secured one). With CI set also Chromium, for the pair page;
#                          elsewhere the test of that page reports that it was skipped.
#
# On a Debian-like machine, as root or with sudo, missing tools are installed with apt-get; elsewhere they are named.
set -euo pipefail

# `need PACKAGE NAME COMMAND...`: if the command fails, the Debian package is missing; NAME is its name in messages.
need() {
    local package=$1 name=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        missing_packages+=("$package")
        missing_names+=("$name")
    fi
}

has() { command -v "$1"; }
has_library() { has pkg-config && pkg-config --exists "$1"; }
has_java_17() {
    local major
    major=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [[ -n $major && $major -ge 17 ]]
}
has_chromium() { has chromium || has chromium-browser || has google-chrome || has google-chrome-stable; }
has_a_broker_without_java() {
    [[ -n ${DUPGATE_TEST_KAFKA:-} || ${DUPGATE_SKIP_BROKER:-} == 1 ]] ||
        { has docker && timeout 10 docker info; }
}

look() {
    missing_packages=()
    missing_names=()
    need gcc "a C compiler" has cc
    need g++ "a C++ compiler" has c++
    need make "make" has make
    need cmake "cmake" has cmake
    need pkg-config "pkg-config" has pkg-config
    need libssl-dev "OpenSSL headers" has_library openssl
    need zlib1g-dev "zlib headers" has_library zlib
    if [[ $1 == test && -n ${CI:-} ]]; then
        need chromium "Chromium" has_chromium
    fi
    if [[ $1 == test ]] && ! has_a_broker_without_java >/dev/null 2>&1; then
        need default-jre-headless "a Java 17 runtime" has_java_17
        need maven "Maven" has mvn
        need openssl "the openssl program" has openssl
    fi
}

# Runs a command as root, or fails; never asks for a password.
as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

case ${1:-} in
    build | test) what=$1 ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac

if ! command -v cargo >/dev/null; then
    echo "tools: Rust is missing; see https://rustup.rs" >&2
    exit 1
fi

look "$what"
[[ ${#missing_packages[@]} -gt 0 ]] || exit 0

command=(apt-get install --yes --no-install-recommends "${missing_packages[@]}")
printf 'tools: missing: %s\n' "${missing_names[@]}" >&2
if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
    echo "tools: install them, then try again; on Debian: sudo ${command[*]}" >&2
    exit 1
fi
echo "tools: ${command[*]}" >&2
as_root apt-get update --quiet < /dev/null >&2
as_root env DEBIAN_FRONTEND=noninteractive "${command[@]}" < /dev/null >&2

look "$what"
if [[ ${#missing_names[@]} -gt 0 ]]; then
    printf 'tools: still missing: %s\n' "${missing_names[@]}" >&2
    exit 1
fi
