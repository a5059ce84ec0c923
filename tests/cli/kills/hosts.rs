//! Hosts of their own for daemons: network namespaces, each joined to a bridge of this machine's by a link that can be cut.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::server::unprivileged;

/// So many networks are tried before one is found that is not in use here.
const TRIES: u32 = 16;

/// Some hosts. They go when this is dropped, and also when the process ends in another way.
pub struct Hosts {
    name: String,
    /// Of the network the first three numbers.
    network: [u8; 3],
    /// Removes all of them when its input is closed.
    remover: Child,
}

impl Hosts {
    /// So many, or why there cannot be any.
    pub fn make(count: usize) -> Result<Hosts, String> {
        if unprivileged().is_none() {
            return Err("whoever runs the tests is not root, and makes no networks".to_owned());
        }
        for program in ["ip", "nsenter"] {
            if Command::new(program).arg("-V").output().is_err() {
                return Err(format!("there is no {program}, which makes and enters networks"));
            }
        }
        let process = std::process::id();
        let network = unused(process).ok_or("no private network is free here")?;
        let name = format!("thr{process}");
        let all: Vec<String> = (0..count).map(|at| at.to_string()).collect();
        // What ends the tests may be sent to all that they started.
        let script = "trap '' HUP INT TERM; read -r _; for at in $2; do ip link delete $1v$at; ip netns delete $1-$at; done; ip link delete $1b";
        let mut remover = Command::new("sh");
        remover.args(["-c", script, "remove", &name, &all.join(" ")]).stdin(Stdio::piped()).stdout(Stdio::null());
        let remover = remover.stderr(Stdio::null()).spawn().map_err(|fault| fault.to_string())?;
        let hosts = Hosts { name, network, remover };
        let bridge = format!("{}b", hosts.name);
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("address add {}/24 dev {bridge}", hosts.here()))?;
        ip(&format!("link set {bridge} up"))?;
        for at in 0..count {
            let (space, link, address) = (hosts.space(at), hosts.link(at), hosts.address(at));
            ip(&format!("netns add {space}"))?;
            ip(&format!("link add {link} type veth peer name eth0 netns {space}"))?;
            ip(&format!("link set {link} master {bridge} up"))?;
            ip(&format!("-n {space} address add {address}/24 dev eth0"))?;
            ip(&format!("-n {space} link set eth0 up"))?;
        }
        Ok(hosts)
    }

    /// This machine's address, as they see it.
    pub fn here(&self) -> IpAddr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, 1).into()
    }

    /// The network that all are in.
    pub fn network(&self) -> String {
        let [a, b, c] = self.network;
        format!("{a}.{b}.{c}.0/24")
    }

    pub fn address(&self, at: usize) -> IpAddr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, u8::try_from(at + 2).expect("few")).into()
    }

    /// What stands before a command that is to run there.
    pub fn entered(&self, at: usize) -> String {
        format!("nsenter --net=/run/netns/{}", self.space(at))
    }

    /// From now on no packet reaches it or comes from it, and nobody is told.
    pub fn cut(&self, at: usize) {
        ip(&format!("link set {} down", self.link(at))).expect("its link is cut");
    }

    pub fn join(&self, at: usize) {
        ip(&format!("link set {} up", self.link(at))).expect("its link is joined");
    }

    fn space(&self, at: usize) -> String {
        format!("{}-{at}", self.name)
    }

    fn link(&self, at: usize) -> String {
        format!("{}v{at}", self.name)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        let _ = self.remover.wait();
        for at in 0.. {
            let space = Path::new("/run/netns").join(self.space(at));
            if !space.exists() {
                break;
            }
            eprintln!("{} is still there", space.display());
        }
    }
}

/// A private network to which this machine knows no way of its own.
fn unused(process: u32) -> Option<[u8; 3]> {
    let candidates = (0..TRIES).map(|at| {
        let [.., high, low] = (process.wrapping_add(at * 4_099)).to_be_bytes();
        [10, 64 + high % 128, low]
    });
    candidates.into_iter().find(|[a, b, c]| {
        let known = ip(&format!("-4 route show to match {a}.{b}.{c}.0/24"));
        known.is_ok_and(|routes| routes.lines().all(|route| route.starts_with("default")))
    })
}

/// What `ip` says to this, or what is wrong.
fn ip(arguments: &str) -> Result<String, String> {
    let ran = Command::new("ip").args(arguments.split(' ')).output().map_err(|fault| format!("ip: {fault}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&ran.stderr).trim()))
}
