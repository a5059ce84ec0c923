//! The dashboard: how things stand and what happened in the last days.

use axum::http::StatusCode;
use axum::response::Response;

use super::shell::{Markup, Refusal, Tab, page};

pub(super) async fn show() -> Result<Response, Refusal> {
    page(StatusCode::OK, Some(Tab::Dashboard), "Dashboard", &Markup::default())
}
