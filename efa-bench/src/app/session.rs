//! What both sides do alike: look at themselves, open the fabric, meet the peer.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use efa_core::version::{self, Library};
use efa_core::{Address, Domain, EndpointConfig, Fabric, Info};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::leftover::Leftover;
use super::{Exit, Failure};
use crate::args::{Inject, Wait};
use crate::control::{Control, Hello, Message, Stop};
use crate::environment::Environment;
use crate::observer::{Observer, Phase};
use crate::plan::Plan;
use crate::report;
use crate::rig::{BUFFERS_PER_SIDE, Link, LinkConfig, WaitMode};
use crate::select::{Choice, Request, SHM_NEEDS};
use crate::units::format_size;

/// Operations in flight at most: a send and two receives, and room for a provider that rounds down.
const DEPTH: usize = 16;
/// What opening a fabric may take beyond the time-out: providers look for devices and register memory.
const OPENING: Duration = Duration::from_secs(10);

/// This side.
pub(super) struct Local {
    pub(super) stop: Stop,
    pub(super) environment: Environment,
    pub(super) library: Library,
    pub(super) hello: Hello,
    /// Names of the variables that the loaded libfabric reads.
    pub(super) variables: Vec<String>,
    pub(super) core: Option<usize>,
}

impl Local {
    /// Pins this process, and looks at the host and the library.
    pub(super) fn new(core: Option<usize>, stop: &Stop) -> Result<Local, Failure> {
        if let Some(core) = core {
            pin(core)?;
        }
        let environment = Environment::collect(Path::new("/"));
        check_open_files(&environment)?;
        let library = version::library().map_err(|error| Failure::setup(Phase::Resolve, error))?;
        let variables = version::parameters().map_err(|error| Failure::setup(Phase::Resolve, error))?;
        let path = library.path.display().to_string();
        let hello = Hello::new(library.build_release, &library.run_release, &path, &environment);
        let variables = variables.into_iter().map(|p| p.name).collect();
        Ok(Local { stop: stop.clone(), environment, library, hello, variables, core })
    }

    /// This side, for the report.
    pub(super) fn side(&self, role: report::Role) -> report::Side {
        report::Side {
            role,
            host: self.environment.host.clone(),
            pid: Some(std::process::id()),
            tool_version: self.hello.tool_version.clone(),
            libfabric: report::Libfabric {
                build_version: self.library.build_release.to_owned(),
                run_version: self.library.run_release.clone(),
                path: Some(self.library.path.display().to_string()),
            },
            pinned_core: self.core.and_then(|core| u32::try_from(core).ok()),
        }
    }

    /// A request for nothing in particular, with what this host's part in the choice is.
    pub(super) fn request(&self) -> Request {
        Request {
            filter: self.environment.variables.get("FI_PROVIDER").cloned(),
            shm_bytes: self.environment.shm_free_bytes.zip(self.environment.shm_total_bytes),
            ..Request::default()
        }
    }

    /// Refuses a plan whose buffers do not fit into this host's memory.
    pub(super) fn check_memory(&self, plan: &Plan, same_host: bool, phase: Phase) -> Result<(), Failure> {
        let available = self.environment.memory_available_bytes.unwrap_or(u64::MAX);
        let sides = if same_host { 2 } else { 1 };
        plan.check_memory(BUFFERS_PER_SIDE, sides, available).map_err(|error| Failure::setup(phase, error))
    }
}

/// The peer's side, for the report; a process that may run on one core only counts as pinned to it.
pub(super) fn peer_side(hello: &Hello, environment: Option<&Environment>, role: report::Role) -> report::Side {
    report::Side {
        role,
        host: Some(hello.host.clone()),
        pid: Some(hello.pid),
        tool_version: hello.tool_version.clone(),
        libfabric: report::Libfabric {
            build_version: hello.libfabric_build.clone(),
            run_version: hello.libfabric_run.clone(),
            path: Some(hello.libfabric_path.clone()),
        },
        pinned_core: environment.and_then(only_core),
    }
}

/// The one core that a process may run on, if it is one.
pub(super) fn only_core(environment: &Environment) -> Option<u32> {
    match environment.cpus_allowed.as_deref() {
        Some([core]) => Some(*core),
        _ => None,
    }
}

/// Files that a run opens beside those that are open already: control, reports, and a provider's sockets and event
/// queues, of which sockets and tcp;ofi_rxm take the most (14 and 11 were seen).
const OPEN_FILES: u64 = 20;

