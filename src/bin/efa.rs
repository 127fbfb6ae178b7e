//! The program `efa`.

use std::process::ExitCode;

fn main() -> ExitCode {
    efa::bench::app::efa(std::env::args_os())
}
