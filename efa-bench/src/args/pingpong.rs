//! The flags of the ping-pong, shared by `efa pingpong` and `efa-pingpong`.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;

use crate::units::excerpt;

use super::address;
use super::values::{self, ClockChoice, Cores, Inject, Mode, Output, Percentiles, Rdm, Sizes, Wait, Warmup};

/// The control port where none is given: the one that fi_pingpong uses, so that firewall rules made
/// for it keep working.
pub const DEFAULT_PORT: u16 = 47592;

/// What this process is in the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role<'a> {
    /// Waits for a client.
    Server,
    /// Connects to a server on this host.
    Client(&'a str),
    /// Starts a server as a child process and is its client.
    Loopback,
}

/// Flags of the ping-pong, as they were typed: a flag that was not given is `None`.
#[derive(Debug, Clone, Args)]
pub struct PingPongArgs {
    /// Server to connect to, by name or address; left out, this side is the server
    #[arg(value_name = "HOST", value_parser = address::host)]
    pub host: Option<String>,

    /// Run both sides on this host, in two processes
    #[arg(long, conflicts_with_all = ["host", "persist", "announce", "source_port", "dest_port"])]
    pub loopback: bool,

    /// Provider, such as efa, "tcp;ofi_rxm" or shm
    #[arg(short, long, value_name = "NAME", value_parser = values::name, help_heading = "Fabric")]
    pub provider: Option<String>,

    /// Fabric, such as efa or efa-direct
    #[arg(short, long, value_name = "NAME", value_parser = values::name, help_heading = "Fabric")]
    pub fabric: Option<String>,

    /// Domain (the network device) of this side
    #[arg(short, long, value_name = "NAME", value_parser = values::name, help_heading = "Fabric")]
    pub domain: Option<String>,

    /// Endpoint type; only rdm (reliable datagrams) is measured
    #[arg(short, long, value_name = "TYPE", value_parser = values::endpoint, help_heading = "Fabric")]
    pub endpoint: Option<Rdm>,

