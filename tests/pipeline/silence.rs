//! A server whose answers do not come, or not in time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use throttler::clock::Clock;
use throttler::daemon::dispatch;
use throttler::store::{Location, ServerUrl, Store, StoreError};

use crate::rig::{MINUTE, Quake, Rig, mailed};
use crate::server::{Asker, missing, server};

/// Passes on what is said to the server and back. Of one transaction it passes on that it is to be committed, and from then on
/// nothing that the server says on that connection.
struct Proxy {
    port: u16,
    connections: Arc<AtomicUsize>,
    /// How many are committed before that one.
    before: Arc<AtomicUsize>,
}

impl Proxy {
    fn to(socket: &Path) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (connections, before) = (Arc::<AtomicUsize>::default(), Arc::new(AtomicUsize::new(usize::MAX)));
        let proxy = Proxy { port, connections: Arc::clone(&connections), before: Arc::clone(&before) };
        let socket = socket.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (client, server) = (client.expect("a client"), UnixStream::connect(&socket).expect("the server"));
                pass_on(client, server, Arc::clone(&before));
            }
        });
        proxy
    }

    /// The address of this schema by way of it, in which answers are to come within 2 s.
    fn of(&self, schema: &str) -> Location {
        let options = schema.split_once("options=").expect("a schema").1;
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres?answer_timeout=2&options={options}", self.port);
        url.parse::<ServerUrl>().expect("an address").into()
    }
}

