//! `throttler database`: moving an installation from one database to another.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::failure::Failure;
use super::output::{self, Format};
use super::setup::Loaded;
use crate::store::{Copied, Location, Store};

#[derive(Subcommand)]
pub(super) enum DatabaseCommand {
    /// Copy everything from one database into an empty one, checked by counts and checksums
    #[command(after_help = "Examples:
  throttler database copy --from sqlite:throttler.db \\
    --to postgres://throttler@db.example.org/throttler
  throttler database copy --from postgres://throttler@127.0.0.1/throttler --to sqlite:throttler.db

No daemon may run on either. An older schema is brought to the current one first. All is copied in one
transaction: if anything fails, or the copy is killed, the target is as it was. The password of a server comes from database_password_file, the credential
database_password, or $THROTTLER_DATABASE_PASSWORD. Links by which recipients leave go on working if the file
throttler.db.unsubscribe-key is put into the new daemon's state directory as throttler.unsubscribe-key.")]
    Copy(CopyArgs),
}

#[derive(Args)]
pub(super) struct CopyArgs {
    /// What to copy
    #[arg(long, value_name = "DATABASE")]
    from: String,
    /// Where to; a file that is not there yet, or an empty schema
    #[arg(long, value_name = "DATABASE")]
    to: String,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(global: &Global, command: &DatabaseCommand) -> Result<(), Failure> {
    let DatabaseCommand::Copy(args) = command;
    super::setup::install_crypto();
    let loaded = Loaded::read(global)?;
    let (from, to) = (location(&loaded, "--from", &args.from)?, location(&loaded, "--to", &args.to)?);
    if let Location::File(path) = &from
        && !path.exists()
    {
        return Err(Failure::usage(format!("there is no database {}", path.display())));
    }
    let bar = output::progress_bar(None, "{spinner} {msg}");
    let copied = Store::copy(&from, &to, |table| bar.set_message(format!("{} rows of {}", table.rows, table.table)))?;
    bar.finish_and_clear();
    match args.format {
        Format::Json => {
            let tables: Vec<Value> = copied
                .iter()
                .map(|Copied { table, rows, checksum }| json!({ "table": table, "rows": rows, "checksum": checksum }))
                .collect();
            output::print_json(&json!({ "from": from.to_string(), "to": to.to_string(), "tables": tables }))
        }
        Format::Text => {
            let rows: u64 = copied.iter().map(|table| table.rows).sum();
            let tables: Vec<(&str, String)> =
                copied.iter().map(|table| (table.table, output::counted(table.rows, "row"))).collect();
            let told = output::pairs(&tables);
            output::print(&format!(
                "{to} holds all {} rows of {from}, the same by count and checksum.\n\n{told}",
                output::count(rows)
            ))
        }
    }
}

/// `sqlite:FILE` or `postgres://…`.
fn location(loaded: &Loaded, at: &str, text: &str) -> Result<Location, Failure> {
    match text.strip_prefix("sqlite:") {
        Some(path) => Ok(Location::from(&PathBuf::from(path))),
        None => match loaded.location(at, text.as_ref())? {
            Location::File(_) => Err(Failure::usage(format!(
                "{at}: '{text}' is no database: expected sqlite:FILE or postgres://USER@HOST/DATABASE"
            ))),
            server @ Location::Server(_) => Ok(server),
        },
    }
}
