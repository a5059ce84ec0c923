//! Notices to the operator, as the operator has them: configured in a file, by SMTP and webhook from a daemon that is killed, and
//! listed.

use std::path::Path;

use serde_json::json;
use throttler::clock::{Clock, SystemClock};
use throttler::time::{Span, Timestamp};

use crate::daemon::{Daemon, number};
use crate::place::{Place, wait_for};
use crate::receiver::Receiver;
use crate::smtp_server::{Script, Server};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A place with a feed's file, this mail server, and an operator with this webhook beside an address.
fn place(server: &Server, hook: &str) -> Place {
    let place = Place::new();
    place.write("secret", &format!("{SECRET}\n"));
    place.write(
        "throttler.toml",
        &format!(
            "[feed]\nurl = \"file://{}\"\npoll = \"50ms\"\n[email]\nfrom = \"alerts@example.org\"\nsmtp = \"smtp://127.0.0.1:{}\"\n\
             [webhook]\nallow_private = true\n[operator]\nemail = \"ops@example.net\"\nwebhook = \"{hook}\"\n\
             webhook_secret_file = \"secret\"\n",
            place.path("feed.geojson").display(),
            server.port
        ),
    );
    place
}

/// From now on the feed's content says that it was made then.
fn made(place: &Place, at: Timestamp) {
    let document =
        json!({ "type": "FeatureCollection", "metadata": { "generated": at.millis(), "status": 200 }, "features": [] });
    place.replace("feed.geojson", &document.to_string());
}

/// The daemon by a clock that the test moves.
fn start(place: &Place) -> Daemon {
    let clock = place.path("clock");
    Daemon::start_with(place, &[("THROTTLER_TEST_CLOCK", Path::new(&clock))])
}

