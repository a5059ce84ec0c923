//! `throttler subscriber`: who gets alerts, which, and how many.

mod flags;
mod form;
mod show;
mod test;
mod transfer;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Global;
use super::failure::Failure;
use super::output::{self, Format};
use super::setup::{Loaded, now_by, open_existing_store, open_store};
use crate::delivery::WebhookSecret;
use crate::delivery::address_guard::{self, Refused};
use crate::subscriber::{Destination, Standing, Subscriber, SubscriberName};

use flags::SubscriberFlags;

#[derive(Subcommand)]
pub(super) enum SubscriberCommand {
    /// Add a subscriber
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The subscriber's name: letters, digits and ._-@
        name: SubscriberName,
        #[command(flatten)]
        flags: Box<SubscriberFlags>,
    },
    /// List all subscribers
    #[command(after_help = "Examples:
  throttler subscriber list
  throttler subscriber list --format json")]
    List {
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Show one subscriber: settings, promise, what its limiter allows now, what became of its alerts
    #[command(after_help = "Examples:
  throttler subscriber show anna
  throttler subscriber show ops --secret")]
    Show {
        /// The subscriber's name
        name: SubscriberName,
        /// Also print the secret that signs its webhooks
        #[arg(long)]
        secret: bool,
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Change a subscriber: only what is named changes, and what its limiter spent stays spent
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The subscriber's name
        name: SubscriberName,
        #[command(flatten)]
        flags: Box<SubscriberFlags>,
        /// Replace the secret that signs its webhooks, and print the new one
        #[arg(long)]
        new_secret: bool,
    },
    /// Send an exercise through the real channel, now: outside limiter and ledger, also to a paused subscriber
    #[command(after_help = TEST_EXAMPLES)]
    Test {
        /// The subscriber's name
        name: SubscriberName,
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Pause a subscriber: nothing is decided for it or sent to it
    #[command(after_help = "Examples:
  throttler subscriber pause anna")]
    Pause(Named),
    /// Resume a paused or disabled subscriber: what came in between is not news, what was withheld before is told
    #[command(after_help = "Examples:
  throttler subscriber resume anna
  throttler subscriber resume anna --despite-unsubscribe")]
    Resume {
        #[command(flatten)]
        who: Named,
        /// Also one whose recipient unsubscribed; only if that recipient asked for it
        #[arg(long)]
        despite_unsubscribe: bool,
    },
    /// Remove a subscriber: what waits for it is dropped, the ledger keeps its decisions
    #[command(after_help = "Examples:
  throttler subscriber remove anna")]
    Remove(Named),
    /// Add subscribers from a JSON file as `export` writes it, all or none
    #[command(after_help = "Examples:
  throttler subscriber import subscribers.json
  ssh old.example.org throttler subscriber export --secrets | throttler subscriber import -")]
    Import {
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Print all subscribers as JSON for `import`
    #[command(after_help = "Examples:
  throttler subscriber export > subscribers.json
  throttler subscriber export --secrets | throttler --database new.db subscriber import -")]
    Export {
        /// Also the secrets that sign webhooks; without them an import makes new ones
        #[arg(long)]
        secrets: bool,
    },
}

/// One subscriber by name.
#[derive(Args)]
pub(super) struct Named {
    /// The subscriber's name
    name: SubscriberName,
}

const ADD_EXAMPLES: &str = "Examples:
  throttler subscriber add anna --email anna@example.org
  throttler subscriber add ops --webhook https://hooks.example.org/quakes --min-magnitude 6 \\
    --limiter sliding-log --rate 3/h
  throttler subscriber add chat --webhook https://hooks.slack.com/services/T0/B0/… --preset slack
  throttler subscriber add phone --webhook https://ntfy.sh/our-quakes --preset ntfy
  throttler subscriber add own --webhook https://example.org/in --preset template \\
    --template message.json
  throttler subscriber add kamchatka --email duty@example.org --near 52.9,158.6 --within-km 500 \\
    --always-from 7
  throttler subscriber add pacific --email duty@example.org --bbox=150,-60,-70,60 \\
    --reserve 5 --reserve-from 6.5
  throttler subscriber add bella --email bella@example.org --quiet 22:00-07:00 \\
    --zone Asia/Kamchatka --quiet-below 6.5

Without other flags: M 5.0 or more, earthquakes, a token bucket of 74 at 5/h (what eleven years of the world's earthquakes
need to lose nothing), and a digest of what is withheld.";

const SET_EXAMPLES: &str = "Examples:
  throttler subscriber set anna --rate 10/h --bucket 49
  throttler subscriber set anna --min-magnitude 5.5 --excess drop
  throttler subscriber set ops --always-from none
  throttler subscriber set bella --quiet none
  throttler subscriber set ops --preset cap
  throttler subscriber set own --template message.json
  throttler subscriber set ops --new-secret";

const TEST_EXAMPLES: &str = "Examples:
  throttler subscriber test anna
  throttler subscriber test ops --format json

The message begins with EXERCISE; in JSON it has \"exercise\": true, in CAP the status Exercise. What the limiter has spent
stays as it is, and nothing is tried again. Exit status 1 if the message was not taken, with the reason.";

pub(super) fn run(global: &Global, command: SubscriberCommand) -> Result<(), Failure> {
    match command {
        SubscriberCommand::Add { name, flags } => add(global, name, &flags),
        SubscriberCommand::List { format } => show::list(&open_existing_store(global)?, format),
        SubscriberCommand::Show { name, secret, format } => show::one(&open_existing_store(global)?, &name, secret, format),
        SubscriberCommand::Set { name, flags, new_secret } => set(global, &name, &flags, new_secret),
        SubscriberCommand::Test { name, format } => test::run(global, &name, format),
        SubscriberCommand::Pause(Named { name }) => stand(global, &name, Standing::Paused, false, "paused"),
        SubscriberCommand::Resume { who: Named { name }, despite_unsubscribe } => {
            stand(global, &name, Standing::Active, despite_unsubscribe, "resumed")
        }
        SubscriberCommand::Remove(Named { name }) => {
            let mut store = open_existing_store(global)?;
            let now = now_by(&store)?;
            store.remove_subscriber(&name, now)?;
            output::print(&format!("Removed {name}. The ledger keeps what was decided for it.\n"))
        }
        SubscriberCommand::Import { file } => transfer::import(global, &file),
        SubscriberCommand::Export { secrets } => transfer::export(&open_existing_store(global)?, secrets),
    }
}

fn add(global: &Global, name: SubscriberName, flags: &SubscriberFlags) -> Result<(), Failure> {
    let subscriber = flags.new_subscriber(name)?;
    let loaded = Loaded::read(global)?;
    check_destination(&loaded, &subscriber).map_err(Failure::usage)?;
    let secret = new_secret(&subscriber)?;
    let mut store = open_store(global)?;
    let now = now_by(&store)?;
    store.add_subscribers(&[(subscriber.clone(), secret.clone())], now)?;
    output::print(&format!(
        "Added {}: {} to {}.\nPromise: {}.\n{}{}",
        subscriber.name,
        subscriber.interest,
        subscriber.destination,
        subscriber.policy.promise(),
        left_out_by_the_feed(&loaded, &subscriber),
        told_once(secret.as_deref()),
    ))
}

fn set(global: &Global, name: &SubscriberName, flags: &SubscriberFlags, replace_secret: bool) -> Result<(), Failure> {
    if flags.is_empty() && !replace_secret {
        return Err(Failure::usage("nothing to set: name at least one flag, `throttler subscriber set --help` lists them"));
    }
    let mut store = open_existing_store(global)?;
    let before = store.subscriber(name)?.subscriber;
    let changed = flags.apply(before.clone())?;
    let loaded = Loaded::read(global)?;
    if changed.destination != before.destination {
        check_destination(&loaded, &changed).map_err(Failure::usage)?;
    }
    let webhook = matches!(changed.destination, Destination::Webhook(_));
    if replace_secret && !webhook {
        return Err(Failure::usage(format!("--new-secret signs webhooks, and {name} gets email")));
    }
    let secret = if webhook && (replace_secret || store.secret(name)?.is_none()) { new_secret(&changed)? } else { None };
    let now = now_by(&store)?;
    store.set_subscriber(&changed, secret.as_deref(), now)?;
    output::print(&format!(
        "Changed {name}: {} to {}.\nPromise: {}.\n{}{}",
        changed.interest,
        changed.destination,
        changed.policy.promise(),
        left_out_by_the_feed(&loaded, &changed),
        told_once(secret.as_deref()),
    ))
}

fn stand(
    global: &Global,
    name: &SubscriberName,
    standing: Standing,
    despite_unsubscribe: bool,
    done: &str,
) -> Result<(), Failure> {
    let mut store = open_existing_store(global)?;
    let now = now_by(&store)?;
    store.set_standing(name, standing, despite_unsubscribe, now)?;
    output::print(&format!("{name} is {done}.\n"))
}

/// Says so if the daemon records no events as small as the subscriber wants: they would be missed in silence.
fn left_out_by_the_feed(loaded: &Loaded, subscriber: &Subscriber) -> String {
    let (recorded, wanted) = (loaded.config.feed.min_magnitude, subscriber.interest.min_magnitude);
    if wanted >= recorded {
        return String::new();
    }
    format!("Note: the daemon records events of M {recorded} or more (feed.min_magnitude), smaller ones do not get here.\n")
}

/// Refuses a webhook that the configuration would never send to, while the operator is looking.
fn check_destination(loaded: &Loaded, subscriber: &Subscriber) -> Result<(), Refused> {
    match &subscriber.destination {
        Destination::Webhook(url) => address_guard::check_url(url.as_url(), loaded.config.webhook.allow_private),
        Destination::Email(_) => Ok(()),
    }
}

/// A secret for a subscriber whose messages are signed.
fn new_secret(subscriber: &Subscriber) -> Result<Option<String>, Failure> {
    match subscriber.destination {
        Destination::Webhook(_) => Ok(Some(WebhookSecret::generate()?.expose())),
        Destination::Email(_) => Ok(None),
    }
}

fn told_once(secret: Option<&str>) -> String {
    secret.map_or_else(String::new, |secret| format!("Signing secret, for the receiver: {secret}\n"))
}
