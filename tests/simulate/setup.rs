//! Parameters that make no experiment, or an endless one, are refused before any work.

use throttler::simulate::attack::Attack;
use throttler::simulate::clients::Clients;
use throttler::simulate::lockout::Lockout;
use throttler::simulate::outage::Outage;
use throttler::simulate::split::{Split, Unsynchronised};
use throttler::simulate::traffic::Shape;
use throttler::simulate::{SetupError, Work};
use throttler::time::Span;

use crate::support::{published_rate, rate};

/// Fails the test as soon as a run is done.
fn no_work() -> Work<'static> {
    Work { threads: 1, progress: &|_, _| panic!("it began to work") }
}

#[test]
fn clients_end() {
    let refused = |setup: Clients| setup.run(&no_work()).expect_err("a refusal");
    let clients = || Clients::published(published_rate(), 1);
    assert_eq!(refused(Clients { runs: 0, ..clients() }), SetupError::Runs(0));
    assert_eq!(refused(Clients { runs: 1_000_000, ..clients() }), SetupError::Runs(1_000_000));
    assert_eq!(refused(Clients { length: Span::ZERO, ..clients() }), SetupError::Length(Span::ZERO));
    let (length, window) = (Span::from_seconds(59), Span::from_seconds(60));
    assert_eq!(refused(Clients { length, ..clients() }), SetupError::ShorterThanWindow { length, window });
    assert_eq!(refused(Clients { traffic: vec![(Shape::Steady, 0)], ..clients() }), SetupError::Load(0));
    assert!(matches!(refused(Clients { traffic: vec![], ..clients() }), SetupError::Nothing(_)));
    assert!(matches!(refused(Clients { algorithms: vec![], ..clients() }), SetupError::Nothing(_)));
    assert!(matches!(refused(Clients { buckets: vec![0], ..clients() }), SetupError::Limit(_)));
    assert!(matches!(refused(Clients { rate: rate("1000000000/ms"), ..clients() }), SetupError::Requests(_)));
    let long = Clients { length: Span::from_seconds(80_000 * 60), runs: 10_000, ..clients() };
    assert!(matches!(refused(long), SetupError::Decisions(_)));
}

#[test]
fn the_other_experiments_end() {
    let lockout = || Lockout { runs: 1, ..Lockout::published(published_rate(), 1) };
    let refused = |setup: Lockout| setup.run(&no_work()).expect_err("a refusal");
    assert_eq!(refused(Lockout { tries: vec![2_000], ..lockout() }), SetupError::Tries(2_000));
    assert_eq!(refused(Lockout { spike: 0, ..lockout() }), SetupError::Spike(0));
    let (after, length) = (Span::from_seconds(300), Span::from_seconds(300));
    assert_eq!(refused(Lockout { length, ..lockout() }), SetupError::SpikeAfterEnd { after, length });
    assert!(matches!(refused(Lockout { tries: vec![], ..lockout() }), SetupError::Nothing(_)));

    let split = Split { servers: vec![101], ..Split::published(published_rate(), 1) };
    assert_eq!(split.run(&no_work()), Err(SetupError::Servers { limit: 100, servers: 101 }));
    let shared = || Unsynchronised::usual(published_rate(), 1).expect("a limit");
    let gap = Span::from_seconds(3_600);
    assert_eq!(Unsynchronised { gaps: vec![gap], ..shared() }.run(&no_work()), Err(SetupError::Gap(gap)));
    assert!(matches!(Unsynchronised { rushes: 0, ..shared() }.run(&no_work()), Err(SetupError::Runs(0))));

    let attack = |text| Attack::published(rate(text));
    assert_eq!(Attack { phases: 0, ..attack("5/h") }.run(), Err(SetupError::Phases(0)));
    assert!(matches!(attack("1000000000/h").run(), Err(SetupError::Floods(_))));

    let outage = || Outage::published(rate("10/s"));
    let (from, to, length) = (Span::from_seconds(30), Span::from_seconds(20), Span::from_seconds(60));
    assert_eq!(Outage { down_from: from, down_to: to, ..outage() }.run(), Err(SetupError::Outage { from, to, length }));
    assert_eq!(Outage { instances: 0, ..outage() }.run(), Err(SetupError::Instances(0)));
    let year = Span::from_seconds(365 * 86_400);
    assert_eq!(Outage { length: year, ..outage() }.run(), Err(SetupError::OutageLength(year)));
}
