//! `throttler completions`: what a shell needs to complete this command line.

use clap::Args;
use clap_complete::Shell;

use super::failure::Failure;
use super::help;
use super::output;

#[derive(Args)]
#[command(after_help = "Examples:
  throttler completions bash > ~/.local/share/bash-completion/completions/throttler
  throttler completions zsh > ~/.zfunc/_throttler
  throttler completions fish > ~/.config/fish/completions/throttler.fish

The directory must be there, and for zsh be in $fpath. A new shell has them. The Debian package brings these three along.")]
pub(super) struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "throttler", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
