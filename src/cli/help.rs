//! What stands below a command's options in `--help`: examples, and paragraphs that wrap where the terminal ends.

use clap::{Command, CommandFactory};

use super::Cli;

/// Begins the lines that are examples; a blank line ends them.
const EXAMPLES: &str = "Examples:";
/// Begins what is said of exit statuses, in a paragraph of its own.
const STATUS: &str = "Exit status";

/// The whole command line, as it is parsed and explained.
pub(super) fn command() -> Command {
    explained(Cli::command())
}

/// The source has lines of its own length; `clap` wraps lines, not paragraphs.
fn explained(command: Command) -> Command {
    let text = Help::of(&command).text();
    let command = if text.is_empty() { command } else { command.after_help(text) };
    // Each when it is asked for: most are not, and every start would wait for them.
    command.mut_subcommands(|child| child.defer(explained))
}

/// What stands below the options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Help {
    /// Command lines as they are shown; one that goes on in the next ends with a backslash.
    pub examples: Vec<String>,
    /// The other paragraphs, those about exit statuses apart.
    pub notes: Vec<String>,
    pub statuses: Vec<String>,
}

impl Help {
    pub fn of(command: &Command) -> Help {
        let mut help = Help::default();
        for paragraph in command.get_after_help().map(ToString::to_string).unwrap_or_default().split("\n\n") {
            let joined = || paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            if let Some(lines) = paragraph.strip_prefix(EXAMPLES) {
                let lines = lines.lines().filter(|line| !line.trim().is_empty());
                help.examples.extend(lines.map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned()));
            } else if paragraph.starts_with(STATUS) {
                help.statuses.push(joined());
            } else if !paragraph.trim().is_empty() {
                help.notes.push(joined());
            }
        }
        help
    }

    fn text(&self) -> String {
        let examples = self.examples.iter().fold(EXAMPLES.to_owned(), |text, line| text + "\n  " + line);
        let first = (!self.examples.is_empty()).then_some(examples);
        first.iter().chain(&self.notes).chain(&self.statuses).cloned().collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The columns that are there where nothing says how wide the terminal is, less the indent.
    const COLUMNS: usize = 98;

    /// Every command with its examples, one a line.
    fn leaves(command: &Command, found: &mut Vec<(String, Vec<String>)>) {
        if !command.has_subcommands() {
            let lines = Help::of(command).examples;
            for line in &lines {
                assert!(line.chars().count() <= COLUMNS, "{}: wrap it by a backslash: {line}", command.get_name());
            }
            let whole = lines.join("\n").replace("\\\n", " ");
            found.push((command.get_name().to_owned(), whole.lines().map(str::to_owned).collect()));
        }
        command.get_subcommands().for_each(|child| leaves(child, found));
    }

    /// The words of each call of the program in a line of shell; quotes, pipes, a variable in front and a file for the output
    /// are all that examples use.
    fn calls(line: &str) -> Vec<Vec<String>> {
        let mut words = vec![Vec::new()];
        for (at, part) in line.split('"').enumerate() {
            if at % 2 == 1 {
                words.last_mut().expect("a call").push(part.to_owned());
                continue;
            }
            for word in part.split_whitespace() {
                match word {
                    "|" => words.push(Vec::new()),
                    word => words.last_mut().expect("a call").push(word.to_owned()),
                }
            }
        }
        let own = words.into_iter().filter_map(|call| {
            let first = call.iter().position(|word| word == "throttler")?;
            Some(call[first..].iter().take_while(|word| *word != ">").cloned().collect())
        });
        own.collect()
    }

    #[test]
    fn every_command_has_examples_and_each_is_understood() {
        let mut commands = Vec::new();
        leaves(&command(), &mut commands);
        assert!(commands.len() > 30, "the commands were not found: {commands:?}");
        for (name, examples) in &commands {
            let mut understood = 0;
            for call in examples.iter().flat_map(|example| calls(example)) {
                if let Err(fault) = Cli::try_parse_from(&call) {
                    panic!("{name}: {call:?}: {fault}");
                }
                understood += usize::from(call.contains(name));
            }
            assert!(understood > 0, "{name} has no example");
        }
    }

    #[test]
    fn the_examples_of_the_whole_are_understood_too() {
        let help = Help::of(&command());
        assert!(help.examples.len() >= 4 && help.statuses.len() == 1, "{help:?}");
        for example in &help.examples {
            // What it shows stands behind it, in a column of its own.
            let (line, _) = example.split_once("  ").expect("a column");
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn calls_are_found() {
        let found = |line: &str| calls(line).iter().map(|call| call.join("_")).collect::<Vec<_>>();
        assert_eq!(found("zcat a.gz | throttler min-bucket -"), ["throttler_min-bucket_-"]);
        assert_eq!(found("A=b throttler run"), ["throttler_run"]);
        assert_eq!(found("throttler outbox drop x --reason \"by hand\" > file"), ["throttler_outbox_drop_x_--reason_by hand"]);
        assert_eq!(found("throttler a | throttler b"), ["throttler_a", "throttler_b"]);
        assert!(found("ls").is_empty());
    }

    #[test]
    fn paragraphs_become_lines() {
        let text = "Examples:\n  throttler a \\\n    --b\n\nOne\ntwo.\n\nExit status 1 if\nnot.";
        let help = Help::of(&Command::new("a").after_help(text));
        assert_eq!(help.examples, ["throttler a \\", "  --b"]);
        assert_eq!((help.notes[0].as_str(), help.statuses[0].as_str()), ("One two.", "Exit status 1 if not."));
        assert_eq!(help.text(), "Examples:\n  throttler a \\\n    --b\n\nOne two.\n\nExit status 1 if not.");
    }
}
