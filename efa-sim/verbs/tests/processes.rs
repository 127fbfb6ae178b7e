//! libfabric's own programs on simulated devices.

mod harness;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{Host, PATIENCE, installed, pingpong, start_pingpong, wait_for};

/// Runs `fi_info` to its end.
fn fi_info(host: &Host, test: &str, args: &[&str]) -> Option<(bool, String)> {
    let installed = installed(test)?;
    let mut command = host.command(installed, "fi_info");
    command.args(args);
    let finished = harness::Running::start(command).finish();
    Some((finished.status.success(), finished.output))
}

#[test]
fn fi_info_lists_both_fabrics_and_datagrams() {
    let host = Host::new("127.0.0.2");
    let Some((success, output)) = fi_info(&host, "fi_info_lists_both_fabrics_and_datagrams", &["-p", "efa"]) else {
        return;
    };
    assert!(success, "{output}");
    for line in ["fabric: efa-direct", "fabric: efa", "domain: efasim0-rdm", "domain: efasim0-dgrm"] {
        assert!(output.lines().any(|found| found.trim() == line), "{line} is missing in\n{output}");
    }
    let left: Vec<_> = fs::read_dir(host.state.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_device_is_listed_with_its_address() {
    let host = Host::new("127.0.0.2,127.0.0.3,::1").with("GENERATION", "efa-v3");
    let test = "every_device_is_listed_with_its_address";
    let Some((success, output)) = fi_info(&host, test, &["-v", "-p", "efa", "-t", "FI_EP_RDM"]) else {
        return;
    };
    assert!(success, "{output}");
    for word in ["efasim2-rdm", "EFA-::ffff:127.0.0.2", "EFA-::ffff:127.0.0.3", "EFA-::1", "0xefa2", "efa-sim "] {
        assert!(output.contains(word), "{word} is missing in\n{output}");
    }
}

#[test]
fn a_variable_that_cannot_be_used_is_named() {
    let host = Host::new("127.0.0.2").with("GENERATION", "efa-v9");
    let Some((success, output)) = fi_info(&host, "a_variable_that_cannot_be_used_is_named", &["-p", "efa"]) else {
        return;
    };
    assert!(!success);
    assert!(output.contains("EFA_SIM_GENERATION=efa-v9"), "{output}");
}

#[test]
fn the_oldest_generation_has_no_remote_memory() {
    let test = "the_oldest_generation_has_no_remote_memory";
    for (generation, possible) in [("efa-v1", false), ("efa-v2", false), ("efa-v3", true), ("efa-v4", true)] {
        let host = Host::new("127.0.0.2").with("GENERATION", generation);
        let Some((_, output)) = fi_info(&host, test, &["-v", "-p", "efa", "-f", "efa-direct"]) else {
            return;
        };
        assert_eq!(output.contains("FI_RMA"), possible, "{generation}:\n{output}");
    }
}

#[test]
fn verified_messages_of_all_sizes_arrive() {
    let Some(installed) = installed("verified_messages_of_all_sizes_arrive") else { return };
    let (one, other) = (Host::new("127.0.0.2"), Host::new("127.0.0.3"));
    let (server, client) = pingpong(installed, &one, &other, &["-e", "rdm", "-c", "-S", "all", "-I", "10"]);
    assert!(server.status.success() && client.status.success(), "{}{}", server.output, client.output);
    assert!(client.output.contains("\n8k "), "{}", client.output);
}

#[test]
fn verified_datagrams_arrive() {
    let Some(installed) = installed("verified_datagrams_arrive") else { return };
    let (one, other) = (Host::new("127.0.0.2"), Host::new("127.0.0.3"));
    let (server, client) = pingpong(installed, &one, &other, &["-e", "dgram", "-c", "-S", "1024", "-I", "50"]);
    assert!(server.status.success() && client.status.success(), "{}{}", server.output, client.output);
}

#[test]
fn messages_arrive_over_a_bad_link_and_ipv6() {
    let Some(installed) = installed("messages_arrive_over_a_bad_link_and_ipv6") else { return };
    let bad = |address: &str| {
        Host::new(address)
            .with("LOSS", "10%")
            .with("DUPLICATE", "10%")
            .with("REORDER", "30%")
            .with("LATENCY", "20us")
            .with("BANDWIDTH", "10Gbit/s")
            .with("SEED", "7")
    };
    // Loopback has one address of version 6; the two versions cannot reach each other.
    let pairs = [(bad("127.0.0.2"), bad("127.0.0.3")), (bad("::1"), bad("::1"))];
    for (one, other) in &pairs {
        let (server, client) = pingpong(installed, one, other, &["-e", "rdm", "-c", "-S", "4096", "-I", "100"]);
        assert!(server.status.success() && client.status.success(), "{}{}", server.output, client.output);
    }
}

#[test]
fn nothing_arrives_from_a_host_whose_packets_are_dropped() {
    let Some(installed) = installed("nothing_arrives_from_a_host_whose_packets_are_dropped") else { return };
    let one = Host::new("127.0.0.2").with("TIMEOUT", "500ms");
    let other = Host::new("127.0.0.3").with("TIMEOUT", "500ms").with("DROP", "egress");
    let (_server, client) = start_pingpong(installed, &one, &other, &["-e", "rdm", "-S", "64", "-I", "10"]);
    let client = client.finish();
    assert!(!client.status.success(), "{}", client.output);
    // The provider's words for status 15.
    assert!(client.output.contains("Unreachable remote"), "{}", client.output);
}

#[test]
fn hosts_with_different_keys_do_not_hear_each_other() {
    let Some(installed) = installed("hosts_with_different_keys_do_not_hear_each_other") else { return };
    let one = Host::new("127.0.0.2");
    let other = Host::new("127.0.0.3").with("KEY", "quite another key").with("TIMEOUT", "500ms");
    let (server, client) = start_pingpong(installed, &one, &other, &["-e", "rdm", "-S", "64", "-I", "10"]);
    let client = client.finish();
    assert!(!client.status.success(), "{}", client.output);
    let mut control = Control::of(&one, server.id());
    assert!(control.counter("sim_rx_bad_key") > 0);
    assert_eq!(control.counter("rx_pkts"), 0);
}

#[test]
fn a_killed_peer_ends_the_other_side() {
    let Some(installed) = installed("a_killed_peer_ends_the_other_side") else { return };
    let one = Host::new("127.0.0.2").with("TIMEOUT", "1s");
    let other = Host::new("127.0.0.3").with("TIMEOUT", "1s");
    let args = ["-e", "rdm", "-S", "64", "-I", "100000000"];
    let (mut server, client) = start_pingpong(installed, &one, &other, &args);
    let mut control = Control::of(&other, client.id());
    let deadline = Instant::now() + PATIENCE;
    wait_for("traffic", deadline, || (control.counter("recv_wrs") > 100).then_some(()));
    server.kill();
    let killed = Instant::now();
    let client = client.finish();
    assert!(!client.status.success(), "{}", client.output);
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    // The provider's words for status 9.
    assert!(client.output.contains("Bad queue pair"), "{}", client.output);
    // The server's directory is still there, until its host's next start.
    assert_eq!(fs::read_dir(one.state.path()).unwrap().count(), 1);
    fi_info(&one, "a_killed_peer_ends_the_other_side", &["-p", "efa"]);
    assert_eq!(fs::read_dir(one.state.path()).unwrap().count(), 0);
}

#[test]
fn faults_change_while_a_program_runs() {
    let Some(installed) = installed("faults_change_while_a_program_runs") else { return };
    let one = Host::new("127.0.0.2").with("TIMEOUT", "500ms");
    let other = Host::new("127.0.0.3").with("TIMEOUT", "500ms");
    let args = ["-e", "rdm", "-S", "64", "-I", "100000000"];
    let (_server, client) = start_pingpong(installed, &one, &other, &args);
    let mut control = Control::of(&other, client.id());
    let deadline = Instant::now() + PATIENCE;
    wait_for("traffic", deadline, || (control.counter("recv_wrs") > 100).then_some(()));
    // Its file shows the same counter, some time later.
    wait_for("the counter's file", deadline, || (control.counter_file("recv_wrs") > 100).then_some(()));
    assert_eq!(control.command("set loss=20%"), ["ok"]);
    wait_for("losses", deadline, || (control.counter("retrans_pkts") > 10).then_some(()));
    assert_eq!(control.command("set loss=0 drop=egress"), ["ok"]);
    let client = client.finish();
    assert!(!client.status.success(), "{}", client.output);
    assert!(client.output.contains("Unresponsive"), "{}", client.output);
}

#[test]
fn libraries_of_rdma_core_find_their_symbols() {
    let Some(installed) = installed("libraries_of_rdma_core_find_their_symbols") else { return };
    let library = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]
        .map(|directory| PathBuf::from(directory).join("librdmacm.so.1"))
        .into_iter()
        .find(|path| path.exists());
    let Some(library) = library else {
        eprintln!("SKIPPED: libraries_of_rdma_core_find_their_symbols: no librdmacm.so.1 (package librdmacm1)");
        return;
    };
    let output =
        Command::new("ldd").arg("-r").arg(library).env("LD_LIBRARY_PATH", &installed.libraries).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("efa-sim/libibverbs.so.1"), "{text}");
    // Symbols of the C library's threads are undefined in some older libraries without harm.
    let missing: Vec<_> = text
        .lines()
        .filter(|line| line.contains("ibv_") || line.contains("IBVERBS_") || line.contains("version"))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The control socket of a program on a host.
struct Control {
    stream: BufReader<UnixStream>,
    directory: PathBuf,
}

impl Control {
    fn of(host: &Host, pid: u32) -> Control {
        let deadline = Instant::now() + PATIENCE;
        let (directory, stream) = wait_for("a control socket", deadline, || {
            let entries = fs::read_dir(host.state.path()).ok()?;
            let directory =
                entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{pid}-")))?;
            let stream = UnixStream::connect(directory.path().join("efasim0.sock")).ok()?;
            Some((directory.path(), stream))
        });
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Control { stream: BufReader::new(stream), directory }
    }

    fn command(&mut self, command: &str) -> Vec<String> {
        writeln!(self.stream.get_mut(), "{command}").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let line = line.trim_end().to_owned();
            assert!(!line.is_empty(), "the device closed the connection");
            let last = line == "ok" || line.starts_with("error: ");
            lines.push(line);
            if last {
                return lines;
            }
        }
    }

    fn counter(&mut self, name: &str) -> u64 {
        let lines = self.command("counters");
        let value = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no counter {name}")).parse().unwrap()
    }

    fn counter_file(&self, name: &str) -> u64 {
        let path = self.directory.join("sys/class/infiniband/efasim0/ports/1/hw_counters").join(name);
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}
