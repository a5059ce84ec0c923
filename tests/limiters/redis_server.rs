//! A Redis server of the test's own: a process with a socket in a temporary directory, which can be killed, paused and started again.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use throttler::shared::{SharedStore, StoreAddress};
use throttler::time::Span;

use crate::port::Port;

const PROGRAM: &str = "redis-server";

pub struct RedisServer {
    directory: TempDir,
    options: Vec<String>,
    process: Option<Child>,
}

impl RedisServer {
    /// A server with these options besides its own; `None`, with a reason told, where there is no program to start.
    pub async fn start(options: &[&str]) -> Option<RedisServer> {
        let found = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_err() {
            eprintln!("skipped: there is no {PROGRAM}, so no limit is kept in a real one");
            return None;
        }
        let directory = TempDir::new().expect("a directory");
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = RedisServer { directory, options, process: None };
        server.run().await;
        Some(server)
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    pub fn address(&self) -> StoreAddress {
        format!("redis+unix://{}", self.socket().display()).parse().expect("an address")
    }

    /// A store in it, by the given time.
    pub fn store(&self) -> SharedStore {
        self.store_by_its_time().by_given_time()
    }

    /// A store in it, with patience for a busy machine.
    pub fn store_by_its_time(&self) -> SharedStore {
        SharedStore::new(self.address()).expect("a store").patient(Span::from_seconds(60))
    }

    /// Starts the process, and waits until it answers.
    pub async fn run(&mut self) {
        let directory = self.directory.path();
        let process = Command::new(PROGRAM)
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(self.socket())
            .arg("--dir")
            .arg(directory)
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.process = Some(process.expect("the server starts"));
        for _ in 0..1_000 {
            let listens = std::os::unix::net::UnixStream::connect(self.socket()).is_ok();
            if listens && self.command(&["PING"]) == "+PONG" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server never answered");
    }

    /// Kills it; its files stay.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it runs");
            process.wait().expect("it ends");
        }
    }

    /// Stops it where it stands, or lets it go on.
    pub fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([signal, &process]).status().expect("a signal");
        assert!(sent.success(), "{signal}");
    }

    /// What the server says to a command.
    pub fn command(&self, words: &[&str]) -> String {
        let socket = self.socket();
        let each: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let text = format!("*{}\r\n{}", words.len(), each.concat());
        let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
        std::io::Write::write_all(&mut stream, text.as_bytes()).expect("it reads");
        let mut answer = vec![0; 64 << 10];
        let length = std::io::Read::read(&mut stream, &mut answer).expect("it answers");
        String::from_utf8_lossy(&answer[..length]).trim_end().to_owned()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cluster on loopback, of masters that share the slots out among them, and replicas of the first of them.
pub struct Cluster {
    pub nodes: Vec<RedisServer>,
    /// Of each its own and the one for the others.
    ports: Vec<(Port, Port)>,
    masters: u32,
}

const SLOTS: u32 = 16_384;

impl Cluster {
    /// `None`, with a reason told, where there is no program to start.
    pub async fn start(masters: u32, replicas: u32) -> Option<Cluster> {
        // Each listens for the others too.
        let ports: Vec<_> = (0..masters + replicas).map(|_| (Port::take(), Port::take())).collect();
        let mut nodes = Vec::new();
        for (port, bus) in &ports {
            let [port, bus] = [port, bus].map(|port| port.address.port().to_string());
            let options = ["--port", &port, "--cluster-port", &bus, "--bind", "127.0.0.1", "--cluster-enabled", "yes"];
            let more =
                ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"];
            nodes.push(RedisServer::start(&[&options[..], &more].concat()).await?);
        }
        for (at, node) in nodes.iter().enumerate() {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            let [port, bus] = [&ports[at].0, &ports[at].1].map(|port| port.address.port().to_string());
            nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Cluster { nodes, ports, masters };
        for (at, node) in (0..masters).zip(&cluster.nodes) {
            let (from, to) = (at * SLOTS / masters, (at + 1) * SLOTS / masters - 1);
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
        }
        let known = format!("cluster_known_nodes:{}", cluster.nodes.len());
        for node in &cluster.nodes {
            let is_whole = || {
                let told = node.command(&["CLUSTER", "INFO"]);
                [&known, "cluster_state:ok", "cluster_slots_ok:16384"].iter().all(|word| told.contains(*word))
            };
            wait_until(is_whole).await;
        }
        for node in &cluster.nodes[usize::try_from(masters).expect("few")..] {
            node.command(&["CLUSTER", "REPLICATE", &cluster.id(0)]);
            wait_until(|| node.command(&["INFO", "replication"]).contains("master_link_status:up")).await;
        }
        Some(cluster)
    }

    pub fn address(&self, at: usize) -> StoreAddress {
        format!("redis://127.0.0.1:{}", self.port(at)).parse().expect("an address")
    }

    pub fn port(&self, at: usize) -> u16 {
        self.ports[at].0.address.port()
    }

    /// A store that names this node, by the given time, with patience for a busy machine.
    pub fn store(&self, at: usize) -> SharedStore {
        SharedStore::new(self.address(at)).expect("a store").by_given_time().patient(Span::from_seconds(60))
    }

    pub fn id(&self, at: usize) -> String {
        self.nodes[at].command(&["CLUSTER", "MYID"]).lines().last().expect("an id").to_owned()
    }

    pub fn slot(&self, key: &str) -> u32 {
        self.nodes.last().expect("a node").command(&["CLUSTER", "KEYSLOT", key]).trim_start_matches(':').parse().expect("a slot")
    }

    /// Which master had this key at the beginning.
    pub fn home(&self, key: &str) -> usize {
        usize::try_from((self.slot(key) * self.masters + self.masters - 1) / SLOTS).expect("few")
    }
}

/// Looks again and again until it is so.
pub async fn wait_until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not come to this");
}
