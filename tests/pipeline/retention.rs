//! Retention: what is old and settled leaves the ledger, what waits stays, and nothing comes back as news.

use throttler::daemon::prune::sweep;
use throttler::limiter::{Algorithm, Policy};
use throttler::store::{PruneCursor, Pruned};
use throttler::subscriber::{Excess, Standing, Subscriber, Updates};
use throttler::time::Span;

use crate::rig::{HOUR, Quake, Rig, limit, mailed};

const DAY: u64 = 24 * HOUR;
const KEEP: Span = Span::from_seconds(90 * DAY);

/// One message a day, and a digest of the rest.
fn rationed(who: &str) -> Subscriber {
    let policy = Policy::plain(limit(Algorithm::TokenBucket, "1/d", Some(1)));
    Subscriber { policy, excess: Excess::Digest, ..mailed(who) }
}

/// So many days later, after a poll that shows these.
async fn days_later(rig: &mut Rig, days: u64, quakes: &[Quake]) {
    rig.pass(days * DAY);
    rig.see(quakes).await;
}

async fn prune(rig: &mut Rig, keep: Span) -> Pruned {
    let (database, now) = (rig.parts().database.clone(), rig.clock_plus(0));
    sweep(&database, keep, now).await.expect("the ledger is pruned")
}

/// The subscribers with all that the limiters spent.
fn limiters(rig: &Rig) -> Vec<Vec<String>> {
    rig.rows("SELECT subscriber_key, state, wake_at FROM subscribers LEFT JOIN limiters USING (subscriber_key) ORDER BY subscriber_key")
}

#[tokio::test]
async fn what_is_old_goes_and_what_is_kept_adds_up() {
    let mut rig = Rig::with(&[mailed("anna"), rationed("ben")]).await;
    let old = [Quake::new(&rig, "us1", 5.1, 1), Quake::new(&rig, "us2", 5.2, 2)];
    rig.see(&old).await;
    days_later(&mut rig, 2, &old).await;
    rig.pass(8 * DAY);
    let young = [Quake::new(&rig, "us3", 5.3, 1), Quake::new(&rig, "us4", 5.4, 2)];
    rig.see(&young).await;
    days_later(&mut rig, 2, &young).await;
    assert_eq!(prune(&mut rig, KEEP).await, Pruned::default(), "nothing is old enough yet");
    assert_eq!(rig.store().ledger_from().expect("read"), None);
    assert_eq!(rig.outcomes("ben"), ["us1 digested", "us2 alerted", "us3 digested", "us4 alerted"]);

    days_later(&mut rig, 83, &[]).await;
    let (spent, messages) = (limiters(&rig), rig.number("SELECT count(*) FROM outbox"));
    let pruned = prune(&mut rig, KEEP).await;
    assert_eq!(pruned, Pruned { decisions: 4, messages: 4, ..Pruned::default() });
    assert_eq!(rig.outcomes("ben"), ["us3 digested", "us4 alerted"]);
    assert_eq!(rig.outcomes("anna"), ["us3 alerted", "us4 alerted"]);
    assert_eq!(rig.number("SELECT count(*) FROM outbox"), messages - 4);
    assert_eq!(limiters(&rig), spent);
    assert_eq!(rig.store().ledger_from().expect("read"), Some(rig.clock_minus(90 * DAY)));
    rig.check_books();
    assert_eq!(prune(&mut rig, KEEP).await, Pruned::default(), "once");
    assert_eq!(rig.number("SELECT count(*) FROM events"), 4, "what was an event stays one");
}

#[tokio::test]
async fn a_digest_goes_with_the_last_event_that_it_told_of() {
    let mut rig = Rig::with(&[rationed("ben")]).await;
    let first = Quake::new(&rig, "us1", 5.9, 1);
    rig.see(std::slice::from_ref(&first)).await;
    let second = Quake::new(&rig, "us2", 5.2, 1);
    rig.see(&[second, first]).await;
    rig.pass(HOUR);
    let third = Quake::new(&rig, "us3", 5.3, 1);
    rig.see(&[third]).await;
    days_later(&mut rig, 1, &[]).await;
    assert_eq!(rig.outcomes("ben"), ["us1 alerted", "us2 digested", "us3 digested"]);
    rig.pass(88 * DAY + 24 * HOUR - HOUR / 2);
    rig.see(&[]).await;
    // The first two are old enough, and the digest that told of the second is not.
    assert_eq!(prune(&mut rig, KEEP).await, Pruned { decisions: 1, messages: 1, ..Pruned::default() });
    assert_eq!(rig.outcomes("ben"), ["us2 digested", "us3 digested"]);
    days_later(&mut rig, 2, &[]).await;
    assert_eq!(prune(&mut rig, KEEP).await, Pruned { decisions: 2, messages: 1, ..Pruned::default() });
    rig.check_books();
}

