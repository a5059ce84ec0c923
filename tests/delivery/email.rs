//! Email as servers and mailboxes see it: the bytes of a message, settings, files, and every way an SMTP server can fail.

use std::path::Path;

use throttler::alert::{Alert, Content};
use throttler::delivery::{
    Delivery, EmailChannel, EmailSender, EmailSettings, Outcome, Password, WebhookSender, WebhookSettings,
};
use throttler::subscriber::{Address, Destination, Preset};
use throttler::time::Span;

use crate::alerts::{digest_alert, event_alert, hostile_alert, leavable_alert, notice_alert, update_alert, withdrawal_alert};
use crate::port::Port;
use crate::smtp_server::{Fault, Script, Server};
use crate::tls::Authority;
use crate::webhook::{crypto, now};

fn settings(smtp: &str) -> EmailSettings {
    let from = "Erdbeben-Wächter <alerts@example.org>".parse().expect("sender");
    EmailSettings { timeout: Span::from_seconds(10), ..EmailSettings::new(from, smtp.parse().expect(smtp)) }
}

fn anna() -> Address {
    "anna@example.net".parse().expect("address")
}

async fn attempt(settings: &EmailSettings) -> Outcome {
    send(&EmailSender::new(settings).expect("sender")).await
}

async fn send(sender: &EmailSender) -> Outcome {
    sender.send(&anna(), &event_alert(), now()).await
}

fn directory_url(path: &Path) -> String {
    url::Url::from_file_path(path).expect("absolute").to_string()
}

/// The one file written for `alert`, and its name.
async fn written(alert: &Alert) -> (String, String) {
    let directory = tempfile::tempdir().expect("directory");
    let sender = EmailSender::new(&settings(&directory_url(directory.path()))).expect("sender");
    for _ in 0..2 {
        let outcome = sender.send(&anna(), alert, now()).await;
        assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
    }
    let files: Vec<_> = std::fs::read_dir(directory.path()).expect("list").map(|file| file.expect("file").path()).collect();
    assert_eq!(files.len(), 1, "a repeat replaces, and no draft is left: {files:?}");
    (files[0].file_name().expect("name").to_str().expect("UTF-8").to_owned(), std::fs::read_to_string(&files[0]).expect("read"))
}

#[tokio::test]
async fn a_message_is_byte_for_byte_as_agreed() {
    let (name, text) = written(&event_alert()).await;
    assert_eq!(name, "alert-us6000qw60-anna.eml");
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 998));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    insta::assert_snapshot!("event.eml", text.replace("\r\n", "\n"));
    assert_eq!(written(&event_alert()).await.1, text, "a repeat is the same");
    assert_ne!(written(&digest_alert()).await.0, name);
}

#[tokio::test]
async fn with_a_page_one_click_is_enough() {
    let (_, text) = written(&leavable_alert()).await;
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 998));
    insta::assert_snapshot!("one_click.eml", text.replace("\r\n", "\n"));
}

#[tokio::test]
async fn a_notice_to_the_operator_has_no_subscription_to_leave() {
    let (name, text) = written(&notice_alert()).await;
    assert_eq!(name, "k3v9x1-notice-1216-webhook.eml");
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 998));
    insta::assert_snapshot!("notice.eml", text.replace("\r\n", "\n"));
}

#[tokio::test]
async fn an_update_and_a_withdrawal_stand_under_the_first_alert_and_a_hostile_id_ends_no_header() {
    let first = written(&event_alert()).await.1;
    let id = first.lines().find_map(|line| line.strip_prefix("Message-ID: ")).expect("an id").to_owned();
    for alert in [update_alert(), withdrawal_alert()] {
        let (_, text) = written(&alert).await;
        for header in ["In-Reply-To", "References"] {
            assert!(text.contains(&format!("\r\n{header}: {id}\r\n")), "{text}");
        }
    }
    let Content::Withdrawal { event, .. } = withdrawal_alert().content else { panic!("a withdrawal") };
    let hostile = Content::Withdrawal { event, of: crate::alerts::first(&hostile_alert()) };
    let (_, text) = written(&Alert { content: hostile, ..withdrawal_alert() }).await;
    assert!(!text.contains("\r\nX-Evil"), "{text}");
}