    /// Message sizes: `64`, `4kB`, `64KiB`, a range `8..1MiB` (powers of two), a list, or `all`
    /// [default: 8,64,256,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB]
    #[arg(short = 'S', long, value_name = "SIZES", value_parser = values::sizes,
          allow_hyphen_values = true, help_heading = "Measurement")]
    pub size: Option<Sizes>,

    /// Round trips of each size [default: until the median's 95 % confidence interval is within 1 % of
    /// it, from 100 to 100000, for at most 2 s]
    #[arg(short = 'I', long, value_name = "N", value_parser = values::count,
          allow_hyphen_values = true, conflicts_with = "duration", help_heading = "Measurement")]
    pub iterations: Option<u64>,

    /// Measure each size for this long, such as 2s or 500ms
    #[arg(long, value_name = "TIME", value_parser = values::duration,
          allow_hyphen_values = true, help_heading = "Measurement")]
    pub duration: Option<Duration>,

    /// Untimed round trips before each size, as a number or a time such as 50ms [default: 100]
    #[arg(long, value_name = "N|TIME", value_parser = values::warmup,
          allow_hyphen_values = true, help_heading = "Measurement")]
    pub warmup: Option<Warmup>,

    /// Verify every byte that arrives, outside the timed part
    #[arg(short, long, help_heading = "Measurement")]
    pub check: bool,

    /// Message mode [default: msg]
    #[arg(
        short,
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "msg|tagged",
        help_heading = "Measurement"
    )]
    pub mode: Option<Mode>,

    /// Percentiles to add to the table, such as 50,99,99.99
    #[arg(long, value_name = "LIST", value_parser = values::percentiles,
          allow_hyphen_values = true, help_heading = "Measurement")]
    pub percentiles: Option<Percentiles>,

    /// Seed of the bytes that are sent [default: 1]
    #[arg(long, value_name = "N", value_parser = values::seed,
          allow_hyphen_values = true, help_heading = "Measurement")]
    pub seed: Option<u64>,

    /// Core to run on; with --loopback the server's and the client's, such as 0,1
    #[arg(long, value_name = "CORES", value_parser = values::cores,
          allow_hyphen_values = true, help_heading = "Measurement")]
    pub pin: Option<Cores>,

    /// How to wait for completions: spin, or yield the core, which auto does where both sides share
    /// one [default: auto]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "auto|spin|yield", help_heading = "Measurement")]
    pub wait: Option<Wait>,

    /// Send small messages by inject: auto does so up to the provider's limit, on refuses larger
    /// sizes [default: auto]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "auto|on|off", help_heading = "Measurement")]
    pub inject: Option<Inject>,

    /// Clock: the time-stamp counter or the monotonic clock [default: auto]
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "auto|tsc|monotonic",
        help_heading = "Measurement"
    )]
    pub clock: Option<ClockChoice>,

    /// Print what would run, and stop
    #[arg(long, help_heading = "Measurement")]
    pub dry_run: bool,

    /// Control port of the server, on either side; a server given 0 chooses one and prints it
    /// [default: 47592]
    #[arg(long, value_name = "PORT", value_parser = values::port,
          allow_hyphen_values = true, help_heading = "Control connection")]
    pub port: Option<u16>,

    /// Control port of this side: the server's to listen on, the client's to connect from
    #[arg(short = 'B', long, value_name = "PORT", value_parser = values::port,
          allow_hyphen_values = true, help_heading = "Control connection")]
    pub source_port: Option<u16>,

    /// Control port of the server that this client connects to
    #[arg(short = 'P', long, value_name = "PORT", value_parser = values::some_port,
          allow_hyphen_values = true, conflicts_with = "port", help_heading = "Control connection")]
    pub dest_port: Option<u16>,

    /// Address of this host to use, for the control connection and the fabric
    #[arg(short = 's', long, value_name = "ADDRESS", value_parser = address::source_address,
          allow_hyphen_values = true, help_heading = "Control connection")]
    pub source_address: Option<IpAddr>,

    /// Use IPv6 only
    #[arg(short = '6', long = "ipv6", help_heading = "Control connection")]
    pub ipv6: bool,

    /// How long to try to reach the server [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::duration,
          allow_hyphen_values = true, help_heading = "Control connection")]
    pub connect_timeout: Option<Duration>,

    /// How long to wait for a completion or an answer before giving up [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = values::duration,
          allow_hyphen_values = true, help_heading = "Control connection")]
    pub timeout: Option<Duration>,

    /// Serve clients one after another until interrupted
    #[arg(long, conflicts_with = "host", help_heading = "Control connection")]
    pub persist: bool,

    /// Write a JSON report; without FILE to standard output, in place of the table
    #[arg(long, value_name = "FILE", value_parser = values::output, num_args = 0..=1,
          require_equals = true, default_missing_value = "-", help_heading = "Output")]
    pub json: Option<Output>,

    /// Write CSV, one row for each size
    #[arg(long, value_name = "FILE", value_parser = values::output, num_args = 0..=1,
          require_equals = true, default_missing_value = "-", help_heading = "Output")]
    pub csv: Option<Output>,

    /// Write a Markdown table
    #[arg(long, value_name = "FILE", value_parser = values::output, num_args = 0..=1,
          require_equals = true, default_missing_value = "-", help_heading = "Output")]
    pub markdown: Option<Output>,

    /// Say on standard error what happens; twice says more
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,

    /// Print the control address as one line of JSON on standard output, for a parent process.
    #[arg(long, hide = true, conflicts_with = "host")]
    pub announce: bool,
}

