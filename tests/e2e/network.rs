//! Two hosts: network namespaces joined by cables, with real addresses, wrong interfaces and silent firewalls.

use std::time::Duration;

use crate::harness::{Cable, Namespace, QUICK, TCP, checked, client_of, pingpong};
use crate::needs_root;

/// The control port in a namespace of its own, where nobody else has it.
const PORT: &str = "47592";

/// Two hosts on one cable.
fn pair(a: &str, b: &str) -> (Namespace, Namespace, Cable) {
    let (left, right) = (Namespace::new(), Namespace::new());
    let cable = Cable::between((&left, "eth0", a), (&right, "eth0", b));
    (left, right, cable)
}

/// Measures from `from` against a server in `to`, and returns the report.
#[track_caller]
fn measure(from: &Namespace, to: &Namespace, host: &str, flags: &[&str]) -> serde_json::Value {
    let served = pingpong().within(to).spawn();
    served.line("listening on port ");
    let run = pingpong().arg(host).args(QUICK).args(flags).arg("--json").within(from).ended().exits(0);
    served.ended().exits(0);
    checked(&run.stdout)
}

#[track_caller]
fn addresses_are(report: &serde_json::Value, local: &str, peer: &str) {
    for kind in ["fabric", "control"] {
        for (side, expected) in [("local", local), ("peer", peer)] {
            let address = report["run"]["addresses"][side][kind].as_str().unwrap();
            let ip = address.parse::<std::net::SocketAddr>().map(|a| a.ip().to_string());
            assert_eq!(ip.as_deref(), Ok(expected), "{side} {kind}: {address}");
        }
    }
}

#[test]
fn two_hosts_over_ipv4() {
    needs_root!();
    let (a, b, _cable) = pair("10.77.1.1/24", "10.77.1.2/24");
    let report = measure(&a, &b, "10.77.1.2", &["-c"]);
    addresses_are(&report, "10.77.1.1", "10.77.1.2");
    assert_eq!(report["run"]["domain"], "eth0");
    assert_eq!(report["run"]["provider"], TCP);
}

#[test]
fn two_hosts_with_ipv6_only_need_no_flag() {
    needs_root!();
    let (a, b, _cable) = pair("fd00:77::1/64", "fd00:77::2/64");
    for host in ["fd00:77::2", "[fd00:77::2]"] {
        addresses_are(&measure(&a, &b, host, &[]), "fd00:77::1", "fd00:77::2");
    }
    addresses_are(&measure(&a, &b, "fd00:77::2", &["-6"]), "fd00:77::1", "fd00:77::2");
}

#[test]
fn a_name_with_an_ipv6_address_only_needs_no_flag() {
    needs_root!();
    let (mut a, b, _cable) = pair("fd00:77::1/64", "fd00:77::2/64");
    a.hosts("127.0.0.1 localhost\nfd00:77::2 nodeb\n");
    addresses_are(&measure(&a, &b, "nodeb", &[]), "fd00:77::1", "fd00:77::2");
}

#[test]
fn a_name_with_a_dead_address_first_reaches_the_living_one() {
    needs_root!();
    let (mut a, b, _cable) = pair("10.77.2.1/24", "10.77.2.2/24");
    a.hosts("127.0.0.1 localhost\nfd00:dead::2 nodeb\n10.77.2.2 nodeb\n");
    addresses_are(&measure(&a, &b, "nodeb", &[]), "10.77.2.1", "10.77.2.2");
}

#[test]
fn interfaces_that_do_not_lead_to_the_peer_are_left_alone() {
    needs_root!();
    let (a, b, _cable) = pair("10.77.3.1/24", "10.77.3.2/24");
    for host in [&a, &b] {
        host.add_interface("aaa0", "169.254.3.1/16");
        host.add_interface("docker0", "172.17.0.1/16");
        host.add_interface("tun0", "10.200.0.1/24");
    }
    let report = measure(&a, &b, "10.77.3.2", &[]);
    addresses_are(&report, "10.77.3.1", "10.77.3.2");
    assert_eq!(report["run"]["domain"], "eth0", "{report}");
}

#[test]
fn a_second_address_on_the_same_interface_is_not_mistaken_for_the_route() {
    needs_root!();
    let (a, b, _cable) = pair("10.77.4.1/24", "10.77.4.2/24");
    b.ip(&["addr", "add", "192.168.77.2/24", "dev", "eth0"]);
    a.ip(&["addr", "add", "192.168.77.1/24", "dev", "eth0"]);
    addresses_are(&measure(&a, &b, "192.168.77.2", &[]), "192.168.77.1", "192.168.77.2");
    addresses_are(&measure(&a, &b, "10.77.4.2", &["-s", "10.77.4.1"]), "10.77.4.1", "10.77.4.2");
}

