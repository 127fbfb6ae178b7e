//! The program `efa`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: the first statement of main: no other thread runs yet.
    unsafe { efa::set_provider_defaults() };
    efa::bench::app::efa(std::env::args_os())
}
