//! The pages as a reader has them: in a real browser. Where there is no Chromium these tests say so and pass.

mod chromium;
mod dashboard;
mod days;
#[path = "../web/numbers.rs"]
mod numbers;
mod play;
#[path = "../pipeline/port.rs"]
mod port;
#[path = "../pipeline/receiver.rs"]
#[allow(dead_code, reason = "its failures are for the tests of the pipeline")]
mod receiver;
mod reports;
#[path = "../pipeline/rig.rs"]
#[allow(dead_code, reason = "most of it is for the tests of the pipeline")]
mod rig;
#[path = "../pipeline/server.rs"]
#[allow(dead_code, reason = "most of it is for the tests of the pipeline")]
mod server;
#[path = "../web/site.rs"]
#[allow(dead_code, reason = "requests as bytes are for the tests of the listener")]
mod site;
mod unsubscribe;
