#!/usr/bin/env bash
# Starts, stops and kills Apache Kafka for the tests, one broker or several; the only place that knows how.
#
#   kafka.sh up        start one that stays until `down`; prints its address
#   kafka.sh down      end it and remove its folder
#   kafka.sh status    print its address; exit code 1 if there is none
#   kafka.sh serve     for the test harness: start them, print `ready HOST:PORT,...`, then obey the lines on standard
#                      input; at its end (however the harness died) end the brokers. The lines:
#                        stop, kill, start, pause, resume [N]   end, start, SIGSTOP or SIGCONT broker N (from 1), or all
#                        configs ARGUMENT...                    run kafka-configs.sh with these arguments (by Maven only)
#   kafka.sh streams FILE.java ARGUMENT...
#                      compile a program and run it with Kafka Streams, in place of this process (by Maven only)
#
# The first way that works is taken: DUPGATE_TEST_KAFKA=HOST:PORT (already there), a Docker engine that answers,
# or the broker's jars by Maven on a Java 17 machine. Also understood:
#   DUPGATE_KAFKA_WAY=docker|maven   take this way and no other
#   DUPGATE_KAFKA_OWN=1              a broker that may be killed: do not take the one that is already there
#   DUPGATE_KAFKA_JVM="..."          options for the JVM instead of those below
#   DUPGATE_KAFKA_KEEP=FOLDER        move what the broker leaves, logs and data, into this folder instead of removing it
#   DUPGATE_KAFKA_SECURE=1           with `serve`: listeners with TLS and SASL, users and ACLs beside the plain one (by
#                                    Maven only); `ready` is followed by NAME=HOST:PORT,... for each, and CERTS=FOLDER
#   DUPGATE_KAFKA_BROKERS=3          with `serve`: as many brokers, each a controller as well (by Maven only)
#   DUPGATE_KAFKA_SETTINGS="..."     with `serve`: settings of the brokers, one NAME=VALUE a line, instead of those below
#   DUPGATE_KAFKA_VERSION=3.9.2      another version of Apache Kafka than the one below
set -euo pipefail

# Not 4.3.0 to 4.4.0: their coordinator takes a partition without a leader for a deleted one, and skips the marker of a
# transaction that it then calls complete (KRaftMetadataCache.getPartitionLeaderEndpoint; 4.2 tries again). Partitions of
# a single node have no leader while it stops and starts: readers and groups then hang, or read twice.
version=${DUPGATE_KAFKA_VERSION:-4.2.2}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
jars=$target/kafka/jars${DUPGATE_KAFKA_VERSION:+-$version}
up_folder=$target/kafka/up
brokers=${DUPGATE_KAFKA_BROKERS:-1}
jvm=${DUPGATE_KAFKA_JVM:--Xmx$((brokers > 1 ? 384 : 768))m -XX:+UseSerialGC}
start_seconds=180

cluster=  # the folder of all brokers
folder=   # of one of them, named by its number: its way, address, process id, settings, data and log

say() { echo "kafka: $*" >&2; }

# What is known of a broker, one file a fact: `way`, `address`, `container` or `pid`.
save() { printf '%s\n' "$2" > "$folder/$1"; }
load() { cat "$folder/$1" 2>/dev/null || true; }

# `each N COMMAND...` runs the command for broker N, or for every broker if N is empty.
each() {
    local number
    for number in ${1:-$(seq "$brokers")}; do
        folder=$cluster/$number
        "${@:2}" || return 1
    done
}

