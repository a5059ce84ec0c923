//! The nodes of a cluster: which one a question is for, and who may know when it is gone.

use std::collections::VecDeque;
use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, RedisError};

/// Nodes that are remembered.
const MAX_NODES: usize = 32;

/// Where a node of a cluster listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    host: String,
    port: u16,
}

/// Whom to connect to, the first first. `None` is who is configured, be it a cluster's node or not.
#[derive(Debug)]
pub(super) struct Known(VecDeque<Option<Node>>);

impl Node {
    /// What a redirection names: `HOST:PORT`, or `:PORT` where it is the host that redirects.
    pub fn told_by(fault: &RedisError, from: &ConnectionInfo) -> Option<Node> {
        let (address, _) = fault.redirect_node()?;
        let mut node = Node::parsed(address)?;
        if node.host.is_empty() {
            node.host = match from.addr() {
                ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
                _ => "127.0.0.1".to_owned(),
            };
        }
        Some(node)
    }

    fn parsed(address: &str) -> Option<Node> {
        let (host, port) = address.rsplit_once(':')?;
        Some(Node { host: host.to_owned(), port: port.parse().ok()? })
    }

    /// The others that a node knows of, by its answer to `CLUSTER NODES`, without those that it takes for gone.
    fn others(told: &str) -> impl Iterator<Item = Node> {
        told.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (address, flags) = (words.next()?, words.next()?);
            if flags.split(',').any(|flag| ["myself", "fail", "noaddr", "handshake"].contains(&flag)) {
                return None;
            }
            // `IP:PORT@BUS`, and where it announces one `,NAME`, which is what its certificate has.
            let (address, rest) = address.split_once('@')?;
            let mut node = Node::parsed(address)?;
            if let Some(name) = rest.split(',').nth(1).filter(|name| !name.is_empty()) {
                name.clone_into(&mut node.host);
            }
            Some(node)
        })
    }

    /// How to connect to it: as to the one that is configured.
    pub fn connection_info(&self, configured: &ConnectionInfo) -> ConnectionInfo {
        let (host, port) = (self.host.clone(), self.port);
        configured.clone().set_addr(match configured.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Default for Known {
    fn default() -> Known {
        Known(VecDeque::from([None]))
    }
}

impl Known {
    /// Whom to try next.
    pub fn first(&self) -> Option<Node> {
        self.0.front().cloned().flatten()
    }

    /// The first failed: the others come before it.
    pub fn failed(&mut self) {
        self.0.rotate_left(1);
    }

    /// A node says that this one has what is asked for.
    pub fn redirected(&mut self, to: Node) {
        self.0.retain(|known| known.as_ref() != Some(&to));
        self.0.push_front(Some(to));
    }

    /// This one has what is asked for, and knows these by its answer to `CLUSTER NODES`.
    pub fn found(&mut self, home: Option<&Node>, told: &str) {
        let configured = home.is_some().then_some(None);
        let others = Node::others(told).map(Some).filter(|other| other.as_ref() != home);
        self.0 = [home.cloned()].into_iter().chain(configured).chain(others).take(MAX_NODES).collect();
    }
}
