//! The sheet: panels below or beside each other under one title, as a picture or, in `html`, as a page. What a panel shows is
//! its maker's business.

use svg::node::element::Group;

use super::canvas::{self, LEFT, Paper, RIGHT, WIDTH, moved, paragraph, text};

/// The most panels of one sheet: what somebody can still look through, and a file that a browser still opens at once.
pub const MAX_PANELS: usize = 24;

/// How much a picture tells besides what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Marks that stand for many events have no tooltips, so that the file stays small.
    Picture,
    /// Every mark has one.
    Report,
}

/// Everything that is laid out.
pub(super) struct Sheet {
    pub title: String,
    /// Below the title, in as many lines as it takes.
    pub subtitle: String,
    pub blocks: Vec<Block>,
    /// What the page lets its reader switch off.
    pub switches: Vec<Switches>,
}

/// Panels that have a legend in common.
pub(super) struct Block {
    pub paper: Paper,
    /// May be empty.
    pub heading: String,
    pub legend: Vec<(Group, String)>,
    /// How many panels stand beside each other.
    pub columns: usize,
    pub panels: Vec<Panel>,
    /// Below the panels, always in view: the axis that they share.
    pub foot: Option<(Group, f64)>,
}

/// A panel, its origin at its upper left corner and as wide as its block's columns are.
pub(super) struct Panel {
    /// The class by which the page switches it off.
    pub class: String,
    /// What a screen reader calls it.
    pub label: String,
    pub content: Group,
    pub height: f64,
}

/// Boxes that switch off what has their class.
pub(super) struct Switches {
    pub heading: String,
    /// Class and name.
    pub boxes: Vec<(String, String)>,
}

impl Block {
    /// The width of each panel.
    pub fn panel_width(&self) -> f64 {
        self.paper.width / self.columns.max(1) as f64
    }
}

/// The width of each of so many panels beside each other.
pub(super) fn width(columns: usize) -> f64 {
    WIDTH / columns.max(1) as f64
}

impl Sheet {
    /// The sheet as an SVG document.
    pub fn to_svg(&self) -> String {
        let (subtitle, height) = paragraph("muted", (LEFT, 56.0), RIGHT - LEFT, &self.subtitle);
        let mut content = Group::new().add(text("title", LEFT, 34.0, &self.title)).add(subtitle);
        let mut y = 64.0 + height;
        for block in &self.blocks {
            let (drawn, height) = block.draw();
            content = content.add(moved(0.0, y, drawn));
            y += height;
        }
        canvas::document(&format!("{}. {}", self.title, self.subtitle), y + 6.0, content)
    }
}

impl Block {
    fn draw(&self) -> (Group, f64) {
        let mut all = Group::new();
        let mut y = 0.0;
        if !self.heading.is_empty() {
            all = all.add(text("title", LEFT, y + 20.0, &self.heading));
            y += 40.0;
        }
        let (legend, height) = canvas::legend(LEFT, y, self.legend.clone());
        all = all.add(legend);
        y += height + 4.0;
        for row in self.panels.chunks(self.columns.max(1)) {
            for (column, panel) in row.iter().enumerate() {
                all = all.add(moved(column as f64 * self.panel_width(), y, panel.content.clone()));
            }
            y += row.iter().map(|panel| panel.height).fold(0.0, f64::max);
        }
        if let Some((foot, height)) = &self.foot {
            all = all.add(moved(0.0, y, foot.clone()));
            y += height;
        }
        (all, y)
    }
}
