//! `subscriber` and `ledger`: what goes in comes out.

use serde_json::{Value, json};

use crate::place::{Place, Ran};

fn show(place: &Place, name: &str) -> Value {
    place.run(&["subscriber", "show", name, "--format", "json"]).json()
}

#[test]
fn a_subscriber_is_added_shown_changed_paused_resumed_and_removed() {
    let place = Place::new();
    let added = place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    insta::assert_snapshot!("subscriber_add", added);
    assert_eq!(place.run(&["subscriber", "list"]).ok().lines().next(), Some("1 subscriber"));
    insta::assert_snapshot!("subscriber_list", place.run(&["subscriber", "list"]).ok());
    let shown = place.run(&["subscriber", "show", "anna"]).ok();
    let stable: String = shown.lines().filter(|line| !line.starts_with("  since")).map(|line| line.to_owned() + "\n").collect();
    insta::assert_snapshot!("subscriber_show", stable);
    let defaults = show(&place, "anna");
    assert_eq!(defaults["policy"]["limit"], serde_json::json!({ "algorithm": "token-bucket", "rate": "5/h", "bucket": 74 }));
    assert_eq!(
        (&defaults["excess"], &defaults["mode"], &defaults["standing"]),
        (&"digest".into(), &"enforce".into(), &"active".into())
    );
    assert_eq!((&defaults["most_in_any_window"], &defaults["remaining"]), (&78.into(), &74.into()));
    assert_eq!((&defaults["interest"]["min_magnitude"], &defaults["interest"]["kinds"][0]), (&5.0.into(), &"earthquake".into()));

    let flags = [
        "--min-magnitude",
        "-1.5",
        "--max-depth-km",
        "70",
        "--bbox",
        "150,45,-170,60",
        "--type",
        "any",
        "--tsunami",
        "--min-alert",
        "yellow",
        "--limiter",
        "sliding-counter",
        "--rate",
        "13/90m",
        "--counter-rule",
        "fits",
        "--excess",
        "delay",
        "--always-from",
        "7",
        "--reserve",
        "3",
        "--reserve-from",
        "6.5",
        "--mode",
        "shadow",
    ];
    let mut args = vec!["subscriber", "set", "anna"];
    args.extend(flags);
    place.run(&args).ok();
    let changed = show(&place, "anna");
    assert_eq!(changed["interest"]["min_magnitude"], -1.5);
    assert_eq!((&changed["excess"], &changed["mode"]), (&"delay".into(), &"shadow".into()));
    assert_eq!(changed["policy"]["limit"]["counter_rule"], "fits");
    place.run(&["subscriber", "set", "anna", "--near", "-52.5,-160", "--within-km", "300"]).ok();
    place.run(&["subscriber", "set", "anna", "--within-km", "200"]).ok();
    assert!(show(&place, "anna")["interest"]["region"].to_string().contains("200"));
    place
        .run(&[
            "subscriber",
            "set",
            "anna",
            "--near",
            "none",
            "--max-depth-km",
            "none",
            "--reserve",
            "none",
            "--always-from",
            "none",
            "--tsunami",
            "false",
            "--min-alert",
            "none",
        ])
        .ok();
    let lifted = show(&place, "anna");
    assert!(["region", "max_depth_km", "min_pager"].iter().all(|key| lifted["interest"][key].is_null()), "{lifted}");
    assert!(lifted["policy"].get("reserve").is_none() && lifted["policy"].get("always_from").is_none(), "{lifted}");

    for (command, standing) in [("pause", "paused"), ("resume", "active")] {
        place.run(&["subscriber", command, "anna"]).ok();
        assert_eq!(show(&place, "anna")["standing"], standing);
    }
    place.run(&["subscriber", "remove", "anna"]).ok();
    assert_eq!(place.run(&["subscriber", "show", "anna"]).status, Some(2));
    assert!(place.run(&["subscriber", "list"]).ok().starts_with("No subscribers yet"));
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
}

