//! `throttler replay --plot --html`: the scene as a picture and as a page.

use crate::catalogue::Filter;
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::pictures::Pictures;
use crate::event::Event;
use crate::plot::{Row, Scene, Stretch};

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
    let scene = Scene::of_catalogue(what, &stretch, rows);
    pictures.write(|| scene.to_svg(), || scene.to_html())?;
    Ok(found)
}
