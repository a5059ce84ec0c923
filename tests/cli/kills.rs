//! SIGKILL at random moments of the two days of the M8.8, fifty subscribers, receivers that fail: the end is that of a run
//! without. Twenty kills in less than an hour of them unless `THROTTLER_KILLS` asks for so many in all of it, or, with
//! `THROTTLER_KILLS_IN=hour`, in that hour; `THROTTLER_SEED` repeats a run's chances.

mod course;
mod failing;
mod fifty;
mod hosts;
mod leases;
mod tables;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use throttler::clock::{Clock, SystemClock};
use throttler::subscriber::Subscriber;
use throttler::time::{Span, Timestamp};

use course::{Course, Found, Killing, Several};
use failing::Receivers;
use fifty::{SUBSCRIBERS, as_many, fifty};
use hosts::Hosts;
use leases::{lost_alone, unexplained};
use versions::{Version, versions};

use crate::database::copies;
use crate::server::{Server, missing};

const FROM: &str = "2025-07-29T12:00:00Z";
const TO: &str = "2025-07-31T12:00:00Z";
/// What the smaller run knows of them: the M8.8 and its first aftershocks.
const FEW_FROM: &str = "2025-07-29T23:00:00Z";
const FEW_TO: &str = "2025-07-29T23:42:00Z";
const FEW_KILLS: u64 = 20;
/// How many several are.
const DAEMONS: usize = 3;
/// Of several daemons: each kind of disturbance twice.
const FEW_DISTURBANCES: u64 = 12;
/// In networks of their own: each kind once.
const FEW_CUTS: u64 = 7;
const SEED: u64 = 88;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Chance that a seed repeats: splitmix64 (Steele, Lea and Flood, 2014).
pub struct Chance(u64);

impl Chance {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// Tells the seed if the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.0);
        }
    }
}

/// For how many events and subscribers a version of the event matches the interest.
fn matched(versions: &[Version], subscribers: &[Subscriber]) -> BTreeSet<String> {
    let shown: Vec<_> = versions.iter().filter(|version| !version.event.is_withdrawn()).collect();
    let pairs = subscribers.iter().flat_map(|subscriber| {
        let matching = shown.iter().filter(|version| subscriber.interest.matches(&version.event));
        matching.map(|version| format!("{} {} ", subscriber.name, version.event.id.as_str()))
    });
    pairs.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_it_ends_as_if_nothing_had_happened() {
    let kills = asked("THROTTLER_KILLS");
    let (kills, (from, to)) = (kills.unwrap_or(FEW_KILLS), asked_span());
    let seed = Seed(asked("THROTTLER_SEED").unwrap_or(SEED));
    let (from, to): (Timestamp, Timestamp) = (from.parse().expect("a time"), to.parse().expect("a time"));
    let (events, versions) = versions(from, to, SEED);
    let undisturbed = undisturbed(from, to, SUBSCRIBERS);
    let started = SystemClock.now();

    let receivers = Receivers::start(HERE, Some(seed.0));
    let subscribers = fifty(&receivers.addresses);
    let mut killed = Course::new(from, &versions, receivers, &subscribers, Killing { kills, chance: Chance(seed.0) });
    tokio::task::block_in_place(|| killed.run());
    let left = killed.left();
    assert!(killed.found.kills >= kills, "{:?}", killed.found);

    // First what tells the reason.
    assert_eq!(killed.undelivered(), Vec::<String>::new());
    // Every table, limiters bit for bit.
    equal(&left, &undisturbed.left);
    // Every matched alert once in the ledger, and none that did not match.
    let matched = matched(&versions, &subscribers);
    let ledger = &left["decisions"];
    assert_eq!(ledger.len(), matched.len());
    for (pair, row) in matched.iter().zip(sorted(ledger)) {
        assert!(row.starts_with(pair.as_str()), "expected {pair}, found {row}");
    }
    // Every message delivered, and to receivers that drop repeats once.
    assert!(left["messages"].iter().all(|row| row.contains(" delivered ")), "{:#?}", left["messages"]);
    let (attempts, lost) = (killed.attempts(), killed.lost());
    killed.receivers.seen(|seen| {
        assert_eq!(unexplained(&seen.told, &lost), Vec::<String>::new());
        assert_eq!(seen.wrong, BTreeSet::new());
        let accepted: BTreeSet<_> = seen.accepted.keys().collect();
        assert_eq!(accepted, attempts.keys().collect(), "accepted, and admitted");
        for (id, arrived) in &seen.arrived {
            assert!(*arrived <= attempts[id], "{id} arrived {arrived} times in {} attempts", attempts[id]);
        }
        let arrived: u64 = seen.arrived.values().sum();
        println!(
            "{} kills (seed {}): {} of a daemon that was starting, {} with events undecided, {} with messages due, {} with \
             requests under way, {} in all\n{events} events in {} versions for {SUBSCRIBERS} subscribers: {} matched, {} \
             updates, {} messages\n{} stops of the clock, {} undisturbed; {arrived} requests, {} repeats after acceptance, {} \
             of them may come from receivers that did not answer; the longest that one refused connections was {}\nfailures: {:?}\n{} undisturbed, {} killed",
            killed.found.kills,
            seed.0,
            killed.found.starting,
            killed.found.undecided,
            killed.found.due,
            killed.found.sending,
            killed.found.leases,
            versions.len(),
            matched.len(),
            left["updates"].len(),
            left["messages"].len(),
            killed.stops,
            undisturbed.stops,
            seen.repeats(),
            seen.silent,
            seconds(killed.longest_down),
            seen.failures,
            seconds(undisturbed.took),
            seconds(SystemClock.now().since(started)),
        );
    });
}

fn equal(left: &BTreeMap<&str, Vec<String>>, expected: &BTreeMap<&str, Vec<String>>) {
    for (table, expected) in expected {
        let found = &left[table];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found, expected, "{table}");
        }
        assert_eq!(found.len(), expected.len(), "{table}");
    }
}

