//! A real mail server, Debian's Exim, with a configuration, certificate, queue and mailboxes of its own.
//!
//! The system's service and its files are not touched: each connection to a port of ours is handed to an Exim started for it, as
//! inetd does, so that nothing runs longer than its client.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::tls::Authority;

/// Where distributions put it, beyond the `PATH` of most users.
const PROGRAMS: [&str; 2] = ["/usr/sbin/exim4", "/usr/sbin/exim"];
/// Whom it runs as when the tests run as root, which Exim delivers nothing as.
const NOBODY: u32 = 65_534;

/// The one login.
pub const USER: &str = "throttler@relay";
pub const PASSWORD: &str = "correct horse: battery";

/// A server that takes mail for `anna@example.net`, after STARTTLS and a login.
pub struct Exim {
    pub port: u16,
    pub ca_file: PathBuf,
    program: &'static str,
    sessions: Arc<Mutex<Vec<Child>>>,
    directory: TempDir,
}

impl Exim {
    /// `None`, with a word on standard error, where there is no Exim.
    pub fn start() -> Option<Exim> {
        let Some(program) = PROGRAMS.into_iter().find(|program| Path::new(program).is_file()) else {
            eprintln!("skipped: no Exim at {PROGRAMS:?} (Debian's exim4-daemon-light)");
            return None;
        };
        let directory = TempDir::new().expect("a directory");
        let authority = Authority::new();
        let ca_file = authority.pem_file(directory.path());
        configure(&authority, directory.path());
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("address").port();
        let sessions = Arc::new(Mutex::new(Vec::new()));
        let exim = Exim { port, ca_file, program, sessions: Arc::clone(&sessions), directory };
        let mut session = exim.command();
        session.arg("-bs").stderr(Stdio::null());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let child = start_session(&mut session, &stream.expect("a connection"));
                sessions.lock().expect("lock").push(child);
            }
        });
        Some(exim)
    }

    /// What lies in the mailbox of `anna`, after what is queued was delivered.
    pub fn mailbox(&self) -> Vec<Vec<u8>> {
        let ran = self.command().arg("-q").output().expect("a queue run");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let Ok(files) = std::fs::read_dir(self.directory.path().join("mail/anna/new")) else { return Vec::new() };
        files.map(|file| std::fs::read(file.expect("a file").path()).expect("a message")).collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.arg("-C").arg(self.directory.path().join("exim.conf")).env_clear();
        command
    }
}

impl Drop for Exim {
    fn drop(&mut self) {
        for mut session in self.sessions.lock().expect("lock").drain(..) {
            // One that ended with its client is only waited for.
            let _ = session.kill();
            let _ = session.wait();
        }
    }
}

/// Exim finds a connection where its standard input and output are, as inetd leaves them.
fn start_session(command: &mut Command, stream: &TcpStream) -> Child {
    let end = || Stdio::from(OwnedFd::from(stream.try_clone().expect("the connection")));
    command.stdin(end()).stdout(end()).spawn().expect("Exim")
}

fn configure(authority: &Authority, directory: &Path) {
    let owner = std::fs::metadata(directory).expect("the directory");
    let (user, group) = if owner.uid() == 0 { (NOBODY, NOBODY) } else { (owner.uid(), owner.gid()) };
    let (certificate, key) = authority.issue("127.0.0.1");
    std::fs::create_dir(directory.join("mail")).expect("a directory");
    std::fs::write(directory.join("server.pem"), certificate.pem()).expect("write");
    std::fs::write(directory.join("server.key"), key.serialize_pem()).expect("write");
    let text = include_str!("exim.conf")
        .replace("@DIRECTORY@", directory.to_str().expect("UTF-8"))
        .replace("@OWNER@", &user.to_string())
        .replace("@GROUP@", &group.to_string())
        .replace("@USER@", USER)
        .replace("@PASSWORD@", PASSWORD);
    std::fs::write(directory.join("exim.conf"), text).expect("write");
    if owner.uid() == 0 {
        // The configuration stays root's: Exim runs no other with root's rights.
        for name in ["", "mail", "server.pem", "server.key"] {
            chown(directory.join(name), Some(user), Some(group)).expect("root may give away");
        }
    }
}
