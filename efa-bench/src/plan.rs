//! What one run does: pure data that the client makes, both sides agree on, and the report keeps.
//!
//! A server needs no options: it takes the plan from its client. What a server was given by hand is a
//! [`Constraints`] value, and where the plan breaks one, both sides print the differences and stop.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::args::{Inject, Mode, PingPongArgs, Wait, Warmup, nanoseconds};
use crate::args::{LARGEST_SIZE, MOST_OF_NAME, MOST_PERCENTILES, MOST_SIZES};
use crate::units;

/// Message sizes of a run for which none were asked.
const DEFAULT_SIZES: [u64; 9] = [8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const DEFAULT_WARMUP: Warmup = Warmup::Iterations(100);
const DEFAULT_SEED: u64 = 1;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// One run: what both sides must do alike, and the names that the client asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Kind of message.
    pub op: Mode,
    /// Message sizes, in the order in which they run.
    #[serde(rename = "sizes_bytes")]
    pub sizes: Vec<u64>,
    /// How many round trips each size gets; `duration` wins where it is given.
    pub iterations: Iterations,
    /// How long each size is measured.
    #[serde(rename = "duration_ns", with = "nanoseconds::option")]
    pub duration: Option<Duration>,
    /// What comes, untimed, before each size.
    pub warmup: Warmup,
    /// Whether every received byte is verified.
    pub verify: bool,
    /// Seed of the bytes sent.
    pub seed: u64,
    /// How long either side waits for a completion or an answer.
    #[serde(rename = "timeout_ns", with = "nanoseconds")]
    pub timeout: Duration,
    /// How an idle side waits.
    pub wait: Wait,
    /// Whether small messages are injected.
    pub inject: Inject,
    /// Provider that the client asked for; `None` leaves the choice to the default order.
    pub provider: Option<String>,
    /// Fabric that the client asked for.
    pub fabric: Option<String>,
    /// Domain that the client asked for, on its own host: the server's is the server's to choose.
    pub domain: Option<String>,
    /// Percentiles that the tables show beside the standard ones.
    pub percentiles: Vec<f64>,
}

/// How many round trips one size gets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Iterations {
    /// Exactly this many.
    Fixed(u64),
    /// As many as the median's confidence interval needs.
    Adaptive {
        /// At least this many.
        min: u64,
        /// At most this many.
        max: u64,
        /// Half width of the median's 95 % interval, relative to the median, at which to stop.
        relative_ci: f64,
        /// At most this long.
        #[serde(rename = "max_time_ns", with = "nanoseconds")]
        max_time: Duration,
    },
}

impl Default for Iterations {
    fn default() -> Self {
        Iterations::Adaptive { min: 100, max: 100_000, relative_ci: 0.01, max_time: Duration::from_secs(2) }
    }
}

/// A plan that no run can follow, or that this host cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A field holds a value that no command line makes: the peer is broken, or not ours.
    #[error("the plan's {field} {problem}; use the same version of this tool on both sides")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The buffers would not fit in memory.
    #[error(
        "{buffers} buffers of {size} need {needed}, and this host has {available} of memory \
         available; use smaller sizes (-S)"
    )]
    Memory {
        /// Buffers of this side.
        buffers: u64,
        /// Size of each, as text with its unit.
        size: String,
        /// Product, as text with its unit.
        needed: String,
        /// What the host has, as text with its unit.
        available: String,
    },
}

impl Plan {
    /// Makes the plan that a command line asks for.
    pub fn from_args(args: &PingPongArgs) -> Self {
        Plan {
            op: args.mode.unwrap_or(Mode::Msg),
            sizes: match &args.size {
                Some(sizes) => sizes.0.clone(),
                None => DEFAULT_SIZES.to_vec(),
            },
            iterations: args.iterations.map(Iterations::Fixed).unwrap_or_default(),
            duration: args.duration,
            warmup: args.warmup.unwrap_or(DEFAULT_WARMUP),
            verify: args.check,
            seed: args.seed.unwrap_or(DEFAULT_SEED),
            timeout: args.timeout.unwrap_or(DEFAULT_TIMEOUT),
            wait: args.wait.unwrap_or(Wait::Auto),
            inject: args.inject.unwrap_or(Inject::Auto),
            provider: args.provider.clone(),
            fabric: args.fabric.clone(),
            domain: args.domain.clone(),
            percentiles: args.percentiles.clone().map(|p| p.0).unwrap_or_default(),
        }
    }

