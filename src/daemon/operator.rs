//! The operator: where notices go, which ones, and how many.

use std::collections::BTreeSet;

use crate::channel::Channel;
use crate::delivery::WebhookSecret;
use crate::limiter::Limit;
use crate::notice::{Topic, Way};
use crate::subscriber::{Destination, Preset};

/// Who is told of the service itself, as configured.
#[derive(Clone, Debug)]
pub struct Operator {
    /// One for each way at most, in their order.
    pub contacts: Vec<Contact>,
    pub topics: BTreeSet<Topic>,
    /// On the messages, by each way alike.
    pub limit: Limit,
}

/// One way to the operator.
#[derive(Clone, Debug)]
pub struct Contact {
    pub way: Way,
    pub destination: Destination,
    /// The form of a webhook's message.
    pub preset: Preset,
    /// Sign the webhook.
    pub secrets: Vec<WebhookSecret>,
}

impl Operator {
    /// The ways that there are.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        self.contacts.iter().map(|contact| contact.way).collect()
    }

    pub(super) fn contact(&self, way: Way) -> Option<&Contact> {
        self.contacts.iter().find(|contact| contact.way == way)
    }
}

impl Contact {
    pub(super) fn channel(&self) -> Channel {
        Channel::of(&self.destination)
    }
}
