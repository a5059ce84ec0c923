//! The web listener over real sockets: pages, health, and clients that mean no good.

mod access;
mod dashboard;
mod health;
mod limits;
#[allow(dead_code, reason = "what is refused is told by a browser")]
mod numbers;
mod pages;
mod play;
#[path = "../pipeline/port.rs"]
mod port;
#[path = "../pipeline/receiver.rs"]
#[allow(dead_code, reason = "its failures are for the tests of the pipeline")]
mod receiver;
#[path = "../pipeline/rig.rs"]
#[allow(dead_code, reason = "most of it is for the tests of the pipeline")]
mod rig;
#[path = "../pipeline/server.rs"]
#[allow(dead_code, reason = "most of it is for the tests of the pipeline")]
mod server;
mod site;
