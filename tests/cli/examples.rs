//! The examples of `--help`, run by a shell as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::Place;

/// Commands whose examples are run, in this order and in one directory, so that those later find what those before made. The
/// laboratory's have tests of their own, and take long; the others need a network, a service, or a daemon.
const RUN: [&str; 22] = [
    "config default",
    "config check",
    "completions",
    "man",
    "min-bucket",
    "recommend",
    "catalog info",
    "simulate attack",
    "simulate patterns",
    "subscriber add",
    "subscriber set",
    "subscriber list",
    "subscriber show",
    "subscriber pause",
    "subscriber resume",
    "subscriber export",
    "replay",
    "status",
    "outbox list",
    "report",
    "backup",
    "subscriber remove",
];

/// What in examples is of another machine, and what stands for it here.
const ELSEWHERE: [(&str, &str); 6] = [
    ("--config /etc/throttler/throttler.toml", "--config throttler.toml"),
    ("/usr/local/share/man", "share/man"),
    ("/var/backups/", "backups/"),
    ("~/", "home/"),
    ("zcat ", "cat "),
    ("access.csv.gz", "access.csv"),
];

fn examples(place: &Place, command: &str) -> Vec<String> {
    let mut args: Vec<&str> = command.split(' ').collect();
    args.push("--help");
    let help = place.run(&args).ok();
    let (_, text) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{command} has no examples"));
    let text = text.split("\n\n").next().unwrap_or_default().replace("\\\n", " ");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// What the examples take for granted.
fn furnish(place: &Place) {
    for directory in
        ["home/.local/share/bash-completion/completions", "home/.zfunc", "home/.config/fish/completions", "backups", "polls"]
    {
        fs::create_dir_all(place.path(directory)).expect(directory);
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    std::os::unix::fs::symlink(data, place.path("data")).expect("a link to the data");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_throttler"), place.path("throttler")).expect("a link to the program");
    fs::copy(place.path("data/quakes_2015_2025.csv"), place.path("quakes.csv")).expect("a catalogue");
    place.write("access.csv", "1753800000,b,c,1753800000000\n1753800001,b,c,1753800001000\n");
    place.write("message.json", "{\"text\": {{ subject | tojson }}}");
    place.write(
        "polls/20250805T050359Z.csv",
        fs::read_to_string(place.path("quakes.csv")).expect("a catalogue")[..2_000].rsplit_once('\n').expect("lines").0,
    );
}

#[test]
fn examples_do_what_they_say() {
    let place = Place::new();
    furnish(&place);
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap_or_default());
    for command in RUN {
        for example in examples(&place, command) {
            let line = ELSEWHERE.iter().fold(example.clone(), |line, (there, here)| line.replace(there, here));
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).current_dir(place.path("")).env("PATH", &path).env_remove("STATE_DIRECTORY");
            let output = shell.output().expect("a shell");
            let (printed, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && complaint.is_empty(), "{command}: {example}\n{printed}{complaint}");
        }
    }
    assert!(
        place.path("backups/throttler.db").exists() && place.path("curve.svg").exists() && place.path("report.html").exists()
    );
}