#[tokio::test]
async fn hostile_texts_make_no_header_and_no_path() {
    let (name, text) = written(&hostile_alert()).await;
    assert_eq!(name, "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd%0D%0AX-Evil%3A%201%20%3Ca%40b%3E.eml");
    let (head, _) = text.split_once("\r\n\r\n").expect("headers");
    let names: Vec<&str> = head
        .split("\r\n")
        .filter(|line| !line.starts_with([' ', '\t']))
        .map(|line| line.split_once(':').expect("header").0)
        .collect();
    assert_eq!(
        names,
        ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "List-Unsubscribe", "MIME-Version", "Content-Type"]
    );
    assert!(!text.contains("\r\n.\r\n") && !text.contains("\r\nBcc"), "{text}");
    let mut long = event_alert();
    long.id = "x".repeat(5_000);
    assert_eq!(written(&long).await.0.len(), 64 + ".eml".len(), "a long id is a hash");
}

#[tokio::test]
async fn a_maildir_gets_its_messages_in_new() {
    let directory = tempfile::tempdir().expect("directory");
    for name in ["new", "cur", "tmp"] {
        std::fs::create_dir(directory.path().join(name)).expect("maildir");
    }
    let outcome = attempt(&settings(&directory_url(directory.path()))).await;
    assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
    assert!(directory.path().join("new/alert-us6000qw60-anna").is_file());
    assert_eq!(std::fs::read_dir(directory.path().join("tmp")).expect("list").count(), 0);
}

#[tokio::test]
async fn a_directory_that_vanished_is_tried_again() {
    let directory = tempfile::tempdir().expect("directory");
    let sender = EmailSender::new(&settings(&directory_url(&directory.path().join("made/for/it")))).expect("created");
    drop(directory);
    let Outcome::Transient { reason, .. } = send(&sender).await else { panic!("written to nowhere") };
    assert!(reason.contains("cannot write a message to ") && reason.contains("made/for/it"), "{reason}");
}

#[test]
fn settings_are_told_what_was_expected() {
    use throttler::delivery::{MailTransport, Sender, SmtpSecurity};
    for (text, host, port, security, user) in [
        ("smtp://127.0.0.1:2525", "127.0.0.1", 2525, SmtpSecurity::WhenOffered, None),
        ("smtp://mail.example.org", "mail.example.org", 25, SmtpSecurity::WhenOffered, None),
        ("smtp+starttls://a%40b.org@mail.example.org/", "mail.example.org", 587, SmtpSecurity::StartTls, Some("a@b.org")),
        ("smtps://[::1]", "::1", 465, SmtpSecurity::Implicit, None),
    ] {
        let Ok(MailTransport::Smtp(server)) = text.parse() else { panic!("{text}") };
        assert_eq!(
            (server.host.as_str(), server.port, server.security, server.username.as_deref()),
            (host, port, security, user)
        );
    }
    for (text, expected) in [
        ("", "expected a URL like smtp://"),
        ("mail.example.org:25", "expected smtp://"),
        ("http://mail.example.org", "expected smtp://"),
        ("smtp://", "expected a host name"),
        ("smtp://ma%20il", "expected a host name"),
        ("smtp://mail.example.org/inbox", "expected nothing after the host"),
        ("smtp://mail.example.org?tls=none", "expected nothing after the host"),
        ("smtps://anna:hunter2@mail.example.org", "expected no password in the URL: set smtp_password_file"),
        ("smtps://anna:hunter2@mail.example.org:99999", "expected a URL like smtp://"),
        ("file://server/share", "expected an absolute path"),
    ] {
        let error = text.parse::<MailTransport>().expect_err(text).to_string();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{text}: {error}");
    }
    for text in ["", "alerts", "Alerts <alerts>", "a@example.org\r\nBcc: b@example.org", "a@example.org, b@example.org"] {
        let error = text.parse::<Sender>().expect_err(text).to_string();
        assert!(error.contains("expected an address"), "{error}");
    }
}

#[test]
fn a_password_never_shows_and_a_login_is_whole() {
    crypto();
    let mut settings = settings("smtp://anna@127.0.0.1");
    let error = EmailSender::new(&settings).expect_err("no password").to_string();
    assert!(error.contains("a user name without a password"), "{error}");
    settings.password = Some(Password::from("hunter2".to_owned()));
    settings.username = None;
    assert!(EmailSender::new(&settings).expect_err("no user").to_string().contains("a password without a user name"));
    settings.username = Some("anna".into());
    let (_, ca_file, _directory) = tls_directory();
    settings.ca_file = Some(ca_file);
    let sender = EmailSender::new(&settings).expect("sender");
    assert!(!format!("{settings:?} {sender:?}").contains("hunter2"));
}

