//! What systemd is told, and what it asks for: readiness, a line on how things stand, reloads, the stop, and signs of life.
//! Without systemd these do nothing.

use sd_notify::NotifyState;

use crate::time::Span;

/// How often systemd wants a sign of life, at least; `None` if it does not.
pub(super) fn watchdog() -> Option<Span> {
    let within = sd_notify::watchdog_enabled()?;
    Some(Span::from_ticks(u64::try_from(within.as_micros()).unwrap_or(u64::MAX)))
}

pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(super) fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The configuration is being read again; [`ready`] ends it.
pub(super) fn reloading() {
    // From systemd 253 on the instant tells this reload from an earlier one; before, it is ignored.
    match NotifyState::monotonic_usec_now() {
        Ok(at) => tell(&[NotifyState::Reloading, at]),
        Err(fault) => tracing::warn!("cannot tell systemd of a reload: {fault}"),
    }
}

pub(super) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(fault) = sd_notify::notify(state) {
        tracing::warn!("cannot notify systemd: {fault}");
    }
}
