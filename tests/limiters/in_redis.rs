//! Limits in a real Redis: each decision is the core's, many at once, together or not at all, and forgotten in time.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use throttler::limiter::{Algorithm, Limit, Limiter, Request, Verdict};
use throttler::shared::{Answer, Question, SharedError, SharedStore, StoreAddress, exact};
use throttler::time::{Span, Timestamp};
use tokio::runtime::Runtime;

use crate::agreement::{Cost, When, any_question, resolve};
use crate::redis_server::RedisServer;
use crate::support::{SECOND, all_limits, any_limit, at, cases, fits, limit_of, parsed};

/// About now: a time as servers have it.
const START: i64 = 1_764_000_000 * SECOND;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The limits of the contract that can be kept in Redis.
fn any_exact_limit() -> impl Strategy<Value = Limit> {
    any_limit().prop_filter("beyond what is exact", |limit| exact(*limit).is_ok())
}

async fn ask(store: &SharedStore, key: &str, limit: Limit, cost: u32, now: Timestamp) -> Answer {
    let mut question = Question::default();
    let kind = question.kind(limit, cost).expect("an exact limit");
    question.key(key.to_owned(), kind);
    store.decide(&question, now).await.expect("an answer")[0]
}

#[test]
fn every_decision_is_the_cores() {
    let runtime = runtime();
    let Some(server) = runtime.block_on(RedisServer::start(&[])) else { return };
    let store = server.store();
    let questions = prop::collection::vec(any_question(), 1..40);
    let mut runner = TestRunner::new(cases(400));
    let cases_so_far = std::cell::Cell::new(0);
    let steps = (any_exact_limit(), START..START + (1 << 45), questions);
    let done = runner.run(&steps, |(limit, start, questions): (Limit, i64, Vec<(When, Cost, u32)>)| {
        let case = cases_so_far.get() + 1;
        cases_so_far.set(case);
        let (mut limiter, mut now, mut last) = (Limiter::new(limit), at(start), None);
        for (when, cost, _) in questions {
            let (then, cost) = resolve(when, cost, now, last);
            // Times and products below 2^52 each, so that their sums are exact: until the year 2112.
            if then.ticks() > 1 << 52 {
                break;
            }
            now = then;
            let cost = cost.clamp(1, limit.burst());
            let decision = limiter.decide(now, Request::costing(cost));
            let answer = runtime.block_on(ask(&store, &format!("{{a}}:{case}"), limit, cost, now));
            let expected = (decision.verdict, decision.outlook.remaining, decision.outlook.retry_at);
            let retry_at = now.plus(answer.wait);
            prop_assert_eq!(
                (answer.verdict, answer.remaining, Some(retry_at)),
                expected,
                "{:?} costing {} at {:?}",
                limit,
                cost,
                now
            );
            last = Some(decision.outlook);
        }
        Ok(())
    });
    done.expect("the same decisions");
}

/// About the time of one token, where fractions of a microsecond decide.
#[test]
fn refills_that_are_no_whole_microseconds_are_exact() {
    let runtime = runtime();
    let Some(server) = runtime.block_on(RedisServer::start(&[])) else { return };
    let store = server.store();
    for (number, limit) in [limit_of(Algorithm::TokenBucket, 7, 3_600 * 1_000_000, 3), limit_of(Algorithm::TokenBucket, 3, 10, 2)]
        .into_iter()
        .enumerate()
    {
        let (mut limiter, mut now) = (Limiter::new(limit), START);
        let token = i64::try_from(limit.rate().window().ticks() / u64::from(limit.rate().limit())).expect("small");
        for step in 0..200 {
            let decision = limiter.decide(at(now), Request::ONE);
            let answer = runtime.block_on(ask(&store, &format!("f{number}"), limit, 1, at(now)));
            let retry_at = Some(at(now).plus(answer.wait));
            assert_eq!((answer.verdict, retry_at), (decision.verdict, decision.outlook.retry_at), "{limit:?}, step {step}");
            now += [token, token + 1, 0, token / 2, 1][step % 5];
        }
    }
}

