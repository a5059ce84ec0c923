//! Where a database is: in a file, or on a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ServerUrl;

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `SQLite`'s, in this file and those beside it.
    File(PathBuf),
    /// `PostgreSQL`'s.
    Server(Arc<ServerUrl>),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(path) => write!(f, "{}", path.display()),
            Location::Server(url) => write!(f, "{url}"),
        }
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Location {
        Location::File(path.to_owned())
    }
}

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Location {
        Location::File(path.clone())
    }
}

impl From<Arc<ServerUrl>> for Location {
    fn from(url: Arc<ServerUrl>) -> Location {
        Location::Server(url)
    }
}

impl From<ServerUrl> for Location {
    fn from(url: ServerUrl) -> Location {
        Location::Server(Arc::new(url))
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Location {
        location.clone()
    }
}
