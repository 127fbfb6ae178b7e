//! What a simulated host looks like: the `EFA_SIM_*` variables.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::Generation;
use crate::model::link;
use crate::model::{Gid, Peers};

/// The prefix that all variables share.
pub const PREFIX: &str = "EFA_SIM_";

/// Largest number of devices of one host: as many as the largest EC2 instances have.
pub const MAX_DEVICES: usize = 32;

/// Largest payload of one packet in bytes, and so the largest message of a queue pair.
///
/// The figure of a jumbo frame of 9001 bytes less the headers, as `fi_info` shows it on EC2.
pub const DEFAULT_MTU: u32 = 8928;

/// A variable that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The value does not parse or is out of range.
    #[error("{PREFIX}{name}={value}: {reason}")]
    Value {
        /// The variable's name without [`PREFIX`].
        name: &'static str,
        /// What it was set to.
        value: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Addresses other than loopback without a key that the hosts share.
    #[error(
        "{PREFIX}ADDRESSES names {address}, which other hosts can reach, but {PREFIX}KEY is not set: \
         set the same secret of at least 16 characters on every host"
    )]
    KeyMissing {
        /// The first such address.
        address: IpAddr,
    },
}

/// Packets that are stopped altogether, by the peer that they go to or come from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Drops {
    /// Nothing leaves for these devices.
    pub egress: Peers,
    /// Nothing from these devices is looked at.
    pub ingress: Peers,
}

impl FromStr for Drops {
    type Err = String;

    /// Reads `egress`, `ingress` and `both`, each also for single peers as in `egress@10.0.0.2`, with commas
    /// between them, or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut drops = Drops::default();
        for part in text.split(',').map(str::trim).filter(|part| *part != "none") {
            let (direction, peer) = match part.split_once('@') {
                Some((direction, address)) => {
                    let address: IpAddr = address.parse().map_err(|_| format!("`{address}` is not an IP address"))?;
                    (direction, Some(Gid::from(address)))
                }
                None => (part, None),
            };
            let (egress, ingress) = match direction {
                "egress" => (true, false),
                "ingress" => (false, true),
                "both" => (true, true),
                _ => return Err("expected none, egress, ingress or both, or one of them @ADDRESS".to_owned()),
            };
            if egress {
                add(&mut drops.egress, peer);
            }
            if ingress {
                add(&mut drops.ingress, peer);
            }
        }
        Ok(drops)
    }
}

/// Adds a peer to a set, or all.
fn add(peers: &mut Peers, peer: Option<Gid>) {
    match (peers, peer) {
        (Peers::All, _) => {}
        (peers, None) => *peers = Peers::All,
        (Peers::Some(gids), Some(gid)) => gids.push(gid),
        (peers @ Peers::None, Some(gid)) => *peers = Peers::Some(vec![gid]),
    }
}

/// What happens to packets on their way out of a device.
///
/// Chances are between 0 and 1 and apply to each packet by itself.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// Time on the wire.
    pub latency: Duration,
    /// Bytes per second, none for as fast as the host is.
    pub bytes_per_sec: Option<u64>,
    /// Chance that a packet is lost.
    pub loss: f64,
    /// Chance that a packet arrives twice.
    pub duplicate: f64,
    /// Chance that a packet arrives after later ones.
    pub reorder: f64,
}

impl LinkConfig {
    /// Whether packets pass as they are, so that the link need not be consulted.
    pub fn is_transparent(&self) -> bool {
        *self == LinkConfig::default()
    }

    /// What the model's link is to do.
    pub fn to_model(&self) -> link::LinkConfig {
        let ppm = |chance: f64| (chance * 1e6).round() as u32;
        link::LinkConfig {
            latency_ns: self.latency.as_nanos() as u64,
            bytes_per_sec: self.bytes_per_sec.unwrap_or(0),
            loss_ppm: ppm(self.loss),
            duplicate_ppm: ppm(self.duplicate),
            reorder_ppm: ppm(self.reorder),
            // Long enough to be overtaken by several packets, short beside a time-out.
            reorder_ns: 200_000,
        }
    }
}