/// Three daemons on one server, one of which is killed or stopped for longer than a lease, all of which lose their sessions or
/// their server: the ledger is that of one daemon on a file that nobody disturbs. `THROTTLER_KILLS` as above;
/// `THROTTLER_SUBSCRIBERS` for more than fifty.
#[tokio::test(flavor = "multi_thread")]
async fn several_daemons_on_one_server_end_as_one_on_a_file() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let kills = asked("THROTTLER_KILLS");
    let kills = kills.unwrap_or(FEW_DISTURBANCES);
    let found = several(asked_span(), asked_subscribers(), (kills, Some(asked("THROTTLER_SEED").unwrap_or(SEED))), None);
    assert!(found.kills >= kills && found.stopped > 0 && found.crashes > 0 && found.cut_off > 0, "{found:?}");
}

/// The same, each daemon on a host of its own, whose link is cut for longer than a lease while it polls.
#[tokio::test(flavor = "multi_thread")]
async fn several_daemons_whose_hosts_are_cut_off_end_as_one_on_a_file() {
    let made = missing().map_or_else(|| Hosts::make(DAEMONS).map_err(|why| format!("skipped: {why}")), Err);
    let hosts = match made {
        Ok(hosts) => hosts,
        Err(why) => {
            println!("{why}");
            return;
        }
    };
    let kills = asked("THROTTLER_KILLS");
    let seed = asked("THROTTLER_SEED").unwrap_or(SEED);
    let found = several(asked_span(), asked_subscribers(), (kills.unwrap_or(FEW_CUTS), Some(seed)), Some(hosts));
    assert!(found.cut > 0 && found.stopped > 0 && found.crashes > 0 && found.cut_off > 0, "{found:?}");
}

/// And where nobody disturbs them and every receiver accepts: nothing arrives twice, and no lease runs out.
#[tokio::test(flavor = "multi_thread")]
async fn several_daemons_that_are_left_alone_repeat_nothing() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    several((FEW_FROM, FEW_TO), SUBSCRIBERS, (0, None), None);
}

/// From when to when: all of it if kills are asked for, unless they are to be in the smaller run.
fn asked_span() -> (&'static str, &'static str) {
    let is_whole = asked("THROTTLER_KILLS").is_some() && std::env::var_os("THROTTLER_KILLS_IN").is_none_or(|what| what != "hour");
    if is_whole { (FROM, TO) } else { (FEW_FROM, FEW_TO) }
}

fn asked_subscribers() -> usize {
    asked("THROTTLER_SUBSCRIBERS").map_or(SUBSCRIBERS, |count| usize::try_from(count).expect("a count"))
}

