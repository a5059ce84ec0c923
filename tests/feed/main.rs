//! What the feed brings, which event it belongs to, and who would want it.

mod address;
mod captures;
mod identity;
mod interest;
mod poller;
mod server;
mod support;
mod unlinked;
mod wire;
