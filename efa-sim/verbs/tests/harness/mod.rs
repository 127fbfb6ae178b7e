//! Real programs on simulated devices: where they are, and how a pair of them is run.

use std::fs;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// No wait in these tests is longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The two libraries under their names, and libfabric.
pub(crate) struct Installed {
    pub(crate) libraries: PathBuf,
    libfabric: PathBuf,
}

/// Builds and finds everything, or says why a test cannot run.
pub(crate) fn installed(test: &str) -> Option<&'static Installed> {
    static INSTALLED: OnceLock<Result<Installed, String>> = OnceLock::new();
    match INSTALLED.get_or_init(install) {
        Ok(installed) => Some(installed),
        Err(reason) => {
            eprintln!("SKIPPED: {test}: {reason}");
            None
        }
    }
}

fn install() -> Result<Installed, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let libfabric = match std::env::var_os("EFA_SIM_LIBFABRIC") {
        Some(path) => PathBuf::from(path),
        None => target.join("libfabric/2.5.1"),
    };
    let libfabric = [libfabric.join("lib"), libfabric.clone()]
        .into_iter()
        .find(|directory| directory.join("libfabric.so.1").exists())
        .ok_or_else(|| {
            format!(
                "no libfabric with the efa provider in {}; run `cargo xtask libfabric` or set \
                 EFA_SIM_LIBFABRIC to its directory",
                libfabric.display()
            )
        })?;
    if Command::new("fi_info").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err("no fi_info (package libfabric-bin)".to_owned());
    }
    // Cargo gives a test no way to depend on a library that is only for C programs.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "efa-sim-verbs", "-p", "efa-sim-efa"])
        .current_dir(&workspace)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    assert!(built.success(), "the libraries do not build");
    let libraries = target.join("debug/efa-sim");
    fs::create_dir_all(&libraries).map_err(|error| error.to_string())?;
    for (name, file) in [("libibverbs.so.1", "libefa_sim_verbs.so"), ("libefa.so.1", "libefa_sim_efa.so")] {
        match symlink(Path::new("..").join(file), libraries.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.to_string()),
            _ => {}
        }
    }
    Ok(Installed { libraries, libfabric })
}

/// One simulated host: variables for the programs that run on it, and a place for its files.
pub(crate) struct Host {
    variables: Vec<(String, String)>,
    pub(crate) state: tempfile::TempDir,
}

impl Host {
    /// A host with one device.
    pub(crate) fn new(address: &str) -> Host {
        let state = tempfile::tempdir().unwrap();
        Host { variables: Vec::new(), state }.with("ADDRESSES", address).with("KEY", "a key for tests only")
    }

    /// Sets one of the `EFA_SIM_` variables.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Host {
        self.variables.retain(|(set, _)| set != &format!("EFA_SIM_{name}"));
        self.variables.push((format!("EFA_SIM_{name}"), value.to_owned()));
        self
    }

    /// A program on this host.
    pub(crate) fn command(&self, installed: &Installed, program: &str) -> Command {
        let path = std::env::join_paths([&installed.libraries, &installed.libfabric]).unwrap();
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", path)
            .env("EFA_SIM_DIR", self.state.path())
            .env("FI_EFA_ENABLE_SHM_TRANSFER", "0")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// A program that runs; it is killed when this goes.
pub(crate) struct Running {
    child: Child,
}

/// What a program has left.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        Running { child: command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end, and gives all that was written; programs here write less than a pipe holds.
    pub(crate) fn finish(mut self) -> Finished {
        let deadline = Instant::now() + PATIENCE;
        let status = wait_for("the end of a program", deadline, || self.child.try_wait().unwrap());
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        Finished { status, output }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until there is an answer.
pub(crate) fn wait_for<T>(what: &str, deadline: Instant, mut ask: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::park_timeout(Duration::from_millis(2));
    }
}

/// Starts `fi_pingpong` on two hosts, the server first.
pub(crate) fn start_pingpong(installed: &Installed, server: &Host, client: &Host, args: &[&str]) -> (Running, Running) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = server.command(installed, "fi_pingpong");
    command.args(args).args(["-p", "efa", "-B", &port.to_string()]);
    let mut server = Running::start(command);
    let deadline = Instant::now() + PATIENCE;
    wait_for("the server's control port", deadline, || {
        assert!(server.child.try_wait().unwrap().is_none(), "the server ended at once");
        is_listening(port).then_some(())
    });
    let mut command = client.command(installed, "fi_pingpong");
    command.args(args).args(["-p", "efa", "-P", &port.to_string(), "127.0.0.1"]);
    (server, Running::start(command))
}

/// Runs `fi_pingpong` on two hosts to its end.
pub(crate) fn pingpong(installed: &Installed, server: &Host, client: &Host, args: &[&str]) -> (Finished, Finished) {
    let (server, client) = start_pingpong(installed, server, client, args);
    let client = client.finish();
    (server.finish(), client)
}

/// Whether somebody listens; asked of the kernel, because connecting would be taken for the client.
fn is_listening(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(|table| {
        fs::read_to_string(table).unwrap_or_default().lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&wanted)) && fields.nth(1) == Some("0A")
        })
    })
}
