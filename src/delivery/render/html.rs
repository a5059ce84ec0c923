//! The HTML part: one column that fits a phone, the reader's own light or dark colours, nothing loaded from anywhere.

use std::borrow::Cow;
use std::fmt::Write;

use super::facts::{Facts, Row};

/// Colours that read on white and on black, for programs that darken by themselves.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:0;padding:16px;font:16px/1.45 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;color:#1c1c1e;background:#fff}\
main{max-width:600px;margin:0 auto}\
h1{font-size:22px;line-height:1.25;margin:0 0 12px;overflow-wrap:anywhere}\
.note{border-left:4px solid #c77700;padding:4px 12px;margin:0 0 16px}\
table{border-collapse:collapse;width:100%;margin:0 0 16px}\
th,td{text-align:left;vertical-align:top;padding:5px 8px 5px 0;border-bottom:1px solid #8886;overflow-wrap:anywhere}\
th{font-weight:600;white-space:nowrap}\
.m{font-weight:600;white-space:nowrap}\
.t{white-space:nowrap;font-size:14px}\
a{color:#0b62c4}\
footer{font-size:14px;color:#57575c;border-top:2px solid #8886;padding-top:8px}\
footer p{margin:6px 0;overflow-wrap:anywhere}\
@media (prefers-color-scheme:dark){body{color:#f2f2f7;background:#121214}a{color:#7db4ff}footer{color:#a8a8ae}}\
@media (max-width:480px){.t{white-space:normal}}";

/// The facts as a document; `unsubscribe_url` is behind the last sentence, where there is one.
pub(super) fn lay_out(facts: &Facts, unsubscribe_url: Option<&str>) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = write(&mut out, facts, unsubscribe_url);
    out
}

fn write(out: &mut String, facts: &Facts, unsubscribe_url: Option<&str>) -> std::fmt::Result {
    let title = escape(&facts.title);
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
    writeln!(out, "<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>")?;
    if let Some(note) = &facts.note {
        writeln!(out, "<p class=\"note\">{}</p>", escape(note))?;
    }
    writeln!(out, "<table>")?;
    for (label, value) in &facts.details {
        writeln!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(label), escape(value))?;
    }
    writeln!(out, "</table>")?;
    if let Some(link) = &facts.link {
        writeln!(out, "<p><a href=\"{0}\">Details: {0}</a></p>", escape(link))?;
    }
    if !facts.rows.is_empty() {
        rows(out, &facts.rows)?;
    }
    writeln!(out, "<footer>")?;
    let last = facts.ending.len() - 1;
    for (at, (label, value)) in facts.ending.iter().enumerate() {
        let (label, value) = (escape(label), escape(value));
        match unsubscribe_url.filter(|_| at == last) {
            Some(url) => writeln!(out, "<p><b>{label}:</b> <a href=\"{}\">{value}</a></p>", escape(url))?,
            None => writeln!(out, "<p><b>{label}:</b> {value}</p>")?,
        }
    }
    writeln!(out, "</footer>\n</main>\n</body>\n</html>")
}

fn rows(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    writeln!(out, "<table>\n<tr><th scope=\"col\">M</th><th scope=\"col\">Time</th><th scope=\"col\">Place</th></tr>")?;
    for row in rows {
        let place = escape(&row.place);
        let place = match &row.link {
            Some(link) => Cow::Owned(format!("<a href=\"{}\">{place}</a>", escape(link))),
            None => place,
        };
        let (magnitude, origin) = (escape(&row.magnitude), escape(&row.origin));
        writeln!(out, "<tr><td class=\"m\">{magnitude}</td><td class=\"t\">{origin}</td><td>{place}</td></tr>")?;
    }
    writeln!(out, "</table>")
}

/// Text as text, in an element or a quoted attribute.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}
