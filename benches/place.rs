//! Where a measurement has its database: in a new directory, or on a server.

use std::error::Error;
use std::path::PathBuf;

use tempfile::TempDir;
use throttler::store::{Location, ServerUrl};

/// A new directory, and the database: on the server if the argument is the address of one, else in the directory, which then lies
/// within the one that the argument names (default: the temporary one).
pub fn place(argument: Option<String>) -> Result<(TempDir, Location), Box<dyn Error + Send + Sync>> {
    if let Some(url) = argument.as_deref().filter(|argument| ServerUrl::is_one(argument)) {
        return Ok((tempfile::tempdir()?, url.parse::<ServerUrl>()?.into()));
    }
    let directory = tempfile::tempdir_in(argument.map_or_else(std::env::temp_dir, PathBuf::from))?;
    let at = Location::from(&directory.path().join("throttler.db"));
    Ok((directory, at))
}
