# The dupgate image and the local images that it is built and run with. Sourced by run.sh.
# shellcheck shell=bash

# Prints a value of .env.
pinned() { sed -n "s/^$1=//p" "$top/.env"; }
kafka_version() { pinned KAFKA_IMAGE | sed 's/.*://'; }

# `build NAME ARGUMENT...`: runs buildah with a layer cache, quietly unless it fails.
build() {
    local what=$1 begin=$SECONDS log=$cache/build.log
    shift
    # A separate process group, so that compilers stop with it.
    setsid nice -n 10 buildah build --isolation chroot --format docker --layers --pull-never "$@" > "$log" 2>&1 < /dev/null 8>&- &
    build_pid=$!
    wait "$build_pid" || { tail -n 40 "$log"; fail "the image \`$what\` is not built"; }
    build_pid=
    say "built $what in $((SECONDS - begin)) s"
}

build_images() {
    local folder=$cache/images container target
    rm -rf "$folder"
    mkdir -p "$folder/host/usr/local/cargo" "$folder/host/etc/ssl/certs"
    if ! podman image exists "$local/debian"; then
        say "debootstrap"
        rm -rf "$cache/rootfs"
        debootstrap --variant=minbase bookworm "$cache/rootfs" > "$cache/debootstrap.log" 2>&1 < /dev/null ||
            { tail -n 5 "$cache/debootstrap.log"; cannot "debootstrap failed"; }
        container=$(buildah from scratch)
        buildah copy --quiet "$container" "$cache/rootfs" / > /dev/null
        buildah commit --quiet --rm "$container" "$local/debian" > /dev/null
        rm -rf "$cache/rootfs"
    fi
    # How this machine reaches its registries.
    cp /etc/ssl/certs/ca-certificates.crt "$folder/host/etc/ssl/certs/"
    local settings
    for settings in "${CARGO_HOME:-$HOME/.cargo}"/config{,.toml}; do
        [[ ! -f $settings ]] || cp "$settings" "$folder/host/usr/local/cargo/"
    done
    fetch_kafka "$folder/jars"
    cp -R "$here/images/kafka" "$folder/kafka"
    for target in builder base kafka prometheus; do
        build "$target" --build-arg "DEBIAN=$local/debian" --file "$here/images/Containerfile" --target "$target" \
            --tag "$local/$target" "$folder"
    done
    podman tag "$local/kafka" "$local/kafka:$(kafka_version)"
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)
    # The last change of the image's sources; other changes do not cause a rebuild.
    revision=$(git -C "$top" log -1 --format=%H -- Cargo.toml Cargo.lock crates src config/dupgate.yaml 2> /dev/null || echo unknown)
    created=2026-01-01T00:00:00Z
    local arguments=(--volume "$(cd "$top" && rustc --print sysroot):/usr/local/rust:ro" --build-arg "BUILDER=$local/builder"
        --build-arg "BASE=$local/base" --build-arg "PROFILE=$profile" --build-arg "VERSION=$version"
        --build-arg "REVISION=$revision" --build-arg "CREATED=$created" --file "$top/config/docker/Dockerfile")
    [[ -z $built ]] || { lay_out "$folder/built/out" && arguments+=(--build-context "build=$folder/built"); }
    build dupgate "${arguments[@]}" --tag "$local/dupgate" "$top"
    rm -rf "$cache/debug"
    build "debug information" "${arguments[@]}" --target debug --output "type=local,dest=$cache/debug" "$top"
}

# The results of the Dockerfile's stage `build`, for a program that is already built.
lay_out() {
    local out=$1 id debug libz
    id=$(readelf --notes "$built" | sed -n 's/^ *Build ID: //p')
    debug=$out/debug/.build-id/${id:0:2}/${id:2}.debug
    install -d "$(dirname "$debug")" "$out/root/usr/local/bin" "$out/root/usr/lib" "$out/state"
    objcopy --only-keep-debug "$built" "$debug"
    objcopy --strip-debug "$built" "$out/root/usr/local/bin/dupgate"
    libz=$(ldd "$built" | sed -n 's/.*libz\.so\.1 => \([^ ]*\).*/\1/p')
    install -D --mode 0644 "$libz" "$out/root/usr${libz#/usr}"
}

