//! The FDSN event service: how many events there are, their rows in slices of time, one event by its id. The service
//! answers at most [`SEARCH_LIMIT`] events at once and has many ways to say no; all of them are recognised here.

mod address;
mod client;
mod download;
mod question;
mod rows;
mod slices;

pub use address::FdsnUrl;
pub use client::{Fdsn, Now, Patience};
pub use download::{Download, Fetched, MAX_CATALOGUE_EVENTS, Progress};
pub use question::Question;

/// The most events that the service gives in one answer, unless it names a smaller number.
pub const SEARCH_LIMIT: u64 = 20_000;
