//! Network namespaces: hosts of their own with real addresses, made and removed by exact name.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace with its loopback up, removed with this value.
pub(crate) struct Namespace {
    name: String,
    /// Folder under /etc/netns whose files hide those of /etc, where one was made.
    etc: Option<PathBuf>,
}

impl Namespace {
    pub(crate) fn new() -> Namespace {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("efa-t-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name]);
        let namespace = Namespace { name, etc: None };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` inside.
    #[track_caller]
    pub(crate) fn ip(&self, words: &[&str]) {
        ip(&[&["-n", &self.name], words].concat());
    }

    /// Adds an interface with an address and nobody behind it, such as docker0.
    pub(crate) fn add_interface(&self, name: &str, address: &str) {
        // A pair of which one end stays here: this kernel may have no dummy interfaces.
        let other = format!("{name}-x");
        self.ip(&["link", "add", name, "type", "veth", "peer", "name", &other]);
        self.ip(&["addr", "add", address, "dev", name]);
        self.ip(&["link", "set", name, "up"]);
        self.ip(&["link", "set", &other, "up"]);
    }

    /// Gives the namespace an /etc/hosts of its own.
    pub(crate) fn hosts(&mut self, text: &str) {
        let folder = PathBuf::from("/etc/netns").join(&self.name);
        std::fs::create_dir_all(&folder).expect("/etc can be written by root");
        std::fs::write(folder.join("hosts"), text).expect("/etc can be written by root");
        self.etc = Some(folder);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(folder) = &self.etc {
            let _ = std::fs::remove_file(folder.join("hosts"));
            let _ = std::fs::remove_dir(folder);
            // Ours if it is empty; another test may still have its folder in it.
            let _ = std::fs::remove_dir("/etc/netns");
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).stderr(Stdio::null()).status();
    }
}

/// A cable between two namespaces, `eth0` at one end and a name of choice at the other.
pub(crate) struct Cable;

impl Cable {
    /// Connects `left` and `right`; the addresses have their prefix lengths.
    pub(crate) fn between(left: (&Namespace, &str, &str), right: (&Namespace, &str, &str)) -> Cable {
        let peer = ["peer", "name", right.1, "netns", right.0.name()];
        left.0.ip(&[&["link", "add", left.1, "type", "veth"][..], &peer].concat());
        for (namespace, device, address) in [left, right] {
            // Without duplicate address detection an IPv6 address can be used at once.
            let flags: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            namespace.ip(&[&["addr", "add", address, "dev", device][..], flags].concat());
            namespace.ip(&["link", "set", device, "up"]);
        }
        Cable
    }
}

#[track_caller]
fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).stdin(Stdio::null()).output().expect("`ip` runs");
    assert!(done.status.success(), "ip {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr));
}