#[tokio::test]
async fn what_waits_is_due_or_died_lately_stays() {
    let hooked = |rig: &Rig, who: &str| Subscriber { updates: Updates::All, ..rig.hooked(who) };
    let mut rig = Rig::fresh().await;
    let subscribers = [rationed("pending"), mailed("due"), hooked(&rig, "updated"), mailed("dead"), mailed("done")];
    rig.add(&subscribers);
    rig.poll().await;
    let quake = Quake::new(&rig, "us1", 5.1, 1);
    rig.see(&[Quake::new(&rig, "us0", 6.0, 5), quake.clone()]).await;
    rig.stand("pending", Standing::Paused);
    // A message that was put back into the outbox by hand, and one that was given up only last week.
    let mine = |who: &str| {
        format!(
            "delivery_key = (SELECT d.delivery_key FROM decisions AS d JOIN subscribers USING (subscriber_key)
                 JOIN events USING (event_key) WHERE name = '{who}' AND preferred_id = 'us1')"
        )
    };
    rig.pass(95 * DAY);
    let lately = rig.clock_minus(7 * DAY).ticks();
    rig.run(&format!("UPDATE outbox SET status = 'due', settled_at = NULL WHERE {}", mine("due")));
    rig.run(&format!("UPDATE outbox SET status = 'dead', settled_at = {lately} WHERE {}", mine("dead")));
    // An update that waits for a limiter.
    rig.run(
        "INSERT INTO updates (event_key, subscriber_key, revision, kind, decided_at, outcome, reason, refused)
         SELECT event_key, subscriber_key, seen_at, 'update', seen_at, 'waiting', '', 1
         FROM revisions JOIN events USING (event_key), subscribers WHERE preferred_id = 'us1' AND name = 'updated'",
    );
    rig.show(&[]);
    rig.poll().await;
    let pruned = prune(&mut rig, KEEP).await;
    for (who, left) in [
        ("pending", vec!["us1 pending"]),
        ("due", vec!["us1 alerted"]),
        ("updated", vec!["us0 alerted", "us1 alerted"]),
        ("dead", vec!["us1 alerted"]),
        ("done", vec![]),
    ] {
        assert_eq!(rig.outcomes(who), left, "{who}");
    }
    assert_eq!((pruned.decisions, pruned.messages), (5, 5));
    rig.check_books();
    // When it is over, it goes.
    rig.deliver().await;
    rig.run("UPDATE updates SET outcome = 'superseded'");
    rig.stand("pending", Standing::Active);
    rig.settle().await;
    days_later(&mut rig, 91, &[]).await;
    prune(&mut rig, KEEP).await;
    assert!(rig.ledger().is_empty() && rig.number("SELECT count(*) FROM outbox") == 0);
    assert_eq!(rig.number("SELECT count(*) FROM updates"), 0);
    rig.check_books();
}

#[tokio::test]
async fn an_event_that_changed_lately_stays_with_all_that_was_told_of_it() {
    let mut rig = Rig::with(&[Subscriber { updates: Updates::All, ..mailed("anna") }]).await;
    let quake = Quake::new(&rig, "us1", 5.1, 1);
    rig.see(std::slice::from_ref(&quake)).await;
    rig.pass(60);
    rig.see(&[quake.revised(5.9)]).await;
    rig.pass(60 * DAY);
    let gone = Quake { status: "deleted", ..quake.revised(5.9).revised(5.9) };
    rig.see(&[gone]).await;
    assert_eq!(rig.mails().len(), 3);
    days_later(&mut rig, 60, &[]).await;
    assert_eq!(prune(&mut rig, KEEP).await, Pruned::default());
    days_later(&mut rig, 31, &[]).await;
    let pruned = prune(&mut rig, KEEP).await;
    assert_eq!(pruned, Pruned { decisions: 1, updates: 2, messages: 3, revisions: 2, ..Pruned::default() });
    assert_eq!(rig.number("SELECT count(*) FROM revisions"), 1, "what was known last");
    rig.check_books();
}

