//! The rules, asked of the source as it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::rules::{Layer, Layers, MAX_LINES, check, circle, imports, module_of};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file under a directory of the project, by its path from the root, with its text.
fn rust_files(directory: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("under the root").to_str().expect("a name in UTF-8").to_owned();
                found.push((name, fs::read_to_string(&path).expect("source text")));
            }
        }
    }
    found.sort();
    found
}

/// The names of the dependencies, as paths spell them.
fn crates() -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let section = manifest.split("\n[").find_map(|part| part.strip_prefix("dependencies]")).expect("[dependencies]");
    let names = section.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name.trim().replace('-', "_")));
    names.filter(|name| !name.starts_with('#')).collect()
}

fn layers() -> Layers {
    Layers::read(&fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs"))
}

#[test]
fn the_source_keeps_to_the_plan() {
    let (layers, crates) = (layers(), crates());
    assert!(crates.contains("rusqlite") && crates.contains("sd_notify"), "the dependencies were not read: {crates:?}");
    let files = rust_files("src");
    assert!(files.len() > 50, "the source was not found");
    let breaches: Vec<String> =
        files.iter().flat_map(|(file, text)| check(file, text, &layers, &crates)).map(|breach| format!("  {breach}")).collect();
    assert!(breaches.is_empty(), "the rules of docs/architecture.md are broken:\n{}", breaches.join("\n"));
}

#[test]
fn the_rooms_of_core_and_lab_form_no_circle() {
    let layers = layers();
    let inner = |room: &str| matches!(layers.of(room), Some(Layer::Core | Layer::Lab));
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in rust_files("src") {
        let Some(room) = module_of(&file).into_iter().next().filter(|room| inner(room)) else { continue };
        let others = imports(&file, &text).into_iter().map(|(other, _)| other).filter(|other| *other != room);
        edges.entry(room.clone()).or_default().extend(others);
    }
    assert_eq!(circle(&edges), None, "these rooms import each other in a circle");
}

#[test]
fn comments_hold_no_examples_that_nobody_runs() {
    for (file, text) in rust_files("src") {
        let mut fences = text
            .lines()
            .map(str::trim)
            .filter_map(|line| line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?.trim().strip_prefix("```"));
        while let Some(language) = fences.next() {
            assert_eq!(language, "text", "{file}: Cargo.toml says that there are no examples to run in comments");
            fences.next();
        }
    }
}

#[test]
fn tests_and_benchmarks_have_files_of_one_subject_too() {
    for (file, text) in rust_files("tests").into_iter().chain(rust_files("benches")) {
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{file}: a file has at most {MAX_LINES} lines, this one has {lines}");
        assert!(text.starts_with("//!"), "{file}: a file begins with //! and what lives in it");
    }
}
