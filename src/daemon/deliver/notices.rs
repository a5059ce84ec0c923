//! Notices to the operator, which are delivered beside all alerts: one at a time by each way.

use std::sync::Arc;

use tokio::time::sleep;

use super::attempt::{MAX_AGE, attempt_notice};
use super::channels::Class;
use super::{Deliverer, LEASE, too_old};
use crate::breaker::Allowed;
use crate::channel::{Channel, Lane};
use crate::daemon::Contact;
use crate::notice::Way;
use crate::store::{Claim, ClaimedNotice, StoreError};
use crate::time::{Span, Timestamp};

/// The longest that a notice waits under its lease for its turn where what leaves is limited.
const MAX_NOTICE_WAIT: Span = Span::from_seconds(30);

impl Deliverer {
    /// Their part of a turn, after the alerts: when to look again.
    pub(super) async fn turn_of_notices(
        &mut self,
        failed_probes: Vec<(Channel, String)>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let Some(operator) = self.operator.clone() else { return Ok(None) };
        // An alert under way probes a channel that failed; without one a notice may.
        let mut openings = self.channels.openings(now);
        let may_go = |contact: &&Contact| {
            let channel = contact.channel();
            let allowed = !matches!(self.channels.allows(&channel, now), Allowed::Nothing { .. });
            let in_time = allowed && self.channels.wait(&channel, now) <= MAX_NOTICE_WAIT;
            in_time && !self.notices.contains(&contact.way) && openings.take(&Lane::untagged(channel))
        };
        let ways: Vec<Way> = operator.contacts.iter().filter(may_go).map(|contact| contact.way).collect();
        let given_up: Vec<(Way, String)> = failed_probes
            .into_iter()
            .flat_map(|(channel, reason)| {
                let by_it = operator.contacts.iter().filter(move |contact| contact.channel() == channel);
                by_it.map(move |contact| (contact.way, too_old(&reason)))
            })
            .collect();
        let (owner, settled, clock) = (self.owner.clone(), self.ended_notices.clone(), Arc::clone(&self.clock));
        let done = self.database.with(move |store| {
            let now = clock.now();
            let claim = Claim { owner: &owner, most: ways.len(), lease: LEASE, now };
            for (way, reason) in given_up {
                store.give_up_notices(way, now.minus(MAX_AGE), &reason, now)?;
            }
            let claimed = store.settle_and_claim_notices(&settled, claim, &ways)?;
            Ok((claimed, store.next_notice_due(now)))
        });
        let (claimed, next_due) = done.await?;
        self.ended_notices.clear();
        for claimed in claimed {
            if let Some(contact) = operator.contact(claimed.way) {
                self.begin_notice(claimed, contact.clone(), now);
            }
        }
        next_due
    }

    fn begin_notice(&mut self, claimed: ClaimedNotice, contact: Contact, now: Timestamp) {
        let (lane, way) = (Lane::untagged(contact.channel()), contact.way);
        let wait = self.channels.begun(&lane, Class::Notice, now).since(now);
        self.metrics.admitted(&self.channels.covering(&lane));
        let (delivery, clock) = (Arc::clone(&self.delivery), Arc::clone(&self.clock));
        let task = self.attempts.spawn(async move {
            sleep(wait.to_std()).await;
            attempt_notice(&delivery, &*clock, claimed, contact).await
        });
        self.notices.push(way);
        self.tasks.insert(task.id(), (lane, Some(way)));
    }
}
