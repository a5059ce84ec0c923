//! Which addresses a feed may have, and how often each is polled at most.

use throttler::feed::{FeedUrl, MIN_POLL, MIN_POLL_LOCAL};
use throttler::time::Span;

#[test]
fn files_and_loopback_may_be_polled_often_and_others_once_a_minute() {
    for (text, min_poll) in [
        ("https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/4.5_day.geojson", MIN_POLL),
        ("https://earthquake.usgs.gov/fdsnws/event/1/query?format=geojson&minmagnitude=4.5", MIN_POLL),
        ("http://feed.example.org/x?y=1", MIN_POLL),
        ("http://10.0.0.1/feed", MIN_POLL),
        ("http://localhost.example.org/", MIN_POLL),
        ("http://127.0.0.1:8080/feed", MIN_POLL_LOCAL),
        ("http://127.9.9.9/feed", MIN_POLL_LOCAL),
        ("http://[::1]:8080/feed", MIN_POLL_LOCAL),
        ("http://LOCALHOST/feed", MIN_POLL_LOCAL),
        ("file:///var/lib/feed.geojson", MIN_POLL_LOCAL),
    ] {
        let url: FeedUrl = text.parse().expect(text);
        assert_eq!(url.min_poll(), min_poll, "{text}");
        assert_eq!(url.to_string().parse::<FeedUrl>().expect("its own form"), url);
    }
}

#[test]
fn wrong_addresses_are_told_what_was_expected() {
    for (text, fault) in [
        ("", "expected a URL that begins with https://, http:// or file://"),
        ("earthquake.usgs.gov/feed", "expected a URL that begins with https://, http:// or file://"),
        ("ftp://example.org/feed", "expected https, http or file"),
        ("https://", "expected a URL that begins with https://, http:// or file://"),
        ("https://example.org/a b", "expected no spaces or control characters"),
        ("https://example.org/\n", "expected no spaces or control characters"),
        ("https://example.org/#top", "expected no fragment (#…)"),
        ("file://feed.geojson", "expected an absolute path on this machine, like file:///var/lib/feed.geojson"),
        ("file:///feed.geojson?x", "expected no query (?…) on a file"),
        (&format!("https://example.org/{}", "x".repeat(2_048)), "expected at most 2048 bytes"),
        (
            "https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/4.5_day.geojson?minmagnitude=5",
            "expected no query (?…), which this service refuses with 403; choose another feed, or a query address (/fdsnws/…)",
        ),
    ] {
        let error = text.parse::<FeedUrl>().expect_err(text);
        assert!(error.to_string().ends_with(&format!("is not a feed address: {fault}")), "{error}");
        assert!(!error.is_transient());
    }
    let error = "https://anna:hunter2@example.org/".parse::<FeedUrl>().expect_err("a password").to_string();
    assert_eq!(error, "'https://…@example.org' is not a feed address: expected no user name or password in it");
}

#[test]
fn how_far_a_feed_reaches_back_and_what_is_beside_it_is_told_by_its_name() {
    let beside = |text: &str| {
        let url: FeedUrl = text.parse().expect(text);
        let hours = |span: Span| span.ticks() / 3_600_000_000;
        let wider = url.wider().iter().map(|(url, reach)| format!("{url} {}h", hours(*reach))).collect::<Vec<_>>().join(" ");
        (url.reach().map(hours), wider)
    };
    let usgs = "https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary";
    assert_eq!(
        beside(&format!("{usgs}/4.5_day.geojson")),
        (Some(24), format!("{usgs}/4.5_week.geojson 168h {usgs}/4.5_month.geojson 720h"))
    );
    assert_eq!(
        beside("http://127.0.0.1:8080/all_hour.geojson"),
        (
            Some(1),
            "http://127.0.0.1:8080/all_day.geojson 24h http://127.0.0.1:8080/all_week.geojson 168h \
             http://127.0.0.1:8080/all_month.geojson 720h"
                .to_owned()
        )
    );
    assert_eq!(beside("https://mirror.example.org/x/significant_month.geojson"), (Some(720), String::new()));
    for unknown in [
        "file:///var/lib/4.5_day.geojson",
        "https://example.org/4.5_day.json",
        "https://example.org/4.5_year.geojson",
        "https://example.org/mine_day.geojson",
        "https://example.org/4.5_day.geojson?x=1",
        "https://example.org/fdsnws/event/1/query?format=geojson",
        "https://example.org/",
    ] {
        assert_eq!(beside(unknown), (None, String::new()), "{unknown}");
    }
    let service = |text: &str| text.parse::<FeedUrl>().expect(text).fdsn().map(|url| url.to_string());
    assert_eq!(service(&format!("{usgs}/4.5_day.geojson")).as_deref(), Some("https://earthquake.usgs.gov/fdsnws/event/1/"));
    assert_eq!((service("http://127.0.0.1/4.5_day.geojson"), service("file:///4.5_day.geojson")), (None, None));
}
