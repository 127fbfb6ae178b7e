//! What was run, by whom, over what.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::args::Wait;
use crate::clock::ClockInfo;
use crate::plan::Plan;

use super::timestamp::rfc3339_utc;

/// Something of both sides: of the one that writes the report, and of the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair<T> {
    /// Of the side that measured and wrote this; null when it failed before it was known.
    pub local: Option<T>,
    /// Of the other side; null when it was never heard of.
    pub peer: Option<T>,
}

impl<T> Default for Pair<T> {
    fn default() -> Self {
        Self { local: None, peer: None }
    }
}

/// The run: plan, fabric, sides. What is not known, because the run failed before, is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The benchmark's name: `pingpong`.
    pub benchmark: String,
    /// When it began by the wall clock of the local host, RFC 3339 in UTC.
    pub started: String,
    /// How long it took by the monotonic clock, in seconds.
    pub elapsed_s: f64,
    /// What was asked for, as both sides agreed on it; holds the seed.
    pub plan: Option<Plan>,
    /// The provider that carried the bytes.
    pub provider: Option<String>,
    /// Its fabric.
    pub fabric: Option<String>,
    /// Its domain.
    pub domain: Option<String>,
    /// The network interface or device, where the provider tells.
    pub nic: Option<String>,
    /// Where the two sides were reached.
    pub addresses: Pair<Addresses>,
    /// The two programs.
    pub sides: Pair<Side>,
    /// Whether both sides ran on one host.
    pub intra_node: Option<bool>,
    /// How completions were waited for in the end (`plan.wait` is what was asked for).
    pub wait: Option<Wait>,
    /// Whether and up to which size messages were injected in the end (`plan.inject` is what was asked for).
    pub inject: Option<Inject>,
    /// The clock of the samples.
    pub clock: Option<ClockInfo>,
}

impl Run {
    /// A run that begins at `started` and of which nothing else is known yet.
    pub fn new(benchmark: impl Into<String>, started: SystemTime) -> Self {
        Self {
            benchmark: benchmark.into(),
            started: rfc3339_utc(started),
            elapsed_s: 0.0,
            plan: None,
            provider: None,
            fabric: None,
            domain: None,
            nic: None,
            addresses: Pair::default(),
            sides: Pair::default(),
            intra_node: None,
            wait: None,
            inject: None,
            clock: None,
        }
    }

    /// Says how long the run has taken, by a monotonic clock.
    pub fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed_s = elapsed.as_secs_f64();
    }

    /// Says which clock was used. Figures of it that are not finite are left out.
    pub fn set_clock(&mut self, mut clock: ClockInfo) {
        clock.resolution_ns = clock.resolution_ns.filter(|ns| ns.is_finite());
        clock.drift_ppm = clock.drift_ppm.filter(|ppm| ppm.is_finite());
        self.clock = Some(clock);
    }
}

/// Where one side was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// On the fabric, as the provider writes it.
    pub fabric: Option<String>,
    /// On the control connection: IP address and port.
    pub control: Option<String>,
}

/// One of the two programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Its part in the run.
    pub role: Role,
    /// The name of its host.
    pub host: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Its own version.
    pub tool_version: String,
    /// The libfabric that it uses.
    pub libfabric: Libfabric,
    /// The core that its timed thread is bound to; null when it is not.
    pub pinned_core: Option<u32>,
}

/// The part of a side in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Listens, and answers.
    Server,
    /// Connects, asks and measures.
    Client,
}

impl Role {
    /// The word for it in every format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// A libfabric, as it was when the tool was built and as it was found when it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libfabric {
    /// The version of the headers.
    pub build_version: String,
    /// The version of the loaded library.
    pub run_version: String,
    /// The file that was loaded, with every link resolved.
    pub path: Option<String>,
}

/// Whether and up to which size messages were injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inject {
    /// Whether inject calls were used for messages that are small enough.
    pub used: bool,
    /// The largest message in bytes that the endpoint injects.
    pub limit_bytes: u64,
}
