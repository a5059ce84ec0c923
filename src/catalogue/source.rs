//! Where a catalogue comes from: a file, which can be read again, or a stream, which cannot.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::error::CatalogueError;

/// One input. Several are one catalogue.
pub enum Source {
    /// Opened anew for each reading.
    File(PathBuf),
    /// Read once, like standard input. The name is for messages.
    Stream { name: String, input: Box<dyn Read + Send> },
}

impl Source {
    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Stream { name, .. } => name.clone(),
        }
    }

    /// Opens a file; a stream is lent out as it is.
    ///
    /// # Errors
    /// [`CatalogueError::Missing`] or [`CatalogueError::Read`].
    pub fn open(&mut self) -> Result<Box<dyn Read + Send + '_>, CatalogueError> {
        match self {
            Source::File(path) => {
                let opened = File::open(&*path).map_err(|error| CatalogueError::reading(&path.display().to_string(), error));
                Ok(Box::new(opened?))
            }
            Source::Stream { input, .. } => Ok(Box::new(input)),
        }
    }
}