/// Runs three daemons on one server, disturbed so often by the chances of this seed, and compares.
fn several((from, to): (&str, &str), subscribers: usize, (kills, seed): (u64, Option<u64>), hosts: Option<Hosts>) -> Found {
    let (from, to): (Timestamp, Timestamp) = (from.parse().expect("a time"), to.parse().expect("a time"));
    let _seed = Seed(seed.unwrap_or_default());
    let (_, versions) = versions(from, to, SEED);
    let expected = undisturbed(from, to, subscribers);
    let started = SystemClock.now();
    let here = hosts.as_ref().map_or(HERE, Hosts::here);
    // Of its own, and up to the end of the process: it crashes, and so do the daemons' sessions.
    let settings = ["fsync=off", "full_page_writes=off"];
    let server: &'static Server = Box::leak(Box::new(match &hosts {
        Some(hosts) => Server::for_network(here, &hosts.network(), &settings),
        None => Server::start(&settings),
    }));
    let receivers = Receivers::start(here, seed);
    let enrolled = as_many(subscribers, &receivers.addresses);
    let killing = Killing { kills, chance: Chance(seed.unwrap_or_default()) };
    let (left, undelivered, attempts, lost, several) = tokio::task::block_in_place(|| {
        let mut several =
            Course::on_server(from, &versions, receivers, &enrolled, killing, Several { daemons: DAEMONS, server, hosts });
        several.run();
        (several.left(), several.undelivered(), several.attempts(), several.lost(), several)
    });
    assert_eq!(undelivered, Vec::<String>::new());
    equal(&left, &expected.left);
    // A lease runs out only where its daemon was disturbed, and what was accepted comes again only where one did.
    assert_eq!(lost_alone(&lost, &several.disturbances), Vec::<String>::new());
    several.receivers.seen(|seen| {
        assert_eq!(seen.wrong, BTreeSet::new());
        assert_eq!(seen.accepted.keys().collect::<BTreeSet<_>>(), attempts.keys().collect(), "accepted, and admitted");
        for (id, arrived) in &seen.arrived {
            assert!(*arrived <= attempts[id], "{id} arrived {arrived} times in {} attempts", attempts[id]);
        }
        assert_eq!(unexplained(&seen.told, &lost), Vec::<String>::new());
        if kills == 0 {
            assert_eq!((seen.repeats(), lost.len()), (0, 0));
        }
        println!(
            "{subscribers} subscribers, {} decisions, {} updates, {} messages, {} requests, {} repeats after acceptance, {} \
             acceptances by receivers that did not answer; {} leases ran out, each of a daemon that was disturbed; {} repeats of \
             what was answered, each after one of them\n{:?}\n{} stops of the clock in {}; one daemon, left alone before, {} in {}",
            left["decisions"].len(),
            left["updates"].len(),
            left["messages"].len(),
            seen.arrived.values().sum::<u64>(),
            seen.repeats(),
            seen.silent,
            lost.len(),
            seen.told.values().map(|times| times.len() - 1).sum::<usize>(),
            several.found,
            several.stops,
            seconds(SystemClock.now().since(started)),
            expected.stops,
            seconds(expected.took),
        );
    });
    tokio::task::block_in_place(|| copies(&several.place, &several.url));
    several.found
}

/// A run that nobody disturbs, with one daemon on a file.
struct Undisturbed {
    left: BTreeMap<&'static str, Vec<String>>,
    stops: u64,
    took: Span,
}

/// What a run leaves that nobody disturbs; the tests of one process share it.
fn undisturbed(from: Timestamp, to: Timestamp, subscribers: usize) -> Arc<Undisturbed> {
    type Runs = BTreeMap<(Timestamp, Timestamp, usize), Arc<Undisturbed>>;
    static RUNS: Mutex<Runs> = Mutex::new(Runs::new());
    tokio::task::block_in_place(|| {
        // Whoever comes second waits for the first.
        let mut runs = RUNS.lock().expect("no run failed");
        let run = || {
            let started = SystemClock.now();
            let (_, versions) = versions(from, to, SEED);
            let receivers = Receivers::start(HERE, None);
            let subscribers = as_many(subscribers, &receivers.addresses);
            let mut course = Course::new(from, &versions, receivers, &subscribers, Killing { kills: 0, chance: Chance(0) });
            course.run();
            course.receivers.seen(|seen| {
                let repeated = seen.told.iter().filter(|(_, times)| times.len() > 1);
                assert_eq!(repeated.collect::<Vec<_>>(), [], "nothing is repeated");
            });
            let left = course.left();
            Arc::new(Undisturbed { left, stops: course.stops, took: SystemClock.now().since(started) })
        };
        Arc::clone(runs.entry((from, to, subscribers)).or_insert_with(run))
    })
}

fn sorted(rows: &[String]) -> Vec<&String> {
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort();
    sorted
}

fn seconds(span: Span) -> String {
    format!("{:.1} s", Duration::as_secs_f64(&span.to_std()))
}
