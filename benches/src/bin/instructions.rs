//! Runs one case once, for callgrind to count its instructions: see `benches/instructions.sh`.

use std::process::ExitCode;

use informer_benches::cases::{CASES, Input};

#[allow(clippy::print_stdout, clippy::print_stderr)] // A program of the command line.
fn main() -> ExitCode {
    let Some(wanted) = std::env::args().nth(1) else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    };
    let Some((_, case)) = CASES.iter().find(|(name, _)| *name == wanted) else {
        eprintln!("there is no case {wanted}");
        return ExitCode::FAILURE;
    };
    case(&Input::new());
    ExitCode::SUCCESS
}