fn set_clock(place: &Place, now: Timestamp) {
    place.replace("clock", &now.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_feed_is_told_by_mail_and_webhook_once_although_the_daemon_is_killed() {
    let (server, receiver) = (Server::start(Script::default()).await, Receiver::start().await);
    let place = place(&server, &format!("http://127.0.0.1:{}/ops", receiver.port));
    let now = SystemClock.now();
    made(&place, now.minus(Span::from_seconds(7_200)));
    set_clock(&place, now);
    let daemon = start(&place);
    wait_for("it is noticed", || number(&place, "SELECT change_key FROM changes"));
    assert_eq!(place.run(&["status", "--format", "json"]).json()["notices"]["untold"], 1);
    daemon.kill();
    set_clock(&place, now.plus(Span::from_seconds(61)));
    let daemon = start(&place);
    let delivered = |count: u64| {
        wait_for("both are delivered", || {
            number(&place, "SELECT count(*) FROM notices WHERE status = 'delivered'")
                .filter(|found| found.unsigned_abs() == count)
        })
    };
    delivered(2);
    daemon.kill();
    set_clock(&place, now.plus(Span::from_seconds(120)));
    let daemon = start(&place);
    made(&place, now.plus(Span::from_seconds(119)));
    wait_for("the recovery is noticed", || number(&place, "SELECT change_key FROM changes WHERE what = 'feed-fresh'"));
    set_clock(&place, now.plus(Span::from_seconds(200)));
    delivered(4);
    assert_eq!(daemon.stop().code(), Some(0));

    let titles: Vec<String> =
        receiver.requests().iter().map(|request| request.body["title"].as_str().expect("a title").to_owned()).collect();
    let expected = ["throttler: the feed is stale", "throttler: the feed is fresh again"];
    assert_eq!(titles, expected);
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    for (mail, subject) in mails.iter().zip(expected) {
        assert_eq!((mail.from.as_str(), mail.to.as_str()), ("alerts@example.org", "ops@example.net"));
        assert!(mail.text.contains(&format!("\r\nSubject: {subject}\r\n")) && mail.text.contains("text/html"), "{}", mail.text);
    }
    let listed = place.run(&["outbox", "list", "--status", "delivered"]).ok();
    assert!(listed.starts_with("0 delivered\n\nNotices to the operator: 4 delivered\n"), "{listed}");
    assert!(listed.contains(expected[0]) && listed.contains("-notice-1-email"), "{listed}");
    let json = place.run(&["outbox", "list", "--status", "all", "--format", "json"]).json();
    assert_eq!((&json["notice_counts"]["delivered"], json["notices"].as_array().map(Vec::len)), (&4.into(), Some(4)));
    let status = place.run(&["status"]).ok();
    assert!(status.contains("notices        0 due, 0 under way, 0 dead; 0 changes to tell\n"), "{status}");
    let log = std::fs::read_to_string(place.path("log")).expect("the log");
    assert!(log.contains("the operator is told: throttler: the feed is stale") && !log.contains(SECRET), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_says_where_notices_go_and_what_is_wrong_with_it() {
    let server = Server::start(Script::default()).await;
    let place = place(&server, "http://127.0.0.1:9/secret-path");
    place.feed(&[]);
    let checked = place.run(&["config", "check"]).ok();
    let expected = "notices        stale-feed, dead-destination, sustained-withholding; to ops@example.net and http://127.0.0.1:9/…; \
                    at most 6 in any hour\n";
    assert!(checked.ends_with(expected) && !checked.contains("secret-path"), "{checked}");
    let email = "[email]\nfrom = \"a@example.org\"\nsmtp = \"smtp://127.0.0.1\"\n";
    place.write("bad", "whsec_short");
    for (operator, expected) in [
        ("email = \"nobody\"", "c.toml: operator.email: 'nobody' is not an email address"),
        ("webhook = \"ftp://x\"", "c.toml: operator.webhook: 'ftp://x' is not a webhook URL: expected http or https"),
        ("webhook = \"https://10.0.0.1/x\"", "c.toml: operator.webhook: 10.0.0.1 is at 10.0.0.1, a private network"),
        ("webhook = \"https://example.org/x\"", "c.toml: operator.webhook_secret_file: expected a secret to sign with"),
        (
            "webhook = \"https://example.org/x\"\nwebhook_secret_file = \"bad\"",
            "c.toml: operator.webhook_secret_file: this is not a webhook secret: expected whsec_ and base64",
        ),
        (
            "webhook = \"https://example.org/x\"\nwebhook_secret_file = \"none\"",
            "cannot read the secret of the operator's webhook from none: No such file",
        ),
        (
            "webhook = \"https://example.org/x\"\npreset = \"cap\"",
            "c.toml: operator.preset: cap is the form of alerts, and a notice about the service is none; expected json, slack, discord or ntfy",
        ),
        (
            "webhook = \"https://example.org/x\"\npreset = \"template\"",
            "c.toml: operator.preset: 'template' is no form of notices",
        ),
        (
            "webhook = \"https://example.org/\"\npreset = \"ntfy\"",
            "c.toml: operator.webhook: the preset ntfy needs the URL of a topic",
        ),
        ("email = \"a@example.org\"\nmax_per_hour = 0", "c.toml: operator.max_per_hour: "),
        ("notices = [\"all\"]", "c.toml:5: notices: 'all' is not a notice: expected stale-feed, dead-destination"),
    ] {
        place.write("c.toml", &format!("{email}[operator]\n{operator}\n"));
        for command in [&["--config", "c.toml", "config", "check"][..], &["--config", "c.toml", "run"]] {
            let refused = place.run(command);
            assert_eq!(refused.status, Some(2), "{operator}: {refused:?}");
            assert!(refused.err.contains(expected) && refused.err.trim_end().lines().count() == 1, "{operator}: {refused:?}");
        }
    }
    place.write("c.toml", "[operator]\nemail = \"ops@example.org\"\n");
    let refused = place.run(&["--config", "c.toml", "config", "check"]);
    assert!(refused.err.contains("c.toml: email.smtp: expected where mail goes, since operator.email is set"), "{refused:?}");
    // The secret may come from the environment, and from systemd.
    place.write("c.toml", "[operator]\nwebhook = \"https://example.org/x\"\n");
    place.write("operator_webhook_secret", SECRET);
    for (variable, value) in [("THROTTLER_OPERATOR_WEBHOOK_SECRET", SECRET), ("CREDENTIALS_DIRECTORY", ".")] {
        let checked =
            place.command(&["--config", "c.toml", "config", "check"]).env(variable, value).output().expect("the program");
        assert!(checked.status.success(), "{variable}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ways_to_the_operator_can_be_tried() {
    let (server, receiver) = (Server::start(Script::default()).await, Receiver::start().await);
    let place = place(&server, &format!("http://127.0.0.1:{}/ops", receiver.port));
    place.feed(&[]);
    let told = place.run(&["config", "check", "--notify"]).ok();
    assert!(told.starts_with("The configuration is in order.\n"), "{told}");
    let hook = format!("Delivered an exercise to http://127.0.0.1:{}/…: ", receiver.port);
    assert!(told.contains("\nDelivered an exercise to ops@example.net: ") && told.contains(&hook), "{told}");
    let title = "EXERCISE: throttler: the feed is stale";
    let mails = server.mails();
    assert_eq!((mails.len(), mails[0].to.as_str()), (1, "ops@example.net"));
    assert!(mails[0].text.contains(&format!("\r\nSubject: {title}\r\n")), "{}", mails[0].text);
    assert!(mails[0].text.contains("This is an exercise"), "{}", mails[0].text);
    let requests = receiver.requests();
    let about = |key: &str| &requests[0].body[key];
    assert_eq!(
        (requests.len(), about("type"), about("exercise"), about("title")),
        (1, &"notice".into(), &true.into(), &title.into())
    );
    assert!(!place.path("throttler.db").exists(), "it changes nothing");

    receiver.answer("/ops", 410);
    let refused = place.run(&["config", "check", "--notify"]);
    let fault = format!(
        "throttler: the exercise did not reach http://127.0.0.1:{}/… (a notice would be given up): answered 410",
        receiver.port
    );
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.err.starts_with(&fault) && refused.out.contains("Delivered an exercise to ops@example.net: "), "{refused:?}");
    let nobody = crate::place::Place::new().run(&["config", "check", "--notify"]);
    assert_eq!(nobody.status, Some(2), "{nobody:?}");
    assert!(nobody.err.ends_with(": operator: expected an email or a webhook to notify\n"), "{nobody:?}");
}