#[test]
fn a_wrong_ca_file_is_named() {
    crypto();
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("ca.pem");
    let mut settings = settings("smtps://127.0.0.1");
    settings.ca_file = Some(path.clone());
    for content in [None, Some("not a certificate"), Some("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")] {
        if let Some(content) = content {
            std::fs::write(&path, content).expect("write");
        }
        let error = EmailSender::new(&settings).expect_err("no certificate").to_string();
        assert!(error.contains("ca.pem: expected"), "{error}");
    }
}

fn tls_directory() -> (Authority, std::path::PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("directory");
    let authority = Authority::new();
    let path = authority.pem_file(directory.path());
    (authority, path, directory)
}

#[tokio::test]
async fn a_server_gets_the_message_in_its_envelope() {
    let server = Server::start(Script::default()).await;
    let outcome = attempt(&settings(&format!("smtp://127.0.0.1:{}", server.port))).await;
    assert_eq!(outcome, Outcome::Delivered { detail: "127.0.0.1 accepted it: 250 2.0.0 queued as 4711".into() });
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!((mails[0].from.as_str(), mails[0].to.as_str()), ("alerts@example.org", "anna@example.net"));
    assert_eq!(mails[0].text.trim_end(), written(&event_alert()).await.1.trim_end(), "the same message as in a file");
}

#[tokio::test]
async fn connections_are_kept_and_given_up() {
    let server = Server::start(Script::default()).await;
    let sender = EmailSender::new(&settings(&format!("smtp://127.0.0.1:{}", server.port))).expect("sender");
    for _ in 0..3 {
        assert!(matches!(send(&sender).await, Outcome::Delivered { .. }));
    }
    assert_eq!((server.connections(), server.mails().len()), (1, 3));
    // Refused, the session goes on.
    server.set_faults(&[("RCPT", Fault::Say("550 5.1.1 no such user"))]);
    assert!(matches!(send(&sender).await, Outcome::Permanent { .. }));
    server.set_faults(&[]);
    assert!(matches!(send(&sender).await, Outcome::Delivered { .. }));
    assert_eq!(server.connections(), 1);
    // The server hung up in the meantime: a new connection, no failure.
    server.set_faults(&[("RSET", Fault::Close)]);
    assert!(matches!(send(&sender).await, Outcome::Delivered { .. }));
    assert_eq!(server.connections(), 2);
    // Too old to trust.
    server.set_faults(&[]);
    let later = now().plus(Span::from_seconds(61));
    assert!(matches!(sender.send(&anna(), &event_alert(), later).await, Outcome::Delivered { .. }));
    assert_eq!(server.connections(), 3);
    sender.close().await;
    assert_eq!(server.commands().last().map(String::as_str), Some("QUIT"));
}

