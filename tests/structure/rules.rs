//! The rules that a source file is held to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::source::{Path, Token, paths, tokens, without_unit_tests};

/// A file with more lines has more than one subject.
pub const MAX_LINES: usize = 800;

/// The crates that the core may use: they compute, and neither ask the clock nor do I/O.
const CORE_CRATES: [&str; 8] = ["std", "serde", "thiserror", "chrono", "jiff", "strsim", "url", "email_address"];
/// What of `std` the core stays away from.
const STD_OUTSIDE: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "sync", "thread"];
/// Crates that live in one room or two.
const HOMES: [(&str, &[&str]); 24] = [
    ("anyhow", &["cli"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("comfy_table", &["cli"]),
    ("hmac", &["delivery"]),
    ("hyper", &["web"]),
    ("hyper_util", &["web"]),
    ("indicatif", &["cli"]),
    ("lettre", &["delivery"]),
    ("minijinja", &["delivery", "web"]),
    ("prometheus", &["daemon", "web"]),
    ("quick_xml", &["delivery"]),
    ("rand_chacha", &["simulate"]),
    ("rand_distr", &["simulate"]),
    ("redis", &["shared"]),
    ("reqwest", &["delivery", "feed"]),
    ("rusqlite", &["store"]),
    ("sd_notify", &["daemon"]),
    ("svg", &["plot"]),
    ("tokio_postgres", &["store"]),
    ("tokio_postgres_rustls", &["store"]),
    ("toml", &["config"]),
    ("tracing_subscriber", &["cli"]),
];
/// What the lab does without, besides the crates at home elsewhere: it reads files and computes, at its caller's pace.
const NOT_IN_LAB: [&str; 3] = ["axum", "tokio", "tracing"];
/// The only file that asks the system for the time.
const CLOCK: &str = "src/clock.rs";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    Core,
    Lab,
    Edge,
    Host,
}

/// Which room is in which layer.
pub struct Layers(BTreeMap<String, Layer>);

/// A rule that a line breaks.
#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    pub file: String,
    pub line: usize,
    pub rule: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

impl Layers {
    /// Reads the groups of `src/lib.rs`: a comment with the layer's name, then its modules.
    pub fn read(lib: &str) -> Layers {
        let mut layer = None;
        let mut rooms = BTreeMap::new();
        for line in lib.lines() {
            match line.trim() {
                "// Core." => layer = Some(Layer::Core),
                "// Lab." => layer = Some(Layer::Lab),
                "// Edge." => layer = Some(Layer::Edge),
                "// Host." => layer = Some(Layer::Host),
                other => {
                    if let Some(room) = other.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
                        rooms.insert(room.to_owned(), layer.expect("a module of lib.rs stands under a layer's comment"));
                    }
                }
            }
        }
        Layers(rooms)
    }

    pub fn of(&self, room: &str) -> Option<Layer> {
        self.0.get(room).copied()
    }
}

/// The modules that a file's code stands in: `src/limiter/state.rs` is `limiter`, `state`. None for `lib.rs` and `main.rs`.
pub fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_prefix("src/").unwrap_or(file).strip_suffix(".rs").unwrap_or(file);
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The room that a path leads to, if it leads to one of this crate's.
fn room_of(path: &Path, module: &[String]) -> Option<String> {
    let supers = path.segments.iter().take_while(|segment| *segment == "super").count();
    match path.segments.first()?.as_str() {
        "crate" => path.segments.get(1).cloned(),
        "super" => module.get(..module.len().checked_sub(supers)?)?.first().or(path.segments.get(supers)).cloned(),
        _ => None,
    }
}

/// The rooms that a file imports, with the lines where it does.
pub fn imports(file: &str, text: &str) -> Vec<(String, usize)> {
    let module = module_of(file);
    let paths = paths(&tokens(without_unit_tests(text)));
    paths.iter().filter_map(|path| Some((room_of(path, &module)?, path.line))).collect()
}

/// What a file under `src` breaks.
pub fn check(file: &str, text: &str, layers: &Layers, crates: &BTreeSet<String>) -> Vec<Breach> {
    let breach = |line: usize, rule: String| Breach { file: file.to_owned(), line, rule };
    let mut breaches = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        breaches.push(breach(lines, format!("a file has at most {MAX_LINES} lines, this one has {lines}")));
    }
    if !text.starts_with("//!") {
        breaches.push(breach(1, "a file begins with //! and what lives in it".to_owned()));
    }
    let tokens = tokens(without_unit_tests(text));
    let module = module_of(file);
    let Some(room) = module.first() else { return breaches };
    let Some(layer) = layers.of(room) else {
        breaches.push(breach(1, format!("room '{room}' is not declared in src/lib.rs")));
        return breaches;
    };
    for (other, line) in imports(file, text) {
        if let Some(rule) = forbidden_room(room, layer, &other, layers) {
            breaches.push(breach(line, rule));
        }
    }
    for path in paths(&tokens) {
        let rule = forbidden_crate(room, layer, &path, crates).or_else(|| forbidden_clock(file, &path));
        breaches.extend(rule.map(|rule| breach(path.line, rule)));
    }
    if layer == Layer::Core {
        breaches.extend(effects(&tokens).map(|(line, what)| breach(line, format!("the core does without {what}"))));
    }
    breaches
}

