//! What the program says of itself.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::place::{Place, catalogue};

#[test]
fn every_command_explains_itself() {
    let place = Place::new();
    for command in [
        "run",
        "config",
        "config check",
        "config default",
        "subscriber",
        "subscriber add",
        "subscriber list",
        "subscriber show",
        "subscriber set",
        "subscriber test",
        "subscriber pause",
        "subscriber resume",
        "subscriber remove",
        "subscriber import",
        "subscriber export",
        "min-bucket",
        "recommend",
        "replay",
        "catalog",
        "catalog fetch",
        "catalog info",
        "simulate",
        "simulate clients",
        "simulate attack",
        "simulate lockout",
        "simulate split",
        "simulate outage",
        "simulate patterns",
        "status",
        "outbox",
        "outbox list",
        "outbox retry",
        "outbox drop",
        "backup",
        "database",
        "database copy",
        "ledger",
        "report",
        "demo",
        "completions",
        "man",
    ] {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--help");
        insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), place.run(&args).ok());
    }
    let top = place.run(&["--help"]).ok();
    for word in ["run", "config", "subscriber", "min-bucket", "replay", "ledger", "Examples:", "Exit status:"] {
        assert!(top.contains(word), "{word}: {top}");
    }
    assert_eq!(place.run(&["--version"]).ok(), format!("throttler {}\n", env!("CARGO_PKG_VERSION")));
    assert!(place.files().is_empty(), "explaining leaves nothing");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let place = Place::new();
    let catalogue = catalogue();
    for args in [
        vec!["config", "default"],
        vec!["replay", &catalogue],
        vec!["min-bucket", &catalogue, "--format", "json"],
        vec!["completions", "bash"],
        vec!["man", "pages"],
    ] {
        let mut child = place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        // Nobody reads from the start.
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("its end");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()), "{args:?}");
    }
    let mut child = place.command(&["min-bucket", "none.csv"]).stderr(Stdio::piped()).spawn().expect("the program");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("its end").code(), Some(1), "nor does it matter that nobody reads the complaint");
}

#[test]
fn colour_comes_only_where_it_is_wanted() {
    let place = Place::new();
    let shown = |variables: &[(&str, &str)]| {
        let output = place.command(&["--help"]).envs(variables.iter().copied()).output().expect("the program");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(!shown(&[]).contains('\x1b'), "not into a pipe");
    assert!(!shown(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]).contains('\x1b'), "not with NO_COLOR");
    place.write("throttler.toml", "[feed]\nurl = \"file:///none.geojson\"\n");
    let mut daemon = place.command(&["run"]).env("NO_COLOR", "1").stderr(Stdio::piped()).spawn().expect("the daemon");
    let mut line = String::new();
    BufReader::new(daemon.stderr.take().expect("its log")).read_line(&mut line).expect("a line");
    daemon.kill().expect("killed");
    daemon.wait().expect("its end");
    assert!(line.contains("throttler") && !line.contains('\x1b'), "{line:?}");
}

#[test]
fn the_default_configuration_is_one() {
    let place = Place::new();
    let default = place.run(&["config", "default"]).ok();
    place.write("throttler.toml", &default);
    let checked = place.run(&["config", "check"]).ok();
    assert!(checked.starts_with("The configuration is in order.\n"), "{checked}");
    for part in [
        "throttler.toml",
        "4.5_day.geojson, every 1m",
        "throttler.db",
        "what would be sent is logged",
        "https to public addresses",
    ] {
        assert!(checked.contains(part), "{part}: {checked}");
    }
    let bare = Place::new();
    assert!(bare.run(&["config", "check"]).ok().contains("no file, only defaults"));
    assert!(bare.files().is_empty(), "checking creates nothing");
}
