//! The `throttler` program: parse, run, exit status.

use std::process::ExitCode;

fn main() -> ExitCode {
    throttler::cli::main()
}
