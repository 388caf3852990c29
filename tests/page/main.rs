//! The pages for operators in a real browser: on a running demo, on a deployment with a real broker, and on canned
//! answers for states that are hard to produce.
//!
//! Needs Chromium. With `CI` set it must exist; elsewhere its absence is printed and the test passes without checking.
//! `DUPGATE_WRITE_DOCS=1` keeps the pictures that the documents show.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers fail the test, or print why not"
)]

#[path = "../support/broker/mod.rs"]
mod broker;
mod browser;
mod canned;
#[path = "../support/cluster/mod.rs"]
mod cluster;
mod live;
mod overview;
mod pairs;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use dupgate_testkit::ports::free_address;
use serde_json::{Value, json};

use broker::wait;
use browser::{Browser, Tab};

const TOKEN: &str = "a token of the test";

/// The demo, judging a crawl until this is dropped.
struct Demo(Child);

impl Demo {
    fn start(admin: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
            command.env_remove(name);
        }
        let listen = format!("http.admin.listen={admin}");
        let more = ["-s", "http.listen=127.0.0.1:0", "-s", &listen, "-s", "http.admin.token={env: PAGE_TOKEN}"];
        let more = [more.as_slice(), &["-s", "http.admin.text=full"]].concat();
        command.env("PAGE_TOKEN", TOKEN).args(["demo", "--for", "1h", "--zh", "0.4"]).args(more);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the demo"))
    }
}

impl Drop for Demo {
    /// With a signal that lets it remove its files.
    fn drop(&mut self) {
        drop(Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status());
        drop(self.0.wait());
    }
}

/// Enters the token, as a user types it.
fn enter(tab: &mut Tab<'_>, token: &str) {
    tab.run(&format!("document.getElementById('token').value = {}", json!(token)));
    tab.run("document.querySelector('#door button').click()");
}

