//! The smallest bucket and its relatives: known answers, and properties against slow, plain references.

mod curve;
mod min_bucket;
mod questions;
mod support;
