//! What can be wrong before any attempt: settings, secrets, files. The outcome of an attempt is a value, see `outcome`.

/// Why a setting or a secret does not serve. No message holds a password or a secret.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error("this is not a webhook secret: expected whsec_ and base64 of 24 to 64 bytes")]
    Secret,
    #[error("cannot make a webhook secret: the system gives no random bytes")]
    Randomness(#[source] getrandom::Error),
    #[error("cannot set up the HTTP client for webhooks")]
    HttpClient(#[source] reqwest::Error),
}
