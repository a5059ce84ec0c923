//! Sending one alert by email: through an SMTP server, or as a file into a directory, so that no server is needed.
//!
//! SMTP has a gap that no client can close: if the connection breaks after the message was handed over and before the
//! answer came, the server may or may not have taken it. It is then sent again, with the same Message-ID, and every byte of
//! the repeat is the same, so that the mailbox can drop it.

mod directory;
mod message;
mod settings;
mod smtp;
mod verdict;

use lettre::message::Mailbox;

use super::error::DeliveryError;
use super::outcome::Outcome;
use crate::alert::Alert;
use crate::plain::one_line;
use crate::subscriber::Address;
use crate::time::Timestamp;
use directory::Directory;
use smtp::Smtp;

pub use settings::{EmailSettings, MailTransport, Password, Sender, SmtpSecurity, SmtpServer};

/// Sends alerts by email.
#[derive(Debug)]
pub struct EmailSender {
    from: Mailbox,
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    Smtp(Smtp),
    Directory(Directory),
}

impl EmailSender {
    /// A sender with these settings. It connects to nothing yet; a directory is created if there is none.
    ///
    /// # Errors
    /// [`DeliveryError`] for a login without a user name or password, certificates that cannot be read, or a directory that
    /// cannot be made.
    pub fn new(settings: &EmailSettings) -> Result<EmailSender, DeliveryError> {
        let transport = match &settings.smtp {
            MailTransport::Smtp(server) => Transport::Smtp(Smtp::new(server, settings)?),
            MailTransport::Directory(path) => Transport::Directory(Directory::open(path)?),
        };
        Ok(EmailSender { from: settings.from.mailbox().clone(), transport })
    }

    /// One attempt at `address`. `now` is for the age of idle connections only.
    pub async fn send(&self, address: &Address, alert: &Alert, now: Timestamp) -> Outcome {
        let message = match message::compose(&self.from, address, alert) {
            Ok(message) => message,
            Err(fault) => {
                let fault = one_line(&fault.to_string(), 100);
                return Outcome::permanent(&format!("no message can be addressed to {address}: {fault}"), true);
            }
        };
        match &self.transport {
            Transport::Smtp(smtp) => smtp.send(&message, now).await,
            Transport::Directory(directory) => directory.write(message).await,
        }
    }

    /// Says goodbye on idle connections. Sending stays possible.
    pub async fn close(&self) {
        if let Transport::Smtp(smtp) = &self.transport {
            smtp.close().await;
        }
    }
}
