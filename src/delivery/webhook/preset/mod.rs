//! What a webhook's message looks like, by the subscriber's preset. All of them but our own JSON, CAP and templates lay out
//! the same facts as an email does.

mod cap;
mod discord;
mod fit;
mod ntfy;
mod severity;
mod slack;
mod template;

use url::Url;

use super::body;
use crate::alert::Alert;
use crate::delivery::render::Facts;
use crate::delivery::unsubscribe::from_webhook;
use crate::subscriber::{Destination, MAX_TEMPLATE_BYTES, Preset, TemplateKind};

const JSON: &str = "application/json";
const XML: &str = "application/xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A message ready to be signed and posted.
#[derive(Debug)]
pub(super) struct Composed {
    pub url: Url,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Why a preset does not serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresetError {
    #[error("the preset {0} is a form of webhooks, and this one gets email")]
    Email(Preset),
    #[error("the preset ntfy needs the URL of a topic, like https://ntfy.sh/quakes: letters, digits, '-' and '_', at most 64")]
    Topic,
    #[error("the template is too long: expected at most {MAX_TEMPLATE_BYTES} bytes, found {0}")]
    TooLong(usize),
    #[error("the template cannot be read: {0}")]
    Syntax(String),
    #[error("the template cannot be filled in with {what}: {fault}")]
    Filling { what: &'static str, fault: String },
}

/// Whether messages can be written as `preset` says and sent to `destination`. A template is filled in for trial with
/// messages of every kind, as full and as empty as they come.
///
/// # Errors
/// [`PresetError`] says why not.
pub fn check_preset(destination: &Destination, preset: &Preset) -> Result<(), PresetError> {
    match (destination, preset) {
        (_, Preset::Json) | (Destination::Webhook(_), Preset::Slack | Preset::Discord | Preset::Cap) => Ok(()),
        (Destination::Email(_), other) => Err(PresetError::Email(other.clone())),
        (Destination::Webhook(url), Preset::Ntfy) => ntfy::place(url.as_url()).map(|_| ()),
        (Destination::Webhook(_), Preset::Template(template)) => template::check(template),
    }
}

/// The message of `alert`, byte for byte the same for the same alert. `sender` is who CAP says it is from.
pub(super) fn compose(preset: &Preset, url: &Url, alert: &Alert, sender: &str) -> Result<Composed, PresetError> {
    let facts = || Facts::of(alert, &from_webhook(&alert.subscriber));
    let composed = |content_type, body| Composed { url: url.clone(), content_type, body };
    Ok(match preset {
        Preset::Json => composed(JSON, body::of(alert)),
        Preset::Slack => composed(JSON, slack::of(&facts()).to_string().into_bytes()),
        Preset::Discord => composed(JSON, discord::of(alert, &facts()).to_string().into_bytes()),
        Preset::Ntfy => {
            let (url, topic) = ntfy::place(url)?;
            Composed { url, content_type: JSON, body: ntfy::of(alert, &facts(), &topic).to_string().into_bytes() }
        }
        Preset::Cap => composed("application/cap+xml", cap::of(alert, &facts(), sender)),
        Preset::Template(template) => {
            let content_type = match template.kind {
                TemplateKind::Json => JSON,
                TemplateKind::Xml => XML,
                TemplateKind::Text => TEXT,
            };
            composed(content_type, template::fill_in(template, alert, &facts())?)
        }
    })
}

/// What stands before the events: the note and the details.
fn detail_lines(facts: &Facts) -> Vec<String> {
    let labelled = |(label, value): &(&str, String)| if label.is_empty() { value.clone() } else { format!("{label}: {value}") };
    facts.note.iter().cloned().chain(facts.details.iter().map(labelled)).collect()
}

/// The events of a digest, one a line.
fn row_lines(facts: &Facts) -> Vec<String> {
    facts.rows.iter().map(|row| format!("M {} · {} · {}", row.magnitude, row.origin, row.place)).collect()
}

/// Why it came, the limit, what may come next, how to leave.
fn ending_lines(facts: &Facts) -> Vec<String> {
    facts.ending.iter().map(|(label, value)| format!("{label}: {value}")).collect()
}

/// Text in which programs that make links of what looks like one find none.
fn unlinked(text: &str) -> String {
    text.replace("://", ": //")
}
