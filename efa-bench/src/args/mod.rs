//! Command lines: typed flags, and nothing that acts on them.
//!
//! Every value is parsed strictly, where the flag's name is at hand: a wrong one ends with exit status
//! 2 and a text that names the flag, the value, the reason and the remedy. What needs a look at the
//! machine (does the provider exist?) is checked by the layers to the right.
//!
//! Flags that were not given stay `None`, because a server's flags are constraints on the plan that its
//! client brings, and a default is no constraint (see [`crate::plan::Constraints`]).

mod address;
mod extras;
mod pingpong;
mod report_flags;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use clap_complete::Shell;
pub use extras::{Binary, completions, man_pages};
pub use pingpong::{DEFAULT_PORT, PingPongArgs, Role};
pub use values::{ClockChoice, Color, Cores, Inject, Mode, Output, Percentiles, Rdm, Sizes, Wait, Warmup, nanoseconds};
pub(crate) use values::{LARGEST_SIZE, MOST_OF_NAME, MOST_PERCENTILES, MOST_SIZES};

use crate::units::excerpt;

const PINGPONG_AFTER_HELP: &str = "\
A report flag takes its file as --json=FILE, or as --json FILE where FILE has a '/' in it or ends in
.json (.csv, .md); '-' is standard output. A host name that follows such a flag is refused: put HOST
first.

Examples:
  efa-pingpong                      serve one client; it needs no options
  efa-pingpong nodeb                measure against the server on nodeb
  efa-pingpong --loopback -S 8..4MiB --pin 0,1
  efa-pingpong nodeb -p efa -c --json=run.json

Exit status: 0 fine, 1 wrong data, 2 usage or set-up, 3 failed midway, 130 interrupted.";

/// Command line of the program `efa`.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "efa",
    version,
    about = "Measure libfabric fabrics, AWS EFA first",
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// When to use colours [default: auto]
    #[arg(
        long,
        global = true,
        value_enum,
        hide_possible_values = true,
        default_value_t,
        hide_default_value = true,
        value_name = "auto|always|never"
    )]
    pub color: Color,

    /// What to do.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Subcommands of the program `efa`.
#[derive(Debug, Clone, Subcommand)]
pub enum CliCommand {
    /// Measure latency and bandwidth between two processes
    #[command(after_help = PINGPONG_AFTER_HELP)]
    Pingpong(Box<PingPongArgs>),

    /// Print a completion script for a shell
    Completions {
        /// Shell to write for: bash, elvish, fish, powershell or zsh
        #[arg(value_enum, hide_possible_values = true)]
        shell: Shell,
        /// Program to complete: efa or efa-pingpong
        #[arg(long, value_enum, hide_possible_values = true, default_value = "efa")]
        binary: Binary,
    },

    /// Write the manual pages
    #[command(hide = true)]
    Man {
        /// Folder to write to
        #[arg(long, value_name = "DIR", default_value = "man")]
        out: PathBuf,
    },
}

/// Command line of the program `efa-pingpong`.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "efa-pingpong",
    version,
    about = "Measure latency and bandwidth between two processes over a libfabric fabric",
    after_help = PINGPONG_AFTER_HELP,
    max_term_width = 100
)]
pub struct PingPongCli {
    /// When to use colours [default: auto]
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        default_value_t,
        hide_default_value = true,
        value_name = "auto|always|never"
    )]
    pub color: Color,

    /// Flags of the ping-pong.
    #[command(flatten)]
    pub pingpong: PingPongArgs,
}

impl Cli {
    /// Parses a command line, the program's name first.
    ///
    /// # Errors
    /// A usage error, or the text of `--help` and `--version`; `exit()` on it prints it on the right
    /// stream and ends with the right status.
    pub fn try_from_args<I>(args: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item: Into<OsString>>,
    {
        let mut command = cli_command();
        let cli: Self = parse(&mut command, args)?;
        if let CliCommand::Pingpong(args) = &cli.command {
            command.build();
            if let Some(sub) = command.find_subcommand_mut("pingpong") {
                checked(args, sub)?;
            }
        }
        Ok(cli)
    }
}

impl PingPongCli {
    /// Parses a command line, the program's name first.
    ///
    /// # Errors
    /// A usage error, or the text of `--help` and `--version`; `exit()` on it prints it on the right
    /// stream and ends with the right status.
    pub fn try_from_args<I>(args: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item: Into<OsString>>,
    {
        let mut command = pingpong_command();
        let cli: Self = parse(&mut command, args)?;
        checked(&cli.pingpong, &mut command)?;
        Ok(cli)
    }
}

/// The definition of the program `efa`, for help, completions and manual pages.
pub fn cli_command() -> Command {
    Cli::command()
}

/// The definition of the program `efa-pingpong`, for help, completions and manual pages.
pub fn pingpong_command() -> Command {
    PingPongCli::command()
}

fn parse<T, I>(command: &mut Command, args: I) -> Result<T, clap::Error>
where
    T: FromArgMatches,
    I: IntoIterator<Item: Into<OsString>>,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    *command = command.clone().color(color_of(&args));
    let args = report_flags::attach_files(args).map_err(|text| command.error(ErrorKind::ArgumentConflict, text))?;
    let mut matches = command.try_get_matches_from_mut(args).map_err(shortened)?;
    T::from_arg_matches_mut(&mut matches).map_err(|e| e.format(command))
}

/// Cuts long words out of an error: clap repeats what was typed whole, and that may be a whole file.
fn shortened(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(typed)) = error.get(kind) {
            let cut = excerpt(typed);
            error.insert(kind, ContextValue::String(cut));
        }
    }
    error
}

fn checked(args: &PingPongArgs, command: &mut Command) -> Result<(), clap::Error> {
    args.check().map_err(|text| command.error(ErrorKind::ArgumentConflict, text))
}

/// Reads --color ahead of clap, because it also decides how clap prints its own errors and help.
fn color_of(args: &[OsString]) -> ColorChoice {
    let mut choice = ColorChoice::Auto;
    let mut words = args.iter().map(|a| a.to_string_lossy());
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next().map(|v| v.into_owned()),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None if word == "--" => break,
            None => None,
        };
        match value.as_deref() {
            Some("always") => choice = ColorChoice::Always,
            Some("never") => choice = ColorChoice::Never,
            _ => {}
        }
    }
    choice
}

#[cfg(test)]
mod tests;
