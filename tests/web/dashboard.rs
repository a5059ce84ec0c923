//! The dashboard where there is much: what is too much to rank goes by names, and no row is counted differently for it.

use throttler::time::{Span, Timestamp};

use crate::rig::{Quake, Rig, name};
use crate::site::Site;

/// As many subscribers more, all like anna.
fn multiply(rig: &Rig, number: u32) {
    let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
               INSERT INTO subscribers (name, settings, standing, created_at, active_since, interest_since)
               SELECT printf('user%05d', i), replace(settings, '\"anna\"', printf('\"user%05d\"', i)), 'active', created_at, active_since,
                      interest_since FROM n, subscribers WHERE name = 'anna'";
    rig.sql().execute(sql, [number]).expect("subscribers are added");
}

/// A daemon that told anna of five of six quakes, and ben of none.
async fn rig() -> Rig {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna"), rig.hooked("ben")]);
    rig.set("ben", |ben| ben.interest.min_magnitude = "9".parse().expect("a magnitude"));
    rig.see(&[]).await;
    let quakes: Vec<Quake> = (0..6).map(|at| Quake::new(&rig, &format!("quake{at}"), 6.0, 60 + at)).collect();
    rig.see(&quakes).await;
    rig
}

#[tokio::test]
async fn of_some_the_report_says_what_it_says_of_all() {
    let rig = rig().await;
    let (store, to) = (rig.store(), rig.clock_plus(1));
    let from = to.minus(Span::from_seconds(86_400));
    let told = |reports: Vec<throttler::store::SubscriberReport>| -> Vec<String> {
        reports.iter().map(|report| format!("{report:?}")).collect()
    };
    let all = told(store.report(from, to).expect("a report"));
    assert_eq!(all.len(), 2);
    assert!(all[0].contains("refused: 1"), "{}", all[0]);
    assert_eq!(told(store.report_named("", 9, from, to).expect("a report")), all);
    assert_eq!(told(store.report_named("an", 9, from, to).expect("a report")), all[..1]);
    assert_eq!(told(store.report_named("", 1, from, to).expect("a report")), all[..1]);
    assert!(store.report_named("anna0", 9, from, to).expect("a report").is_empty());
    assert!(store.report_named("%", 9, from, to).expect("a report").is_empty());
    assert!(store.has_more_subscribers_than(1).expect("counted") && !store.has_more_subscribers_than(2).expect("counted"));

    // What the ledger says of a stretch is a part of what it says of all, its last rows where they are too many.
    let key = store.subscriber(&name("anna")).expect("anna").key;
    let ids = |rows: Vec<throttler::store::LedgerRow>| rows.into_iter().map(|row| row.event.id.to_string()).collect::<Vec<_>>();
    let whole = ids(store.ledger(Some(key), None).expect("the ledger"));
    assert_eq!(ids(store.ledger_between(key, from, to, 9).expect("the ledger")), whole);
    assert_eq!(ids(store.ledger_between(key, from, to, 2).expect("the ledger")), whole[4..]);
    assert!(store.ledger_between(key, to, to.plus(Span::from_seconds(9)), 9).expect("the ledger").is_empty());
    assert_eq!(store.messages_between(key, from, to, 9).expect("messages").len(), 5);
    let quakes = store.quakes_between(Timestamp::MIN, to, Some(key), 9).expect("quakes");
    assert_eq!(quakes.iter().filter(|quake| quake.outcome.is_some()).count(), 6);
    assert_eq!(store.quakes_between(Timestamp::MIN, to, None, 2).expect("quakes").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_to_rank_go_by_name() {
    let mut rig = rig().await;
    multiply(&rig, 9_998);
    rig.pass(1);
    let site = Site::start(&mut rig).await;
    let rows = |body: &str| body.matches("<th scope=\"row\"><a").count();
    let page = site.get("/").await;
    assert!(page.body.contains("6 decisions for 10,000 subscribers, 1 refused by a limiter"), "{}", page.body);
    assert!(page.body.contains("; the first 100 are shown") && rows(&page.body) == 100);
    rig.add(&[rig.hooked("zoe")]);
    let page = site.get("/").await;
    assert_eq!((page.status, rows(&page.body)), (200, 100));
    assert!(page.body.contains("There are too many to add up while you wait: the first 100 by name."), "{}", page.body);
    assert!(page.body.contains(">anna</a>") && !page.body.contains(">zoe</a>"));
    let page = site.get("/?name=z").await;
    assert!(rows(&page.body) == 1 && page.body.contains(">zoe</a>"), "{}", page.body);
    // The scene is anybody's, whether the table shows it or not.
    let page = site.get("/?subscriber=user09998").await;
    assert!(page.body.contains("<h2 id=\"scene\">user09998, the last 7 days</h2>"), "{}", page.body);
}
