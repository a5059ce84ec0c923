//! Who may see the pages for the operator, and the metrics: whoever is on this machine, or whoever has the token. What is for recipients
//! and for whoever watches health asks nobody.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use super::Web;
use crate::time::Span;

/// The shortest and the longest token, in bytes.
const MIN_TOKEN_BYTES: usize = 16;
const MAX_TOKEN_BYTES: usize = 512;
/// How long a wrong token waits for its answer. With the listener's connections this bounds how many can be tried.
const WRONG_TOKEN_PAUSE: Span = Span::from_millis(500);
/// What a proxy adds to requests of others.
const OF_PROXIES: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/// Who may.
#[derive(Clone, Debug)]
pub struct Access(Rule);

#[derive(Clone, Debug)]
enum Rule {
    /// Whoever asks this machine by a name of its own.
    Local,
    /// Whoever has it.
    Token(Token),
    /// Nobody: other machines reach the listener, and there is no token.
    Nobody,
}

/// The secret that opens the pages, as its digest.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Why a text is no token. The message does not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a token of {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} visible ASCII characters")]
pub struct TokenError;

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        let fits = (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(Token(digest(text))) } else { Err(TokenError) }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Whether it is this one, in a time that does not depend on where they differ.
    fn is(&self, text: &str) -> bool {
        self.0.iter().zip(digest(text)).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

impl Access {
    /// For a listener at this address.
    #[must_use]
    pub fn new(listen: SocketAddr, token: Option<Token>) -> Access {
        Access(match token {
            Some(token) => Rule::Token(token),
            None if listen.ip().is_loopback() => Rule::Local,
            None => Rule::Nobody,
        })
    }

    /// In words: who sees the pages.
    #[must_use]
    pub fn told(&self) -> &'static str {
        match self.0 {
            Rule::Local => "pages for this machine",
            Rule::Token(_) => "pages for whoever has the token",
            Rule::Nobody => "no pages without a token",
        }
    }
}

/// Lets those through who may.
pub(super) async fn guard(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    match &web.access.0 {
        Rule::Local => match told_from_elsewhere(headers) {
            None => next.run(request).await,
            Some(why) => (StatusCode::FORBIDDEN, format!("{why}; {WANTED}\n")).into_response(),
        },
        Rule::Token(token) => match shown(headers) {
            Some(text) if token.is(&text) => next.run(request).await,
            Some(_) => {
                sleep(WRONG_TOKEN_PAUSE.to_std()).await;
                unauthorized("this is not the token of this daemon")
            }
            None => unauthorized("this needs the token of this daemon: as a password, or as a bearer token"),
        },
        Rule::Nobody => (StatusCode::FORBIDDEN, format!("other machines reach this address; {WANTED}\n")).into_response(),
    }
}

const WANTED: &str =
    "without a token (web.token_file) this page is only for requests from the same machine to a loopback address";

fn unauthorized(why: &str) -> Response {
    let asks = [(header::WWW_AUTHENTICATE, "Basic realm=\"throttler\", charset=\"UTF-8\"")];
    (StatusCode::UNAUTHORIZED, asks, format!("{why}\n")).into_response()
}

/// Why a request is not one of this machine's own, if it is not: a page of somebody else's whose name was made to lead here names that name,
/// and a proxy asks on behalf of others.
fn told_from_elsewhere(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_loopback(host) {
        let host: String = host.chars().take(100).collect();
        return Some(format!("'{host}' is not a name of this machine's own, like localhost"));
    }
    let proxy = OF_PROXIES.into_iter().find(|name| headers.contains_key(HeaderName::from_static(name)));
    proxy.map(|name| format!("a proxy passed this on ({name})"))
}

/// Whether `host:port` is a name or an address of loopback.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let (name, port) = host.split_once(':').unwrap_or((host, "80"));
    name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok()
}

/// The token that a request shows: as a bearer, or as the password of whatever user.
fn shown(headers: &HeaderMap) -> Option<String> {
    let (scheme, value) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.to_owned());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value).ok())??;
    Some(String::from_utf8(pair).ok()?.split_once(':')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_of_this_machine_or_not() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("127.0.0.1", true),
            ("127.1.2.3:8080", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("", false),
            ("test", false),
            ("example.org", false),
            ("localhost.example.org", false),
            ("127.0.0.1.example.org", false),
            ("localhost:x", false),
            ("localhost@example.org", false),
            ("0.0.0.0", false),
            ("10.0.0.1:8080", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }

    #[test]
    fn a_token_has_a_length_and_no_spaces() {
        let is_token = |text: &str| text.parse::<Token>().is_ok();
        assert!(is_token("0123456789abcdef") && is_token(&"x".repeat(MAX_TOKEN_BYTES)));
        for text in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdéf", &"x".repeat(MAX_TOKEN_BYTES + 1)] {
            assert!(!is_token(text), "{text}");
        }
        let token: Token = "0123456789abcdef".parse().expect("a token");
        assert!(token.is("0123456789abcdef") && !token.is("0123456789abcdeg") && !token.is(""));
        assert!(!format!("{token:?}").contains("0123"));
    }
}
