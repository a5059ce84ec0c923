//! What a stream of past events says about limits: the exact answers to "how big must the bucket be, and at which rate".
//!
//! `summary` holds the arithmetic of the smallest lossless bucket, `busiest` that of windows, `min_bucket` asks both of a
//! catalogue in one pass. Reading is `catalogue`'s business, deciding the limiters'.

mod busiest;
mod min_bucket;
mod summary;

pub use busiest::Busiest;
pub use min_bucket::{MinBucket, RateResult, min_bucket};
pub use summary::{Run, Summary};
