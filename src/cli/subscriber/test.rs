//! `subscriber test`: one exercise through the real channel, now. It passes no limiter and stands in no ledger; the
//! database is only read.

use serde_json::json;

use crate::alert::Alert;
use crate::cli::Global;
use crate::cli::exercise::{self, Way};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::cli::setup::{Loaded, install_crypto, now_by, open_existing_store};
use crate::delivery::{EmailChannel, Outcome, WebhookSecret};
use crate::limiter::Limiter;
use crate::plan::explain;
use crate::subscriber::{Destination, SubscriberName};

/// Why the message came, as it says itself.
const REASON: &str = "the operator tests this subscription; the limit does not count it";

pub(super) fn run(global: &Global, name: &SubscriberName, format: Format) -> Result<(), Failure> {
    let loaded = Loaded::read(global)?;
    let store = open_existing_store(global)?;
    let stored = store.subscriber(name)?;
    let subscriber = &stored.subscriber;
    install_crypto();
    let delivery = loaded.delivery(|| loaded.unsubscribe_key(global))?;
    if matches!((&subscriber.destination, &delivery.email), (Destination::Email(_), EmailChannel::Log)) {
        return Err(Failure::usage(format!("{}: expected where mail goes, since {name} gets email", loaded.at("email.smtp"))));
    }
    let secrets: Vec<WebhookSecret> = store.secret(name)?.iter().map(|secret| secret.parse()).collect::<Result<_, _>>()?;
    let now = now_by(&store)?;
    // What it says of the limit is as things stand; of one that cannot be read, as if nothing were spent.
    let limiter = stored.limiter_at(now).unwrap_or_else(|_| Limiter::new(subscriber.policy.limit));
    let mut alert = Alert::exercise(name.to_string(), explain(subscriber, &limiter, REASON.to_owned(), now), now);
    alert.unsubscribe_url = delivery.unsubscribe_url(stored.enrolment());
    let way = Way { destination: &subscriber.destination, preset: &subscriber.preset, secrets: &secrets };
    exercise::send(&delivery, &[way], &alert)?.iter().try_for_each(|outcome| report(name, &alert, outcome, format))
}

fn report(name: &SubscriberName, alert: &Alert, outcome: &Outcome, format: Format) -> Result<(), Failure> {
    let (word, detail) = exercise::told(outcome);
    let delivered = matches!(outcome, Outcome::Delivered { .. });
    if format == Format::Json {
        let answer = json!({ "subscriber": name, "alert": alert.id, "delivered": delivered, "outcome": word, "detail": detail });
        output::print_json(&answer)?;
    } else if delivered {
        output::print(&format!("Delivered an exercise to {name}: {detail}\n"))?;
    }
    exercise::check(&name.to_string(), "an alert", outcome)
}
