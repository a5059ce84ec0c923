//! What the program is made of: where it comes from, in how many versions, and under which licences.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use spdx::{Expression, LicenseReq, ParseMode};

/// The only source of code.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that are locked in several versions: none of them by a choice of this crate, which asks for the newest. What is listed
/// here and not locked any more fails the test too. Behind each stand those that hold an older one.
const SEVERAL: [(&str, &[&str]); 14] = [
    ("base64", &["0.21", "0.22", "0.23"]),    // standardwebhooks; charset, postgres-protocol
    ("bit-vec", &["0.8", "0.9"]),             // an option of proptest
    ("const-oid", &["0.10", "0.9"]),          // x509-cert, of tokio-postgres-rustls
    ("fallible-iterator", &["0.2", "0.3"]),   // tokio-postgres
    ("getrandom", &["0.2", "0.3", "0.4"]),    // ring; jsonschema
    ("hashbrown", &["0.14", "0.16", "0.17"]), // dashmap; governor, rusqlite
    ("nom", &["7", "8"]),                     // an option of rcgen
    ("phf", &["0.12", "0.13"]),               // chrono-tz
    ("phf_shared", &["0.12", "0.13"]),        // chrono-tz
    ("r-efi", &["5", "6"]),                   // the getrandom before
    ("syn", &["2", "3"]),                     // tracing, and others while compiling
    ("synstructure", &["0.13", "0.14"]),      // an option of rcgen
    ("wasi", &["0.11", "0.14"]),              // whoami, not on Linux
    ("windows-sys", &["0.52", "0.61"]),       // ring, not on Linux
];

/// Licences that ask for no more than to be named.
const LICENCES: [&str; 10] =
    ["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Zlib"];

struct Locked {
    name: String,
    version: String,
    source: Option<String>,
    checksum: bool,
}

fn locked(directory: &str) -> Vec<Locked> {
    let path = format!("{}/{directory}Cargo.lock", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    let lock: toml::Table = text.parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages").iter().map(|package| {
        let word = |key: &str| package.get(key).map(|value| value.as_str().expect("a word").to_owned());
        let (name, version) = (word("name").expect("a name"), word("version").expect("a version"));
        Locked { name, version, source: word("source"), checksum: word("checksum").is_some() }
    });
    packages.collect()
}

/// The part of a version within which Cargo takes the newest: `1`, `0.4`.
fn line_of_versions(version: &str) -> String {
    let significant = |part: &&str| part.chars().any(|c| c != '0');
    let parts: Vec<&str> = version.split('.').collect();
    let length = parts.iter().position(significant).map_or(parts.len(), |first| first + 1);
    parts[..length].join(".")
}

fn refuses(expression: &str) -> bool {
    let accepted = |requirement: &LicenseReq| {
        requirement.addition.is_none() && requirement.license.id().is_some_and(|id| LICENCES.contains(&id.name))
    };
    // Old manifests separate the choices by `/`.
    !Expression::parse_mode(expression, ParseMode::LAX).expect(expression).evaluate(accepted)
}

#[test]
fn all_code_comes_from_the_registry_with_its_checksum() {
    for directory in ["", "fuzz/"] {
        let (own, others): (Vec<Locked>, Vec<Locked>) =
            locked(directory).into_iter().partition(|package| ["throttler", "throttler-fuzz"].contains(&package.name.as_str()));
        assert!(own.iter().all(|package| package.source.is_none()) && others.len() > 100, "{directory}Cargo.lock was not read");
        for Locked { name, version, source, checksum } in others {
            assert_eq!((source.as_deref(), checksum), (Some(REGISTRY), true), "{directory}Cargo.lock: {name} {version}");
        }
    }
}

#[test]
fn crates_in_several_versions_are_known() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Locked { name, version, .. } in locked("") {
        versions.entry(name).or_default().insert(line_of_versions(&version));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let known: BTreeMap<String, BTreeSet<String>> = SEVERAL
        .iter()
        .map(|(name, versions)| ((*name).to_owned(), versions.iter().map(|version| (*version).to_owned()).collect()))
        .collect();
    assert_eq!(versions, known, "`cargo tree --duplicates --target all` shows who asks for them");
}

#[test]
fn every_licence_lets_the_program_be_given_away() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = ["metadata", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"];
    let output = Command::new(cargo).args(asked).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "the manifests were not read");
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| package["license"].as_str().is_none_or(refuses))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licences to look at first:\n{}", refused.join("\n"));
}

#[test]
fn licences_and_versions_are_read_as_cargo_does() {
    for (expression, refused) in [
        ("MIT", false),
        ("Unlicense/MIT", false),
        ("MIT OR Apache-2.0 OR LGPL-2.1-or-later", false),
        ("(Apache-2.0 OR GPL-3.0-only) AND BSD-3-Clause", false),
        ("GPL-3.0-only", true),
        ("MIT AND LGPL-2.1-or-later", true),
        ("Apache-2.0 WITH LLVM-exception", true),
    ] {
        assert_eq!(refuses(expression), refused, "{expression}");
    }
    for (version, line) in [("1.2.3", "1"), ("0.4.3", "0.4"), ("0.0.7", "0.0.7"), ("10.0.1-rc.1", "10"), ("0.0.0", "0.0.0")] {
        assert_eq!(line_of_versions(version), line);
    }
}
