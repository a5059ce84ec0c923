//! A real `PostgreSQL` server from the distribution's packages, one for each process of tests, in a directory of its own; each test
//! has a schema. It ends with the process that started it, however that ends.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::port::Port;

/// Where Debian has the programs of a version.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// A server, and what keeps it going.
pub struct Server {
    /// Where its socket is.
    directory: PathBuf,
    port: u16,
    /// If it is one of this machine's.
    _port: Option<Port>,
    programs: PathBuf,
    /// When this is closed, be it by the end of the process, the server stops and its directory goes.
    _held: ChildStdin,
    _watcher: Child,
}

/// Why there is none.
pub fn missing() -> Option<String> {
    programs().is_none().then(|| format!("skipped: there is no PostgreSQL in {PROGRAMS}"))
}

fn programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> =
        fs::read_dir(PROGRAMS).ok()?.map(|entry| entry.expect("an entry").path().join("bin")).collect();
    versions.retain(|programs| programs.join("postgres").exists());
    versions.sort();
    versions.pop()
}

/// The server of this process, which the first asker starts.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["fsync=off", "full_page_writes=off"]))
}

/// Whom the server runs as: it refuses to be root.
pub fn unprivileged() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0);
    is_root.then_some((65_534, 65_534))
}

impl Server {
    /// A fresh one with these settings. What it has committed survives its own crash, if not that of the machine.
    pub fn start(settings: &[&str]) -> Server {
        Server::start_on(5432, settings, "")
    }

    /// The same, also on a port of this machine's, which is nobody else's.
    pub fn on_loopback(settings: &[&str]) -> Server {
        let port = Port::take();
        let server = Server::start_on(port.address.port(), &[settings, &["listen_addresses=127.0.0.1"]].concat(), "");
        Server { _port: Some(port), ..server }
    }

    /// The same on an address of this machine's, for a network that it is in.
    pub fn for_network(here: IpAddr, network: &str, settings: &[&str]) -> Server {
        let listens = format!("listen_addresses={here}");
        Server::start_on(5432, &[settings, &[&listens]].concat(), &format!("host all all {network} trust\n"))
    }

    /// What stands before the name of a database, after that of a user and an `@`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it listens on this machine alone.
    pub fn socket_file(&self) -> PathBuf {
        self.directory.join(format!(".s.PGSQL.{}", self.port))
    }

