//! Webhooks in the forms of other people's receivers: what arrives, word for word, and what a hostile text makes of it.

use serde_json::Value;
use throttler::alert::{Alert, Content};
use throttler::delivery::{Outcome, WebhookSender, WebhookSettings, check_preset};
use throttler::subscriber::{Destination, Preset, Template, TemplateKind};

use crate::alerts::{event_alert, every_kind, hostile_alert, longest_digest, notice_alert};
use crate::webhook::{Receiver, crypto, now, post_as, secret, system_now, url};

/// The forms that are JSON of somebody else's.
const CHATS: [(&str, Preset); 3] = [("slack", Preset::Slack), ("discord", Preset::Discord), ("ntfy", Preset::Ntfy)];

async fn sent(preset: &Preset, alert: &Alert) -> Value {
    let request = post_as(preset, "quakes", &[secret()], alert, now()).await;
    assert_eq!(request.headers["content-type"], "application/json");
    serde_json::from_slice(&request.body).expect("JSON")
}

/// All forms; the path of their receiver is a topic of ntfy's.
fn forms() -> Vec<Preset> {
    let template = Template { kind: TemplateKind::Text, text: "{{ title }}".into() };
    vec![Preset::Json, Preset::Slack, Preset::Discord, Preset::Ntfy, Preset::Cap, Preset::Template(template)]
}

fn sender() -> WebhookSender {
    crypto();
    WebhookSender::new(WebhookSettings { allow_private: true, ..WebhookSettings::default() }).expect("sender")
}

/// Hostile where a webhook lets it be: an id that no header takes is refused before.
fn hostile() -> Alert {
    let mut alert = hostile_alert();
    alert.id = "hostile".into();
    let place =
        "<!channel> @everyone <@1234> [free](https://evil.example) https://evil.example/x *b* `c` ||s|| # h &lt; \\ \r\n- x";
    if let Content::Event { event, .. } = &mut alert.content {
        let event = std::sync::Arc::make_mut(event);
        event.place = format!("{place} {}", event.place);
        event.url = Some("https://example.org/?a=1|x&b=<2>".into());
    }
    alert
}

/// All texts in it, with where they stand.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[tokio::test]
async fn each_kind_reads_as_agreed_in_each_form() {
    for (form, preset) in CHATS {
        for (kind, alert) in every_kind().into_iter().chain([("notice", notice_alert())]) {
            let json = serde_json::to_string_pretty(&sent(&preset, &alert).await).expect("JSON");
            insta::assert_snapshot!(format!("{form}_{kind}"), json);
        }
        let json = serde_json::to_string_pretty(&sent(&preset, &hostile()).await).expect("JSON");
        insta::assert_snapshot!(format!("{form}_hostile"), json);
    }
}

#[tokio::test]
async fn every_form_is_signed_and_tells_its_kind() {
    for preset in forms() {
        let content_type = match preset {
            Preset::Cap => "application/cap+xml",
            Preset::Template(_) => "text/plain; charset=utf-8",
            Preset::Json | Preset::Slack | Preset::Discord | Preset::Ntfy => "application/json",
        };
        let request = post_as(&preset, "quakes?x=1", &[secret()], &event_alert(), system_now()).await;
        assert_eq!(request.headers["content-type"], content_type, "{preset}");
        assert!(request.headers.contains_key("ratelimit") && request.headers["webhook-id"] == event_alert().id.as_str());
        let library = standardwebhooks::Webhook::new(&secret().expose()).expect("secret");
        assert!(library.verify(&request.body, &request.headers).is_ok(), "{preset}");
        assert!(library.verify(&[&request.body[..], b" "].concat(), &request.headers).is_err(), "{preset}");
        // ntfy takes JSON at the server's own address only; what else stands in the URL stays.
        assert_eq!(request.path, if preset == Preset::Ntfy { "/?x=1" } else { "/quakes?x=1" }, "{preset}");
    }
}