/// The secret that packets of one fabric carry.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyConfig {
    /// Derived from `EFA_SIM_KEY`.
    Given(u128),
    /// A file of the user, made on first use: every process of the user on this host shares it.
    PerUser,
}

impl std::fmt::Debug for KeyConfig {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KeyConfig::Given(_) => "Given(..)",
            KeyConfig::PerUser => "PerUser",
        })
    }
}

/// Everything that the variables say.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// One device per address.
    pub addresses: Vec<IpAddr>,
    /// What the devices can do.
    pub generation: Generation,
    /// Largest payload of a packet in bytes.
    pub mtu: u32,
    /// The link of every device.
    pub link: LinkConfig,
    /// Packets that are stopped.
    pub drops: Drops,
    /// After how long without an answer an operation fails.
    pub timeout: Duration,
    /// Seed of everything that is drawn at random in the link; none for a fresh one per process.
    pub seed: Option<u64>,
    /// The secret in every packet.
    pub key: KeyConfig,
    /// UDP sockets that a queue pair sends from.
    pub flows: u8,
    /// Where process-private trees are made; none for the user's runtime directory.
    pub state_dir: Option<PathBuf>,
}

impl Config {
    /// Reads the variables of this process.
    ///
    /// # Errors
    ///
    /// The first variable that cannot be used.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads the variables through `lookup`, which gets whole names.
    ///
    /// # Errors
    ///
    /// The first variable that cannot be used.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let vars = Vars { lookup };
        let count: Option<usize> =
            vars.parse("DEVICES", |text| whole(text, 1..=MAX_DEVICES as u64).map(|n| n as usize))?;
        let addresses = match vars.parse("ADDRESSES", parse_addresses)? {
            Some(addresses) => {
                if let Some(count) = count.filter(|count| *count != addresses.len()) {
                    return Err(vars.error(
                        "DEVICES",
                        format!(
                            "{PREFIX}ADDRESSES lists {} addresses, one per device; leave \
                             {PREFIX}DEVICES out or set it to that (it says {count})",
                            addresses.len()
                        ),
                    ));
                }
                addresses
            }
            None => {
                (0..count.unwrap_or(1)).map(|index| IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + index as u8))).collect()
            }
        };
        let key = match vars.parse("KEY", parse_key)? {
            Some(key) => KeyConfig::Given(key),
            None => match addresses.iter().find(|address| !address.is_loopback()) {
                Some(address) => return Err(ConfigError::KeyMissing { address: *address }),
                None => KeyConfig::PerUser,
            },
        };
        Ok(Config {
            addresses,
            generation: vars.parse("GENERATION", str::parse)?.unwrap_or_default(),
            mtu: vars.parse("MTU", |text| whole(text, 256..=DEFAULT_MTU as u64))?.map_or(DEFAULT_MTU, |mtu| mtu as u32),
            link: LinkConfig {
                latency: vars.parse("LATENCY", parse_duration)?.unwrap_or_default(),
                bytes_per_sec: vars.parse("BANDWIDTH", parse_bandwidth)?,
                loss: vars.parse("LOSS", parse_chance)?.unwrap_or(0.0),
                duplicate: vars.parse("DUPLICATE", parse_chance)?.unwrap_or(0.0),
                reorder: vars.parse("REORDER", parse_chance)?.unwrap_or(0.0),
            },
            drops: vars.parse("DROP", str::parse)?.unwrap_or_default(),
            timeout: vars
                .parse("TIMEOUT", |text| {
                    parse_duration(text).and_then(|timeout| {
                        if timeout.is_zero() { Err("expected more than zero".to_owned()) } else { Ok(timeout) }
                    })
                })?
                .unwrap_or(Duration::from_secs(5)),
            seed: vars.parse("SEED", |text| whole(text, 0..=u64::MAX))?,
            key,
            flows: vars.parse("FLOWS", |text| whole(text, 1..=16))?.map_or(1, |flows| flows as u8),
            state_dir: vars.parse("DIR", |text| Ok(PathBuf::from(text)))?,
        })
    }
}

