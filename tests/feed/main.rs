//! What the feed brings, which event it belongs to, and who would want it.

mod abuse;
mod address;
#[path = "../delivery/tls.rs"]
mod authority;
mod captures;
mod fdsn;
mod formats;
mod identity;
mod interest;
mod poller;
#[path = "../pipeline/port.rs"]
mod port;
mod server;
mod support;
mod tls;
mod unlinked;
#[allow(dead_code, reason = "its summary feeds are for the tests of the pipeline")]
mod usgs;
mod wire;
