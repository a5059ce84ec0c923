//! The forms of webhooks as the command line keeps them, `subscriber test`, and what it never repeats.

use serde_json::{Value, json};

use crate::daemon::{Daemon, mails, number, place, wait_for_first_poll};
use crate::place::Place;
use crate::receiver::Receiver;

fn show(place: &Place, name: &str) -> Value {
    place.run(&["subscriber", "show", name, "--format", "json"]).json()
}

#[test]
fn a_preset_is_added_shown_changed_and_dropped_with_the_webhook() {
    let place = Place::new();
    let hook = "https://hooks.example.org/quakes";
    place.run(&["subscriber", "add", "ops", "--webhook", hook, "--preset", "slack"]).ok();
    assert_eq!(show(&place, "ops")["preset"], "slack");
    for command in [vec!["subscriber", "show", "ops"], vec!["subscriber", "list"]] {
        assert!(place.run(&command).ok().contains("https://hooks.example.org/quakes (slack)"), "{command:?}");
    }
    place.run(&["subscriber", "set", "ops", "--webhook", "https://hooks.example.org/other"]).ok();
    assert_eq!(show(&place, "ops")["preset"], "slack", "another address keeps the form");
    place.run(&["subscriber", "set", "ops", "--preset", "ntfy"]).ok();
    let elsewhere = place.run(&["subscriber", "set", "ops", "--webhook", "https://hooks.example.org/a/b"]);
    assert!(elsewhere.status == Some(2) && elsewhere.err.contains("the URL of a topic"), "{elsewhere:?}");
    place.run(&["subscriber", "set", "ops", "--email", "ops@example.org"]).ok();
    assert!(show(&place, "ops").get("preset").is_none());
    place.run(&["subscriber", "set", "ops", "--webhook", hook]).ok();
    assert_eq!(show(&place, "ops")["preset"], "json");
}

