//! A session with a `PostgreSQL` server. Its calls wait for their answers on the caller's thread, as `SQLite`'s do, be it one that
//! may block or not; the traffic itself is a thread's of its own.

mod cancel;
mod fault;
mod session;
mod traffic;
mod values;

pub(in crate::store) use self::cancel::Cancel;
pub use self::fault::Fault;
pub(super) use self::session::CHANNEL;
pub(in crate::store) use self::session::Session;
pub(super) use self::traffic::{runtime, within};

type Result<T> = std::result::Result<T, Fault>;
