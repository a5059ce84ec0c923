//! A directory of a test's own, and the program run in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use throttler::clock::{Clock, SystemClock};

/// What a run of the program left.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Standard output of a run that succeeded in silence.
    pub fn ok(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("one JSON document")
    }
}

pub struct Place(TempDir);

impl Place {
    pub fn new() -> Place {
        Place(TempDir::new().expect("a directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect(name);
    }

    /// Writes it so that a reader sees whole files only.
    pub fn replace(&self, name: &str, text: &str) {
        self.write("next", text);
        fs::rename(self.path("next"), self.path(name)).expect("it is renamed");
    }

    /// The program with these arguments, here, untouched by the surroundings of the test.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throttler"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM"] {
            command.env_remove(variable);
        }
        for variable in [
            "THROTTLER_LOG",
            "THROTTLER_SMTP_PASSWORD",
            "THROTTLER_DATABASE_PASSWORD",
            "THROTTLER_OPERATOR_WEBHOOK_SECRET",
            "STATE_DIRECTORY",
            "CREDENTIALS_DIRECTORY",
        ] {
            command.env_remove(variable);
        }
        for variable in ["THROTTLER_TEST_CLOCK", "COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// The same with this on standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        // A program that does not read has closed its end.
        let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("its output");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Everything that lies here, byte for byte; what is kept beside an open database and the lock left out.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.0.path()).expect("the directory").map(|entry| entry.expect("an entry").path());
        let kept = entries.filter(|path| path.is_file() && path.extension().is_none_or(|end| end != "lock"));
        kept.map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect()
    }

    /// A feed of these features.
    pub fn feed(&self, features: &[Value]) {
        let generated = SystemClock.now().millis();
        let document =
            json!({ "type": "FeatureCollection", "metadata": { "generated": generated, "status": 200 }, "features": features });
        self.replace("feed.geojson", &document.to_string());
    }
}

/// An earthquake of now, as the feed shows it.
pub fn quake(id: &str, magnitude: f64) -> Value {
    let now = SystemClock.now().millis();
    json!({
        "type": "Feature", "id": id,
        "properties": {
            "mag": magnitude, "place": format!("near {id}"), "time": now - 60_000, "updated": now, "ids": format!(",{id},"),
            "status": "automatic", "type": "earthquake", "tsunami": 0, "alert": null, "magType": "mww",
        },
        "geometry": { "type": "Point", "coordinates": [160.3, 52.5, 20.0] },
    })
}

/// Looks again and again until it is so, for a minute.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("in a minute it did not come to this: {what}");
}

/// The shipped catalogue.
pub fn catalogue() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv").display().to_string()
}
