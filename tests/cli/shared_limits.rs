//! Limits in a real Redis as an operator sees them: in the check, the log, the status and the metrics.

use crate::daemon::{Daemon, log, mails, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};
use crate::port::Port;
use crate::redis_server::RedisServer;
use crate::web::{address, ask};

/// One who listens at this port, lets in whoever has the password, and whoever comes by the socket.
async fn redis(port: u16) -> Option<RedisServer> {
    let port = port.to_string();
    let anna = ["--user", "anna", "on", ">sesame", "~*", "&*", "+@all"];
    RedisServer::start(&[&["--port", &port, "--bind", "127.0.0.1"][..], &anna].concat()).await
}

/// Of these limits one is each instance's own, and of the shared ones two do not divide among three instances.
fn limited(port: u16) -> Place {
    let place = place();
    let before = std::fs::read_to_string(place.path("throttler.toml")).expect("a configuration");
    let store = format!("store = \"redis://anna:sesame@127.0.0.1:{port}/2\"");
    let share = "outage = \"local-share\"\ninstances = 3";
    let limits = format!(
        "[[limit]]\nname = \"mail\"\nchannel = \"email\"\nrate = \"2000/h\"\nbucket = 500\n{store}\n{share}\n\
         [[limit]]\nname = \"hooks\"\nchannel = \"webhook\"\nalgorithm = \"sliding-log\"\nrate = \"10/s\"\n{store}\n{share}\n\
         [[limit]]\nname = \"even\"\nall = true\nrate = \"300/h\"\n{store}\n{share}\n\
         [[limit]]\nname = \"closed\"\nchannel = \"webhook\"\nrate = \"9/s\"\n{store}\n\
         [[limit]]\nname = \"own\"\nall = true\nrate = \"9/s\"\n[web]\nlisten = \"127.0.0.1:0\"\n"
    );
    place.write("throttler.toml", &format!("{before}{limits}"));
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_tells_what_does_not_divide() {
    let held = Port::take();
    let port = held.address.port();
    let Some(_redis) = redis(port).await else { return };
    let told = limited(port).run(&["config", "check"]).ok();
    let (_, limits) = told.split_once("\n  limits ").expect("limits");
    let (_, version) = limits.split_once(", Redis ").expect("a version");
    let version = version.lines().next().expect("a line");
    insta::assert_snapshot!(
        "config_check_limits",
        limits.trim_start().replace(&port.to_string(), "PORT").replace(version, "VERSION")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_tells_where_its_shared_limits_are_and_when_their_store_goes_and_comes_back() {
    let held = Port::take();
    let port = held.address.port();
    let place = limited(port);
    // Skipped before anything runs.
    let Some(mut redis) = redis(port).await else { return };
    redis.kill();
    let shown = format!("redis://127.0.0.1:{port}/2");
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let address = address(&place);
    let told = log(&place);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("limit store: ")).collect();
    let begins = format!("ERROR throttler::cli::run: throttler.toml: limit store: cannot reach {shown}: ");
    let ends = "; until it is there these hold: mail local-share, hooks local-share, even local-share, closed fail-closed";
    assert!(lines.len() == 1 && lines[0].contains(&begins) && lines[0].ends_with(ends), "{told}");
    for (name, rest) in [("mail", "166 of a bucket of 500, and 2 are"), ("hooks", "3 of 10/s, and 1 is")] {
        let line = format!("limit '{name}', in an outage: local-share gives each of 3 instances {rest} left over");
        assert_eq!(told.matches(&line).count(), 1, "{line}: {told}");
    }
    assert_eq!(told.matches(", in an outage: ").count(), 2, "{told}");

    // It is asked, and away; its policy lets these pass.
    let is_up = |up: u8| {
        ask(&address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").contains(&format!("throttler_limit_store_up {up}\n"))
    };
    let limit = |name: &str| {
        let told = place.run(&["status", "--format", "json"]).json();
        let limits = told["daemon"]["limits"].as_array().cloned().unwrap_or_default();
        limits.into_iter().find(|limit| limit["name"] == name)
    };
    let outage = |name: &str| limit(name).map(|limit| limit["outage"].clone());
    let mut quakes = Vec::new();
    let mut quake_until_away = |times: usize| {
        let is_away = "throttler::daemon::outside: the store of the shared limits is away, and each limit's outage policy holds; it is looked for at ";
        wait_for("it is away", || {
            quakes.insert(0, quake(&format!("us{}", quakes.len()), 5.5));
            place.feed(&quakes);
            let count = quakes.len();
            wait_for("a message", || (mails(&place).len() == count).then_some(()));
            (log(&place).matches(is_away).count() == times).then_some(())
        });
        wait_for("the metrics", || is_up(0).then_some(()));
        wait_for("the status", || (outage("mail") == Some("local-share".into())).then_some(()));
        assert_eq!((outage("closed"), outage("own")), (Some("fail-closed".into()), Some(serde_json::Value::Null)));
        let text = place.run(&["status"]).ok();
        assert!(text.contains("token-bucket 2000/h, bucket 500 for all email; its store is away: local-share\n"), "{text}");
        assert!(text.contains("closed: 0 left; "), "{text}");
    };
    let found = |times: usize| {
        wait_for("it is found", || {
            let back = format!("the store of the shared limits answers again and decides store={shown} version=");
            (log(&place).matches(&back).count() == times).then_some(())
        });
        wait_for("the metrics", || is_up(1).then_some(()));
        wait_for("the status", || (outage("mail") == Some(serde_json::Value::Null)).then_some(()));
        assert!(!place.run(&["status"]).ok().contains("store is away"));
    };
    quake_until_away(1);
    redis.run().await;
    found(1);
    redis.kill();
    quake_until_away(2);
    redis.run().await;
    found(2);
    assert!(daemon.stop().success(), "{}", log(&place));

    let daemon = Daemon::start(&place);
    wait_for("it runs", || daemon.is_up().then_some(()));
    let told = log(&place);
    assert!(told.contains(&format!("INFO throttler::cli::run: limits kept in {shown}, Redis ")), "{told}");
    assert!(told.lines().any(|line| line.contains("limits kept in ") && line.ends_with(": mail, hooks, even, closed")), "{told}");
    assert!(daemon.stop().success(), "{}", log(&place));
    assert!(!log(&place).contains("sesame"), "{}", log(&place));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_the_login_is_an_error_at_the_start() {
    let held = Port::take();
    let port = held.address.port();
    let Some(_redis) = redis(port).await else { return };
    let place = limited(port);
    let wrong = std::fs::read_to_string(place.path("throttler.toml")).expect("a configuration").replace("sesame", "hunter2");
    place.write("throttler.toml", &wrong);
    for command in [&["run"][..], &["config", "check"]] {
        let ran = place.run(command);
        let told = ran.err.lines().last().expect("a line");
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
        let begins = format!("throttler: throttler.toml: limit store: redis://127.0.0.1:{port}/2 refuses: ");
        assert!(told.starts_with(&begins) && !ran.err.contains("hunter2"), "{}", ran.err);
    }
}
