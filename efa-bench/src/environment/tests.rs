use tempfile::TempDir;

use super::*;

fn fixture(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

const NO_VARS: [(&str, &str); 0] = [];

#[test]
fn an_ec2_host_is_read_whole() {
    let dir = fixture(&[
        ("proc/sys/kernel/hostname", "ip-10-0-0-7\n"),
        ("proc/sys/kernel/random/boot_id", "b0b0\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("etc/os-release", "ID=amzn\nPRETTY_NAME=\"Amazon Linux 2023\"\n"),
        ("sys/devices/virtual/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/devices/virtual/dmi/id/product_name", "c5n.18xlarge\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Xeon: fast\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("proc/thread-self/status", "Name:\tx\nCpus_allowed_list:\t0,2-3\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "ondemand\n"),
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/node/node10/cpulist", "2-3\n"),
        ("sys/devices/system/node/node2/cpulist", "0-1\n"),
        ("sys/devices/system/node/online", "2,10\n"),
        ("proc/loadavg", "0.42 0.1 0.0 1/100 7\n"),
        ("proc/meminfo", "MemTotal:  16 kB\nMemFree: 1 kB\nMemAvailable:  8 kB\n"),
        (
            "proc/self/limits",
            "Limit  Soft Limit  Hard Limit  Units\n\
             Max open files            1024                 4096                 files\n\
             Max locked memory         65536                unlimited            bytes\n",
        ),
        ("proc/self/cgroup", "0::/kubepods/pod1\n"),
        ("dev/shm/x", ""),
    ]);
    let env = Environment::collect_with(dir.path(), [("FI_PROVIDER", "efa"), ("HOME", "/root")]);
    assert_eq!(env.host.as_deref(), Some("ip-10-0-0-7"));
    assert_eq!(env.boot_id.as_deref(), Some("b0b0"));
    assert_eq!(env.kernel.as_deref(), Some("6.1.0"));
    assert_eq!(env.os.as_deref(), Some("Amazon Linux 2023"));
    assert_eq!(env.machine.as_deref(), Some("Amazon EC2 c5n.18xlarge"));
    assert_eq!(env.cpu_model.as_deref(), Some("Xeon: fast"));
    assert_eq!(env.cpus_online, Some(4));
    assert_eq!(env.cpus_allowed, Some(vec![0, 2, 3]));
    assert_eq!(env.governor.as_deref(), Some("performance,powersave"));
    let nodes: Vec<_> = env.numa_nodes.iter().map(|n| (n.id, &n.cpus[..])).collect();
    assert_eq!(nodes, [(2, "0-1"), (10, "2-3")]);
    assert_eq!(env.load_average, Some(0.42));
    assert_eq!(env.memory_total_bytes, Some(16384));
    assert_eq!(env.memory_available_bytes, Some(8192));
    let (soft, hard) = (Some(65536), None);
    assert_eq!(env.memlock_bytes, Some(Limit { soft, hard }));
    let (soft, hard) = (Some(1024), Some(4096));
    assert_eq!(env.open_files, Some(Limit { soft, hard }));
    assert!(env.shm_total_bytes.is_some());
    assert_eq!(env.container.as_deref(), Some("kubepods in /proc/self/cgroup"));
    assert_eq!(env.variables.len(), 1);

    let bytes = postcard::to_stdvec(&env).unwrap();
    assert_eq!(postcard::from_bytes::<Environment>(&bytes).unwrap(), env);
    let json = serde_json::to_string(&env).unwrap();
    assert_eq!(serde_json::from_str::<Environment>(&json).unwrap(), env);
}

#[test]
fn a_host_without_any_of_the_files_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let env = Environment::collect_with(dir.path(), NO_VARS);
    let expected = Environment {
        arch: std::env::consts::ARCH.into(),
        debug_build: cfg!(debug_assertions),
        ..Environment::default()
    };
    assert_eq!(env, expected);
}

#[test]
fn files_with_nonsense_in_them_are_no_failure() {
    let nonsense = "\u{0}: -,:-9\n= kB\nMemTotal: x kB\nCpus_allowed_list:\t9-1\nMax open files a b\n";
    let dir = fixture(&[
        ("proc/sys/kernel/hostname", "\n"),
        ("etc/os-release", "PRETTY_NAME=\"\"\n"),
        ("proc/cpuinfo", nonsense),
        ("proc/meminfo", nonsense),
        ("proc/self/limits", nonsense),
        ("proc/self/status", nonsense),
        ("proc/loadavg", "nan"),
        ("sys/devices/system/cpu/online", "9-1"),
        ("sys/devices/system/node/nodex/cpulist", "0"),
    ]);
    let env = Environment::collect_with(dir.path(), NO_VARS);
    assert_eq!((env.host, env.os, env.cpu_model), (None, None, None));
    assert_eq!((env.cpus_online, env.cpus_allowed), (None, None));
    assert_eq!((env.memory_total_bytes, env.open_files), (None, None));
    assert_eq!((env.load_average, env.numa_nodes), (None, Vec::new()));
}

#[test]
fn an_arm_processor_has_its_numbers() {
    let dir =
        fixture(&[("proc/cpuinfo", "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\nprocessor : 1\n")]);
    let env = Environment::collect_with(dir.path(), NO_VARS);
    assert_eq!(env.cpu_model.as_deref(), Some("implementer 0x41, part 0xd40"));
    assert_eq!(env.cpus_online, Some(2));
}

#[test]
fn this_host_has_the_basics() {
    let env = Environment::collect(Path::new("/"));
    assert!(env.host.is_some() && env.kernel.is_some());
    assert!(env.memory_available_bytes.is_some_and(|b| b > 0));
    assert!(env.cpus_allowed.is_some_and(|c| !c.is_empty()));
    assert!(env.open_files.is_some());
}
