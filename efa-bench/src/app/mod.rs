//! The programs: from a command line to an exit status.
//!
//! Everything that does something in time is below this layer; here it is put together, and every ending
//! becomes a text on standard error and one of the exit statuses of [`Exit`].

mod client;
mod events;
mod failure;
mod leftover;
mod logger;
mod loopback;
mod server;
mod session;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::args::{Cli, CliCommand, Color, PingPongArgs, PingPongCli, Role, completions, man_pages};
use crate::control::Stop;
use crate::observer::Phase;

pub use failure::{Exit, Failure};

/// The program `efa`.
pub fn efa(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_from_args(args) {
        Ok(cli) => cli,
        Err(error) => return usage(error),
    };
    let (name, result) = match cli.command {
        CliCommand::Pingpong(args) => ("efa pingpong", pingpong_with(&args, &["pingpong"])),
        CliCommand::Completions { shell, binary } => ("efa completions", print(&completions(binary, shell))),
        CliCommand::Man { out } => ("efa man", man(&out)),
    };
    finish(name, cli.color, result)
}

/// The program `efa-pingpong`.
pub fn pingpong(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match PingPongCli::try_from_args(args) {
        Ok(cli) => finish("efa-pingpong", cli.color, pingpong_with(&cli.pingpong, &[])),
        Err(error) => usage(error),
    }
}

/// `words` stand before the flags on this program's command line.
fn pingpong_with(args: &PingPongArgs, words: &[&str]) -> Result<(), Failure> {
    logger::install(args.verbose);
    // While this is the only thread.
    let stop = Stop::on_signals()
        .map_err(|error| Failure::setup(Phase::Resolve, format!("signals cannot be waited for: {error}")))?;
    match args.role() {
        Role::Server => server::run(args, &stop),
        Role::Client(host) => client::run(args, host, &stop),
        Role::Loopback => loopback::run(args, words, &stop),
    }
}

/// Prints a usage error, `--help` or `--version` where it belongs.
fn usage(error: clap::Error) -> ExitCode {
    // Nobody may be left to read it.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Fine.code() })
}

fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Midway, format!("standard output could not be written: {error}")))
        }
        _ => Ok(()),
    }
}

fn man(dir: &std::path::Path) -> Result<(), Failure> {
    let pages = man_pages(dir)
        .map_err(|error| Failure::new(Exit::Usage, format!("no manual pages in {}: {error}", dir.display())))?;
    print(pages.iter().map(|page| format!("{}\n", page.display())).collect::<String>().as_bytes())
}

/// Says what went wrong, and turns it into an exit status.
fn finish(name: &str, color: Color, result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::from(Exit::Fine.code()) };
    if !failure.text.is_empty() {
        let colored = color.enabled(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
        let (on, off) = if colored { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        // Standard error may be closed, and there is nowhere left to say so.
        let _ = writeln!(std::io::stderr(), "{on}{name}:{off} {}", failure.text);
    }
    ExitCode::from(failure.exit.code())
}
