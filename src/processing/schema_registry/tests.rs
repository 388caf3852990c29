use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::*;
use crate::config::{ExternalInputs, Layers, Purpose};

/// Serves answers by path, as a registry does, and keeps the heads of the requests.
struct Server {
    address: String,
    answers: Arc<Mutex<HashMap<String, (u16, Value)>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let server = Self { address, answers: Arc::default(), heads: Arc::default() };
        let (answers, heads) = (Arc::clone(&server.answers), Arc::clone(&server.heads));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                // A client that does not trust us hangs up.
                let _ = match &tls {
                    None => serve(stream, &answers, &heads),
                    Some(config) => {
                        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                        serve(StreamOwned::new(connection, stream), &answers, &heads)
                    }
                };
            }
        });
        server
    }

    fn set(&self, path: &str, status: u16, body: Value) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body));
    }

    /// The requests so far: their paths.
    fn asked(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads.iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect()
    }

    fn settings(&self) -> RegistrySettings {
        let timeout = Duration::from_mins(1);
        RegistrySettings { url: self.address.clone(), identity: None, ca_file: None, timeout }
    }

    fn registry(&self, patience: Patience) -> SchemaRegistry {
        SchemaRegistry::new(&self.settings(), patience, Clock::start()).unwrap()
    }
}

fn serve(
    stream: impl Read + Write,
    answers: &Mutex<HashMap<String, (u16, Value)>>,
    heads: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.lock().unwrap().push(head);
    let known = answers.lock().unwrap().get(&path).cloned();
    let (status, body) = known.unwrap_or_else(|| (404, json!({"error_code": 40403, "message": "Schema not found"})));
    let body = body.to_string();
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {status} Any\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())?;
    stream.flush()
}

fn avro(text: &Value) -> Value {
    json!({ "schema": text.to_string() })
}

fn metrics() -> Metrics {
    Metrics::new(&crate::config::settings::Metrics {
        partition_labels: false,
        ..crate::config::settings::Metrics::default()
    })
    .unwrap()
}

