//! `throttler backup`: a copy of the database while the daemon runs.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{self, Format};
use super::pictures::Destination;
use super::setup::{Loaded, open_existing_store};
use crate::clock::{Clock, SystemClock};
use crate::store::{Location, StoreError};

/// Copy the database into a file, while the daemon runs or not
#[derive(Args)]
#[command(after_help = "Examples:
  throttler backup /var/backups/throttler.db
  throttler backup --force /var/backups/throttler.db

The file appears when it is whole, checked and on the disk. To restore it, stop the daemon, remove throttler.db with its
-wal and -shm, put the backup in its place, owned by the service's user, and start the daemon: it says what may be sent twice.")]
pub(super) struct BackupArgs {
    /// The file to make
    file: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(global: &Global, args: &BackupArgs) -> Result<(), Failure> {
    let Location::File(database) = Loaded::read(global)?.database(global)? else { return Err(StoreError::OnServer.into()) };
    let store = open_existing_store(global)?;
    let its_files = [database.clone(), beside(&database, "-wal"), beside(&database, "-shm"), beside(&database, ".lock")];
    let draft = Destination::open_private(&args.file, &its_files.each_ref().map(PathBuf::as_path))?;
    refuse_what_is_in_use(&args.file)?;
    if args.file.exists() && !args.force {
        return Err(Failure::usage(format!("{} is there already: expected a new file, or --force", args.file.display())));
    }
    let now = SystemClock.now();
    let bar = output::progress_bar(None, "{bar:40} {pos}/{len} pages");
    store.backup(draft.draft(), now, |part| {
        bar.set_length(part.of);
        bar.set_position(part.pages);
    })?;
    bar.finish_and_clear();
    let bytes = draft.keep(args.force)?;
    match args.format {
        Format::Json => output::print_json(&json!({ "file": args.file, "bytes": bytes, "backup_at": now })),
        Format::Text => output::print(&format!(
            "{} is a backup of {} as of {now}: {} bytes, checked.\n",
            args.file.display(),
            database.display(),
            output::count(bytes)
        )),
    }
}

/// A backup never takes the place of a database that somebody has open: its log beside it would be taken for the backup's.
fn refuse_what_is_in_use(file: &Path) -> Result<(), Failure> {
    for end in ["-wal", "-journal"] {
        let beside = beside(file, end);
        if beside.exists() {
            return Err(Failure::usage(format!(
                "{} belongs to a database in use that has the backup's name: expected another name, or that it is gone",
                beside.display()
            )));
        }
    }
    Ok(())
}

/// A file that is kept beside a database.
fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
