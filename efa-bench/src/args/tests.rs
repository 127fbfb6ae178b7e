use clap::error::ErrorKind;
use expect_test::expect_file;

use super::*;

fn parse_line(line: &str) -> Result<PingPongArgs, clap::Error> {
    let words = std::iter::once("efa-pingpong").chain(line.split_whitespace());
    PingPongCli::try_from_args(words).map(|cli| cli.pingpong)
}

fn refused(line: &str) -> String {
    let error = parse_line(line).expect_err(line);
    assert_eq!(error.exit_code(), 2, "{line}");
    error.to_string()
}

#[test]
fn definitions_are_consistent() {
    cli_command().debug_assert();
    pingpong_command().debug_assert();
}

#[test]
fn help_texts() {
    let fixed = |command: Command| command.term_width(100).render_long_help().to_string();
    expect_file!["golden/efa.txt"].assert_eq(&fixed(cli_command()));
    expect_file!["golden/efa-pingpong.txt"].assert_eq(&fixed(pingpong_command()));
    let mut efa = cli_command();
    efa.build();
    let sub = efa.find_subcommand("pingpong").expect("pingpong").clone();
    let (own, shared) = (fixed(sub), fixed(pingpong_command()));
    let flags = |text: &str| text.split("Fabric:").nth(1).map(str::to_owned);
    assert!(own.starts_with("Measure latency"), "{own}");
    assert_eq!(flags(&own), flags(&shared), "both names of the ping-pong take the same flags");
}

