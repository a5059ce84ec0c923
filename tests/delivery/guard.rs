//! Which places webhooks reach: the table of addresses, every way to write one, and names that lead astray.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use throttler::delivery::address_guard::{Reach, check_url, reach};
use throttler::delivery::{Outcome, WebhookSender, WebhookSettings};
use throttler::subscriber::Preset;

use crate::alerts::event_alert;
use crate::webhook::{Receiver, attempt, crypto, now, secret, url};

#[test]
fn addresses_are_told_apart() {
    let kind = |text: &str| match reach(text.parse::<IpAddr>().expect(text)) {
        Reach::Public => "public",
        Reach::Private(_) => "private",
        Reach::Never(_) => "never",
    };
    for (expected, addresses) in [
        (
            "public",
            "1.1.1.1 8.8.8.8 93.184.216.34 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
             169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 \
             198.20.0.0 223.255.255.255 2606:4700:4700::1111 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1",
        ),
        (
            "private",
            "127.0.0.1 127.255.255.255 10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 \
             100.64.0.0 100.127.255.255 169.254.0.1 169.254.255.255 ::1 fc00::1 fdff::1 fe80::1 febf::1 fec0::1 \
             ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::ffff:0:192.168.1.1 64:ff9b::10.0.0.1 2002:7f00:1::1 2002:c0a8:101::",
        ),
        (
            "never",
            "0.0.0.0 0.1.2.3 169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 \
             198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: \
             ::ffff:169.254.169.254 ::ffff:0.0.0.0 64:ff9b::169.254.169.254 64:ff9b:1::a00:1 2002:a9fe:a9fe:: 2001::1 \
             2001:0:1:2:3:4:5:6 2001:db8::1 3fff::1 2001:2::1 2001:10::1 2001:20::1 fd00:ec2::254 ff02::1 100::1 4000::1 \
             2600::5efe:10.0.0.1 2600::200:5efe:127.0.0.1 5f00::1",
        ),
    ] {
        for address in addresses.split_whitespace() {
            assert_eq!(kind(address), expected, "{address}");
        }
    }
}

#[test]
fn every_way_to_write_a_private_address_is_seen() {
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.1",
        "127.1",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "10.0.0.1",
        "012.0.0.1",
        "１２７.０.０.１",
        "%31%32%37.0.0.1",
        "[fe80::1]",
        "[fd12::1]",
    ] {
        let target = url(&format!("https://{host}:8443/hook"));
        let refused = check_url(target.as_url(), false).expect_err(host).to_string();
        assert!(refused.contains("allow_private"), "{host}: {refused}");
        assert_eq!(check_url(target.as_url(), true), Ok(()), "{host}");
    }
    for host in
        ["169.254.169.254", "2852039166", "[::ffff:169.254.169.254]", "0.0.0.0", "0", "[::]", "224.0.0.1", "255.255.255.255"]
    {
        let target = url(&format!("https://{host}/latest/meta-data"));
        assert!(check_url(target.as_url(), true).expect_err(host).to_string().contains("nothing is ever sent there"), "{host}");
    }
}

#[test]
fn plain_http_needs_the_operator_and_a_private_address() {
    let plain = |text: &str, allow| check_url(url(text).as_url(), allow).map_err(|why| why.to_string());
    assert!(plain("http://example.org/", false).expect_err("http").contains("expected https"));
    assert!(plain("http://127.0.0.1/", false).expect_err("http").contains("expected https"));
    assert_eq!(plain("http://127.0.0.1/", true), Ok(()));
    assert!(plain("http://8.8.8.8/", true).expect_err("public").contains("plain http goes to private addresses only"));
    assert_eq!(plain("https://8.8.8.8/", false), Ok(()));
}

/// Answers with these addresses, another list each time, the last for ever; counts the questions.
struct Answers(Vec<Vec<&'static str>>, Arc<AtomicUsize>);

impl Resolve for Answers {
    fn resolve(&self, _: Name) -> Resolving {
        let asked = self.1.fetch_add(1, Ordering::SeqCst);
        let answer = self.0[asked.min(self.0.len() - 1)].clone();
        Box::pin(async move {
            let addresses = answer.into_iter().map(|ip| SocketAddr::new(ip.parse().expect(ip), 0));
            Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

fn sender(allow_private: bool, answers: Vec<Vec<&'static str>>) -> (WebhookSender, Arc<AtomicUsize>) {
    crypto();
    let asked = Arc::new(AtomicUsize::new(0));
    let settings = WebhookSettings { allow_private, ..WebhookSettings::default() };
    (WebhookSender::with_resolver(settings, Arc::new(Answers(answers, Arc::clone(&asked)))).expect("sender"), asked)
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_followed() {
    let receiver = Receiver::answering(200, &[], "").await;
    let (sender, asked) = sender(false, vec![vec!["127.0.0.1"], vec!["::ffff:127.0.0.1"], vec!["169.254.169.254"]]);
    for (address, advice) in
        [("127.0.0.1", "allow_private"), ("::ffff:127.0.0.1", "allow_private"), ("169.254.169.254", "nothing is ever sent")]
    {
        let target = url(&format!("https://hooks.example.org:{}/secret-path", receiver.port()));
        let outcome = sender.send(&target, &Preset::Json, &[secret()], &event_alert(), now()).await;
        let Outcome::Permanent { reason, disable: false } = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("hooks.example.org is at ") && reason.contains(address) && reason.contains(advice), "{reason}");
        assert!(!reason.contains("secret-path"), "{reason}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3, "one answer for each attempt: none between check and use");
    assert_eq!(receiver.requests(), 0);
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_are_used() {
    let receiver = Receiver::answering(200, &[], "").await;
    // Plain http goes to private addresses only, so the public one is left out; were it tried, nobody would answer.
    let (sender, _) = sender(true, vec![vec!["192.0.2.1", "8.8.8.8", "127.0.0.1"], vec!["8.8.8.8"]]);
    let target = url(&format!("http://hooks.internal:{}/", receiver.port()));
    assert!(matches!(sender.send(&target, &Preset::Json, &[secret()], &event_alert(), now()).await, Outcome::Delivered { .. }));
    assert_eq!(receiver.requests(), 1);
    let other = url(&format!("http://rebound.internal:{}/", receiver.port()));
    let Outcome::Permanent { reason, .. } = sender.send(&other, &Preset::Json, &[secret()], &event_alert(), now()).await else {
        panic!("second")
    };
    assert!(reason.contains("rebound.internal is at 8.8.8.8") && reason.contains("private addresses only"), "{reason}");
}

#[tokio::test]
async fn the_system_s_own_resolver_is_guarded_as_well() {
    let receiver = Receiver::answering(200, &[], "").await;
    let target = format!("https://localhost:{}/", receiver.port());
    let Outcome::Permanent { reason, .. } = attempt(WebhookSettings::default(), &target).await else { panic!("localhost") };
    assert!(reason.contains("localhost is at ") && reason.contains("this machine (loopback)"), "{reason}");
    assert_eq!(receiver.requests(), 0);
}
