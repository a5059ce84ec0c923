//! The plan of `docs/architecture.md` as tests: who may import whom, which crate lives where, what stands only in one place,
//! and what the program is made of.
//!
//! The layers come from the comments in `src/lib.rs`, so that a new room is judged as soon as it is declared.

mod dependencies;
mod migrations;
mod rules;
mod source;
mod tree;
