#!/usr/bin/env bash
# Creates the files for config/compose/secure.yaml, once, with the keytool of Kafka's image:
#
#   /secrets/broker   broker.p12 (key and certificate), ca.pem, jaas.conf (users and passwords)
#   /secrets/client   ca.pem, dupgate.password, client.properties (Kafka's own tools), jaas.conf (other Java clients)
#
# The key of the CA is deleted, so it cannot sign anything else.
set -euo pipefail
umask 022
broker=/secrets/broker client=/secrets/client

if [[ -e $client/client.properties ]]; then
    echo "certificates and passwords are there"
    exit 0
fi

work=$(mktemp -d)
cd "$work"
password() { head -c 24 /dev/urandom | base64 | tr '+/' 'ab'; }
tool() { keytool "$@" -storetype PKCS12 -storepass changeit; }
key=(-genkeypair -keyalg EC -groupname secp256r1 -validity 365)

tool "${key[@]}" -keystore authority.p12 -alias authority -dname CN=dupgate-compose -ext bc:c=ca:true -ext ku:c=keyCertSign
tool -exportcert -rfc -keystore authority.p12 -alias authority > ca.pem
tool "${key[@]}" -keystore broker.p12 -alias broker -dname CN=kafka
tool -certreq -keystore broker.p12 -alias broker |
    tool -gencert -rfc -keystore authority.p12 -alias authority -validity 365 \
        -ext san=dns:kafka,dns:localhost,ip:127.0.0.1 -ext eku=serverAuth,clientAuth > broker.pem
tool -importcert -noprompt -keystore broker.p12 -alias authority -file ca.pem
tool -importcert -noprompt -keystore broker.p12 -alias broker -file broker.pem

of_broker=$(password)
of_dupgate=$(password)
module=org.apache.kafka.common.security.plain.PlainLoginModule
cat > jaas.conf <<JAAS
KafkaServer {
    $module required username="broker" password="$of_broker" user_broker="$of_broker" user_dupgate="$of_dupgate";
};
JAAS
cp broker.p12 ca.pem jaas.conf "$broker/"

login="$module required username=\"dupgate\" password=\"$of_dupgate\";"
printf 'KafkaClient {\n    %s\n};\n' "$login" > "$client/jaas.conf"
printf '%s' "$of_dupgate" > "$client/dupgate.password"
cp ca.pem "$client/"
# Written last, as a marker that all files exist. Kafka's own tools read it from the folder it is copied to.
cat > "$client/client.properties" <<PROPERTIES
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=$login
ssl.truststore.type=PEM
ssl.truststore.location=/run/kafka/ca.pem
PROPERTIES
chmod 0444 "$broker"/* "$client"/*
echo "certificates and passwords are made"
