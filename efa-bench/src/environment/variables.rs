//! Environment variables: which are kept, and which are probably misspelt.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use super::Warning;

/// Names that are kept beside those that begin with `FI_`.
const ALLOWED: [&str; 17] = [
    "IBV_FORK_SAFE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "PMI_LOCAL_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "RDMAV_FORK_SAFE",
    "RDMAV_HUGEPAGES_SAFE",
    "SLURM_JOB_ID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
];

/// Names that libfabric's core reads itself, whatever providers there are.
const ALWAYS_KNOWN: [&str; 6] =
    ["FI_LOG_LEVEL", "FI_LOG_PROV", "FI_LOG_SUBSYS", "FI_PROVIDER", "FI_PROVIDER_PATH", "FI_UNIVERSE_SIZE"];

/// Most characters of one value, and of all together, so that they fit into a greeting.
const MOST_OF_VALUE: usize = 1024;
const MOST_OF_ALL: usize = 40 << 10;

/// Whether a variable may be kept in a report.
pub fn is_allowed(name: &str) -> bool {
    name.starts_with("FI_") || ALLOWED.contains(&name)
}

/// Keeps the variables on the allow-list, with values cut at a kilobyte.
pub(super) fn allowed<N, V>(vars: impl IntoIterator<Item = (N, V)>) -> BTreeMap<String, String>
where
    N: AsRef<OsStr>,
    V: AsRef<OsStr>,
{
    let mut room = MOST_OF_ALL;
    let mut kept = BTreeMap::new();
    for (name, value) in vars {
        let name = name.as_ref().to_string_lossy();
        if !is_allowed(&name) {
            continue;
        }
        let value = value.as_ref().to_string_lossy();
        let mut value = value.into_owned();
        if value.len() > MOST_OF_VALUE {
            let end = (0..=MOST_OF_VALUE).rev().find(|i| value.is_char_boundary(*i));
            value.truncate(end.unwrap_or(0));
            value.push_str("...");
        }
        let takes = name.len() + value.len() + 8;
        if let Some(left) = room.checked_sub(takes) {
            room = left;
            kept.insert(name.into_owned(), value);
        }
    }
    kept
}

/// Warns of `FI_` variables that no provider of this libfabric knows, naming the nearest that one does.
///
/// `known` are the names of the variables as libfabric lists them (fi_getparams(3)); an empty list means
/// that they could not be had, and warns of nothing.
pub fn unknown_variables(variables: &BTreeMap<String, String>, known: &[String]) -> Vec<Warning> {
    if known.is_empty() {
        return Vec::new();
    }
    variables
        .keys()
        .filter(|name| name.starts_with("FI_"))
        .filter(|name| !ALWAYS_KNOWN.contains(&name.as_str()) && !known.contains(name))
        .map(|name| Warning {
            id: "unknown-variable".into(),
            text: format!("{name} is set, and nothing in this libfabric reads it{}", advice(name, known)),
        })
        .collect()
}

fn advice(name: &str, known: &[String]) -> String {
    // Seen in many published scripts, and never a variable of libfabric.
    if name == "FI_EFA_DEVICE_NAME" {
        return "; the variable that selects EFA devices is FI_EFA_IFACE".into();
    }
    let nearest =
        known.iter().map(String::as_str).chain(ALWAYS_KNOWN).map(|k| (strsim::damerau_levenshtein(name, k), k)).min();
    match nearest {
        // A third of the name is about where a likeness stops being a misspelling.
        Some((distance, k)) if distance * 3 <= name.len() => format!("; did you mean {k}?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_allow_list_is_kept() {
        let kept = allowed([
            ("FI_PROVIDER", "efa"),
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
            ("LD_LIBRARY_PATH", "/opt"),
            ("PATH", "/bin"),
            ("SLURM_PROCID", "3"),
        ]);
        let names: Vec<_> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["FI_PROVIDER", "LD_LIBRARY_PATH", "SLURM_PROCID"]);
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let value = "ä".repeat(2000);
        let kept = allowed([("LD_LIBRARY_PATH", value.as_str())]);
        assert!(kept["LD_LIBRARY_PATH"].len() <= MOST_OF_VALUE + 3);
        let many = (0..1000).map(|i| (format!("FI_{i}"), "x".repeat(900)));
        let total: usize = allowed(many).iter().map(|(n, v)| n.len() + v.len()).sum();
        assert!(total <= MOST_OF_ALL);
    }

    #[test]
    fn a_misspelt_variable_is_named_with_its_nearest() {
        let known = ["FI_TCP_IFACE", "FI_EFA_IFACE"].map(String::from);
        let warn = |name: &str| {
            let variables = BTreeMap::from([(name.to_owned(), "1".to_owned())]);
            let texts: Vec<_> = unknown_variables(&variables, &known).into_iter().map(|w| w.text).collect();
            texts.join("\n")
        };
        assert!(warn("FI_TCP_IFCAE").ends_with("did you mean FI_TCP_IFACE?"));
        assert!(warn("FI_PROVIDR").ends_with("did you mean FI_PROVIDER?"));
        assert!(warn("FI_EFA_DEVICE_NAME").ends_with("FI_EFA_IFACE"));
        assert!(warn("FI_SOMETHING_ELSE_ALTOGETHER").ends_with("reads it"));
        for fine in ["FI_TCP_IFACE", "FI_LOG_LEVEL", "LD_PRELOAD"] {
            assert_eq!(warn(fine), "");
        }
        let variables = BTreeMap::from([("FI_X".to_owned(), String::new())]);
        assert!(unknown_variables(&variables, &[]).is_empty());
    }
}
