//! Messages as files: written under another name, flushed to disk, then renamed, so that a reader sees whole messages only.
//!
//! The name is the alert's id, so a repeat replaces the first. In a maildir that holds until a program has moved the message
//! from `new` to `cur`; after that the Message-ID tells the repeat.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::message::Composed;
use crate::delivery::error::DeliveryError;
use crate::delivery::outcome::Outcome;

/// A directory for messages.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    /// Where a message is written at first; on the same file system as `finished`.
    draft: PathBuf,
    finished: PathBuf,
    suffix: &'static str,
}

impl Directory {
    /// The directory at `path`: a maildir if it holds `new`, `cur` and `tmp`.
    pub fn open(path: &Path) -> Result<Directory, DeliveryError> {
        fs::create_dir_all(path).map_err(|source| DeliveryError::Directory { path: path.to_owned(), source })?;
        let maildir = ["new", "cur", "tmp"].iter().all(|name| path.join(name).is_dir());
        Ok(if maildir {
            Directory { draft: path.join("tmp"), finished: path.join("new"), suffix: "" }
        } else {
            Directory { draft: path.to_owned(), finished: path.to_owned(), suffix: ".eml" }
        })
    }

    pub async fn write(&self, message: Composed) -> Outcome {
        let directory = self.clone();
        match tokio::task::spawn_blocking(move || directory.write_now(&message)).await {
            Ok(Ok(path)) => Outcome::delivered(&format!("written to {}", path.display())),
            Ok(Err(error)) => Outcome::transient(&format!("cannot write a message to {}: {error}", self.finished.display())),
            Err(_) => Outcome::transient("cannot write a message: the writer was stopped"),
        }
    }

    fn write_now(&self, message: &Composed) -> io::Result<PathBuf> {
        let path = self.finished.join(format!("{}{}", message.id, self.suffix));
        let mut draft = tempfile::Builder::new().prefix(".draft-").tempfile_in(&self.draft)?;
        draft.write_all(&message.bytes)?;
        draft.as_file().sync_all()?;
        draft.persist(&path).map_err(|failed| failed.error)?;
        // The new name itself is on disk only now.
        File::open(&self.finished)?.sync_all()?;
        Ok(path)
    }
}
