//! `throttler config`: checks the configuration, prints the commented default.

use clap::Subcommand;

use super::Global;
use super::exercise::{self, Way};
use super::failure::Failure;
use super::limits;
use super::output;
use super::setup::{Loaded, install_crypto};
use crate::alert::Alert;
use crate::clock::{Clock, SystemClock};
use crate::config::DEFAULT;
use crate::daemon::{Contact, Operator, with_causes};
use crate::delivery::Outcome;
use crate::limiter::{Limiter, Request};
use crate::notice::{Notice, OPERATOR};
use crate::plain::without_url_secrets;
use crate::plan::explain_limit;
use crate::store::Store;

/// Why an exercise came, as it says itself.
const REASON: &str = "the operator tries the ways of notices; the limit does not count it";

#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the configuration and what it points to; changes nothing
    #[command(after_help = "Examples:
  throttler config check
  throttler config check --config /etc/throttler/throttler.toml

Without --notify it connects to nobody. With it a notice that says EXERCISE goes out by each way of [operator] at once, outside
max_per_hour, and what was answered is shown; it ends with 1 if one did not arrive.")]
    Check {
        /// Also send the operator an exercise by each configured way
        #[arg(long)]
        notify: bool,
    },
    /// Print the commented default configuration
    #[command(after_help = "Examples:\n  throttler config default > throttler.toml")]
    Default,
}

pub(super) fn run(global: &Global, command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Default => output::print(DEFAULT),
        ConfigCommand::Check { notify } => check(global, *notify),
    }
}

fn check(global: &Global, notify: bool) -> Result<(), Failure> {
    install_crypto();
    let loaded = Loaded::read(global)?;
    let feed = loaded.feed(None)?;
    let url = feed.url().as_url();
    if url.scheme() == "file"
        && let Ok(file) = url.to_file_path()
    {
        let found = std::fs::File::open(&file);
        found.map_err(|fault| Failure::usage(format!("{}: cannot read {}: {fault}", loaded.at("feed.url"), file.display())))?;
    }
    loaded.event_rules()?;
    let fdsn = loaded.fdsn()?.map_or("none".to_owned(), |fdsn| fdsn.url().to_string());
    loaded.check_delivery()?;
    let base = loaded.check_web()?;
    let access = loaded.config.web.listen.map(|listen| loaded.web_access(listen)).transpose()?;
    let egress = loaded.egress()?;
    // A limit that nothing can come under is a mistake, which only the subscribers show.
    let database = loaded.database(global)?;
    Store::check(&database)?;
    let store = match &egress.store {
        Some(store) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let version = runtime.block_on(store.check());
            let version = version.map_err(|fault| loaded.wrong_limit(&format!("store: {}", with_causes(&fault))))?;
            Some(format!("{}, Redis {version}", store.address()))
        }
        None => None,
    };
    let idle = loaded.idle_limits(&egress.limits, &database)?;
    if let Some(idle) = idle.into_iter().next() {
        return Err(Failure::usage(idle));
    }
    let ledger = loaded.ledger()?.map_or("kept for ever".to_owned(), |keep| format!("kept for {keep}"));
    let operator = loaded.operator()?;
    let history = loaded.config.web.listen.map(|_| loaded.history()).transpose()?;
    let source = loaded.path.as_ref().map_or("no file, only defaults".to_owned(), |path| path.display().to_string());
    let email = loaded.config.email.smtp.as_deref().unwrap_or("none: what would be sent is logged");
    let mut rows = vec![
        ("configuration", source),
        ("feed", format!("{}, every {}", feed.url(), loaded.config.feed.poll)),
        ("event service", fdsn),
        ("database", database.to_string()),
        ("ledger", ledger),
        ("email", email.to_owned()),
        (
            "webhooks",
            if loaded.config.webhook.allow_private { "public and private addresses" } else { "https to public addresses" }
                .to_owned(),
        ),
        (
            "web",
            match (loaded.config.web.listen, access, base) {
                (Some(listen), Some(access), None) => format!("{listen}, {}, no links to unsubscribe", access.told()),
                (Some(listen), Some(access), Some(base)) => {
                    format!("{listen}, {}, which recipients reach as {base}", access.told())
                }
                _ => "nothing listens".to_owned(),
            },
        ),
        ("notices", operator.as_ref().map_or_else(|| "none: the log tells the operator".to_owned(), notices)),
    ];
    let limits = egress.limits.iter().enumerate();
    for (at, limit) in limits {
        rows.push((if at == 0 { "limits" } else { "" }, limits::told(limit)));
        rows.extend(limit.leftover().map(|leftover| ("", format!("{}, in an outage: {leftover}", limit.name))));
    }
    rows.extend(store.map(|store| ("", format!("shared in {store}"))));
    rows.extend(history.map(|history| ("what if", history.told())));
    output::print(&format!("The configuration is in order.\n\n{}", output::pairs(&rows)))?;
    if notify { try_ways(&loaded, operator.as_ref()) } else { Ok(()) }
}

/// Sends the operator an exercise by each way, and says what became of it.
fn try_ways(loaded: &Loaded, operator: Option<&Operator>) -> Result<(), Failure> {
    let Some(Operator { contacts, limit, .. }) = operator else {
        return Err(Failure::usage(format!("{}: expected an email or a webhook to notify", loaded.at("operator"))));
    };
    let now = SystemClock.now();
    let limiter = Limiter::new(*limit);
    let explanation = explain_limit(&limiter, Request::ONE, limit.promise().to_string(), REASON.to_owned(), now);
    let alert = Alert::notice(format!("exercise-{OPERATOR}-{}", now.ticks()), Notice::exercise(now), explanation, now);
    let ways: Vec<Way<'_>> = contacts.iter().map(way).collect();
    let outcomes = exercise::send(&loaded.channels()?, &ways, &alert)?;
    output::print("\n")?;
    let mut all = Ok(());
    for (contact, outcome) in contacts.iter().zip(&outcomes) {
        let place = place(contact);
        match outcome {
            Outcome::Delivered { detail } => output::print(&format!("Delivered an exercise to {place}: {detail}\n"))?,
            _ => all = all.and(exercise::check(&place, "a notice", outcome)),
        }
    }
    all
}

fn way(contact: &Contact) -> Way<'_> {
    Way { destination: &contact.destination, preset: &contact.preset, secrets: &contact.secrets }
}

/// Where a way leads, without what is nobody else's business.
fn place(contact: &Contact) -> String {
    let place = without_url_secrets(&contact.destination.to_string());
    if contact.preset.is_standard() { place } else { format!("{place} ({})", contact.preset) }
}

/// Which notices go where, and how many.
fn notices(operator: &Operator) -> String {
    let topics: Vec<&str> = operator.topics.iter().map(|topic| topic.name()).collect();
    let places = operator.contacts.iter().map(place);
    let (what, places) = (if topics.is_empty() { "none".to_owned() } else { topics.join(", ") }, places.collect::<Vec<_>>());
    format!("{what}; to {}; {}", places.join(" and "), operator.limit.promise())
}
