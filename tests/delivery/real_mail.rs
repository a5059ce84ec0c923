//! Email through a real relay into a real mailbox: STARTTLS, login, and what arrives.

use std::path::Path;
use std::process::Command;

use mailparse::{MailHeaderMap, ParsedMail, parse_mail};
use throttler::alert::{Alert, Content};
use throttler::delivery::{
    Delivery, EmailChannel, EmailSender, EmailSettings, Outcome, Password, WebhookSender, WebhookSettings,
};
use throttler::event::Event;
use throttler::subscriber::{Destination, Preset};
use throttler::time::Span;

use crate::alerts::{event_alert, great, hostile_alert, update_alert, withdrawal_alert};
use crate::exim::{Exim, PASSWORD, USER};
use crate::tls::Authority;
use crate::webhook::{crypto, now};

const PLACE: &str = "Ōfunato, 日本 – Пётр & <Kamchatka>";

/// A sender that may only speak to the relay encrypted, and logs in.
fn settings(exim: &Exim) -> EmailSettings {
    crypto();
    let from = "Erdbeben-Wächter <alerts@example.org>".parse().expect("sender");
    let user = USER.replace('@', "%40");
    let smtp = format!("smtp+starttls://{user}@127.0.0.1:{}", exim.port).parse().expect("relay");
    let mut settings = EmailSettings::new(from, smtp);
    settings.timeout = Span::from_seconds(30);
    settings.password = Some(Password::from(PASSWORD.to_owned()));
    settings.ca_file = Some(exim.ca_file.clone());
    settings
}

/// One session with the relay.
async fn deliver(settings: &EmailSettings, to: &str, alerts: &[Alert]) -> Vec<Outcome> {
    let email = EmailChannel::Sender(Box::new(EmailSender::new(settings).expect("sender")));
    let delivery = Delivery { email, webhook: WebhookSender::new(WebhookSettings::default()).expect("sender"), links: None };
    let destination = Destination::Email(to.parse().expect("address"));
    let mut outcomes = Vec::new();
    for alert in alerts {
        outcomes.push(delivery.deliver(&destination, &Preset::Json, &[], alert, now()).await);
    }
    delivery.close().await;
    outcomes
}

async fn delivered(settings: &EmailSettings, alerts: &[Alert]) {
    for outcome in deliver(settings, "anna@example.net", alerts).await {
        let Outcome::Delivered { detail } = outcome else { panic!("{outcome:?}") };
        assert!(detail.starts_with("127.0.0.1 accepted it: 250 OK id="), "{detail}");
    }
}

fn parsed(mailbox: &[Vec<u8>]) -> Vec<ParsedMail<'_>> {
    mailbox.iter().map(|bytes| parse_mail(bytes).expect("a message")).collect()
}

/// The message whose id begins so.
fn with_id<'a>(mails: &'a [ParsedMail<'a>], id: &str) -> &'a ParsedMail<'a> {
    let id = format!("<{id}@example.org>");
    mails.iter().find(|mail| header(mail, "Message-ID").as_deref() == Some(&id)).expect("arrived")
}

fn header(mail: &ParsedMail, name: &str) -> Option<String> {
    mail.headers.get_first_value(name)
}

#[tokio::test]
async fn a_message_arrives_as_it_was_meant_through_starttls_and_a_login() {
    let Some(exim) = Exim::start() else { return };
    let event = Event { place: PLACE.into(), ..great() };
    let content = Content::Event { event: std::sync::Arc::new(event), late: false, unconfirmed: false };
    delivered(&settings(&exim), &[Alert { content, ..event_alert() }]).await;
    let mailbox = exim.mailbox();
    assert_eq!(mailbox.len(), 1);
    let mail = parse_mail(&mailbox[0]).expect("a message");
    let received = header(&mail, "Received").expect("the relay's line");
    assert!(received.contains("with esmtpsa") && received.contains("(TLS1.3)"), "encrypted and logged in: {received}");
    let subject = format!("M 8.8 - {PLACE}");
    for (name, value) in [
        ("Return-path", "<alerts@example.org>"),
        ("From", "Erdbeben-Wächter <alerts@example.org>"),
        ("To", "anna@example.net"),
        ("Subject", &subject),
        ("Date", "Tue, 29 Jul 2025 23:30:00 +0000"),
        ("Message-ID", "<alert-us6000qw60-anna@example.org>"),
        ("Auto-Submitted", "auto-generated"),
        ("List-Unsubscribe", "<mailto:alerts@example.org?subject=unsubscribe%20anna>"),
        ("MIME-Version", "1.0"),
    ] {
        assert_eq!(mail.headers.get_all_values(name), [value], "{name}");
    }
    // RFC 8058 is about https; to post to a mailto: cannot be asked for.
    assert_eq!(header(&mail, "List-Unsubscribe-Post"), None);
    assert_eq!(header(&mail, "In-Reply-To"), None);

    assert_eq!(mail.ctype.mimetype, "multipart/alternative");
    let [text, html] = &mail.subparts[..] else { panic!("{} parts", mail.subparts.len()) };
    assert_eq!((text.ctype.mimetype.as_str(), html.ctype.mimetype.as_str()), ("text/plain", "text/html"));
    let (text, html) = (text.get_body().expect("text"), html.get_body().expect("HTML"));
    assert!(text.contains(&format!("Place        {PLACE}\r\n")) && text.contains("52.498° N"), "{text}");
    let escaped = "<td>Ōfunato, 日本 – Пётр &amp; &lt;Kamchatka&gt;</td>";
    assert!(html.contains(escaped) && html.trim_end().ends_with("</html>"), "{html}");
}

