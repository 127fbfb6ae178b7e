//! Bytes: every size and mode arrives as it was sent, and wrong bytes are found.

use crate::harness::{Run, SHM, TCP, checked, client, pingpong, server, shared_library};
use crate::skip;

fn loopback(provider: &str) -> Run {
    pingpong().args(["--loopback", "-p", provider, "--wait", "yield"])
}

/// Sizes around every border that a provider or a protocol may have.
const SIZES: &str = "0,1,63,64,65,4095,4096,4097,16383,16384,16385,65535,65536,65537,1MiB";

#[track_caller]
fn carries_every_size(provider: &str, mode: &str) {
    let run =
        loopback(provider).args(["-c", "-m", mode, "-S", SIZES, "-I", "6", "--warmup", "2", "--json"]).ended().exits(0);
    let report = checked(&run.stdout);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), SIZES.split(',').count());
    for point in points {
        assert_eq!(point["op"], mode);
        assert_eq!(point["iterations"], 6);
        // The first message, the warm-up, what leads a batch, and the measured ones: all of them.
        assert!(point["verified_messages"].as_u64().unwrap() >= 9, "{point}");
        assert!(point["first_message_ns"].as_u64().unwrap() > 0, "{point}");
    }
    assert_eq!(report["run"]["provider"], provider);
}

#[test]
fn every_size_arrives_intact_over_tcp() {
    carries_every_size(TCP, "msg");
}

#[test]
fn every_size_arrives_intact_over_tcp_tagged() {
    carries_every_size(TCP, "tagged");
}

#[test]
fn every_size_arrives_intact_over_shm() {
    carries_every_size(SHM, "msg");
}

#[test]
fn every_size_arrives_intact_over_shm_tagged() {
    carries_every_size(SHM, "tagged");
}

#[test]
fn large_messages_both_ways_do_not_deadlock() {
    for provider in [TCP, SHM] {
        let flags = ["-c", "-S", "1MiB,4MiB,16MiB", "-I", "3", "--warmup", "1"];
        assert_eq!(loopback(provider).args(flags).ended().exits(0).rows().len(), 3);
    }
}

#[test]
fn messages_are_injected_or_sent_as_asked() {
    for provider in [TCP, SHM] {
        for inject in ["on", "off"] {
            let flags = ["-c", "-S", "1,16", "-I", "20", "--inject", inject, "--json"];
            let report = checked(&loopback(provider).args(flags).ended().exits(0).stdout);
            assert_eq!(report["run"]["inject"]["used"], inject == "on", "{provider}");
        }
        let refused = loopback(provider).args(["-S", "64MiB", "-I", "1", "--inject", "on"]).ended().exits(2);
        refused.says(&["--inject on", "64 MiB", "--inject auto"]);
    }
}

#[test]
fn the_last_message_of_a_sender_that_exits_at_once_arrives() {
    for provider in [TCP, SHM] {
        for inject in ["on", "off"] {
            for _ in 0..3 {
                let served = server().spawn();
                let flags = ["-p", provider, "-c", "-S", "16", "-I", "1", "--warmup", "0", "--inject", inject];
                client(served.port()).args(flags).args(["--wait", "yield"]).ended().exits(0);
                served.ended().exits(0);
            }
        }
    }
}

#[test]
fn the_seed_changes_the_bytes_and_is_in_the_report() {
    let report = checked(
        &loopback(TCP).args(["-S", "64", "-I", "20", "-c", "--seed", "0xfeed", "--json"]).ended().exits(0).stdout,
    );
    assert_eq!(report["run"]["plan"]["seed"], 0xfeed);
    assert_eq!(report["run"]["plan"]["verify"], true);
    let warnings = report["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["id"] == "verification"), "{warnings:?}");
}

/// A library that flips a bit in whatever a process receives in one large piece: payload, never control.
const CORRUPTION: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
static void flip(struct iovec *iov, size_t n, ssize_t got) {
    if (got < 16384) return;
    for (size_t i = 0; i < n; i++)
        if (iov[i].iov_len >= 8192) { ((char *)iov[i].iov_base)[5000] ^= 0x20; return; }
}
ssize_t recv(int fd, void *to, size_t len, int flags) {
    ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    ssize_t got = next(fd, to, len, flags);
    struct iovec iov = { to, len };
    flip(&iov, 1, got);
    return got;
}
ssize_t recvmsg(int fd, struct msghdr *msg, int flags) {
    ssize_t (*next)(int, struct msghdr *, int) = dlsym(RTLD_NEXT, "recvmsg");
    ssize_t got = next(fd, msg, flags);
    flip(msg->msg_iov, msg->msg_iovlen, got);
    return got;
}
ssize_t readv(int fd, const struct iovec *iov, int n) {
    ssize_t (*next)(int, const struct iovec *, int) = dlsym(RTLD_NEXT, "readv");
    ssize_t got = next(fd, iov, n);
    flip((struct iovec *)iov, n, got);
    return got;
}
"#;

#[test]
fn wrong_bytes_at_either_side_are_found_named_and_exit_1() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = shared_library(folder.path(), "corrupt.so", CORRUPTION, &["-ldl"]) else {
        skip!("no C compiler (`cc`) on PATH");
    };
    let flags = ["-p", TCP, "-c", "-S", "256KiB", "-I", "20", "--wait", "yield", "--json"];
    for side in ["server", "client"] {
        let corrupt = |run: Run, here: &str| if here == side { run.env("LD_PRELOAD", &library) } else { run };
        let served = corrupt(server(), "server").spawn();
        let run = corrupt(client(served.port()), "client").args(flags).ended();
        let run = run.exits(1).says(&["wrong data", side, "offset", "expected", "found"]);
        let report = checked(&run.stdout);
        assert_ne!(report["outcome"]["status"], "complete");
        assert!(report["outcome"]["reason"].as_str().unwrap().contains("wrong data"), "{report}");
        served.ended().fails().says(&["wrong data"]);
    }
}