struct Vars<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<String>> Vars<F> {
    /// The value of a variable; unset and empty are the same.
    fn value(&self, name: &'static str) -> Option<String> {
        (self.lookup)(&format!("{PREFIX}{name}")).filter(|value| !value.is_empty())
    }

    fn parse<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        parse(value.trim()).map(Some).map_err(|reason| self.error(name, reason))
    }

    fn error(&self, name: &'static str, reason: String) -> ConfigError {
        // A key that is refused is still a secret.
        let value = match name {
            "KEY" => "...".to_owned(),
            _ => self.value(name).unwrap_or_default(),
        };
        ConfigError::Value { name, value, reason }
    }
}

/// A whole number within bounds; `0x` for hexadecimal.
pub(crate) fn whole(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match parsed {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {} to {}", range.start(), range.end())),
    }
}

/// A chance: `0.01` or `1%`, from 0 to 1.
pub(crate) fn parse_chance(text: &str) -> Result<f64, String> {
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), 100.0),
        None => (text, 1.0),
    };
    digits
        .parse::<f64>()
        .ok()
        .map(|value| value / scale)
        .filter(|chance| (0.0..=1.0).contains(chance))
        .ok_or_else(|| "expected a chance from 0 to 1, or 0% to 100%".to_owned())
}

/// A time with its unit: `250ns`, `10us`, `1.5ms`, `2s`; `0` needs none.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if digits == "0" => 1.0,
        _ => return Err("expected a number and one of ns, us, ms, s".to_owned()),
    };
    digits
        .parse::<f64>()
        .ok()
        .and_then(|value| Duration::try_from_secs_f64(value * scale).ok())
        .filter(|duration| *duration <= Duration::from_secs(3600))
        .ok_or_else(|| "expected a time of at most one hour".to_owned())
}

/// A speed in bits per second with its unit (`10Gbit/s`, `800Mbit/s`), as bytes per second.
pub(crate) fn parse_bandwidth(text: &str) -> Result<u64, String> {
    let expected = || "expected a speed such as 10Gbit/s, 800Mbit/s or 64kbit/s".to_owned();
    let bits = text.strip_suffix("bit/s").ok_or_else(expected)?;
    let (digits, scale) = match bits.chars().last() {
        Some('k') => (&bits[..bits.len() - 1], 1e3),
        Some('M') => (&bits[..bits.len() - 1], 1e6),
        Some('G') => (&bits[..bits.len() - 1], 1e9),
        _ => (bits, 1.0),
    };
    digits
        .trim()
        .parse::<f64>()
        .ok()
        .map(|value| value * scale / 8.0)
        .filter(|bytes| (1.0..1e15).contains(bytes))
        .map(|bytes| bytes as u64)
        .ok_or_else(expected)
}

/// Addresses between commas: a device for each, so each once.
fn parse_addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut seen = HashSet::new();
    let mut addresses = Vec::new();
    for part in text.split(',').map(str::trim) {
        let address: IpAddr = part.parse().map_err(|_| format!("`{part}` is not an IP address"))?;
        if address.is_unspecified() || address.is_multicast() {
            return Err(format!("{address} is no address of one interface: name the addresses to bind to"));
        }
        if !seen.insert(address) {
            return Err(format!("{address} is listed twice: each device needs its own"));
        }
        addresses.push(address);
    }
    if addresses.len() > MAX_DEVICES {
        return Err(format!("at most {MAX_DEVICES} addresses"));
    }
    Ok(addresses)
}

