//! Where a run took place: what a reader of its numbers has to know about the host.
//!
//! Everything is read from files below a root, so that tests bring their own. Reading never fails: what
//! cannot be read is `None`. Environment variables are on an allow-list, because a report is passed on.

mod cpu;
mod files;
mod variables;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use files::Files;

pub use cpu::{CpuSnapshot, may_share};
pub use variables::{is_allowed, unknown_variables};
pub use warnings::{Circumstances, Warning, warnings};

/// One host and process, as far as it bears on a measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the host.
    pub host: Option<String>,
    /// Random number of the running kernel.
    pub boot_id: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Name and version of the distribution.
    pub os: Option<String>,
    /// Maker and model of the machine; on EC2 the instance type.
    pub machine: Option<String>,
    /// Instruction set that this program was built for.
    pub arch: String,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Logical processors that are on.
    pub cpus_online: Option<u32>,
    /// Logical processors that this process may use.
    pub cpus_allowed: Option<Vec<u32>>,
    /// Frequency governor of those processors; several are separated by commas.
    pub governor: Option<String>,
    /// Memory nodes and their processors.
    pub numa_nodes: Vec<NumaNode>,
    /// Load average over the last minute.
    pub load_average: Option<f64>,
    /// Memory of the host.
    pub memory_total_bytes: Option<u64>,
    /// Memory that can be had without swapping.
    pub memory_available_bytes: Option<u64>,
    /// Memory that this process may lock, in bytes.
    pub memlock_bytes: Option<Limit>,
    /// Files that this process may have open.
    pub open_files: Option<Limit>,
    /// Size of /dev/shm.
    pub shm_total_bytes: Option<u64>,
    /// Free space in /dev/shm.
    pub shm_free_bytes: Option<u64>,
    /// Sign that this is a container, such as `/.dockerenv`.
    pub container: Option<String>,
    /// Whether this program was built without optimisation.
    pub debug_build: bool,
    /// Environment variables on the allow-list.
    pub variables: BTreeMap<String, String>,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its processors, as the kernel writes them: `0-3,8-11`.
    pub cpus: String,
}

/// A resource limit; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What holds now.
    pub soft: Option<u64>,
    /// What it can be raised to without privileges.
    pub hard: Option<u64>,
}

impl Environment {
    /// Reads the host whose files lie below `root`, which is `/` outside tests.
    pub fn collect(root: &Path) -> Self {
        Self::collect_with(root, std::env::vars_os())
    }

    /// The same with the given environment variables.
    pub fn collect_with<N, V>(root: &Path, vars: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: AsRef<std::ffi::OsStr>,
        V: AsRef<std::ffi::OsStr>,
    {
        let files = Files::new(root);
        let cpus_allowed = cpus_allowed(&files);
        let memory = files.text("proc/meminfo");
        let limits = files.text("proc/self/limits");
        let shm = files.space("dev/shm");
        Environment {
            host: files.line("proc/sys/kernel/hostname"),
            boot_id: files.line("proc/sys/kernel/random/boot_id"),
            kernel: files.line("proc/sys/kernel/osrelease"),
            os: os_name(&files),
            machine: machine(&files),
            arch: std::env::consts::ARCH.into(),
            cpu_model: cpu_model(&files),
            cpus_online: cpus_online(&files),
            governor: governor(&files, cpus_allowed.as_deref()),
            cpus_allowed,
            numa_nodes: numa_nodes(&files),
            load_average: load_average(&files),
            memory_total_bytes: meminfo(memory.as_deref(), "MemTotal"),
            memory_available_bytes: meminfo(memory.as_deref(), "MemAvailable"),
            memlock_bytes: limit(limits.as_deref(), "Max locked memory"),
            open_files: limit(limits.as_deref(), "Max open files"),
            shm_total_bytes: shm.map(|s| s.total_bytes),
            shm_free_bytes: shm.map(|s| s.free_bytes),
            container: container(&files),
            debug_build: cfg!(debug_assertions),
            variables: variables::allowed(vars),
        }
    }
}

fn os_name(files: &Files) -> Option<String> {
    let text = files.text("etc/os-release").or_else(|| files.text("usr/lib/os-release"))?;
    let value = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|v| !v.is_empty())
}

fn machine(files: &Files) -> Option<String> {
    let part = |name: &str| files.line(&format!("sys/devices/virtual/dmi/id/{name}"));
    match (part("sys_vendor"), part("product_name")) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (vendor, product) => vendor.or(product),
    }
}

fn cpu_model(files: &Files) -> Option<String> {
    let text = files.text("proc/cpuinfo")?;
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    // Arm processors have no name there, only the numbers that stand for one.
    field("model name").or_else(|| {
        let (maker, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("implementer {maker}, part {part}"))
    })
}

fn cpus_online(files: &Files) -> Option<u32> {
    let count = match files.line("sys/devices/system/cpu/online") {
        Some(list) => files::cpu_list(&list)?.len(),
        None => files.text("proc/cpuinfo")?.lines().filter(|l| l.starts_with("processor")).count(),
    };
    u32::try_from(count).ok().filter(|n| *n > 0)
}

fn cpus_allowed(files: &Files) -> Option<Vec<u32>> {
    // A thread's own file, since pinning holds for the thread.
    let text = files.text("proc/thread-self/status").or_else(|| files.text("proc/self/status"))?;
    let list = text.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
    files::cpu_list(list)
}

fn governor(files: &Files, cpus: Option<&[u32]>) -> Option<String> {
    let found: BTreeSet<String> = cpus?
        .iter()
        .filter_map(|n| files.line(&format!("sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor")))
        .collect();
    let all = found.into_iter().collect::<Vec<_>>().join(",");
    Some(all).filter(|g| !g.is_empty())
}

fn numa_nodes(files: &Files) -> Vec<NumaNode> {
    let mut nodes: Vec<NumaNode> = files
        .names("sys/devices/system/node")
        .iter()
        .filter_map(|name| {
            let id = name.strip_prefix("node")?.parse().ok()?;
            let cpus = files.line(&format!("sys/devices/system/node/{name}/cpulist"))?;
            Some(NumaNode { id, cpus })
        })
        .collect();
    nodes.sort_by_key(|n| n.id);
    nodes
}

fn load_average(files: &Files) -> Option<f64> {
    let line = files.line("proc/loadavg")?;
    let value: f64 = line.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some(value)
}

fn meminfo(text: Option<&str>, name: &str) -> Option<u64> {
    let value = text?.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn limit(text: Option<&str>, name: &str) -> Option<Limit> {
    let rest = text?.lines().find_map(|l| l.strip_prefix(name))?;
    let mut words = rest.split_whitespace();
    let mut value = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Limit { soft: value()?, hard: value()? })
}

fn container(files: &Files) -> Option<String> {
    for sign in [".dockerenv", "run/.containerenv"] {
        if files.exists(sign) {
            return Some(format!("/{sign}"));
        }
    }
    let groups = files.text("proc/self/cgroup")?;
    ["docker", "kubepods", "containerd", "libpod", "lxc"]
        .into_iter()
        .find(|sign| groups.contains(sign))
        .map(|sign| format!("{sign} in /proc/self/cgroup"))
}

#[cfg(test)]
mod tests;
