//! The smallest bucket and its relatives: known answers, and properties against slow, plain references.

mod min_bucket;
mod support;
