//! The pages as a reader has them: in a real browser. Where there is no Chromium these tests say so and pass.

mod chromium;
mod reports;
