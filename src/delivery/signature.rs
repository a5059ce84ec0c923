//! Signing webhooks by the Standard Webhooks scheme: secrets as `whsec_…` and signatures as `v1,…`.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::error::DeliveryError;
use crate::time::Timestamp;

/// What every secret in text starts with.
const PREFIX: &str = "whsec_";
/// The length of a key in bytes, both ends inclusive, as the specification has it.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The length of a generated key: what HMAC-SHA256 can make use of.
const GENERATED_KEY_BYTES: usize = 32;

/// The key that a receiver knows a webhook by: 24 to 64 bytes. Its text shows only by [`WebhookSecret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// A new secret from the operating system's randomness.
    ///
    /// # Errors
    /// [`DeliveryError::Randomness`] if the system has none to give.
    pub fn generate() -> Result<WebhookSecret, DeliveryError> {
        let mut key = vec![0; GENERATED_KEY_BYTES];
        getrandom::fill(&mut key).map_err(DeliveryError::Randomness)?;
        Ok(WebhookSecret(key))
    }

    /// The text to store and to hand to the receiver: `whsec_` and base64. Never to be logged.
    #[must_use]
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, with the timestamp in whole seconds.
    #[must_use]
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        // HMAC takes a key of any length, so this never fails; an empty signature would only be refused.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{}.", at.seconds()).as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for WebhookSecret {
    type Err = DeliveryError;

    fn from_str(text: &str) -> Result<WebhookSecret, DeliveryError> {
        let key = text.strip_prefix(PREFIX).and_then(|base64| STANDARD.decode(base64).ok());
        match key {
            Some(key) if KEY_BYTES.contains(&key.len()) => Ok(WebhookSecret(key)),
            _ => Err(DeliveryError::Secret),
        }
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}
