//! The documents say what is so: their commands run and print what is shown, their links lead somewhere, and the schema of
//! the webhook's body fits what is sent.

mod commands;
mod links;
mod schema;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

/// The project's directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document, by its path from the root, with its text.
pub(crate) fn documents() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for directory in ["", "docs", "data", "benches"] {
        let entries = fs::read_dir(root().join(directory)).expect("a directory of the project");
        paths.extend(entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.extension() == Some("md".as_ref())));
    }
    paths.sort();
    assert!(paths.len() >= 7, "the documents were not found: {paths:?}");
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root()).expect("under the root").display().to_string();
        (name, fs::read_to_string(path).expect("a document in UTF-8"))
    };
    paths.into_iter().map(named).collect()
}
