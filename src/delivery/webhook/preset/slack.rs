//! A message for Slack's incoming webhooks: blocks of plain text, which Slack reads no markup in, and one link.
//!
//! Limits: 3,000 characters in a text, 150 in a header, 50 blocks (api.slack.com/reference/block-kit/blocks).

use serde_json::{Value, json};

use super::fit::{blocks, units};
use super::{detail_lines, ending_lines, row_lines, unlinked};
use crate::delivery::render::Facts;

/// The longest text of a section or a context.
const MAX_TEXT: usize = 3_000;
/// The longest title that is a header, before escaping, which makes up to five characters of one.
const MAX_TITLE_CHARS: usize = 140;
/// Sections of details and of a digest's events; with the header, the link and the ending they stay far below 50 blocks.
const MAX_DETAIL_SECTIONS: usize = 10;
const MAX_ROW_SECTIONS: usize = 30;

pub(super) fn of(facts: &Facts) -> Value {
    let title = escape(&facts.title);
    let header = if units(&title) <= MAX_TITLE_CHARS { "header" } else { "section" };
    let mut shown = vec![json!({ "type": header, "text": plain(&title) })];
    let escaped = |lines: Vec<String>| lines.iter().map(|line| escape(line)).collect::<Vec<_>>();
    let section = |text: String| json!({ "type": "section", "text": plain(&text) });
    shown.extend(blocks(&escaped(detail_lines(facts)), MAX_DETAIL_SECTIONS, MAX_TEXT, units).into_iter().map(section));
    shown.extend(blocks(&escaped(row_lines(facts)), MAX_ROW_SECTIONS, MAX_TEXT, units).into_iter().map(section));
    if let Some(link) = &facts.link {
        // A bar would end the address; the parser of URLs leaves it in a query.
        let link = escape_control(link).replace('|', "%7C");
        shown.push(
            json!({ "type": "section", "text": { "type": "mrkdwn", "text": format!("<{link}|Details>"), "verbatim": true } }),
        );
    }
    let ending = blocks(&escaped(ending_lines(facts)), 1, MAX_TEXT, units);
    shown.extend(ending.into_iter().map(|text| json!({ "type": "context", "elements": [plain(&text)] })));
    json!({ "text": title, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false, "blocks": shown })
}

fn plain(text: &str) -> Value {
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

/// Text that makes no mention, link or entity.
fn escape(text: &str) -> String {
    escape_control(&unlinked(text))
}

/// The three characters that Slack reads in any text.
fn escape_control(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