#[tokio::test]
async fn many_limits_are_asked_in_one_question_and_those_of_a_request_together() {
    let Some(server) = RedisServer::start(&[]).await else { return };
    let store = server.store();
    let mut question = Question::default();
    let limits = all_limits(3, 60_000_000, 3);
    let kinds: Vec<usize> = limits[..5].iter().map(|limit| question.kind(*limit, 1).expect("exact")).collect();
    for at in 0..2_500 {
        question.key(format!("{{many}}:{at}"), kinds[at % 5]);
    }
    for round in 0..4 {
        let answers = store.decide(&question, at(START)).await.expect("answers");
        let admitted = answers.iter().filter(|answer| answer.verdict == Verdict::Admitted).count();
        assert_eq!((answers.len(), admitted), (2_500, if round < 3 { 2_500 } else { 0 }), "round {round}");
    }
    // One that refuses keeps all from being charged, in the middle of a batch too.
    let mut question = Question::default();
    let (wide, narrow) = (parsed(Algorithm::TokenBucket, "5/m", Some(5)), parsed(Algorithm::SlidingLog, "2/m", None));
    let (wide, narrow) = (question.kind(wide, 1).expect("exact"), question.kind(narrow, 1).expect("exact"));
    let (wide, narrow) = (question.key("{x}:wide".into(), wide), question.key("{x}:narrow".into(), narrow));
    for keys in [vec![wide, narrow], vec![wide, narrow], vec![wide, narrow], vec![wide], vec![], vec![narrow, wide]] {
        question.request(keys);
    }
    let answers = store.decide(&question, at(START)).await.expect("answers");
    let refused_by: Vec<Option<usize>> = answers.iter().map(|answer| answer.refused_by).collect();
    assert_eq!(refused_by, [None, None, Some(narrow), None, None, Some(narrow)]);
    assert_eq!(answers[3].remaining, 2, "what was refused was not charged to the other");
    assert_eq!(answers[2].wait, Span::from_seconds(60));
}

