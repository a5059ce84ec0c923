//! Limits that several instances share in a real Redis: together they keep to it; while it is killed, paused or slow each limit's
//! outage policy holds, at once, and as `simulate outage` foretells.

use std::path::Path;
use std::sync::Arc;

use throttler::clock::{Clock, ManualClock};
use throttler::daemon::{Database, Deliverer, Egress, Metrics};
use throttler::limiter::{Algorithm, Limit};
use throttler::limits::{Covers, DeliveryLimit, FallbackPolicy, Shared};
use throttler::shared::{PREFIX, SharedStore, StoreAddress};
use throttler::simulate::outage::{Outage, Preset};
use throttler::time::{Span, Timestamp};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

use crate::redis_server::{Cluster, RedisServer, wait_until};
use crate::rig::{MINUTE, Quake, Rig, limit, mailed, start};
use crate::server::{missing, server};

/// One of several daemons, with a message that it can be asked to deliver again and again.
struct Instance {
    rig: Rig,
    metrics: Arc<Metrics>,
}

fn shared(limit: Limit, outage: FallbackPolicy, instances: u32) -> DeliveryLimit {
    let name = "shared".parse().expect("a name");
    DeliveryLimit { name, covers: Covers::All, limit, cost: 1, shared: Some(Shared { outage, instances }) }
}

impl Instance {
    async fn start(address: &StoreAddress, limit: DeliveryLimit, patience: u64) -> Instance {
        let mut rig = Rig::with(&[mailed("anna")]).await;
        let (database, delivery) = (rig.parts().database.clone(), Arc::clone(&rig.delivery));
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&rig.clock);
        let store = SharedStore::new(address.clone()).expect("a store").by_given_time();
        let store = store.patient(Span::from_seconds(patience));
        let egress = Egress { limits: vec![limit], store: Some(Arc::new(store)), ..Egress::default() };
        let metrics = Arc::new(Metrics::new());
        let deliverer = Deliverer::with_limits(database, delivery, clock, egress);
        rig.parts().deliverer = deliverer.counting(Arc::clone(&metrics));
        rig.show(&[Quake::new(&rig, "us1", 6.0, MINUTE)]);
        rig.poll().await;
        rig.dispatch().await;
        Instance { rig, metrics }
    }

    /// Whether the message leaves now.
    async fn request(&mut self, at: Timestamp) -> bool {
        self.rig.clock.set(at);
        let again = "UPDATE outbox SET status = 'due', due_at = 0, attempts = 0, settled_at = NULL, lease_owner = NULL, lease_until = NULL";
        self.rig.run(again);
        self.rig.deliver().await;
        self.rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered' AND attempts = 1") == 1
    }

    fn is_away(&self) -> bool {
        self.metrics.store_away() == Some(true)
    }

    /// Looks for the store until it is found.
    async fn find_it(&mut self) {
        let now = self.rig.clock.now();
        for _ in 0..100 {
            if !self.is_away() {
                self.rig.clock.set(now);
                return;
            }
            // A probe comes within ten seconds.
            self.rig.pass(10);
            self.rig.parts().deliverer.turn().await.expect("a turn");
            self.rig.parts().deliverer.one_ended().await;
        }
        panic!("the store is never found");
    }
}

