//! Reading catalogues: whole events, the fast scan against a plain reader, and everything that can be wrong with a file.

mod against_plain_reader;
mod bad_input;
mod events;
mod generic;
mod parallel;
mod support;
