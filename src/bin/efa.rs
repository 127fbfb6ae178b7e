//! The program `efa`.

use std::process::ExitCode;

#[path = "../startup.rs"]
mod startup;

fn main() -> ExitCode {
    // SAFETY: the first statement of main: no other thread runs yet.
    unsafe { startup::prepare() };
    efa::bench::app::efa(std::env::args_os())
}
