//! `throttler` decides which earthquake alerts to send, delivers them, and can prove it decided well.
//!
//! The core knows no clock and does no I/O; the lab asks history with the same core; the edge owns one outside thing each;
//! the host wires them. `docs/architecture.md` is the map.

// Core.
pub mod alert;
pub mod backoff;
pub mod breaker;
pub mod channel;
pub mod event;
pub mod freshness;
pub mod identity;
pub mod interest;
pub mod limiter;
pub mod limits;
pub mod news;
pub mod notice;
pub mod plain;
pub mod plan;
pub mod quiet;
pub mod rate;
pub mod revision;
pub mod subscriber;
pub mod time;
pub mod withholding;
pub mod words;

// Lab.
pub mod analysis;
pub mod catalogue;
pub mod plot;
pub mod replay;
pub mod simulate;

// Edge.
pub mod clock;
pub mod config;
pub mod delivery;
pub mod feed;
pub mod shared;
pub mod store;

// Host.
pub mod cli;
pub mod daemon;
pub mod web;
