//! `/unsubscribe/TOKEN`: a page that asks, since programs that look at links for their reader follow them; and a POST that does it.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::form::is_one_click;
use super::{Web, page, unavailable};
use crate::daemon::with_causes;
use crate::delivery::UnsubscribeKey;
use crate::store::StoreError;
use crate::subscriber::Enrolment;
use crate::time::Timestamp;

/// The longest body of a request, in bytes: one short field, in either encoding.
const MAX_BODY_BYTES: usize = 4_096;

/// The page with the button. It changes nothing.
pub(super) async fn ask(State(web): State<Arc<Web>>, Path(token): Path<String>) -> Response {
    let found = match web.who(&token).await {
        Ok(Some(who)) => web.database.with(move |store| store.visitor(who)).await,
        Ok(None) => Ok(None),
        Err(fault) => Err(fault),
    };
    match found {
        Ok(Some(visitor)) => match visitor.unsubscribed_at {
            None => page::question(&visitor.name),
            Some(at) => page::done(&visitor.name, at),
        },
        Ok(None) => page::unknown(),
        Err(fault) => failed(&fault),
    }
}

/// Does it, at once.
pub(super) async fn leave(State(web): State<Arc<Web>>, Path(token): Path<String>, headers: HeaderMap, body: Body) -> Response {
    let who = match web.who(&token).await {
        Ok(Some(who)) => who,
        Ok(None) => return page::unknown(),
        Err(fault) => return failed(&fault),
    };
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "expected the body List-Unsubscribe=One-Click\n").into_response();
    };
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_one_click(content_type, &body) {
        return (StatusCode::BAD_REQUEST, "expected a form with List-Unsubscribe=One-Click\n").into_response();
    }
    let now = web.clock.now();
    match web.database.with(move |store| store.unsubscribe(who, now)).await {
        Ok(Some(done)) => {
            if done.now {
                tracing::info!(subscriber = done.name, dropped = done.dropped, "unsubscribed by its recipient");
            }
            page::done(&done.name, done.at)
        }
        Ok(None) => page::unknown(),
        Err(fault) => failed(&fault),
    }
}

impl Web {
    /// Whose link it is; `None` for every other text, a removed subscriber's among them.
    async fn who(&self, token: &str) -> Result<Option<Enrolment>, StoreError> {
        let Some(number) = UnsubscribeKey::claimed_number(token) else { return Ok(None) };
        let found = self.database.with(move |store| store.enrolment(number)).await?;
        // Of a number that nobody has, something is verified as well, so that the time tells nothing.
        let who = found.unwrap_or(Enrolment { number, at: Timestamp::saturating_from_ticks(0) });
        let verified = self.key.verifies(token, who);
        Ok(found.filter(|_| verified))
    }
}

fn failed(fault: &StoreError) -> Response {
    tracing::error!("nobody can unsubscribe until this is mended: {}", with_causes(fault));
    unavailable()
}
