//! What the feed brings, which event it belongs to, and who would want it.

mod captures;
mod identity;
mod interest;
mod support;
mod wire;