#[test]
fn a_server_whose_own_name_is_127_0_1_1_advertises_its_real_address() {
    needs_root!();
    let (mut a, mut b, _cable) = pair("10.77.5.1/24", "10.77.5.2/24");
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let hosts = format!("127.0.0.1 localhost\n127.0.1.1 {}\n", name.trim());
    a.hosts(&hosts);
    b.hosts(&hosts);
    addresses_are(&measure(&a, &b, "10.77.5.2", &[]), "10.77.5.1", "10.77.5.2");
}

#[test]
fn a_name_that_means_127_0_1_1_here_is_said_with_etc_hosts() {
    needs_root!();
    let mut host = Namespace::new();
    host.hosts("127.0.0.1 localhost\n127.0.1.1 nodeb\n");
    let served = pingpong().within(&host).spawn();
    served.line("listening on port ");
    let run = pingpong().arg("nodeb").args(QUICK).arg("--json").within(&host).ended().exits(0);
    let run = run.says(&["127.0.1.1", "/etc/hosts"]);
    let report = checked(&run.stdout);
    assert!(report["warnings"].as_array().unwrap().iter().any(|w| w["id"] == "loopback-name"), "{report}");
    served.ended().exits(0);
    // Nobody there: the text names the address, which shows where the name led.
    pingpong().args(["nodeb", "--connect-timeout", "1s"]).within(&host).ended().exits(2).says(&["127.0.1.1"]);
}

#[test]
fn data_ports_that_swallow_everything_end_both_sides_at_the_timeout() {
    needs_root!();
    let (a, router, b) = (Namespace::new(), Namespace::new(), Namespace::new());
    let _left = Cable::between((&a, "eth0", "10.77.6.1/24"), (&router, "left", "10.77.6.254/24"));
    let _right = Cable::between((&b, "eth0", "10.77.7.1/24"), (&router, "right", "10.77.7.254/24"));
    a.ip(&["route", "add", "default", "via", "10.77.6.254"]);
    b.ip(&["route", "add", "default", "via", "10.77.7.254"]);
    // Forwarding is a setting of the router's own namespace.
    crate::harness::program("sh")
        .args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        .within(&router)
        .ended()
        .exits(0);
    // The control port passes, all other TCP goes nowhere: what a security group does that forgets the data.
    for direction in ["dport", "sport"] {
        router.ip(&["rule", "add", "pref", "100", "ipproto", "tcp", direction, PORT, "lookup", "main"]);
    }
    router.ip(&["rule", "add", "pref", "200", "ipproto", "tcp", "lookup", "77"]);
    router.ip(&["route", "add", "blackhole", "default", "table", "77"]);

    let served = pingpong().args(["-p", TCP]).within(&b).spawn();
    served.line("listening on port ");
    let run = client_of("10.77.7.1", 47592).args(QUICK).args(["--timeout", "2s", "--json"]).within(&a).spawn();
    let run = run.ended_within(Duration::from_secs(40)).exits(3).says(&[
        "phase first message",
        "control connected",
        "no data completion in 2",
        TCP,
        "10.77.6.1",
        "10.77.7.1",
        "firewall",
    ]);
    let report = checked(&run.stdout);
    assert_eq!(report["outcome"]["status"], "failed");
    served.ended_within(Duration::from_secs(40)).exits(3);
}

#[test]
fn a_host_that_swallows_everything_is_given_up_at_the_connect_timeout() {
    needs_root!();
    let a = Namespace::new();
    a.add_interface("eth0", "10.77.8.1/24");
    // A neighbour that never answers: the packets go out and nothing comes back.
    a.ip(&["neigh", "add", "10.77.8.9", "lladdr", "02:00:00:00:00:09", "dev", "eth0"]);
    let run = client_of("10.77.8.9", 47592).args(["--connect-timeout", "1s", "--json"]).within(&a).ended();
    let run = run.exits(2).quickly(Duration::from_secs(30)).says(&["10.77.8.9:47592", "no answer"]);
    assert_eq!(checked(&run.stdout)["outcome"]["status"], "failed");
    // No route at all: nothing is gained by waiting.
    let run = client_of("10.99.0.1", 47592).args(["--connect-timeout", "60s"]).within(&a).ended();
    run.exits(2).quickly(Duration::from_secs(30)).says(&["10.99.0.1:47592", "unreachable"]);
}