#[tokio::test]
async fn an_outage_passes_what_the_simulation_foretells() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut server) = RedisServer::start(&options).await else { return };
    let outage = Outage {
        bucket: 10,
        instances: 4,
        length: Span::from_seconds(4),
        down_from: Span::from_seconds(1),
        down_to: Span::from_seconds(3),
        ..Outage::published("5/s".parse().expect("a rate"))
    };
    let limits = [
        limit(Algorithm::TokenBucket, "5/s", Some(10)),
        // Of which nobody knows, from before the outage, that it refuses until later.
        limit(Algorithm::FixedWindow, "5/s", None),
    ];
    let base = start();
    for (limit, policy) in [
        (limits[0], FallbackPolicy::FailOpen),
        (limits[0], FallbackPolicy::LocalShare),
        (limits[0], FallbackPolicy::LocalFull),
        (limits[1], FallbackPolicy::FailClosed),
    ] {
        server.command(&["FLUSHALL"]);
        let mut foretold = Vec::new();
        let row = outage.course(Preset::Runaway, limit, Some(policy), &mut |step| foretold.push(step.admitted)).expect("a row");
        let mut instances = Vec::new();
        for _ in 0..4 {
            instances.push(Instance::start(&server.address(), shared(limit, policy, 4), 60).await);
        }
        let (mut passed, mut is_down) = (Vec::new(), false);
        for (number, at) in Preset::Runaway.requests(outage.length).into_iter().enumerate() {
            let since = Span::from_ticks(at.ticks().unsigned_abs());
            let should_be_down = since >= outage.down_from && since < outage.down_to;
            if should_be_down != is_down {
                is_down = should_be_down;
                if is_down {
                    server.kill();
                } else {
                    server.run().await;
                    for instance in &mut instances {
                        instance.find_it().await;
                    }
                }
            }
            passed.push(instances[number % 4].request(base.plus(since)).await);
        }
        assert_eq!(passed, foretold, "{limit:?}, {policy}: {row:?}");
    }
}

#[tokio::test]
async fn instances_keep_to_a_limit_together() {
    let Some(server) = RedisServer::start(&[]).await else { return };
    let limit = shared(limit(Algorithm::SlidingLog, "5/h", None), FallbackPolicy::FailClosed, 1);
    let mut first = Instance::start(&server.address(), limit.clone(), 60).await;
    let mut second = Instance::start(&server.address(), limit, 60).await;
    let mut passed = 0;
    for _ in 0..4 {
        passed += u32::from(first.request(start()).await) + u32::from(second.request(start()).await);
    }
    assert_eq!(passed, 5);
    let told = second.metrics.limits();
    assert_eq!((told[0].left, told[0].retry_at), (Some(0), Some(start().plus(Span::from_seconds(3_600)))), "{told:?}");
    // What was refused is not lost, and leaves when there is room again.
    let next = second.rig.parts().deliverer.turn().await.expect("a turn");
    assert_eq!(next, told[0].retry_at);
    second.rig.pass(3_600);
    second.rig.deliver().await;
    assert_eq!(second.rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered' AND attempts = 1"), 1);
}

/// Ten messages in a schema of a server, and two daemons that may deliver them under this limit: how many leave.
async fn left_by_two(limit: &DeliveryLimit, redis: &StoreAddress) -> i64 {
    let mut rig = Rig::fresh_on(Some(server().schema())).await;
    let names: Vec<_> = (0..10).map(|number| mailed(&format!("s{number}"))).collect();
    rig.add(&names);
    rig.poll().await;
    rig.show(&[Quake::new(&rig, "us1", 6.0, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
    for _ in 0..2 {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&rig.clock);
        let store = SharedStore::new(redis.clone()).expect("a store").by_given_time();
        let store = limit.shared.is_some().then(|| Arc::new(store.patient(Span::from_seconds(60))));
        let egress = Egress { limits: vec![limit.clone()], store, ..Egress::default() };
        // A process has a session of its own.
        let database = Database::new(rig.store());
        let mut daemon = Deliverer::with_limits(database, Arc::clone(&rig.delivery), clock, egress);
        daemon.all().await.expect("delivered");
    }
    rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered' AND attempts = 1")
}

#[tokio::test]
async fn daemons_on_one_server_keep_to_a_limit_together_in_redis_and_each_to_a_local_one() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let Some(redis) = RedisServer::start(&[]).await else { return };
    let limit = shared(limit(Algorithm::SlidingLog, "3/h", None), FallbackPolicy::FailClosed, 1);
    assert_eq!(left_by_two(&limit, &redis.address()).await, 3, "together");
    let limit = DeliveryLimit { shared: None, ..limit };
    assert_eq!(left_by_two(&limit, &redis.address()).await, 6, "each");
}

/// Passes on to the server, as slowly as is wanted, and counts connections.
struct Proxy {
    port: u16,
    stalls: watch::Sender<bool>,
    connections: watch::Receiver<usize>,
}

impl Proxy {
    async fn to(socket: &Path) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let (stalls, is_stalled) = watch::channel(false);
        let (count, connections) = watch::channel(0);
        let socket = socket.to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let server = UnixStream::connect(&socket).await.expect("the server listens");
                tokio::spawn(pass_on(client, server, is_stalled.clone()));
            }
        });
        Proxy { port, stalls, connections }
    }

    fn connections(&self) -> usize {
        *self.connections.borrow()
    }
}

