//! The types behind the flags, and the parsers that turn one word of a command line into one of them.
//!
//! A parser returns the reason and the remedy; clap puts the flag's name and the value in front of it
//! and exits with 2.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::units::{self, excerpt};

/// Most sizes of one run, percentiles of one table, and bytes of one name: the bounds that a server also
/// sets to a plan from the network.
pub(crate) const MOST_SIZES: usize = 4096;
pub(crate) const MOST_PERCENTILES: usize = 256;
pub(crate) const MOST_OF_NAME: usize = 1024;

/// The largest size of a message in bytes: what one buffer in memory can have.
pub(crate) const LARGEST_SIZE: u64 = isize::MAX as u64;

/// Longest time that a flag takes, so that no deadline leaves the range of the clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Which kind of message carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Messages matched in the order in which they arrive.
    Msg,
    /// Messages matched by a tag
    Tagged,
}

impl Mode {
    /// The value of `--mode` that stands for it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Msg => "msg",
            Mode::Tagged => "tagged",
        }
    }
}

/// How an idle side waits for the next completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Spin, but yield where both sides share a core
    Auto,
    /// Poll without a pause: the lowest latency, one whole core
    Spin,
    /// Poll and give the core away between polls
    Yield,
}

impl Wait {
    /// The value of `--wait` that stands for it.
    pub fn name(self) -> &'static str {
        match self {
            Wait::Auto => "auto",
            Wait::Spin => "spin",
            Wait::Yield => "yield",
        }
    }
}

/// Whether small messages are sent with an inject call, which copies and makes no completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inject {
    /// Inject up to the size that the provider offers, send above it
    Auto,
    /// Inject, and refuse sizes above what the provider offers
    On,
    /// Send only
    Off,
}

impl Inject {
    /// The value of `--inject` that stands for it.
    pub fn name(self) -> &'static str {
        match self {
            Inject::Auto => "auto",
            Inject::On => "on",
            Inject::Off => "off",
        }
    }
}

/// The clock that is read around a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockChoice {
    /// The time-stamp counter where it is steady, else the monotonic clock
    Auto,
    /// The processor's time-stamp counter
    Tsc,
    /// The operating system's monotonic clock
    Monotonic,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Says whether to colour a stream.
    ///
    /// `no_color` is the value of the variable NO_COLOR: set and not empty means no colours
    /// (<https://no-color.org>). A flag that was given wins over the variable.
    pub fn enabled(self, is_terminal: bool, no_color: Option<&std::ffi::OsStr>) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && no_color.is_none_or(|v| v.is_empty()),
        }
    }
}

/// The endpoint type that is measured: reliable datagrams, the only one that every fabric here offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rdm;

/// Message sizes in bytes, in the order in which they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// Cores to run on, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

/// Percentiles to print, each above 0 and at most 100.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

/// The untimed part before a size is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// This many round trips; 0 is none.
    Iterations(u64),
    /// Round trips until this time has passed.
    #[serde(rename = "time_ns", with = "nanoseconds")]
    Time(Duration),
}

/// Where a report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Standard output, at the end of the run.
    Stdout,
    /// A file, made before the run and rewritten after each point.
    File(PathBuf),
}

/// Serde form of a [`Duration`] as whole nanoseconds.
pub mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole nanoseconds; more than 2^64 (584 years) is cut off.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads whole nanoseconds.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_nanos)
    }

    /// The same for a duration that may be absent.
    pub mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        /// Writes whole nanoseconds or nothing.
        ///
        /// # Errors
        /// Those of the serializer.
        pub fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
            d.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)).serialize(s)
        }

        /// Reads whole nanoseconds or nothing.
        ///
        /// # Errors
        /// Those of the deserializer.
        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
            Option::<u64>::deserialize(d).map(|n| n.map(Duration::from_nanos))
        }
    }
}

pub(super) fn endpoint(word: &str) -> Result<Rdm, String> {
    match word {
        "rdm" => Ok(Rdm),
        "dgram" => Err("a datagram endpoint may lose a message, after which a ping-pong waits \
            for ever; leave -e out, or use `-e rdm`, which keeps the message boundaries and loses nothing"
            .into()),
        "msg" => Err("a connected endpoint is not measured; leave -e out, or use `-e rdm`, which every \
            provider offers, over connections where it needs them (as in `-p \"tcp;ofi_rxm\"`)"
            .into()),
        _ => Err("the endpoint type is `rdm`; leave -e out or use `-e rdm`".into()),
    }
}

