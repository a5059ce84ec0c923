//! One alert to one destination, once: in words, by mail or webhook, and what came of it. When to try, and again, is the
//! daemon's business; nothing here remembers anything between attempts but open connections.

pub mod address_guard;
mod causes;
mod email;
mod error;
mod outcome;
pub mod render;
mod signature;
mod unsubscribe;
mod webhook;

use crate::alert::Alert;
use crate::plain::one_line;
use crate::subscriber::{Destination, Enrolment, Preset};
use crate::time::Timestamp;

pub use email::{EmailSender, EmailSettings, MailTransport, Password, Sender, SmtpSecurity, SmtpServer};
pub use error::DeliveryError;
pub use outcome::{MAX_REASON_CHARS, Outcome};
pub use signature::WebhookSecret;
pub use unsubscribe::{BaseUrl, Unsubscribe, UnsubscribeKey, UnsubscribeLinks};
pub use webhook::{PresetError, SCHEMA, WebhookSender, WebhookSettings, check_preset};

/// Where email goes.
#[derive(Debug)]
pub enum EmailChannel {
    Sender(Box<EmailSender>),
    /// No `[email]` is configured: one line in the log tells what would have been sent, and that counts as delivered.
    Log,
}

/// Delivers alerts to every kind of destination.
#[derive(Debug)]
pub struct Delivery {
    pub email: EmailChannel,
    pub webhook: WebhookSender,
    /// What makes the links to leave by; without it messages have none.
    pub links: Option<UnsubscribeLinks>,
}

impl Delivery {
    /// The page on which this subscriber leaves, for [`Alert::unsubscribe_url`].
    #[must_use]
    pub fn unsubscribe_url(&self, who: Enrolment) -> Option<String> {
        self.links.as_ref().map(|links| links.url(who))
    }

    /// One attempt at `destination`. `preset` is the form of a webhook's message and `secrets` sign it (all of them); an
    /// email needs neither. `now` is the time of the attempt.
    pub async fn deliver(
        &self,
        destination: &Destination,
        preset: &Preset,
        secrets: &[WebhookSecret],
        alert: &Alert,
        now: Timestamp,
    ) -> Outcome {
        match (destination, &self.email) {
            (Destination::Webhook(url), _) => self.webhook.send(url, preset, secrets, alert, now).await,
            (Destination::Email(address), EmailChannel::Sender(sender)) => sender.send(address, alert, now).await,
            (Destination::Email(address), EmailChannel::Log) => {
                let title = one_line(&alert.title(), MAX_REASON_CHARS);
                tracing::info!(alert = %alert.id, to = %address, "no [email] is configured; would have sent: {title}");
                Outcome::delivered("logged only: no [email] is configured")
            }
        }
    }

    /// Ends idle connections politely, at shutdown.
    pub async fn close(&self) {
        if let EmailChannel::Sender(sender) = &self.email {
            sender.close().await;
        }
    }
}
