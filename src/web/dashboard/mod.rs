//! The dashboard: how things stand, and what happened in the last days, to whom. `ask` is what it was asked, `read` what the database
//! says to that, `pictures` draws it, `view` puts it into words for the template. It changes nothing.

mod ask;
mod pictures;
mod read;
mod view;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use self::ask::Ask;
use super::Web;
use super::query::Query;
use super::shell::{Markup, Refusal, Tab, page};

pub(super) async fn show(State(web): State<Arc<Web>>, address: Uri) -> Result<Response, Refusal> {
    let now = web.clock.now();
    let ask = Ask::of(&Query::of(&address), now)?;
    let found = read::all(&web, &ask).await?;
    let content = web.work.compute(move || Markup::filled("dashboard.html", view::of(ask, &found, now))).await??;
    page(StatusCode::OK, Some(Tab::Dashboard), "Dashboard", &content)
}
