//! Receivers of webhooks on loopback that fail by chance, from a seed, in every way that a receiver can.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use throttler::clock::{Clock, ManualClock};
use throttler::time::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::Chance;
use crate::port::Port;

/// How many there are, each with a port and so a channel of its own.
pub const RECEIVERS: usize = 10;

/// What they were asked, by the alert's id.
#[derive(Debug, Default)]
pub struct Seen {
    /// Whole requests.
    pub arrived: BTreeMap<String, u64>,
    /// Of these, the accepted ones: a receiver that drops repeats acts on the first.
    pub accepted: BTreeMap<String, u64>,
    /// When these were, of those whose sender was told.
    pub told: BTreeMap<String, Vec<Timestamp>>,
    /// Accepted without an answer, so that the sender cannot know.
    pub silent: u64,
    /// How often they failed, by how.
    pub failures: BTreeMap<&'static str, u64>,
    /// What is not as it should be.
    pub wrong: BTreeSet<String>,
}

impl Seen {
    /// Accepted requests beyond the first of each alert.
    pub fn repeats(&self) -> u64 {
        self.accepted.values().map(|times| times - 1).sum()
    }
}

/// Where what is seen is noted, and when that is.
type Witness = (Arc<Mutex<Seen>>, Arc<ManualClock>);

pub struct Receivers {
    pub addresses: Vec<SocketAddr>,
    /// Their time, which whoever moves that of the daemons sets before.
    pub clock: Arc<ManualClock>,
    down: Vec<watch::Sender<bool>>,
    seen: Arc<Mutex<Seen>>,
}

impl Receivers {
    /// All up on this address. With a seed they fail; without one they accept everything.
    pub fn start(here: IpAddr, from_seed: Option<u64>) -> Receivers {
        let (seen, clock) = (Arc::default(), Arc::new(ManualClock::at(Timestamp::MIN)));
        let (addresses, down) = (Vec::new(), Vec::new());
        let mut receivers = Receivers { addresses, clock: Arc::clone(&clock), down, seen: Arc::clone(&seen) };
        for _ in 0..RECEIVERS {
            let port = Port::on(here);
            receivers.addresses.push(port.address);
            let (send, receive) = watch::channel(false);
            tokio::spawn(serve(port, receive, from_seed, (Arc::clone(&seen), Arc::clone(&clock))));
            receivers.down.push(send);
        }
        receivers
    }

    /// From now on this one refuses connections, or does not.
    pub fn set_down(&self, at: usize, down: bool) {
        self.down[at].send_replace(down);
    }

    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().expect("lock"))
    }
}

/// Listens while it is up; connections are refused while it is down.
async fn serve(port: Port, mut down: watch::Receiver<bool>, from_seed: Option<u64>, seen: Witness) {
    loop {
        if down.wait_for(|down| !down).await.is_err() {
            return;
        }
        let listener = TcpListener::bind(port.address).await.expect("it listens");
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.expect("a connection");
                    tokio::spawn(answer(stream, from_seed, seen.clone()));
                }
                changed = down.wait_for(|down| *down) => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
    }
}

/// What a receiver does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Accept,
    Stall,
    StallAndHangUp,
    HangUp,
    AcceptAndHangUp,
    Broken,
    TooMany { seconds: u64 },
}

/// By chance that repeats: of this seed, for this arrival of this alert. Its id differs from run to run in its first part.
fn deed(from_seed: Option<u64>, id: &str, arrival: u64) -> Deed {
    let Some(seed) = from_seed else { return Deed::Accept };
    let local = id.split_once('-').map_or(id, |(_, local)| local);
    let mut chance = Chance(local.bytes().fold(seed ^ arrival, |hash, byte| hash.rotate_left(7) ^ u64::from(byte)));
    chance.below(1 << 32);
    match chance.below(100) {
        0..8 => Deed::Broken,
        8..16 => Deed::TooMany { seconds: chance.below(180) },
        16..20 => Deed::Stall,
        20..24 => Deed::StallAndHangUp,
        24..28 => Deed::HangUp,
        28..36 => Deed::AcceptAndHangUp,
        _ => Deed::Accept,
    }
}

async fn answer(mut stream: TcpStream, from_seed: Option<u64>, (seen, clock): Witness) {
    // A sender that is killed meanwhile has sent nothing.
    let Some((id, body)) = request(&mut stream).await else { return };
    let deed = {
        let mut seen = seen.lock().expect("lock");
        if serde_json::from_slice::<serde_json::Value>(&body).is_err() {
            seen.wrong.insert(format!("{id}: its body is no JSON"));
        }
        let arrival = seen.arrived.entry(id.clone()).or_default();
        *arrival += 1;
        let deed = deed(from_seed, &id, *arrival);
        if matches!(deed, Deed::Accept | Deed::Stall | Deed::AcceptAndHangUp) {
            *seen.accepted.entry(id.clone()).or_default() += 1;
        }
        if matches!(deed, Deed::Accept | Deed::Stall) {
            seen.told.entry(id).or_default().push(clock.now());
        }
        seen.silent += u64::from(deed == Deed::AcceptAndHangUp);
        let failure = match deed {
            Deed::Accept => None,
            Deed::Stall => Some("answered late"),
            Deed::StallAndHangUp => Some("stalled, then closed"),
            Deed::HangUp => Some("closed"),
            Deed::AcceptAndHangUp => Some("accepted, then closed without an answer"),
            Deed::Broken => Some("answered 500"),
            Deed::TooMany { .. } => Some("answered 429 with Retry-After"),
        };
        if let Some(failure) = failure {
            *seen.failures.entry(failure).or_default() += 1;
        }
        deed
    };
    let (status, header) = match deed {
        Deed::HangUp | Deed::AcceptAndHangUp => return,
        Deed::Stall | Deed::StallAndHangUp => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if deed == Deed::StallAndHangUp {
                return;
            }
            ("204 No Content", String::new())
        }
        Deed::Accept => ("204 No Content", String::new()),
        Deed::Broken => ("500 Internal Server Error", String::new()),
        Deed::TooMany { seconds } => ("429 Too Many Requests", format!("retry-after: {seconds}\r\n")),
    };
    let text = format!("HTTP/1.1 {status}\r\n{header}content-length: 0\r\nconnection: close\r\n\r\n");
    // A sender that was killed does not hear it.
    let _ = stream.write_all(text.as_bytes()).await;
}

/// The alert's id and the body of a whole request; `None` if it does not come whole.
async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let header = |name: &str| head.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
            let (id, length) = (header("webhook-id:")?, header("content-length:")?.parse::<usize>().ok()?);
            if read.len() >= end + 4 + length {
                return Some((id, read[end + 4..].to_vec()));
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}