impl PingPongArgs {
    /// The role that the flags ask for.
    pub fn role(&self) -> Role<'_> {
        match &self.host {
            Some(host) => Role::Client(host),
            None if self.loopback => Role::Loopback,
            None => Role::Server,
        }
    }

    /// The port that a server listens on: `-B`, else `--port`, else the default; 0 lets the system choose.
    pub fn listen_port(&self) -> u16 {
        self.source_port.or(self.port).unwrap_or(DEFAULT_PORT)
    }

    /// The server's port that a client connects to: `-P`, else `--port`, else the default.
    pub fn connect_port(&self) -> u16 {
        self.dest_port.or(self.port).unwrap_or(DEFAULT_PORT)
    }

    /// The port that a client connects from: `-B`, else 0, any.
    pub fn local_port(&self) -> u16 {
        self.source_port.unwrap_or(0)
    }

    /// How long a client tries to reach its server.
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(Duration::from_secs(30))
    }

    /// The core of the server side of a loopback run, or of this process.
    pub fn first_core(&self) -> Option<usize> {
        self.pin.as_ref().and_then(|c| c.0.first().copied())
    }

    /// The core of the client side of a loopback run; the server's where only one was given.
    pub fn last_core(&self) -> Option<usize> {
        self.pin.as_ref().and_then(|c| c.0.last().copied())
    }

    /// The first of the flags for a report that was given.
    fn report_flag(&self) -> Option<&'static str> {
        let flags = [("--json", &self.json), ("--csv", &self.csv), ("--markdown", &self.markdown)];
        flags.into_iter().find_map(|(flag, output)| output.as_ref().map(|_| flag))
    }

    /// The first of the flags for the side that times and reports that was given.
    fn client_flag(&self) -> Option<&'static str> {
        let others = [
            ("--clock", self.clock.is_some()),
            ("--percentiles", self.percentiles.is_some()),
            ("--connect-timeout", self.connect_timeout.is_some()),
        ];
        self.report_flag().or_else(|| others.into_iter().find_map(|(flag, given)| given.then_some(flag)))
    }

    /// Checks what no single flag can see, and says what is wrong and what to write instead.
    ///
    /// Whether two reports meet in one file is found out when they are opened, by whatever name each has.
    pub(super) fn check(&self) -> Result<(), String> {
        if let (Role::Server, Some(flag)) = (self.role(), self.client_flag()) {
            return Err(format!(
                "{flag} is for the client, which connects, times and reports, and without a HOST this \
                 side is the server; give it there, as in `efa-pingpong HOST {flag}`"
            ));
        }
        if let (true, Some(flag)) = (self.dry_run, self.report_flag()) {
            return Err(format!(
                "--dry-run measures nothing, so there is no report for {flag} to write; leave one of \
                 them out"
            ));
        }
        self.check_ports()?;
        if let Some(Cores(cores)) = &self.pin
            && cores.len() > 1
            && !self.loopback
        {
            return Err("--pin with two cores is for --loopback; each side of a two-host run \
                     takes its own core, as in `--pin 2`"
                .into());
        }
        if let (true, Some(address)) = (self.ipv6, self.source_address)
            && address.is_ipv4()
        {
            return Err(format!(
                "-6 asks for IPv6 only and --source-address {address} is an IPv4 address; \
                     leave one of them out"
            ));
        }
        self.check_link_local()
    }

    /// A link-local source address has its interface from the HOST, which a server has not.
    fn check_link_local(&self) -> Result<(), String> {
        let Some(address) = self.source_address.filter(|address| address::is_link_local(*address)) else {
            return Ok(());
        };
        let remedy = match self.role() {
            // A name may stand for an address with an interface, and what has one is no bare address.
            Role::Client(host) if address::unbracketed(host).parse::<IpAddr>().is_err() => return Ok(()),
            Role::Client(_) => "",
            Role::Server => "; a server leaves -s out and listens on all of its addresses",
            Role::Loopback => "; with --loopback leave it out",
        };
        Err(format!(
            "--source-address {address} is a link-local address, which is used from an interface; a client names it \
             in its HOST, as in `efa-pingpong fe80::2%IFACE -s {address}`{remedy}"
        ))
    }

    fn check_ports(&self) -> Result<(), String> {
        match self.role() {
            Role::Server => {
                if let Some(port) = self.dest_port {
                    return Err(format!(
                        "--dest-port {port} is the port that a client connects to, and without a \
                         HOST this side is the server; use `--port {port}` to listen on it, or \
                         add the HOST"
                    ));
                }
                if let (Some(source), Some(port)) = (self.source_port, self.port) {
                    return Err(format!(
                        "--source-port {source} and --port {port} both name the port that this \
                         server listens on; leave one of them out"
                    ));
                }
            }
            Role::Client(host) if self.port == Some(0) => {
                return Err(format!(
                    "--port 0 lets a server choose its port, and this side is the client of \
                     '{}'; give the port that the server printed",
                    excerpt(host)
                ));
            }
            Role::Client(_) | Role::Loopback => {}
        }
        Ok(())
    }
}
