//! Who sees what is for the operator, and who does not.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use throttler::web::{Access, Limits};

use crate::rig::Rig;
use crate::site::{Answer, Site};

const TOKEN: &str = "correct-horse-battery";
/// What is for the operator.
const GUARDED: [&str; 2] = ["/", "/metrics"];

async fn site(rig: &mut Rig, listen: &str, token: Option<&str>) -> Site {
    rig.see(&[]).await;
    let listen: SocketAddr = listen.parse().expect("an address");
    let token = token.map(|token| token.parse().expect("a token"));
    Site::with(rig, Limits::default(), Access::new(listen, token)).await
}

async fn ask(site: &Site, path: &str, headers: &str) -> Answer {
    site.raw(&format!("GET {path} HTTP/1.1\r\n{headers}\r\n")).await
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

/// A page of somebody else's whose name was made to lead to this machine asks by that name.
#[tokio::test]
async fn without_a_token_only_requests_of_this_machine_s_own_are_answered() {
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig, "127.0.0.1:8080", None).await;
    for path in GUARDED {
        for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]"] {
            assert_eq!(ask(&site, path, &format!("Host: {host}\r\n")).await.status, 200, "{path} {host}");
        }
        for headers in [
            "Host: rebound.example.org\r\n",
            "Host: 192.168.1.2:8080\r\n",
            "Host: \r\n",
            "Host: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n",
            "Host: localhost\r\nForwarded: for=203.0.113.9\r\n",
            // No token opens where there is none.
            "Host: rebound.example.org\r\nAuthorization: Bearer correct-horse-battery\r\n",
        ] {
            let answer = ask(&site, path, headers).await;
            assert_eq!(answer.status, 403, "{path} {headers}");
            assert!(answer.body.contains("web.token_file"), "{}", answer.body);
        }
    }
    assert_eq!(ask(&site, "/healthz", "Host: rebound.example.org\r\n").await.status, 200);
    assert_eq!(ask(&site, "/unsubscribe/x", "Host: alerts.example.org\r\nX-Forwarded-For: 203.0.113.9\r\n").await.status, 404);
}

#[tokio::test]
async fn a_token_opens_from_everywhere_and_nothing_else_does() {
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig, "0.0.0.0:8080", Some(TOKEN)).await;
    let host = "Host: alerts.example.org\r\nX-Forwarded-For: 203.0.113.9\r\n";
    for path in GUARDED {
        let bearer = format!("{host}Authorization: bearer {TOKEN}\r\n");
        for headers in [bearer, format!("{host}{}", basic("", TOKEN)), format!("{host}{}", basic("anna", TOKEN))] {
            assert_eq!(ask(&site, path, &headers).await.status, 200, "{path} {headers}");
        }
        for wrong in [
            String::new(),
            format!("Authorization: Bearer {TOKEN}x\r\n"),
            format!("Authorization: Bearer {}\r\n", &TOKEN[1..]),
            "Authorization: Bearer\r\n".to_owned(),
            format!("Authorization: Digest {TOKEN}\r\n"),
            "Authorization: Basic !!!\r\n".to_owned(),
            basic(TOKEN, ""),
            basic("anna", "correct"),
        ] {
            let answer = ask(&site, path, &format!("Host: localhost\r\n{wrong}")).await;
            assert_eq!(answer.status, 401, "{path} {wrong}");
            assert!(answer.header("www-authenticate").is_some_and(|asks| asks.starts_with("Basic ")), "{}", answer.head);
            assert!(!answer.body.contains(TOKEN), "{}", answer.body);
        }
    }
    assert_eq!(ask(&site, "/healthz", host).await.status, 200);
}

#[tokio::test]
async fn where_other_machines_listen_in_nothing_opens_without_a_token() {
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig, "0.0.0.0:8080", None).await;
    for path in GUARDED {
        let answer = ask(&site, path, "Host: localhost\r\n").await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.body.contains("web.token_file"), "{}", answer.body);
    }
    assert_eq!(ask(&site, "/healthz", "Host: localhost\r\n").await.status, 200);
}

#[tokio::test]
async fn a_page_is_strict_and_changes_nothing() {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    let site = site(&mut rig, "127.0.0.1:8080", None).await;
    let page = site.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    for (header, value) in
        [("cache-control", "no-store"), ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
    {
        assert_eq!(page.header(header), Some(value), "{}", page.head);
    }
    // Nothing from elsewhere, and no style or script but the two.
    assert!(!page.body.contains("src=") && !page.body.contains(" style=") && !page.body.contains(" onclick="), "{}", page.body);
    for method in ["POST", "PUT", "DELETE"] {
        let answer = site.raw(&format!("{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")).await;
        assert_eq!(answer.status, 405, "{method}");
    }
    let refused = site.get("/?days=0").await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("days: expected 1 to 366, found 0"), "{}", refused.body);
    // A hostile question comes back as text.
    let hostile = site.get("/?subscriber=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&from=2025-08-01").await;
    assert!(hostile.status == 200 && !hostile.body.contains("<script>alert"), "{}", hostile.body);
}
