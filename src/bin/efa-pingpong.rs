//! The program `efa-pingpong`.

use std::process::ExitCode;

fn main() -> ExitCode {
    efa::bench::app::pingpong(std::env::args_os())
}
