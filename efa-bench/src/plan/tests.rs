use super::*;
use crate::args::PingPongCli;

fn args(line: &str) -> PingPongArgs {
    let words = std::iter::once("efa-pingpong").chain(line.split_whitespace());
    PingPongCli::try_from_args(words).unwrap().pingpong
}

fn plan(line: &str) -> Plan {
    Plan::from_args(&args(line))
}

#[test]
fn a_plan_survives_the_wire_and_json() {
    for line in [
        "nodeb",
        "nodeb -S 1,64KiB -I 10 -c -m tagged --warmup 5ms --percentiles 50,99.99",
        "nodeb --duration 500ms -p tcp -f f -d d --inject off --wait yield --timeout 1s",
    ] {
        let plan = plan(line);
        assert_eq!(plan.check(), Ok(()));
        let bytes = postcard::to_stdvec(&plan).unwrap();
        assert_eq!(postcard::from_bytes::<Plan>(&bytes).unwrap(), plan);
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}

#[test]
fn a_server_without_options_adopts_any_plan() {
    let server = Constraints::from_args(&args("--port 0 --pin 0 --timeout 3s -d lo"));
    assert_eq!(server, Constraints::default());
    assert!(plan("nodeb -S 64 -c -m tagged").differences(&server).is_empty());
}

#[test]
fn differences_name_both_sides() {
    let server = Constraints::from_args(&args("-S 1024 -I 5 -c -p shm -m tagged"));
    let lines: Vec<_> =
        plan("nodeb -S 64 -I 10 -p tcp;ofi_rxm").differences(&server).iter().map(Difference::to_string).collect();
    assert_eq!(
        lines,
        [
            "mode: client msg, server tagged",
            "size: client 64, server 1024",
            "iterations: client 10, server 5",
            "verification: client off, server on",
            "provider: client tcp;ofi_rxm, server shm",
        ]
    );
    let same = plan("nodeb -S 1KiB -I 5 -c -p SHM -m tagged");
    assert!(same.differences(&server).is_empty());
    let open = plan("nodeb -S 1KiB -I 5 -c -m tagged");
    assert!(open.differences(&server).is_empty());
}

#[test]
fn a_plan_that_no_command_line_makes_is_refused() {
    let good = plan("nodeb");
    let broken: [fn(&mut Plan); 8] = [
        |p| p.sizes.clear(),
        |p| p.sizes = vec![1; MOST_SIZES + 1],
        |p| p.sizes = vec![LARGEST_SIZE + 1],
        |p| p.iterations = Iterations::Fixed(0),
        |p| p.timeout = Duration::ZERO,
        |p| p.percentiles = vec![f64::NAN],
        |p| p.provider = Some("x".repeat(MOST_OF_NAME + 1)),
        |p| p.iterations = Iterations::Adaptive { min: 2, max: 1, relative_ci: 0.01, max_time: Duration::from_secs(1) },
    ];
    for breaks in broken {
        let mut plan = good.clone();
        breaks(&mut plan);
        assert!(plan.check().is_err(), "{plan:?}");
    }
}

#[test]
fn buffers_larger_than_memory_are_refused_with_the_footprint() {
    let plan = plan("nodeb -S 8,1MiB");
    assert_eq!(plan.buffers_bytes(4), 4 << 20);
    assert_eq!(plan.check_memory(2, 2, 4 << 20), Ok(()));
    let error = plan.check_memory(2, 2, (4 << 20) - 1).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("4 buffers of 1 MiB need 4.0 MiB"), "{text}");
    let mut huge = plan;
    huge.sizes = vec![u64::MAX];
    assert_eq!(huge.footprint_bytes(3), 3 * u128::from(u64::MAX));
    assert_eq!(huge.buffers_bytes(3), u64::MAX);
    assert!(huge.check_memory(2, 1, u64::MAX).is_err());
    huge.sizes = vec![LARGEST_SIZE];
    let text = huge.check_memory(3, 2, u64::MAX).unwrap_err().to_string();
    assert!(text.contains("6 buffers of 9223372036854775807 need 51539607552.0 GiB"), "{text}");
}
