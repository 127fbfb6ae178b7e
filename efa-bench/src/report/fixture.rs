//! Reports for tests: the same bytes on every machine.

use std::time::{Duration, SystemTime};

use crate::args::{Inject as InjectChoice, Mode, Wait, Warmup};
use crate::clock::{Clock, ClockInfo, ClockKind, ScriptedClock};
use crate::plan::{Iterations, Plan};
use crate::record::RunSamples;
use crate::stats::{EndedBy, PointResult};

use super::{Addresses, Inject, Libfabric, Outcome, Pair, Point, Report, Role, Run, Side};

/// A run over `tcp;ofi_rxm` on one host, complete, with two percentiles more and a warning.
pub(crate) fn complete() -> Report {
    let mut report = Report::new(run());
    for (size, base) in [(64, 9_000), (65_536, 60_000), (1_048_576, 400_000)] {
        report.points.push(point(size, base, 1_000, EndedBy::Confidence));
    }
    report.warn("debug-build", "this is a debug build: build with --release");
    report.run.set_elapsed(Duration::from_millis(1_250));
    report.outcome = Outcome::complete();
    report
}

/// A run that a signal ended after one size.
pub(crate) fn interrupted() -> Report {
    let mut report = Report::new(run());
    report.points.push(point(64, 9_000, 1_000, EndedBy::Confidence));
    report.points.push(point(65_536, 60_000, 3, EndedBy::Interrupted));
    report.outcome = Outcome::partial("interrupted (SIGINT) in phase measure");
    report
}

/// A run that ended before anything was known of a peer.
pub(crate) fn failed() -> Report {
    let mut report = Report::new(Run::new("pingpong", start()));
    report.outcome = Outcome::failed("provider `efa` is not offered on this host");
    report
}

pub(crate) fn point(size: u64, base: u64, count: u64, ended_by: EndedBy) -> Point {
    let mut samples = RunSamples::from_nanos((0..count).map(|i| base + i * 7 % 1_000 * base / 9_000));
    samples.first_message_ns = Some(base * 20);
    let elapsed = Duration::from_nanos(count * base);
    let result =
        PointResult { op: "msg".to_owned(), size_bytes: size, samples, elapsed, verified: Some(count), ended_by };
    Point::new(&result, &[99.99, 75.0])
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

fn run() -> Run {
    let side = |role, pid, core| Side {
        role,
        host: Some("node-a".to_owned()),
        pid: Some(pid),
        tool_version: "0.1.0".to_owned(),
        libfabric: Libfabric {
            build_version: "1.17.0".to_owned(),
            run_version: "2.5.1".to_owned(),
            path: Some("/opt/libfabric/lib/libfabric.so.1.30.1".to_owned()),
        },
        pinned_core: Some(core),
    };
    let addresses =
        |fabric: &str, control: &str| Addresses { fabric: Some(fabric.to_owned()), control: Some(control.to_owned()) };
    let mut run = Run::new("pingpong", start());
    run.plan = Some(plan());
    run.provider = Some("tcp;ofi_rxm".to_owned());
    run.fabric = Some("127.0.0.0/8".to_owned());
    run.domain = Some("lo".to_owned());
    run.addresses = Pair {
        local: Some(addresses("fi_sockaddr_in://127.0.0.1:40001", "127.0.0.1:50001")),
        peer: Some(addresses("fi_sockaddr_in://127.0.0.1:40002", "127.0.0.1:47592")),
    };
    run.sides = Pair { local: Some(side(Role::Client, 101, 1)), peer: Some(side(Role::Server, 100, 0)) };
    run.intra_node = Some(true);
    run.wait = Some(Wait::Spin);
    run.inject = Some(Inject { used: true, limit_bytes: 64 });
    run.set_clock(clock());
    run
}

fn plan() -> Plan {
    Plan {
        op: Mode::Msg,
        sizes: vec![64, 65_536, 1_048_576],
        iterations: Iterations::default(),
        duration: None,
        warmup: Warmup::Iterations(100),
        verify: true,
        seed: 1,
        timeout: Duration::from_secs(10),
        wait: Wait::Auto,
        inject: InjectChoice::Auto,
        provider: Some("tcp;ofi_rxm".to_owned()),
        fabric: None,
        domain: None,
        percentiles: vec![99.99, 75.0],
    }
}

fn clock() -> ClockInfo {
    ClockInfo {
        kind: ClockKind::Tsc,
        source: "rdtsc, constant_tsc and nonstop_tsc".to_owned(),
        frequency_hz: Some(2_400_000_000),
        resolution_ns: Some(0.5),
        drift_ppm: Some(-1.5),
        ..ScriptedClock::steady(1).with_overhead_ns(12).describe()
    }
}