#[tokio::test]
async fn a_connection_cut_off_in_the_middle_is_not_used_again() {
    let server = Server::start(Script { faults: [("content", Fault::Stall)].into(), ..Script::default() }).await;
    let mut settings = settings(&format!("smtp://127.0.0.1:{}", server.port));
    settings.timeout = Span::from_seconds(1);
    let sender = EmailSender::new(&settings).expect("sender");
    assert!(matches!(send(&sender).await, Outcome::Transient { .. }));
    server.set_faults(&[]);
    assert!(matches!(send(&sender).await, Outcome::Delivered { .. }));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_refusal_tells_whose_it_is() {
    const TRANSIENT: Option<bool> = None;
    for (point, answer, expected, words) in [
        ("greeting", "421 4.3.2 shutting down", TRANSIENT, "put off the connection: 421"),
        ("greeting", "554 5.7.1 go away", TRANSIENT, "refused the connection: 554"),
        ("EHLO", "502 what?", TRANSIENT, "refused the connection: 502"),
        ("MAIL", "421 4.4.2 timeout", TRANSIENT, "put off the sender: 421"),
        ("MAIL", "450 later", TRANSIENT, "put off the sender: 450"),
        ("MAIL", "530 5.7.0 log in first", TRANSIENT, "refused the sender: 530"),
        ("MAIL", "550 bad sender", Some(false), "refused the sender: 550"),
        ("RCPT", "421 busy", TRANSIENT, "put off the recipient: 421"),
        ("RCPT", "450 4.2.0 greylisted", TRANSIENT, "put off the recipient: 450 4.2.0 greylisted"),
        ("RCPT", "550 no such user", Some(true), "refused the recipient: 550 no such user"),
        ("RCPT", "551 not here", Some(true), "refused the recipient: 551"),
        ("RCPT", "553 no such name", Some(true), "refused the recipient: 553"),
        ("RCPT", "550 5.7.1 relaying denied", Some(false), "refused the recipient: 550 5.7.1"),
        ("RCPT", "552 5.2.2 mailbox full", Some(false), "refused the recipient: 552"),
        ("DATA", "451 later", TRANSIENT, "put off the message: 451"),
        ("DATA", "554 no", Some(false), "refused the message: 554"),
        ("content", "421 busy", TRANSIENT, "put off the message: 421"),
        ("content", "450 later", TRANSIENT, "put off the message: 450"),
        ("content", "550-5.1.1 no such\r\n550 5.1.1 user", Some(true), "refused the message: 550 5.1.1 no such user"),
        ("content", "550 spam", Some(false), "refused the message: 550 spam"),
        ("content", "552 too big", Some(false), "refused the message: 552"),
        ("content", "554 5.6.0 \u{1b}[31mbad", Some(false), "refused the message: 554 5.6.0 [31mbad"),
    ] {
        let server = Server::start(Script { faults: [(point, Fault::Say(answer))].into(), ..Script::default() }).await;
        let outcome = attempt(&settings(&format!("smtp://127.0.0.1:{}", server.port))).await;
        let (reason, found) = match outcome {
            Outcome::Transient { reason, retry_after: None, host_failed } => {
                let early = ["greeting", "EHLO", "STARTTLS", "AUTH"].contains(&point);
                assert_eq!(host_failed, early || ["421", "530"].contains(&&answer[..3]), "{point} {answer}: whose failure it is");
                (reason, TRANSIENT)
            }
            Outcome::Permanent { reason, disable } => (reason, Some(disable)),
            other => panic!("{point} {answer}: {other:?}"),
        };
        assert_eq!(found, expected, "{point} {answer}: {reason}");
        assert!(reason.starts_with(&format!("127.0.0.1 {words}")), "{reason}");
    }
}

#[tokio::test]
async fn silence_and_hanging_up_in_every_phase_are_tried_again() {
    let mut attempts = tokio::task::JoinSet::new();
    for point in ["greeting", "EHLO", "MAIL", "RCPT", "DATA", "content"] {
        for (fault, timeout) in [(Fault::Close, Span::from_seconds(10)), (Fault::Stall, Span::from_seconds(1))] {
            attempts.spawn(async move {
                let server = Server::start(Script { faults: [(point, fault)].into(), ..Script::default() }).await;
                let settings = EmailSettings { timeout, ..settings(&format!("smtp://127.0.0.1:{}", server.port)) };
                let Outcome::Transient { reason, .. } = attempt(&settings).await else { panic!("{point}") };
                assert_eq!(reason.contains("in time"), matches!(fault, Fault::Stall), "{reason}");
                assert_eq!(reason.contains("may have taken the message"), point == "content", "{point}: {reason}");
            });
        }
    }
    while let Some(attempt) = attempts.join_next().await {
        attempt.expect("tried again");
    }
}

#[tokio::test]
async fn nobody_listening_is_tried_again() {
    let port = Port::take();
    let Outcome::Transient { reason, .. } = attempt(&settings(&format!("smtp://{}", port.address))).await else { panic!("sent") };
    assert!(reason.starts_with("no connection to 127.0.0.1: "), "{reason}");
}

#[tokio::test]
async fn mail_is_encrypted_where_it_is_offered_or_required() {
    crypto();
    let (authority, ca_file, _directory) = tls_directory();
    let acceptor = authority.acceptor("127.0.0.1");
    for (scheme, starttls, implicit, encrypted) in [
        ("smtp", true, false, true),
        ("smtp", false, false, false),
        ("smtp+starttls", true, false, true),
        ("smtps", false, true, true),
    ] {
        let script = Script {
            starttls: starttls.then(|| acceptor.clone()),
            implicit_tls: implicit.then(|| acceptor.clone()),
            ..Script::default()
        };
        let server = Server::start(script).await;
        let mut settings = settings(&format!("{scheme}://127.0.0.1:{}", server.port));
        settings.ca_file = Some(ca_file.clone());
        let outcome = attempt(&settings).await;
        assert!(matches!(outcome, Outcome::Delivered { .. }), "{scheme}: {outcome:?}");
        assert_eq!(server.mails().iter().map(|mail| mail.encrypted).collect::<Vec<_>>(), [encrypted], "{scheme}");
    }
}

#[tokio::test]
async fn to_this_machine_no_certificate_is_needed_unless_asked_for() {
    crypto();
    let script = Script { starttls: Some(Authority::new().acceptor("snakeoil.example.org")), ..Script::default() };
    let server = Server::start(script).await;
    let outcome = attempt(&settings(&format!("smtp://127.0.0.1:{}", server.port))).await;
    assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
    assert!(!server.commands().contains(&"STARTTLS".to_owned()));
}

#[tokio::test]
async fn no_mail_goes_out_where_tls_fails() {
    crypto();
    let (authority, ca_file, _directory) = tls_directory();
    let good = authority.acceptor("127.0.0.1");
    let other_name = authority.acceptor("mail.example.org");
    let other_authority = Authority::new().acceptor("127.0.0.1");
    let starttls = |acceptor: &tokio_rustls::TlsAcceptor| Script { starttls: Some(acceptor.clone()), ..Script::default() };
    let refusing = Script { faults: [("STARTTLS", Fault::Say("454 4.7.0 not now"))].into(), ..starttls(&good) };
    let hanging_up = Script { faults: [("STARTTLS", Fault::Close)].into(), ..starttls(&good) };
    let implicit = Script { implicit_tls: Some(other_authority.clone()), ..Script::default() };
    for (scheme, script, words) in [
        ("smtp+starttls", Script::default(), "does not offer STARTTLS"),
        ("smtp+starttls", refusing.clone(), "put off STARTTLS: 454"),
        ("smtp", refusing, "put off STARTTLS: 454"),
        ("smtp", hanging_up, "broke at STARTTLS"),
        ("smtp+starttls", starttls(&other_authority), "no secure connection to 127.0.0.1: invalid peer certificate"),
        ("smtp", starttls(&other_authority), "no secure connection to 127.0.0.1: invalid peer certificate"),
        ("smtps", implicit, "no secure connection to 127.0.0.1: invalid peer certificate"),
        ("smtp+starttls", starttls(&other_name), "invalid peer certificate: certificate not valid for name"),
        ("smtps", Script::default(), "no secure connection"),
    ] {
        let server = Server::start(script).await;
        let mut settings = settings(&format!("{scheme}://127.0.0.1:{}", server.port));
        settings.ca_file = Some(ca_file.clone());
        let outcome = attempt(&settings).await;
        let Outcome::Transient { reason, .. } = outcome else { panic!("{scheme} {words}: {outcome:?}") };
        assert!(reason.contains(words), "{scheme}: {reason}");
        assert_eq!(server.mails(), [], "{scheme} {words}");
        assert!(server.commands().iter().all(|command| !command.starts_with("MAIL")), "{scheme} {words}");
    }
}

#[tokio::test]
async fn answers_that_belong_to_other_commands_count_for_nothing() {
    crypto();
    let (authority, ca_file, _directory) = tls_directory();
    let slipped_in = ("STARTTLS", Fault::Say("220 go ahead\r\n250 slipped in before TLS"));
    let early = ("MAIL", Fault::Say("250 ok\r\n250 recipient ok, before it was named"));
    for fault in [slipped_in, early] {
        let script = Script { faults: [fault].into(), starttls: Some(authority.acceptor("127.0.0.1")), ..Script::default() };
        let server = Server::start(script).await;
        let mut settings = settings(&format!("smtp+starttls://127.0.0.1:{}", server.port));
        settings.ca_file = Some(ca_file.clone());
        let Outcome::Transient { reason, .. } = attempt(&settings).await else { panic!("taken for accepted") };
        assert!(reason.contains("the answers do not match the commands"), "{reason}");
        assert_eq!(server.mails(), []);
    }
}

#[tokio::test]
async fn the_login_is_sent_over_tls_and_a_wrong_one_is_the_operator_s_to_repair() {
    crypto();
    let (authority, ca_file, _directory) = tls_directory();
    let script = Script {
        starttls: Some(authority.acceptor("127.0.0.1")),
        login: Some(("anna", "hunter2")),
        auth_needs_tls: true,
        ..Script::default()
    };
    for scheme in ["smtp", "smtp+starttls"] {
        let server = Server::start(script.clone()).await;
        let mut settings = settings(&format!("{scheme}://anna@127.0.0.1:{}", server.port));
        settings.ca_file = Some(ca_file.clone());
        settings.password = Some(Password::from("hunter2".to_owned()));
        let outcome = attempt(&settings).await;
        assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        assert!(server.mails().iter().all(|mail| mail.encrypted && mail.logged_in));
        settings.password = Some(Password::from("hunter3".to_owned()));
        let Outcome::Transient { reason, .. } = attempt(&settings).await else { panic!("wrong password") };
        assert!(reason.contains("refused the login: 535 5.7.8 authentication failed"), "{reason}");
        assert!(!reason.contains("hunter"), "{reason}");
        assert_eq!(server.mails().len(), 1);
    }
    let server = Server::start(Script::default()).await;
    let mut settings = settings(&format!("smtp://anna@127.0.0.1:{}", server.port));
    settings.password = Some(Password::from("hunter2".to_owned()));
    settings.ca_file = Some(ca_file);
    let Outcome::Transient { reason, .. } = attempt(&settings).await else { panic!("no AUTH") };
    assert!(reason.contains("offers no login by PLAIN or LOGIN"), "{reason}");
}

#[tokio::test]
async fn the_password_is_in_no_log_however_loud() {
    use base64::Engine;
    crypto();
    let (_, ca_file, directory) = tls_directory();
    let path = directory.path().join("log");
    let file = std::fs::File::create(&path).expect("log");
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(std::sync::Mutex::new(file));
    let guard = tracing::subscriber::set_default(log.finish());
    let server = Server::start(Script { login: Some(("anna", "hunter2")), ..Script::default() }).await;
    let mut settings = settings(&format!("smtp://anna@localhost:{}", server.port));
    settings.ca_file = Some(ca_file);
    settings.password = Some(Password::from("hunter2".to_owned()));
    let outcome = attempt(&settings).await;
    assert!(matches!(outcome, Outcome::Delivered { .. }) && server.mails()[0].logged_in, "{outcome:?}");
    tracing::info!("the end");
    drop(guard);
    let logged = std::fs::read_to_string(path).expect("log");
    assert!(logged.contains("the end"), "the log is heard");
    let token = base64::engine::general_purpose::STANDARD.encode("\0anna\0hunter2");
    assert!(!logged.contains("hunter2") && !logged.contains(&token), "{logged}");
}

#[tokio::test]
async fn each_destination_goes_its_way_and_without_email_the_log_tells() {
    crypto();
    let webhook = || WebhookSender::new(WebhookSettings::default()).expect("sender");
    let email = Destination::Email(anna());
    let logging = Delivery { email: EmailChannel::Log, webhook: webhook(), links: None };
    let outcome = logging.deliver(&email, &Preset::Json, &[], &event_alert(), now()).await;
    assert_eq!(outcome, Outcome::Delivered { detail: "logged only: no [email] is configured".into() });
    let server = Server::start(Script::default()).await;
    let sender = EmailSender::new(&settings(&format!("smtp://127.0.0.1:{}", server.port))).expect("sender");
    let delivery = Delivery { email: EmailChannel::Sender(Box::new(sender)), webhook: webhook(), links: None };
    assert!(matches!(delivery.deliver(&email, &Preset::Json, &[], &digest_alert(), now()).await, Outcome::Delivered { .. }));
    assert!(server.mails()[0].text.contains("3 events withheld"));
    let hook = Destination::Webhook("https://127.0.0.1/".parse().expect("URL"));
    let outcome = delivery.deliver(&hook, &Preset::Json, &[crate::webhook::secret()], &event_alert(), now()).await;
    assert!(matches!(outcome, Outcome::Permanent { .. }), "guarded: {outcome:?}");
    delivery.close().await;
}
