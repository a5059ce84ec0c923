//! A server that stands still: its processes are stopped, and the system goes on taking what is sent to them.

use crate::daemon::{Daemon, log, mails};
use crate::place::{Place, quake, wait_for};
use crate::server::{Server, ask, missing};

/// A place whose database, in a schema of this server's, is to answer within 2 s.
fn place(server: &Server) -> (Place, String) {
    let url = server.schema() + "&connect_timeout=2&answer_timeout=2";
    let place = Place::new();
    place.write(
        "throttler.toml",
        &format!(
            "database = \"{url}\"\n[feed]\nurl = \"file://{}\"\npoll = \"50ms\"\nmin_magnitude = 4.5\n[email]\n\
             from = \"Alerts <alerts@example.org>\"\nsmtp = \"file://{}\"\n",
            place.path("feed.geojson").display(),
            place.path("mail").display()
        ),
    );
    place.feed(&[]);
    (place, url)
}

/// The address as a test may use it itself.
fn plain(url: &str) -> String {
    url.replace("&answer_timeout=2", "")
}

#[test]
fn a_daemon_gives_up_a_statement_without_an_answer_and_goes_on_when_the_server_does() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let server = Server::start(&["fsync=off"]);
    let (place, url) = place(&server);
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start(&place);
    let polled = "SELECT count(*) FROM installation WHERE polled_at IS NOT NULL";
    wait_for("the first poll", || (ask(&plain(&url), polled) == [["1"]]).then_some(()));
    place.feed(&[quake("us1", 5.5)]);
    wait_for("its message", || (mails(&place).len() == 1).then_some(()));

    let frozen = server.freeze();
    place.feed(&[quake("us2", 6.5), quake("us1", 5.5)]);
    for stage in ["recorded", "decided", "delivered"] {
        let told = format!("nothing is {stage} until this is mended: cannot ");
        wait_for(stage, || {
            let log = log(&place);
            let mut lines = log.lines().filter(|line| line.contains(&told));
            lines.any(|line| line.ends_with("the server does not answer within 2 s")).then_some(())
        });
    }
    let status = place.run(&["status"]);
    let told = format!("throttler: cannot reach the database {url}: the server does not answer within 2 s\n");
    assert_eq!((status.status, status.out.as_str(), status.err), (Some(1), "", told));
    assert_eq!(mails(&place).len(), 1);
    drop(frozen);

    wait_for("the next message", || (mails(&place).len() == 2).then_some(()));
    let again = |stage: &str| log(&place).contains(&format!("the database works again: what was not {stage} is now"));
    wait_for("all stages", || ["recorded", "decided", "delivered"].into_iter().all(again).then_some(()));
    let decided = "SELECT count(*), count(DISTINCT event_key) FROM decisions";
    assert_eq!(ask(&plain(&url), decided), [["2", "2"]]);
    // One works and one listens: what was given up is gone, with all that it held.
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'throttler' AND backend_type = 'client backend'";
    wait_for("two sessions", || (ask(&plain(&url), sessions) == [["2"]]).then_some(()));
    assert!(daemon.stop().success(), "{}", log(&place));
    assert_eq!(mails(&place).len(), 2);
}
