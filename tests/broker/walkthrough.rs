//! From a broken configuration to a running service, by doing what the program prints and nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::broker::{Broker, wait};
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};

/// Somebody who has never seen dupgate: edits the file as told, and types the commands that are shown.
struct Newcomer {
    folder: tempfile::TempDir,
}

impl Newcomer {
    fn file(&self) -> PathBuf {
        self.folder.path().join("dupgate.yaml")
    }

    /// Runs a command line as it is printed, with the file that is being worked on.
    fn types(&self, line: &str) -> (i32, String) {
        let arguments = line.strip_prefix("dupgate ").expect("a command of dupgate").split_whitespace();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        let output = command.args(arguments).arg("-q").arg("-c").arg(self.file()).stdin(Stdio::null()).output();
        let output = output.expect("the program");
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap_or(-1), told)
    }

    /// Replaces a text in the file.
    fn edits(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.file()).expect("the file");
        assert!(text.contains(from), "{from} is not in the file:\n{text}");
        std::fs::write(self.file(), text.replace(from, to)).expect("the file");
    }
}

/// The first text between two others.
fn between<'t>(text: &'t str, before: &str, behind: &str) -> Option<&'t str> {
    text.split_once(before)?.1.split_once(behind).map(|(found, _)| found)
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
fn a_newcomer_gets_from_a_broken_file_to_a_running_service_by_doing_as_told() {
    let Some(broker) = Broker::shared() else { return };
    let newcomer = Newcomer { folder: tempfile::tempdir().expect("a folder") };
    let names = ["pages", "unique", "duplicate", "dead"].map(|name| broker.unique(name));
    let (host, _) = broker.address().rsplit_once(':').expect("a port");
    let text_of_file = broken(newcomer.folder.path(), &names, &broker.unique("group"), host);
    std::fs::write(newcomer.file(), text_of_file).expect("the file");

    // One look tells everything that is wrong.
    let (code, told) = newcomer.types("dupgate validate");
    assert_eq!(code, 78, "{told}");
    assert!(told.ends_with("the configuration is refused (3 errors, 0 warnings)\n"), "{told}");
    let meant = between(&told, "did you mean `", "`?").expect("the key that was meant");
    let wrong = between(&told, "unknown field `", "`").expect("the key that is wrong");
    newcomer.edits(wrong, meant);
    assert!(told.contains(&format!("`{host}` is no broker: expected host:port")), "{told}");
    newcomer.edits(&format!("\"{host}\""), &format!("\"{}\"", broker.address()));
    let missing = "error: output.duplicate.topic: is missing";
    assert!(told.contains(missing), "{told}");
    newcomer.edits("output:\n", &format!("output:\n  duplicate: {{topic: \"{}\"}}\n", names[2]));
    let (code, told) = newcomer.types("dupgate validate");
    assert_eq!(code, 0, "{told}");
    assert!(told.ends_with("\nthe configuration is valid (0 errors, 0 warnings)\n"), "{told}");

    // What the cluster lacks is reported with the command that makes it.
    let (code, told) = newcomer.types("dupgate check -o table");
    assert_eq!(code, 69, "{told}");
    let fix = between(&told, "fix: ", "\n").expect("a remedy").replace("NUMBER", "2");
    // It may be pasted as it is: the configuration that was given is part of it.
    let given = format!("dupgate topics create -c {} --execute --with-input", newcomer.file().display());
    assert!(fix.starts_with(&given), "{fix}");
    let (code, told) = newcomer.types(&fix);
    assert_eq!(code, 0, "{told}");
    let (code, told) = newcomer.types("dupgate check -o table");
    assert_eq!(code, 0, "{told}");
    assert!(told.ends_with("0 warnings, 0 failures\n"), "{told}");

    // It runs, says so, and does its work.
    let port = super::ports::two();
    newcomer.edits("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    let _service = Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate")).args(["run", "-q", "-c"]).arg(newcomer.file()).stdin(Stdio::null()),
    );
    wait::until("readiness", || (newcomer.types("dupgate status --ready").0 == 0).then_some(()));
    produce(broker, &names[0], 0, &[page(&text(1)), page(&text(1))]);
    assert_eq!((committed(broker, &names[1], 1).len(), committed(broker, &names[2], 1).len()), (1, 1));
    let (code, told) = newcomer.types(&format!("dupgate verdicts show {}:0:1 -o table", names[0]));
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("verdict      exact\n"), "{told}");
    assert!(told.contains(&format!("page         {0}:0:1\n", names[0])), "{told}");
    assert!(told.contains(&format!("original     {0}:0:0\n", names[0])), "{told}");
}
