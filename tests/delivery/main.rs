//! Delivery as its receivers see it: messages word for word, and real servers on loopback that behave well and badly.

mod alerts;
mod email;
mod guard;
mod render;
mod smtp_server;
mod tls;
mod webhook;