/// Stores a picture for the documents, or beside the program.
fn keep_picture(name: &str, picture: &[u8]) {
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{} bytes", picture.len());
    let folder = if std::env::var_os("DUPGATE_WRITE_DOCS").is_some() { "docs" } else { "target" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
    std::fs::write(path, picture).expect("the picture");
}

/// Texts of the cells of a column of the list.
fn column(tab: &mut Tab<'_>, number: usize) -> Vec<String> {
    let cells = tab.run(&format!(
        "[...document.querySelectorAll('#pairs tbody tr')].map((row) => row.cells[{number}].textContent)"
    ));
    cells.as_array().expect("cells").iter().map(|cell| cell.as_str().unwrap_or_default().to_owned()).collect()
}

/// Sets a filter, as a user types it.
fn filter(tab: &mut Tab<'_>, name: &str, value: &str) {
    tab.run(&format!(
        "{{ const field = document.querySelector('#filters [name={name}]'); field.value = {}; \
         field.dispatchEvent(new Event('input', {{bubbles: true}})); }}",
        json!(value)
    ));
}

/// Waits until the condition holds in the page. While a page is loading, or is left for another one, it does not hold.
fn holds(tab: &mut Tab<'_>, what: &str, condition: &str) {
    let condition = format!("(() => {{ try {{ return {condition}; }} catch {{ return false; }} }})()");
    wait::until(what, || (tab.try_run(&condition) == Some(Value::Bool(true))).then_some(()));
}

#[test]
fn a_user_opens_the_page_filters_and_inspects_a_pair() {
    let Some(mut browser) = Browser::start() else { return };
    let admin = free_address().to_string();
    let _demo = Demo::start(&admin);
    wait::until("the admin listener", || std::net::TcpStream::connect(&admin).ok());
    let mut tab = browser.open(&format!("http://{admin}/ui/pairs"));

    // Without the token the page asks for it, and refuses a wrong one.
    holds(&mut tab, "the door", "!document.getElementById('door').hidden && document.querySelector('main').hidden");
    enter(&mut tab, "not the token of the test");
    holds(&mut tab, "the refusal", "document.getElementById('refused').textContent.includes('wrong token')");
    enter(&mut tab, TOKEN);

    // A list that fills, with what differs.
    holds(&mut tab, "a list", "document.querySelectorAll('#pairs tbody tr').length === 50");
    let is_three_pages = "document.getElementById('older').ariaDisabled === 'false' && \
                          document.getElementById('range').textContent.match(/of (\\d+)/)[1] >= 150";
    holds(&mut tab, "three pages of it", is_three_pages);
    holds(&mut tab, "the histogram", "document.querySelectorAll('#histogram rect').length === 17");
    holds(&mut tab, "clusters", "document.querySelectorAll('#clusters button').length === 10");
    holds(&mut tab, "the page of a cluster", "document.querySelectorAll('#clusters a[href^=\"http\"]').length >= 5");
    // Older pairs, and back. The list is refreshed between two lines of script: what belongs together is one line.
    let numbers = "[...rows.keys()].map((key) => parseInt(key))";
    let oldest = tab.run(&format!(
        "{{ const oldest = Math.min(...{numbers}); document.getElementById('older').click(); oldest; }}"
    ));
    holds(&mut tab, "older pairs", &format!("Math.max(...{numbers}) < {oldest} && {numbers}.length === 50"));
    // These stay in place until they are inspected.
    holds(&mut tab, "what differs", "document.querySelectorAll('#pairs .differs ins').length >= 5");
    tab.run("document.getElementById('newest').click()");
    holds(&mut tab, "the newest pairs", &format!("Math.max(...{numbers}) > {oldest}"));
    let verdicts = column(&mut tab, 0);
    assert!(verdicts.contains(&"near".to_owned()) && verdicts.contains(&"exact".to_owned()), "{verdicts:?}");

    filter(&mut tab, "verdict", "near");
    filter(&mut tab, "min_distance", "1");
    filter(&mut tab, "max_distance", "2");
    filter(&mut tab, "segmenter", "jieba");
    let is_filtered = "[...document.querySelectorAll('#pairs tbody tr')].every((row) => \
                       row.cells[0].textContent === 'near' && ['1', '2'].includes(row.cells[1].textContent) && \
                       /[\\u4e00-\\u9fff]/.test(row.cells[3].textContent)) && document.querySelectorAll('#pairs tbody tr').length > 0";
    holds(&mut tab, "a filtered list", is_filtered);
    filter(&mut tab, "site", "no.such.site");
    holds(&mut tab, "an empty list", "!document.getElementById('none').hidden");
    filter(&mut tab, "site", ".example");
    holds(&mut tab, "the list again", is_filtered);

    // One pair, side by side.
    let id =
        tab.run("{ const first = document.querySelector('#pairs button.open'); first.click(); first.textContent; }");
    holds(
        &mut tab,
        "both texts",
        "document.getElementById('pair').open && document.querySelector('#own-text ins, #match-text del') !== null",
    );
    let head = tab.run("document.getElementById('pair-head').textContent");
    let (head, id) = (head.as_str().expect("text"), id.as_str().expect("text"));
    assert!(head.starts_with("near: ") && head.contains(id), "{head} {id}");
    let facts = tab.run("document.getElementById('pair-facts').textContent");
    assert!(
        facts
            .as_str()
            .is_some_and(|facts| facts.contains("bits of the SimHash differ") && facts.contains("segmenter jieba")),
        "{facts}"
    );
    let thresholds = tab.run("[...document.querySelectorAll('#thresholds tbody td')].map((cell) => cell.textContent)");
    let thresholds = thresholds.as_array().expect("cells");
    let (first, last) = (thresholds.first(), thresholds.last());
    assert_eq!((thresholds.len(), first, last), (9, Some(&json!("no match")), Some(&json!("match"))), "{thresholds:?}");

    // The pair as a case, which passes.
    holds(&mut tab, "the case", "!document.getElementById('case-box').hidden");
    tab.run("document.getElementById('copy').click()");
    holds(&mut tab, "the copy", "document.getElementById('copied').textContent !== ''");
    let case = tab.run("document.getElementById('case').value");
    let folder = tempfile::tempdir().expect("a folder");
    let cases = folder.path().join("cases.yaml");
    std::fs::write(&cases, case.as_str().expect("text")).expect("a file");
    let config = folder.path().join("dupgate.yaml");
    std::fs::write(&config, "version: 1\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    let tested = command.arg("test").arg(&cases).arg("-c").arg(&config).output().expect("the program");
    let output = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success() && output.contains("1 case: all passed"), "{output}\n{case}");

    tab.run("document.getElementById('copied').scrollIntoView()");
    tab.run("document.getElementById('pair').scrollTop = 0");
    keep_picture("pairs.png", &tab.picture());

    // Forgetting asks first, and "keep it" cancels.
    tab.run("document.getElementById('close').click()");
    // The list is refreshed periodically: the button may appear only after a while.
    let dialog_open = "document.getElementById('forget').open || \
                 (document.querySelector('#clusters button').click(), document.getElementById('forget').open)";
    holds(&mut tab, "the question", dialog_open);
    tab.run("document.querySelector('#forget button[value=no]').click()");
    holds(
        &mut tab,
        "the answer",
        "!document.getElementById('forget').open && document.getElementById('trouble').textContent === ''",
    );
    holds(&mut tab, "the dialog again", dialog_open);
    tab.run("document.querySelector('#forget button[value=yes]').click()");
    holds(&mut tab, "forgetting", "!document.getElementById('forget').open");

    // Nothing was loaded from elsewhere, and the only errors are the refused tokens.
    let origin = format!("http://{admin}/");
    let seen = wait::until("the request to forget", || {
        // Any command to the browser also collects pending events.
        tab.run("true");
        let seen = tab.seen();
        seen.requests.iter().any(|url| url.ends_with("/api/v1/index/forget")).then_some(seen)
    });
    let foreign: Vec<&String> = seen.requests.iter().filter(|url| !url.starts_with(&origin)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let complaints: Vec<&String> = seen.complaints.iter().filter(|complaint| !complaint.contains("401")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
