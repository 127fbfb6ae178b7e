//! Commands to a running device: faults and counters.
//!
//! A device takes commands on a socket of the Unix domain beside its tree, in a directory that only its
//! user can enter. A command is a line, the answer is lines, the last of which is `ok` or starts with
//! `error: `. Commands:
//!
//! - `counters`: every counter, a name and a value on each line;
//! - `faults`: what is broken just now, as `set` takes it;
//! - `set NAME=VALUE ...`: changes faults, all of them or none; names are `loss`, `duplicate`, `reorder`,
//!   `latency`, `bandwidth` and `drop` with the values of the `EFA_SIM_*` variables (`bandwidth=unlimited`
//!   too), `receive-interval` (a time) and `receiver` (`ready` or `not-ready`);
//! - `overrun`: the next completion finds its queue full;
//! - `fail QPN`: breaks a queue pair as an internal error would.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Drops, parse_bandwidth, parse_chance, parse_duration};
use crate::model::link::LinkConfig;
use crate::model::{Counters, Device, Faults, Gid, Peers, Qpn};

/// Longest command; a longer one ends the connection.
const LONGEST: usize = 4096;

/// Connections at once; more are refused.
const CONNECTIONS: usize = 8;

/// Runs a command; the lines of the answer.
pub fn execute(command: &str, device: &mut Device, link: &mut LinkConfig) -> String {
    let mut words = command.split_whitespace();
    let result = match words.next() {
        Some("counters") => Ok(counters(device.counters())),
        Some("faults") => Ok(faults(&device.faults, link)),
        Some("set") => set(words, &mut device.faults, link).map(|()| String::new()),
        Some("overrun") => {
            device.faults.overrun_completions = true;
            Ok(String::new())
        }
        Some("fail") => fail(words.next(), device).map(|()| String::new()),
        _ => Err("expected one of counters, faults, set, overrun, fail".to_owned()),
    };
    match result {
        Ok(lines) => lines + "ok\n",
        Err(reason) => format!("error: {reason}\n"),
    }
}

fn counters(counters: &Counters) -> String {
    let mut lines = String::new();
    for (name, value) in Counters::NAMES.iter().zip(counters.values()) {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{name} {value}");
    }
    lines
}

fn faults(faults: &Faults, link: &LinkConfig) -> String {
    let chance = |ppm: u32| f64::from(ppm) / 1e6;
    let bandwidth = match link.bytes_per_sec {
        0 => "unlimited".to_owned(),
        bytes => format!("{}bit/s", u128::from(bytes) * 8),
    };
    let receiver = if faults.receiver_not_ready { "not-ready" } else { "ready" };
    format!(
        "loss={}\nduplicate={}\nreorder={}\nlatency={}ns\nbandwidth={bandwidth}\ndrop={}\n\
         receive-interval={}ns\nreceiver={receiver}\n",
        chance(link.loss_ppm),
        chance(link.duplicate_ppm),
        chance(link.reorder_ppm),
        link.latency_ns,
        drops(faults),
        faults.receive_interval_ns,
    )
}

fn drops(faults: &Faults) -> String {
    let mut parts = Vec::new();
    for (name, peers) in [("egress", &faults.drop_egress), ("ingress", &faults.drop_ingress)] {
        match peers {
            Peers::None => {}
            Peers::All => parts.push(name.to_owned()),
            Peers::Some(gids) => {
                parts.extend(gids.iter().map(|gid: &Gid| format!("{name}@{}", gid.ip())));
            }
        }
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(",") }
}

