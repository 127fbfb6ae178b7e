//! The program `efa-pingpong`.

use std::process::ExitCode;

#[path = "../startup.rs"]
mod startup;

fn main() -> ExitCode {
    // SAFETY: the first statement of main: no other thread runs yet.
    unsafe { startup::prepare() };
    efa::bench::app::pingpong(std::env::args_os())
}
