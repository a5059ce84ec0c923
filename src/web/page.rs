//! The three pages on which recipients leave: one column, no script, nothing loaded; for any screen, keyboard and colour scheme.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::shell::Markup;
use crate::plot::policy_source;
use crate::time::Timestamp;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:0;padding:24px 16px;font:18px/1.5 system-ui,sans-serif;color:#1c1c1e;background:#fff}\
main{max-width:520px;margin:0 auto}\
h1{font-size:26px;line-height:1.25;margin:0 0 12px}\
b{overflow-wrap:anywhere}\
button{font:inherit;font-weight:600;min-height:48px;padding:8px 24px;border:0;border-radius:8px;color:#fff;background:#0b57b0;cursor:pointer}\
button:focus-visible{outline:3px solid #c77700;outline-offset:3px}\
@media (prefers-color-scheme:dark){body{color:#f2f2f7;background:#121214}button{color:#0a0a0c;background:#7db4ff}}\
@media (max-width:480px){button{width:100%}}";

/// Its own style is the only one that a page has, and its own form all that it can send.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = policy_source(STYLE);
    format!("default-src 'none'; style-src {style}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
});

/// What a page says.
#[derive(Serialize)]
struct Said<'p> {
    title: &'static str,
    style: Markup,
    /// Whose alerts; nobody's where the link is none.
    name: Option<&'p str>,
    /// Since when they have ended.
    since: Option<String>,
}

/// Asks. The form goes to the page's own address, under whatever path a proxy serves it.
pub(super) fn question(name: &str) -> Response {
    page(StatusCode::OK, "Unsubscribe?", Some(name), None)
}

/// Says that it is done, since when.
pub(super) fn done(name: &str, at: Timestamp) -> Response {
    page(StatusCode::OK, "Unsubscribed", Some(name), Some(at))
}

/// Says no more than that the link is none.
pub(super) fn unknown() -> Response {
    page(StatusCode::NOT_FOUND, "This link is not valid", None, None)
}

fn page(status: StatusCode, title: &'static str, name: Option<&str>, since: Option<Timestamp>) -> Response {
    let since = since.map(|at| at.to_utc().format("%Y-%m-%d %H:%M:%S UTC").to_string());
    let said = Said { title, style: Markup::own(STYLE), name, since };
    match Markup::filled("unsubscribe.html", said) {
        Ok(html) => {
            let headers =
                [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY.as_str())];
            (status, headers, html.into_text()).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}
