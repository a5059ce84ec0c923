//! Sending one alert to a webhook: a signed POST, and what the answer means.
//!
//! What the statuses mean here:
//!
//! | status | outcome | because |
//! |---|---|---|
//! | 2xx | delivered | |
//! | 410 | permanent, disables the subscriber | Standard Webhooks: the receiver wants no more |
//! | 3xx | permanent | redirects are not followed: the new place was not agreed with the subscriber, nor checked |
//! | 400, 405, 406, 411, 413–415, 417, 422, 431, 501, 505 | permanent | the same request will be refused again |
//! | any other, 401, 403, 404, 408, 425, 429 and 5xx among them | transient | a receiver being repaired or redeployed; the outbox's age limit ends it |
//!
//! No answer at all is transient, and so is a certificate that does not check.

mod body;
mod preset;
mod quota;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use reqwest::dns::Resolve;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::{Client, Response, redirect};

use super::address_guard::{Guarded, Policy, Refused, SystemResolver, check_url, host_of, policy};
use super::causes::{find, innermost};
use super::error::DeliveryError;
use super::outcome::{MAX_REASON_CHARS, Outcome};
use super::signature::WebhookSecret;
use crate::alert::Alert;
use crate::backoff::parse_retry_after;
use crate::plain::one_line;
use crate::subscriber::{Preset, WebhookUrl};
use crate::time::{Span, Timestamp};

use preset::Composed;

pub use body::SCHEMA;
pub use preset::{PresetError, check_preset};

/// The most that is read of an answer, in bytes: enough for the first line of a complaint.
const MAX_ANSWER_BYTES: usize = 4_096;
/// The longest first line of an answer in a reason, in characters.
const MAX_ANSWER_CHARS: usize = 120;
/// Idle connections kept open to one host.
const MAX_IDLE_PER_HOST: usize = 128;

/// How webhooks are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Whether loopback and private addresses are allowed, and plain http to them (never to public ones).
    pub allow_private: bool,
    /// Who CAP says its messages are from: an address or a domain name of the operator's.
    pub sender: String,
    /// The longest that a connection may take to be made, TLS included.
    pub connect_timeout: Span,
    /// The longest that the whole attempt may take.
    pub timeout: Span,
}

impl Default for WebhookSettings {
    fn default() -> WebhookSettings {
        WebhookSettings {
            allow_private: false,
            sender: "throttler".to_owned(),
            connect_timeout: Span::from_seconds(5),
            timeout: Span::from_seconds(15),
        }
    }
}

/// Sends alerts to webhooks over pooled connections. It follows no redirect, uses no proxy and keeps no cookies.
#[derive(Clone)]
pub struct WebhookSender {
    settings: WebhookSettings,
    /// For https; or why there is none, on a machine without CA certificates.
    secure: Result<Client, Arc<DeliveryError>>,
    /// For plain http to private addresses.
    plain: Client,
}

impl WebhookSender {
    /// A sender with these settings. A provider of cryptography for `rustls` must have been installed.
    ///
    /// # Errors
    /// [`DeliveryError::HttpClient`] if the HTTP client cannot be set up.
    pub fn new(settings: WebhookSettings) -> Result<WebhookSender, DeliveryError> {
        WebhookSender::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// The same with another resolver of names; its answers are guarded in the same way.
    ///
    /// # Errors
    /// [`DeliveryError::HttpClient`] if the HTTP client cannot be set up.
    pub fn with_resolver(settings: WebhookSettings, resolver: Arc<dyn Resolve>) -> Result<WebhookSender, DeliveryError> {
        let secure_policy = if settings.allow_private { Policy::PublicAndPrivate } else { Policy::PublicOnly };
        let secure = client(&settings, Guarded { policy: secure_policy, resolver: Arc::clone(&resolver) })
            .https_only(true)
            .build()
            .map_err(|source| Arc::new(DeliveryError::HttpClient(source)));
        let plain = client(&settings, Guarded { policy: Policy::PrivateOnly, resolver })
            // It never speaks TLS, so it needs no certificates of the system's.
            .tls_certs_only([])
            .build()
            .map_err(DeliveryError::HttpClient)?;
        Ok(WebhookSender { settings, secure, plain })
    }

    /// One attempt at `url` in the form of `preset`, signed with each of `secrets` (several while one is being replaced).
    pub async fn send(
        &self,
        url: &WebhookUrl,
        preset: &Preset,
        secrets: &[WebhookSecret],
        alert: &Alert,
        now: Timestamp,
    ) -> Outcome {
        let url = url.as_url();
        if secrets.is_empty() {
            return Outcome::transient("no signing secret is known for this webhook, and nothing is sent unsigned");
        }
        let client = match self.client_for(url) {
            Ok(client) => client,
            Err(outcome) => return outcome,
        };
        let composed = match preset::compose(preset, url, alert, &self.settings.sender) {
            Ok(composed) => composed,
            Err(fault) => return Outcome::permanent(&format!("not sent: {fault}"), false),
        };
        let headers = match headers(secrets, alert, &composed, now) {
            Ok(headers) => headers,
            Err(outcome) => return outcome,
        };
        match client.post(composed.url).headers(headers).body(composed.body).send().await {
            Ok(response) => judge(response, now).await,
            Err(error) => no_answer(&host_of(url), &error),
        }
    }

    fn client_for(&self, url: &url::Url) -> Result<&Client, Outcome> {
        let refuse = |why: Refused| refused(&why);
        check_url(url, self.settings.allow_private).map_err(refuse)?;
        match policy(url, self.settings.allow_private).map_err(refuse)? {
            Policy::PrivateOnly => Ok(&self.plain),
            Policy::PublicOnly | Policy::PublicAndPrivate => self
                .secure
                .as_ref()
                .map_err(|error| Outcome::transient(&format!("{error}: {}", error.source().map_or_else(String::new, innermost)))),
        }
    }
}

impl fmt::Debug for WebhookSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSender").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn client(settings: &WebhookSettings, resolver: Guarded) -> reqwest::ClientBuilder {
    Client::builder()
        .dns_resolver(Arc::new(resolver))
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .no_gzip()
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .connect_timeout(settings.connect_timeout.to_std())
        .timeout(settings.timeout.to_std())
}

