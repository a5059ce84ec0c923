//! Layered limits on deliveries: which cover what, what is refused by whom, and which are none.

use throttler::channel::{Channel, Lane};
use throttler::limiter::{Algorithm, Limit};
use throttler::limits::{Covers, DeliveryLimit, FallbackPolicy, Kind, Layers, LimitName, LimitsError, Refusal, Shared, check};

use crate::support::{SECOND, at, parsed};

fn name(text: &str) -> LimitName {
    text.parse().expect(text)
}

fn lane(text: &str) -> Lane {
    Lane::from_text(text.to_owned())
}

fn of(text: &str, covers: Covers, limit: Limit) -> DeliveryLimit {
    DeliveryLimit { name: name(text), covers, limit, cost: 1, shared: None }
}

fn bucket(rate: &str, bucket: u64) -> Limit {
    parsed(Algorithm::TokenBucket, rate, Some(bucket))
}

fn tag(text: &str) -> Covers {
    Covers::Tag(text.parse().expect(text))
}

#[test]
fn a_limit_covers_what_it_names() {
    let lanes = ["email", "email #bulk", "https://a.example", "https://a.example:8443 #bulk #vip", "https://b.example #vip"];
    for (covers, expected) in [
        (Covers::All, [true; 5]),
        (Covers::Channel(Kind::Email), [true, true, false, false, false]),
        (Covers::Channel(Kind::Webhook), [false, false, true, true, true]),
        (Covers::Host("a.example".into()), [false, false, true, false, false]),
        (Covers::Host("a.example:8443".into()), [false, false, false, true, false]),
        (tag("vip"), [false, false, false, true, true]),
        (tag("bul"), [false; 5]),
    ] {
        assert_eq!(lanes.map(|text| covers.covers(&lane(text))), expected, "{covers}");
    }
    let lanes = lanes.map(lane);
    for (covers, told) in [
        (tag("bul"), Some("no subscriber has the tag 'bul'; the nearest is 'bulk'")),
        (Covers::Host("c.example".into()), Some("no subscriber has a webhook at 'c.example'; the nearest is 'b.example'")),
        (Covers::All, None),
        (tag("vip"), None),
    ] {
        let misses = covers.misses(&lanes);
        assert_eq!(misses.as_deref().map(|told| told.replace("'a.example'", "'b.example'")), told.map(str::to_owned), "{covers}");
        assert_eq!(covers.misses(&[]), None, "without subscribers nobody can tell");
    }
}

#[test]
fn the_one_that_refuses_for_longest_says_when_to_try_again_and_none_is_charged() {
    let mut layers = Layers::new(vec![
        of("all", Covers::All, bucket("60/m", 3)),
        of("email", Covers::Channel(Kind::Email), bucket("1/m", 1)),
        DeliveryLimit { cost: 2, ..of("bulk", tag("bulk"), parsed(Algorithm::SlidingLog, "2/h", None)) },
    ]);
    let (hook, mail, bulk) = (lane("https://a.example"), lane("email"), lane("email #bulk"));
    assert_eq!(layers.admit(&bulk, at(0)), Ok(()));
    let refused = |by, seconds| Err(Refusal { by: name(by), retry_at: Some(at(seconds * SECOND)) });
    assert_eq!(layers.admit(&bulk, at(0)), refused("bulk", 3_600));
    assert_eq!(layers.admit(&mail, at(0)), refused("email", 60));
    assert_eq!(layers.refusal(&bulk, at(0)).map(Err), Some(refused("bulk", 3_600)), "asking changes nothing");
    let left = |layers: &Layers, now| layers.standings(now).iter().map(|standing| standing.left).collect::<Vec<_>>();
    assert_eq!(left(&layers, at(0)), [Some(2), Some(0), Some(0)], "what was refused was charged nowhere");
    assert_eq!((layers.admit(&hook, at(0)), layers.admit(&hook, at(0))), (Ok(()), Ok(())));
    assert_eq!(layers.admit(&hook, at(0)), refused("all", 1));
    assert_eq!(layers.next_opening(at(0)), Some(at(SECOND)));
    assert_eq!(layers.admit(&mail, at(60 * SECOND)), Ok(()));
    // What was spent stays spent under another limit of the same name, and a new name begins anew.
    let changed = vec![of("email", Covers::Channel(Kind::Email), bucket("1/h", 1)), of("other", Covers::All, bucket("1/h", 1))];
    layers.take_over(changed, at(60 * SECOND));
    assert_eq!(left(&layers, at(60 * SECOND)), [Some(0), Some(1)]);
}

