//! `throttler catalog`: gets a catalogue, describes one.

mod fetch;
mod info;

use clap::Subcommand;

use super::Global;
use super::failure::Failure;

#[derive(Subcommand)]
pub(super) enum CatalogCommand {
    Fetch(fetch::FetchArgs),
    Info(info::InfoArgs),
}

pub(super) fn run(global: &Global, command: &CatalogCommand) -> Result<(), Failure> {
    match command {
        CatalogCommand::Fetch(args) => fetch::run(global, args),
        CatalogCommand::Info(args) => info::run(args),
    }
}
