//! Which addresses a webhook may be sent to. Subscribers choose the URL, so without this anyone could have the daemon
//! knock at the machines behind the operator's firewall, or at the cloud's metadata service (server-side request forgery).
//!
//! `reach` is a pure function of the address. It is asked about the very addresses that are connected to: as a resolver
//! for names, so that no second answer of the DNS can differ from the one that was checked, and before the request for
//! addresses in the URL, for which no resolver is asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Who can be at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Anyone on the internet.
    Public,
    /// This machine or a network of the operator's own; allowed only if the operator says so.
    Private(&'static str),
    /// No receiver of webhooks; never allowed.
    Never(&'static str),
}

/// What may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    PublicOnly,
    /// Plain http, where the operator allows it, goes no further than the operator's own networks.
    PrivateOnly,
    PublicAndPrivate,
}

/// Why a destination is not connected to; it tells the operator what was found and what to set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{host} is at {address}, {what}: set allow_private = true under [webhook] to allow it")]
    Private { host: String, address: IpAddr, what: &'static str },
    #[error("{host} is at {address}, {what}: nothing is ever sent there")]
    Never { host: String, address: IpAddr, what: &'static str },
    #[error("{host} is at {address}, a public address: expected https, plain http goes to private addresses only")]
    PlainToPublic { host: String, address: IpAddr },
    #[error(
        "{host} is to be reached by plain http: expected https (allow_private = true under [webhook] allows http to private addresses)"
    )]
    Plain { host: String },
}

/// Who can be at `address`. An IPv6 address that carries an IPv4 one is judged by that.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

/// After the IANA IPv4 Special-Purpose Address Registry (RFC 6890 and its successors).
fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [169, 254, 169, 254] | [168, 63, 129, 16] | [100, 100, 100, 200] | [192, 0, 0, 192] => {
            Reach::Never("the metadata service of a cloud")
        }
        [127, ..] => Reach::Private("this machine (loopback)"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Reach::Private("a private network"),
        [100, 64..=127, ..] => Reach::Private("a shared carrier network (100.64.0.0/10)"),
        [169, 254, ..] => Reach::Private("the local link"),
        [0, ..] => Reach::Never("no address of a machine (0.0.0.0/8)"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Reach::Never("an address for documentation"),
        [198, 18..=19, ..] => Reach::Never("an address for benchmarks"),
        [224..=239, ..] => Reach::Never("a multicast group"),
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Reach::Never("a reserved address"),
        _ => Reach::Public,
    }
}

/// After the IANA IPv6 Special-Purpose Address Registry; only `2000::/3` holds public addresses.
fn reach_v6(address: Ipv6Addr) -> Reach {
    let [_, _, c, _, _, _, g, h] = address.segments();
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Private("this machine (loopback)"),
        [0, 0, 0, 0, 0, 0, 0, 0] => Reach::Never("no address of a machine (::)"),
        // IPv4-mapped, IPv4-compatible, IPv4-translated (RFC 2765) and NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => reach_v4(v4(g, h)),
        // NAT64 of a network's own (RFC 8215): where the IPv4 address stands is that network's choice.
        [0x64, 0xff9b, 1, ..] => Reach::Never("behind a local address translation (64:ff9b:1::/48)"),
        // 6to4 (RFC 3056).
        [0x2002, b, ..] => reach_v4(v4(b, c)),
        [0x2001, 0, ..] => Reach::Never("behind a Teredo tunnel"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Never("an address for documentation"),
        [0x2001, 2, 0, ..] => Reach::Never("an address for benchmarks"),
        [0x2001, 0x10..=0x3f, ..] => Reach::Never("a key, not a place (ORCHID)"),
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Reach::Never("the metadata service of a cloud"),
        [0xfc00..=0xfdff, ..] => Reach::Private("a private network (unique local)"),
        [0xfe80..=0xfebf, ..] => Reach::Private("the local link"),
        [0xfec0..=0xfeff, ..] => Reach::Private("a private network (site-local)"),
        [0xff00..=0xffff, ..] => Reach::Never("a multicast group"),
        // ISATAP (RFC 5214) carries an IPv4 address in the interface identifier.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, ..] if reach_v4(v4(g, h)) != Reach::Public => {
            Reach::Never("a tunnel to a private network (ISATAP)")
        }
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Never("a reserved address"),
    }
}

/// The IPv4 address in two groups of an IPv6 one.
fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

impl Policy {
    /// Whether `address`, found under the name `host`, may be connected to.
    fn check(self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let host = || host.to_owned();
        match (reach(address), self) {
            (Reach::Never(what), _) => Err(Refused::Never { host: host(), address, what }),
            (Reach::Private(what), Policy::PublicOnly) => Err(Refused::Private { host: host(), address, what }),
            (Reach::Public, Policy::PrivateOnly) => Err(Refused::PlainToPublic { host: host(), address }),
            (Reach::Public | Reach::Private(_), _) => Ok(()),
        }
    }
}

/// The policy for `url`.
///
/// # Errors
/// [`Refused::Plain`] for http without `allow_private`.
pub(super) fn policy(url: &Url, allow_private: bool) -> Result<Policy, Refused> {
    match (url.scheme() == "https", allow_private) {
        (true, false) => Ok(Policy::PublicOnly),
        (true, true) => Ok(Policy::PublicAndPrivate),
        (false, true) => Ok(Policy::PrivateOnly),
        (false, false) => Err(Refused::Plain { host: host_of(url) }),
    }
}

/// Whether `url` may be sent to, as far as it can be told without asking the DNS: its scheme, and its host if that is an
/// address in any of the forms that the URL standard knows (decimal, octal, hexadecimal, IPv4 in IPv6).
///
/// # Errors
/// [`Refused`] says why not, and what the operator can set.
pub fn check_url(url: &Url, allow_private: bool) -> Result<(), Refused> {
    let policy = policy(url, allow_private)?;
    let address = match url.host() {
        Some(Host::Ipv4(v4)) => IpAddr::V4(v4),
        Some(Host::Ipv6(v6)) => IpAddr::V6(v6),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    policy.check(&host_of(url), address)
}

pub(super) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// A resolver that answers with allowed addresses only.
pub(super) struct Guarded {
    pub policy: Policy,
    pub resolver: Arc<dyn Resolve>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, host) = (self.policy, name.as_str().to_owned());
        let answer = self.resolver.resolve(name);
        Box::pin(async move {
            let mut allowed = Vec::new();
            let mut refused = None;
            for address in answer.await? {
                match policy.check(&host, address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(why) => refused = Some(why),
                }
            }
            match refused {
                Some(why) if allowed.is_empty() => Err(why.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The operating system's resolver.
pub(super) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is the URL's; zero stands for it.
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
