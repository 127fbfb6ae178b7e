//! The program `efa-pingpong`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: the first statement of main: no other thread runs yet.
    unsafe { efa::set_provider_defaults() };
    efa::bench::app::pingpong(std::env::args_os())
}
