//! What systemd is given besides the unit: the user and the directories, made under a root of the test's own.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::place::Place;

fn systemd(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(file).display().to_string()
}

/// Runs one of systemd's tools; `None` where it is not installed.
fn run(tool: &str, args: &[&str]) -> Option<()> {
    let Ok(output) = Command::new(tool).args(args).output() else {
        println!("skipped: {tool} is not installed");
        return None;
    };
    assert!(output.status.success() && output.stderr.is_empty() || output.stderr.starts_with(b"Creating "), "{tool}: {output:?}");
    Some(())
}

#[test]
fn the_user_and_the_directories_are_made_as_the_documents_say() {
    let place = Place::new();
    let root = format!("--root={}", place.path(".").display());
    fs::create_dir_all(place.path("etc/throttler")).expect("a root");
    place.write("etc/throttler/throttler.toml", "");
    if run("systemd-sysusers", &[&root, &systemd("sysusers.d/throttler.conf")]).is_none() {
        return;
    }
    let users = fs::read_to_string(place.path("etc/passwd")).expect("users");
    let user: Vec<&str> = users.lines().find(|line| line.starts_with("throttler:")).expect("the user").split(':').collect();
    assert_eq!(user[4..], ["throttler, earthquake alerts", "/var/lib/throttler", "/usr/sbin/nologin"], "{users}");
    let groups = fs::read_to_string(place.path("etc/group")).expect("groups");
    assert!(groups.lines().any(|line| line.starts_with(&format!("throttler:x:{}:", user[3]))), "{groups}");

    if fs::metadata(place.path(".")).expect("the root").uid() != 0 {
        println!("skipped: only root gives directories away");
        return;
    }
    if run("systemd-tmpfiles", &["--create", &root, &systemd("tmpfiles.d/throttler.conf")]).is_none() {
        return;
    }
    for (path, mode, group) in
        [("etc/throttler", 0o750, user[3]), ("etc/throttler/throttler.toml", 0o640, user[3]), ("etc/credstore", 0o700, "0")]
    {
        let about = fs::metadata(place.path(path)).expect(path);
        assert_eq!(about.permissions().mode() & 0o7777, mode, "{path}");
        assert_eq!((about.uid(), about.gid().to_string()), (0, group.to_owned()), "{path}");
    }
}
