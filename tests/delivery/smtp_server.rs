//! A scripted SMTP server: speaks EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, RSET and QUIT over real sockets, and goes wrong
//! where a test says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What the server does at one point instead of going on well.
#[derive(Clone, Copy)]
pub enum Fault {
    Say(&'static str),
    Close,
    Stall,
}

#[derive(Clone, Default)]
pub struct Script {
    /// By the point: a verb, `greeting`, or `content` for the end of the message.
    pub faults: HashMap<&'static str, Fault>,
    pub starttls: Option<TlsAcceptor>,
    pub implicit_tls: Option<TlsAcceptor>,
    /// User and password to expect; AUTH is offered if set, and only over TLS if `auth_needs_tls`.
    pub login: Option<(&'static str, &'static str)>,
    pub auth_needs_tls: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    pub from: String,
    pub to: String,
    pub text: String,
    pub encrypted: bool,
    pub logged_in: bool,
}

#[derive(Default)]
pub struct Seen {
    pub mails: Vec<Mail>,
    /// Every line of every client, AUTH's arguments and content left out.
    pub commands: Vec<String>,
    pub connections: usize,
}

pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Seen>>,
    script: Arc<Mutex<Script>>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Server {
    pub async fn start(script: Script) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("address").port();
        let (seen, script) = (Arc::new(Mutex::new(Seen::default())), Arc::new(Mutex::new(script)));
        let server = Server { port, seen: Arc::clone(&seen), script: Arc::clone(&script) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.lock().expect("lock").connections += 1;
                let session =
                    Session { seen: Arc::clone(&seen), script: Arc::clone(&script), encrypted: false, logged_in: false };
                // A client that goes away ends its session.
                tokio::spawn(async move { session.run(stream).await });
            }
        });
        server
    }

    pub fn mails(&self) -> Vec<Mail> {
        self.seen.lock().expect("lock").mails.clone()
    }

    pub fn commands(&self) -> Vec<String> {
        self.seen.lock().expect("lock").commands.clone()
    }

    pub fn connections(&self) -> usize {
        self.seen.lock().expect("lock").connections
    }

    /// From now on it goes wrong in another way.
    pub fn set_faults(&self, faults: &[(&'static str, Fault)]) {
        self.script.lock().expect("lock").faults = faults.iter().copied().collect();
    }
}

struct Session {
    seen: Arc<Mutex<Seen>>,
    script: Arc<Mutex<Script>>,
    encrypted: bool,
    logged_in: bool,
}

type Wire = BufReader<Box<dyn Stream>>;

impl Session {
    async fn run(mut self, stream: TcpStream) -> Option<()> {
        let implicit = self.script().implicit_tls;
        let mut wire: Wire = if let Some(tls) = implicit {
            self.encrypted = true;
            BufReader::new(Box::new(tls.accept(stream).await.ok()?))
        } else {
            BufReader::new(Box::new(stream))
        };
        self.say(&mut wire, "greeting", "220 test.example.org ESMTP").await?;
        let (mut from, mut to) = (String::new(), String::new());
        loop {
            let line = read_line(&mut wire).await?;
            let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
            let shown = if verb == "AUTH" { "AUTH".to_owned() } else { line.clone() };
            self.seen.lock().expect("lock").commands.push(shown);
            match verb.as_str() {
                "EHLO" => {
                    let capabilities = self.capabilities();
                    self.say(&mut wire, "EHLO", &capabilities).await?;
                }
                "STARTTLS" => {
                    self.say(&mut wire, "STARTTLS", "220 go ahead").await?;
                    let tls = self.script().starttls?;
                    wire = BufReader::new(Box::new(tls.accept(wire.into_inner()).await.ok()?));
                    self.encrypted = true;
                }
                "AUTH" => self.log_in(&mut wire, &line).await?,
                "MAIL" => {
                    from = line;
                    self.say(&mut wire, "MAIL", "250 2.1.0 sender ok").await?;
                }
                "RCPT" => {
                    to = line;
                    self.say(&mut wire, "RCPT", "250 2.1.5 recipient ok").await?;
                }
                "DATA" => {
                    if self.say(&mut wire, "DATA", "354 go ahead").await? {
                        let text = read_content(&mut wire).await?;
                        let mail =
                            Mail { from: path(&from), to: path(&to), text, encrypted: self.encrypted, logged_in: self.logged_in };
                        self.seen.lock().expect("lock").mails.push(mail);
                        self.say(&mut wire, "content", "250 2.0.0 queued as 4711").await?;
                    }
                }
                "QUIT" => {
                    self.say(&mut wire, "QUIT", "221 bye").await?;
                    return Some(());
                }
                "RSET" => {
                    self.say(&mut wire, "RSET", "250 2.0.0 ok").await?;
                }
                _ => return None,
            }
        }
    }

    fn script(&self) -> Script {
        self.script.lock().expect("lock").clone()
    }

    fn capabilities(&self) -> String {
        let script = self.script();
        let mut lines = String::from("250-test.example.org\r\n250-PIPELINING\r\n");
        if script.starttls.is_some() && !self.encrypted {
            lines.push_str("250-STARTTLS\r\n");
        }
        if script.login.is_some() && (self.encrypted || !script.auth_needs_tls) {
            lines.push_str("250-AUTH PLAIN LOGIN\r\n");
        }
        lines + "250 8BITMIME"
    }

    async fn log_in(&mut self, wire: &mut Wire, line: &str) -> Option<()> {
        use base64::Engine;
        let token = line.rsplit(' ').next().unwrap_or_default();
        let given = base64::engine::general_purpose::STANDARD.decode(token).unwrap_or_default();
        let (user, password) = self.script().login?;
        self.logged_in = given == format!("\0{user}\0{password}").as_bytes();
        let answer = if self.logged_in { "235 2.7.0 welcome" } else { "535 5.7.8 authentication failed" };
        self.say(wire, "AUTH", answer).await.map(|_| ())
    }

    /// Answers, or does what the script says instead. `Some(true)` if it answered as usual, `None` at the end.
    async fn say(&self, wire: &mut Wire, point: &str, usual: &str) -> Option<bool> {
        let fault = self.script().faults.get(point).copied();
        let text = match fault {
            None => usual,
            Some(Fault::Say(text)) => text,
            Some(Fault::Close) => return None,
            // Until the client hangs up; one that speaks on gets the late answer to what it said before.
            Some(Fault::Stall) => {
                read_line(wire).await?;
                usual
            }
        };
        wire.write_all(format!("{text}\r\n").as_bytes()).await.ok()?;
        wire.flush().await.ok()?;
        (!text.starts_with("421")).then_some(fault.is_none())
    }
}

async fn read_line(wire: &mut Wire) -> Option<String> {
    let mut line = String::new();
    let read = wire.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}

async fn read_content(wire: &mut Wire) -> Option<String> {
    let mut text = String::new();
    loop {
        let line = read_line(wire).await?;
        if line == "." {
            return Some(text);
        }
        text.push_str(line.strip_prefix('.').unwrap_or(&line));
        text.push_str("\r\n");
    }
}

/// What stands between `<` and `>`.
fn path(line: &str) -> String {
    line.split(['<', '>']).nth(1).unwrap_or_default().to_owned()
}
