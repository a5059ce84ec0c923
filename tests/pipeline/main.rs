//! The pipeline as it runs, with the time set by hand: from a feed's file through a database on disk to receivers on loopback and a
//! directory of messages.

mod ahead;
mod backup;
mod books;
mod changes;
mod confirm;
mod crash;
mod crashing;
mod excess;
mod gaps;
mod great_quake;
mod limits;
mod many;
mod news;
mod notices;
mod opening;
mod outbox;
mod outside;
mod port;
mod quiet;
mod receiver;
#[path = "../limiters/redis_server.rs"]
#[allow(dead_code, reason = "the tests of limiters have a store of their own in it")]
mod redis_server;
mod retention;
mod rig;
#[allow(dead_code, reason = "most of it is for the tests of the command line")]
mod server;
mod silence;
mod stops;
mod stored_replay;
mod unlinked;
mod updates;
mod upgrade;
mod upgrade_server;
#[path = "../feed/usgs.rs"]
#[allow(dead_code, reason = "its catalogues are for the tests of the feed")]
mod usgs;
mod vanished;