#[tokio::test]
async fn what_changes_later_arrives_in_the_thread_of_the_first_alert() {
    let Some(exim) = Exim::start() else { return };
    delivered(&settings(&exim), &[event_alert(), update_alert(), withdrawal_alert()]).await;
    let mailbox = exim.mailbox();
    let mails = parsed(&mailbox);
    assert_eq!(mails.len(), 3);
    let first = header(with_id(&mails, &event_alert().id), "Message-ID");
    for (alert, word) in [(update_alert(), "UPDATE: "), (withdrawal_alert(), "WITHDRAWN: ")] {
        let mail = with_id(&mails, &alert.id);
        assert_eq!((header(mail, "In-Reply-To"), header(mail, "References")), (first.clone(), first.clone()));
        assert!(header(mail, "Subject").is_some_and(|subject| subject.starts_with(word)));
    }
}

#[tokio::test]
async fn hostile_texts_arrive_as_text() {
    let Some(exim) = Exim::start() else { return };
    delivered(&settings(&exim), &[hostile_alert()]).await;
    let mailbox = exim.mailbox();
    let mail = parse_mail(&mailbox[0]).expect("a message");
    assert_eq!((mailbox.len(), header(&mail, "To").as_deref()), (1, Some("anna@example.net")));
    assert_eq!((header(&mail, "Bcc"), header(&mail, "X-Evil"), mail.subparts.len()), (None, None, 2));
    let html = mail.subparts[1].get_body().expect("HTML");
    assert!(html.contains("Пётр") && !html.contains("<script"), "{html}");
}

#[tokio::test]
async fn a_wrong_password_a_strange_authority_and_no_such_mailbox_are_told_apart() {
    let Some(exim) = Exim::start() else { return };
    let strangers = tempfile::tempdir().expect("a directory");
    let good = settings(&exim);
    let wrong = EmailSettings { password: Some(Password::from("hunter2".to_owned())), ..good.clone() };
    let strange = EmailSettings { ca_file: Some(Authority::new().pem_file(strangers.path())), ..good.clone() };
    let nobody = EmailSettings { username: None, password: None, ..good.clone() };
    for (settings, to, expected, words) in [
        (&wrong, "anna@example.net", None, "refused the login: 535"),
        (&strange, "anna@example.net", None, "no secure connection to 127.0.0.1: invalid peer certificate"),
        (&nobody, "anna@example.net", Some(false), "refused the recipient: 550 relay not permitted"),
        (&good, "anna@example.com", Some(false), "refused the recipient: 550 relay not permitted"),
        (&good, "bernd@example.net", Some(true), "refused the recipient: 550 Unrouteable address"),
    ] {
        let (found, reason) = match deliver(settings, to, &[event_alert()]).await.remove(0) {
            Outcome::Transient { reason, .. } => (None, reason),
            Outcome::Permanent { reason, disable } => (Some(disable), reason),
            outcome @ Outcome::Delivered { .. } => panic!("{to} {words}: {outcome:?}"),
        };
        assert!(reason.contains(words) && !reason.contains("hunter2"), "{reason}");
        assert_eq!(found, expected, "{to}: {reason}");
    }
    assert_eq!(exim.mailbox(), Vec::<Vec<u8>>::new());
}

/// As the documents tell an operator to.
#[test]
fn an_operator_tries_a_relay_with_a_password_file_and_a_test_of_a_subscription() {
    let Some(exim) = Exim::start() else { return };
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("password"), format!("{PASSWORD}\n")).expect("write");
    let (user, port, ca_file) = (USER, exim.port, exim.ca_file.display());
    let config = format!(
        "[email]\nfrom = \"Alerts <alerts@example.org>\"\nsmtp = \"smtp+starttls://127.0.0.1:{port}\"\n\
         smtp_username = \"{user}\"\nsmtp_password_file = \"password\"\nsmtp_ca_file = \"{ca_file}\"\n"
    );
    std::fs::write(place.path().join("throttler.toml"), config).expect("write");
    let (_, code) = throttler(place.path(), "config check");
    assert_eq!(code, Some(0));
    throttler(place.path(), "subscriber add anna --email anna@example.net");
    let (told, code) = throttler(place.path(), "subscriber test anna");
    assert!(told.starts_with("Delivered an exercise to anna: 127.0.0.1 accepted it: 250 OK id="), "{told}");
    assert_eq!(code, Some(0));
    let mailbox = exim.mailbox();
    let mail = parse_mail(&mailbox[0]).expect("a message");
    assert_eq!((mailbox.len(), header(&mail, "From").as_deref()), (1, Some("Alerts <alerts@example.org>")));

    std::fs::write(place.path().join("password"), "hunter2\n").expect("write");
    let (told, code) = throttler(place.path(), "subscriber test anna");
    assert!(told.contains("refused the login: 535") && !told.contains("hunter2"), "{told}");
    assert_eq!(code, Some(1));
}

/// What a command printed, and its exit status.
fn throttler(directory: &Path, arguments: &str) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throttler"));
    command.current_dir(directory).args(arguments.split(' ')).env_remove("THROTTLER_SMTP_PASSWORD");
    let output = command.output().expect("throttler");
    (String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(), output.status.code())
}