/// Two independent FNV-1a sums of the secret: not for storing passwords, only to bring any text to
/// the size of a tag.
fn parse_key(text: &str) -> Result<u128, String> {
    if text.len() < 16 {
        return Err("expected a secret of at least 16 characters".to_owned());
    }
    Ok(key_from_secret(text.as_bytes()))
}

/// Brings a secret to the 128 bits that packets carry (FNV-1a, the 128-bit parameters of the
/// Internet draft by Fowler, Noll, Vo and Eastlake).
pub fn key_from_secret(secret: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    secret.iter().fold(OFFSET, |sum, byte| (sum ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(vars: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_lookup(|name| {
            vars.iter().find(|(key, _)| name == format!("{PREFIX}{key}")).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_is_one_newest_device_on_loopback() {
        let config = config(&[]).unwrap();
        assert_eq!(config.addresses, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(config.generation, Generation::V4);
        assert_eq!(config.mtu, 8928);
        assert!(config.link.is_transparent());
        assert_eq!(config.key, KeyConfig::PerUser);
    }

    #[test]
    fn devices_without_addresses_get_distinct_loopback_ones() {
        let config = config(&[("DEVICES", "3")]).unwrap();
        assert_eq!(config.addresses.len(), 3);
        assert!(config.addresses.iter().all(IpAddr::is_loopback));
    }

    #[test]
    fn addresses_that_others_can_reach_need_a_key() {
        let error = config(&[("ADDRESSES", "10.0.0.1")]).unwrap_err();
        assert!(matches!(error, ConfigError::KeyMissing { .. }), "{error}");
        assert!(config(&[("ADDRESSES", "10.0.0.1"), ("KEY", "0123456789abcdef")]).is_ok());
    }

    #[test]
    fn a_refused_key_is_not_shown() {
        let error = config(&[("KEY", "hunter2")]).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn link_values_are_read_with_their_units() {
        let config = config(&[
            ("LATENCY", "10us"),
            ("BANDWIDTH", "8Gbit/s"),
            ("LOSS", "1%"),
            ("REORDER", "0.5"),
            ("DROP", "egress"),
            ("TIMEOUT", "250ms"),
        ])
        .unwrap();
        assert_eq!(config.link.latency, Duration::from_micros(10));
        assert_eq!(config.link.bytes_per_sec, Some(1_000_000_000));
        assert_eq!(config.link.loss, 0.01);
        assert_eq!(config.link.reorder, 0.5);
        assert_eq!((config.drops.egress, config.drops.ingress), (Peers::All, Peers::None));
        assert_eq!(config.timeout, Duration::from_millis(250));
    }

    #[test]
    fn packets_are_dropped_for_single_peers() {
        let drops = config(&[("DROP", "egress@127.0.0.3,both@::1")]).unwrap().drops;
        let gid = |text: &str| Gid::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(drops.egress, Peers::Some(vec![gid("127.0.0.3"), gid("::1")]));
        assert!(drops.ingress.contains(&gid("::1")));
        assert!(!drops.ingress.contains(&gid("127.0.0.3")));
        assert_eq!("none".parse(), Ok(Drops::default()));
    }

    #[test]
    fn unusable_values_name_the_variable_and_the_remedy() {
        for (name, value) in [
            ("DEVICES", "0"),
            ("DEVICES", "33"),
            ("ADDRESSES", "0.0.0.0"),
            ("ADDRESSES", "127.0.0.1,127.0.0.1"),
            ("ADDRESSES", "localhost"),
            ("GENERATION", "v4"),
            ("MTU", "9000"),
            ("LOSS", "2"),
            ("LOSS", "nan"),
            ("LATENCY", "10"),
            ("BANDWIDTH", "10G"),
            ("TIMEOUT", "0"),
            ("DROP", "all"),
            ("SEED", "-1"),
        ] {
            let error = config(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("EFA_SIM_{name}={value}: ")), "{error}");
        }
    }
}
