//! Messages word for word: the golden files are what a subscriber reads.

use throttler::delivery::Unsubscribe;
use throttler::delivery::render::{Rendered, render};

use throttler::alert::{Alert, Content, Update};
use throttler::revision::visible;

use crate::alerts::{
    digest_alert, event_alert, exercise_alert, first, great, hostile_alert, late_alert, notice_alert, update_alert,
    withdrawal_alert,
};

fn rendered(alert: &throttler::alert::Alert) -> Rendered {
    render(alert, &Unsubscribe::by_mail("alerts@example.org", &alert.subscriber))
}

fn golden(name: &str, alert: &throttler::alert::Alert) {
    let Rendered { subject, text, html } = rendered(alert);
    insta::assert_snapshot!(format!("{name}.txt"), format!("Subject: {subject}\n\n{text}"));
    insta::assert_snapshot!(format!("{name}.html"), html);
}

#[test]
fn each_kind_reads_as_agreed() {
    golden("event", &event_alert());
    golden("late", &late_alert());
    golden("digest", &digest_alert());
    golden("exercise", &exercise_alert());
}

#[test]
fn an_update_and_a_withdrawal_read_as_agreed() {
    golden("update", &update_alert());
    golden("withdrawal", &withdrawal_alert());
}

#[test]
fn a_notice_to_the_operator_reads_as_agreed() {
    golden("notice", &notice_alert());
}

#[test]
fn hostile_texts_stay_texts_in_an_update() {
    let Content::Event { event, .. } = hostile_alert().content else { panic!("an event") };
    let update = Update {
        changes: visible(&great(), &event),
        event: std::sync::Arc::unwrap_or_clone(event),
        before: great(),
        of: first(&hostile_alert()),
    };
    let alert = Alert { content: Content::Update(Box::new(update)), ..hostile_alert() };
    let Rendered { subject, text, html } = rendered(&alert);
    assert!(!subject.contains(|c: char| c.is_control()), "{subject:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.lines().all(|line| line != "." && !line.starts_with("Bcc") && !line.starts_with("QUIT")), "{text}");
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("javascript:"), "{html}");
}

#[test]
fn hostile_texts_stay_texts() {
    let alert = hostile_alert();
    golden("hostile", &alert);
    let Rendered { subject, text, html } = rendered(&alert);
    assert!(!subject.contains(|c: char| c.is_control()), "{subject:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.lines().all(|line| line != "." && !line.starts_with("Bcc") && !line.starts_with("QUIT")), "{text}");
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("javascript:"), "{html}");
    assert!(!html.contains('\u{202e}') && !text.contains('\u{202e}'));
}

#[test]
fn the_next_is_never_promised_too_early() {
    // 01:42:00.250 is told as 01:42:01.
    let text = rendered(&late_alert()).text;
    assert!(text.contains("No more alerts may come now; the next is possible at 2025-07-30 01:42:01 UTC (in 12 min)."), "{text}");
}

#[test]
fn where_the_limit_has_room_and_quiet_hours_have_not_it_says_so() {
    let mut alert = late_alert();
    alert.explanation.remaining = 7;
    let text = rendered(&alert).text;
    let next = "7 more alerts may come after quiet hours; the next is possible at 2025-07-30 01:42:01 UTC (in 12 min).";
    assert!(text.contains(next), "{text}");
}
