//! `man` and `completions`: every command has its page, and both are what their readers accept.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::Place;

/// Whether a tool is there; the tests that want it say what they skip.
fn has(tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|directory| directory.join(tool).is_file());
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// The commands below one, as its help lists them.
fn below(place: &Place, command: &str) -> Vec<String> {
    let mut args: Vec<&str> = command.split_whitespace().collect();
    args.push("--help");
    let help = place.run(&args).ok();
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   ")));
    names.filter(|name| *name != "help").map(|name| format!("{command} {name}").trim().to_owned()).collect()
}

#[test]
fn every_command_has_a_page() {
    let place = Place::new();
    let mut expected = vec!["throttler.1".to_owned()];
    let mut open = below(&place, "");
    while let Some(command) = open.pop() {
        expected.push(format!("throttler-{}.1", command.replace(' ', "-")));
        open.extend(below(&place, &command));
    }
    expected.sort();
    assert!(expected.len() > 35, "the commands were not found: {expected:?}");
    let pages = place.path("share/man1");
    let told = place.run(&["man", "share/man1"]).ok();
    assert_eq!(told, format!("{} pages in share/man1\n", expected.len()));
    let mut found: Vec<String> = fs::read_dir(&pages)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    found.sort();
    assert_eq!(found, expected, "nor are there drafts");
    for name in &found {
        let page = fs::read_to_string(pages.join(name)).expect("a page");
        let leaf = !page.contains("\n.SH SUBCOMMANDS\n");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "ENVIRONMENT"] {
            assert!(
                page.contains(&format!("\n.SH {section}\n")) || page.contains(&format!("\n.SH \"{section}\"\n")),
                "{name}: {section}"
            );
        }
        assert!(!leaf || page.contains("\n.SH EXAMPLES\n"), "{name} has no examples");
        assert_eq!(page.contains("\n.SH \"SEE ALSO\"\n"), name != "throttler.1", "{name}");
    }
    assert_eq!(place.run(&["man", "share/man1"]).ok(), told, "a second time replaces them");
}

#[test]
fn a_page_is_set_as_it_should_be() {
    let place = Place::new();
    place.run(&["man", "."]).ok();
    insta::assert_snapshot!("man_backup", fs::read_to_string(place.path("throttler-backup.1")).expect("a page"));
    if !has("man") {
        return;
    }
    for entry in fs::read_dir(place.path("")).expect("a directory") {
        let page = entry.expect("an entry").path();
        // As lintian asks.
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&page);
        man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
        let output = man.output().expect("man runs");
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error_and_leave_nothing() {
    let place = Place::new();
    place.write("file", "content");
    let ran = place.run(&["man", "file"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(2), "throttler: cannot write into file: it is not a directory\n"));
    let ran = place.run(&["man", "file/below"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.err.starts_with("throttler: cannot make file/below: "), "{}", ran.err);
    fs::create_dir_all(place.path("pages/throttler-run.1")).expect("a directory in the way");
    let ran = place.run(&["man", "pages"]);
    assert_eq!((ran.status, fs::read_dir(place.path("pages")).expect("a directory").count()), (Some(2), 1), "{}", ran.err);
    assert_eq!(place.run(&["man"]).status, Some(2));
    assert_eq!(fs::read_to_string(place.path("file")).expect("the file"), "content");
}

#[test]
fn shells_read_their_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).ok();
        for word in ["min-bucket", "subscriber", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        place.write(shell, &script);
        if has(shell) {
            let output = Command::new(shell).args(["-n", shell]).current_dir(place.path("")).output().expect("it runs");
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let fish = fs::read_to_string(place.path("fish")).expect("the script");
    let of_backup: Vec<&str> = fish.lines().filter(|line| line.contains("using_subcommand backup\"")).collect();
    insta::assert_snapshot!("completions_of_backup", of_backup.join("\n"));
    let ran = place.run(&["completions", "tcsh"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("bash") && ran.err.contains("fish") && ran.err.contains("zsh"), "{}", ran.err);
}

#[test]
fn bash_completes() {
    if !has("bash") {
        return;
    }
    let place = Place::new();
    place.write("throttler.bash", &place.run(&["completions", "bash"]).ok());
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            ". ./throttler.bash; COMP_WORDS=({}); COMP_CWORD={}; _throttler throttler '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output =
            Command::new("bash").args(["--norc", "-c", &script]).current_dir(place.path("")).output().expect("bash runs");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    assert_eq!(complete("throttler min"), "min-bucket");
    assert_eq!(complete("throttler subscriber re"), "resume remove");
    assert_eq!(complete("throttler status --form"), "--format");
    assert_eq!(complete("throttler status --format j"), "json");
}

#[test]
fn nothing_is_coloured_that_is_not_for_a_terminal() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        for variables in [&[][..], &[("NO_COLOR", "1")], &[("CLICOLOR_FORCE", "1")]] {
            let output = place.command(&["completions", shell]).envs(variables.iter().copied()).output().expect("the program");
            assert!(output.status.success() && !output.stdout.contains(&0x1b), "{shell}");
        }
    }
    let output = place.command(&["man", "pages"]).env("CLICOLOR_FORCE", "1").output().expect("the program");
    assert!(output.status.success() && !output.stdout.contains(&0x1b) && output.stderr.is_empty());
    let page = fs::read(Path::new(&place.path("pages")).join("throttler.1")).expect("a page");
    assert!(!page.contains(&0x1b));
}