#[test]
fn openings_are_shared_by_the_lanes_that_a_limit_covers() {
    let layers = Layers::new(vec![
        of("all", Covers::All, bucket("1/m", 3)),
        DeliveryLimit { cost: 2, ..of("vip", tag("vip"), bucket("1/m", 5)) },
    ]);
    let (plain, vip) = (lane("email"), lane("email #vip"));
    let mut openings = layers.openings(at(0));
    assert_eq!((openings.of(&plain), openings.of(&vip)), (3, 2), "two of two each, of five");
    assert_eq!((0..4).filter(|_| openings.take(&vip)).count(), 2);
    assert_eq!((openings.of(&plain), openings.of(&vip)), (1, 0));
    assert_eq!(openings.asked_in_vain().collect::<Vec<_>>(), [1]);
    let mut openings = layers.openings(at(0));
    openings.set_aside(&plain, 7);
    assert_eq!((openings.of(&plain), openings.take(&vip)), (0, false));
}

#[test]
fn what_does_not_divide_is_told() {
    let told = |limit, outage, instances| {
        let shared = Some(Shared { outage, instances });
        let limit = DeliveryLimit { shared, ..of("a", Covers::All, limit) };
        limit.check().expect("it can be kept");
        limit.leftover().map(|leftover| leftover.to_string())
    };
    let share = |limit, instances| told(limit, FallbackPolicy::LocalShare, instances);
    let window = |rate| parsed(Algorithm::FixedWindow, rate, None);
    let of_three = |rest: &str| Some(format!("local-share gives each of 3 instances 3 of {rest}"));
    assert_eq!(share(bucket("2000/h", 10), 3), of_three("a bucket of 10, and 1 is left over"));
    assert_eq!(share(window("11/s"), 3), of_three("11/s, and 2 are left over"));
    assert_eq!(share(parsed(Algorithm::SlidingLog, "11/m", None), 3), of_three("11/m, and 2 are left over"));
    // A bucket's rate always divides, into longer windows.
    assert_eq!((share(bucket("10/h", 9), 3), share(window("9/s"), 3), share(window("9/s"), 1)), (None, None, None));
    assert_eq!(
        (told(window("10/s"), FallbackPolicy::LocalFull, 3), of("a", Covers::All, window("10/s")).leftover()),
        (None, None)
    );
}

#[test]
fn what_cannot_be_kept_is_no_limit() {
    let shared = |outage, instances| Some(Shared { outage, instances });
    let share = |limit| DeliveryLimit { shared: shared(FallbackPolicy::LocalShare, 4), ..of("a", Covers::All, limit) };
    let window = |rate| parsed(Algorithm::FixedWindow, rate, None);
    for (limit, told) in [
        (of("a", Covers::All, parsed(Algorithm::LeakyBucket, "1/s", Some(5))), "'a': a leaky-bucket makes deliveries wait"),
        (
            DeliveryLimit { cost: 6, ..of("a", Covers::All, bucket("9/s", 5)) },
            "'a' never lets anything pass: a delivery costs 6, and it admits at most 5 at once",
        ),
        (share(window("3/s")), "'a': local-share leaves one of 4 instances nothing of 3/s"),
        (share(bucket("9/s", 3)), "'a': local-share leaves one of 4 instances nothing of a bucket of 3"),
        (share(bucket("1/3653d", 8)), "'a': the share of one instance is no rate"),
        (
            DeliveryLimit { cost: 2, ..share(bucket("9/s", 7)) },
            "'a' never lets anything pass: a delivery costs 2, and it admits at most 1 at once",
        ),
    ] {
        let fault = limit.check().expect_err(told);
        assert!(fault.to_string().starts_with(told), "{fault}");
        let open = DeliveryLimit { shared: shared(FallbackPolicy::FailOpen, 4), cost: 1, ..limit };
        assert!(open.check().is_ok() || open.limit.algorithm() == Algorithm::LeakyBucket);
    }
    let one = of("a", Covers::All, window("1/s"));
    assert_eq!(check(&[one.clone(), one.clone()]), Err(LimitsError::Twice(name("a"))));
    assert_eq!(check(&vec![one; 65]), Err(LimitsError::TooMany(65)));
    assert!(Kind::named("emial", &name("a")).is_err_and(|fault| fault.to_string()
        == "'a' covers nothing: 'emial' is no channel; expected email or webhook, and the nearest is 'email'"));
    for text in ["", "A", "-a", "a b", &"a".repeat(41)] {
        assert!(text.parse::<LimitName>().is_err(), "{text:?}");
    }
    assert!(Layers::new(Vec::new()).admit(&Lane::untagged(Channel::from_text("email".into())), at(0)).is_ok());
}
