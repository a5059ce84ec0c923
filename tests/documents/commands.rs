//! Blocks marked `console` are sessions: lines after `$ ` are run, in order and in one directory a document, and what
//! follows is compared with what they print. `…` stands for any text in a line, alone for any lines. Blocks marked `sh` are
//! for the reader's own machine and are not run.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{documents, root};

/// One command with what the document says it prints.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The commands of a document's `console` blocks.
fn sessions(text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            shown.push(Shown { line: number + 1, command: command.to_owned(), output: Vec::new() });
        } else if inside {
            let last = shown.last_mut().unwrap_or_else(|| panic!("line {}: a session begins with a command", number + 1));
            last.output.push(line.to_owned());
        }
    }
    shown
}

/// Runs a command of a document; only the program itself is run, under either of its names.
fn run(command: &str, directory: &Path) -> String {
    let arguments = command.strip_prefix("throttler ").or(command.strip_prefix("cargo run --release -- "));
    let arguments = arguments.unwrap_or_else(|| panic!("'{command}' is not run here: write it in a block marked sh"));
    assert!(!arguments.contains(['"', '\'', '|', '>', '$']), "'{command}' needs a shell: write it in a block marked sh");
    let output = Command::new(env!("CARGO_BIN_EXE_throttler"))
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("TMPDIR", directory)
        .env_remove("STATE_DIRECTORY")
        .output()
        .expect("the program runs");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "'{command}' failed: {printed}");
    printed
}

/// Whether the printed lines are those shown.
fn fits(shown: &[&str], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => (0..=printed.len()).any(|skipped| fits(rest, &printed[skipped..])),
        (Some((first, shown)), Some((line, printed))) => line_fits(first, line) && fits(shown, printed),
        _ => false,
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == printed };
    let Some(mut left) = printed.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = left.split_once(part) else { return false };
        left = behind;
    }
    left.ends_with(end)
}

#[test]
fn what_the_documents_show_is_what_happens() {
    let mut commands = 0;
    for (name, text) in documents() {
        let shown = sessions(&text);
        if shown.is_empty() {
            continue;
        }
        let directory = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(root().join("data"), directory.path().join("data")).expect("a link to the data");
        for Shown { line, command, output } in shown {
            let printed = run(&command, directory.path());
            let expected: Vec<&str> = output.iter().map(|line| line.trim_end()).collect();
            let found: Vec<&str> = printed.lines().map(str::trim_end).collect();
            assert!(fits(&expected, &found), "{name}:{line}: '{command}' prints something else:\n{printed}");
            commands += 1;
        }
    }
    assert!(commands >= 8, "only {commands} commands were found");
}

/// The calls of the program in blocks marked `sh` and between backquotes, from its name to what ends a command.
fn calls(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block = None;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_none() { Some(language) } else { None };
            continue;
        }
        let parts: Vec<&str> = match block {
            None => line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("throttler ")).collect(),
            Some("sh") => line.split('#').next().into_iter().flat_map(|line| line.split(['|', ';', '&'])).collect(),
            Some(_) => continue,
        };
        for part in parts {
            let words = part.split_whitespace().skip_while(|word| *word != "throttler").skip(1);
            let call: Vec<&str> = words.take_while(|word| !word.starts_with(['>', '…'])).collect();
            // As a word of another command, the program's name is followed by none of its own, or is its user's.
            if !call.is_empty() && !part.contains("systemctl") && !part.contains("journalctl") && !part.contains("install ") {
                found.push(call.join(" "));
            }
        }
    }
    found
}

#[test]
fn calls_that_are_not_run_are_understood() {
    let mut understood = 0;
    for (name, text) in documents() {
        for call in calls(&text) {
            let call = call.strip_prefix("throttler ").unwrap_or(&call);
            // Help asks for nothing that is missing, and complains of what it does not know before it.
            let output = Command::new(env!("CARGO_BIN_EXE_throttler"))
                .args(call.split_whitespace().map(|word| word.trim_matches(['"', '\''])))
                .arg("--help")
                .output()
                .expect("the program runs");
            let complaint = String::from_utf8_lossy(&output.stderr);
            let unknown = complaint.contains("unexpected argument") || complaint.contains("unrecognized subcommand");
            assert!(!unknown, "{name}: 'throttler {call}': {complaint}");
            understood += 1;
        }
    }
    assert!(understood > 20, "only {understood} calls were found");
}

#[test]
fn calls_are_found() {
    let text = "`throttler a --b` and `cargo run`\n```sh\nsudo -u throttler throttler c | tee x  # d\nsystemctl stop throttler\n\
                throttler e > f\n```\n```console\n$ throttler g\n```\n";
    assert_eq!(calls(text), ["a --b", "throttler c", "e"]);
}

#[test]
fn the_configurations_shown_are_read() {
    let mut blocks = 0;
    for (name, text) in documents() {
        let mut rest = text.as_str();
        while let Some((_, block)) = rest.split_once("```toml\n") {
            let (block, behind) = block.split_once("```").expect("a block ends");
            let directory = tempfile::tempdir().expect("a directory");
            fs::write(directory.path().join("throttler.toml"), block).expect("a file");
            let parsed = throttler::config::Config::parse(block, Path::new(&name));
            assert!(parsed.is_ok(), "{name}: a configuration that is shown is not one: {parsed:?}");
            (rest, blocks) = (behind, blocks + 1);
        }
    }
    assert!(blocks >= 1, "no configuration was found");
}

#[test]
fn a_difference_is_noticed() {
    assert!(fits(&["a", "b"], &["a", "b"]));
    assert!(fits(&["a", "…"], &["a", "b", "c"]));
    assert!(fits(&["…", "c"], &["a", "b", "c"]));
    assert!(fits(&["since …Z at …"], &["since 2025Z at x"]));
    assert!(!fits(&["a"], &["a", "b"]));
    assert!(!fits(&["a", "…", "d"], &["a", "b", "c"]));
    assert!(!fits(&["since …Z"], &["since 2025"]));
    assert!(!fits(&["74"], &["75"]));
}

#[test]
fn sessions_are_found() {
    let text = "text\n```console\n$ throttler a\none\n\n$ throttler b\n```\n```sh\n$ sudo c\n```\n";
    let shown = |line, command: &str, output: &[&str]| Shown {
        line,
        command: command.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(sessions(text), [shown(3, "throttler a", &["one", ""]), shown(6, "throttler b", &[])]);
}
