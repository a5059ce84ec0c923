//! A Redis server of the test's own: a process with a socket in a temporary directory, which can be killed, paused and started again.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use throttler::shared::{SharedStore, StoreAddress};
use throttler::time::Span;

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
        let store = SharedStore::new(self.address()).expect("a store");
        for _ in 0..1_000 {
            if store.check().await.is_ok() {
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