#[test]
fn a_template_is_kept_with_the_subscriber_and_travels_with_it() {
    let place = Place::new();
    let text = "{\"t\": {{ title }}}";
    place.write("message.json", text);
    place.write("message.xml", "<t>{{ title }}</t>");
    let add = ["subscriber", "add", "own", "--webhook", "https://example.org/in", "--preset", "template", "--template"];
    place.run(&[&add[..], &["message.json"]].concat()).ok();
    std::fs::remove_file(place.path("message.json")).expect("the file goes");
    assert_eq!(show(&place, "own")["preset"], json!({ "template": { "kind": "json", "text": text } }));
    place.run(&["subscriber", "set", "own", "--preset", "template", "--rate", "3/h"]).ok();
    assert_eq!(show(&place, "own")["preset"]["template"]["text"], text);

    let exported = place.run(&["subscriber", "export"]).ok();
    let other = Place::new();
    assert_eq!(other.run_with(&["subscriber", "import", "-"], &exported).ok(), "Added 1 subscribers.\n");
    assert_eq!(other.run(&["subscriber", "export"]).ok(), exported);
    let third = Place::new();
    let broken = third.run_with(&["subscriber", "import", "-"], &exported.replace("{{ title }}", "{{ titel }}"));
    assert!(
        broken.status == Some(3) && broken.err.contains("subscriber 1 (own): the template cannot be filled in"),
        "{broken:?}"
    );
    let mailed = exported.replace("\"webhook\": \"https://example.org/in\"", "\"email\": \"a@example.org\"");
    assert_ne!(mailed, exported);
    let mailed = third.run_with(&["subscriber", "import", "-"], &mailed);
    assert!(mailed.status == Some(3) && mailed.err.contains("this one gets email"), "{mailed:?}");

    place.run(&["subscriber", "set", "own", "--template", "message.xml"]).ok();
    assert_eq!(show(&place, "own")["preset"]["template"]["kind"], "xml");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_goes_through_the_real_channel_and_leaves_no_trace() {
    let (place, receiver) = (place(), Receiver::start().await);
    let hook = format!("http://127.0.0.1:{}/hook", receiver.port);
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org", "--bucket", "1"]).ok();
    place.run(&["subscriber", "add", "ops", "--webhook", &hook]).ok();
    place.run(&["subscriber", "add", "chat", "--webhook", &hook, "--preset", "slack"]).ok();
    let before = place.files();
    assert!(place.run(&["subscriber", "test", "anna"]).ok().starts_with("Delivered an exercise to anna: "));
    assert_eq!(place.run(&["subscriber", "test", "ops"]).ok(), "Delivered an exercise to ops: answered 204 No Content\n");
    let told = place.run(&["subscriber", "test", "chat", "--format", "json"]).json();
    assert_eq!((&told["subscriber"], &told["delivered"], &told["outcome"]), (&"chat".into(), &true.into(), &"delivered".into()));
    assert_eq!(place.files(), before, "neither limiter nor ledger changes, and not even while no daemon runs is a byte written");

    let requests = receiver.requests();
    assert_eq!(requests[0].body["exercise"], true);
    assert!(requests[0].body["title"].as_str().expect("a title").starts_with("EXERCISE: "));
    assert_eq!(requests[0].id, requests[0].body["id"]);
    assert!(requests[1].body["blocks"][0]["text"]["text"].as_str().expect("a title").starts_with("EXERCISE: "));
    assert_eq!(requests[1].id, told["alert"]);
    let mail = std::fs::read_dir(place.path("mail")).expect("mail").next().expect("a message").expect("an entry").path();
    let mail = std::fs::read_to_string(mail).expect("a message");
    assert!(mail.contains("\r\nSubject: EXERCISE: ") && mail.contains("\r\nTo: anna@example.org\r\n"), "{mail}");

    // Beside a running daemon, to a subscriber that is paused, with a bucket that stays as full as it was.
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.run(&["subscriber", "pause", "anna"]).ok();
    place.run(&["subscriber", "test", "anna"]).ok();
    assert_eq!(mails(&place).len(), 2);
    assert_eq!(show(&place, "anna")["remaining"], 1);
    assert_eq!(number(&place, "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM decisions)"), Some(0));
    assert_eq!(daemon.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_is_not_taken_says_why_and_fails() {
    let (place, receiver) = (place(), Receiver::start().await);
    let hook = format!("http://127.0.0.1:{}/secret-path", receiver.port);
    place.run(&["subscriber", "add", "ops", "--webhook", &hook]).ok();
    for (status, words) in [(410, "(an alert would be given up): answered 410 Gone"), (503, "(an alert would be tried again): ")]
    {
        receiver.answer("/secret-path", status);
        let ran = place.run(&["subscriber", "test", "ops"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(1), ""));
        assert!(ran.err.starts_with("throttler: the exercise did not reach ops ") && ran.err.contains(words), "{}", ran.err);
        assert!(!ran.err.contains("secret-path") && !ran.err.contains("whsec_"), "{}", ran.err);
    }
    let ran = place.run(&["subscriber", "test", "ops", "--format", "json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.status, &told["delivered"], &told["outcome"]), (Some(1), &false.into(), &"transient".into()));
    assert!(told["detail"].as_str().expect("text").starts_with("answered 503"), "{told}");
    assert_eq!(show(&place, "ops")["standing"], "active", "a refusal disables nobody");
}

#[test]
fn a_password_in_a_mistyped_url_is_not_repeated() {
    let place = Place::new();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let subscriber = |destination: Value| {
        json!({ "format": "throttler.subscribers.v1", "subscribers": [{ "subscriber": { "name": "b", "destination": destination,
            "policy": show(&place, "anna")["policy"] } }] })
        .to_string()
    };
    for url in [
        "https://anna:hunter2@example.org/hook",
        "https://anna:hunter2@exa mple.org/hook",
        "https://anna:hunt er2/#@example.org/hunter2",
        "ftp://anna:hunter2@example.org/hunter2",
        "https:/anna:hunter2@example.org",
        "anna:hunter2@example.org/hook",
        "https://hooks.example.org/services/hunter2#top",
        "ftp://hooks.example.org/hunter2",
    ] {
        for args in [
            vec!["subscriber", "add", "b", "--webhook", url],
            vec!["subscriber", "set", "anna", "--webhook", url],
            vec!["subscriber", "add", url, "--email", "b@example.org"],
            vec!["subscriber", "add", "b", url],
            vec!["subscriber", "add", "b", "--email", url],
            vec!["subscriber", url],
        ] {
            // Without a scheme nothing tells that it is a URL; where one is asked for it is taken for one all the same.
            if !url.contains("://") && !args.contains(&"--webhook") {
                continue;
            }
            let ran = place.run(&args);
            assert_eq!(ran.status, Some(2), "{args:?}");
            assert!(!ran.err.contains("hunt") && !ran.err.contains("er2"), "{args:?}: {}", ran.err);
        }
        let imported = place.run_with(&["subscriber", "import", "-"], &subscriber(json!({ "webhook": url })));
        assert!(imported.status == Some(3) && !imported.err.contains("hunt"), "{url}: {}", imported.err);
    }
}
