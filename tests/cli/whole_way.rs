//! The whole way: a feed's file, the daemon as a process of its own, SMTP over loopback, and the mailbox read back.

use base64::Engine as _;

use crate::daemon::{Daemon, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};
use crate::smtp_server::{Mail, Script, Server};

/// The value of a header.
fn header<'a>(mail: &'a Mail, name: &str) -> &'a str {
    let head = mail.text.split("\r\n\r\n").next().expect("a head");
    let line = head.split("\r\n").find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

/// The body of the part of this type, decoded.
fn part(mail: &Mail, kind: &str) -> String {
    let (_, rest) = mail.text.split_once(&format!("Content-Type: {kind}")).expect(kind);
    let (head, body) = rest.split_once("\r\n\r\n").expect("a body");
    let body = body.split("\r\n--=_").next().expect("its end");
    if head.contains("base64") {
        let bytes = base64::engine::general_purpose::STANDARD.decode(body.replace("\r\n", "")).expect("base64");
        return String::from_utf8(bytes).expect("UTF-8");
    }
    body.replace("=\r\n", "").replace("=3D", "=")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earthquake_in_the_feed_arrives_in_the_mailbox() {
    let server = Server::start(Script { login: Some(("alerts", "s3cret")), ..Script::default() }).await;
    let place = Place::new();
    place.write("password", "s3cret\n");
    place.write(
        "throttler.toml",
        &format!(
            "[feed]\nurl = \"file://{}\"\npoll = \"50ms\"\n[email]\nfrom = \"Earthquake alerts <alerts@example.org>\"\n\
             smtp = \"smtp://127.0.0.1:{}\"\nsmtp_username = \"alerts\"\nsmtp_password_file = \"password\"\n",
            place.path("feed.geojson").display(),
            server.port
        ),
    );
    place.feed(&[]);
    place.run(&["config", "check"]).ok();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.net", "--rate", "1/h", "--bucket", "2"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 5.1), quake("us2", 7.9), quake("us3", 5.6), quake("us4", 4.9)]);
    wait_for("two mails", || (server.mails().len() == 2).then_some(()));
    wait_for("the receipts", || {
        let ledger = place.run(&["ledger", "--format", "json"]).json();
        let rows = ledger["decisions"].as_array().expect("decisions").clone();
        (rows.iter().filter(|row| row["delivery"] == "delivered").count() == 2).then_some(())
    });
    assert_eq!(daemon.stop().code(), Some(0));

    let mails = server.mails();
    let mail = mails.iter().find(|mail| header(mail, "Subject") == "M 7.9 - near us2").expect("the largest");
    assert!(
        mails.iter().any(|mail| header(mail, "Subject") == "M 5.6 - near us3"),
        "and the second largest, no other: {mails:?}"
    );
    assert!(mail.logged_in);
    assert_eq!((mail.from.as_str(), mail.to.as_str()), ("alerts@example.org", "anna@example.net"));
    assert_eq!(header(mail, "From"), "\"Earthquake alerts\" <alerts@example.org>");
    assert_eq!(header(mail, "To"), "anna@example.net");
    assert_eq!(header(mail, "Auto-Submitted"), "auto-generated");
    assert!(header(mail, "Message-ID").ends_with("@example.org>") && header(mail, "Message-ID") != header(&mails[1], "Date"));
    assert!(header(mail, "List-Unsubscribe").starts_with("<mailto:"));
    assert!(header(mail, "Content-Type").starts_with("multipart/alternative"));
    let (text, html) = (part(mail, "text/plain"), part(mail, "text/html"));
    for words in ["M 7.9 - near us2", "Magnitude    7.9 (mww)", "Why:", "Limit: up to 2 at once, 1 per hour on average", "anna"] {
        assert!(text.to_lowercase().contains(&words.to_lowercase()), "{words}: {text}");
    }
    assert!(html.contains("<!DOCTYPE html>") && html.contains("M 7.9 - near us2"), "{html}");
    let shown = place.run(&["subscriber", "show", "anna", "--format", "json"]).json();
    assert_eq!((&shown["decisions"]["pending"], &shown["remaining"]), (&1.into(), &0.into()), "the third waits for a digest");
}