pub(super) fn sizes(word: &str) -> Result<Sizes, String> {
    let sizes = units::parse_sizes(word).map_err(|e| e.to_string())?;
    if sizes.len() > MOST_SIZES {
        return Err(format!("{} sizes are more than one run takes; give at most {MOST_SIZES}", sizes.len()));
    }
    if let Some(size) = sizes.iter().find(|size| **size > LARGEST_SIZE) {
        return Err(format!(
            "a message of {size} bytes is larger than a buffer can be; give at most {LARGEST_SIZE} bytes, and no more \
             than the memory of both hosts holds"
        ));
    }
    Ok(Sizes(sizes))
}

pub(super) fn count(word: &str) -> Result<u64, String> {
    units::parse_count(word).map_err(|e| e.to_string())
}

pub(super) fn duration(word: &str) -> Result<Duration, String> {
    let time = units::parse_duration(word).map_err(|e| e.to_string())?;
    if time > LONGEST {
        return Err("that is longer than a year; give a shorter time, such as 10m".into());
    }
    Ok(time)
}

pub(super) fn warmup(word: &str) -> Result<Warmup, String> {
    if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        if word.bytes().all(|b| b == b'0') {
            return Ok(Warmup::Iterations(0));
        }
        return count(word).map(Warmup::Iterations);
    }
    duration(word)
        .map(Warmup::Time)
        .map_err(|e| format!("{e}; a whole number is round trips (`100`), a time has a unit (`50ms`)"))
}

pub(super) fn port(word: &str) -> Result<u16, String> {
    if digits(word)
        && let Ok(port) = word.parse()
    {
        return Ok(port);
    }
    Err("a port is a whole number from 0 to 65535, such as 47592".into())
}

pub(super) fn some_port(word: &str) -> Result<u16, String> {
    match port(word)? {
        0 => Err("port 0 can be listened on but not connected to; \
            give the port that the server printed"
            .into()),
        port => Ok(port),
    }
}

pub(super) fn seed(word: &str) -> Result<u64, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        None if digits(word) => word.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| {
        "a seed is a whole number from 0 to 18446744073709551615, or the same in \
         hexadecimal, such as 42 or 0x2a"
            .into()
    })
}

pub(super) fn cores(word: &str) -> Result<Cores, String> {
    let mut cores = Vec::new();
    for part in word.split(',') {
        match part.parse() {
            Ok(core) if digits(part) => cores.push(core),
            _ => {
                let part = excerpt(part);
                return Err(format!(
                    "`{part}` is not a core number; write one core such as `2`, or, with \
                     --loopback, the server's and the client's such as `0,1`"
                ));
            }
        }
    }
    if cores.len() > 2 {
        return Err(format!(
            "{} cores were given, and each side runs on one; write one core such as `2`, or, \
             with --loopback, the server's and the client's such as `0,1`",
            cores.len()
        ));
    }
    Ok(Cores(cores))
}

pub(super) fn percentiles(word: &str) -> Result<Percentiles, String> {
    let mut list = Vec::new();
    for part in word.split(',') {
        let plain = part.len() <= 20 && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match part.parse::<f64>() {
            Ok(p) if plain && p > 0.0 && p <= 100.0 => {
                if list.contains(&p) {
                    return Err(format!("`{part}` is there twice; write each percentile once"));
                }
                list.push(p);
            }
            _ => {
                let part = excerpt(part);
                return Err(format!(
                    "`{part}` is not a percentile: a number above 0 and at most 100, as in \
                     `50,99,99.99`"
                ));
            }
        }
    }
    if list.len() > MOST_PERCENTILES {
        return Err(format!("{} percentiles are more than a table takes; give at most {MOST_PERCENTILES}", list.len()));
    }
    Ok(Percentiles(list))
}

pub(super) fn output(word: &str) -> Result<Output, String> {
    match word {
        "" => Err("the file name is empty; name a file, or write `-` for standard output".into()),
        "-" => Ok(Output::Stdout),
        path => Ok(Output::File(path.into())),
    }
}

pub(super) fn name(word: &str) -> Result<String, String> {
    if word.trim().is_empty() {
        return Err("the name is empty; leave the flag out to let the best one be chosen".into());
    }
    if word.len() > MOST_OF_NAME {
        return Err(format!("the name is longer than {MOST_OF_NAME} bytes"));
    }
    if word.chars().any(char::is_control) {
        return Err("the name has a control character in it".into());
    }
    Ok(word.into())
}