#[tokio::test]
async fn states_are_forgotten_when_nothing_of_them_counts_any_more_and_refusals_write_nothing() {
    let Some(server) = RedisServer::start(&[]).await else { return };
    let store = server.store();
    // 30 ms and a fraction of one, and an hour more since the time is given.
    for (number, limit) in all_limits(1, 30_001, 1).into_iter().filter(|limit| exact(*limit).is_ok()).enumerate() {
        let (key, now) = (format!("k{number}"), START - START % 30_001);
        assert_eq!(ask(&store, &key, limit, 1, at(now)).await.verdict, Verdict::Admitted);
        let windows = if limit.algorithm() == Algorithm::SlidingCounter { 2 } else { 1 };
        let lifetime: i64 = server.command(&["PTTL", &key]).trim_start_matches(':').parse().expect("a number");
        let expected = 3_600_000 + (windows * 30_001 + 999) / 1_000;
        assert!((expected - 5_000..=expected).contains(&lifetime), "{limit:?}: {lifetime} of {expected}");
        let whole = expected - 3_600_000;
        assert!(whole * 1_000 >= windows * 30_001, "rounded up");
        let before = server.command(&["DUMP", &key]);
        assert_eq!(ask(&store, &key, limit, 1, at(now + 1)).await.verdict, Verdict::Refused);
        assert_eq!(server.command(&["DUMP", &key]), before, "{limit:?}");
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_mints_nothing_and_locks_nobody_out() {
    let Some(server) = RedisServer::start(&[]).await else { return };
    let store = server.store();
    let window = 60 * SECOND;
    for (number, limit) in all_limits(4, 60_000_000, 4).into_iter().filter(|limit| exact(*limit).is_ok()).enumerate() {
        for (case, back) in [1, window / 2, window, 3 * window, 1_000_000 * SECOND].into_iter().enumerate() {
            let (key, now) = (format!("b{number}:{case}"), START - START % window + window / 2);
            for _ in 0..4 {
                assert_eq!(ask(&store, &key, limit, 1, at(now)).await.verdict, Verdict::Admitted);
            }
            let then = now - back;
            assert_eq!(ask(&store, &key, limit, 1, at(then)).await.verdict, Verdict::Refused, "{limit:?}, {back} back");
            // A full refill after the last decision, two windows for the counter, and what the step itself took.
            let refill = if limit.algorithm() == Algorithm::SlidingCounter { 2 * window } else { window };
            let end = then + refill + back.min(window);
            assert_eq!(ask(&store, &key, limit, 4, at(end)).await.verdict, Verdict::Admitted, "{limit:?}, {back} back");
        }
    }
}

#[tokio::test]
async fn the_servers_time_decides_and_a_script_it_forgot_is_sent_again() {
    let Some(server) = RedisServer::start(&[]).await else { return };
    let store = server.store_by_its_time();
    let limit = parsed(Algorithm::TokenBucket, "3/d", Some(3));
    let mut admitted = 0;
    let mut decided_at = Vec::new();
    for _ in 0..5 {
        server.command(&["SCRIPT", "FLUSH"]);
        let answer = ask(&store, "key", limit, 1, at(0)).await;
        admitted += u32::from(answer.verdict == Verdict::Admitted);
        decided_at.push(answer.at);
    }
    assert_eq!(admitted, 3, "each question is decided once");
    assert!(decided_at.is_sorted() && decided_at[0] > at(START), "{decided_at:?}");
    // A day is no whole number of thirds of a millisecond; the lifetime is that of the debt.
    let lifetime: i64 = server.command(&["PTTL", "key"]).trim_start_matches(':').parse().expect("a number");
    assert!((86_300_000..=86_400_000).contains(&lifetime), "{lifetime}");
    // Errors of the server are told, without the connection's secrets.
    server.command(&["CONFIG", "SET", "requirepass", "sesame"]);
    let login = format!("redis+unix://{}", server.socket().display());
    let refused = SharedStore::new(login.parse().expect("an address")).expect("a store").check().await;
    assert!(matches!(&refused, Err(SharedError::Refused { fault, .. }) if fault.contains("NOAUTH")), "{refused:?}");
    let wrong: StoreAddress = login.parse::<StoreAddress>().expect("an address").with_password("hunter2".into());
    let refused = SharedStore::new(wrong).expect("a store").check().await.expect_err("a wrong password");
    assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused:?}");
    let right = login.parse::<StoreAddress>().expect("an address").with_password("sesame".into());
    SharedStore::new(right).expect("a store").check().await.expect("the right password");
}

#[tokio::test]
async fn keys_of_one_tag_are_decided_together_on_a_cluster() {
    let Some(server) = RedisServer::start(&["--cluster-enabled", "yes"]).await else { return };
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    for _ in 0..1_000 {
        if server.command(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let store = server.store();
    let ask_two = async |first: &str, second: &str| {
        let mut question = Question::default();
        let kind = question.kind(fits(parsed(Algorithm::SlidingCounter, "5/m", None)), 1).expect("exact");
        let keys = [first, second].map(|key| question.key(key.to_owned(), kind));
        question.request(keys.to_vec());
        store.decide(&question, at(START)).await
    };
    let together = ask_two("throttler:{limits}:a", "throttler:{limits}:b").await.expect("one slot");
    assert_eq!(together[0].verdict, Verdict::Admitted);
    let apart = ask_two("throttler:a", "throttler:b").await;
    assert!(
        matches!(&apart, Err(SharedError::Refused { fault, .. }) if fault.contains("CROSSSLOT") || fault.contains("CrossSlot")),
        "{apart:?}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_told_in_one_line() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = [0; 4_096];
            while let Ok(1..) = stream.read(&mut read).await {
                let told = "redis_version:4.0.9";
                let commands = String::from_utf8_lossy(&read).matches('*').count();
                let answer = format!("${}\r\n{told}\r\n", told.len()).repeat(commands);
                let _ = stream.write_all(answer.as_bytes()).await;
                read = [0; 4_096];
            }
        }
    });
    let check = async |url: String| {
        SharedStore::new(url.parse().expect("an address")).expect("a store").check().await.expect_err("no store")
    };
    let told = check(format!("redis://127.0.0.1:{port}")).await.to_string();
    assert_eq!(told, format!("redis://127.0.0.1:{port} is Redis 4.0.9, too old: expected 6.0 or later"));
    let told = check("redis://127.0.0.1:1".to_owned()).await.to_string();
    assert!(told.starts_with("cannot reach redis://127.0.0.1:1: ") && !told.contains('\n'), "{told}");
    let with_login: StoreAddress = "rediss://anna:sesame@x:7000/2".parse().expect("an address");
    assert_eq!(format!("{with_login} {with_login:?}"), "rediss://x:7000/2 rediss://x:7000/2");
    for (url, fault) in [
        ("http://:sesame@x", "'http://…' is no address of a Redis server: expected local, redis://, rediss:// or redis+unix://"),
        ("redis://x/#insecure", "'redis://x/…' is no address of a Redis server: expected no more than a host or a path"),
        ("redis://x/y", "'redis://x/…' is no address of a Redis server: expected a host or a path"),
        ("near", "'near' is no address of a Redis server: expected a URL like redis://127.0.0.1:6379"),
    ] {
        let told = url.parse::<StoreAddress>().expect_err(url).to_string();
        assert!(told.starts_with(fault), "{told}");
    }
    let beyond = exact(limit_of(Algorithm::SlidingCounter, 1_000_000_000, 86_400_000_000, 1)).expect_err("beyond").to_string();
    assert!(beyond.starts_with("a sliding-counter of 1000000000/d is beyond what Redis computes exactly"), "{beyond}");
}
