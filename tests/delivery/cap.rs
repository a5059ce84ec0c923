//! CAP messages against the rules of the standard's schema (OASIS Common Alerting Protocol 1.2, section 3.2 and 3.4), which
//! are written out here as tables: each element's place in its sequence, how often it may stand there, and what it holds.

use quick_xml::Reader;
use quick_xml::events::Event as Xml;
use throttler::alert::{Alert, Content};
use throttler::subscriber::Preset;

use crate::alerts::{
    at, digest_alert, event_alert, every_kind, first as first_of, hostile_alert, late_alert, longest_digest, small, update_alert,
    withdrawal_alert,
};
use crate::webhook::{now, post_as, secret};

/// What an element holds.
#[derive(Clone, Copy)]
enum Holds {
    Text,
    /// No spaces, commas, `<` or `&`.
    Name,
    /// The schema's pattern for times.
    Time,
    Word(&'static [&'static str]),
    Uri,
    /// `sender,identifier,sent` with spaces between.
    References,
    /// `latitude,longitude radius`, the radius in km.
    Circle,
    Elements(&'static [Rule]),
}

/// An element: how often it may stand, and what it holds.
type Rule = (&'static str, std::ops::RangeInclusive<usize>, Holds);

const MANY: usize = usize::MAX;

const ALERT: &[Rule] = &[
    ("identifier", 1..=1, Holds::Name),
    ("sender", 1..=1, Holds::Name),
    ("sent", 1..=1, Holds::Time),
    ("status", 1..=1, Holds::Word(&["Actual", "Exercise", "System", "Test", "Draft"])),
    ("msgType", 1..=1, Holds::Word(&["Alert", "Update", "Cancel", "Ack", "Error"])),
    ("source", 0..=1, Holds::Text),
    ("scope", 1..=1, Holds::Word(&["Public", "Restricted", "Private"])),
    ("restriction", 0..=1, Holds::Text),
    ("addresses", 0..=1, Holds::Text),
    ("code", 0..=MANY, Holds::Text),
    ("note", 0..=1, Holds::Text),
    ("references", 0..=1, Holds::References),
    ("incidents", 0..=1, Holds::Text),
    ("info", 0..=MANY, Holds::Elements(INFO)),
];

const INFO: &[Rule] = &[
    ("language", 0..=1, Holds::Name),
    (
        "category",
        1..=MANY,
        Holds::Word(&[
            "Geo",
            "Met",
            "Safety",
            "Security",
            "Rescue",
            "Fire",
            "Health",
            "Env",
            "Transport",
            "Infra",
            "CBRNE",
            "Other",
        ]),
    ),
    ("event", 1..=1, Holds::Text),
    (
        "responseType",
        0..=MANY,
        Holds::Word(&["Shelter", "Evacuate", "Prepare", "Execute", "Avoid", "Monitor", "Assess", "AllClear", "None"]),
    ),
    ("urgency", 1..=1, Holds::Word(&["Immediate", "Expected", "Future", "Past", "Unknown"])),
    ("severity", 1..=1, Holds::Word(&["Extreme", "Severe", "Moderate", "Minor", "Unknown"])),
    ("certainty", 1..=1, Holds::Word(&["Observed", "Likely", "Possible", "Unlikely", "Unknown"])),
    ("audience", 0..=1, Holds::Text),
    ("eventCode", 0..=MANY, Holds::Elements(PAIR)),
    ("effective", 0..=1, Holds::Time),
    ("onset", 0..=1, Holds::Time),
    ("expires", 0..=1, Holds::Time),
    ("senderName", 0..=1, Holds::Text),
    ("headline", 0..=1, Holds::Text),
    ("description", 0..=1, Holds::Text),
    ("instruction", 0..=1, Holds::Text),
    ("web", 0..=1, Holds::Uri),
    ("contact", 0..=1, Holds::Text),
    ("parameter", 0..=MANY, Holds::Elements(PAIR)),
    // Resources are not sent.
    ("area", 0..=MANY, Holds::Elements(AREA)),
];

const PAIR: &[Rule] = &[("valueName", 1..=1, Holds::Text), ("value", 1..=1, Holds::Text)];

const AREA: &[Rule] = &[
    ("areaDesc", 1..=1, Holds::Text),
    ("polygon", 0..=MANY, Holds::Text),
    ("circle", 0..=MANY, Holds::Circle),
    ("geocode", 0..=MANY, Holds::Elements(PAIR)),
    ("altitude", 0..=1, Holds::Text),
    ("ceiling", 0..=1, Holds::Text),
];

/// An element as read back.
#[derive(Debug, Default)]
struct Node {
    name: String,
    text: String,
    children: Vec<Node>,
}

impl Node {
    fn all(&self, name: &str) -> Vec<&Node> {
        self.children.iter().filter(|child| child.name == name).collect()
    }

    /// The text at this path.
    fn at(&self, path: &str) -> &str {
        let found =
            path.split('/').fold(self, |node, name| node.all(name).into_iter().next().unwrap_or_else(|| panic!("no {name}")));
        &found.text
    }
}

/// Reads a document of elements without attributes, but for the namespace at the root.
fn read(document: &str) -> Node {
    let mut reader = Reader::from_str(document);
    let mut open = vec![Node::default()];
    loop {
        match reader.read_event().expect("well-formed XML") {
            Xml::Decl(decl) => assert_eq!(decl.encoding().expect("an encoding").expect("UTF-8").as_ref(), "UTF-8"),
            Xml::Start(start) => {
                let attributes: Vec<String> =
                    start.attributes().map(|a| format!("{:?}", a.expect("an attribute").value)).collect();
                assert_eq!(attributes.len(), usize::from(open.len() == 1), "only the root has an attribute");
                assert!(attributes.iter().all(|value| value.contains("urn:oasis:names:tc:emergency:cap:1.2")), "{attributes:?}");
                open.push(Node { name: start.name().as_ref().to_owned(), ..Node::default() });
            }
            Xml::End(_) => {
                let closed = open.pop().expect("an open element");
                open.last_mut().expect("its parent").children.push(closed);
            }
            Xml::Text(text) => open.last_mut().expect("an element").text.push_str(&text),
            Xml::GeneralRef(reference) => {
                let c = match &*reference {
                    "amp" => '&',
                    "lt" => '<',
                    "gt" => '>',
                    "quot" => '"',
                    "apos" => '\'',
                    other => panic!("&{other}; is not one of XML's own"),
                };
                open.last_mut().expect("an element").text.push(c);
            }
            Xml::Eof => break,
            other => panic!("{other:?} has no place in it"),
        }
    }
    let mut outside = open.pop().expect("the document");
    assert_eq!((open.len(), outside.children.len()), (0, 1));
    outside.children.remove(0)
}

/// What breaks a rule, if anything does.
fn fault(node: &Node, rules: &[Rule]) -> Option<String> {
    if !node.text.trim().is_empty() {
        return Some(format!("text in {}", node.name));
    }
    let mut rest = node.children.as_slice();
    for (name, often, holds) in rules {
        let (these, behind) = rest.split_at(rest.iter().take_while(|child| child.name == *name).count());
        if !often.contains(&these.len()) {
            return Some(format!("{} {name} in {}", these.len(), node.name));
        }
        if let Some(fault) = these.iter().find_map(|child| wrong_content(child, *holds)) {
            return Some(fault);
        }
        rest = behind;
    }
    rest.first().map(|child| format!("{} out of its place in {}", child.name, node.name))
}

fn wrong_content(node: &Node, holds: Holds) -> Option<String> {
    let text = node.text.as_str();
    let name = |text: &str| !text.is_empty() && !text.contains([' ', ',', '<', '&', '\n']);
    let right = match holds {
        Holds::Elements(rules) => return fault(node, rules),
        Holds::Text => !text.trim().is_empty(),
        Holds::Name => name(text),
        Holds::Time => is_time(text),
        Holds::Word(words) => words.contains(&text),
        Holds::Uri => text.parse::<url::Url>().is_ok(),
        Holds::References => text.split(' ').all(|one| {
            let parts: Vec<&str> = one.split(',').collect();
            parts.len() == 3 && name(parts[0]) && name(parts[1]) && is_time(parts[2])
        }),
        Holds::Circle => is_circle(text),
    };
    let alone = node.children.is_empty();
    (!right || !alone).then(|| format!("'{text}' in {}", node.name))
}

/// `\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[-,+]\d\d:\d\d`: neither fractions nor `Z`.
fn is_time(text: &str) -> bool {
    let form: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    ["0000-00-00T00:00:00-00:00", "0000-00-00T00:00:00+00:00"].contains(&form.as_str())
}

fn is_circle(text: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let parts = || {
        let (centre, radius) = text.split_once(' ')?;
        let (latitude, longitude) = centre.split_once(',')?;
        Some((number(latitude)?, number(longitude)?, number(radius)?))
    };
    parts().is_some_and(|(latitude, longitude, radius)| latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && radius >= 0.0)
}

async fn document(alert: &Alert) -> String {
    let request = post_as(&Preset::Cap, "cap", &[secret()], alert, now()).await;
    String::from_utf8(request.body.to_vec()).expect("UTF-8")
}

async fn valid(alert: &Alert) -> Node {
    let document = document(alert).await;
    let node = read(&document);
    assert_eq!(node.name, "alert");
    assert_eq!(fault(&node, ALERT), None, "{document}");
    node
}

#[tokio::test]
async fn each_kind_reads_as_agreed_and_keeps_the_standard() {
    for (kind, alert) in every_kind() {
        insta::assert_snapshot!(format!("cap_{kind}"), document(&alert).await);
        let node = valid(&alert).await;
        let status = if matches!(alert.content, Content::Exercise(_)) { "Exercise" } else { "Actual" };
        assert_eq!(
            (node.at("status"), node.at("identifier"), node.at("sender")),
            (status, alert.id.as_str(), "alerts@example.org")
        );
    }
    let of =
        |node: Node| [node.at("msgType").to_owned(), node.all("references").first().map_or("", |node| &node.text).to_owned()];
    let first = "alerts@example.org,alert-us6000qw60-anna,2025-07-29T23:30:00-00:00";
    assert_eq!(of(valid(&update_alert()).await), ["Update", first]);
    assert_eq!(of(valid(&withdrawal_alert()).await), ["Cancel", first]);
    // Nothing takes the place of a digest: its other events stand.
    let (mut update, mut withdrawal) = (update_alert(), withdrawal_alert());
    if let (Content::Update(update), Content::Withdrawal { of, .. }) = (&mut update.content, &mut withdrawal.content) {
        (update.of, *of) = (first_of(&digest_alert()), first_of(&digest_alert()));
    }
    assert_eq!(of(valid(&update).await), ["Alert", ""]);
    assert_eq!(of(valid(&withdrawal).await), ["Alert", ""]);
    let areas = valid(&longest_digest()).await.all("info")[0].all("area").len();
    assert_eq!(areas, 50);
}

/// The rules above are written out from the standard; this asks the schema itself, which is OASIS's and not kept here.
#[tokio::test]
async fn the_standard_s_own_schema_accepts_each_kind() {
    let Some(schema) = std::env::var_os("CAP_SCHEMA") else {
        println!("skipped: $CAP_SCHEMA names no CAP-v1.2.xsd to ask xmllint with");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let hostile = Alert { id: "a,b<c>&d".into(), ..hostile_alert() };
    let more = [("hostile", hostile), ("longest", longest_digest())];
    for (kind, alert) in every_kind().into_iter().chain(more) {
        let file = directory.path().join(kind);
        std::fs::write(&file, document(&alert).await).expect("a file");
        let xmllint = std::process::Command::new("xmllint").arg("--noout").arg("--schema").arg(&schema).arg(&file).output();
        let said = xmllint.expect("xmllint, of Debian's libxml2-utils");
        assert!(said.status.success(), "{kind}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

#[tokio::test]
async fn hostile_texts_stay_texts() {
    let mut alert = hostile_alert();
    alert.id = "a,b<c>&d".into();
    let node = valid(&alert).await;
    assert_eq!(node.at("identifier"), "a%2Cb%3Cc%3E%26d");
    assert!(node.at("info/headline").contains("</td><script>alert('x')</script> Bcc: eve@example.org"), "{node:?}");
    assert!(node.at("info/area/areaDesc").ends_with("\"Ōfunato\" & Пётр"), "{node:?}");
    assert!(node.at("note").contains("anna\"><script> Bcc: eve@example.org"), "{node:?}");
}

#[tokio::test]
async fn urgency_severity_and_certainty_follow_the_stated_rules() {
    let of = |magnitude: f64, pager: Option<&str>, status: &str| {
        let mut event = small("us1", magnitude, "2025-07-29T23:24:00Z", "somewhere");
        event.pager = pager.map(|level| level.parse().expect("a level"));
        event.status = status.into();
        Alert { content: Content::Event { event: std::sync::Arc::new(event), late: false, unconfirmed: false }, ..event_alert() }
    };
    for (alert, words) in [
        (of(8.0, None, "reviewed"), ["Immediate", "Extreme", "Observed"]),
        (of(7.99, None, "automatic"), ["Immediate", "Severe", "Likely"]),
        (of(6.0, None, "manual"), ["Immediate", "Moderate", "Unknown"]),
        (of(5.99, None, "automatic"), ["Immediate", "Minor", "Likely"]),
        (of(8.0, Some("green"), "automatic"), ["Immediate", "Minor", "Likely"]),
        (of(5.0, Some("yellow"), "automatic"), ["Immediate", "Moderate", "Likely"]),
        (of(5.0, Some("orange"), "automatic"), ["Immediate", "Severe", "Likely"]),
        (of(5.0, Some("red"), "automatic"), ["Immediate", "Extreme", "Likely"]),
        (late_alert(), ["Past", "Extreme", "Observed"]),
        (update_alert(), ["Immediate", "Extreme", "Observed"]),
        (withdrawal_alert(), ["Past", "Unknown", "Unlikely"]),
        (digest_alert(), ["Past", "Extreme", "Observed"]),
    ] {
        let node = valid(&alert).await;
        assert_eq!(["urgency", "severity", "certainty"].map(|name| node.at(&format!("info/{name}")).to_owned()), words);
    }
    let mut unconfirmed = of(8.0, None, "automatic");
    if let Content::Event { unconfirmed, .. } = &mut unconfirmed.content {
        *unconfirmed = true;
    }
    assert_eq!(valid(&unconfirmed).await.at("info/certainty"), "Possible");
    let mut unknown = of(5.0, None, "automatic");
    unknown.created_at = at("2025-07-29T23:30:00.999Z");
    if let Content::Event { event, .. } = &mut unknown.content {
        let event = std::sync::Arc::make_mut(event);
        event.magnitude = None;
        event.place = String::new();
    }
    let node = valid(&unknown).await;
    assert_eq!((node.at("info/severity"), node.at("info/area/areaDesc")), ("Unknown", "unnamed place"));
    assert_eq!((node.at("sent"), node.at("info/expires")), ("2025-07-29T23:30:00-00:00", "2025-07-30T23:30:00-00:00"));
}

#[tokio::test]
async fn the_rules_notice_what_breaks_them() {
    let document = document(&event_alert()).await;
    for (from, to) in [
        ("<status>Actual", "<status>Real"),
        ("-00:00</sent>", "Z</sent>"),
        ("<scope>Public</scope>", ""),
        ("<category>Geo</category>", ""),
        ("<sender>alerts@", "<sender>the alerts@"),
        (" 0</circle>", "</circle>"),
        ("<urgency>", "<event>Earthquake</event><urgency>"),
        ("<msgType>Alert</msgType>", "<msgType>Alert</msgType><references>a b</references>"),
        ("<web>https:", "<web>"),
    ] {
        assert!(document.contains(from), "{from}");
        assert!(fault(&read(&document.replacen(from, to, 1)), ALERT).is_some(), "{from} → {to} is not noticed");
    }
}