fn forbidden_room(room: &str, layer: Layer, other: &str, layers: &Layers) -> Option<String> {
    if other == room {
        return None;
    }
    // What is no room is an item of lib.rs; there are none.
    let Some(theirs) = layers.of(other) else { return Some(format!("there is no room '{other}' in src/lib.rs")) };
    let allowed = match layer {
        Layer::Core | Layer::Edge => theirs == Layer::Core,
        Layer::Lab => matches!(theirs, Layer::Core | Layer::Lab),
        Layer::Host => other != "cli",
    };
    let rule = match layer {
        Layer::Core => "the core imports the core alone",
        Layer::Lab => "the lab imports the core and the lab alone",
        Layer::Edge => "a room of the edge imports the core alone, never a sibling",
        Layer::Host => "the command line is imported by nobody",
    };
    (!allowed).then(|| format!("{rule}: '{room}' imports '{other}'"))
}

fn forbidden_crate(room: &str, layer: Layer, path: &Path, crates: &BTreeSet<String>) -> Option<String> {
    let first = path.segments.first()?.as_str();
    if !crates.contains(first) && first != "std" {
        return None;
    }
    let home = HOMES.iter().find(|(name, _)| *name == first);
    if let Some((name, rooms)) = home
        && !rooms.contains(&room)
    {
        return Some(format!("{name} is used only in {}, not in '{room}'", rooms.join(" and ")));
    }
    let second = path.segments.get(1).map_or("", String::as_str);
    match layer {
        Layer::Core if !CORE_CRATES.contains(&first) => Some(format!("the core uses only {}", CORE_CRATES.join(", "))),
        // It shares a value, and waits for nothing.
        Layer::Core if path.segments.iter().map(String::as_str).eq(["std", "sync", "Arc"]) => None,
        Layer::Core if first == "std" && STD_OUTSIDE.contains(&second) => Some(format!("the core does without std::{second}")),
        Layer::Lab if NOT_IN_LAB.contains(&first) => Some(format!("the lab does without {first}")),
        _ => None,
    }
}

/// `Type::now` of any type that asks the system, however it was imported.
fn forbidden_clock(file: &str, path: &Path) -> Option<String> {
    let [.., kind, method] = path.segments.as_slice() else { return None };
    let asks = method == "now" && matches!(kind.as_str(), "SystemTime" | "Instant" | "Utc" | "Local");
    (asks && file != CLOCK).then(|| format!("only {CLOCK} asks for the time, time comes in as an argument: {kind}::now"))
}

/// Waiting and printing, with their lines.
fn effects(tokens: &[Token]) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    tokens.windows(2).filter_map(|pair| {
        let what = match (pair[0].text.as_str(), pair[1].text.as_str()) {
            ("async", _) => "async",
            ("print" | "println" | "eprint" | "eprintln" | "dbg", "!") => "printing",
            _ => return None,
        };
        Some((pair[0].line, what))
    })
}

/// A circle of rooms that import each other, if there is one.
pub fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(room: &str, edges: &BTreeMap<String, BTreeSet<String>>, trail: &mut Vec<String>) -> Option<Vec<String>> {
        if let Some(start) = trail.iter().position(|other| other == room) {
            return Some(trail[start..].to_vec());
        }
        trail.push(room.to_owned());
        let found = edges.get(room).into_iter().flatten().find_map(|next| walk(next, edges, trail));
        trail.pop();
        found
    }
    edges.keys().find_map(|room| walk(room, edges, &mut Vec::new()))
}

const LIB: &str = "// Core.\npub mod plan;\npub mod time;\n\n// Lab.\npub mod replay;\n\n// Edge.\npub mod clock;\npub mod feed;\n\
                   pub mod store;\n\n// Host.\npub mod cli;\npub mod daemon;\n";

/// Checks one line of code in `file` and gives the rules that it breaks.
fn broken(file: &str, code: &str) -> Vec<String> {
    let crates = ["anyhow", "clap", "lettre", "reqwest", "rusqlite", "serde", "serde_json", "tokio"];
    let crates = crates.iter().map(|name| (*name).to_owned()).collect();
    let breaches = check(file, &format!("//! A file.\n{code}\n"), &Layers::read(LIB), &crates);
    breaches.iter().map(ToString::to_string).collect()
}

