//! A headless Chromium, driven by its `DevTools` protocol over a pipe: messages of JSON, each ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Names of its executable, in search order.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// It sends requests only to the page's listener.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
];

/// Errors of a script whose page is left for another one before it returns.
const LEFT: [&str; 4] = [
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
    "Cannot find default execution context",
    "Cannot find context with specified id",
];

/// A running browser. Ends when dropped.
pub(super) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    numbers: u64,
    seen: Seen,
    _profile: tempfile::TempDir,
}

/// Activity of the page.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Requested addresses.
    pub(super) requests: Vec<String>,
    /// Errors in the console, and exceptions.
    pub(super) complaints: Vec<String>,
}

/// One page in the browser.
pub(super) struct Tab<'b> {
    browser: &'b mut Browser,
    session: String,
}

impl Browser {
    /// Starts one; prints a message and returns `None` if none is installed and none is required.
    pub(super) fn start() -> Option<Self> {
        let there = |name: &&&str| {
            Command::new(**name).arg("--version").output().is_ok_and(|response| response.status.success())
        };
        let Some(name) = NAMES.iter().find(there) else {
            let missing = "no Chromium is installed (on Debian: apt-get install chromium)";
            assert!(std::env::var_os("CI").is_none(), "the pages cannot be tested: {missing}");
            eprintln!("NOT TESTED: the pages in a browser: {missing}");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder");
        // The pipe is expected at the file descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", name])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Chromium");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(Self { child, input, output, numbers: 0, seen: Seen::default(), _profile: profile })
    }

    /// Opens a page with the size of the documents' pictures.
    pub(super) fn open(&mut self, url: &str) -> Tab<'_> {
        let target = self.call(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            self.call(None, "Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        let mut tab = Tab { browser: self, session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            tab.call(domain, &json!({}));
        }
        tab.call("Emulation.setFocusEmulationEnabled", &json!({"enabled": true}));
        tab.resize(1280, 900);
        tab.call("Page.navigate", &json!({"url": url}));
        tab
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        let result = self.try_call(session, method, params);
        assert!(result.is_ok(), "{method}: {result:?}");
        result.unwrap_or_default()
    }

    /// Calls a method and returns its result, or the error that Chromium answers.
    fn try_call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Result<Value, Value> {
        self.numbers += 1;
        let number = self.numbers;
        let mut message = json!({"id": number, "method": method, "params": params});
        if let (Value::Object(message), Some(session)) = (&mut message, session) {
            message.insert("sessionId".to_owned(), session.into());
        }
        write!(self.input, "{message}\0").expect("Chromium hears");
        loop {
            let mut response = Vec::new();
            self.output.read_until(0, &mut response).expect("Chromium speaks");
            assert!(response.pop().is_some(), "Chromium has ended");
            let mut response: Value = serde_json::from_slice(&response).expect("JSON");
            if response["id"] == number {
                return match response.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(response["result"].take()),
                };
            }
            self.note(&response);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.seen.requests.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.seen.complaints.push(params["entry"].to_string());
            }
            "Runtime.exceptionThrown" => self.seen.complaints.push(params.to_string()),
            "Runtime.consoleAPICalled" if params["type"] == "error" => self.seen.complaints.push(params.to_string()),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Tab<'_> {
    /// Shows what the page shows, if the test has failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shown = || self.try_run("document.body.innerText");
            eprintln!("the page: {:#?}", catch_unwind(AssertUnwindSafe(shown)));
        }
    }
}

impl Tab<'_> {
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Runs a line of script in the page and returns its value.
    pub(super) fn run(&mut self, script: &str) -> Value {
        let value = self.try_run(script);
        assert!(value.is_some(), "{script}: the page was left meanwhile");
        value.unwrap_or_default()
    }

    /// Runs a line of script in the page and returns its value, or `None` if the page is left for another one meanwhile.
    pub(super) fn try_run(&mut self, script: &str) -> Option<Value> {
        let params = json!({"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true});
        let result = self.browser.try_call(Some(&self.session), "Runtime.evaluate", &params);
        let is_left = |error: &Value| error["message"].as_str().is_some_and(|message| LEFT.contains(&message));
        if result.as_ref().is_err_and(is_left) {
            return None;
        }
        assert!(result.is_ok(), "{script}: {result:?}");
        let mut result = result.unwrap_or_default();
        assert!(result.get("exceptionDetails").is_none(), "{script}: {result}");
        Some(result["result"]["value"].take())
    }

    /// Sets the size of the window.
    pub(super) fn resize(&mut self, width: u64, height: u64) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Emulates a media feature: its name and value.
    pub(super) fn prefer(&mut self, feature: &str, value: &str) {
        self.call("Emulation.setEmulatedMedia", &json!({"features": [{"name": feature, "value": value}]}));
    }

    /// Presses and releases a key.
    pub(super) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "ArrowLeft" => (37, ""),
            other => unreachable!("{other} is not pressed in any test"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Moves the pointer to a place of the window.
    pub(super) fn point(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Takes a screenshot.
    pub(super) fn picture(&mut self) -> Vec<u8> {
        let taken = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        STANDARD.decode(taken["data"].as_str().expect("a picture")).expect("base64")
    }

    /// Returns the activity of the page so far.
    pub(super) fn seen(&self) -> Seen {
        self.browser.seen.clone()
    }
}
