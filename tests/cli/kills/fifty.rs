//! Fifty subscribers who differ in everything that a decision depends on.

use std::net::SocketAddr;

use throttler::event::Magnitude;
use throttler::interest::{Interest, Region};
use throttler::limiter::{Algorithm, CostStep, Limit, Policy, Reserve};
use throttler::quiet::QuietHours;
use throttler::subscriber::{Destination, Excess, Mode, Preset, Subscriber, Tags, Updates};

pub const SUBSCRIBERS: usize = 50;

const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::TokenBucket, Algorithm::SlidingLog, Algorithm::LeakyBucket, Algorithm::FixedWindow, Algorithm::SlidingCounter];

fn magnitude(value: f64) -> Magnitude {
    Magnitude::new(value).expect("a magnitude")
}

/// Each is a receiver's own path.
pub fn fifty(addresses: &[SocketAddr]) -> Vec<Subscriber> {
    as_many(SUBSCRIBERS, addresses)
}

/// So many of their kinds.
pub fn as_many(count: usize, addresses: &[SocketAddr]) -> Vec<Subscriber> {
    (0..count).map(|at| subscriber(at, addresses[at % addresses.len()])).collect()
}

fn subscriber(at: usize, address: SocketAddr) -> Subscriber {
    let algorithm = ALGORITHMS[at % 5];
    let rate = ["4/h", "3/2h", "20/d", "12/h", "2/15m", "6/h", "9/6h"][at % 7].parse().expect("a rate");
    let bucket = algorithm.has_bucket().then_some(2 + at as u64 % 9);
    let limit = Limit::new(algorithm, rate, bucket).expect("a limit");
    let mut policy = Policy::plain(limit);
    policy.reserve = (at % 6 == 2).then_some(Reserve { keep: 1, from: magnitude(6.0) });
    policy.always_from = (at % 4 == 1).then_some(magnitude(6.5));
    if at % 10 == 3 {
        policy.costs = vec![CostStep { from: magnitude(6.0), cost: 2 }];
    }
    policy.check().expect("a policy whose parts fit");
    let mut interest = Interest { min_magnitude: magnitude([4.7, 5.0, 5.0, 5.3, 5.6][at / 3 % 5]), ..Interest::default() };
    if at % 10 == 9 {
        let (coordinates, within_km) = ("52.5,160.3".parse().expect("a place"), "250".parse().expect("a radius"));
        interest.region = Some(Region::Near { coordinates, within_km });
    }
    if at % 10 == 6 {
        interest.max_depth_km = Some("20".parse().expect("a depth"));
    }
    let quiet = QuietHours {
        hours: "22:00-07:00".parse().expect("hours"),
        zone: "Asia/Kamchatka".parse().expect("a zone"),
        below: Some(magnitude(6.5)),
    };
    let url = format!("http://{address}/{at}");
    Subscriber {
        name: format!("s{at:02}").parse().expect("a name"),
        destination: Destination::Webhook(url.parse().expect("a URL")),
        preset: Preset::Json,
        interest,
        policy,
        excess: [Excess::Digest, Excess::Delay, Excess::Drop][at / 5 % 3],
        mode: if at % 8 == 7 { Mode::Shadow } else { Mode::Enforce },
        updates: [Updates::Major, Updates::All, Updates::None][at % 3],
        quiet: (at % 9 == 4).then_some(quiet),
        tags: Tags::default(),
    }
}