/// Both ways; what is stalled waits for as long as it is.
async fn pass_on(mut client: TcpStream, mut server: UnixStream, mut is_stalled: watch::Receiver<bool>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let there = async {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
            if is_stalled.wait_for(|stalled| !stalled).await.is_err() || to_server.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    };
    let back = async { tokio::io::copy(&mut from_server, &mut to_client).await };
    tokio::select! {
        () = there => {}
        _ = back => {}
    }
}

#[tokio::test]
async fn a_store_that_is_slow_or_paused_is_left_alone_after_two_answers_that_did_not_come() {
    let Some(server) = RedisServer::start(&[]).await else { return };
    let proxy = Proxy::to(&server.socket()).await;
    let address = format!("redis://127.0.0.1:{}", proxy.port).parse().expect("an address");
    let bucket = limit(Algorithm::TokenBucket, "1/h", Some(8));
    let mut instance = Instance::start(&address, shared(bucket, FallbackPolicy::LocalShare, 2), 1).await;
    assert!(instance.request(start()).await && !instance.is_away());
    // The second time four hours later.
    for (pause, now) in [(true, start()), (false, start().plus(Span::from_seconds(4 * 3_600)))] {
        let pauses = |paused: bool| {
            if pause {
                server.signal(if paused { "-STOP" } else { "-CONT" });
            } else {
                proxy.stalls.send_replace(paused);
            }
        };
        pauses(true);
        let before = proxy.connections();
        assert!(instance.request(now).await, "the first that goes unanswered is decided by the policy");
        assert!(!instance.is_away());
        assert!(instance.request(now).await && instance.is_away(), "and so is the second, which is enough");
        let after = proxy.connections();
        assert!(after <= before + 1, "the one connection, and one more");
        // One of two instances has a share of four and half a token an hour: two are left the first time, none the second.
        assert_eq!((instance.request(now).await, instance.request(now).await), (pause, pause));
        assert!(!instance.request(now).await, "the share is spent, and stays so from one outage to the next");
        assert_eq!(proxy.connections(), after, "no decision waits for the store");
        let standing = &instance.metrics.limits()[0];
        assert_eq!((standing.left, standing.outage), (Some(0), Some(FallbackPolicy::LocalShare)));
        pauses(false);
        instance.find_it().await;
        assert!(instance.request(now).await, "the store has some left");
    }
}

#[tokio::test]
async fn of_a_cluster_only_the_node_that_has_the_limits_matters() {
    let Some(mut cluster) = Cluster::start(3, 0).await else { return };
    let home = cluster.home(PREFIX);
    let (named, third) = ((home + 1) % 3, (home + 2) % 3);
    let bucket = limit(Algorithm::TokenBucket, "1/h", Some(8));
    let mut instance = Instance::start(&cluster.address(named), shared(bucket, FallbackPolicy::LocalShare, 2), 60).await;
    assert!(instance.request(start()).await);
    cluster.nodes[third].kill();
    assert!(instance.request(start()).await && !instance.is_away(), "others go on");
    cluster.nodes[third].run().await;
    cluster.nodes[home].kill();
    assert!(instance.request(start()).await && instance.request(start()).await && instance.is_away(), "the policy decides");
    let passed = [instance.request(start()).await, instance.request(start()).await, instance.request(start()).await];
    assert_eq!(passed, [true, true, false], "a share of four");
    cluster.nodes[home].run().await;
    wait_until(|| cluster.nodes[home].command(&["CLUSTER", "INFO"]).contains("cluster_state:ok")).await;
    instance.find_it().await;
    // It does not remember what was spent before.
    assert!(instance.request(start()).await && !instance.is_away());
    assert_eq!(cluster.nodes[home].command(&["DBSIZE"]), ":1");
}
