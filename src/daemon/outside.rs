//! The store of shared limits as deliver sees it: asked while it answers, left alone after failures, and looked for by a probe that
//! holds up nothing.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::with_causes;
use crate::breaker::{Allowed, Breaker, Change, Patience};
use crate::channel::Lane;
use crate::limits::Layers;
use crate::shared::{Answer, PREFIX, Question, SharedError, SharedStore};
use crate::time::{Span, Timestamp};

/// Deliveries wait for each answer, so two that do not come are enough; and a probe costs nobody anything.
pub(super) const PATIENCE: Patience =
    Patience { trip_after: 2, base: Span::from_seconds(2), min: Span::from_millis(500), max: Span::from_seconds(10) };

#[derive(Debug)]
pub(super) struct Outside {
    store: Arc<SharedStore>,
    breaker: Breaker,
    probe: Option<JoinHandle<Result<String, SharedError>>>,
}

/// Deliveries that the store is asked about: the limits that the question names, by their place among all.
pub(super) struct Asked {
    question: Question,
    limits: Vec<usize>,
}

impl Asked {
    /// The question about these lanes, a delivery each, of limits that can be kept in the store.
    pub fn about<'l>(lanes: impl Iterator<Item = &'l Lane>, layers: &Layers) -> Result<Asked, SharedError> {
        let mut asked = Asked { question: Question::default(), limits: Vec::new() };
        for lane in lanes {
            let mut keys = Vec::new();
            for at in layers.for_the_store(lane) {
                let known = asked.limits.iter().position(|limit| *limit == at);
                keys.push(match (known, layers.limit(at)) {
                    (Some(key), _) => key,
                    (None, Some(limit)) => {
                        let kind = asked.question.kind(limit.limit, limit.cost)?;
                        asked.limits.push(at);
                        asked.question.key(format!("{PREFIX}{}:{}", limit.name, limit.limit.algorithm()), kind)
                    }
                    (None, None) => continue,
                });
            }
            asked.question.request(keys);
        }
        Ok(asked)
    }

    /// The limit that refuses by this answer, by its place among all.
    pub fn refused_by(&self, answer: &Answer) -> Option<usize> {
        self.limits.get(answer.refused_by?).copied()
    }
}

impl Outside {
    pub fn new(store: Arc<SharedStore>) -> Outside {
        Outside { store, breaker: Breaker::new(PATIENCE), probe: None }
    }

    /// Whether it is at the same place, so that what is known of it stays.
    pub fn is_at(&self, store: &SharedStore) -> bool {
        self.store.address() == store.address()
    }

    /// Whether it is left alone.
    pub fn is_away(&self) -> bool {
        !self.breaker.is_closed()
    }

    /// When it is looked for next.
    pub fn next_probe(&self, now: Timestamp) -> Option<Timestamp> {
        match self.breaker.allows(now) {
            Allowed::Nothing { until } => until,
            _ => None,
        }
    }

    /// Asks it.
    pub async fn ask(&mut self, asked: &Asked, now: Timestamp, random: u64) -> Result<Vec<Answer>, SharedError> {
        let answers = self.store.decide(&asked.question, now).await;
        match &answers {
            Ok(_) => drop(self.breaker.succeeded()),
            Err(fault) => self.failed(fault, now, random),
        }
        answers
    }

    /// Begins to look for it, if it is away and the time has come.
    pub fn look_for_it(&mut self, now: Timestamp) {
        if self.probe.is_none() && self.breaker.allows(now) == Allowed::One {
            self.breaker.begun();
            let store = Arc::clone(&self.store);
            self.probe = Some(tokio::spawn(async move { store.check().await }));
        }
    }

    /// Waits until a probe ends; for ever if none is under way. May be dropped while waiting.
    pub async fn probed(&mut self) -> Result<String, SharedError> {
        let Some(probe) = &mut self.probe else { return std::future::pending().await };
        let ended = probe.await;
        self.probe = None;
        match ended {
            Ok(found) => found,
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        }
    }

    /// What a probe found.
    pub fn found(&mut self, found: &Result<String, SharedError>, now: Timestamp, random: u64) {
        match found {
            Ok(version) => {
                if self.breaker.succeeded() == Some(Change::Closed) {
                    let store = self.store.address();
                    tracing::info!(%store, version, "the store of the shared limits answers again and decides");
                }
            }
            Err(fault) => self.failed(fault, now, random),
        }
    }

    fn failed(&mut self, fault: &SharedError, now: Timestamp, random: u64) {
        let store = self.store.address();
        if let Some(Change::Opened { probe_at }) = self.breaker.failed(now, None, random) {
            tracing::error!(
                %store,
                "the store of the shared limits is away, and each limit's outage policy holds; it is looked for at {probe_at}: {}",
                with_causes(fault)
            );
        } else {
            tracing::debug!(%store, "{}", with_causes(fault));
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(probe) = &self.probe {
            probe.abort();
        }
    }
}
