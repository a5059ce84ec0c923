//! `subscriber test`: one exercise through the real channel, now. It passes no limiter and stands in no ledger; the
//! database is only read.

use serde_json::json;

use crate::alert::Alert;
use crate::cli::Global;
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::output::{self, Format};
use crate::cli::setup::{Loaded, install_crypto, open_existing_store};
use crate::clock::{Clock, SystemClock};
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
    let now = SystemClock.now();
    // What it says of the limit is as things stand; of one that cannot be read, as if nothing were spent.
    let limiter = stored.limiter_at(now).unwrap_or_else(|_| Limiter::new(subscriber.policy.limit));
    let mut alert = Alert::exercise(name.to_string(), explain(subscriber, &limiter, REASON.to_owned(), now), now);
    alert.unsubscribe_url = delivery.unsubscribe_url(stored.enrolment());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let outcome = delivery.deliver(&subscriber.destination, &subscriber.preset, &secrets, &alert, now).await;
        delivery.close().await;
        outcome
    });
    report(name, &alert, &outcome, format)
}

fn report(name: &SubscriberName, alert: &Alert, outcome: &Outcome, format: Format) -> Result<(), Failure> {
    let (word, detail) = match outcome {
        Outcome::Delivered { detail } => ("delivered", detail),
        Outcome::Transient { reason, .. } => ("transient", reason),
        Outcome::Permanent { reason, .. } => ("permanent", reason),
    };
    let delivered = word == "delivered";
    if format == Format::Json {
        let answer = json!({ "subscriber": name, "alert": alert.id, "delivered": delivered, "outcome": word, "detail": detail });
        output::print_json(&answer)?;
    } else if delivered {
        output::print(&format!("Delivered an exercise to {name}: {detail}\n"))?;
    }
    if delivered {
        return Ok(());
    }
    let outlook = if word == "transient" { "an alert would be tried again" } else { "an alert would be given up" };
    Err(anyhow::anyhow!("the exercise did not reach {name} ({outlook}): {detail}")).blame(Blame::Running)
}
