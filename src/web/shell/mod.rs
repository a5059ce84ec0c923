//! The shell of the pages for the operator: one style, one script, the way between pages, and what a page says when it cannot
//! answer. Templates escape every value by themselves; what shall stand as it is must be [`Markup`].
//!
//! A page works without script: its form asks by GET and the whole page comes. With script a form marked `data-live` asks for the same
//! address while its reader types, and only the element `id="result"` is replaced.

use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::{Serialize, Serializer};

use crate::daemon::with_causes;
use crate::plot::{FIGURES_SCRIPT, figures_style, policy_source};
use crate::store::StoreError;

/// The pages, as the way between them shows them: where they are, seen from each other, and what they are called. All are at one level, so
/// that they work under whatever path a proxy serves them.
const TABS: [(Tab, &str, &str); 3] =
    [(Tab::Dashboard, "./", "Dashboard"), (Tab::WhatIf, "what-if", "What if"), (Tab::Laboratory, "laboratory", "Laboratory")];

/// Every template, by its name.
const TEMPLATES: [(&str, &str); 13] = [
    ("shell.html", include_str!("shell.html")),
    ("refusal.html", include_str!("refusal.html")),
    ("fields.html", include_str!("fields.html")),
    ("faults.html", include_str!("faults.html")),
    ("table.html", include_str!("table.html")),
    ("nothing.html", include_str!("nothing.html")),
    ("what_if.html", include_str!("what_if.html")),
    ("what_if_result.html", include_str!("what_if_result.html")),
    ("lossless.html", include_str!("lossless.html")),
    ("laboratory.html", include_str!("laboratory.html")),
    ("laboratory_result.html", include_str!("laboratory_result.html")),
    ("unsubscribe.html", include_str!("../unsubscribe.html")),
    ("dashboard.html", include_str!("../dashboard/dashboard.html")),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // A name that is misspelt is an error, not an empty text.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default());
    for (name, text) in TEMPLATES {
        // A template that cannot be read is missing, and a test reads them all.
        if let Err(fault) = environment.add_template(name, text) {
            tracing::error!("the template {name} cannot be read: {fault}");
        }
    }
    environment
});
static STYLE: LazyLock<String> = LazyLock::new(|| format!("{}{}", figures_style(), include_str!("shell.css")));
static SCRIPT: LazyLock<String> = LazyLock::new(|| format!("{FIGURES_SCRIPT}{}", include_str!("shell.js")));
/// The style and the script by their hashes, and nothing else: markup that slipped through would neither run nor load nor send anything.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
        policy_source(&STYLE),
        policy_source(&SCRIPT)
    )
});

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Dashboard,
    WhatIf,
    Laboratory,
}

/// HTML that is finished, and stands in a template as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markup(String);

impl Markup {
    /// A template filled in.
    pub fn filled(template: &str, values: impl Serialize) -> Result<Markup, Refusal> {
        Ok(Markup(ENVIRONMENT.get_template(template)?.render(Serde(values))?))
    }

    /// A text of the program's own.
    pub fn own(text: &'static str) -> Markup {
        Markup(text.to_owned())
    }

    /// Figures, as the makers of pictures write them: they escape what they are given.
    pub fn drawn(figures: String) -> Markup {
        Markup(figures)
    }

    /// The whole of it, for an answer.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl Serialize for Markup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::from_safe_string(self.0.clone()).serialize(serializer)
    }
}

/// A page around its content.
pub(super) fn page(status: StatusCode, tab: Option<Tab>, title: &str, content: &Markup) -> Result<Response, Refusal> {
    #[derive(Serialize)]
    struct Link {
        href: &'static str,
        name: &'static str,
        current: bool,
    }
    #[derive(Serialize)]
    struct Shell<'p> {
        title: &'p str,
        links: Vec<Link>,
        content: &'p Markup,
        style: Markup,
        script: Markup,
        version: &'static str,
    }
    let links = TABS.map(|(of, href, name)| Link { href, name, current: Some(of) == tab });
    // Not escaped: a style and a script are not text of the page, and the hashes are of them as they are.
    let (style, script) = (Markup(STYLE.clone()), Markup(SCRIPT.clone()));
    let shell = Shell { title, links: links.into(), content, style, script, version: env!("CARGO_PKG_VERSION") };
    let html = Markup::filled("shell.html", shell)?;
    let mut answer = (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html.into_text()).into_response();
    // Base64 and fixed words are visible ASCII.
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(answer)
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// What was asked makes no sense; the text says what was found and what is expected.
    #[error("{0}")]
    Asked(String),
    #[error("too many questions at once: ask again in a moment")]
    Busy,
    #[error("it takes too long: ask about fewer days, or about one subscriber")]
    TooLong,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a template cannot be filled in")]
    Template(#[from] minijinja::Error),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::Asked(_) => StatusCode::BAD_REQUEST,
            Refusal::Store(StoreError::NoSubscriber(_)) => StatusCode::NOT_FOUND,
            Refusal::Busy | Refusal::TooLong | Refusal::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Template(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Refusal {
    /// A page that says why, in the place of the result.
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Said<'r> {
            heading: &'r str,
            why: String,
        }
        let (status, why) = (self.status(), with_causes(&self));
        if matches!(self, Refusal::Template(_)) {
            tracing::error!("{why}");
            return (status, "this page cannot be made: the log tells why\n").into_response();
        }
        if matches!(self, Refusal::Store(_)) {
            tracing::warn!("a page could not be made: {why}");
        }
        let heading = match status {
            StatusCode::BAD_REQUEST => "That cannot be asked",
            StatusCode::NOT_FOUND => "Not there",
            _ => "Not now",
        };
        let said = Markup::filled("refusal.html", Said { heading, why });
        let answer = said.and_then(|content| page(status, None, heading, &content));
        answer.unwrap_or_else(|fault| {
            tracing::error!("{}", with_causes(&fault));
            status.into_response()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_can_be_read() {
        for (name, _) in TEMPLATES {
            ENVIRONMENT.get_template(name).expect(name);
        }
    }

    #[tokio::test]
    async fn what_comes_from_outside_is_escaped_and_the_policy_is_of_what_stands_there() {
        let hostile = "</style><script>alert(1)</script>\"'&".to_owned();
        let answer = Refusal::Asked(hostile).into_response();
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("ASCII").to_owned();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
        let body = String::from_utf8(body.to_vec()).expect("UTF-8");
        assert!(body.contains("&lt;&#x2f;style&gt;&lt;script&gt;alert(1)") && !body.contains("<script>alert"), "{body}");
        for (begin, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
            let inside = body.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).expect(begin).0;
            assert!(policy.contains(&policy_source(inside)), "{begin}: {policy}");
        }
    }
}
