//! What systemd is told: that the daemon is ready, that it stops. Without systemd these do nothing.

use sd_notify::NotifyState;

pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(fault) = sd_notify::notify(state) {
        tracing::warn!("cannot notify systemd: {fault}");
    }
}
