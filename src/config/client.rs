//! Translates the settings of `kafka` to properties of the client library.

use secrecy::ExposeSecret;

use super::properties::{Properties, PropertyValue};
use super::settings::{Kafka, Mechanism, Protocol, Sasl, Tls};

impl Kafka {
    /// Returns the properties of every client: those of the security settings, overridden by the operator's raw
    /// properties. Brokers and client id are not among them.
    #[must_use]
    pub fn client_properties(&self) -> Properties {
        let mut made = Properties::new();
        let mut put = |key: &str, value: &str| drop(made.insert(key.to_owned(), PropertyValue::new(key, value)));
        let protocol = self.security.protocol;
        put(
            "security.protocol",
            match protocol {
                Protocol::Plaintext => "plaintext",
                Protocol::Ssl => "ssl",
                Protocol::SaslPlaintext => "sasl_plaintext",
                Protocol::SaslSsl => "sasl_ssl",
            },
        );
        if matches!(protocol, Protocol::Ssl | Protocol::SaslSsl) {
            put_tls(&self.security.tls, &mut put);
        }
        if let Some(sasl) = &self.security.sasl {
            put_sasl(sasl, &mut put);
        }
        made.extend(self.properties.clone());
        made
    }
}

fn put_tls(tls: &Tls, put: &mut impl FnMut(&str, &str)) {
    let files = [
        ("ssl.ca.location", &tls.ca_file),
        ("ssl.certificate.location", &tls.cert_file),
        ("ssl.key.location", &tls.key_file),
    ];
    for (key, file) in files {
        if let Some(file) = file {
            put(key, &file.display().to_string());
        }
    }
    if let Some(password) = &tls.key_password {
        put("ssl.key.password", password.expose_secret());
    }
    put("ssl.endpoint.identification.algorithm", if tls.verify_hostname { "https" } else { "none" });
}

fn put_sasl(sasl: &Sasl, put: &mut impl FnMut(&str, &str)) {
    match sasl {
        Sasl::Password { mechanism, username, password } => {
            put(
                "sasl.mechanism",
                match mechanism {
                    Mechanism::Plain => "PLAIN",
                    Mechanism::ScramSha256 => "SCRAM-SHA-256",
                    Mechanism::ScramSha512 => "SCRAM-SHA-512",
                    Mechanism::Oauthbearer => "OAUTHBEARER",
                },
            );
            put("sasl.username", username);
            put("sasl.password", password.expose_secret());
        }
        Sasl::Oauth { token_url, client_id, client_secret, scope, extensions } => {
            put("sasl.mechanism", "OAUTHBEARER");
            put("sasl.oauthbearer.method", "oidc");
            put("sasl.oauthbearer.token.endpoint.url", token_url);
            put("sasl.oauthbearer.client.id", client_id);
            put("sasl.oauthbearer.client.secret", client_secret.expose_secret());
            if let Some(scope) = scope {
                put("sasl.oauthbearer.scope", scope);
            }
            if !extensions.is_empty() {
                put("sasl.oauthbearer.extensions", extensions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ExternalInputs, Layers, Purpose};

    fn made(security: &str) -> Vec<(String, String)> {
        let mut layers = Layers::default();
        layers.file("f.yaml", &format!("kafka:\n  security: {security}\n  properties: {{socket.timeout.ms: 5000}}\n"));
        let settings =
            layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap_or_else(|refused| panic!("{refused}")).0;
        let properties = settings.kafka.client_properties();
        assert!(!format!("{properties:?}").contains("hunter2"));
        properties.iter().map(|(key, value)| (key.clone(), value.expose().to_owned())).collect()
    }

    fn expected(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let list = list.iter().chain(&[("socket.timeout.ms", "5000")]);
        let mut list: Vec<_> = list.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        list.sort();
        list
    }

    #[test]
    fn settings_that_the_protocol_lacks_are_left_out() {
        assert_eq!(
            made("{tls: {ca_file: /ca}, sasl: {username: u, password: hunter2}}"),
            expected(&[("security.protocol", "plaintext")])
        );
    }

    #[test]
    fn certificates_and_passwords_go_to_the_client() {
        let tls = "tls: {ca_file: /ca, cert_file: /c, key_file: /k, key_password: hunter2, verify_hostname: false}";
        let sasl = "sasl: {mechanism: scram-sha-256, username: u, password: hunter2}";
        assert_eq!(
            made(&format!("{{protocol: sasl_ssl, {tls}, {sasl}}}")),
            expected(&[
                ("security.protocol", "sasl_ssl"),
                ("ssl.ca.location", "/ca"),
                ("ssl.certificate.location", "/c"),
                ("ssl.key.location", "/k"),
                ("ssl.key.password", "hunter2"),
                ("ssl.endpoint.identification.algorithm", "none"),
                ("sasl.mechanism", "SCRAM-SHA-256"),
                ("sasl.username", "u"),
                ("sasl.password", "hunter2"),
            ])
        );
    }

    #[test]
    fn tokens_come_from_an_identity_provider() {
        let oauth =
            "{token_url: 'https://id/t', client_id: c, client_secret: hunter2, scope: s, extensions: {a: b, c: d}}";
        assert_eq!(
            made(&format!("{{protocol: sasl_plaintext, sasl: {{mechanism: oauthbearer, oauth: {oauth}}}}}")),
            expected(&[
                ("security.protocol", "sasl_plaintext"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.oauthbearer.method", "oidc"),
                ("sasl.oauthbearer.token.endpoint.url", "https://id/t"),
                ("sasl.oauthbearer.client.id", "c"),
                ("sasl.oauthbearer.client.secret", "hunter2"),
                ("sasl.oauthbearer.scope", "s"),
                ("sasl.oauthbearer.extensions", "a=b,c=d"),
            ])
        );
    }
}
