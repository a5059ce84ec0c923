//! Pictures, compared with files that somebody has looked at.
//!
//! After a change that is meant, `UPDATE_PICTURES=1 cargo test --test plot` writes them anew: look at each before committing.

mod charts;
mod command;
mod curve;
mod laboratory;
mod map;
mod scene;
mod stored;
mod support;
