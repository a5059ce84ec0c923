//! `throttler report`: shares, sums, sustained withholding, dead destinations.

use rusqlite::Connection;

use crate::place::Place;

const DAY_US: i64 = 86_400_000_000;
/// 2025-08-05T00:00:00Z in microseconds.
const END: i64 = 1_754_352_000_000_000;

/// Five subscribers with decisions on the days before [`END`]: `(name, day before the end, matched, refused)`.
fn prepared() -> Place {
    let place = Place::new();
    for (name, more) in
        [("calm", vec![]), ("gone", vec![]), ("held", vec![]), ("once", vec![]), ("trial", vec!["--mode", "shadow"])]
    {
        let email = format!("{name}@example.org");
        place.run(&[vec!["subscriber", "add", name, "--email", &email], more].concat()).ok();
    }
    let connection = Connection::open(place.path("throttler.db")).expect("opens");
    connection.execute_batch("PRAGMA foreign_keys = ON").expect("sql");
    let mut event = 0;
    for (name, day, matched, refused) in [
        ("calm", 0, 10, 1),
        ("calm", 1, 10, 5),
        ("held", 0, 8, 5),
        ("held", 1, 4, 3),
        ("held", 2, 10, 9),
        ("held", 3, 10, 9),
        ("held", 4, 3, 3),
        ("once", 0, 4, 4),
        ("trial", 0, 10, 9),
        ("trial", 1, 10, 9),
        ("trial", 2, 10, 9),
        ("gone", 2, 1, 0),
    ] {
        for at in 0..matched {
            event += 1;
            let (refused, decided_at) = (at < refused, END - day * DAY_US - 1 - at);
            let outcome = if name == "trial" || !refused { "alerted" } else { "withheld" };
            let sql = format!(
                "INSERT INTO events (event_key, preferred_id, origin_at, body, first_seen_at, changed_at, fate)
                 VALUES ({event}, 'us{event}', 0, '{{}}', 0, 0, 'open');
                 INSERT INTO outbox (delivery_key, event_key, subscriber_key, alert_id, alert, created_at, due_at, status, settled_at)
                 SELECT {event}, {event}, subscriber_key, 'a{event}', '{{}}', {decided_at}, 0, 'delivered', {decided_at} FROM subscribers
                 WHERE name = '{name}' AND '{outcome}' = 'alerted';
                 INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused, delivery_key)
                 SELECT {event}, subscriber_key, {decided_at}, '{outcome}', '', {refused}, iif('{outcome}' = 'alerted', {event}, NULL)
                 FROM subscribers WHERE name = '{name}';"
            );
            connection.execute_batch(&sql).expect(&sql);
        }
    }
    connection
        .execute_batch(
            "UPDATE subscribers SET standing = 'disabled', standing_reason = 'refused the recipient: 550 no such user' WHERE name = 'gone';
             UPDATE outbox SET status = 'dead' WHERE subscriber_key = (SELECT subscriber_key FROM subscribers WHERE name = 'gone')",
        )
        .expect("sql");
    place
}

#[test]
fn who_is_held_back_what_became_of_it_and_who_is_gone() {
    let place = prepared();
    insta::assert_snapshot!("report", place.run(&["report", "--to", "2025-08-05"]).ok());
    let report = place.run(&["report", "--from", "2025-08-04", "--to", "2025-08-05", "--format", "json"]).json();
    assert_eq!((&report["matched"], &report["refused"]), (&32.into(), &19.into()), "of one day");
    assert_eq!(report["outcomes"]["withheld"], 10);
    assert_eq!(report["sustained"], serde_json::json!(["held"]), "also over days before the stretch");
    let shares: Vec<String> = report["subscribers"]
        .as_array()
        .expect("subscribers")
        .iter()
        .map(|row| format!("{} {} {}", row["subscriber"], row["share_refused"], row["sustained_days"]).replace('"', ""))
        .collect();
    assert_eq!(shares, ["once 1.0 null", "trial 0.9 null", "held 0.625 4", "calm 0.1 null", "gone 0.0 null"]);
    assert_eq!(report["dead_destinations"][0]["subscriber"], "gone");
    assert_eq!(report["dead_destinations"][0]["dead_letters"], 0, "its dead letter is older");
    let week = place.run(&["report", "--days", "7", "--to", "2025-08-05", "--format", "json"]).json();
    assert_eq!(week["dead_destinations"][0]["dead_letters"], 1);
    let total: u64 = week["outcomes"].as_object().expect("outcomes").values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(week["matched"].as_u64(), Some(total));
    let limited = place.run(&["report", "--to", "2025-08-05", "--limit", "1", "--format", "json"]).json();
    assert_eq!(limited["subscribers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_a_report_cannot_be_of() {
    let place = prepared();
    for (args, words) in [
        (vec!["report", "--from", "2025-08-05", "--to", "2025-08-05"], "is not before --to"),
        (vec!["report", "--days", "0"], "0 is not in 1..=36500"),
        (vec!["report", "--days", "3", "--from", "2025-08-05"], "cannot be used with"),
    ] {
        let ran = place.run(&args);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
}