#[test]
fn quiet_hours_are_set_changed_piece_by_piece_carried_along_and_lifted() {
    let place = Place::new();
    let night = ["--quiet", "22:00-07:00", "--zone", "Asia/Kamchatka", "--quiet-below", "6.5"];
    place.run(&[&["subscriber", "add", "anna", "--email", "anna@example.org"][..], &night].concat()).ok();
    let shown = place.run(&["subscriber", "show", "anna"]).ok();
    assert!(shown.contains("  quiet      22:00-07:00 Asia/Kamchatka, below M 6.5"), "{shown}");
    assert!(show(&place, "anna").get("quiet_until").is_some());
    let exported = place.run(&["subscriber", "export"]).ok();
    let other = Place::new();
    other.run_with(&["subscriber", "import", "-"], &exported).ok();
    let quiet = |place: &Place| show(place, "anna")["quiet"].clone();
    assert_eq!(quiet(&other), json!({ "hours": "22:00-07:00", "zone": "Asia/Kamchatka", "below": 6.5 }));
    for (flags, expected) in [
        (&["--zone", "Europe/Berlin"][..], json!({ "hours": "22:00-07:00", "zone": "Europe/Berlin", "below": 6.5 })),
        (&["--quiet", "23:00-06:00"], json!({ "hours": "23:00-06:00", "zone": "Europe/Berlin", "below": 6.5 })),
        (&["--quiet-below", "none"], json!({ "hours": "23:00-06:00", "zone": "Europe/Berlin" })),
        (&["--rate", "6/h"], json!({ "hours": "23:00-06:00", "zone": "Europe/Berlin" })),
        (&["--quiet", "none"], Value::Null),
        (&["--quiet", "01:00-02:00"], json!({ "hours": "01:00-02:00", "zone": "UTC" })),
    ] {
        place.run(&[&["subscriber", "set", "anna"][..], flags].concat()).ok();
        assert_eq!(quiet(&place), expected, "{flags:?}");
    }
    let listed = place.run(&["subscriber", "list", "--format", "json"]).json();
    assert_eq!(listed["subscribers"][0]["quiet"]["hours"], "01:00-02:00");
}

