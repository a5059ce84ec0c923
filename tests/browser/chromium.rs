//! A real browser without a window, driven through a pipe: opens a page from a file or from a server, moves the pointer,
//! asks scripts, and keeps what went wrong on the page.
//!
//! It speaks the browser's debugging protocol, JSON documents that end in a zero byte, over the file descriptors 3 and 4; a shell
//! puts the pipes there, so that neither a web socket nor a driver is needed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer or a load may take before the test fails; a hung browser must not hang the tests.
const PATIENCE: Duration = Duration::from_mins(1);
/// What the browser is called.
const NAMES: [&str; 2] = ["chromium", "chromium-browser"];
/// The keys that do something by themselves, with the codes that they have in every browser.
const KEYS: [(&str, u8); 9] = [
    ("Backspace", 8),
    ("Tab", 9),
    ("Enter", 13),
    (" ", 32),
    ("ArrowLeft", 37),
    ("ArrowUp", 38),
    ("ArrowRight", 39),
    ("ArrowDown", 40),
    ("Escape", 27),
];
/// It asks nobody anything and leaves nothing behind.
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --disable-breakpad --disable-crash-reporter --hide-scrollbars \
                     --remote-debugging-pipe";

/// A browser with one page.
pub struct Chromium {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next_id: u64,
    session: String,
    /// How many pages have been loaded.
    loads: u64,
    /// What the page complained of.
    complaints: Vec<String>,
    _profile: TempDir,
}

impl Chromium {
    /// Starts it with a window of 1200 by 900 pixels; `None`, with a word on standard error, where there is no Chromium.
    pub fn start() -> Option<Chromium> {
        let installed = |name: &&&str| {
            let directories = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&directories).any(|directory| directory.join(name).is_file())
        };
        let Some(name) = NAMES.iter().find(installed) else {
            eprintln!("skipped: {} is not installed", NAMES[0]);
            return None;
        };
        let profile = TempDir::new().expect("a directory");
        let line = format!(
            "exec {name} {FLAGS} --window-size=1200,900 --user-data-dir=\"$1\" about:blank 3<&0 4>&1 </dev/null >/dev/null"
        );
        let mut process = Command::new("sh")
            .args(["-c", &line, "sh"])
            .arg(profile.path())
            .env("HOME", profile.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let commands = process.stdin.take().expect("its input");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).expect("the browser writes JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (next_id, session, loads, complaints) = (1, String::new(), 0, Vec::new());
        let mut browser = Chromium { process, commands, messages, next_id, session, loads, complaints, _profile: profile };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = self.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut self.session);
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// Loads a page, to the end of its loading.
    pub fn open(&mut self, url: &str) {
        self.complaints.clear();
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        self.wait(|message| message["method"] == "Page.loadEventFired");
    }

    /// The same for a file.
    pub fn open_file(&mut self, path: &Path) {
        self.open(&format!("file://{}", path.canonicalize().expect("the page").display()));
    }

    /// Asks for the light or the dark look.
    pub fn set_dark(&mut self, dark: bool) {
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [scheme] }));
    }

    /// Gives the page a window of this many pixels across and down.
    pub fn set_size(&mut self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// The whole page as a PNG in `$SCREENSHOTS`, where that is set: for somebody who looks at it.
    pub fn photograph(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("SCREENSHOTS") else { return };
        let picture = self.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        let picture = STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("base64");
        std::fs::write(Path::new(&directory).join(name), picture).expect("the picture can be written");
    }

    /// Sends these headers with every request from now on.
    pub fn set_headers(&mut self, headers: &Value) {
        self.call("Network.enable", &json!({}));
        self.call("Network.setExtraHTTPHeaders", &json!({ "headers": headers }));
    }

    /// Writes into the element that has the focus, as a keyboard does.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Waits until this expression is true.
    pub fn wait_until(&mut self, script: &str) {
        let look = format!(
            "(async () => {{ while (!({script})) await new Promise((done) => requestAnimationFrame(done)); return true; }})()"
        );
        assert_eq!(self.ask(&look), json!(true), "{script}");
    }

    /// The value of a script's last expression.
    pub fn ask(&mut self, script: &str) -> Value {
        let answer = self.call("Runtime.evaluate", &json!({ "expression": script, "returnByValue": true, "awaitPromise": true }));
        assert!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Moves the pointer to the middle of the element that this expression gives, after scrolling it into view.
    pub fn point_at(&mut self, element: &str) {
        let (x, y) = self.place_of(element);
        self.call("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// Clicks there.
    pub fn click(&mut self, element: &str) {
        let (x, y) = self.place_of(element);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Clicks on what leads to another page, and waits until that is loaded.
    pub fn follow(&mut self, element: &str) {
        let before = self.loads;
        self.click(element);
        if self.loads == before {
            self.wait(|message| message["method"] == "Page.loadEventFired");
        }
    }

    /// Presses the tabulator, which leads on to the next stop.
    pub fn tab(&mut self) {
        let key = json!({ "type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 });
        self.call("Input.dispatchKeyEvent", &key);
        self.call("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 }));
    }

    /// Presses a key, like `ArrowRight`.
    pub fn press(&mut self, key: &str) {
        // Without its code a key does nothing by itself, like choosing the next of several buttons.
        let code = KEYS.iter().find(|(name, _)| *name == key).map_or(0, |(_, code)| *code);
        let mut event = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if key == " " {
            event["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", &event);
        self.call("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }));
    }

    /// Writes a text in the place of the one in the field with this id.
    pub fn write(&mut self, id: &str, text: &str) {
        self.ask(&format!("document.getElementById('{id}').focus(); document.getElementById('{id}').select()"));
        if text.is_empty() {
            self.press("Backspace");
        } else {
            self.type_text(text);
        }
    }

    fn place_of(&mut self, element: &str) -> (f64, f64) {
        let script = format!(
            "(async () => {{ const element = {element}; element.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); \
             const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.ask(&script);
        (place[0].as_f64().expect("x"), place[1].as_f64().expect("y"))
    }

    /// Everything that the page wrote to the console, threw, or was refused since it was opened.
    pub fn complaints(&mut self) -> Vec<String> {
        // What was reported before this answer has arrived.
        self.ask("1");
        self.complaints.clone()
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let document = serde_json::to_vec(&command).expect("JSON");
        self.commands.write_all(&[document.as_slice(), b"\0"].concat()).expect("the browser listens");
        let answer = self.wait(|message| message["id"] == id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            let parameters = &message["params"];
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => self.complaints.push(parameters["exceptionDetails"].to_string()),
                Some("Runtime.consoleAPICalled") => self.complaints.push(parameters["args"].to_string()),
                Some("Page.loadEventFired") => self.loads += 1,
                Some("Log.entryAdded") => self.complaints.push(parameters["entry"].to_string()),
                _ => {}
            }
            if wanted(&message) {
                return message;
            }
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Asked to, it closes its pipe, tidies up and ends by itself; killed, it would leave its helpers behind.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let hangs = loop {
            match self.messages.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break false,
                Err(RecvTimeoutError::Timeout) => break true,
            }
        };
        if hangs {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
