//! The report: a sheet in one HTML file that needs nothing else, neither network nor foreign script. Its figures also stand in
//! pages of others, which bring [`figures_style`] and [`FIGURES_SCRIPT`] once for all of them.
//!
//! Everything that shows data is in the pictures, their `<title>` elements included, so that the report can be read without
//! script: the boxes that switch panels and limiters off are plain CSS. The script only makes the marks easier to hit and adds
//! the keyboard. The page's own policy allows no other script or style than these two, by their hashes, so that a text that
//! slipped through the escaping still could not run.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use svg::node::Text;
use svg::node::element::Group;

use super::canvas::{self, STYLE, WIDTH, open, plain, rectangle};
use super::sheet::{Block, Sheet};

const PAGE_STYLE: &str = include_str!("report.css");
const FIGURES_STYLE: &str = include_str!("figures.css");
/// What makes the marks of figures tell about themselves, for pointer and keyboard. The page has an element with the id `told` for it;
/// figures that are added later are taken up when an event `shown` bubbles up from what holds them.
pub const FIGURES_SCRIPT: &str = include_str!("figures.js");

/// The rules that figures need, in light and dark. They give no look to anything else but `svg` and `figure`.
#[must_use]
pub fn figures_style() -> String {
    format!("{STYLE}\n{FIGURES_STYLE}")
}

impl Sheet {
    /// The sheet as a page with tooltips and boxes that switch parts of it off.
    pub fn to_html(&self) -> String {
        let style = format!("\n{}{PAGE_STYLE}{}", figures_style(), self.rules());
        let script = format!("\n{FIGURES_SCRIPT}");
        let (title, subtitle) = (escaped(&self.title), escaped(&self.subtitle));
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
            policy_source(&style),
            policy_source(&script)
        );
        let blocks = self.to_figures();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{style}</style>\n</head>\n<body class=\"plot\">\n<main>\n\
             <h1>{title}</h1>\n<p class=\"sub\">{subtitle}</p>\n{}{blocks}\
             <p class=\"hint\">Point at a mark to read about it; with the keyboard, go to a picture and use the arrow keys, \
             Home and End.</p>\n</main>\n<div id=\"told\" role=\"status\" hidden></div>\n\
             <script>{script}</script>\n</body>\n</html>\n",
            self.boxes(),
        )
    }

    /// The blocks alone, for a page that has a title of its own.
    pub fn to_figures(&self) -> String {
        self.blocks.iter().map(section).collect()
    }

    /// A rule a box that hides what has its class when it is not checked.
    fn rules(&self) -> String {
        let classes = self.switches.iter().flat_map(|switches| &switches.boxes);
        classes.fold(String::new(), |mut rules, (class, _)| {
            // Writing to a string cannot fail.
            let _ = writeln!(rules, "body:has(#show-{class}:not(:checked)) .{class}{{display:none}}");
            rules
        })
    }

    fn boxes(&self) -> String {
        self.switches.iter().fold(String::new(), |all, switches| {
            let boxes = switches.boxes.iter().fold(String::new(), |boxes, (class, name)| {
                let name = escaped(name);
                boxes
                    + &format!(
                        "<label><input type=\"checkbox\" id=\"show-{class}\" checked autocomplete=\"off\"> {name}</label>\n"
                    )
            });
            all + &format!("<fieldset>\n<legend>{}</legend>\n{boxes}</fieldset>\n", escaped(&switches.heading))
        })
    }
}

fn section(block: &Block) -> String {
    let mut all = String::new();
    if !block.heading.is_empty() {
        let _ = writeln!(all, "<h2>{}</h2>", escaped(&block.heading));
    }
    let (legend, height) = canvas::legend_within((block.paper.left, block.paper.width - 20.0), 12.0, block.legend.clone());
    all += &picture("Legend", (block.paper.width, height + 14.0), legend);
    let _ = writeln!(all, "<div class=\"panels of-{}\">", block.columns);
    for panel in &block.panels {
        let drawn = picture(&panel.label, (block.panel_width(), panel.height), panel.content.clone());
        let _ = writeln!(all, "<figure class=\"{}\">\n{drawn}</figure>", panel.class);
    }
    all += "</div>\n";
    if let Some((foot, height)) = &block.foot {
        let _ = write!(
            all,
            "<div class=\"foot\">\n{}</div>\n",
            picture("The axis of all pictures above", (block.paper.width, *height), foot.clone())
        );
    }
    all
}

/// A picture of one piece as a figure.
pub(super) fn figure(label: &str, height: f64, content: Group) -> String {
    format!("<div class=\"panels\">\n<figure>\n{}</figure>\n</div>\n", picture(label, (WIDTH, height), content))
}

fn picture(label: &str, (width, height): (f64, f64), content: Group) -> String {
    let paper = rectangle("paper", 0.0, 0.0, width, height);
    open(label, width, height).set("role", "group").add(paper).add(content).to_string() + "\n"
}

/// A text for the content of an element.
fn escaped(text: &str) -> String {
    Text::new(plain(text)).to_string()
}

/// How a Content-Security-Policy names an inline style or script of this text, and no other.
#[must_use]
pub fn policy_source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}
