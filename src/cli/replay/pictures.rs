//! `throttler replay --plot --html`: the scene as a picture and as a page.

use crate::catalogue::Filter;
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::output;
use crate::cli::pictures::Pictures;
use crate::event::Event;
use crate::plot::{Row, Scene, Stretch};
use crate::time::Timestamp;

/// Writes the scene of these events, and what is shown of them, its rows made by `rows`; gives what else that found.
pub(super) fn draw<'e, T>(
    pictures: Pictures,
    what: &str,
    events: &'e [Event],
    filter: &Filter,
    rows: impl FnOnce(&Stretch<'e>) -> (Vec<Row>, T),
) -> Result<T, Failure> {
    let nothing = || anyhow::Error::msg("no event matches, so there is nothing to draw");
    let stretch = Stretch::of(events, filter.from, filter.to).ok_or_else(nothing).blame(Blame::Data)?;
    if events.iter().all(|event| event.magnitude.is_none()) {
        eprintln!("note: no event has a magnitude, so that all marks are equally high");
    }
    let (rows, found) = rows(&stretch);
    let (from, to) = (to_the_minute(stretch.from), to_the_minute(stretch.to));
    let scene = Scene {
        title: format!("{} events, and {what}", output::count(events.len() as u64)),
        subtitle: format!("{from} to {to} UTC, each event at its origin time with its last magnitude"),
        from: stretch.from,
        to: stretch.to,
        rows,
    };
    pictures.write(|| scene.to_svg(), || scene.to_html())?;
    Ok(found)
}

/// `2025-07-29 12:00`.
fn to_the_minute(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%d %H:%M").to_string()
}
