//! The small parts of every picture: text, lines, series marks, the style, the finished document. Scales are `axis`.

use svg::node::element::{Group, Path, Rectangle, SVG, Style, Text, Title};

/// The width of every picture, in pixels.
pub(super) const WIDTH: f64 = 1200.0;
/// Where the data begin and end, the same in all pictures, so that axes of time can be compared.
pub(super) const LEFT: f64 = 76.0;
pub(super) const RIGHT: f64 = 1176.0;

/// How wide a picture is, and where its data begin and end across.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paper {
    pub width: f64,
    pub left: f64,
    pub right: f64,
}

impl Paper {
    /// For a desk.
    pub const WIDE: Paper = Paper { width: WIDTH, left: LEFT, right: RIGHT };
    /// For a hand: its texts are still read where the whole width is that of a telephone.
    pub const NARROW: Paper = Paper { width: 380.0, left: 58.0, right: 356.0 };

    /// Whether two texts have no room beside each other.
    pub fn is_narrow(self) -> bool {
        self.width < WIDTH
    }

    /// A frame across the data.
    pub fn frame(self, top: f64, bottom: f64) -> super::frame::Frame {
        super::frame::Frame { left: self.left, top, right: self.right, bottom }
    }
}

/// How many pieces of so many pixels have room between two margins.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a paper has some hundred pixels")]
pub(super) fn pieces(left: f64, right: f64, piece: f64) -> usize {
    ((right - left) / piece) as usize
}

/// How many series have a colour and a mark of their own; further ones begin again.
const SERIES: usize = 8;

