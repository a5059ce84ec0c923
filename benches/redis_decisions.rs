//! How many decisions a second a Redis of its own makes, batched over loopback, by algorithm:
//! `cargo run --release --example redis_decisions -- [SECONDS]`. The server has one thread; what it did with its processor time is
//! what counts where the machine is busy.

use std::error::Error;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use throttler::clock::{Clock, Stopwatch, SystemClock};
use throttler::limiter::{Algorithm, Limit, Verdict};
use throttler::shared::{Question, SharedError, SharedStore};

/// Limits of which each is asked once in a while, as if everybody had one.
const MANY: usize = 50_000;
/// Limits that all are asked about all the time, as those of deliveries are.
const FEW: usize = 8;
/// Decisions in one question.
const BATCH: usize = 500;
/// Questions on their way at once.
const CONNECTIONS: usize = 2;

/// Kills the server in the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(5.0), |text| text.parse())?;
    let directory = TempDir::new()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let server = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()?;
    let server = Server(server);
    let connect = || SharedStore::new(format!("redis://127.0.0.1:{port}").parse()?);
    let store = connect()?;
    let mut version = store.check().await;
    for _ in 0..500 {
        if version.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        version = store.check().await;
    }
    println!("Redis {}, batches of {BATCH}\n", version?);
    let algorithms = [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingCounter, Algorithm::SlidingLog];
    for (algorithm, keys) in algorithms.into_iter().flat_map(|algorithm| [(algorithm, FEW), (algorithm, MANY)]) {
        let rate = if keys == FEW { "20000/m" } else { "100/m" };
        let limit = Limit::new(algorithm, rate.parse()?, None)?;
        let questions = questions(limit, keys)?;
        let (before, since) = (busy(server.0.id())?, Stopwatch::start());
        let mut asking = Vec::new();
        for connection in 0..CONNECTIONS {
            let (store, questions) = (connect()?, questions.clone());
            asking.push(tokio::spawn(async move {
                let (mut decided, mut admitted) = (0, 0);
                let mut next = questions.iter().cycle().skip(connection * questions.len() / CONNECTIONS);
                while since.elapsed().as_seconds() < seconds {
                    let Some(question) = next.next() else { break };
                    let answers = match store.decide(question, SystemClock.now()).await {
                        Ok(answers) => answers,
                        // A busy machine: what was decided then is not counted, and the next question connects again.
                        Err(SharedError::Slow { .. }) => continue,
                        Err(fault) => return Err(fault),
                    };
                    decided += answers.len();
                    admitted += answers.iter().filter(|answer| answer.verdict == Verdict::Admitted).count();
                }
                Ok::<_, SharedError>((decided, admitted))
            }));
        }
        let (mut decided, mut admitted) = (0, 0);
        for asked in asking {
            let (some, passed) = asked.await??;
            decided += some;
            admitted += passed;
        }
        let (took, busy) = (since.elapsed().as_seconds(), busy(server.0.id())? - before);
        println!(
            "{algorithm:15} {keys:6} limits {:9.0} decisions a second, {:9.0} a second of the server's processor time, {:3.0} % admitted",
            decided as f64 / took,
            decided as f64 / busy,
            100.0 * admitted as f64 / decided as f64,
        );
    }
    Ok(())
}

/// Questions that ask so many limits in turn, a batch of requests each.
fn questions(limit: Limit, keys: usize) -> Result<Vec<Question>, Box<dyn Error>> {
    let batch = |first: usize| {
        let mut question = Question::default();
        let kind = question.kind(limit, 1)?;
        let of_batch = keys.min(BATCH);
        for at in first..first + of_batch {
            question.key(format!("throttler:{{bench}}:{}:{keys}:{at}", limit.algorithm()), kind);
        }
        for request in 0..BATCH {
            question.request(vec![request % of_batch]);
        }
        Ok(question)
    };
    (0..keys.div_ceil(BATCH)).map(|at| batch(at * BATCH)).collect()
}

/// The processor time of a process so far, in seconds.
fn busy(process: u32) -> Result<f64, Box<dyn Error>> {
    /// `USER_HZ`, a hundred on every Linux that there is.
    const TICKS_A_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / TICKS_A_SECOND)
}
