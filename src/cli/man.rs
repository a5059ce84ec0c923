//! `throttler man`: the manual, a page for each command, from what `--help` says.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::failure::{Blame, Blamed, Failure};
use super::help::{self, Help};
use super::output;
use super::pictures::Destination;

/// The section of the manual: programs that users run.
const SECTION: &str = "1";

/// Files that every command may read or write.
const FILES: [(&str, &str); 4] = [
    ("throttler.toml", "The configuration, in the current directory."),
    ("/etc/throttler/throttler.toml", "The configuration, where there is none in the current directory."),
    (
        "/var/lib/throttler/throttler.db",
        "The database of the installed service, with throttler.db-wal, -shm, .lock and .unsubscribe-key beside it.",
    ),
    ("/etc/credstore/smtp_password", "The mail server's password, which systemd hands to the service alone."),
];

/// Variables that the program reads.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("THROTTLER_LOG", "What the daemon logs, like throttler=debug,warn."),
    ("THROTTLER_SMTP_PASSWORD", "The mail server's password, where neither a file nor a credential has it."),
    ("THROTTLER_DATABASE_PASSWORD", "The password of a database on a server, likewise."),
    ("CREDENTIALS_DIRECTORY", "Set by systemd: where the credentials smtp_password and database_password are."),
    ("STATE_DIRECTORY", "Set by systemd: where the database is unless the configuration says otherwise."),
    ("NO_COLOR", "If set to anything, there are no colours; without it there are some, on terminals."),
];

#[derive(Args)]
#[command(after_help = "Examples:
  throttler man /usr/local/share/man/man1
  throttler man pages

A page for each command, which other pages name as throttler-subscriber-add(1) does. Pages of that name are replaced. The Debian
package brings them along.")]
pub(super) struct ManArgs {
    /// The directory for the pages, made if there is none
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(args: &ManArgs) -> Result<(), Failure> {
    let ManArgs { directory } = args;
    if directory.exists() && !directory.is_dir() {
        return Err(Failure::usage(format!("cannot write into {}: it is not a directory", directory.display())));
    }
    let pages = pages()?;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display())).blame(Blame::Running)?;
    // Drafts of all, so that a directory which cannot be written to gets none.
    let drafts: Result<Vec<_>, Failure> =
        pages.iter().map(|(name, text)| Ok((Destination::open(&directory.join(name), &[])?, text))).collect();
    for (draft, text) in drafts? {
        draft.write(text)?;
    }
    output::print(&format!("{} in {}\n", output::counted(pages.len() as u64, "page"), directory.display()))
}

/// Every page by the name of its file.
fn pages() -> Result<Vec<(String, String)>, Failure> {
    fn collect(command: &Command, trail: &[String], source: &Source, pages: &mut Vec<(String, String)>) -> io::Result<()> {
        let name = page_name(command);
        pages.push((format!("{name}.{SECTION}"), page(command, trail, source)?));
        let trail = [trail, &[name]].concat();
        command.get_subcommands().try_for_each(|child| collect(child, &trail, source, pages))
    }
    // `help` as a command says what `--help` says.
    let mut root = help::command().disable_help_subcommand(true);
    root.build();
    let source =
        Source { version: format!("throttler {}", env!("CARGO_PKG_VERSION")), statuses: Help::of(&root).statuses.join(" ") };
    let mut pages = Vec::new();
    collect(&root, &[], &source, &mut pages)?;
    Ok(pages)
}

/// What all pages have in common.
struct Source {
    version: String,
    /// As the whole program's help has them.
    statuses: String,
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// A page in the order of man-pages(7). `trail` are the pages above it.
fn page(command: &Command, trail: &[String], source: &Source) -> io::Result<String> {
    let help = Help::of(command);
    let man = Man::new(command.clone()).title(page_name(command).to_uppercase()).section(SECTION);
    let man = man.source(&source.version).manual("throttler");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut notes = Roff::new();
    for note in &help.notes {
        notes.control("PP", []).text([roman(note)]);
    }
    notes.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    examples(&mut rest, &help.examples);
    let own = if trail.is_empty() { &[] } else { help.statuses.as_slice() };
    statuses(&mut rest, &source.statuses, own);
    tagged(&mut rest, "FILES", &FILES);
    tagged(&mut rest, "ENVIRONMENT", &ENVIRONMENT);
    if !trail.is_empty() {
        let names: Vec<String> = trail.iter().map(|name| format!("{name}({SECTION})")).collect();
        rest.control("SH", ["SEE ALSO"]).text([roman(names.join(", "))]);
    }
    rest.to_writer(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn examples(page: &mut Roff, examples: &[String]) {
    if examples.is_empty() {
        return;
    }
    page.control("SH", ["EXAMPLES"]).control("nf", []);
    for example in examples {
        page.text([roman(example)]);
    }
    page.control("fi", []);
}

/// `Exit status: 0 success, 1 …` as a list, then what a command adds to it.
fn statuses(page: &mut Roff, general: &str, own: &[String]) {
    page.control("SH", ["EXIT STATUS"]);
    let list = general.split_once(": ").map_or(general, |(_, list)| list);
    for status in list.trim_end_matches('.').split(", ") {
        let (number, meaning) = status.split_once(' ').unwrap_or((status, ""));
        page.control("TP", ["4"]).text([bold(number)]).text([roman(meaning)]);
    }
    for addition in own {
        page.control("PP", []).text([roman(addition)]);
    }
}

fn tagged(page: &mut Roff, heading: &str, list: &[(&str, &str)]) {
    page.control("SH", [heading]);
    for (name, meaning) in list {
        page.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
    }
}
