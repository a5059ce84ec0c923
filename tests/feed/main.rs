//! What the feed brings, which event it belongs to, and who would want it.

mod identity;
mod interest;
mod support;