    /// Checks a plan that came over the wire, so that a peer cannot make this side allocate without measure
    /// before the footprint is even computed.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] for a value that no command line makes.
    pub fn check(&self) -> Result<(), PlanError> {
        let invalid = |field, problem| Err(PlanError::Invalid { field, problem });
        if self.sizes.is_empty() {
            return invalid("sizes", "are empty");
        }
        if self.sizes.len() > MOST_SIZES {
            return invalid("sizes", "are more than 4096");
        }
        if self.max_size() > LARGEST_SIZE {
            return invalid("sizes", "are larger than a buffer can be");
        }
        match self.iterations {
            Iterations::Fixed(0) => return invalid("iterations", "are 0"),
            Iterations::Fixed(_) => {}
            Iterations::Adaptive { min, max, relative_ci, max_time } => {
                let sound = min > 0 && min <= max && relative_ci > 0.0 && relative_ci.is_finite();
                if !sound || max_time.is_zero() {
                    return invalid("iterations", "have bounds that contradict each other");
                }
            }
        }
        if self.duration.is_some_and(|d| d.is_zero()) {
            return invalid("duration", "is 0");
        }
        if self.timeout.is_zero() {
            return invalid("timeout", "is 0");
        }
        if self.percentiles.len() > MOST_PERCENTILES {
            return invalid("percentiles", "are more than 256");
        }
        if !self.percentiles.iter().all(|p| *p > 0.0 && *p <= 100.0) {
            return invalid("percentiles", "are not between 0 and 100");
        }
        let names = [&self.provider, &self.fabric, &self.domain];
        if names.into_iter().flatten().any(|n| n.len() > MOST_OF_NAME) {
            return invalid("names", "are longer than 1024 bytes");
        }
        Ok(())
    }

    /// The largest message, in bytes.
    pub fn max_size(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Memory that `buffers` message buffers take, in bytes and exact: each holds the largest message.
    pub fn footprint_bytes(&self, buffers: u64) -> u128 {
        u128::from(self.max_size()) * u128::from(buffers)
    }

    /// [`footprint_bytes`](Plan::footprint_bytes) for a comparison with a limit of the system; `u64::MAX` stands
    /// for more than 64 bits hold, which is more than any limit.
    pub fn buffers_bytes(&self, buffers_per_side: u64) -> u64 {
        u64::try_from(self.footprint_bytes(buffers_per_side)).unwrap_or(u64::MAX)
    }

    /// Refuses a plan whose buffers do not fit, before anything is allocated.
    ///
    /// `available_bytes` is what the host can still give (MemAvailable of /proc/meminfo); `sides` is
    /// how many sides of the run share this host.
    ///
    /// # Errors
    /// [`PlanError::Memory`] with the footprint.
    pub fn check_memory(&self, buffers_per_side: u64, sides: u64, available_bytes: u64) -> Result<(), PlanError> {
        let buffers = buffers_per_side.saturating_mul(sides);
        let needed = self.footprint_bytes(buffers);
        if needed <= u128::from(available_bytes) {
            return Ok(());
        }
        Err(PlanError::Memory {
            buffers,
            size: units::format_size(self.max_size()),
            needed: units::format_memory(needed),
            available: units::format_memory(available_bytes),
        })
    }

    /// Says where this plan, the client's, breaks what a server was given by hand.
    ///
    /// A name that the client left open breaks nothing: the server's then holds for both.
    pub fn differences(&self, server: &Constraints) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut compare = |what: &str, client: String, server: Option<String>| {
            if let Some(server) = server.filter(|s| *s != client) {
                found.push(Difference { what: what.into(), client, server });
            }
        };
        compare("mode", self.op.name().into(), server.op.map(|m| m.name().into()));
        compare("size", plain_sizes(&self.sizes), server.sizes.as_deref().map(plain_sizes));
        compare("iterations", self.length_text(), server.iterations.map(|n| n.to_string()));
        compare("duration", self.length_text(), server.duration.map(|d| format!("{d:?}")));
        compare("warmup", warmup(self.warmup), server.warmup.map(warmup));
        compare("verification", on_off(self.verify).into(), server.verify.map(|v| on_off(v).into()));
        compare("seed", self.seed.to_string(), server.seed.map(|s| s.to_string()));
        compare("wait", self.wait.name().into(), server.wait.map(|w| w.name().into()));
        compare("inject", self.inject.name().into(), server.inject.map(|i| i.name().into()));
        for (what, client, server) in
            [("provider", &self.provider, &server.provider), ("fabric", &self.fabric, &server.fabric)]
        {
            // libfabric compares these names without regard to case.
            if let (Some(client), Some(server)) = (client, server)
                && !client.eq_ignore_ascii_case(server)
            {
                found.push(Difference { what: what.into(), client: client.clone(), server: server.clone() });
            }
        }
        found
    }

