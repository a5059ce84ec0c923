//! `throttler replay --plot --html`: the scene as a picture and as a page.

use std::path::Path;

use crate::catalogue::Filter;
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::output::{self, Destination};
use crate::event::Event;
use crate::limiter::Limit;
use crate::plot::{Row, Scene, Stretch};
use crate::replay::Replayed;
use crate::time::Timestamp;

/// The files that were asked for.
pub(super) struct Pictures {
    plot: Option<Destination>,
    html: Option<Destination>,
}

impl Pictures {
    /// Makes sure that they can be written; `None` if there are none.
    pub fn open(plot: Option<&Path>, html: Option<&Path>) -> Result<Option<Pictures>, Failure> {
        if plot.is_none() && html.is_none() {
            return Ok(None);
        }
        if plot == html {
            return Err(Failure::usage("--plot and --html need two files"));
        }
        let open = |path: Option<&Path>| path.map(Destination::open).transpose();
        Ok(Some(Pictures { plot: open(plot)?, html: open(html)? }))
    }

    /// Replays, and writes them.
    pub fn draw<'e>(self, limits: Vec<Limit>, events: &'e [Event], filter: &Filter) -> Result<Vec<Replayed<'e>>, Failure> {
        let nothing = || anyhow::Error::msg("no event matches, so there is nothing to draw");
        let stretch = Stretch::of(events, filter.from, filter.to).ok_or_else(nothing).blame(Blame::Data)?;
        let (rows, results) = limits.into_iter().map(|limit| Row::replay(limit, &stretch)).unzip();
        let (from, to) = (to_the_minute(stretch.from), to_the_minute(stretch.to));
        let scene = Scene {
            title: format!("{} events, and what passed", output::count(events.len() as u64)),
            subtitle: format!("{from} to {to} UTC, the catalogue as known today"),
            from: stretch.from,
            to: stretch.to,
            rows,
        };
        self.plot.map_or(Ok(()), |file| file.write(&scene.to_svg()))?;
        self.html.map_or(Ok(()), |file| file.write(&scene.to_html()))?;
        Ok(results)
    }
}

/// `2025-07-29 12:00`.
fn to_the_minute(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%d %H:%M").to_string()
}
