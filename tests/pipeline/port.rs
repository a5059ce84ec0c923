//! A port of this machine's that is a test's own, for a server that comes and goes or for one that is never there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// Held by a socket that does not listen: connections are refused, nobody else's gets the port, and a server that may use an
/// address again, as they do here, listens at it as often as it likes.
pub struct Port {
    pub address: SocketAddr,
    _held: TcpSocket,
}

impl Port {
    pub fn take() -> Port {
        Port::on(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    pub fn on(here: IpAddr) -> Port {
        let held = TcpSocket::new_v4().expect("a socket");
        held.set_reuseaddr(true).expect("an option");
        held.bind(SocketAddr::from((here, 0))).expect("a port");
        Port { address: held.local_addr().expect("an address"), _held: held }
    }
}
