//! Limits on deliveries, layered: what they let pass, what waits for them, and whom that does not hold up.

use std::sync::Arc;

use throttler::clock::{Clock, ManualClock};
use throttler::daemon::{Deliverer, Egress};
use throttler::limiter::{Algorithm, Limit};
use throttler::limits::{Covers, DeliveryLimit, Kind};
use throttler::subscriber::{Destination, Subscriber, Tags};

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, mailed, subscriber};

fn named(name: &str, covers: Covers, limit: Limit) -> DeliveryLimit {
    DeliveryLimit { name: name.parse().expect(name), covers, limit, cost: 1, shared: None }
}

fn bucket(rate: &str, bucket: u64) -> Limit {
    limit(Algorithm::TokenBucket, rate, Some(bucket))
}

fn tagged(covers: &str) -> Covers {
    Covers::Tag(covers.parse().expect("a tag"))
}

/// A deliverer that begins with these limits, unspent.
fn limited(rig: &mut Rig, limits: Vec<DeliveryLimit>) {
    let (database, delivery) = (rig.parts().database.clone(), Arc::clone(&rig.delivery));
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&rig.clock);
    let egress = Egress { limits, ..Egress::default() };
    rig.parts().deliverer = Deliverer::with_limits(database, delivery, clock, egress);
}