#[test]
fn help_texts_fit_a_terminal() {
    for command in [cli_command(), pingpong_command()] {
        let help = command.term_width(100).render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn the_short_flags_of_fi_pingpong_keep_their_meaning() {
    let args = parse_line("-p tcp -f f -d lo -e rdm -S all -I 10 -c -m tagged -B 7 -P 9 -v -6 nodeb").unwrap();
    assert_eq!(args.role(), Role::Client("nodeb"));
    assert_eq!(args.provider.as_deref(), Some("tcp"));
    assert_eq!(args.fabric.as_deref(), Some("f"));
    assert_eq!(args.domain.as_deref(), Some("lo"));
    assert_eq!(args.iterations, Some(10));
    assert!(args.size.unwrap().0.len() > 10);
    assert!(args.check && args.ipv6);
    assert_eq!(args.mode, Some(Mode::Tagged));
    assert_eq!(args.verbose, 1);
    let args = parse_line("-B 7 -P 9 nodeb").unwrap();
    assert_eq!((args.local_port(), args.connect_port()), (7, 9));
    assert_eq!(parse_line("-B 7").unwrap().listen_port(), 7);
    assert_eq!(parse_line("-s ::1 nodeb").unwrap().source_address, "::1".parse().ok());
}

#[test]
fn one_port_flag_serves_both_sides() {
    assert_eq!(parse_line("--port 0").unwrap().listen_port(), 0);
    assert_eq!(parse_line("--port 5 nodeb").unwrap().connect_port(), 5);
    assert_eq!(parse_line("").unwrap().listen_port(), DEFAULT_PORT);
    assert_eq!(parse_line("nodeb").unwrap().connect_port(), DEFAULT_PORT);
}

#[test]
fn values_are_parsed_exactly_or_refused_by_flag_and_value() {
    for (line, flag, value) in [
        ("-S 64k", "--size", "64k"),
        ("-S -5", "--size", "-5"),
        ("-S 99999999999999999999", "--size", "99999999999999999999"),
        ("-S 18446744073709551615", "--size", "give at most 9223372036854775807 bytes"),
        ("-I 0", "--iterations", "0"),
        ("-I -5", "--iterations", "-5"),
        ("-I 1e5", "--iterations", "1e5"),
        ("-I 18446744073709551616", "--iterations", "18446744073709551616"),
        ("-m bulk", "--mode", "bulk"),
        ("-e dgram", "--endpoint", "dgram"),
        ("-e msg", "--endpoint", "msg"),
        ("-B 65536", "--source-port", "65536"),
        ("-P 0 nodeb", "--dest-port", "0"),
        ("--port -1", "--port", "-1"),
        ("--timeout 0", "--timeout", "0"),
        ("--timeout -1s", "--timeout", "-1s"),
        ("--duration 5parsecs", "--duration", "5parsecs"),
        ("--warmup -5", "--warmup", "-5"),
        ("--pin 0-3", "--pin", "0-3"),
        ("--percentiles 101", "--percentiles", "101"),
        ("--seed -1", "--seed", "-1"),
        ("--clock sun", "--clock", "sun"),
        ("-s nodeb", "--source-address", "nodeb"),
        ("--json=", "--json", ""),
    ] {
        let text = refused(line);
        assert!(text.contains(flag), "{line}: {text}");
        assert!(text.contains(value), "{line}: {text}");
    }
    assert_eq!(parse_line("-I 4294967297").unwrap().iterations, Some(4294967297));
    assert_eq!(parse_line("-S 5000000000").unwrap().size.unwrap().0, [5000000000]);
}

#[test]
fn combinations_without_a_meaning_are_refused() {
    for (line, names) in [
        ("nodeb --persist", ["HOST", "--persist"]),
        ("nodeb --loopback", ["HOST", "--loopback"]),
        ("--loopback --persist", ["--loopback", "--persist"]),
        ("-I 5 --duration 1s", ["--iterations", "--duration"]),
        ("-P 5", ["--dest-port", "--port 5"]),
        ("-B 5 --port 6", ["--source-port", "--port"]),
        ("-P 5 --port 6 nodeb", ["--dest-port", "--port"]),
        ("--port 0 nodeb", ["--port 0", "nodeb"]),
        ("--pin 0,1", ["--pin", "--loopback"]),
        ("nodeb --dry-run --json", ["--dry-run", "--json"]),
        ("--loopback --dry-run --csv=a", ["--dry-run", "--csv"]),
        ("nodeb --dry-run --markdown", ["--dry-run", "--markdown"]),
        ("-s fe80::1", ["--source-address fe80::1", "fe80::2%IFACE -s fe80::1"]),
        ("-s fe80::1 10.0.0.1", ["--source-address fe80::1", "fe80::2%IFACE -s fe80::1"]),
        ("--loopback -s fe80::1", ["--source-address fe80::1", "leave it out"]),
        ("-6 -s 10.0.0.1", ["-6", "--source-address"]),
        ("--json nodeb", ["--json=nodeb", "nodeb --json"]),
    ] {
        let text = refused(line);
        for name in names {
            assert!(text.contains(name), "{line}: {text}");
        }
    }
}

#[test]
fn report_flags_take_a_file_or_standard_output() {
    let args = parse_line("--loopback --json out.json --csv=t --markdown").unwrap();
    assert_eq!(args.json, Some(Output::File("out.json".into())));
    assert_eq!(args.csv, Some(Output::File("t".into())));
    assert_eq!(args.markdown, Some(Output::Stdout));
    let args = parse_line("nodeb --json -").unwrap();
    assert_eq!(args.json, Some(Output::Stdout));
}

#[test]
fn what_only_a_client_uses_is_refused_on_a_server() {
    for given in [
        "--connect-timeout 1s",
        "--percentiles 95",
        "--json",
        "--csv=a",
        "--markdown",
        "--clock tsc",
        "--dry-run --json",
    ] {
        for server in [given.to_owned(), format!("--persist {given}")] {
            let text = refused(&server);
            let flag = given.trim_start_matches("--dry-run ").split([' ', '=']).next().unwrap();
            assert!(text.contains(&format!("{flag} is for the client")), "{server}: {text}");
            assert!(text.contains(&format!("`efa-pingpong HOST {flag}`")), "{server}: {text}");
        }
        if !given.contains("dry-run") {
            assert!(parse_line(&format!("{given} --loopback")).is_ok(), "{given}");
            assert!(parse_line(&format!("nodeb {given}")).is_ok(), "{given}");
        }
    }
    let line = "-6 -v -c -S 8 -I 5 -m msg --warmup 1 --seed 2 --wait spin --inject on --timeout 1s --pin 0 --dry-run";
    assert!(parse_line(line).is_ok());
    assert!(parse_line("-s fe80::1 fe80::2%eth0").is_ok());
    assert!(parse_line("-s fe80::1 nodeb").is_ok());
}

#[test]
fn what_is_refused_is_not_repeated_at_length() {
    let long = "9".repeat(5000);
    for flag in ["-S", "-I", "--duration", "--warmup", "--percentiles", "--seed", "--pin", "--port", "-s", "-m", "-e"] {
        let text = refused(&format!("nodeb {flag} {long}"));
        assert!(text.len() < 700, "{flag}: {text}");
        assert!(text.contains("999..."), "{flag}: {text}");
    }
    assert!(refused(&format!("{long}:5")).len() < 600);
    assert!(refused(&format!("--json {long}")).len() < 600);
    assert!(Cli::try_from_args(["efa", &long]).unwrap_err().to_string().len() < 600);
}

#[test]
fn a_host_that_carries_its_port_or_lacks_its_interface_is_refused() {
    for (line, names) in [
        ("127.0.0.1:47592", ["HOST", "127.0.0.1 --port 47592"]),
        ("[::1]:47592", ["HOST", "::1 --port 47592"]),
        ("name:123", ["HOST", "name --port 123"]),
        ("fe80::1", ["HOST", "fe80::1%IFACE"]),
    ] {
        let text = refused(line);
        assert!(names.iter().all(|name| text.contains(name)), "{line}: {text}");
    }
    for empty in ["", " "] {
        let text = PingPongCli::try_from_args(["efa-pingpong", empty]).unwrap_err().to_string();
        assert!(text.contains("HOST") && text.contains("a host name or an address is needed"), "{text}");
    }
}

#[test]
fn efa_has_the_same_ping_pong() {
    let cli = Cli::try_from_args(["efa", "pingpong", "--color", "never", "-S", "8", "nodeb"]).unwrap();
    assert_eq!(cli.color, Color::Never);
    let CliCommand::Pingpong(args) = cli.command else { panic!("{cli:?}") };
    assert_eq!(args.size, Some(Sizes(vec![8])));
    let error = Cli::try_from_args(["efa", "pingpong", "--pin", "0,1"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("Usage: efa pingpong"), "{error}");
    assert_eq!(Cli::try_from_args(["efa"]).unwrap_err().exit_code(), 2);
}

#[test]
fn help_and_version_are_no_failures() {
    for (flag, kind) in
        [("--help", ErrorKind::DisplayHelp), ("-h", ErrorKind::DisplayHelp), ("--version", ErrorKind::DisplayVersion)]
    {
        let error = parse_line(flag).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (kind, 0));
    }
}

#[test]
fn the_colour_flag_is_read_ahead_of_errors() {
    let choice = |line: &str| color_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
    assert_eq!(choice("x --color never --bad"), ColorChoice::Never);
    assert_eq!(choice("x --color=always"), ColorChoice::Always);
    assert_eq!(choice("x -- --color=always"), ColorChoice::Auto);
    assert_eq!(choice("x --colorful"), ColorChoice::Auto);
}

#[test]
fn completions_cover_both_programs() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let efa = String::from_utf8(completions(Binary::Efa, shell)).unwrap();
        assert!(efa.contains("pingpong"), "{shell}");
        let pingpong = String::from_utf8(completions(Binary::EfaPingpong, shell)).unwrap();
        assert!(pingpong.contains("loopback"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let pages = man_pages(&dir.path().join("new")).unwrap();
    let names: Vec<_> = pages.iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["efa-completions.1", "efa-pingpong.1", "efa.1"]);
    let page = std::fs::read_to_string(&pages[1]).unwrap();
    assert!(page.contains("loopback") && page.contains(".TH"), "{page}");
}
