//! Operators' own templates: what they may do, and what they are refused when they are configured.

use throttler::alert::Alert;
use throttler::delivery::check_preset;
use throttler::subscriber::{Destination, MAX_TEMPLATE_BYTES, Preset, Template, TemplateKind};

use crate::alerts::{digest_alert, event_alert, every_kind, hostile_alert};
use crate::webhook::{now, post_as, secret, url};

/// The examples of the document, by their names.
fn example(name: &str) -> Template {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/delivery.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (_, from) = text.split_once(&format!("`{name}`:\n\n```jinja\n")).expect(name);
    let (text, _) = from.split_once("\n```").expect("a block ends");
    let kind = if name.ends_with("xml") { TemplateKind::Xml } else { TemplateKind::Json };
    Template { kind, text: text.to_owned() }
}

fn template(kind: TemplateKind, text: &str) -> Template {
    Template { kind, text: text.to_owned() }
}

fn check(template: Template) -> Result<(), String> {
    let destination = Destination::Webhook(url("https://example.org/in"));
    check_preset(&destination, &Preset::Template(template)).map_err(|fault| fault.to_string())
}

async fn filled(template: &Template, alert: &Alert) -> String {
    assert_eq!(check(template.clone()), Ok(()));
    let request = post_as(&Preset::Template(template.clone()), "in", &[secret()], alert, now()).await;
    let content_type = match template.kind {
        TemplateKind::Json => "application/json",
        TemplateKind::Xml => "application/xml",
        TemplateKind::Text => "text/plain; charset=utf-8",
    };
    assert_eq!(request.headers["content-type"], content_type);
    String::from_utf8(request.body.to_vec()).expect("UTF-8")
}

#[tokio::test]
async fn the_document_s_examples_do_what_they_show() {
    for (kind, alert) in every_kind() {
        let json = filled(&example("message.json"), &alert).await;
        insta::assert_snapshot!(format!("template_{kind}"), json);
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        insta::assert_snapshot!(format!("template_xml_{kind}"), filled(&example("message.xml"), &alert).await);
    }
}

#[tokio::test]
async fn values_are_escaped_for_what_the_template_makes() {
    let mut alert = hostile_alert();
    alert.id = "hostile".into();
    let json =
        filled(&template(TemplateKind::Json, r#"{"t": {{ title }}, "s": {{ subscriber }}, "x": {{ text }}}"#), &alert).await;
    let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(read.as_object().expect("an object").len(), 3);
    assert!(read["s"].as_str().expect("text").contains("anna\"><script>"), "{json}");
    let xml = filled(&template(TemplateKind::Xml, "<a s=\"{{ subscriber }}\">{{ title }}{{ text }}</a>"), &alert).await;
    assert!(!xml.contains("<script") && xml.contains("&lt;script"), "{xml}");
    assert_eq!(filled(&template(TemplateKind::Text, "M {{ event.magnitude if event }}"), &event_alert()).await, "M 8.8");
}

#[test]
fn what_cannot_work_is_refused_when_it_is_configured() {
    let json = |text: &str| check(template(TemplateKind::Json, text)).expect_err(text);
    let xml = |text: &str| check(template(TemplateKind::Xml, text)).expect_err(text);
    for (fault, expected) in [
        (json("{\"a\": {{ title }"), "the template cannot be read: line 1: syntax error: "),
        (json("[{{ titel }}]"), "cannot be filled in with an event: line 1: undefined value"),
        (json("[{{ event.size }}]"), "cannot be filled in with an event: line 1: undefined value"),
        (json("[{{ event.magnitude }}]"), "cannot be filled in with a digest: line 1: undefined value"),
        (
            json("[\n{{ event.magnitude * 2 if event else 0 }}]"),
            "with an event of which little is known: line 2: invalid operation",
        ),
        (json("{\"a\": \"{{ title }}\"}"), "is not JSON"),
        (json("{{ title }},"), "is not JSON"),
        (json(""), "is not JSON"),
        (json("{% include '/etc/passwd' %}"), "the template cannot be read"),
        (
            json("[{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}]"),
            "it takes more than 200000 steps",
        ),
        (json("[{{ 'x' * 300000 }}]"), "it makes more than 262144 bytes"),
        (json(&format!("[{}]", "1,".repeat(MAX_TEMPLATE_BYTES))), "expected at most 16384 bytes"),
        (xml("<a>{{ title }}"), "is not XML"),
        (xml("<a>{{ title }}</b>"), "is not XML"),
        (xml("<a>{{ title|safe }}&</a>"), "is not XML"),
        (xml("<a/><b/>"), "expected one outermost element, found 2"),
        (xml("{{ title }}"), "is not XML"),
        (xml("<!DOCTYPE a [<!ENTITY e 'x'>]><a/>"), "a document type is not taken"),
    ] {
        assert!(fault.contains(expected), "{fault}\nexpected {expected}");
        assert_eq!(fault.lines().count(), 1, "{fault}");
    }
}

#[tokio::test]
async fn a_template_sees_the_message_in_words_and_all_keys_of_every_kind() {
    let keys = "{{ [schema, type, id, created_at, subscriber, title, exercise, event, late, unconfirmed, digest, update, withdrawal, limit, text]|length }}";
    for (_, alert) in every_kind() {
        assert_eq!(filled(&template(TemplateKind::Json, keys), &alert).await, "15");
    }
    let text = filled(&template(TemplateKind::Text, "{{ text }}"), &digest_alert()).await;
    assert!(text.starts_with("3 events withheld, the largest M 8.8") && text.contains("\nWhy:   "), "{text}");
}