fn set<'a>(words: impl Iterator<Item = &'a str>, faults: &mut Faults, link: &mut LinkConfig) -> Result<(), String> {
    let (mut new_faults, mut new_link) = (faults.clone(), *link);
    let ppm = |text: &str| parse_chance(text).map(|chance| (chance * 1e6).round() as u32);
    let nanos = |text: &str| parse_duration(text).map(|time: Duration| time.as_nanos() as u64);
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, not `{word}`"))?;
        let result = match name {
            "loss" => ppm(value).map(|ppm| new_link.loss_ppm = ppm),
            "duplicate" => ppm(value).map(|ppm| new_link.duplicate_ppm = ppm),
            "reorder" => ppm(value).map(|ppm| new_link.reorder_ppm = ppm),
            "latency" => nanos(value).map(|nanos| new_link.latency_ns = nanos),
            "bandwidth" if value == "unlimited" => {
                new_link.bytes_per_sec = 0;
                Ok(())
            }
            "bandwidth" => parse_bandwidth(value).map(|bytes| new_link.bytes_per_sec = bytes),
            "drop" => value.parse().map(|drops: Drops| {
                new_faults.drop_egress = drops.egress;
                new_faults.drop_ingress = drops.ingress;
            }),
            "receive-interval" => nanos(value).map(|nanos| new_faults.receive_interval_ns = nanos),
            "receiver" => match value {
                "ready" | "not-ready" => {
                    new_faults.receiver_not_ready = value == "not-ready";
                    Ok(())
                }
                _ => Err("expected ready or not-ready".to_owned()),
            },
            _ => Err("no such fault".to_owned()),
        };
        result.map_err(|reason| format!("{name}={value}: {reason}"))?;
    }
    (*faults, *link) = (new_faults, new_link);
    Ok(())
}

fn fail(qpn: Option<&str>, device: &mut Device) -> Result<(), String> {
    let qpn = qpn.and_then(|word| word.parse().ok()).ok_or("expected the number of a queue pair")?;
    device.fail_qp(Qpn(qpn)).map_err(|error| error.to_string())
}

/// The socket and its connections. Nothing here ever blocks.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    connections: Vec<Connection>,
}

struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Server {
    /// Listens at `path`.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, path: path.to_owned(), connections: Vec::new() })
    }

    /// What to wait on for something to do.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let streams = self.connections.iter().map(|connection| connection.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(streams)
    }

    /// Answers what has come in; `run` runs a command.
    pub(crate) fn serve(&mut self, mut run: impl FnMut(&str) -> String) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() < CONNECTIONS && stream.set_nonblocking(true).is_ok() {
                self.connections.push(Connection { stream, received: Vec::new() });
            }
        }
        self.connections.retain_mut(|connection| connection.serve(&mut run).is_ok());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The directory may be gone already while the process exits.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Connection {
    /// An error ends the connection.
    fn serve(&mut self, run: &mut impl FnMut(&str) -> String) -> io::Result<()> {
        let mut buffer = [0; 512];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(buffer.get(..count).unwrap_or(&[])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let answer = run(&String::from_utf8_lossy(&line));
                // An answer is far shorter than the socket's buffer; who does not read it is cut off.
                self.stream.write_all(answer.as_bytes())?;
            }
            if self.received.len() > LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::model::DeviceConfig;

    fn device() -> Device {
        Device::new(DeviceConfig::new(Gid::from(IpAddr::from([127, 0, 0, 1])), [1; 16], 1))
    }

    #[test]
    fn what_faults_answers_is_what_set_takes() {
        let (mut device, mut link) = (device(), LinkConfig::default());
        let set = "set loss=0.01 reorder=50% latency=10us bandwidth=8Gbit/s drop=egress@127.0.0.3,ingress \
                   receiver=not-ready receive-interval=1ms";
        assert_eq!(execute(set, &mut device, &mut link), "ok\n");
        let answer = execute("faults", &mut device, &mut link);
        let again = answer.strip_suffix("ok\n").unwrap().replace('\n', " ");
        let (mut other, mut other_link) = (self::device(), LinkConfig::default());
        assert_eq!(execute(&format!("set {again}"), &mut other, &mut other_link), "ok\n");
        assert_eq!((device.faults, link), (other.faults, other_link));
    }

    #[test]
    fn a_command_with_one_wrong_value_changes_nothing() {
        let (mut device, mut link) = (device(), LinkConfig::default());
        let answer = execute("set loss=1% drop=sideways", &mut device, &mut link);
        assert!(answer.starts_with("error: drop=sideways: "), "{answer}");
        assert_eq!((device.faults, link), (Faults::default(), LinkConfig::default()));
    }

    #[test]
    fn counters_have_names_and_values() {
        let answer = execute("counters", &mut device(), &mut LinkConfig::default());
        assert!(answer.contains("\ntx_pkts 0\n"), "{answer}");
        assert!(answer.ends_with("\nok\n"));
    }

    #[test]
    fn nonsense_is_answered() {
        for command in ["", "nonsense", "fail", "fail x", "fail 7", "set loss"] {
            let answer = execute(command, &mut device(), &mut LinkConfig::default());
            assert!(answer.starts_with("error: "), "{command}: {answer}");
        }
    }
}
