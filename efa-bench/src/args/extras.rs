//! Completions and manual pages, written from the same definitions as the command lines.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, ValueEnum};
use clap_complete::Shell;

use super::{cli_command, pingpong_command};

/// A program that completions can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Binary {
    /// The program `efa`
    Efa,
    /// The program `efa-pingpong`
    EfaPingpong,
}

impl Binary {
    fn command(self) -> Command {
        match self {
            Binary::Efa => cli_command(),
            Binary::EfaPingpong => pingpong_command(),
        }
    }
}

/// Renders the completion script of a program for a shell.
pub fn completions(binary: Binary, shell: Shell) -> Vec<u8> {
    let mut command = binary.command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

/// Writes the manual pages `efa.1`, one for each of its subcommands, and `efa-pingpong.1`, and returns
/// what was written.
///
/// `efa pingpong` gets no page of its own: `efa-pingpong.1` is the same command by its other name.
///
/// # Errors
/// Where the folder cannot be made or a page cannot be written.
pub fn man_pages(dir: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir)?;
    let mut efa = cli_command();
    efa.build();
    let mut written = Vec::new();
    for sub in efa.get_subcommands() {
        if !sub.is_hide_set() && sub.get_name() != "pingpong" && sub.get_name() != "help" {
            let name = format!("efa-{}", sub.get_name());
            written.push(page(dir, sub.clone(), &name)?);
        }
    }
    written.push(page(dir, efa, "efa")?);
    written.push(page(dir, pingpong_command(), "efa-pingpong")?);
    written.sort();
    Ok(written)
}

fn page(dir: &Path, command: Command, name: &str) -> io::Result<PathBuf> {
    let path = dir.join(format!("{name}.1"));
    let mut roff = Vec::new();
    clap_mangen::Man::new(command).render(&mut roff)?;
    std::fs::write(&path, roff)?;
    Ok(path)
}
