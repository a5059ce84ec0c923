//! What the feed brings, which event it belongs to, and who would want it.

mod address;
mod captures;
mod fdsn;
mod identity;
mod interest;
mod poller;
mod server;
mod support;
mod usgs;
mod wire;