#[test]
fn updates_are_major_ones_unless_set_and_are_carried_along() {
    let place = Place::new();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    assert_eq!(show(&place, "anna")["updates"], "major");
    for wanted in ["none", "all"] {
        place.run(&["subscriber", "set", "anna", "--updates", wanted]).ok();
        assert_eq!(show(&place, "anna")["updates"], wanted);
        assert!(place.run(&["subscriber", "show", "anna"]).ok().contains(&format!("  updates    {wanted}\n")));
    }
    assert_eq!(show(&place, "anna")["updates_told"]["sent"], 0);
    let exported = place.run(&["subscriber", "export"]).ok();
    let other = Place::new();
    other.run_with(&["subscriber", "import", "-"], &exported).ok();
    assert_eq!(show(&other, "anna")["updates"], "all");
    // As an older version wrote it.
    let older = exported.replace("\"updates\": \"all\"", "\"mode\": \"enforce\"").replacen("\"mode\": \"enforce\",", "", 1);
    assert!(!older.contains("updates"), "{older}");
    let third = Place::new();
    third.run_with(&["subscriber", "import", "-"], &older).ok();
    assert_eq!(show(&third, "anna")["updates"], "major");
    let refused = place.run(&["subscriber", "set", "anna", "--updates", "some"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.err.contains("expected none, major or all"), "{}", refused.err);
}

#[test]
fn a_webhook_has_a_secret_that_is_told_once_and_can_be_replaced() {
    let place = Place::new();
    let secret = |ran: Ran| {
        let text = ran.ok();
        let line = text.lines().find_map(|line| line.split_once("whsec_")).expect("a secret").1.to_owned();
        "whsec_".to_owned() + line.trim()
    };
    let first = secret(place.run(&["subscriber", "add", "hook", "--webhook", "https://example.org/x"]));
    assert!(!place.run(&["subscriber", "show", "hook"]).ok().contains("whsec_"), "only when asked for");
    assert_eq!(place.run(&["subscriber", "show", "hook", "--secret", "--format", "json"]).json()["secret"], first.as_str());
    assert!(!place.run(&["subscriber", "set", "hook", "--rate", "3/h"]).ok().contains("whsec_"));
    let second = secret(place.run(&["subscriber", "set", "hook", "--new-secret"]));
    assert_ne!(first, second);
    place.run(&["subscriber", "add", "mail", "--email", "a@example.org"]).ok();
    assert_eq!(place.run(&["subscriber", "set", "mail", "--new-secret"]).status, Some(2));
    let third = secret(place.run(&["subscriber", "set", "mail", "--webhook", "https://example.org/y"]));
    assert_eq!(place.run(&["subscriber", "show", "mail", "--secret", "--format", "json"]).json()["secret"], third.as_str());
}

#[test]
fn what_is_exported_can_be_imported_elsewhere_and_is_the_same() {
    let place = Place::new();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org", "--near", "52.5,160.5", "--within-km", "300"]).ok();
    place
        .run(&[
            "subscriber",
            "add",
            "hook",
            "--webhook",
            "https://example.org/x",
            "--limiter",
            "sliding-log",
            "--rate",
            "100/60s",
            "--excess",
            "drop",
        ])
        .ok();
    let with_secrets = place.run(&["subscriber", "export", "--secrets"]).ok();
    let without = place.run(&["subscriber", "export"]).ok();
    assert!(with_secrets.contains("whsec_") && !without.contains("whsec_"));

    let other = Place::new();
    other.write("all.json", &with_secrets);
    assert_eq!(other.run(&["subscriber", "import", "all.json"]).ok(), "Added 2 subscribers.\n");
    assert_eq!(other.run(&["subscriber", "export", "--secrets"]).ok(), with_secrets);
    let again = other.run(&["subscriber", "import", "all.json"]);
    assert!(again.status == Some(2) && again.err.contains("there is already a subscriber 'anna'"), "{again:?}");
    assert_eq!(other.run(&["subscriber", "export", "--secrets"]).ok(), with_secrets, "all or none");

    let third = Place::new();
    third.run_with(&["subscriber", "import", "-"], &without).ok();
    assert_eq!(third.run(&["subscriber", "export"]).ok(), without);
    assert_ne!(
        third.run(&["subscriber", "export", "--secrets"]).ok(),
        with_secrets,
        "a new secret is made where none comes along"
    );
}

#[test]
fn the_database_is_where_the_flag_the_configuration_or_systemd_says() {
    let place = Place::new();
    place.write("named.toml", "database = \"configured.db\"\n");
    let add = ["subscriber", "add", "anna", "--email", "anna@example.org"];
    let with = |more: &[&'static str]| [&add[..], more].concat();
    place.run(&with(&["--database", "flagged.db"])).ok();
    place.run(&with(&["--config", "named.toml"])).ok();
    place.run(&add).ok();
    std::fs::create_dir(place.path("state")).expect("a directory");
    let state = place.command(&add).env("STATE_DIRECTORY", place.path("state")).output().expect("the program");
    assert!(state.status.success());
    for file in ["flagged.db", "configured.db", "throttler.db", "state/throttler.db"] {
        assert!(place.path(file).exists(), "{file}");
    }
}

#[test]
fn an_empty_ledger_says_so() {
    let place = Place::new();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    assert_eq!(place.run(&["ledger"]).ok(), "0 decisions, 0 of them refused by the limiter\n");
    assert_eq!(
        place.run(&["ledger", "--format", "json", "--subscriber", "anna"]).json(),
        serde_json::json!({ "ledger_from": null, "decisions": [], "updates": [] })
    );
}

#[test]
fn a_subscriber_to_events_that_are_not_recorded_is_told_so() {
    let place = Place::new();
    let note = "Note: the daemon records events of M 5.0 or more (feed.min_magnitude), smaller ones do not get here.\n";
    let small = ["subscriber", "add", "anna", "--email", "anna@example.org", "--min-magnitude", "4.5"];
    assert!(place.run(&small).ok().ends_with(note));
    assert!(!place.run(&["subscriber", "set", "anna", "--min-magnitude", "5"]).ok().contains("Note:"));
    assert!(place.run(&["subscriber", "set", "anna", "--min-magnitude", "4.9"]).ok().ends_with(note));
    place.write("throttler.toml", "[feed]\nmin_magnitude = 4.5\n");
    assert!(!place.run(&["subscriber", "set", "anna", "--min-magnitude", "4.6"]).ok().contains("Note:"));
}