#[tokio::test]
async fn slack_s_limits_are_kept_and_what_is_left_out_is_counted() {
    for alert in [longest_digest(), hostile()] {
        let message = sent(&Preset::Slack, &alert).await;
        let blocks = message["blocks"].as_array().expect("blocks");
        assert!(blocks.len() <= 50, "{}", blocks.len());
        for block in blocks {
            let most = if block["type"] == "header" { 150 } else { 3_000 };
            assert!(texts(block).iter().all(|text| units(text) <= most), "{block}");
        }
    }
    let all = texts(&sent(&Preset::Slack, &longest_digest()).await).concat();
    assert_eq!(all.matches("M 6.0 · ").count(), 50, "all of them fit into blocks");
}

#[tokio::test]
async fn discord_s_limits_are_kept_and_what_is_left_out_is_counted() {
    for alert in [longest_digest(), hostile()] {
        let message = sent(&Preset::Discord, &alert).await;
        let embeds = message["embeds"].as_array().expect("embeds");
        assert_eq!(embeds.len(), 1);
        let length = |pointer: &str| embeds[0].pointer(pointer).and_then(Value::as_str).map_or(0, units);
        let (title, description, footer) = (length("/title"), length("/description"), length("/footer/text"));
        assert!(title <= 256 && description <= 4_096 && footer <= 2_048 && title + description + footer <= 6_000, "{message}");
    }
    let message = sent(&Preset::Discord, &longest_digest()).await;
    let description = message["embeds"][0]["description"].as_str().expect("text");
    let shown = description.matches("M 6.0 · ").count();
    assert!(
        shown < 50 && description.ends_with(&format!("… and {} more lines that do not fit here", 50 - shown)),
        "{description}"
    );
}

#[tokio::test]
async fn ntfy_s_limits_are_kept_and_what_is_left_out_is_counted() {
    for alert in [longest_digest(), hostile()] {
        let message = sent(&Preset::Ntfy, &alert).await;
        assert!(message["message"].as_str().expect("text").len() <= 4_096, "{message}");
    }
    let message = sent(&Preset::Ntfy, &longest_digest()).await;
    let text = message["message"].as_str().expect("text");
    let shown = text.matches("M 6.0 · ").count();
    assert!(shown < 50 && text.contains(&format!("\n… and {} more lines that do not fit here\n\nWhy: ", 50 - shown)), "{text}");
}

#[tokio::test]
async fn hostile_texts_mention_nobody_and_make_no_link() {
    let slack = sent(&Preset::Slack, &hostile()).await;
    for text in texts(&slack).iter().filter(|text| !text.ends_with("|Details>")) {
        assert!(!text.contains(['<', '>']) && !text.contains("://"), "{text}");
    }
    let markup: Vec<&Value> =
        slack["blocks"].as_array().expect("blocks").iter().filter(|block| block.to_string().contains("mrkdwn")).collect();
    assert_eq!(markup.len(), 1, "only our own link is markup");
    assert_eq!(markup[0]["text"]["text"], "<https://example.org/?a=1%7Cx&amp;b=%3C2%3E|Details>");

    let discord = sent(&Preset::Discord, &hostile()).await;
    assert_eq!(discord["allowed_mentions"], serde_json::json!({ "parse": [] }));
    assert!(discord.get("content").is_none());
    for pointer in ["/embeds/0/title", "/embeds/0/description"] {
        let text = discord.pointer(pointer).and_then(Value::as_str).expect("text");
        let bare = text.replace("\\\\", "");
        for (at, c) in bare.char_indices().filter(|(_, c)| "*_~`|<>#[]()@:".contains(*c)) {
            assert!(bare[..at].ends_with('\\'), "'{c}' means something at {at} in {text}");
        }
    }

    let ntfy = sent(&Preset::Ntfy, &hostile()).await;
    for key in ["title", "message"] {
        assert!(!ntfy[key].as_str().expect("text").contains("://"), "{ntfy}");
    }
    assert_eq!(ntfy["topic"], "quakes");

    for value in [slack, discord, ntfy] {
        for text in texts(&value) {
            assert!(!text.contains(|c: char| c.is_control() && c != '\n') && !text.contains('\u{202e}'), "{text:?}");
            assert!(text.lines().all(|line| !line.starts_with("Bcc") && line != "." && !line.starts_with("QUIT")), "{text}");
            assert!(!text.starts_with("javascript:"), "{text}");
        }
    }
}