/// Refuses to start where providers would run out of file descriptors: they wait for ever, or crash.
fn check_open_files(environment: &Environment) -> Result<(), Failure> {
    let Some(limit) = environment.open_files.and_then(|files| files.soft) else { return Ok(()) };
    // The folder itself is open while it is read.
    let Ok(open) = std::fs::read_dir("/proc/self/fd").map(|files| files.count().saturating_sub(1) as u64) else {
        return Ok(());
    };
    if open + OPEN_FILES <= limit {
        return Ok(());
    }
    let text = format!(
        "at most {limit} files may be open, {open} are, and a run opens up to {OPEN_FILES} more; raise the limit \
         (`ulimit -n 1024`, or nofile in /etc/security/limits.conf)"
    );
    Err(Failure::setup(Phase::Resolve, text))
}

fn pin(core: usize) -> Result<(), Failure> {
    let refuse = |why: String| {
        Failure::new(Exit::Usage, format!("--pin {core}: {why}; `taskset -cp $$` shows the cores that are allowed"))
    };
    if core >= CpuSet::MAX_CPU {
        return Err(refuse(format!("cores are numbered below {}", CpuSet::MAX_CPU)));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| refuse(format!("this process may not run there ({error})")))
}

/// What the choice of a provider depends on, for this plan.
pub(super) fn request(local: &Local, plan: &Plan, control: Option<&Control>, same_host: Option<bool>) -> Request {
    Request {
        provider: plan.provider.clone(),
        fabric: plan.fabric.clone(),
        domain: plan.domain.clone(),
        local: control.map(|c| c.local_addr().ip().to_canonical()),
        same_host,
        tagged: plan.op == crate::args::Mode::Tagged,
        max_bytes: plan.max_size(),
        ..local.request()
    }
}

/// How an idle side waits: as asked, or by yielding where both sides have one core between them.
pub(super) fn wait_mode(wait: Wait, same_host: bool, ours: &Environment, theirs: &Environment) -> WaitMode {
    match wait {
        Wait::Spin => WaitMode::Spin,
        Wait::Yield => WaitMode::Yield,
        Wait::Auto if same_host && only_core(ours).is_some() && ours.cpus_allowed == theirs.cpus_allowed => {
            WaitMode::Yield
        }
        Wait::Auto => WaitMode::Spin,
    }
}

/// An open endpoint that has met its peer.
pub(super) struct Meeting {
    pub(super) link: Link,
    pub(super) ours: Address,
    pub(super) theirs: Address,
    pub(super) inject: report::Inject,
}

/// Opens the chosen fabric, exchanges addresses, posts receives, and waits until the peer has as well.
pub(super) fn meet(
    local: &Local,
    choice: &Choice,
    plan: &Plan,
    control: &mut Control,
    phase: &mut dyn FnMut(Phase),
) -> Result<Meeting, Failure> {
    phase(Phase::FabricOpen);
    let info = &choice.info;
    let opened = open(info).map_err(|error| Failure::setup(Phase::FabricOpen, explain(local, info, &error)))?;
    let (domain, mut endpoint) = opened;
    let inject = injection(plan, endpoint.inject_bytes())?;
    let ours = endpoint.address().map_err(|error| Failure::setup(Phase::FabricOpen, error))?;

    phase(Phase::Addresses);
    control.phase("exchanging addresses");
    let patience = Instant::now() + plan.timeout + OPENING;
    let failed = |error| Failure::control(Phase::Addresses, &error);
    let theirs = match control.exchange(&Message::Address(ours.as_bytes().to_vec()), patience).map_err(failed)? {
        Message::Address(bytes) => Address::from_bytes(bytes),
        other => return Err(failed(control.unexpected("Address", &other))),
    };
    let peer = endpoint.insert(&theirs).map_err(|error| Failure::setup(Phase::Addresses, error))?;
    let config = LinkConfig {
        mode: plan.op,
        max_bytes: plan.max_size() as usize,
        inject: inject.used.then_some(inject.limit_bytes as usize),
    };
    let link = Link::open(&domain, endpoint, peer, config)
        .map_err(|error| Failure::setup(Phase::FabricOpen, explain(local, info, &error)))?;
    control.barrier(RECEIVES_POSTED, patience).map_err(failed)?;
    control.phase("measuring");
    Ok(Meeting { link, ours, theirs, inject })
}