/// An event of this magnitude is decided for all, and nothing delivered yet.
async fn decided(rig: &mut Rig, size: f64) {
    rig.show(&[Quake::new(rig, &format!("us{size}"), size, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
}

/// Subscribers to one webhook, who have these tags.
fn crowd(rig: &Rig, path: &str, size: usize, tags: Option<&str>) -> Vec<Subscriber> {
    let url = format!("http://127.0.0.1:{}/{path}", rig.receiver.port);
    let one = |at| {
        let mut one = subscriber(&format!("{path}{at}"), Destination::Webhook(url.parse().expect("a URL")));
        one.tags = tags.map_or_else(Tags::default, |tags| tags.parse().expect("tags"));
        one
    };
    (0..size).map(one).collect()
}

fn waiting(rig: &Rig) -> i64 {
    rig.number("SELECT count(*) FROM outbox WHERE status = 'due' AND attempts = 0")
}

#[tokio::test]
async fn all_limits_that_cover_a_delivery_have_to_let_it_pass_and_what_waits_is_not_dropped() {
    let mut rig = Rig::with(&[mailed("anna"), mailed("bella"), mailed("carl")]).await;
    rig.add(&[rig.hooked("dora"), rig.hooked("emil")]);
    let all = named("all", Covers::All, bucket("3/h", 3));
    let email = named("email", Covers::Channel(Kind::Email), limit(Algorithm::FixedWindow, "1/h", None));
    limited(&mut rig, vec![email, all]);
    decided(&mut rig, 6.0).await;
    rig.deliver().await;
    let sent = |rig: &Rig| (rig.mails().len(), rig.receiver.requests().len());
    assert_eq!((sent(&rig), waiting(&rig)), ((1, 2), 2), "one email, and three in all");
    let next = rig.parts().deliverer.turn().await.expect("a turn");
    assert_eq!(next, Some(rig.clock_plus(20 * MINUTE)), "as soon as either lets something pass");
    // The bucket of all is not charged while the window of email refuses.
    for minutes in [20, 40] {
        rig.pass(20 * MINUTE);
        rig.deliver().await;
        assert_eq!((sent(&rig), waiting(&rig)), ((1, 2), 2), "after {minutes} minutes");
    }
    rig.pass(20 * MINUTE);
    decided(&mut rig, 5.5).await;
    rig.deliver().await;
    assert_eq!(sent(&rig), (2, 4), "three have come together meanwhile, of which one may be an email");
    for _ in 0..4 {
        rig.pass(HOUR);
        rig.deliver().await;
    }
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status <> 'delivered' OR attempts <> 1"), 0);
    assert_eq!(sent(&rig), (6, 4));
}

#[tokio::test]
async fn what_waits_for_a_limit_holds_up_nobody_else_and_the_largest_go_first() {
    let mut rig = Rig::with(&[]).await;
    let bulk = crowd(&rig, "bulk", 1_200, Some("bulk"));
    rig.add(&bulk);
    rig.add(&crowd(&rig, "both", 1, Some("bulk,vip")));
    rig.add(&crowd(&rig, "vip", 20, Some("vip")));
    rig.add(&[rig.hooked("anna")]);
    limited(&mut rig, vec![named("bulk", tagged("bulk"), bucket("60/h", 2)), named("vip", tagged("vip"), bucket("15/h", 15))]);
    decided(&mut rig, 8.0).await;
    rig.deliver().await;
    let sent = |rig: &Rig| ["bulk", "both", "vip", "anna"].map(|path| rig.hooks(path).len());
    let [bulk, both, vip, anna] = sent(&rig);
    assert_eq!((bulk + both, vip + both, anna), (2, 15, 1), "two of each thousand, and whoever is not limited at once");
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE attempts > 0 AND status <> 'delivered'"), 0);
    // The larger event overtakes what waits.
    decided(&mut rig, 9.0).await;
    let titles = rig.hooks("anna").len();
    rig.pass(MINUTE);
    rig.deliver().await;
    assert_eq!(rig.hooks("anna").len(), titles + 1);
    rig.pass(2 * MINUTE);
    rig.deliver().await;
    let of_bulk: Vec<String> = ["bulk", "both"].iter().flat_map(|path| rig.hooks(path)).collect();
    let largest = of_bulk.iter().filter(|title| title.starts_with("M 9.0")).count();
    assert_eq!((of_bulk.len(), largest), (5, 3), "{of_bulk:?}");
}

#[tokio::test]
async fn a_delivery_may_cost_more_than_one() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&crowd(&rig, "crowd", 9, None));
    let host = Covers::Host(format!("127.0.0.1:{}", rig.receiver.port));
    limited(&mut rig, vec![DeliveryLimit { cost: 3, ..named("host", host, bucket("6/h", 7)) }]);
    decided(&mut rig, 6.0).await;
    rig.deliver().await;
    assert_eq!(rig.receiver.requests().len(), 2, "two of three each, of seven");
    rig.pass(20 * MINUTE - 1);
    rig.deliver().await;
    assert_eq!(rig.receiver.requests().len(), 2);
    rig.pass(1);
    rig.deliver().await;
    assert_eq!(rig.receiver.requests().len(), 3, "one that was left and two that came");
}

#[tokio::test]
async fn what_a_limit_held_up_is_no_failed_attempt_and_does_not_age() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&crowd(&rig, "crowd", 3, None));
    rig.receiver.answer("/crowd", 429);
    limited(&mut rig, vec![named("all", Covers::All, limit(Algorithm::SlidingLog, "1/2d", None))]);
    decided(&mut rig, 6.0).await;
    rig.deliver().await;
    assert_eq!((rig.receiver.requests().len(), waiting(&rig)), (1, 2));
    // Days later the second is attempted for the first time, and fails: that is no reason to give it up.
    rig.pass(50 * HOUR);
    rig.run("UPDATE outbox SET due_at = due_at + 1000000000000 WHERE attempts > 0");
    rig.deliver().await;
    assert_eq!(rig.receiver.requests().len(), 2);
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'due'"), 3);
    // The attempt that failed was charged, and its repetition waits for its turn too.
    rig.pass(HOUR);
    rig.deliver().await;
    assert_eq!(rig.receiver.requests().len(), 2);
    rig.receiver.answer("/crowd", 204);
    for _ in 0..20 {
        rig.pass(49 * HOUR);
        rig.deliver().await;
    }
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status <> 'delivered' OR attempts > 2"), 0);
}

#[tokio::test]
async fn a_changed_tag_moves_what_waits_under_other_limits() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&crowd(&rig, "crowd", 3, Some("bulk")));
    limited(&mut rig, vec![named("bulk", tagged("bulk"), bucket("1/h", 1))]);
    decided(&mut rig, 6.0).await;
    rig.deliver().await;
    assert_eq!((rig.receiver.requests().len(), waiting(&rig)), (1, 2));
    for who in ["crowd0", "crowd1", "crowd2"] {
        rig.set(who, |subscriber| subscriber.tags = Tags::default());
    }
    rig.deliver().await;
    assert_eq!((rig.receiver.requests().len(), waiting(&rig)), (3, 0));
}
