//! A message for an ntfy server, published as JSON: that takes any character, which headers do not. The subscriber's URL is
//! the topic's, as ntfy shows it; JSON is posted to the server itself, with the topic in it.
//!
//! Limit: 4,096 bytes of message, beyond which ntfy makes a file of it (docs.ntfy.sh/publish).

use serde_json::{Value, json};
use url::Url;

use super::fit::blocks;
use super::severity::Severity;
use super::{PresetError, detail_lines, ending_lines, row_lines, unlinked};
use crate::alert::{Alert, Content};
use crate::delivery::render::Facts;
use crate::plain::one_line;

const MAX_MESSAGE_BYTES: usize = 4_096;
/// What is kept of it for the ending.
const MAX_ENDING_BYTES: usize = 1_500;
const MAX_TITLE_CHARS: usize = 200;
/// ntfy's own rule for topics.
const MAX_TOPIC_BYTES: usize = 64;

pub(super) fn of(alert: &Alert, facts: &Facts, topic: &str) -> Value {
    let plain = |lines: Vec<String>| lines.iter().map(|line| unlinked(line)).collect::<Vec<_>>();
    let ending = blocks(&plain(ending_lines(facts)), 1, MAX_ENDING_BYTES, str::len).concat();
    let lines = plain(detail_lines(facts).into_iter().chain(row_lines(facts)).collect());
    let body = blocks(&lines, 1, MAX_MESSAGE_BYTES - ending.len() - 2, str::len).concat();
    let mut message = json!({
        "topic": topic,
        "title": unlinked(&one_line(&facts.title, MAX_TITLE_CHARS)),
        "message": format!("{body}\n\n{ending}"),
        "priority": priority(alert),
    });
    if let Some(link) = &facts.link {
        message["click"] = json!(link);
    }
    message
}

/// Where JSON is posted, and the topic that the URL names.
pub(super) fn place(url: &Url) -> Result<(Url, String), PresetError> {
    let mut segments = url.path_segments().ok_or(PresetError::Topic)?;
    let topic = segments.next().unwrap_or_default().to_owned();
    let plain = topic.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if !plain || !(1..=MAX_TOPIC_BYTES).contains(&topic.len()) || segments.any(|more| !more.is_empty()) {
        return Err(PresetError::Topic);
    }
    let mut server = url.clone();
    server.set_path("/");
    Ok((server, topic))
}

/// From 1 to 5, 3 being usual.
fn priority(alert: &Alert) -> u8 {
    if matches!(alert.content, Content::Digest(_)) {
        return 2;
    }
    match Severity::of_alert(alert) {
        Severity::Extreme => 5,
        Severity::Severe => 4,
        Severity::Moderate | Severity::Minor | Severity::Unknown => 3,
    }
}
