//! What a stream of past events says about limits: the exact answers to "how big must the bucket be, and at which rate".
//!
//! `summary` holds the arithmetic of the smallest lossless bucket (`outline` speeds it up for many rates), `busiest` that of windows, `min_bucket` asks both of a
//! catalogue in one pass. With all times at hand `curve` gives the bucket at every rate between two, `smallest_rate` turns
//! the question round, `lose` allows some loss, `window_counts` shows what is usual; `describe` tells what a catalogue holds. Reading is `catalogue`'s business,
//! deciding the limiters'.

mod busiest;
mod curve;
mod describe;
mod exact_rate;
mod lose;
mod min_bucket;
mod outline;
mod smallest_rate;
mod summary;
mod window_counts;

pub use busiest::Busiest;
pub use curve::{Corner, curve};
pub use describe::{Describer, Description, Gap, Order};
pub use exact_rate::ExactRate;
pub use lose::{AcceptedLoss, AcceptedLossError, LossyBucket, lost, smallest_bucket};
pub use min_bucket::{MinBucket, RateResult, min_bucket, needs};
pub use smallest_rate::{SmallestRate, smallest_rate};
pub use summary::{Run, Summary};
pub use window_counts::{Percentiles, WindowCounts, window_counts};
