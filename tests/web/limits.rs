//! Clients that send too much, too slowly or too often, and a stop in the middle.

use throttler::time::Span;
use throttler::web::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::rig::Rig;
use crate::site::{ONE_CLICK, Site};

async fn rig() -> Rig {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    rig.see(&[]).await;
    rig
}

/// Limits that a test need not wait long for.
const SHORT: Limits = Limits { connections: 2, head: Span::from_millis(50), request: Span::from_millis(100) };

#[tokio::test]
async fn too_much_is_refused() {
    let mut rig = rig().await;
    let site = Site::start(&mut rig).await;
    let path = site.path(&rig, "anna");
    let huge = format!("{ONE_CLICK}&x={}", "x".repeat(10_000));
    assert_eq!(site.post(&path, "application/x-www-form-urlencoded", &huge).await.status, 413);
    // Also where the length is not told in advance.
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let chunked = format!("POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n");
    assert_eq!(site.raw(&chunked).await.status, 413);
    let long = site.raw(&format!("GET /nothing HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(7_900))).await;
    assert_eq!(long.status, 404, "as long as a head may be");
    let many = "X: y\r\n".repeat(100);
    assert_eq!(site.raw(&format!("GET / HTTP/1.1\r\nHost: test\r\n{many}\r\n")).await.status, 431);
    assert_eq!(rig.number("SELECT count(*) FROM subscribers WHERE standing = 'active'"), 1);
}

#[tokio::test]
async fn the_slow_are_hung_up_on_and_then_the_others_are_served() {
    let mut rig = rig().await;
    let site = Site::with_limits(&mut rig, SHORT).await;
    let path = site.path(&rig, "anna");
    let mut slow = Vec::new();
    let half = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 26\r\n\r\nList-");
    for begun in ["", "GET / HT", half.as_str(), "POST"] {
        let mut stream = TcpStream::connect(site.address).await.expect("it listens");
        stream.write_all(begun.as_bytes()).await.expect("it reads");
        slow.push(stream);
    }
    // More than there is room for; still everybody's turn comes.
    assert_eq!(site.one_click(&path).await.status, 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        // It was closed, with or without a word.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "), "{rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_at_once_unsubscribe_once() {
    let mut rig = rig().await;
    let site = std::sync::Arc::new(Site::start(&mut rig).await);
    let path = site.path(&rig, "anna");
    let mut clicks = JoinSet::new();
    for _ in 0..100 {
        let (site, path) = (std::sync::Arc::clone(&site), path.clone());
        clicks.spawn(async move { site.one_click(&path).await });
    }
    let answers = clicks.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body));
    assert_eq!(rig.number("SELECT count(*) FROM subscribers WHERE unsubscribed_at IS NOT NULL"), 1);
}

#[tokio::test]
async fn at_a_stop_requests_under_way_end_and_no_others_begin() {
    let mut rig = rig().await;
    let site = Site::start(&mut rig).await;
    let (address, path) = (site.address, site.path(&rig, "anna"));
    let mut idle = TcpStream::connect(address).await.expect("it listens");
    let mut under_way = TcpStream::connect(address).await.expect("it listens");
    let (begin, end) = ONE_CLICK.split_at(5);
    let head = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 26\r\nExpect: 100-continue";
    under_way.write_all(format!("POST {path} HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\n").as_bytes()).await.expect("it reads");
    // Its handler has begun to read the body.
    let mut go_on = [0; 25];
    under_way.read_exact(&mut go_on).await.expect("an answer");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    under_way.write_all(begin.as_bytes()).await.expect("it reads");
    let stopping = tokio::spawn(site.stop());
    idle.read_to_end(&mut Vec::new()).await.expect("it is closed");
    under_way.write_all(end.as_bytes()).await.expect("it still reads");
    let mut answer = String::new();
    under_way.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    stopping.await.expect("it stops");
    assert!(TcpStream::connect(address).await.is_err(), "nothing listens any more");
}
