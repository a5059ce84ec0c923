//! Limits in a real cluster of Redis: asked of the node that has them, whichever is named, and found where they have gone.

use throttler::limiter::{Algorithm, Limit, Limiter, Request, Verdict};
use throttler::shared::{PREFIX, Question, SharedError, SharedStore};
use throttler::time::Timestamp;

use crate::redis_server::{Cluster, wait_until};
use crate::support::{SECOND, at, parsed};

const START: i64 = 1_764_000_000 * SECOND;

/// A limit in the cluster, and the core's own beside it.
struct Beside {
    key: String,
    limiter: Limiter,
}

impl Beside {
    fn new(key: String, limit: Limit) -> Beside {
        Beside { key, limiter: Limiter::new(limit) }
    }

    async fn ask(&self, store: &SharedStore, now: Timestamp) -> Result<Verdict, SharedError> {
        let mut question = Question::default();
        let kind = question.kind(self.limiter.limit(), 1).expect("an exact limit");
        question.key(self.key.clone(), kind);
        Ok(store.decide(&question, now).await?[0].verdict)
    }

    /// The cluster decides as the core does.
    async fn agrees(&mut self, store: &SharedStore, now: Timestamp) {
        let answer = self.ask(store, now).await.expect("an answer");
        assert_eq!(answer, self.limiter.admit(now, Request::ONE), "{} at {now}", self.key);
    }
}

fn limits() -> [Limit; 4] {
    [
        parsed(Algorithm::FixedWindow, "3/10s", None),
        parsed(Algorithm::SlidingLog, "3/10s", None),
        parsed(Algorithm::SlidingCounter, "3/10s", None),
        parsed(Algorithm::TokenBucket, "3/10s", Some(4)),
    ]
}

/// A key of its own at each node.
fn keys(cluster: &Cluster) -> Vec<String> {
    let at = |node| (0..1_000).map(|number| format!("{{k{number}}}")).find(|key| cluster.home(key) == node).expect("a key");
    (0..3).map(at).collect()
}

#[tokio::test]
async fn decisions_are_the_cores_on_all_nodes_and_one_that_dies_takes_only_its_own() {
    let Some(mut cluster) = Cluster::start(3, 0).await else { return };
    let keys = keys(&cluster);
    let store = cluster.store(0);
    let mut all: Vec<Beside> =
        keys.iter().flat_map(|key| limits().map(|limit| Beside::new(format!("{key}:{}", limit.algorithm()), limit))).collect();
    let mut now = START;
    let mut pass = |step: i64| {
        now += [0, SECOND, SECOND / 3, 7, 4 * SECOND][usize::try_from(step).expect("small") % 5];
        at(now)
    };
    for step in 0..30 {
        for (number, limit) in (0..).zip(&mut all) {
            limit.agrees(&store, pass(step * 7 + number)).await;
        }
    }
    cluster.nodes[1].kill();
    let (its_own, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(|limit| limit.key.starts_with(&keys[1]));
    for step in 0..10 {
        let now = pass(step);
        for limit in &its_own {
            let refused = limit.ask(&store, now).await.expect_err("it is gone").to_string();
            let gone = format!("cannot reach {}, node 127.0.0.1:{}: ", cluster.address(0), cluster.port(1));
            assert!(refused.starts_with(&gone) || refused.contains("CLUSTERDOWN"), "{refused}");
        }
        for limit in &mut others {
            limit.agrees(&store, now).await;
        }
    }
    cluster.nodes[1].run().await;
    wait_until(|| cluster.nodes[1].command(&["CLUSTER", "INFO"]).contains("cluster_state:ok")).await;
    let fresh = Beside::new(format!("{}:fresh", keys[1]), limits()[0]);
    assert_eq!(fresh.ask(&store, at(now)).await.expect("it is back"), Verdict::Admitted);
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_without_a_decision_lost() {
    let Some(cluster) = Cluster::start(3, 0).await else { return };
    let (store, other) = (cluster.store(2), cluster.store(0));
    let key = |name: &str| format!("{PREFIX}{name}");
    let (from, slot) = (cluster.home(PREFIX), cluster.slot(PREFIX).to_string());
    let to = (from + 1) % 3;
    let mut before = Beside::new(key("before"), limits()[1]);
    let mut during = Beside::new(key("during"), limits()[1]);
    before.agrees(&store, at(START)).await;
    let set = |node: usize, words: &[&str]| {
        let told = cluster.nodes[node].command(&[&["CLUSTER", "SETSLOT", &slot], words].concat());
        assert_eq!(told, "+OK");
    };
    set(to, &["IMPORTING", &cluster.id(from)]);
    set(from, &["MIGRATING", &cluster.id(to)]);
    // What is there stays until it is moved; what is new is asked of the next.
    for limit in [&mut before, &mut during] {
        for store in [&store, &other] {
            limit.agrees(store, at(START)).await;
        }
    }
    let port = cluster.port(to).to_string();
    let moved = cluster.nodes[from].command(&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", &before.key]);
    assert_eq!(moved, "+OK");
    // One who comes while all have gone already.
    before.agrees(&cluster.store(from), at(START)).await;
    for node in [to, from, 3 - to - from] {
        set(node, &["NODE", &cluster.id(to)]);
    }
    for _ in 0..3 {
        for limit in [&mut before, &mut during] {
            for store in [&store, &other] {
                limit.agrees(store, at(START)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_replica_that_takes_over_is_found_also_where_the_node_that_is_named_is_gone() {
    let Some(mut cluster) = Cluster::start(3, 1).await else { return };
    // The first, whose replica there is.
    let mut limit = Beside::new(format!("{}:log", keys(&cluster)[0]), limits()[1]);
    let store = cluster.store(0);
    limit.agrees(&store, at(START)).await;
    limit.agrees(&store, at(START)).await;
    assert_eq!(cluster.nodes[0].command(&["WAIT", "1", "0"]), ":1");
    cluster.nodes[0].kill();
    assert!(limit.ask(&store, at(START)).await.is_err());
    assert_eq!(cluster.nodes[3].command(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "+OK");
    let mut answer = limit.ask(&store, at(START)).await;
    for _ in 0..1_000 {
        if answer.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        answer = limit.ask(&store, at(START)).await;
    }
    // What was spent is known there.
    assert_eq!(answer.expect("it is found"), limit.limiter.admit(at(START), Request::ONE));
    limit.agrees(&store, at(START)).await;
}
