//! The three pages: one column, no script, nothing loaded; for any screen, keyboard and colour scheme.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

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
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
});

/// Asks. The form goes to the page's own address, under whatever path a proxy serves it.
pub(super) fn question(name: &str) -> Response {
    let name = escape(name);
    let body = format!(
        "<h1>Unsubscribe?</h1>\n<p>Earthquake alerts for <b>{name}</b> end at once, and what waits to be sent to it is dropped.</p>\n\
         <form method=\"post\">\n<input type=\"hidden\" name=\"List-Unsubscribe\" value=\"One-Click\">\n\
         <button type=\"submit\">Unsubscribe</button>\n</form>\n<p>To keep the alerts, close this page.</p>"
    );
    page(StatusCode::OK, "Unsubscribe?", &body)
}

/// Says that it is done, since when.
pub(super) fn done(name: &str, at: Timestamp) -> Response {
    let (name, at) = (escape(name), at.to_utc().format("%Y-%m-%d %H:%M:%S UTC"));
    let body = format!(
        "<h1>Unsubscribed</h1>\n<p>No more earthquake alerts come for <b>{name}</b>, since {at}. A message that was already on its \
         way may still arrive.</p>\n<p>If this was a mistake, write to whoever sent the alerts.</p>"
    );
    page(StatusCode::OK, "Unsubscribed", &body)
}

/// Says no more than that the link is none.
pub(super) fn unknown() -> Response {
    let body =
        "<h1>This link is not valid</h1>\n<p>Take the whole link from the newest message, or write to whoever sent it.</p>";
    page(StatusCode::NOT_FOUND, "This link is not valid", body)
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    );
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY.as_str())];
    (status, headers, html).into_response()
}

/// A subscriber's name holds none of these; a page relies on nobody's word for it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
