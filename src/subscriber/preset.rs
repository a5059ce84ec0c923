//! The form of a webhook's messages: what the receiver at the other end reads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest template, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 16 * 1024;

/// How a webhook's messages are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The body of our own, see `docs/webhook.schema.json`.
    #[default]
    Json,
    /// An incoming webhook of Slack's, or of what understands the same.
    Slack,
    /// A webhook of Discord's.
    Discord,
    /// A topic of an ntfy server; the URL is the topic's.
    Ntfy,
    /// The Common Alerting Protocol 1.2, in XML.
    Cap,
    /// As the operator wrote it.
    Template(Template),
}

/// An operator's own form of a message. `delivery` knows its language and checks it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    pub kind: TemplateKind,
    /// At most [`MAX_TEMPLATE_BYTES`].
    pub text: String,
}

/// What a template makes: it decides how values are escaped, and the content type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TemplateKind {
    #[default]
    Json,
    Xml,
    Text,
}

impl Preset {
    /// Whether it is what a webhook gets unless something else is said.
    #[must_use]
    pub fn is_standard(&self) -> bool {
        *self == Preset::Json
    }
}

/// Its name, as the flag has it.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Preset::Json => "json",
            Preset::Slack => "slack",
            Preset::Discord => "discord",
            Preset::Ntfy => "ntfy",
            Preset::Cap => "cap",
            Preset::Template(_) => "template",
        })
    }
}