#[test]
fn a_layer_imports_only_what_it_may() {
    let core = "src/plan.rs:2: the core imports the core alone: 'plan' imports 'store'";
    assert_eq!(broken("src/plan.rs", "use crate::store::Store;"), [core]);
    assert_eq!(broken("src/plan.rs", "use crate::{time::Span, store::Store};"), [core]);
    assert_eq!(broken("src/plan.rs", "use super::store::Store;"), [core]);
    assert_eq!(broken("src/plan.rs", "fn f() { crate::store::open() }"), [core]);
    assert_eq!(broken("src/plan/deep.rs", "use super::super::store;"), [core.replace("plan.rs", "plan/deep.rs")]);
    let sibling = "src/feed/poller.rs:2: a room of the edge imports the core alone, never a sibling: 'feed' imports 'clock'";
    assert_eq!(broken("src/feed/poller.rs", "use crate::clock::Clock;"), [sibling]);
    let lab = "src/replay.rs:2: the lab imports the core and the lab alone: 'replay' imports 'daemon'";
    assert_eq!(broken("src/replay.rs", "use crate::daemon::Service;"), [lab]);
    let host = "src/daemon/mod.rs:2: the command line is imported by nobody: 'daemon' imports 'cli'";
    assert_eq!(broken("src/daemon/mod.rs", "use crate::cli::main;"), [host]);
    assert_eq!(broken("src/plan.rs", "use crate::gone::Thing;").len(), 1);
}

#[test]
fn what_a_layer_may_import_is_no_breach() {
    assert!(broken("src/plan.rs", "use crate::time::Span;").is_empty());
    assert!(broken("src/replay.rs", "use crate::plan;").is_empty());
    assert!(broken("src/feed/poller.rs", "use super::wire;\nuse crate::feed::error;\nuse crate::time::Span;").is_empty());
    assert!(broken("src/daemon/dispatch.rs", "use super::Database;\nuse crate::store::Store;").is_empty());
    assert!(broken("src/plan.rs", "// crate::store\nconst A: &str = \"crate::store\";").is_empty());
    assert!(broken("src/plan.rs", "#[cfg(test)]\nmod tests {\n use crate::store::Store;\n}").is_empty());
}

#[test]
fn a_crate_stays_at_home() {
    let rule = "src/daemon/mod.rs:2: anyhow is used only in cli, not in 'daemon'";
    assert_eq!(broken("src/daemon/mod.rs", "use anyhow::Result;"), [rule]);
    assert_eq!(broken("src/feed/mod.rs", "fn f() -> rusqlite::Error {}").len(), 1);
    assert_eq!(broken("src/feed/mod.rs", "use lettre::Message;").len(), 1);
    assert_eq!(broken("src/store/mod.rs", "use reqwest::{Client};").len(), 1);
    assert!(broken("src/cli/run.rs", "use clap::Args;\nuse anyhow::Context;").is_empty());
    assert!(broken("src/feed/mod.rs", "use reqwest::Client;\nuse tokio::time::sleep;").is_empty());
}

#[test]
fn the_core_does_without_the_world() {
    assert_eq!(broken("src/plan.rs", "use tokio::time::sleep;").len(), 1);
    assert_eq!(broken("src/plan.rs", "use serde_json::Value;").len(), 1);
    assert_eq!(broken("src/plan.rs", "use std::{fmt, fs::File};"), ["src/plan.rs:2: the core does without std::fs"]);
    assert_eq!(broken("src/plan.rs", "use std::sync::{Arc, Mutex};"), ["src/plan.rs:2: the core does without std::sync"]);
    assert!(broken("src/plan.rs", "use std::sync::Arc;").is_empty());
    assert_eq!(broken("src/plan.rs", "async fn f() {}"), ["src/plan.rs:2: the core does without async"]);
    assert_eq!(broken("src/plan.rs", "fn f() { println!(\"x\") }"), ["src/plan.rs:2: the core does without printing"]);
    assert!(broken("src/plan.rs", "use std::fmt;\nuse serde::Serialize;").is_empty());
    assert_eq!(broken("src/replay.rs", "use tokio::fs;"), ["src/replay.rs:2: the lab does without tokio"]);
}

#[test]
fn only_the_clock_asks_for_the_time() {
    assert_eq!(broken("src/daemon/mod.rs", "let t = std::time::Instant::now();").len(), 1);
    assert_eq!(broken("src/daemon/mod.rs", "let t = SystemTime::now();").len(), 1);
    assert_eq!(broken("src/plan.rs", "let t = chrono::Utc::now();").len(), 1);
    assert!(broken("src/clock.rs", "let t = SystemTime::now();").is_empty());
}

#[test]
fn a_file_says_what_lives_in_it_and_has_one_subject() {
    let (layers, crates) = (Layers::read(LIB), BTreeSet::new());
    assert_eq!(check("src/plan.rs", "use std::fmt;\n", &layers, &crates)[0].line, 1);
    let long = format!("//! A file.\n{}", "\n".repeat(MAX_LINES));
    assert_eq!(check("src/plan.rs", &long, &layers, &crates).len(), 1);
    assert_eq!(check("src/other.rs", "//! A file.\n", &layers, &crates).len(), 1);
}

#[test]
fn circles_are_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        edges
    };
    assert_eq!(circle(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    assert_eq!(circle(&edges(&[("a", "b"), ("b", "c"), ("c", "b")])), Some(vec!["b".to_owned(), "c".to_owned()]));
}