fn pass_on(mut client: TcpStream, mut server: UnixStream, before: Arc<AtomicUsize>) {
    let (mut answers, mut to_client) = (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
    let is_silent = Arc::<AtomicUsize>::default();
    let silent = Arc::clone(&is_silent);
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = answers.read(&mut bytes) {
            if silent.load(Ordering::SeqCst) == 0 && to_client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = client.read(&mut bytes) {
            // A statement as text, which is sent alone.
            let commits = bytes[..length].starts_with(b"Q") && bytes[..length].windows(7).any(|text| text == b"COMMIT\0");
            if commits && before.fetch_sub(1, Ordering::SeqCst) == 0 {
                is_silent.store(1, Ordering::SeqCst);
            }
            if server.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // It learns that nobody listens any more.
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// What went wrong, with all that is below it.
fn told(fault: &dyn std::error::Error) -> String {
    fault.source().map_or_else(|| fault.to_string(), |source| format!("{fault}: {}", told(source)))
}

/// Polls, decides and delivers, again after each failure: what went wrong.
async fn course(rig: &mut Rig) -> Vec<String> {
    let mut faults = Vec::new();
    loop {
        let (database, clock) = (rig.parts().database.clone(), Arc::clone(&rig.clock));
        let clock: Arc<dyn Clock> = clock;
        let fault = if let Err(fault) = rig.parts().ingester.poll().await {
            told(&fault)
        } else if let Err(fault) = dispatch::all(&database, &clock, |_| {}).await {
            told(&fault)
        } else if let Err(fault) = rig.parts().deliverer.all().await {
            told(&fault)
        } else {
            return faults;
        };
        faults.push(fault);
        // Until then it is left alone.
        while database.with(|store| store.time()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The course of two events for two subscribers, of which one transaction is committed without an answer: what went wrong.
async fn with_one_lost(lost: usize) -> Vec<String> {
    let (proxy, schema) = (Proxy::to(&server().socket_file()), server().schema());
    let mut rig = Rig::fresh_on(Some(schema.clone())).await;
    rig.add(&["anna", "ben"].map(mailed));
    rig.poll().await;
    rig.database = proxy.of(&schema);
    rig.restart().await;
    rig.parts().database.with(|store| store.bound_statements()).await.expect("bounds");
    rig.show(&[Quake::new(&rig, "us1", 5.5, MINUTE), Quake::new(&rig, "us2", 6.5, MINUTE)]);
    proxy.before.store(lost, Ordering::SeqCst);
    let faults = course(&mut rig).await;
    proxy.before.store(usize::MAX, Ordering::SeqCst);
    // A lease of which nobody knows runs out.
    rig.pass(6 * MINUTE);
    course(&mut rig).await;
    let once = ["events", "decisions", "outbox"].map(|table| rig.number(&format!("SELECT count(*) FROM {table}")));
    assert_eq!(once, [2, 4, 4], "commit {lost}: {faults:?}");
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered'"), 4, "commit {lost}: {faults:?}");
    assert_eq!(rig.mails().len(), 4, "commit {lost}: {faults:?}");
    rig.check_books();
    faults
}

#[test]
fn whatever_is_committed_without_an_answer_is_done_once() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    // Side by side, since each waits most of the time.
    let courses: Vec<_> = (0..16)
        .map(|lost| {
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
                runtime.expect("a runtime").block_on(with_one_lost(lost))
            })
        })
        .collect();
    let faults: Vec<_> = courses.into_iter().map(|course| course.join().expect("a course")).collect();
    let unknown = "whether it is done is not known: the server does not answer within 2 s";
    // A machine that is busy breaks off more.
    let is_lost = |faults: &Vec<String>| faults.iter().any(|fault| fault.ends_with(unknown));
    let commits = faults.iter().take_while(|faults| is_lost(faults)).count();
    assert!((8..faults.len()).contains(&commits), "{faults:#?}");
}

#[test]
fn a_daemons_statement_that_takes_long_is_broken_off_and_a_commands_is_waited_for() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let (proxy, schema) = (Proxy::to(&server().socket_file()), server().schema());
    let at = proxy.of(&schema);
    let (command, daemon) = (Store::open(&at).expect("a store"), Store::open(&at).expect("a store"));
    daemon.bound_statements().expect("bounds");
    let mut other = Asker::new(&schema);
    other.rows("BEGIN; LOCK TABLE subscribers IN ACCESS EXCLUSIVE MODE").expect("a lock");
    let refused = daemon.status().expect_err("it waits for the lock");
    assert!(told(&refused).ends_with(": canceling statement due to statement timeout"), "{}", told(&refused));
    let before = proxy.connections.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || command.status());
        // It has waited for so long, and asks whether the server lets anybody in.
        while proxy.connections.load(Ordering::SeqCst) == before {
            assert!(!waits.is_finished());
            std::thread::sleep(Duration::from_millis(10));
        }
        other.rows("ROLLBACK").expect("an end");
        waits.join().expect("it ends").expect("it is answered");
    });
    daemon.status().expect("the same session answers");
    assert_eq!(proxy.connections.load(Ordering::SeqCst), before + 1);
}

#[test]
fn what_takes_long_is_broken_off_also_in_a_session_that_was_opened_anew() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let schema = server().schema();
    let at: Location = schema.parse::<ServerUrl>().expect("an address").into();
    drop(Store::open(&at).expect("a store"));
    let reader = Store::open_reader(&at).expect("a store");
    let interrupt = reader.interrupt();
    let mut other = Asker::new(&schema);
    let mine = "FROM pg_stat_activity WHERE application_name = 'throttler' AND query LIKE '%default_transaction_read_only%'";
    let ended = other.rows(&format!("SELECT count(pg_terminate_backend(pid)) {mine}")).expect("an answer");
    assert_eq!(ended, [["1"]]);
    let answered = (0..1_000).map(|_| reader.status()).find(Result::is_ok);
    answered.expect("a new session answers").expect("an answer");
    other.rows("BEGIN; LOCK TABLE subscribers IN ACCESS EXCLUSIVE MODE").expect("a lock");
    let refused: StoreError = std::thread::scope(|scope| {
        let waits = scope.spawn(move || reader.status());
        while !waits.is_finished() {
            interrupt.now();
            std::thread::sleep(Duration::from_millis(10));
        }
        waits.join().expect("it ends").expect_err("it is broken off")
    });
    assert!(told(&refused).ends_with(": canceling statement due to user request"), "{}", told(&refused));
}
