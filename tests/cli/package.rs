//! The Debian package, as far as the manifest says what goes into it; `.ci/package` installs one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::Place;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What the manifest puts where: source, destination, mode.
fn assets() -> Vec<[String; 3]> {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest").parse().expect("TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("assets");
    let word = |value: &toml::Value| value.as_str().expect("a word").to_owned();
    assets.iter().map(|asset| [0, 1, 2].map(|at| word(&asset[at]))).collect()
}

#[test]
fn the_packages_configuration_is_the_default() {
    let assets = assets();
    let [source, _, _] = assets.iter().find(|[_, to, _]| to == "etc/throttler/throttler.toml").expect("a configuration");
    let packaged = fs::read_to_string(root().join(source)).expect("the configuration");
    assert_eq!(Place::new().run(&["config", "default"]).ok(), packaged);
}

#[test]
fn what_is_packaged_is_there() {
    let assets = assets();
    assert!(assets.len() > 10, "the assets were not found");
    let build = fs::read_to_string(root().join("debian/build")).expect("the script");
    for [source, _, mode] in &assets {
        if let Some(made) = source.strip_prefix("target/package/") {
            let name = made.split('/').next().expect("a name");
            assert!(build.contains(&format!("\"$made/{name}\"")), "debian/build does not make {source}");
        } else if !source.starts_with("target/release/") {
            let path: PathBuf = root().join(source.trim_end_matches('*'));
            assert!(path.exists(), "{source}");
        }
        assert!(["640", "644", "755"].contains(&mode.as_str()), "{source}: {mode}");
    }
}

#[test]
fn the_notices_are_of_what_is_linked() {
    let output = Command::new(root().join("debian/notices")).output().expect("the script");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let notices = String::from_utf8(output.stdout).expect("UTF-8");
    let list = notices.lines().take_while(|line| !line.starts_with("====="));
    let listed: Vec<&str> = list.filter_map(|line| line.split_once('\t').map(|(crate_, _)| crate_)).collect();
    assert!(listed.len() > 100, "{listed:?}");
    for crate_ in &listed {
        assert!(notices.contains(&format!("\n{crate_}: ")), "no text of {crate_}");
    }
    let lists = |name: &str| listed.iter().any(|crate_| crate_.split(' ').next() == Some(name));
    for (name, is_linked) in [("rusqlite", true), ("ring", true), ("criterion", false), ("serde_derive", false), ("cc", false)] {
        assert_eq!(lists(name), is_linked, "{name}");
    }
    for copyright in ["Copyright (c) 2014 The rusqlite developers", "Brian Smith"] {
        assert!(notices.contains(copyright), "{copyright}");
    }
}

#[test]
fn the_packages_changelog_is_of_this_version() {
    let changelog = fs::read_to_string(root().join("debian/changelog")).expect("the changelog");
    let head = format!("throttler ({}-1) ", env!("CARGO_PKG_VERSION"));
    assert!(changelog.starts_with(&head), "expected {head}: {changelog}");
}

#[test]
fn one_unit_is_for_every_installation() {
    let unit = fs::read_to_string(root().join("systemd/throttler.service")).expect("the unit");
    let starts: Vec<&str> = unit.lines().filter(|line| line.starts_with("ExecStart=")).collect();
    assert_eq!(starts, ["ExecStart=throttler run --config /etc/throttler/throttler.toml"], "systemd looks where shells look");
}