# Succeeds if the broker at HOST:PORT answers a metadata request (version 1, no topics) with at least `$2` brokers.
# A KRaft broker serves no request before it is registered and unfenced, so this is the moment it can be used.
answers() {
    local host=${1%:*} port=${1##*:} reply
    reply=$(timeout 3 bash -c '
        exec 3<>"/dev/tcp/$0/$1" || exit 1
        printf "\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00" >&3
        head -c 12 <&3 | od -An -v -tx1 | tr -d " \n"' "$host" "$port" 2>/dev/null) || return 1
    [[ ${#reply} -eq 24 && ${reply:8:8} == 00000001 ]] && ((16#${reply:16:8} >= ${2:-1}))
}

# Waits until the broker answers with `$2` brokers; gives up when `$3...` fails (its process is gone) or after
# `start_seconds`.
wait_until_it_answers() {
    local address=$1 count=$2 deadline=$((SECONDS + start_seconds))
    shift 2
    until answers "$address" "$count"; do
        "$@" || return 1
        ((SECONDS < deadline)) || { say "no answer from $address after $start_seconds s"; return 1; }
        sleep 0.1
    done
}

# An unused port below the ephemeral range of the system. Another process may still take it first:
# the callers try again with other ports.
free_port() {
    local port
    while :; do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
}

# The settings of a node, one `name=value` a line: `settings NUMBER LISTENERS ADVERTISED VOTERS DATA`.
settings() {
    local most=$((brokers > 3 ? 3 : brokers)) enough=$((brokers > 1 ? 2 : 1))
    cat <<SETTINGS
node.id=$1
process.roles=broker,controller
listeners=$2
advertised.listeners=$3
controller.listener.names=CONTROLLER
controller.quorum.voters=$4
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$5
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
# Pages of the tests are older than a topic keeps by default: nothing is deleted while they run.
log.initial.task.delay.ms=86400000
log.retention.check.interval.ms=86400000
# As by default, and so a client that asks for a topic must not create it.
auto.create.topics.enable=true
delete.topic.enable=true
offsets.topic.replication.factor=$most
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$most
transaction.state.log.min.isr=$enough
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$most
share.coordinator.state.topic.min.isr=$enough
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
num.network.threads=2
num.io.threads=4
num.recovery.threads.per.data.dir=2
background.threads=2
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.backoff.ms=3000
controlled.shutdown.enable=true
${DUPGATE_KAFKA_SETTINGS:-}
SETTINGS
}

# --- Docker -------------------------------------------------------------------------------------------------------

docker_answers() { command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1; }
container_runs() { [[ $(docker inspect -f '{{.State.Running}}' "$(load container)" 2>/dev/null) == true ]]; }

docker_create() {
    local port name=dupgate-kafka-$$-$RANDOM line key env=()
    port=$(free_port)
    while IFS= read -r line; do
        key=${line%%=*}
        key=${key//./_}
        env+=(--env "KAFKA_${key^^}=${line#*=}")
    done < <(settings 1 "PLAINTEXT://:9092,CONTROLLER://:9093" "PLAINTEXT://127.0.0.1:$port" \
        1@localhost:9093 /tmp/kafka-data | grep -v -e '^#' -e '^$')
    docker create --quiet --name "$name" --publish "127.0.0.1:$port:9092" "${env[@]}" "apache/kafka:$version" >/dev/null || return 1
    save container "$name"
    save address "127.0.0.1:$port"
}

docker_start() { docker start "$(load container)" >/dev/null; }

docker_await() {
    wait_until_it_answers "$(load address)" 1 container_runs && return
    docker logs --tail 20 "$(load container)" >&2 || true
    return 1
}

docker_stop() { docker stop --time 30 "$(load container)" >/dev/null; }
docker_kill() { docker kill "$(load container)" >/dev/null; }
docker_pause() { docker pause "$(load container)" >/dev/null; }
docker_resume() { docker unpause "$(load container)" >/dev/null; }
docker_remove() { docker rm --force --volumes "$(load container)" >/dev/null 2>&1 || true; }

# --- Maven and the JVM --------------------------------------------------------------------------------------------

java_is_17() {
    local major
    major=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [[ -n $major && $major -ge 17 ]]
}

# Fetches the jars once, with these options of Maven. They are moved into place whole, so a cut download is never
# mistaken for them, and only one of several processes fetches.
fetch_jars() {
    mkdir -p "$target/kafka"
    (
        flock 9
        if ! cmp -s "$here/pom.xml" "$jars/pom.xml"; then
            say "fetching the jars of Apache Kafka $version by Maven"
            rm -rf "$jars" "$jars.part"
            mvn --quiet --batch-mode --file "$here/pom.xml" "$@" dependency:copy-dependencies "-Dkafka.version=$version" \
                -DoutputDirectory="$(realpath -m "$jars.part")" < /dev/null > "$target/kafka/fetch.log" 2>&1 ||
                { cat "$target/kafka/fetch.log" >&2; exit 1; }
            cp "$here/pom.xml" "$jars.part/"
            mv "$jars.part" "$jars"
        fi
    ) 9> "$target/kafka/lock"
}

maven_can() {
    command -v java >/dev/null && java_is_17 || return 1
    cmp -s "$here/pom.xml" "$jars/pom.xml" || command -v mvn >/dev/null
}

# `run_java OPTIONS CLASS ARGUMENT...` replaces this process.
run_java() {
    local options=$1
    shift
    # A separate session: neither Ctrl-C nor the end of the terminal reaches the broker.
    # shellcheck disable=SC2086  # several options in one variable
    exec setsid java $options -Ddupgate.kafka.log="$folder/kafka.log" -Dlog4j2.configurationFile="$here/log4j2.properties" \
        -Dlog4j.shutdownHookEnabled=false -cp "$jars/*" "$@" < /dev/null
}

# A cluster is named by 16 bytes in base 64, as in addresses of web pages.
cluster_id() { head -c 16 /dev/urandom | base64 | tr '+/' 'ab' | tr -d '='; }

process_runs() { lives "$(load pid)"; }

# A password for everybody; the certificates live as long as the folder.
secret=correct-horse

# Makes an authority, a certificate for the brokers and one for a client, as PEM files in `certs`.
certificates() {
    local certs=$cluster/certs name
    mkdir -p "$certs"
    (
        cd "$certs"
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=authority" -keyout authority.key -out ca.pem
        for name in broker client; do
            openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
            openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey authority.key -CAcreateserial -days 2 -out "$name.crt" \
                -extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost")
        done
        cat broker.key broker.crt ca.pem > broker.pem
        openssl pkcs8 -topk8 -in client.key -out client.locked.key -passout "pass:$secret"
    ) >> "$cluster/certs.log" 2>&1 || { cat "$cluster/certs.log" >&2; return 1; }
}

# Settings that give the broker secured listeners: `secured PLAIN CONTROLLER` are its existing ports. Clients of
# the plain listener and alice may do everything; bob only what ACLs allow.
secured() {
    local name port listeners="PLAINTEXT://127.0.0.1:$1" map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
    for name in SSL SASL_SSL SASL_PLAINTEXT; do
        port=$(free_port)
        listeners+=",$name://127.0.0.1:$port"
        map+=",$name:$name"
        echo "$name=127.0.0.1:$port" >> "$folder/secured"
    done
    cat <<SETTINGS
listeners=$listeners,CONTROLLER://127.0.0.1:$2
advertised.listeners=$listeners
listener.security.protocol.map=$map
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
# Clients that do not log in again before their token expires are disconnected.
connections.max.reauth.ms=3600000
ssl.keystore.type=PEM
ssl.keystore.location=$cluster/certs/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=$cluster/certs/ca.pem
listener.name.ssl.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:alice;User:CN=client
SETTINGS
    for name in sasl_ssl sasl_plaintext; do
        echo "listener.name.$name.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"$secret\" user_bob=\"$secret\";"
        # Unsigned tokens: the broker trusts the name in a token.
        echo "listener.name.$name.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";"
        for port in 256 512; do
            echo "listener.name.$name.scram-sha-$port.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;"
        done
    done
}

# Writes the settings of all brokers and formats their data.
maven_create() {
    fetch_jars || return 1
    local number port controller=() voters="" id ports=()
    id=$(cluster_id)
    for number in $(seq "$brokers"); do
        ports[number]=$(free_port)
        controller[number]=$(free_port)
        voters+=${voters:+,}$number@127.0.0.1:${controller[number]}
    done
    [[ -z ${DUPGATE_KAFKA_SECURE:-} ]] || certificates || return 1
    for number in $(seq "$brokers"); do
        folder=$cluster/$number
        port=${ports[number]}
        rm -rf "$folder/secured" "$folder/data"
        save address "127.0.0.1:$port"
        {
            settings "$number" "PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:${controller[number]}" \
                "PLAINTEXT://127.0.0.1:$port" "$voters" "$folder/data"
            [[ -z ${DUPGATE_KAFKA_SECURE:-} ]] || secured "$port" "${controller[number]}"
        } > "$folder/server.properties"
        maven_format "$id" || return 1
    done
}

maven_format() {
    local format=(format --cluster-id "$1" --config "$folder/server.properties") user size
    if [[ -n ${DUPGATE_KAFKA_SECURE:-} ]]; then
        for user in alice bob; do
            for size in 256 512; do
                format+=(--add-scram "SCRAM-SHA-$size=[name=$user,password=$secret]")
            done
        done
    fi
    (run_java "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1" kafka.tools.StorageTool "${format[@]}") \
        > "$folder/format.log" 2>&1 || { cat "$folder/format.log" >&2; return 1; }
}

# Waits for the secured listeners, if there are any: the plain one answers before the broker fails to bind another.
secured_ports_listen() {
    local address
    [[ -e $folder/secured ]] || return 0
    while IFS= read -r address; do
        until (exec 3<>"/dev/tcp/127.0.0.1/${address##*:}") 2>/dev/null; do
            process_runs || return 1
            sleep 0.05
        done
    done < "$folder/secured"
}

maven_start() {
    (
        save pid "$BASHPID"
        run_java "$jvm" kafka.Kafka "$folder/server.properties"
    ) >> "$folder/kafka.out" 2>&1 &
    until [[ -n $(load pid) ]]; do sleep 0.01; done
}

# `maven_await COUNT` waits until the broker knows this many.
maven_await() {
    wait_until_it_answers "$(load address)" "$1" process_runs && secured_ports_listen && process_runs && return
    maven_kill
    tail -n 20 "$folder/kafka.out" "$folder/kafka.log" >&2 || true
    return 1
}

# Whether the process is there and not merely waiting for its parent to collect it.
lives() {
    kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"
}

# Waits until the process is gone, and insists after two minutes.
wait_for_end() {
    local pid=$1 deadline=$((SECONDS + 120))
    while lives "$pid"; do
        ((SECONDS < deadline)) || kill -KILL "$pid" 2>/dev/null || true
        sleep 0.05
    done
    wait "$pid" 2>/dev/null || true
}

maven_end() {
    local pid
    pid=$(load pid)
    rm -f "$folder/pid"
    [[ -n $pid ]] || return 0
    kill "-$1" "$pid" 2>/dev/null || true
    # One that is paused does not hear SIGTERM.
    kill -CONT "$pid" 2>/dev/null || true
    wait_for_end "$pid"
}

maven_stop() { maven_end TERM; }
maven_kill() { maven_end KILL; }
maven_pause() { kill -STOP "$(load pid)"; }
maven_resume() { kill -CONT "$(load pid)"; }
maven_remove() { maven_kill; }

# --- The first way that works -------------------------------------------------------------------------------------

no_way() {
    say "no Apache Kafka for the tests. Give one of:
  - DUPGATE_TEST_KAFKA=HOST:PORT, a broker that is already there
  - a Docker engine (\`docker info\` must answer; the image is apache/kafka:$version)
  - a Java 17 runtime and Maven (Debian: apt-get install default-jre-headless maven)"
    return 1
}

# Fills `cluster` with running brokers of the first way that works.
create() {
    local only=${DUPGATE_KAFKA_WAY:-} try number
    for number in $(seq "$brokers"); do
        mkdir -p "$cluster/$number"
    done
    folder=$cluster/1
    if [[ -z $only && -z ${DUPGATE_KAFKA_OWN:-} && -n ${DUPGATE_TEST_KAFKA:-} ]]; then
        save way external
        save address "$DUPGATE_TEST_KAFKA"
        wait_until_it_answers "$DUPGATE_TEST_KAFKA" 1 true && return
        say "DUPGATE_TEST_KAFKA=$DUPGATE_TEST_KAFKA does not answer"
        return 1
    fi
    if [[ $only != maven && $brokers -eq 1 ]] && docker_answers; then
        for try in 1 2 3; do
            save way docker
            docker_create && docker_start && docker_await && return
            docker_remove
            say "Docker, attempt $try: the broker did not start"
        done
    fi
    if [[ $only != docker ]] && maven_can; then
        for try in 1 2 3; do
            each "" save way maven
            maven_create && each "" maven_start && each "" maven_await "$brokers" && return
            each "" maven_kill
            say "Maven, attempt $try: the brokers did not start"
        done
    fi
    no_way
}

# Does `start`, `await`, `stop`, `kill`, `pause`, `resume` or `remove` in the way the broker was made.
act() {
    local way
    way=$(load way)
    [[ -n $way ]] || return 0
    if [[ $way == external ]]; then
        [[ $1 == remove ]] && return
        say "the broker at $(load address) is not ours to $1"
        return 1
    fi
    "${way}_$1" "${@:2}"
}

remove() {
    each "" act remove
    if [[ -n ${DUPGATE_KAFKA_KEEP:-} ]]; then
        mv "$cluster" "$DUPGATE_KAFKA_KEEP/" && return
    fi
    rm -rf "$cluster"
}

# The broker that `up` starts.
of_up() {
    brokers=1
    cluster=$up_folder
    folder=$cluster/1
}

up() {
    of_up
    if [[ -d $cluster ]]; then
        if answers "$(load address)"; then
            load address
            return
        fi
        remove
    fi
    mkdir -p "$cluster"
    cluster=$(realpath "$cluster")
    create || { remove; exit 1; }
    load address
}

down() {
    of_up
    [[ -d $cluster ]] || { say "none is up"; return; }
    act "$([[ $(load way) == external ]] && echo remove || echo stop)"
    remove
}

status() {
    of_up
    if [[ -d $cluster ]] && answers "$(load address)"; then
        load address
    else
        say "none is up"
        return 1
    fi
}

# Starts a new line, since other programs may have left an unfinished one.
answer() { printf '\n%s\n' "$1"; }

# The addresses of all brokers, for clients, and those of each of their secured listeners.
addresses() {
    local name
    each "" load address | paste -sd,
    [[ -n ${DUPGATE_KAFKA_SECURE:-} ]] || return 0
    for name in SSL SASL_SSL SASL_PLAINTEXT; do
        echo "$name=$(each "" load secured | sed -n "s/^$name=//p" | paste -sd,)"
    done
    echo "CERTS=$cluster/certs"
}

# Runs kafka-configs.sh, e.g. to set quotas.
configs() {
    (
        folder=$cluster
        run_java "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1" kafka.admin.ConfigCommand --bootstrap-server "$@"
    ) < /dev/null
}

serve() {
    exec 2>&1
    cluster=$(mktemp -d "${TMPDIR:-/tmp}/dupgate-kafka.XXXXXX")
    trap remove EXIT
    trap '' INT HUP PIPE
    trap 'exit 143' TERM
    create || exit 1
    answer "ready $(addresses | tr '\n' ' ')"
    local order number
    while read -r order number; do
        case $order in
            start) each "$number" act start && each "$number" act await 1 && answer "ready" || answer "failed" ;;
            stop | kill | pause | resume) each "$number" act "$order" && answer "done" || answer "failed" ;;
            # shellcheck disable=SC2086  # several arguments in one line
            configs) configs "$(each "" load address | paste -sd,)" $number && answer "done" || answer "failed" ;;
            *) answer "failed: no such order: $order" ;;
        esac
    done
}

# The last line of the output says why it cannot be run.
streams() {
    exec 2>&1
    jars=$target/kafka/streams${jars#"$target/kafka/jars"}
    maven_can || { say "it needs Java 17 and Maven"; exit 1; }
    java --list-modules | grep '^jdk\.compiler@' > /dev/null || { say "this Java cannot compile"; exit 1; }
    fetch_jars --activate-profiles streams || { say "Maven cannot fetch its jars"; exit 1; }
    exec java -Ddupgate.kafka.log="$target/kafka/streams.log" -Dlog4j2.configurationFile="$here/log4j2.properties" \
        -cp "$jars/*" "$@"
}

case ${1:-} in
    up | down | status | serve) "$1" ;;
    streams) "$@" ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
