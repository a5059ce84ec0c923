//! A message for Discord's webhooks: one embed, in which nobody can be mentioned.
//!
//! Limits: 2,000 characters of content (there is none), 256 in an embed's title, 4,096 in its description, 2,048 in its
//! footer, 6,000 in all embeds together, 10 embeds (discord.com/developers/docs/resources/message).

use serde_json::{Value, json};

use super::fit::{blocks, units};
use super::severity::Severity;
use super::{detail_lines, ending_lines, row_lines};
use crate::alert::Alert;
use crate::delivery::render::Facts;
use crate::plain::one_line;
use crate::time::Timestamp;

/// The longest title before escaping, which makes at most two characters of one; two of those that take two units.
const MAX_TITLE_CHARS: usize = 128;
const MAX_DESCRIPTION: usize = 4_096;
/// With title and description it is below 6,000.
const MAX_FOOTER: usize = 1_600;

pub(super) fn of(alert: &Alert, facts: &Facts) -> Value {
    let lines: Vec<String> = detail_lines(facts).into_iter().chain(row_lines(facts)).map(|line| escape(&line)).collect();
    let mut embed = json!({
        "title": escape(&one_line(&facts.title, MAX_TITLE_CHARS)),
        "description": blocks(&lines, 1, MAX_DESCRIPTION, units).concat(),
        "color": colour(Severity::of_alert(alert)),
        "timestamp": rfc3339(alert.created_at),
        // Discord reads no markup in a footer.
        "footer": { "text": blocks(&ending_lines(facts), 1, MAX_FOOTER, units).concat() },
    });
    if let Some(link) = &facts.link {
        embed["url"] = json!(link);
    }
    json!({ "embeds": [embed], "allowed_mentions": { "parse": [] } })
}

fn colour(severity: Severity) -> u32 {
    match severity {
        Severity::Unknown => 0x80_80_80,
        Severity::Minor => 0x2e_8b_57,
        Severity::Moderate => 0xe0_b4_00,
        Severity::Severe => 0xe0_6c_00,
        Severity::Extreme => 0xc0_10_20,
    }
}

fn rfc3339(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Text that makes no mention, link, list, quote or other markup: a backslash takes the meaning from any of these.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if "\\*_~`|<>#[]()@:".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
