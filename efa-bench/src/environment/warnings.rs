//! What a reader of the numbers should be warned of.

use serde::{Deserialize, Serialize};

use super::{Environment, unknown_variables};
use crate::units::format_memory;

/// Share of foreign processor time from which on it is reported.
const FOREIGN_SHARE: f64 = 0.10;

/// A warning with a name that stays the same, for scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Name of the kind of warning, such as `debug-build`.
    pub id: String,
    /// What is the case, what it does to the numbers, and the remedy.
    pub text: String,
}

/// What the environment cannot know of the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances<'a> {
    /// Names of the variables that this libfabric reads; empty where they could not be had.
    pub known_variables: &'a [String],
    /// Whether every byte is verified.
    pub verify: bool,
    /// Whether both sides are on one host.
    pub intra_node: bool,
    /// Core that this side is pinned to.
    pub core: Option<usize>,
    /// Core that the peer is pinned to.
    pub peer_core: Option<usize>,
    /// Memory that the provider locks; `None` where it locks none, as tcp and shm.
    pub locked_bytes: Option<u64>,
    /// Share of processor time that others took, from 0 to 1.
    pub foreign_share: Option<f64>,
}

/// Makes the warnings of one side of a run.
pub fn warnings(env: &Environment, run: &Circumstances<'_>) -> Vec<Warning> {
    let mut list = Vec::new();
    let mut warn = |id: &str, text: String| {
        list.push(Warning { id: id.into(), text });
    };
    if env.debug_build {
        warn(
            "debug-build",
            "this program was built without optimisation, and its overhead is in the numbers; \
             build with --release"
                .into(),
        );
    }
    if run.verify {
        warn(
            "verification",
            "every byte is verified, which is not timed but leaves the caches in another state; \
             measure without -c"
                .into(),
        );
    }
    if let Some(level) = loud_log_level(env) {
        warn(
            "log-level",
            format!(
                "FI_LOG_LEVEL={level} has libfabric write log lines within the timed part; \
                 unset it or use warn"
            ),
        );
    }
    if let Some(governor) = env.governor.as_deref().filter(|g| *g != "performance") {
        warn(
            "governor",
            format!(
                "the frequency governor is {governor}, so that the clock rate follows the load; \
                 use performance (`cpupower frequency-set -g performance`)"
            ),
        );
    }
    if let Some(share) = run.foreign_share.filter(|s| *s > FOREIGN_SHARE) {
        warn(
            "foreign-cpu",
            format!(
                "other processes took {:.0} % of the processor time during the run; measure on \
                 an idle host, or pin to an idle core (--pin)",
                share * 100.0
            ),
        );
    }
    if let Some(text) = low_memlock(env, run) {
        warn("memlock", text);
    }
    if let Some(sign) = &env.container {
        warn("container", format!("this is a container ({sign}): limits, /dev/shm and the network may be its own"));
    }
    if run.intra_node {
        warn("intra-node", "both sides run on one host: this measures no network".into());
        if let Some(text) = shared_core(env, run) {
            warn("shared-core", text);
        }
    }
    list.extend(unknown_variables(&env.variables, run.known_variables));
    list
}

fn loud_log_level(env: &Environment) -> Option<&str> {
    let level = env.variables.get("FI_LOG_LEVEL")?;
    ["info", "debug", "trace"].iter().any(|loud| level.eq_ignore_ascii_case(loud)).then_some(level.as_str())
}

fn low_memlock(env: &Environment, run: &Circumstances<'_>) -> Option<String> {
    let needed = run.locked_bytes?;
    let soft = env.memlock_bytes?.soft?;
    (soft < needed).then(|| {
        format!(
            "RLIMIT_MEMLOCK is {}, and the buffers need {} locked; raise it (`ulimit -l \
             unlimited`, or memlock in /etc/security/limits.conf)",
            format_memory(soft),
            format_memory(needed)
        )
    })
}

fn shared_core(env: &Environment, run: &Circumstances<'_>) -> Option<String> {
    let advice = "each waits for the other to give it up; give each side its own (--pin 0,1)";
    if let (Some(core), Some(peer)) = (run.core, run.peer_core) {
        return (core == peer).then(|| format!("both sides are pinned to core {core}, and {advice}"));
    }
    let only_one = env.cpus_allowed.as_ref().is_some_and(|c| c.len() == 1);
    // One core may be all there is, or the one that only this side was pinned to.
    (only_one && run.core.is_none() && run.peer_core.is_none())
        .then(|| format!("both sides have one core between them, and {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Limit;

    fn ids(env: &Environment, run: &Circumstances<'_>) -> Vec<String> {
        warnings(env, run).into_iter().map(|w| w.id).collect()
    }

    #[test]
    fn a_quiet_host_warns_of_nothing() {
        let env = Environment {
            governor: Some("performance".into()),
            memlock_bytes: Some(Limit { soft: None, hard: None }),
            ..Environment::default()
        };
        let run = Circumstances {
            locked_bytes: Some(u64::MAX),
            foreign_share: Some(0.1),
            core: Some(1),
            peer_core: Some(1),
            ..Circumstances::default()
        };
        assert!(ids(&env, &run).is_empty());
    }

    #[test]
    fn each_circumstance_has_its_name() {
        let known = ["FI_TCP_IFACE".to_owned()];
        let mut env = Environment {
            governor: Some("powersave".into()),
            debug_build: true,
            container: Some("/.dockerenv".into()),
            cpus_allowed: Some(vec![3]),
            memlock_bytes: Some(Limit { soft: Some(65536), hard: None }),
            ..Environment::default()
        };
        env.variables.insert("FI_LOG_LEVEL".into(), "Debug".into());
        env.variables.insert("FI_NOPE".into(), "1".into());
        let mut run = Circumstances {
            known_variables: &known,
            verify: true,
            intra_node: true,
            locked_bytes: Some(1 << 20),
            foreign_share: Some(0.26),
            ..Circumstances::default()
        };
        let all = [
            "debug-build",
            "verification",
            "log-level",
            "governor",
            "foreign-cpu",
            "memlock",
            "container",
            "intra-node",
            "shared-core",
            "unknown-variable",
        ];
        assert_eq!(ids(&env, &run), all);
        run.core = Some(2);
        run.peer_core = Some(2);
        assert_eq!(ids(&env, &run), all, "pinned to the same core");
        run.peer_core = Some(3);
        assert!(!ids(&env, &run).contains(&"shared-core".to_owned()));
        let texts: Vec<_> = warnings(&env, &run).into_iter().map(|w| w.text).collect();
        assert!(texts.iter().any(|t| t.contains("26 %")), "{texts:?}");
        assert!(texts.iter().any(|t| t.contains("64.0 KiB")), "{texts:?}");
    }
}
