//! `throttler status`: the same numbers whether the daemon runs or not.

use throttler::clock::{Clock, SystemClock};
use throttler::time::Span;

use crate::daemon::{Daemon, mails, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};

#[test]
fn it_tells_of_a_running_daemon_its_feed_and_what_it_did() {
    let place = place();
    for name in ["anna", "ben", "clara"] {
        place.run(&["subscriber", "add", name, "--email", &format!("{name}@example.org")]).ok();
    }
    place.run(&["subscriber", "pause", "clara"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 5.5)]);
    wait_for("both mails", || (mails(&place).len() == 2).then_some(()));
    let delivered = || {
        let found = place.run(&["status", "--format", "json"]).json();
        (found["outbox"]["due"] == 0 && found["outbox"]["leased"] == 0).then_some(found)
    };
    let found = wait_for("the receipts", delivered);
    let about = &found["daemon"];
    assert_eq!((&about["running"], &about["process"]), (&true.into(), &daemon.id().to_string().into()));
    assert_eq!((&about["version"], &about["configuration"]), (&env!("CARGO_PKG_VERSION").into(), &"throttler.toml".into()));
    assert_eq!((&about["stopped_at"], &about["reload"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert!(about["started_at"].is_string() && about["noted_at"].is_string() && about["status"].is_string(), "{about}");
    assert_eq!(found["subscribers"], serde_json::json!({ "active": 2, "paused": 1, "disabled": 0 }));
    assert_eq!((&found["events"]["known"], &found["events"]["undecided"]), (&1.into(), &0.into()));
    assert_eq!((&found["outbox"]["dead"], &found["outbox"]["oldest_due_at"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!((&found["feed"]["stale"], &found["feed"]["stale_since"]), (&false.into(), &serde_json::Value::Null));
    assert!(found["feed"]["polled_at"].is_string() && found["feed"]["generated_at"].is_string(), "{found}");
    let text = place.run(&["status"]).ok();
    assert!(text.starts_with(&format!("The daemon runs (process {}); the feed is fresh.\n", daemon.id())), "{text}");
    assert!(daemon.stop().success());
    let text = place.run(&["status"]).ok();
    assert!(text.starts_with("The daemon does not run; the feed is fresh.\n"), "{text}");
    let about = &place.run(&["status", "--format", "json"]).json()["daemon"];
    assert_eq!(
        (&about["running"], &about["process"], &about["status"]),
        (&false.into(), &serde_json::Value::Null, &"stopped".into())
    );
    for stage in ["ingest", "dispatch", "deliver"] {
        let turn = about["turns"][stage].as_str().expect(stage);
        assert!(Some(turn) >= about["started_at"].as_str() && Some(turn) <= about["stopped_at"].as_str(), "{about}");
        assert!(text.contains(&format!("{stage} {turn}, ")), "{text}");
    }
}

#[test]
fn of_a_daemon_that_was_killed_it_says_so_and_of_the_one_before_nothing() {
    let place = place();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    daemon.kill();
    let text = place.run(&["status"]).ok();
    assert!(text.starts_with("The daemon does not run, and did not stop in order; the feed is fresh.\n"), "{text}");
    // Whatever lies there instead of a note is no note.
    place.write("throttler.db.daemon.json", "{}");
    let refused = place.run(&["status"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.err.contains("cannot read throttler.db.daemon.json, in which the daemon tells of itself: "), "{refused:?}");
}

#[test]
fn it_tells_of_reloads() {
    let place = place();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let good = std::fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    let reload = |found: bool| {
        daemon.signal("HUP");
        wait_for("the reload", || {
            let about = place.run(&["status", "--database", "throttler.db", "--config", "good.toml", "--format", "json"]).json();
            (about["daemon"]["reload"]["applied"] == found).then_some(about["daemon"]["reload"].clone())
        })
    };
    place.write("good.toml", &good);
    place.replace("throttler.toml", "[feed]\npoll = 5\n");
    let refused = reload(false);
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.starts_with("throttler.toml:2: poll: ")), "{refused}");
    let text = place.run(&["status", "--config", "good.toml"]).ok();
    assert!(
        text.contains("last reload") && text.contains("refused ") && text.contains(" ago: throttler.toml:2: poll: "),
        "{text}"
    );
    place.replace("throttler.toml", &good);
    let applied = reload(true);
    assert_eq!(applied["detail"], serde_json::Value::Null);
    assert!(daemon.stop().success());
}

#[test]
fn it_tells_of_a_stale_feed() {
    let place = place();
    let made = SystemClock.now().minus(Span::from_seconds(7_200));
    place.write("feed.geojson", &format!(r#"{{"metadata":{{"generated":{}}},"features":[]}}"#, made.millis()));
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    assert!(daemon.stop().success());
    let text = place.run(&["status"]).ok();
    let stale = "The daemon does not run; the feed is stale: its service has made nothing new since ";
    assert!(text.starts_with(stale), "{text}");
    let feed = &place.run(&["status", "--format", "json"]).json()["feed"];
    assert_eq!((&feed["stale"], &feed["stale_since"]), (&true.into(), &feed["generated_at"]), "{feed}");
}

#[test]
fn without_a_database_there_is_nothing_to_tell() {
    let place = Place::new();
    let refused = place.run(&["status"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.contains("throttler.db"), "{refused:?}");
    assert!(place.files().is_empty(), "asking makes none");
}

#[test]
fn a_bad_configuration_is_told_and_so_is_the_rest() {
    let place = place();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    // Refused by the daemon at a reload, which goes on under the one before.
    place.replace("throttler.toml", "[feed]\npoll = 5\n");
    let ran = place.run(&["status"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.starts_with("throttler: throttler.toml:2: poll: ") && ran.err.lines().count() == 1, "{ran:?}");
    assert!(ran.out.starts_with(&format!("The daemon runs (process {}); the feed is fresh.\n", daemon.id())), "{ran:?}");
    assert!(ran.out.contains("0 due, 0 under way, 0 dead") && ran.out.contains("/feed.geojson\n"), "{ran:?}");
    let ran = place.run(&["status", "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(
        (ran.status, &told["feed"]["stale"], &told["daemon"]["running"]),
        (Some(2), &false.into(), &true.into()),
        "{told}"
    );
    assert!(ran.err.contains(told["configuration"]["fault"].as_str().expect("a fault")), "{ran:?}");
    assert!(daemon.stop().success());

    // Without a word of the daemon's the feed is not known, which is not to say that it is well.
    std::fs::remove_file(place.path("throttler.db.daemon.json")).expect("a note");
    let ran = place.run(&["status"]);
    assert!(ran.out.starts_with("The daemon does not run; which feed it polls is not known.\n"), "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&place.run(&["status", "--format", "json"]).out).expect("JSON");
    assert_eq!((&told["feed"]["stale"], &told["feed"]["url"]), (&serde_json::Value::Null, &serde_json::Value::Null), "{told}");
    // The database is the one that it names, as far as that can be read, or that is named beside it.
    place.replace("throttler.toml", "database = \"other.db\"\n[feed\n");
    let ran = place.run(&["status"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.starts_with("throttler: throttler.toml:2: ") && ran.err.lines().count() == 1, "{ran:?}");
    assert!(ran.err.ends_with("; and there is no database other.db: --database names one\n"), "{ran:?}");
    std::fs::rename(place.path("throttler.db"), place.path("other.db")).expect("it is there");
    for command in [&["status"][..], &["status", "--database", "other.db"]] {
        let ran = place.run(command);
        assert!(ran.status == Some(2) && ran.out.contains("other.db, "), "{ran:?}");
    }
}
