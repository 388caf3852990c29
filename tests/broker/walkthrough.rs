//! From a broken configuration to a running service, by following only the program's output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::broker::{Broker, wait};
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};

/// A new user: edits the file as suggested, and types the shown commands.
struct Newcomer {
    folder: tempfile::TempDir,
}

impl Newcomer {
    fn file(&self) -> PathBuf {
        self.folder.path().join("dupgate.yaml")
    }

    /// Runs a command line as printed, with the current file.
    fn types(&self, line: &str) -> (i32, String) {
        let arguments = line.strip_prefix("dupgate ").expect("a command of dupgate").split_whitespace();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        let output = command.args(arguments).arg("-q").arg("-c").arg(self.file()).stdin(Stdio::null()).output();
        let output = output.expect("the program");
        let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap_or(-1), message)
    }

    /// Replaces a text in the file.
    fn edits(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.file()).expect("the file");
        assert!(text.contains(from), "{from} is not in the file:\n{text}");
        std::fs::write(self.file(), text.replace(from, to)).expect("the file");
    }
}

/// The first text between two others.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

/// A file with a misspelt key, a broker without a port, and no topic for duplicates.
fn broken(folder: &Path, names: &[String; 4], group: &str, host: &str) -> String {
    let [input, unique, _, dead] = names;
    format!(
        "version: 1\nkafka: {{brokers: [\"{host}\"]}}\n\
         input: {{topics: [\"{input}\"], group: \"{group}\", instance_id: one}}\n\
         output:\n  unique: {{topic: \"{unique}\"}}\n  dead_letter: {{topic: \"{dead}\"}}\n\
         index: {{path: \"{}\", max_memory: 64MiB}}\n\
         match: {{simhash: {{max_distanse: 3}}}}\nhttp: {{listen: \"127.0.0.1:0\"}}\n",
        folder.join("index").display()
    )
}

#[test]
fn a_new_user_gets_from_a_broken_file_to_a_running_service_by_following_the_output() {
    let Some(broker) = Broker::shared() else { return };
    let newcomer = Newcomer { folder: tempfile::tempdir().expect("a folder") };
    let names = ["pages", "unique", "duplicate", "dead"].map(|name| broker.unique(name));
    let (host, _) = broker.address().rsplit_once(':').expect("a port");
    let text_of_file = broken(newcomer.folder.path(), &names, &broker.unique("group"), host);
    std::fs::write(newcomer.file(), text_of_file).expect("the file");

    // One run reports all problems.
    let (code, message) = newcomer.types("dupgate validate");
    assert_eq!(code, 78, "{message}");
    assert!(message.ends_with("the configuration is refused (3 errors, 0 warnings)\n"), "{message}");
    let meant = between(&message, "did you mean `", "`?").expect("the key that was meant");
    let wrong = between(&message, "unknown field `", "`").expect("the key that is wrong");
    newcomer.edits(wrong, meant);
    assert!(message.contains(&format!("`{host}` is not a broker: expected host:port")), "{message}");
    newcomer.edits(&format!("\"{host}\""), &format!("\"{}\"", broker.address()));
    let missing = "error: output.duplicate.topic: is missing";
    assert!(message.contains(missing), "{message}");
    newcomer.edits("output:\n", &format!("output:\n  duplicate: {{topic: \"{}\"}}\n", names[2]));
    let (code, message) = newcomer.types("dupgate validate");
    assert_eq!(code, 0, "{message}");
    assert!(message.ends_with("\nthe configuration is valid (0 errors, 0 warnings)\n"), "{message}");

    // Missing topics are reported with the command that creates them.
    let (code, message) = newcomer.types("dupgate check -o table");
    assert_eq!(code, 69, "{message}");
    let fix = between(&message, "fix: ", "\n").expect("a remedy").replace("NUMBER", "2");
    // It can be pasted unchanged: it has the given configuration.
    let given = format!("dupgate topics create -c {} --execute --with-input", newcomer.file().display());
    assert!(fix.starts_with(&given), "{fix}");
    let (code, message) = newcomer.types(&fix);
    assert_eq!(code, 0, "{message}");
    let (code, message) = newcomer.types("dupgate check -o table");
    assert_eq!(code, 0, "{message}");
    assert!(message.ends_with("0 warnings, 0 failures\n"), "{message}");

    // It runs, is ready, and judges.
    let port = dupgate_testkit::ports::two();
    newcomer.edits("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    let _service = Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate")).args(["run", "-q", "-c"]).arg(newcomer.file()).stdin(Stdio::null()),
    );
    wait::until("readiness", || (newcomer.types("dupgate status --ready").0 == 0).then_some(()));
    produce(broker, &names[0], 0, &[page(&text(1)), page(&text(1))]);
    assert_eq!((committed(broker, &names[1], 1).len(), committed(broker, &names[2], 1).len()), (1, 1));
    let (code, message) = newcomer.types(&format!("dupgate verdicts show {}:0:1 -o table", names[0]));
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("verdict      exact\n"), "{message}");
    assert!(message.contains(&format!("page         {0}:0:1\n", names[0])), "{message}");
    assert!(message.contains(&format!("original     {0}:0:0\n", names[0])), "{message}");
}
