//! `throttler` decides which earthquake alerts to send, delivers them, and can prove it decided well.
//!
//! The modules in reading order: the core knows no clock and does no I/O; the lab asks history with the same core; the
//! edge owns one outside thing each; the host wires them. `docs/architecture.md` is the map.

pub mod alert;
pub mod delivery;
pub mod event;
pub mod rate;
pub mod subscriber;
pub mod time;