/// The colours are Okabe and Ito's, which people with any colour vision tell apart; series also differ in their marks.
/// No custom properties, so that programs other than browsers draw the light picture as well.
pub(super) const STYLE: &str = "\
.plot{color:#1f2328;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:13px}
.plot text{fill:currentColor}
.plot .title{font-size:19px;font-weight:600}
.plot .head{font-size:14px;font-weight:600}
.plot .muted{fill:#59636e}
.plot .small{font-size:12px}
.plot .middle{text-anchor:middle}
.plot .end{text-anchor:end}
.paper{fill:#ffffff}
.grid{stroke:#d9dee3;stroke-width:1;fill:none}
.axis{stroke:#59636e;stroke-width:1;fill:none}
.halo{paint-order:stroke;stroke:#ffffff;stroke-width:4px;stroke-linejoin:round}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.thin{stroke-width:1.4}
.s0{stroke:#0072b2;fill:#0072b2}
.s1{stroke:#d55e00;fill:#d55e00}
.s2{stroke:#009e73;fill:#009e73}
.s3{stroke:#cc79a7;fill:#cc79a7}
.s4{stroke:#e69f00;fill:#e69f00}
.s5{stroke:#56b4e9;fill:#56b4e9}
.s6{stroke:#1f2328;fill:#1f2328}
.s7{stroke:#7d6c00;fill:#7d6c00}
.formula{stroke:#59636e;stroke-width:1.4;stroke-dasharray:5 4}
.again{stroke-dasharray:7 4}
.line,.hollow{fill:none}
.passed{stroke:#0072b2;stroke-width:1.7;fill:none;stroke-linecap:round}
.refused{stroke:#9aa2ab;stroke-width:1.7;fill:none;stroke-linecap:round}
.delayed{stroke:#cc79a7;stroke-width:1.7;fill:none;stroke-linecap:round}
.digested{stroke:#e69f00;stroke-width:1.7;fill:none;stroke-linecap:round}
.band{fill:#d55e00;fill-opacity:.13;stroke:none}
.edge{stroke:#f0812a;stroke-width:2;stroke-dasharray:3 3;fill:none}
.marks .fill{stroke:none;shape-rendering:crispEdges}
.marks .fill.passed{fill:#0072b2}
.marks .fill.refused{fill:#9aa2ab}
.columns path{stroke-linecap:butt;stroke-width:2}
.bracket{stroke:#d55e00;stroke-width:2;fill:none}
.plot .count{fill:#b34e00;font-weight:600}
.level{stroke:#009e73;stroke-width:1.4;fill:none;stroke-linejoin:round}
.capacity{stroke:#009e73;stroke-width:1.2;stroke-dasharray:5 4;fill:none}
.plot .capacity-count{fill:#00694a}
.under{fill:#009e73;fill-opacity:.14;stroke:none}
.water{fill:#f3f7fa;stroke:#d9dee3}
.land path{fill:#e1e3dd;stroke:none}
.spots path{stroke-width:1.2}
.spots .passed{fill:#0072b2;fill-opacity:.3}
.spots .refused{fill:#59636e;stroke:#59636e;fill-opacity:.4}
.spots .delayed{fill:#cc79a7;fill-opacity:.35}
.spots .digested{fill:#e69f00;fill-opacity:.35}
.unmatched{fill:none;stroke:#8a929b;stroke-dasharray:2 2}
@media (prefers-color-scheme:dark){
.plot{color:#e6e9ec}
.plot .muted{fill:#a3adb8}
.paper{fill:#14181c}
.grid{stroke:#2c333a}
.axis{stroke:#8a949e}
.halo{stroke:#14181c}
.s0{stroke:#3d9fe0;fill:#3d9fe0}
.s5{stroke:#9ad4f5;fill:#9ad4f5}
.s6{stroke:#e6e9ec;fill:#e6e9ec}
.s7{stroke:#f0e442;fill:#f0e442}
.formula{stroke:#a3adb8}
.line,.hollow{fill:none}
.passed{stroke:#56b4e9}
.refused{stroke:#75808b}
.band{fill:#f0812a;fill-opacity:.2}
.marks .fill.passed{fill:#56b4e9}
.marks .fill.refused{fill:#75808b}
.bracket{stroke:#f0812a}
.plot .count{fill:#f59a4d}
.level{stroke:#2fc99a}
.capacity{stroke:#2fc99a}
.plot .capacity-count{fill:#4fd6a6}
.under{fill:#2fc99a}
.water{fill:#10161c;stroke:#2c333a}
.land path{fill:#252c31}
.spots .passed{fill:#56b4e9}
.spots .refused{fill:#a3adb8;stroke:#a3adb8}
.unmatched{stroke:#75808b}
}";

/// A text as it may stand in XML and HTML: control characters, which XML forbids, and those that turn the direction of
/// writing, which would garble what follows, become U+FFFD. Escaping is the writer's.
pub(super) fn plain(text: &str) -> String {
    let allowed = |c: char| {
        matches!(c, '\n' | '\t')
            || !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }).collect()
}

/// A coordinate to a tenth of a pixel, in its shortest form.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// How wide a text of 13 px is at most, roughly: fonts differ, and none is measured here.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 7.2
}

/// A text at a point; the classes say how it looks and which end stands there.
pub(super) fn text(class: &str, x: f64, y: f64, content: &str) -> Text {
    Text::new(plain(content)).set("class", class).set("x", px(x)).set("y", px(y))
}

/// A text that runs upwards, centred at a point.
pub(super) fn upright(class: &str, x: f64, y: f64, content: &str) -> Text {
    text(&format!("{class} middle"), 0.0, 0.0, content).set("transform", format!("translate({} {}) rotate(-90)", px(x), px(y)))
}

/// A path of these commands.
pub(super) fn path(class: &str, d: impl Into<String>) -> Path {
    Path::new().set("class", class).set("d", d.into())
}

/// A straight line.
pub(super) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Path {
    path(class, polyline([from, to]))
}

/// A filled box.
pub(super) fn rectangle(class: &str, x: f64, y: f64, width: f64, height: f64) -> Rectangle {
    Rectangle::new()
        .set("class", class)
        .set("x", px(x))
        .set("y", px(y))
        .set("width", px(width.max(0.0)))
        .set("height", px(height.max(0.0)))
}

/// What a pointer that rests on an element shows.
pub(super) fn tooltip(content: &str) -> Title {
    Title::new(plain(content))
}

/// The commands of a line through these points, each told by its distance from the one before, which is shorter.
pub(super) fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let tenths = |value: f64| (value * 10.0).round();
    let mut before: Option<(f64, f64)> = None;
    let command = |point: (f64, f64)| {
        // Whole tenths, so that no rounding error adds up.
        let (x, y) = (tenths(point.0), tenths(point.1));
        let Some((before_x, before_y)) = before.replace((x, y)) else {
            return format!("M{} {}", px(x / 10.0), px(y / 10.0));
        };
        let (dx, dy) = (px((x - before_x) / 10.0), px((y - before_y) / 10.0));
        match (dx.as_str(), dy.as_str()) {
            ("0", _) => format!("v{dy}"),
            (_, "0") => format!("h{dx}"),
            (_, down) if down.starts_with('-') => format!("l{dx}{dy}"),
            _ => format!("l{dx} {dy}"),
        }
    };
    points.into_iter().map(command).collect()
}

/// The class of a series' colour.
pub(super) fn series_class(index: usize) -> String {
    format!("s{}", index % SERIES)
}

/// The class of a series' line: those beyond the colours begin again, and are dashed.
pub(super) fn series_line(index: usize) -> String {
    format!("{} line{}", series_class(index), if index < SERIES { "" } else { " again" })
}

/// The mark of a series: each has its own shape, so that colour is not all that tells them apart.
pub(super) fn series_mark(index: usize, x: f64, y: f64) -> Path {
    let corners: &[(f64, f64)] = match index % SERIES {
        1 => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
        2 => &[(0.0, -5.5), (5.0, 4.0), (-5.0, 4.0)],
        3 => &[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)],
        4 => &[(-5.0, -4.0), (5.0, -4.0), (0.0, 5.5)],
        5 => &[(-5.0, -2.0), (5.0, -2.0), (5.0, 2.0), (-5.0, 2.0)],
        6 => &[(-5.0, -5.0), (5.0, -5.0), (-5.0, 5.0), (5.0, 5.0)],
        7 => &[(-2.0, -5.5), (2.0, -5.5), (2.0, 5.5), (-2.0, 5.5)],
        _ => return path(&series_class(index), disc(x, y, 4.5)),
    };
    let outline = polyline(corners.iter().map(|(dx, dy)| (x + dx, y + dy)));
    path(&series_class(index), outline + "Z")
}

/// The commands of a disc.
pub(super) fn disc(x: f64, y: f64, radius: f64) -> String {
    let (r, d) = (px(radius), px(2.0 * radius));
    format!("M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0", px(x - radius), px(y))
}

/// A text in lines of at most `width` pixels, the first at `y`. Gives the group and the height it takes.
pub(super) fn paragraph(class: &str, (x, y): (f64, f64), width: f64, content: &str) -> (Group, f64) {
    const LINE: f64 = 18.0;
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in content.split_whitespace() {
        if !line.is_empty() && width_of(&line) + width_of(word) + width_of(" ") > width {
            lines.push(std::mem::take(&mut line));
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    lines.push(line);
    let height = LINE * lines.len() as f64;
    let all = lines.iter().enumerate().fold(Group::new(), |all, (n, line)| all.add(text(class, x, y + LINE * n as f64, line)));
    (all, height)
}

/// The entries of a legend beside each other, each drawn by a function that is given the middle of a 22 px wide sample;
/// wraps at the right margin. Gives the group and the height it takes.
pub(super) fn legend(left: f64, top: f64, entries: Vec<(Group, String)>) -> (Group, f64) {
    legend_within((left, WIDTH - 20.0), top, entries)
}

/// The same between two margins.
pub(super) fn legend_within((left, right): (f64, f64), top: f64, entries: Vec<(Group, String)>) -> (Group, f64) {
    const ROW: f64 = 20.0;
    const SAMPLE: f64 = 22.0;
    let (mut x, mut y) = (left, top);
    let mut all = Group::new();
    for (sample, name) in entries {
        let width = SAMPLE + 6.0 + width_of(&name) + 14.0;
        if x > left && x + width > right {
            (x, y) = (left, y + ROW);
        }
        let placed = sample.set("transform", format!("translate({} {})", px(x + SAMPLE / 2.0), px(y)));
        all = all.add(placed).add(text("", x + SAMPLE + 6.0, y + 4.5, &name));
        x += width;
    }
    (all, y - top + ROW)
}

/// What a panel is called, and what is told of it in numbers: beside each other, or below each other where that is too wide. Gives the
/// group and the height that it takes more.
pub(super) fn panel_head(paper: Paper, y: f64, name: &str, counts: &str) -> (Group, f64) {
    let named = Group::new().add(text("head", paper.left, y, name));
    if !paper.is_narrow() {
        return (named.add(text("head end", paper.right, y, counts)), 0.0);
    }
    let (told, height) = paragraph("small", (paper.left, y + 16.0), paper.right - paper.left, counts);
    (named.add(told), height)
}

/// A group moved by so much.
pub(super) fn moved(x: f64, y: f64, content: Group) -> Group {
    content.set("transform", format!("translate({} {})", px(x), px(y)))
}

/// The finished picture. `label` is what a screen reader calls it.
pub(super) fn document(label: &str, height: f64, content: Group) -> String {
    let picture =
        open(label, WIDTH, height).set("role", "img").add(Style::new(STYLE)).add(rectangle("paper", 0.0, 0.0, WIDTH, height));
    picture.add(content).to_string() + "\n"
}

/// The outermost element, which scales with the page it is shown in.
pub(super) fn open(label: &str, width: f64, height: f64) -> SVG {
    SVG::new()
        .set("class", "plot")
        .set("viewBox", format!("0 0 {} {}", px(width), px(height)))
        .set("width", px(width))
        .set("height", px(height))
        .set("aria-label", plain(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let title = tooltip("a</title><script>\"'&\u{0}\u{202e}").to_string();
        assert_eq!(title.replace('\n', ""), "<title>a&lt;/title&gt;&lt;script&gt;\"'&amp;\u{fffd}\u{fffd}</title>");
        let labelled = open("\" onload='x' <&", 10.0, 10.0).to_string();
        assert!(labelled.contains("aria-label=\"&quot; onload=&apos;x&apos; &lt;&amp;\""), "{labelled}");
    }

    #[test]
    fn lines_are_short_and_exact() {
        let line = polyline((0..10_000).map(|n| (f64::from(n) * 0.333, f64::from(n % 7))));
        let step = |step: &str| step.split(['-', ' ']).next().and_then(|dx| dx.parse::<f64>().ok()).expect("a number");
        let end: f64 = line.split(['h', 'l']).skip(1).map(step).sum();
        assert!((end - 3_329.7).abs() < 1e-6, "{end}");
        assert_eq!(polyline([(76.0, 10.04), (80.0, 10.0), (80.0, 4.5), (90.0, 3.0), (90.5, 6.0)]), "M76 10h4v-5.5l10-1.5l0.5 3");
        assert_eq!(polyline([]), "");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([0.0, -0.04, 1.0, 12.34, -3.96].map(px), ["0", "0", "1", "12.3", "-4"]);
    }
}