#[tokio::test]
async fn an_exercise_says_so_in_every_form() {
    let exercise = crate::alerts::exercise_alert();
    for (_, preset) in CHATS {
        let message = sent(&preset, &exercise).await;
        let title = ["/text", "/embeds/0/title", "/title"].iter().find_map(|key| message.pointer(key)).expect("a title");
        // Discord's form has a backslash before the colon.
        assert!(title.as_str().expect("text").starts_with("EXERCISE"), "{title}");
    }
    let body = sent(&Preset::Json, &exercise).await;
    assert_eq!((&body["exercise"], body["title"].as_str().expect("text").starts_with("EXERCISE")), (&true.into(), true));
    assert!(sent(&Preset::Json, &event_alert()).await.get("exercise").is_none());
}

#[tokio::test]
async fn a_preset_that_does_not_serve_is_told_before_and_at_sending() {
    let hook = |text: &str| Destination::Webhook(url(text));
    let mail = Destination::Email("anna@example.org".parse().expect("address"));
    assert!(check_preset(&mail, &Preset::Json).is_ok());
    assert!(check_preset(&mail, &Preset::Slack).expect_err("email").to_string().contains("this one gets email"));
    assert!(check_preset(&hook("https://ntfy.sh/our-quakes_1"), &Preset::Ntfy).is_ok());
    for wrong in ["https://ntfy.sh", "https://ntfy.sh/", "https://ntfy.sh/a/b", "https://ntfy.sh/%0a", "https://ntfy.sh/a.b"] {
        let refused = check_preset(&hook(wrong), &Preset::Ntfy).expect_err(wrong).to_string();
        assert!(refused.contains("the URL of a topic, like https://ntfy.sh/quakes"), "{refused}");
    }
    let receiver = Receiver::answering(200, &[], "").await;
    let target = url(&format!("http://127.0.0.1:{}/", receiver.port()));
    let outcome = sender().send(&target, &Preset::Ntfy, &[secret()], &event_alert(), now()).await;
    assert!(matches!(&outcome, Outcome::Permanent { reason, disable: false } if reason.starts_with("not sent: ")), "{outcome:?}");
    assert_eq!(receiver.requests(), 0);
}

#[tokio::test]
async fn no_form_follows_a_redirect_or_sends_an_id_that_would_be_a_header() {
    let behind = Receiver::answering(200, &[], "").await;
    let there = format!("http://127.0.0.1:{}/quakes", behind.port());
    for preset in forms() {
        let before = Receiver::answering(307, &[("location", &there)], "").await;
        let target = url(&format!("http://127.0.0.1:{}/quakes", before.port()));
        let outcome = sender().send(&target, &preset, &[secret()], &event_alert(), now()).await;
        assert!(
            matches!(&outcome, Outcome::Permanent { reason, .. } if reason.contains("redirects are not followed")),
            "{preset}: {outcome:?}"
        );
        let broken = sender().send(&target, &preset, &[secret()], &hostile_alert(), now()).await;
        assert!(
            matches!(&broken, Outcome::Permanent { reason, .. } if reason.starts_with("webhook-id of this alert cannot stand")),
            "{preset}: {broken:?}"
        );
        assert_eq!(before.requests(), 1, "{preset}");
    }
    assert_eq!(behind.requests(), 0);
}

#[tokio::test]
async fn neither_secret_nor_path_is_in_a_log_however_loud() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let file = std::fs::File::create(&path).expect("log");
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(std::sync::Mutex::new(file));
    let guard = tracing::subscriber::set_default(log.finish());
    for status in [200, 500] {
        let receiver = Receiver::answering(status, &[], "no").await;
        let target = url(&format!("http://127.0.0.1:{}/secret-topic?auth=secret-query", receiver.port()));
        for preset in forms() {
            sender().send(&target, &preset, &[secret()], &event_alert(), now()).await;
        }
        assert_eq!(receiver.requests(), 6);
    }
    tracing::info!("the end");
    drop(guard);
    let logged = std::fs::read_to_string(path).expect("log");
    assert!(logged.contains("the end"), "the log is heard");
    let secrets = [secret().expose()[6..].to_owned(), "secret-topic".to_owned(), "secret-query".to_owned()];
    assert!(secrets.iter().all(|secret| !logged.contains(secret)), "{logged}");
}
