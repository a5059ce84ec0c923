//! Deliveries claimed ahead of free connections: they go on without the database, and what is not attempted is given back.

use std::time::Duration;

use throttler::subscriber::{Destination, Standing, Subscriber};
use throttler::time::Span;

use crate::rig::{MINUTE, Quake, Rig, only_in_a_file, subscriber};

/// One event decided for more webhooks at one host than it has connections, and so many delivered that more is claimed than
/// there is room for.
async fn lined_up() -> Rig {
    let mut rig = Rig::with(&[]).await;
    let url = format!("http://127.0.0.1:{}/crowd", rig.receiver.port);
    let hooked = |at| subscriber(&format!("c{at}"), Destination::Webhook(url.parse().expect("a URL")));
    let crowd: Vec<Subscriber> = (0..1_500).map(hooked).collect();
    rig.add(&crowd);
    rig.show(&[Quake::new(&rig, "us1", 6.0, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
    for _ in 0..1_000 {
        rig.parts().deliverer.turn().await.expect("a turn");
        if rig.parts().deliverer.lined_up() > 20 {
            return rig;
        }
        rig.parts().deliverer.one_ended().await;
    }
    panic!("nothing was ever claimed ahead");
}

fn count(rig: &Rig, which: &str) -> i64 {
    rig.number(&format!("SELECT count(*) FROM outbox WHERE {which}"))
}

/// Each attempt that the rows tell of was one request, and each request one attempt.
fn check_attempts(rig: &Rig) {
    let attempts = rig.number("SELECT sum(attempts) FROM outbox");
    assert_eq!(attempts, i64::try_from(rig.receiver.requests().len()).expect("small"));
}

#[tokio::test]
async fn connections_go_on_while_the_database_is_busy() {
    if only_in_a_file() {
        return;
    }
    let mut rig = lined_up().await;
    let claimed = usize::try_from(count(&rig, "status IN ('leased', 'delivered')")).expect("small");
    assert!(claimed > rig.receiver.requests().len() + 20);
    let (other, receiver) = (rig.sql(), rig.receiver.clone());
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let all_are_sent = async {
        while receiver.requests().len() < claimed {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        other.execute_batch("ROLLBACK").expect("unlocked");
    };
    let (turned, ()) = tokio::join!(rig.parts().deliverer.turn(), all_are_sent);
    turned.expect("the turn goes on when it can");
    rig.deliver().await;
    assert_eq!(count(&rig, "status = 'delivered'"), 1_500);
    check_attempts(&rig);
}

#[tokio::test]
async fn what_is_lined_up_for_a_host_that_fails_spends_no_attempt() {
    let mut rig = lined_up().await;
    rig.receiver.answer("/crowd", 503);
    rig.deliver().await;
    assert_eq!((rig.parts().deliverer.lined_up(), count(&rig, "status = 'leased'")), (0, 0));
    assert!(count(&rig, "status = 'due' AND attempts = 0") > 1_000);
    check_attempts(&rig);
}

#[tokio::test]
async fn what_is_lined_up_for_who_is_paused_is_not_sent() {
    let mut rig = lined_up().await;
    rig.run("UPDATE subscribers SET standing = 'paused'");
    rig.deliver().await;
    assert_eq!((rig.parts().deliverer.lined_up(), count(&rig, "status = 'leased'")), (0, 0));
    assert!(count(&rig, "status = 'due' AND attempts = 0") > 1_000);
    check_attempts(&rig);
    rig.stand("c1499", Standing::Active);
    rig.deliver().await;
    check_attempts(&rig);
}

#[tokio::test]
async fn a_stop_gives_back_what_is_lined_up() {
    let mut rig = lined_up().await;
    rig.parts().deliverer.finish(Span::from_seconds(20)).await.expect("receipts are written");
    assert_eq!((rig.parts().deliverer.lined_up(), count(&rig, "status = 'leased'")), (0, 0));
    check_attempts(&rig);
}

#[tokio::test]
async fn what_waits_too_long_in_line_is_given_back() {
    let mut rig = lined_up().await;
    rig.pass(MINUTE);
    let before = rig.receiver.requests().len();
    rig.run("UPDATE subscribers SET standing = 'disabled', standing_reason = 'gone'");
    rig.parts().deliverer.turn().await.expect("a turn");
    assert_eq!(rig.parts().deliverer.lined_up(), 0, "{before} requests were made before");
    rig.deliver().await;
    check_attempts(&rig);
}
