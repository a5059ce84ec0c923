//! Pictures: turns what the lab found into SVG and HTML text. No files, no clock, no randomness: the same data give the
//! same bytes.
//!
//! `svg` (the crate) writes the elements and escapes them; a plotting library would fix colours in every element, where
//! these pictures need classes for light and dark, tooltips, and marks that a report can switch off. `canvas` holds the
//! small parts and the style, `axis`, `time_axis` and `frame` the scales, `level` what a bucket holds over time, and one file each the
//! pictures. Whatever text comes from outside passes `canvas::plain` on its way into an element.

mod arrivals;
mod axis;
mod buckets;
mod canvas;
mod chart;
mod curve;
mod frame;
mod html;
pub mod laboratory;
mod level;
mod map;
mod scene;
mod sheet;
mod time_axis;

pub use arrivals::{Arrivals, ArrivalsGroup, ArrivalsPanel};
pub use buckets::{BucketPanel, Buckets};
pub use chart::{Chart, ChartGroup, Charts, Point, Series};
pub use curve::{Corner, Curve, WholeRate};
pub use html::{FIGURES_SCRIPT, figures_style, policy_source};
pub use map::{Map, Spot};
pub use scene::{BusiestWindow, Fate, Left, MAX_SINGLE_MARKS, Mark, Recorded, Row, Scene, Stretch};
pub use sheet::MAX_PANELS;