    /// The plan in lines of `name: value`, for --dry-run and for a server's log.
    pub fn lines(&self) -> Vec<String> {
        let any = |name: &Option<String>| name.clone().unwrap_or_else(|| "any".into());
        let mut lines = vec![
            format!("operation: ping-pong, {} messages", self.op.name()),
            format!("sizes: {}", self.sizes.iter().map(|s| units::format_size(*s)).collect::<Vec<_>>().join(", ")),
            format!("iterations of each size: {}", self.length_text()),
            format!("warm-up before each size: {}", warmup(self.warmup)),
            format!("verification: {}", on_off(self.verify)),
            format!("seed: {}", self.seed),
            format!("waiting: {}", self.wait.name()),
            format!("inject: {}", self.inject.name()),
            format!("time-out: {:?}", self.timeout),
            format!("provider: {}, fabric: {}, domain: {}", any(&self.provider), any(&self.fabric), any(&self.domain)),
        ];
        if !self.percentiles.is_empty() {
            let list: Vec<_> = self.percentiles.iter().map(f64::to_string).collect();
            lines.push(format!("more percentiles: {}", list.join(", ")));
        }
        lines
    }

    /// How long a size runs, in words; a fixed number alone, so that it can be compared.
    fn length_text(&self) -> String {
        match (self.duration, self.iterations) {
            (Some(duration), _) => format!("{duration:?}"),
            (None, Iterations::Fixed(n)) => n.to_string(),
            (None, Iterations::Adaptive { min, max, relative_ci, max_time }) => format!(
                "{min} to {max}, until the median's 95 % confidence interval is within {} % of it, at most {max_time:?}",
                relative_ci * 100.0
            ),
        }
    }
}

/// What a server was explicitly given, which the client's plan must not break.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Constraints {
    /// Kind of message.
    pub op: Option<Mode>,
    /// Message sizes.
    pub sizes: Option<Vec<u64>>,
    /// Fixed number of round trips.
    pub iterations: Option<u64>,
    /// Time for each size.
    pub duration: Option<Duration>,
    /// Warm-up.
    pub warmup: Option<Warmup>,
    /// Verification; a command line can ask for it but not against it.
    pub verify: Option<bool>,
    /// Seed.
    pub seed: Option<u64>,
    /// How an idle side waits.
    pub wait: Option<Wait>,
    /// Whether small messages are injected.
    pub inject: Option<Inject>,
    /// Provider.
    pub provider: Option<String>,
    /// Fabric.
    pub fabric: Option<String>,
}

impl Constraints {
    /// Takes the flags that were given. Time-outs, percentiles and the domain are each side's own.
    pub fn from_args(args: &PingPongArgs) -> Self {
        Constraints {
            op: args.mode,
            sizes: args.size.as_ref().map(|s| s.0.clone()),
            iterations: args.iterations,
            duration: args.duration,
            warmup: args.warmup,
            verify: args.check.then_some(true),
            seed: args.seed,
            wait: args.wait,
            inject: args.inject,
            provider: args.provider.clone(),
            fabric: args.fabric.clone(),
        }
    }
}

/// One point in which the two sides were started differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the setting; the flag without its dashes.
    pub what: String,
    /// The client's value.
    pub client: String,
    /// The server's value.
    pub server: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { what, client, server } = self;
        write!(f, "{what}: client {client}, server {server}")
    }
}

fn warmup(warmup: Warmup) -> String {
    match warmup {
        Warmup::Iterations(n) => format!("{n} round trips"),
        Warmup::Time(time) => format!("{time:?}"),
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Sizes as they can be typed again.
fn plain_sizes(sizes: &[u64]) -> String {
    let list: Vec<_> = sizes.iter().map(u64::to_string).collect();
    list.join(",")
}

#[cfg(test)]
mod tests;
