//! Delivery as its receivers see it: messages word for word, and real servers on loopback that behave well and badly.

mod alerts;
mod cap;
mod email;
mod exim;
mod guard;
#[path = "../pipeline/port.rs"]
mod port;
mod presets;
mod real_mail;
mod render;
mod smtp_server;
mod templates;
mod tls;
mod webhook;
