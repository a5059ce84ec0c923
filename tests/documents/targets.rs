//! The log's targets in docs/operations.md: each is a room whose files log, and no file logs under another.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::root;

/// The module of each file under this directory that logs.
fn rooms_that_log(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory of the source") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rooms_that_log(&path, found);
        } else if fs::read_to_string(&path).is_ok_and(|text| text.contains("tracing::") && text.contains("!(")) {
            let module = path.strip_prefix(root().join("src")).expect("under the source").with_extension("");
            let module = module.display().to_string().replace('/', "::");
            found.insert(format!("throttler::{}", module.strip_suffix("::mod").unwrap_or(&module)));
        }
    }
}

#[test]
fn every_target_is_documented_and_every_documented_one_is_there() {
    let text = fs::read_to_string(root().join("docs/operations.md")).expect("the document");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `throttler::"));
    let documented: BTreeSet<String> =
        rows.map(|row| format!("throttler::{}", row.split_once('`').expect("its end").0)).collect();
    let mut found = BTreeSet::new();
    rooms_that_log(&root().join("src"), &mut found);
    // The command line sets the log up, and warns of a test's clock.
    found.retain(|room| !room.starts_with("throttler::cli"));
    let is_under = |room: &String, target: &String| room == target || room.starts_with(&format!("{target}::"));
    // What these say, nobody has a reason to set apart.
    let apart = ["throttler::daemon::systemd", "throttler::daemon::vitals"];
    for room in found.iter().filter(|room| !apart.contains(&room.as_str())) {
        assert!(documented.iter().any(|target| is_under(room, target)), "docs/operations.md lacks {room}: {documented:?}");
    }
    for target in &documented {
        let is_named = ["ingest", "dispatch"].iter().any(|stage| *target == format!("throttler::daemon::{stage}"));
        assert!(is_named || found.iter().any(|room| is_under(room, target)), "nothing logs under {target}: {found:?}");
    }
}