    fn start_on(port: u16, settings: &[&str], admits: &str) -> Server {
        let programs = programs().expect("PostgreSQL");
        let directory = TempDir::with_prefix("pg").expect("a directory").keep();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("permissions");
        if let Some((user, group)) = unprivileged() {
            chown(&directory, Some(user), Some(group)).expect("the directory's owner");
        }
        let data = directory.join("data");
        let mut init = as_whom(&programs.join("initdb"));
        init.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]).arg(&data);
        let done = init.stdin(Stdio::null()).output().expect("initdb");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut admitted = fs::File::options().append(true).open(data.join("pg_hba.conf")).expect("whom it admits");
        admitted.write_all(admits.as_bytes()).expect("whom it admits");
        // Whoever stops the server alone sees it start again, as long as there is something to start.
        let script = r#"
            directory=$1; shift
            (while [ -d "$directory/data" ] && [ ! -e "$directory/over" ]; do "$@" >>"$directory/log" 2>&1; done) & loop=$!
            read -r _
            : >"$directory/over"
            server=$(head -n 1 "$directory/data/postmaster.pid")
            kill -QUIT "$server"; kill -CONT "$server"; wait $loop
            rm -rf "$directory"
        "#;
        let mut watcher = as_whom(Path::new("/bin/sh"));
        watcher.args(["-c", script, "watch"]).arg(&directory).arg(programs.join("postgres")).arg("-D").arg(&data);
        watcher.arg("-k").arg(&directory).args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
        watcher.args(["-p", &port.to_string()]);
        for setting in settings {
            watcher.args(["-c", setting]);
        }
        let mut watcher = watcher.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a server");
        let held = watcher.stdin.take().expect("its input");
        let server = Server { directory, port, programs, _held: held, _watcher: watcher, _port: None };
        server.wait();
        server
    }

    fn wait(&self) {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["--quiet", "--port", &self.port.to_string(), "--host"]).arg(&self.directory);
        for _ in 0..600 {
            if ready.status().expect("pg_isready").success() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{}", fs::read_to_string(self.directory.join("log")).unwrap_or_default());
    }

    /// Has it break off all it does, and start again.
    pub fn crash(&self) {
        let text = fs::read_to_string(self.directory.join("data/postmaster.pid")).expect("its process");
        let process = text.lines().next().expect("a process");
        assert!(Command::new("kill").args(["-QUIT", process]).status().expect("kill").success());
    }

    /// Stops all of its processes where they stand, until what it answers is dropped: the system goes on taking what is sent to them.
    pub fn freeze(&self) -> Frozen {
        let text = fs::read_to_string(self.directory.join("data/postmaster.pid")).expect("its process");
        let process = text.lines().next().expect("a process").to_owned();
        // The first starts the others.
        signal("-STOP", std::slice::from_ref(&process));
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).expect("its children");
        let children: Vec<String> = children.split_whitespace().map(str::to_owned).collect();
        signal("-STOP", &children);
        Frozen(children.into_iter().chain([process]).collect())
    }

    /// The address of a schema of its own.
    pub fn schema(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let schema = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
        ask(&self.url(""), &format!("CREATE SCHEMA {schema}"));
        self.url(&format!("&options=-csearch_path%3D{schema}"))
    }

    /// The address of what belongs to whoever runs it.
    pub fn url(&self, more: &str) -> String {
        format!("postgres://postgres@{}:{}/postgres?sslmode=disable{more}", self.socket(), self.port)
    }

    /// The same address over the network.
    pub fn reached_at(&self, url: &str, here: IpAddr) -> String {
        url.replacen(&self.socket(), &here.to_string(), 1)
    }

    fn socket(&self) -> String {
        self.directory.display().to_string().replace('/', "%2F")
    }
}

/// A server that stands still.
pub struct Frozen(Vec<String>);

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(signal: &str, processes: &[String]) {
    assert!(Command::new("kill").arg(signal).args(processes).status().expect("kill").success(), "{signal} {processes:?}");
}

/// A connection that asks again and again, also after the server was gone.
pub struct Asker {
    url: String,
    /// There until it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
    client: Option<tokio_postgres::Client>,
}

impl Asker {
    pub fn new(url: &str) -> Asker {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        Asker { url: url.to_owned(), runtime: Some(runtime), client: None }
    }

    /// As [`ask`], and `None` where nobody answers.
    pub fn rows(&mut self, sql: &str) -> Option<Vec<Vec<String>>> {
        let (url, client) = (&self.url, self.client.take());
        let answered = self.runtime.as_ref()?.block_on(async {
            let client = if let Some(client) = client {
                client
            } else {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
                tokio::spawn(async move { drop(connection.await) });
                client
            };
            match client.simple_query(sql).await {
                Ok(answers) => Some((client, answers)),
                Err(fault) if fault.is_closed() || fault.code().is_some_and(|code| code.code().starts_with("57P")) => None,
                Err(fault) => panic!("{sql}: {fault:?}"),
            }
        });
        let (client, answers) = answered?;
        self.client = Some(client);
        Some(texts(answers))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // It may be dropped where nothing may wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn texts(answers: Vec<SimpleQueryMessage>) -> Vec<Vec<String>> {
    let rows = answers.into_iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect()),
        _ => None,
    });
    rows.collect()
}

/// What a server answers, as text; nothing is an empty one.
pub fn ask(url: &str, sql: &str) -> Vec<Vec<String>> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    // The caller may be on a thread of a runtime's, which must not run another one's.
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect(&url);
            tokio::spawn(async move { drop(connection.await) });
            texts(client.simple_query(&sql).await.unwrap_or_else(|fault| panic!("{sql}: {fault:?}")))
        })
    });
    asked.join().expect("an answer")
}

fn as_whom(program: &Path) -> Command {
    let Some((user, group)) = unprivileged() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups").arg(program);
    command
}