/// The headers of Standard Webhooks and of the quota.
fn headers(secrets: &[WebhookSecret], alert: &Alert, composed: &Composed, now: Timestamp) -> Result<HeaderMap, Outcome> {
    let signatures: Vec<String> = secrets.iter().map(|secret| secret.sign(&alert.id, now, &composed.body)).collect();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(composed.content_type));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("throttler/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in [
        ("webhook-id", alert.id.clone()),
        ("webhook-timestamp", now.seconds().to_string()),
        ("webhook-signature", signatures.join(" ")),
        ("ratelimit-policy", quota::policy(&alert.explanation)),
        ("ratelimit", quota::current(&alert.explanation, now)),
    ] {
        let value = HeaderValue::try_from(value)
            .map_err(|_| Outcome::permanent(&format!("{name} of this alert cannot stand in an HTTP header"), false))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

async fn judge(response: Response, now: Timestamp) -> Outcome {
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| parse_retry_after(value.to_str().ok()?, now));
    let line = first_line(response).await;
    if status.is_success() {
        return Outcome::delivered(&format!("answered {status}"));
    }
    let colon = if line.is_empty() { "" } else { ": " };
    let answer = format!("answered {status}{colon}{line}");
    match status.as_u16() {
        410 => Outcome::permanent(&format!("{answer} (the receiver wants no more)"), true),
        300..=399 => Outcome::permanent(&format!("{answer} (redirects are not followed: set the final URL)"), false),
        400 | 405 | 406 | 411 | 413..=415 | 417 | 422 | 431 | 501 | 505 => Outcome::permanent(&answer, false),
        500.. => Outcome::host_failed(&answer, retry_after),
        _ => Outcome::Transient { reason: one_line(&answer, MAX_REASON_CHARS), retry_after, host_failed: false },
    }
}

/// The first line of the answer, cleaned. Reading stops at [`MAX_ANSWER_BYTES`]; what then fails does not matter any more.
async fn first_line(mut response: Response) -> String {
    let mut read = Vec::new();
    while read.len() < MAX_ANSWER_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => read.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER_BYTES - read.len())]),
            Ok(None) | Err(_) => break,
        }
    }
    let text = String::from_utf8_lossy(&read);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(line, MAX_ANSWER_CHARS)
}

fn refused(why: &Refused) -> Outcome {
    Outcome::permanent(&format!("not sent: {why}"), false)
}

/// What it means that no answer came. The error's own text is not used: it holds the URL.
fn no_answer(host: &str, error: &reqwest::Error) -> Outcome {
    if let Some(why) = find::<Refused>(error) {
        return refused(why);
    }
    let cause = innermost(error);
    let what = if error.is_timeout() && error.is_connect() {
        format!("no connection to {host} in time")
    } else if error.is_timeout() {
        format!("no answer from {host} in time")
    } else if error.is_connect() {
        format!("no connection to {host}: {cause}")
    } else {
        format!("no answer from {host}: {cause}")
    };
    Outcome::host_failed(&what, None)
}