#[tokio::test]
async fn what_was_pruned_does_not_come_again_as_news_from_a_feed_of_a_month() {
    let mut rig = Rig::with(&[mailed("anna"), rationed("ben")]).await;
    let quake = Quake::new(&rig, "us1", 5.1, 1);
    let other = Quake { latitude: -20.0, ..Quake::new(&rig, "us2", 5.2, 600) };
    rig.see(&[quake.clone(), other.clone()]).await;
    days_later(&mut rig, 3, &[quake.clone(), other.clone()]).await;
    assert_eq!(prune(&mut rig, Span::from_seconds(2 * DAY)).await.decisions, 3);
    let (mails, left) = (rig.mails().len(), rig.ledger().len());
    // As it was, revised, under another id, linked to the other one, and to whoever comes now.
    rig.add(&[mailed("carl")]);
    for shown in [
        vec![quake.clone(), other.clone()],
        vec![quake.revised(6.8), other.clone()],
        vec![quake.revised(6.8).renamed("ak1"), other.clone()],
        vec![Quake { other_ids: vec!["us1".into(), "ak1".into()], ..other.revised(7.0).revised(7.1).revised(7.2) }],
    ] {
        rig.pass(HOUR);
        rig.show(&shown);
        let ingested = rig.poll().await;
        assert_eq!((ingested.new, ingested.to_dispatch), (0, 0), "{shown:?}");
        rig.settle().await;
        prune(&mut rig, Span::from_seconds(2 * DAY)).await;
    }
    assert_eq!(rig.mails().len(), mails);
    assert_eq!(rig.ledger().len(), left, "nobody was asked again");
    rig.check_books();
}

#[tokio::test]
async fn many_steps_and_a_crash_after_each() {
    let subscribers: Vec<_> = (0..1_200).map(|at| Subscriber { updates: Updates::All, ..mailed(&format!("s{at}")) }).collect();
    let mut rig = Rig::with(&subscribers).await;
    let quake = Quake::new(&rig, "us1", 5.1, 1);
    rig.show(std::slice::from_ref(&quake));
    rig.poll().await;
    rig.dispatch().await;
    rig.pass(60);
    rig.show(&[quake.revised(5.9)]);
    rig.poll().await;
    rig.dispatch().await;
    let settled = format!("UPDATE outbox SET status = 'delivered', settled_at = {}", rig.clock_plus(0).ticks());
    rig.run(&settled);
    days_later(&mut rig, 91, &[]).await;
    let spent = limiters(&rig);
    let (before, mut steps, mut total) = (rig.clock_minus(90 * DAY), 0, Pruned::default());
    let mut from = Some(PruneCursor::default());
    while let Some(cursor) = from {
        let pruned = rig.parts().database.with(move |store| store.prune(before, cursor)).await.expect("a step");
        assert!(pruned.decisions <= 1_000 && pruned.updates <= 1_000, "{pruned:?}");
        (total, steps) = (total.and(pruned), steps + 1);
        let wrong = "SELECT (SELECT count(*) FROM updates AS u WHERE NOT EXISTS (SELECT 1 FROM decisions AS d
                             WHERE d.event_key = u.event_key AND d.subscriber_key = u.subscriber_key))
                          + (SELECT count(*) FROM outbox AS o WHERE NOT EXISTS (SELECT 1 FROM decisions WHERE delivery_key = o.delivery_key)
                             AND NOT EXISTS (SELECT 1 FROM updates WHERE delivery_key = o.delivery_key))
                         ";
        assert_eq!(rig.number(wrong), 0, "after step {steps}");
        // Every other time everything is forgotten but the database.
        from = pruned.next;
        if steps % 2 == 0 && from.is_some() {
            rig.restart().await;
            from = Some(PruneCursor::default());
        }
    }
    assert_eq!((total.decisions, total.updates, total.messages, total.revisions), (1_200, 1_200, 2_400, 1));
    assert_eq!(rig.number("SELECT count(*) FROM contents"), 0, "nothing says it any more");
    assert!(steps >= 4, "{steps}");
    assert_eq!(limiters(&rig), spent);
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_deletes_nothing() {
    let mut rig = Rig::with(&[mailed("anna")]).await;
    rig.see(&[Quake::new(&rig, "us1", 5.1, 1)]).await;
    rig.pass(3_650 * DAY);
    assert_eq!(prune(&mut rig, KEEP).await, Pruned::default(), "the feed is not that new");
    rig.see(&[]).await;
    assert_eq!(prune(&mut rig, KEEP).await.decisions, 1, "now it is");
}
