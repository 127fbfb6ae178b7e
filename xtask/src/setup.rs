//! `cargo xtask setup`: finds what is missing and installs it, showing every command first.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result, bail};

use crate::needs::{self, Need, Purpose};
use crate::package_manager::{PackageManager, Root};

/// Options of `cargo xtask setup`, also of the tasks that begin with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install without asking (implied where standard input is not a terminal)
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Only what is needed to build and run the tools, not what the tests need
    #[arg(long)]
    build_only: bool,
    /// Print what is missing and the commands, and install nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let purpose = if args.build_only { Purpose::Build } else { Purpose::Test };
    if args.dry_run {
        let missing = needs::missing(purpose);
        print_missing(&missing);
        if !missing.is_empty() {
            let manager = PackageManager::find().context(by_hand(&missing))?;
            let root = Root::find();
            if let Some(update) = manager.refresh(root) {
                println!("{update}");
            }
            println!("{}", manager.install(root, &packages(&missing, manager)));
        }
        return Ok(());
    }
    ensure(purpose, args.yes)
}

/// Makes sure that everything for a purpose is there.
pub(crate) fn ensure(purpose: Purpose, yes: bool) -> Result<()> {
    let missing = needs::missing(purpose);
    print_missing(&missing);
    if missing.is_empty() {
        return Ok(());
    }
    let manager = PackageManager::find().with_context(|| by_hand(&missing))?;
    let root = Root::find();
    let packages = packages(&missing, manager);
    let refresh = manager.refresh(root);
    let install = manager.install(root, &packages);
    eprintln!("To be run:");
    for command in refresh.iter().chain([&install]) {
        eprintln!("    {command}");
    }
    if root == Root::Unavailable {
        let install = manager.install(Root::Already, &packages);
        let commands = match manager.refresh(Root::Already) {
            Some(update) => format!("    {update}\n    {install}"),
            None => format!("    {install}"),
        };
        bail!(
            "this needs root, and there is no sudo here. Type as root:\n{commands}\n\
             and then the same `cargo xtask` command again"
        );
    }
    if !yes && on_terminal() && !confirmed()? {
        bail!("nothing was installed; run the commands above, then this one again");
    }
    if let Some(update) = &refresh {
        // One broken source of packages must not hide that the others have what is needed.
        if let Err(error) = update.run_ok() {
            eprintln!("warning: {error:#}; going on with the lists that are there");
        }
    }
    if install.run()?.ok().is_err() {
        anyhow::ensure!(
            refresh.is_none(),
            "`{install}` failed; its messages above say why. Install these another way, or fix the \
             package manager's sources: {}",
            packages.join(" ")
        );
        // The lists may name versions that the mirror no longer has.
        manager.update(root).run_ok()?;
        install.run_ok()?;
    }
    still_missing(purpose)
}

/// Whether somebody is there to answer a question.
pub(crate) fn on_terminal() -> bool {
    io::stdin().is_terminal()
}

fn print_missing(missing: &[&Need]) {
    if missing.is_empty() {
        eprintln!("Everything that is needed is installed.");
        return;
    }
    eprintln!("Missing:");
    for need in missing {
        eprintln!("    {} ({})", need.what, need.why);
    }
}

fn packages(missing: &[&Need], manager: PackageManager) -> Vec<&'static str> {
    missing.iter().flat_map(|need| need.packages(manager)).copied().collect()
}

fn by_hand(missing: &[&Need]) -> String {
    let line = |name: &str, manager: PackageManager| format!("    {name}: {}", packages(missing, manager).join(" "));
    format!(
        "no package manager that this program knows (apt-get, dnf, yum, zypper) was found. \
         Install these yourself; their packages are called\n{}\n{}\n{}",
        line("Debian, Ubuntu", PackageManager::Apt),
        line("Fedora, Amazon Linux", PackageManager::Dnf),
        line("openSUSE", PackageManager::Zypper),
    )
}

fn confirmed() -> Result<bool> {
    eprint!("Go on? [Y/n] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    // An end of input is not a yes.
    Ok(!answer.is_empty() && !answer.trim().to_lowercase().starts_with('n'))
}

fn still_missing(purpose: Purpose) -> Result<()> {
    let left = needs::missing(purpose);
    if left.is_empty() {
        eprintln!("Everything that is needed is installed now.");
        return Ok(());
    }
    let left: Vec<&str> = left.iter().map(|need| need.what).collect();
    bail!("the packages were installed, but still not found: {}", left.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_known_package_manager_the_packages_are_named() {
        let all: Vec<&Need> = needs::NEEDS.iter().collect();
        let text = by_hand(&all);
        assert!(text.contains("Debian, Ubuntu: gcc libc6-dev pkg-config libfabric-dev"), "{text}");
        assert!(text.contains("Fedora, Amazon Linux: gcc glibc-devel"), "{text}");
    }
}
