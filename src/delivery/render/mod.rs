//! The words of a message: subject, plain text and HTML of one alert. Pure; the same alert always reads the same.
//!
//! `facts` says what there is to tell; `text` and `html` only lay it out, so that the two parts never differ in content.

mod facts;
mod html;
mod text;

use super::unsubscribe::Unsubscribe;
use crate::alert::Alert;
use crate::plain::one_line;

pub(super) use facts::Facts;
pub(super) use text::lay_out as lines;

/// The longest subject, in characters.
const MAX_SUBJECT_CHARS: usize = 200;

/// One alert in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// One line without control characters.
    pub subject: String,
    /// Lines end in `\n`.
    pub text: String,
    /// A whole document that loads nothing from anywhere.
    pub html: String,
}

/// Puts `alert` into words.
#[must_use]
pub fn render(alert: &Alert, unsubscribe: &Unsubscribe) -> Rendered {
    let facts = Facts::of(alert, &unsubscribe.sentence());
    let subject = one_line(&alert.title(), MAX_SUBJECT_CHARS);
    let page = (!alert.is_notice()).then(|| unsubscribe.url());
    Rendered { subject, text: text::lay_out(&facts), html: html::lay_out(&facts, page.as_deref()) }
}