# The jars of the tests against a real broker.
fetch_kafka() {
    local kept=$cache/jars
    if ! cmp -s "$top/tests/broker/pom.xml" "$kept/pom.xml"; then
        say "fetching the jars of Kafka"
        rm -rf "$kept"
        mvn --quiet --batch-mode --file "$top/tests/broker/pom.xml" dependency:copy-dependencies \
            -DoutputDirectory="$kept" > "$cache/maven.log" 2>&1 < /dev/null || { cat "$cache/maven.log"; cannot "Maven failed"; }
        cp "$top/tests/broker/pom.xml" "$kept/"
    fi
    mkdir -p "$1"
    cp "$kept"/*.jar "$1/"
}

# `inspect FORMAT`: prints a property of the image.
inspect() { podman image inspect --format "$1" "$local/dupgate"; }
is() { [[ $1 == "$2" ]] || { echo "$1 is not $2" >&2; return 1; }; }
has_word() { [[ " $1 " == *" $2 "* ]]; }
has_no_debug_information() { [[ ! $(readelf --sections --wide "$1") =~ \.debug_(info|line) ]]; }
names_the_source() { [[ $(addr2line --exe "$1" --functions --demangle --inlines "$2") =~ $3 ]]; }

check_image() {
    local container binary=$cache/dupgate id said feature address size
    check "the image runs as an unprivileged user" is "$(inspect '{{.Config.User}}')" 65532:65532
    check "its entry point is dupgate" is "$(inspect '{{join .Config.Entrypoint " "}} {{join .Config.Cmd " "}}')" "/usr/local/bin/dupgate run"
    check "it is checked by status --ready" is "$(inspect '{{join .Config.Healthcheck.Test " "}}')" "CMD /usr/local/bin/dupgate status --ready"
    check "label: version" is "$(inspect '{{index .Config.Labels "org.opencontainers.image.version"}}')" "$version"
    check "label: revision" is "$(inspect '{{index .Config.Labels "org.opencontainers.image.revision"}}')" "$revision"
    check "label: created" is "$(inspect '{{index .Config.Labels "org.opencontainers.image.created"}}')" "$created"
    check "label: source" is "$(inspect '{{index .Config.Labels "org.opencontainers.image.source"}}')" \
        "$(sed -n 's/^repository = "\(.*\)"/\1/p' "$top/Cargo.toml")"

    said=$(podman run --rm --read-only --cap-drop all --security-opt no-new-privileges --network none "$local/dupgate" --version) ||
        fail "it runs on a read-only root, without capabilities"
    passed "it runs on a read-only root, without capabilities: $said"
    for feature in ssl sasl_oauthbearer oidc sasl_scram zstd; do
        check "librdkafka has $feature" has_word "$(tr ',();' '    ' <<< "$said")" "$feature"
    done
    refused "there is no shell in it" podman run --rm --network none --entrypoint /bin/sh "$local/dupgate" -c true

    container=$(podman create "$local/dupgate")
    podman cp "$container:/usr/local/bin/dupgate" "$binary"
    podman rm "$container" > /dev/null
    check "the binary carries no debug information" has_no_debug_information "$binary"
    id=$(readelf --notes "$binary" | sed -n 's/^ *Build ID: //p')
    check "the target \`debug\` exports the file of its build ID" test -s "$cache/debug/.build-id/${id:0:2}/${id:2}.debug"
    address=$(nm --defined-only --demangle "$binary" | awk '/ dupgate::main$/ { print $1 }')
    check "which symbolises an address of it" names_the_source "$cache/debug/.build-id/${id:0:2}/${id:2}.debug" "0x$address" 'main\.rs:[0-9]'
    size=$(inspect '{{.Size}}')
    say "size: image $((size / 1000000)) MB, binary $(($(stat --format %s "$binary") / 1000000)) MB, debug information $(($(du --bytes --summarize "$cache/debug" | cut -f 1) / 1000000)) MB (profile $profile)"
}
