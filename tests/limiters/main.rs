//! The limiters against independent references: what they decide, what they promise, and what they do when the clock, the
//! limit or the stored bytes are not what one hopes for.

mod agreement;
mod changes;
mod clock;
mod faults;
mod in_cluster;
mod in_redis;
mod layers;
mod policy;
#[path = "../pipeline/port.rs"]
mod port;
mod promise;
#[allow(dead_code, reason = "the pipeline's tests pause it")]
mod redis_server;
mod reference;
mod state;
mod support;
mod tables;
mod wording;
