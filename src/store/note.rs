//! What the daemon tells of itself, in a file beside the database: for whoever asks how it stands while it runs, hangs, or has
//! stopped. Not a row: it can be written when the database cannot.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::limits::Standing;
use crate::time::{Span, Timestamp};

/// The longest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// What the daemon tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonNote {
    pub process: u32,
    pub version: String,
    /// The configuration file; `None`: only defaults.
    pub configuration: Option<PathBuf>,
    /// What it polls; `None` in a note of an earlier version.
    #[serde(default)]
    pub watching: Option<Watched>,
    pub started_at: Timestamp,
    /// When this was written.
    pub noted_at: Timestamp,
    /// When it stopped in order; `None` while it runs, or if it was killed.
    pub stopped_at: Option<Timestamp>,
    pub turns: Turns,
    pub reload: Option<Reload>,
    /// How things stand, in one line.
    pub status: String,
    /// How the limits on deliveries stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Standing>,
}

/// Which feed is polled, and when it counts as stale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    pub feed: String,
    pub stale_after: Span,
}

/// When each stage last was at a turn, be it with nothing to do; `None` before its first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    pub ingest: Option<Timestamp>,
    pub dispatch: Option<Timestamp>,
    pub deliver: Option<Timestamp>,
    /// Only where an operator is told of the service.
    pub notify: Option<Timestamp>,
}

/// The last time that the configuration was read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    pub at: Timestamp,
    /// Whether it was taken over; the one before stays otherwise.
    pub applied: bool,
    /// Why it was refused, or which keys take a restart.
    pub detail: Option<String>,
}

impl DaemonNote {
    /// Puts it beside this database, in place of an older one.
    ///
    /// # Errors
    /// [`StoreError::Note`] if the file cannot be written.
    pub fn write(&self, database: &Path) -> Result<(), StoreError> {
        let (path, next) = (beside(database, ".daemon.json"), beside(database, ".daemon.json.new"));
        let wrap = |source| StoreError::Note { step: "write", path: path.clone(), source };
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from).map_err(wrap)?;
        // A reader sees a whole file; that it survives a power cut is of no use to anybody.
        fs::write(&next, text + "\n").and_then(|()| fs::rename(&next, &path)).map_err(wrap)
    }

    /// What the last daemon on this database told of itself; `None` if none did.
    ///
    /// # Errors
    /// [`StoreError::Note`] if the file is there and cannot be read.
    pub fn read(database: &Path) -> Result<Option<DaemonNote>, StoreError> {
        let path = beside(database, ".daemon.json");
        let wrap = |source| StoreError::Note { step: "read", path: path.clone(), source };
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
            Err(fault) => return Err(wrap(fault)),
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(wrap)?;
        serde_json::from_str(&text).map(Some).map_err(io::Error::from).map_err(wrap)
    }
}

fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