pub(super) fn digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmup_tells_round_trips_from_time() {
        assert_eq!(warmup("0"), Ok(Warmup::Iterations(0)));
        assert_eq!(warmup("100"), Ok(Warmup::Iterations(100)));
        assert_eq!(warmup("50ms"), Ok(Warmup::Time(Duration::from_millis(50))));
        assert!(warmup("-5").is_err());
        assert!(warmup("").is_err());
    }

    #[test]
    fn a_size_is_at_most_what_one_buffer_can_be() {
        assert_eq!(sizes("9223372036854775807"), Ok(Sizes(vec![LARGEST_SIZE])));
        for wrong in ["9223372036854775808", "18446744073709551615", "8..18446744073709551615", "8589934592GiB"] {
            let text = sizes(wrong).unwrap_err();
            assert!(text.contains("give at most 9223372036854775807 bytes"), "{wrong}: {text}");
        }
    }

    #[test]
    fn names_are_those_of_the_command_line_and_of_the_report() {
        fn agree<T: ValueEnum + Serialize>(name: fn(T) -> &'static str) {
            for value in T::value_variants() {
                let typed = value.to_possible_value().unwrap().get_name().to_owned();
                assert_eq!(name(value.clone()), typed);
                assert_eq!(serde_json::to_string(value).unwrap(), format!("\"{typed}\""));
            }
        }
        agree(Mode::name);
        agree(Wait::name);
        agree(Inject::name);
    }

    #[test]
    fn long_values_are_not_told_whole() {
        let long = "9".repeat(5000);
        let texts = [
            sizes(&long).unwrap_err(),
            count(&long).unwrap_err(),
            duration(&long).unwrap_err(),
            warmup(&long).unwrap_err(),
            cores(&long).unwrap_err(),
            percentiles(&long).unwrap_err(),
            percentiles(&format!("50,50.{}", "0".repeat(5000))).unwrap_err(),
        ];
        for text in texts {
            assert!(text.len() < 400, "{text}");
        }
    }

    #[test]
    fn a_time_stays_within_the_range_of_the_clock() {
        assert_eq!(duration("365s"), Ok(Duration::from_secs(365)));
        assert!(duration("31536001s").is_err());
        assert!(duration("18446744073709551615s").is_err());
        assert!(warmup("18446744073709551615s").is_err());
    }

    #[test]
    fn what_a_server_would_refuse_is_refused_here() {
        let list = |n: usize| (1..=n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        assert!(sizes(&list(MOST_SIZES)).is_ok());
        assert!(sizes(&list(MOST_SIZES + 1)).is_err());
        let many: Vec<_> = (1..=MOST_PERCENTILES + 1).map(|i| format!("{}", i as f64 / 10.0)).collect();
        assert!(percentiles(&many[1..].join(",")).is_ok());
        assert!(percentiles(&many.join(",")).is_err());
        assert!(name(&"x".repeat(MOST_OF_NAME)).is_ok());
        assert!(name(&"x".repeat(MOST_OF_NAME + 1)).is_err());
    }

    #[test]
    fn ports_are_strict() {
        assert_eq!(port("0"), Ok(0));
        assert_eq!(port("65535"), Ok(65535));
        for bad in ["65536", "-1", "+1", "", "http", "0x10"] {
            assert!(port(bad).is_err(), "{bad}");
        }
        assert!(some_port("0").is_err());
    }

    #[test]
    fn seeds_are_decimal_or_hexadecimal_and_exact() {
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(seed("0xffffffffffffffff"), Ok(u64::MAX));
        for bad in ["18446744073709551616", "-1", "+1", "0x", "0x+1", "", "1.0"] {
            assert!(seed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_are_one_or_two_numbers() {
        assert_eq!(cores("3"), Ok(Cores(vec![3])));
        assert_eq!(cores("1,0"), Ok(Cores(vec![1, 0])));
        for bad in ["", "1,", "0-1", "a", "0,1,2", "+1", "-1", " 1"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentiles_are_finite_and_in_range() {
        assert_eq!(percentiles("50,99.99,100"), Ok(Percentiles(vec![50.0, 99.99, 100.0])));
        for bad in ["", "0", "100.1", "nan", "inf", "-1", "1e1", "50,50", ".", "50,"] {
            assert!(percentiles(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_color_is_honoured_unless_the_flag_says_otherwise() {
        let set = Some(std::ffi::OsStr::new("1"));
        let empty = Some(std::ffi::OsStr::new(""));
        assert!(Color::Auto.enabled(true, None));
        assert!(Color::Auto.enabled(true, empty));
        assert!(!Color::Auto.enabled(true, set));
        assert!(!Color::Auto.enabled(false, None));
        assert!(Color::Always.enabled(false, set));
        assert!(!Color::Never.enabled(true, None));
    }
}