fn value_of(metrics: &Metrics, name: &str) -> f64 {
    let rendered = metrics.render();
    let line = rendered.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {rendered}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

const SEVEN: SchemaId = SchemaId::Number(7);

#[test]
fn a_schema_is_asked_for_once_with_those_that_it_refers_to() {
    let server = Server::start(None);
    let registry = server.registry(Patience::None);
    let record = |name: &str, of: &str| json!({"type": "record", "name": name, "fields": [{"name": "f", "type": of}]});
    let reference = |name: &str, subject: &str| json!([{"name": name, "subject": subject, "version": 3}]);
    let mut page = avro(&record("Page", "Site"));
    page["references"] = reference("Site", "site value/1");
    server.set("/schemas/ids/7", 200, page);
    let mut site = avro(&record("Site", "Name"));
    site["references"] = reference("Name", "name");
    server.set("/subjects/site%20value%2F1/versions/3?deleted=true", 200, site);
    server.set("/subjects/name/versions/3?deleted=true", 200, avro(&record("Name", "string")));
    assert!(!registry.is_known(SEVEN));
    for _ in 0..2 {
        registry.find(SEVEN).unwrap();
    }
    assert!(registry.is_known(SEVEN));
    let expected = [
        "/schemas/ids/7",
        "/subjects/site%20value%2F1/versions/3?deleted=true",
        "/subjects/name/versions/3?deleted=true",
    ];
    assert_eq!(server.asked(), expected);
    // The same schema by its GUID is asked for once, too.
    let guid = SchemaId::Guid(std::array::from_fn(|at| [0x12, 0x34][at % 2]));
    let path = "/schemas/guids/12341234-1234-1234-1234-123412341234";
    server.set(path, 200, avro(&json!("string")));
    assert!(!registry.is_known(guid));
    for _ in 0..2 {
        registry.find(guid).unwrap();
    }
    assert!(registry.is_known(guid) && registry.is_known(SEVEN));
    assert_eq!(server.asked(), [&expected[..], &[path]].concat());
}

#[test]
fn what_cannot_be_used_is_named() {
    let server = Server::start(None);
    let registry = server.registry(Patience::None);
    server.set("/schemas/ids/1", 200, json!({"schema": "{}"}));
    server.set("/schemas/ids/2", 200, json!({"schema": "message {", "schemaType": "PROTOBUF"}));
    server.set(
        "/schemas/ids/3",
        200,
        json!({"schema": "\"A\"", "references": [{"name": "A", "subject": "a", "version": 1}]}),
    );
    for (id, expected) in
        [(1, "a schema in it has no type"), (2, "'{'"), (3, "its reference A (version 1 of a): Schema not found")]
    {
        let Err(NoSchema::Unusable(why)) = registry.find(SchemaId::Number(id)) else { panic!("{id}") };
        assert!(why.contains(expected), "{why}");
    }
    let before = server.asked().len();
    let Err(NoSchema::Unknown(why)) = registry.find(SEVEN) else { panic!("unknown") };
    assert_eq!(why, format!("{} answers: Schema not found", server.address));
    assert_eq!(server.asked().len() - before, 3, "another node may not have it yet");
    registry.find(SEVEN).unwrap_err();
    assert_eq!(server.asked().len() - before, 3, "the refusal is remembered");
    server.set("/schemas/guids/11111111-1111-1111-1111-111111111111", 404, json!("no such resource"));
    server.set("/schemas/types", 200, json!(["AVRO"]));
    let Err(NoSchema::Unknown(why)) = registry.find(SchemaId::Guid([0x11; 16])) else { panic!("unknown") };
    assert_eq!(why, format!("{} answers: HTTP 404", server.address), "it knows no GUIDs");
}

#[test]
fn the_service_waits_for_a_registry_that_does_not_answer() {
    let server = Server::start(None);
    // Neither another program nor a refused identity means that there is no such schema.
    server.set("/schemas/ids/7", 404, json!("no registry"));
    let (metrics, health) = (metrics(), Health::new(Duration::from_mins(1)));
    let check = health.check("schema registry", "");
    check.pass();
    let registry = Arc::new(server.registry(Patience::Forever(metrics.clone(), Some(check))));
    let waiting = std::thread::spawn({
        let registry = Arc::clone(&registry);
        move || registry.find(SEVEN).map(drop)
    });
    while value_of(&metrics, "dupgate_schema_registry_failures_total") < 1.0 {
        std::thread::yield_now();
    }
    assert!(value_of(&metrics, "dupgate_schemas_awaited") > 0.0);
    let why = health.readiness()[0].1.clone().unwrap_err();
    assert_eq!(why, format!("records wait for schema 7: {} does not answer: HTTP 404", server.address));
    server.set("/schemas/ids/7", 401, json!({"error_code": 40101, "message": "Unauthorized"}));
    server.set("/schemas/ids/8", 200, avro(&json!("string")));
    registry.find(SchemaId::Number(8)).unwrap();
    server.set("/schemas/ids/7", 200, avro(&json!("string")));
    assert_eq!(waiting.join().unwrap(), Ok(()));
    assert!(value_of(&metrics, "dupgate_schemas_awaited") < 1.0);
    assert_eq!(health.readiness()[0].1, Ok(()));
}

#[test]
fn a_command_does_not_wait() {
    let settings = RegistrySettings {
        url: "http://127.0.0.1:1".to_owned(),
        identity: None,
        ca_file: None,
        timeout: Duration::from_mins(1),
    };
    let registry = SchemaRegistry::new(&settings, Patience::None, Clock::start()).unwrap();
    let Err(NoSchema::Unusable(why)) = registry.find(SEVEN) else { panic!("nothing listens there") };
    assert!(why.starts_with("http://127.0.0.1:1 does not answer: "), "{why}");
    assert!(probe(&settings, Clock::start()).is_err());
}

#[test]
fn identity_and_certificates_are_those_of_the_settings() {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let server = Server::start(Some(Arc::new(config)));
    server.set("/schemas/types", 200, json!(["AVRO"]));
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let der = BASE64_STANDARD.encode(authority.der());
    std::fs::write(&ca_file, format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n")).unwrap();
    let of = |identity, ca_file: Option<&Path>| RegistrySettings {
        identity,
        ca_file: ca_file.map(Path::to_owned),
        ..server.settings()
    };
    assert!(probe(&of(None, None), Clock::start()).is_err(), "not one of the system's");
    let password = RegistryIdentity::Password("user".to_owned(), SecretString::from("pass"));
    probe(&of(Some(password), Some(&ca_file)), Clock::start()).unwrap();
    probe(&of(Some(RegistryIdentity::Token(SecretString::from("token"))), Some(&ca_file)), Clock::start()).unwrap();
    let heads = server.heads.lock().unwrap().join("");
    assert!(heads.contains("authorization: Basic dXNlcjpwYXNz\r\n"), "{heads}");
    assert!(heads.contains("authorization: Bearer token\r\n"), "{heads}");
    std::fs::write(&ca_file, "nothing").unwrap();
    let why = probe(&of(None, Some(&ca_file)), Clock::start()).unwrap_err().to_string();
    assert!(why.contains("holds no certificate"), "{why}");
}

#[test]
fn the_settings_before_a_change_of_the_scheme_have_the_registry_too() {
    let mut layers = Layers::default();
    let registry = "input.schema_registry.url=http://127.0.0.1:1";
    for set in ["input.format=avro", registry, "match.simhash.bits=128", "previous.match.simhash.bits=64"] {
        layers.set(set);
    }
    let mut settings = layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap().0;
    connect(&mut settings, Clock::start()).unwrap();
    for settings in [settings.previous.as_deref().unwrap(), &settings] {
        assert!(format!("{:?}", settings.record.schemas).starts_with("Schemas(Some("), "{:?}", settings.record.schemas);
    }
}