/// The file that the peer would leave behind if it were killed.
pub(super) fn leftover(meeting: &Meeting, same_host: bool, peer: &Hello) -> Option<Leftover> {
    Leftover::of(&meeting.theirs.to_string(), peer.pid).filter(|_| same_host)
}

/// Removes that file after a run that ended with, or because of, the peer's death.
pub(super) fn clear_away(ended: &Result<(), Failure>, leftover: Option<Leftover>) {
    if let (Err(failure), Some(leftover)) = (ended, leftover)
        && (failure.by_peer || failure.exit == Exit::Interrupted)
    {
        leftover.remove();
    }
}

/// Says which offers were not chosen, and why.
pub(super) fn note_refused(choice: &Choice, observer: &mut dyn Observer) {
    for refused in &choice.refused {
        let offer = &refused.offer;
        observer.note(&format!("not {} ({}, {}): {}", offer.provider, offer.fabric, offer.domain, refused.reason));
    }
}

/// The barrier after which both sides have receives posted.
const RECEIVES_POSTED: u32 = 1;

fn open(info: &Info) -> efa_core::Result<(Domain, efa_core::Endpoint)> {
    let domain = Domain::open(&Fabric::open(info)?, info)?;
    let endpoint = domain.endpoint(info, &EndpointConfig::new().depth_limit(DEPTH).peers(1))?;
    Ok((domain, endpoint))
}

/// The error, with what this host has of the resource that it is probably about.
fn explain(local: &Local, info: &Info, error: &dyn std::fmt::Display) -> String {
    let mut text = format!("{error}; provider {}, domain {}", info.provider(), info.domain());
    if info.provider() == "shm"
        && let (Some(free), Some(total)) = (local.environment.shm_free_bytes, local.environment.shm_total_bytes)
    {
        text.push_str(&format!("; /dev/shm has {} free of {}, and {SHM_NEEDS}", format_size(free), format_size(total)));
    }
    text
}

/// Whether messages are injected, and up to which size.
fn injection(plan: &Plan, limit: usize) -> Result<report::Inject, Failure> {
    let limit_bytes = limit as u64;
    match plan.inject {
        Inject::Off => Ok(report::Inject { used: false, limit_bytes }),
        Inject::On if plan.max_size() > limit_bytes => Err(Failure::setup(
            Phase::FabricOpen,
            format!(
                "--inject on with messages of {}, and this endpoint injects at most {}: use --inject auto, or smaller \
                 sizes (-S)",
                format_size(plan.max_size()),
                format_size(limit_bytes)
            ),
        )),
        Inject::On | Inject::Auto => Ok(report::Inject { used: limit > 0, limit_bytes }),
    }
}

/// Where and over what a run ran, for the end of an error message, with what to look at when data is silent.
pub(super) fn context(choice: &Choice, meeting: &Meeting, control: (SocketAddr, SocketAddr)) -> String {
    let info = &choice.info;
    let hint = if info.provider().contains("efa") {
        "the security group must allow all traffic from and to itself in both directions (a rule for 0.0.0.0/0 does \
         not cover EFA), and both hosts must be in one subnet"
    } else if info.provider().starts_with("shm") {
        "see /dev/shm and whether the peer still runs"
    } else {
        "the control port was let through; see that no firewall drops the data ports, which are chosen by the system"
    };
    format!(
        "; provider {}, fabric {}, domain {}; fabric addresses {} and {}, control {} and {}; {hint}",
        info.provider(),
        info.fabric(),
        info.domain(),
        meeting.ours,
        meeting.theirs,
        control.0,
        control.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(cores: &[u32]) -> Environment {
        Environment { cpus_allowed: Some(cores.to_vec()), ..Environment::default() }
    }

    #[test]
    fn two_sides_on_one_core_yield_and_all_others_spin() {
        let mode = |same_host, ours: &[u32], theirs: &[u32]| wait_mode(Wait::Auto, same_host, &on(ours), &on(theirs));
        assert_eq!(mode(true, &[1], &[1]), WaitMode::Yield);
        assert_eq!(mode(true, &[0], &[1]), WaitMode::Spin);
        assert_eq!(mode(true, &[0, 1], &[0, 1]), WaitMode::Spin);
        assert_eq!(mode(false, &[0], &[0]), WaitMode::Spin);
        assert_eq!(wait_mode(Wait::Yield, false, &on(&[0]), &on(&[1])), WaitMode::Yield);
        assert_eq!(wait_mode(Wait::Spin, true, &on(&[0]), &on(&[0])), WaitMode::Spin);
    }
}
