//! The system's package manager: which one there is, and the commands that it takes.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::command::Command;
use crate::paths::on_path;

/// Lists of packages older than this name files that the mirrors may have dropped.
const FRESH: Duration = Duration::from_secs(7 * 24 * 3600);

/// A package manager that set-up knows how to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageManager {
    Apt,
    Dnf,
    Yum,
    Zypper,
}

/// How a command comes to run as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Already,
    Sudo,
    /// Neither root nor sudo: the commands can only be shown.
    Unavailable,
}

impl PackageManager {
    /// The manager of this machine, where it is a known one.
    pub(crate) fn find() -> Option<PackageManager> {
        [PackageManager::Apt, PackageManager::Dnf, PackageManager::Yum, PackageManager::Zypper]
            .into_iter()
            .find(|manager| on_path(manager.program()).is_some())
    }

    /// Brings the lists of packages up to date, where they are not; `None` where nothing is to be done.
    pub(crate) fn refresh(self, root: Root) -> Option<Command> {
        match self {
            PackageManager::Apt if !apt_lists_are_fresh() => Some(self.update(root)),
            _ => None,
        }
    }

    /// Brings the lists of packages up to date in any case.
    pub(crate) fn update(self, root: Root) -> Command {
        match self {
            PackageManager::Apt => self.command(root).arg("update"),
            PackageManager::Dnf | PackageManager::Yum => self.command(root).arg("makecache"),
            PackageManager::Zypper => self.command(root).args(["--non-interactive", "refresh"]),
        }
    }

    /// Installs the packages without a question.
    pub(crate) fn install(self, root: Root, packages: &[&str]) -> Command {
        let command = self.command(root);
        match self {
            PackageManager::Apt => command.args(["install", "-y", "--no-install-recommends"]),
            PackageManager::Dnf | PackageManager::Yum => command.args(["install", "-y"]),
            PackageManager::Zypper => command.args(["--non-interactive", "install"]),
        }
        .args(packages)
    }

    /// Where a package's name differs, which of the columns of the needs to read.
    pub(crate) fn program(self) -> &'static str {
        match self {
            PackageManager::Apt => "apt-get",
            PackageManager::Dnf => "dnf",
            PackageManager::Yum => "yum",
            PackageManager::Zypper => "zypper",
        }
    }

    fn command(self, root: Root) -> Command {
        // Given through `env`, because sudo drops the environment that it was called with.
        let words: &[&str] = match self {
            PackageManager::Apt => &["env", "DEBIAN_FRONTEND=noninteractive", self.program()],
            _ => &[self.program()],
        };
        let command = match root {
            Root::Already => Command::new(words[0]).args(&words[1..]),
            // Without a terminal a question for a password would never be answered.
            Root::Sudo if !crate::setup::on_terminal() => Command::new("sudo").arg("-n").args(words),
            Root::Sudo | Root::Unavailable => Command::new("sudo").args(words),
        };
        command.minutes(20)
    }
}

impl Root {
    pub(crate) fn find() -> Root {
        if rustix::process::geteuid().is_root() {
            Root::Already
        } else if on_path("sudo").is_some() {
            Root::Sudo
        } else {
            Root::Unavailable
        }
    }
}

fn apt_lists_are_fresh() -> bool {
    let now = SystemTime::now();
    let fresh = |path: &Path| {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|then| now.duration_since(then).is_ok_and(|age| age < FRESH))
    };
    // apt keeps the server's date on the lists themselves; the folder has the date of the update.
    let lists = Path::new("/var/lib/apt/lists");
    let any = fs::read_dir(lists).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().contains("_Packages")
    });
    any && (fresh(lists) || fresh(&lists.join("partial")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_asks_nothing() {
        let command = PackageManager::Apt.install(Root::Already, &["gcc", "pkg-config"]);
        assert_eq!(
            command.to_string(),
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc pkg-config"
        );
        let command = PackageManager::Dnf.install(Root::Already, &["gcc"]);
        assert_eq!(command.to_string(), "dnf install -y gcc");
    }
}
