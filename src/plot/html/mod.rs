//! The report: a scene in one HTML file that needs nothing else, neither network nor foreign script.
//!
//! Everything that shows data is in the pictures, their `<title>` elements included, so that the report can be read without
//! script: the boxes that switch limiters off are plain CSS. The script only makes the marks easier to hit and adds the
//! keyboard. The page's own policy allows no other script or style than these two, by their hashes, so that a text that
//! slipped through the escaping still could not run.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use svg::node::Text;
use svg::node::element::Group;

use super::canvas::{STYLE, open, plain, rectangle};
use super::scene::{Detail, Scene, axis_at, legend_at, row_at};

const PAGE_STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

impl Scene {
    /// The scene as a page with tooltips and a box for each row that switches it off.
    #[must_use]
    pub fn to_html(&self) -> String {
        let style = format!("\n{STYLE}\n{PAGE_STYLE}{}", self.switches());
        let script = format!("\n{SCRIPT}");
        let (title, subtitle) = (escaped(&self.title), escaped(&self.subtitle));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
            hash(&style),
            hash(&script)
        );
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{style}</style>\n</head>\n<body class=\"plot\">\n<main>\n\
             <h1>{title}</h1>\n<p class=\"sub\">{subtitle}</p>\n{}\n{}\
             <p class=\"hint\">Point at a mark to read about its event; with the keyboard, go to a picture and use the arrow \
             keys, Home and End.</p>\n</main>\n<div id=\"told\" role=\"status\" hidden></div>\n\
             <script>{script}</script>\n</body>\n</html>\n",
            self.boxes(),
            self.figures()
        )
    }

    /// A rule a row that hides it when its box is not checked.
    fn switches(&self) -> String {
        (0..self.rows.len()).fold(String::new(), |mut rules, row| {
            // Writing to a string cannot fail.
            let _ = writeln!(rules, "body:has(#show-{row}:not(:checked)) #row-{row}{{display:none}}");
            rules
        })
    }

    fn boxes(&self) -> String {
        let all = self.rows.iter().enumerate().fold(String::new(), |all, (row, shown)| {
            let name = escaped(&shown.name);
            all + &format!("<label><input type=\"checkbox\" id=\"show-{row}\" checked autocomplete=\"off\"> {name}</label>\n")
        });
        format!("<fieldset>\n<legend>Shown</legend>\n{all}</fieldset>")
    }

    fn figures(&self) -> String {
        let (legend, legend_height) = legend_at(self, 12.0);
        let mut all = picture("Legend", legend_height + 6.0, legend);
        for (index, row) in self.rows.iter().enumerate() {
            let (drawn, height) = row_at(self, row, 0.0, Detail::Report);
            let label = format!("{}: {} of {} passed. {}", row.name, row.passed(), row.decisions.len(), row.promise);
            let _ = writeln!(all, "<figure id=\"row-{index}\">\n{}</figure>", picture(&label, height, drawn));
        }
        let (axis, height) = axis_at(self, 1.0);
        let axis = picture("Time axis, in UTC", height, axis);
        all + &format!("<div class=\"time\">\n{axis}</div>\n")
    }
}

fn picture(label: &str, height: f64, content: Group) -> String {
    let paper = rectangle("paper", 0.0, 0.0, super::canvas::WIDTH, height);
    open(label, height).set("role", "group").add(paper).add(content).to_string() + "\n"
}

/// A text for the content of an element.
fn escaped(text: &str) -> String {
    Text::new(plain(text)).to_string()
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}
