//! The program as its users have it: text in, text out, files, signals, and the daemon as a process.

mod as_known;
#[path = "../delivery/tls.rs"]
#[allow(dead_code, reason = "its own servers are for the tests of feeds")]
mod authority;
mod bad_input;
mod bad_pictures;
mod bad_simulations;
mod catalog;
mod catalogues;
mod daemon;
mod daemons;
mod database;
mod examples;
mod forms;
mod frozen;
mod gate;
mod help;
mod kills;
mod log;
mod manual;
mod metrics;
mod notices;
mod outbox;
mod package;
mod place;
#[path = "../pipeline/port.rs"]
mod port;
mod questions;
mod reaching;
#[path = "../pipeline/receiver.rs"]
#[allow(dead_code, reason = "its failures are for the tests of the pipeline")]
mod receiver;
#[path = "../limiters/redis_server.rs"]
#[allow(dead_code, reason = "the tests of limiters have a store of their own in it")]
mod redis_server;
mod report;
mod retention;
#[path = "../pipeline/server.rs"]
#[allow(dead_code, reason = "most of it is for the tests of the pipeline")]
mod server;
mod service;
mod shared_limits;
#[path = "../delivery/smtp_server.rs"]
#[allow(dead_code, reason = "its faults are for the tests of delivery")]
mod smtp_server;
mod status;
mod storage;
mod subscribers;
mod units;
mod upgrade;
#[path = "../feed/usgs.rs"]
#[allow(dead_code, reason = "its summary feeds are for the tests of the pipeline")]
mod usgs;
mod web;
mod whole_way;
