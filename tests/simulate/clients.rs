use throttler::simulate::{Work, clients::Clients};

#[test]
fn look() {
    let mut c = Clients::published("100/60s".parse().unwrap(), 1);
    if let Ok(s) = std::env::var("SEED") {
        c.seed = s.parse().unwrap();
    }
    let r = c.run(&Work { threads: 2, progress: &|_, _| {} }).unwrap();
    for r in &r.rows {
        println!(
            "{} {} {} {:?} {:?} {:.4} {:?} | {:.4} {:.4} | {:.2} {} | {:.4} {:.4}",
            r.shape,
            r.load_percent,
            r.limit.algorithm(),
            r.limit.bucket(),
            r.role,
            r.exact.unwrap_or(0.),
            r.limit.rate().limit(),
            r.served.mean,
            r.served.stderr,
            r.busiest_window.mean,
            r.worst_window,
            r.wrong_reject.mean,
            r.wrong_admit.mean
        );
    }
    println!("{:?} {:?} {} {}", r.bucket_against_counter(50), r.bucket_against_counter(75), r.same, r.compared);
}
