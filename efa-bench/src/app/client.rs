//! The client: connects, asks, measures, reports.

use std::io::{Stdout, stdout};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::events::ClientEvents;
use super::session::{self, Local};
use super::{Exit, Failure};
use crate::args::{ClockChoice, Output, PingPongArgs, Wait};
use crate::benchmark::Benchmark;
use crate::benchmarks::PingPong;
use crate::clock::{self, Clock, OpenClock};
use crate::control::{Accept, Control, Message, Stop, Target, connect, loopback_note};
use crate::environment::{Circumstances, CpuSnapshot, Environment, may_share, warnings};
use crate::observer::{self, Observer, Phase};
use crate::plan::Plan;
use crate::report::{self, Outcome, Report};
use crate::rig::{BUFFERS_PER_SIDE, Rig, Role, RunError, WaitMode, Watch};
use crate::runner;
use crate::select::{self, Choice};
use crate::units::format_size;
use crate::writers::{Flow, Format, Outputs};

/// What the server may take to look at itself and choose, beyond the time-out.
const ANSWERING: Duration = Duration::from_secs(10);
/// What closing may take: the peer is done as well.
const CLOSING: Duration = Duration::from_secs(5);

/// Runs the client against the server on `host`.
pub(super) fn run(args: &PingPongArgs, host: &str, stop: &Stop) -> Result<(), Failure> {
    if args.dry_run {
        return dry_run(args);
    }
    run_at(args, host, || Ok(args.connect_port()), args.first_core(), stop)
}

/// Prints what would run.
pub(super) fn dry_run(args: &PingPongArgs) -> Result<(), Failure> {
    let plan = Plan::from_args(args);
    let mut text = plan.lines().join("\n");
    text.push_str(&format!(
        "\nbuffers: {BUFFERS_PER_SIDE} of {} on each side, {} ({} bytes)\n",
        format_size(plan.max_size()),
        format_size(plan.footprint_bytes(BUFFERS_PER_SIDE)),
        plan.footprint_bytes(BUFFERS_PER_SIDE)
    ));
    super::print(text.as_bytes())
}

/// Runs the client on `core` against a server at `host`, whose port is asked for when reports can be written.
pub(super) fn run_at(
    args: &PingPongArgs,
    host: &str,
    port: impl FnOnce() -> Result<u16, Failure>,
    core: Option<usize>,
    stop: &Stop,
) -> Result<(), Failure> {
    let requests: Vec<(Format, Output)> =
        [(Format::Json, &args.json), (Format::Csv, &args.csv), (Format::Markdown, &args.markdown)]
            .into_iter()
            .filter_map(|(format, output)| Some((format, output.clone()?)))
            .collect();
    let mut outputs = Outputs::open(&requests, stdout())?;
    let mut observer = observer::on_stderr(args.verbose > 0);
    let mut report = Report::new(report::Run::new(PingPong::META.name, SystemTime::now()));
    report.run.plan = Some(Plan::from_args(args));
    let start = Instant::now();
    let mut client = Client { args, outputs: &mut outputs, observer: observer.as_mut(), report: &mut report };
    let ended = port().and_then(|port| {
        let (local, local_port) = (args.source_address, args.local_port());
        client.run(&Target { host, port, local, local_port, ipv6_only: args.ipv6 }, core, stop)
    });
    let ended = ended.map_err(|failure| failure.or_interrupted(stop));
    observer.finished();
    report.run.set_elapsed(start.elapsed());
    report.outcome = match &ended {
        Ok(()) => Outcome::complete(),
        Err(failure) if report.points.is_empty() => Outcome::failed(&failure.text),
        Err(failure) => Outcome::partial(&failure.text),
    };
    Failure::ending(ended, outputs.finish(&report))
}

struct Client<'a> {
    args: &'a PingPongArgs,
    outputs: &'a mut Outputs<Stdout>,
    observer: &'a mut dyn Observer,
    report: &'a mut Report,
}

impl Client<'_> {
    fn run(&mut self, target: &Target<'_>, core: Option<usize>, stop: &Stop) -> Result<(), Failure> {
        let mut plan = Plan::from_args(self.args);
        self.observer.phase(Phase::Resolve);
        let choice = self.args.clock.unwrap_or(ClockChoice::Auto);
        let local = Local::new(core, stop)?;
        self.report.run.sides.local = Some(local.side(report::Role::Client));
        self.report.environment.local = Some(local.environment.clone());
        // What is not there is not waited for.
        let resolve = |error: &dyn std::fmt::Display| Failure::setup(Phase::Resolve, error);
        select::check_names(&session::request(&local, &plan, None, None)).map_err(|error| resolve(&error))?;
        local.check_memory(&plan, false, Phase::Resolve)?;
        let clock = clock::open(choice).map_err(|error| resolve(&error))?;

        self.observer.phase(Phase::Control);
        let deadline = Instant::now() + self.args.connect_timeout();
        let mut control = connect(target, &local.hello, deadline, &local.stop)
            .map_err(|error| Failure::control(Phase::Control, &error))?;
        if let Some(note) = loopback_note(target.host, control.peer_addr().ip()) {
            self.observer.note(&note);
            self.report.warn("loopback-name", note);
        }
        let ended = self.with_server(&mut plan, &local, &clock, &mut control);
        match &ended {
            // Nothing to say to this user, for whom the end is none, but the server has to know.
            Err(failure) if failure.text.is_empty() => control.abort("the reader of its output has left"),
            // The server learns why, unless it is gone or has said so itself.
            Err(failure) => control.abort(&failure.text),
            // The goodbye was said before the link was closed.
            Ok(()) => control.finish(Instant::now() + CLOSING),
        }
        ended
    }

    fn with_server(
        &mut self,
        plan: &mut Plan,
        local: &Local,
        clock: &OpenClock,
        control: &mut Control,
    ) -> Result<(), Failure> {
        self.observer.phase(Phase::Handshake);
        let same_host = local.hello.same_host(control.hello());
        self.introduce(local, control, same_host);
        let accept = agree(plan, local, control)?;
        local.check_memory(plan, same_host, Phase::Handshake)?;
        // The server chose; this side takes the same or gives up.
        plan.provider = Some(accept.provider.clone());
        if accept.provider == "efa" {
            plan.fabric = Some(accept.fabric.clone());
        }
        let choice = select::choose(&session::request(local, plan, Some(control), Some(same_host)))
            .map_err(|error| Failure::setup(Phase::Handshake, error))?;
        self.describe(plan, &choice, &accept, control);
        let environment = accept.environment.as_ref();
        let observer = &mut *self.observer;
        let mut phase = |phase| observer.phase(phase);
        let meeting = session::meet(local, &choice, plan, control, &mut phase)?;
        self.report.run.addresses = report::Pair {
            local: Some(report::Addresses {
                fabric: Some(meeting.ours.to_string()),
                control: Some(control.local_addr().to_string()),
            }),
            peer: Some(report::Addresses {
                fabric: Some(meeting.theirs.to_string()),
                control: Some(control.peer_addr().to_string()),
            }),
        };
        let mode = session::wait_mode(plan.wait, same_host, &local.environment, environment);
        self.report.run.inject = Some(meeting.inject);
        self.report.run.wait = Some(match mode {
            WaitMode::Spin => Wait::Spin,
            WaitMode::Yield => Wait::Yield,
        });
        // Once more at the end, when the drift is known.
        self.report.run.set_clock(clock.describe());
        if let Flow::Closed = self.outputs.begin(self.report)? {
            return Err(Failure::new(Exit::Fine, ""));
        }
        let where_it_ran = session::context(&choice, &meeting, (control.local_addr(), control.peer_addr()));
        let leftover = session::leftover(&meeting, same_host, control.hello());
        let watch = Watch::new(control, &local.stop, plan.timeout, mode);
        let (link, verify) = (meeting.link, plan.verify.then_some(plan.seed));
        let ended = match clock {
            OpenClock::Tsc(clock) => {
                let rig = Rig::new(link, clock, Role::Client, watch, verify);
                self.measure(plan, local, environment, rig, &where_it_ran)
            }
            OpenClock::Monotonic(clock) => {
                let rig = Rig::new(link, clock, Role::Client, watch, verify);
                self.measure(plan, local, environment, rig, &where_it_ran)
            }
        };
        session::clear_away(&ended, leftover);
        ended
    }

    fn measure<C: Clock>(
        &mut self,
        plan: &Plan,
        local: &Local,
        server: &Environment,
        mut rig: Rig<'_, C>,
        where_it_ran: &str,
    ) -> Result<(), Failure> {
        let before = CpuSnapshot::take(Path::new("/"));
        let mut events = ClientEvents {
            observer: &mut *self.observer,
            report: &mut *self.report,
            outputs: &mut *self.outputs,
            percentiles: &plan.percentiles,
            stop: &local.stop,
            phase: Phase::FirstMessage,
            failed: None,
            closed: false,
        };
        let ended = runner::run_client(&PingPong, &mut rig, plan, &mut events);
        let (phase, failed, closed) = (events.phase, events.failed.take(), events.closed);
        self.report.run.set_clock(rig.clock.describe());
        let foreign = before.and_then(|before| {
            let cores: Vec<_> = local.core.into_iter().collect();
            // The peer's time counts only where it may run on the same cores.
            let shared = self.report.run.intra_node == Some(true) && may_share(&cores, server.cpus_allowed.as_deref());
            let peer = if shared { rig.peer_cpu() } else { Duration::ZERO };
            CpuSnapshot::take(Path::new("/"))?.foreign_share(&before, &cores, peer)
        });
        self.warn(plan, local, server, foreign);
        let ended = ended.and_then(|()| {
            self.observer.phase(Phase::Finish);
            rig.control().send(&Message::Bye)?;
            let link = rig.into_link();
            link.close(CLOSING)
        });
        match (failed, ended) {
            (Some(failure), _) => Err(failure),
            (None, Err(RunError::Interrupted)) if closed => Err(Failure::new(Exit::Fine, "")),
            (None, ended) => ended.map_err(|error| Failure::run(phase, &error, where_it_ran)),
        }
    }

    /// Writes down who the two sides are.
    fn introduce(&mut self, local: &Local, control: &Control, same_host: bool) {
        let run = &mut self.report.run;
        run.intra_node = Some(same_host);
        run.sides.peer = Some(session::peer_side(control.hello(), None, report::Role::Server));
        let control_address = |address: std::net::SocketAddr| {
            Some(report::Addresses { fabric: None, control: Some(address.to_string()) })
        };
        run.addresses =
            report::Pair { local: control_address(control.local_addr()), peer: control_address(control.peer_addr()) };
        for line in local.hello.version_differences(control.hello()) {
            self.observer.note(&line);
            self.report.warn("versions-differ", line);
        }
    }

    /// Writes down what was agreed on.
    fn describe(&mut self, plan: &Plan, choice: &Choice, accept: &Accept, control: &Control) {
        let run = &mut self.report.run;
        run.plan = Some(plan.clone());
        run.provider = Some(choice.info.provider());
        run.fabric = Some(choice.info.fabric());
        run.domain = Some(choice.info.domain());
        let nic = choice.info.nic();
        let firmware = nic.as_ref().and_then(|nic| nic.firmware.as_deref());
        self.report.simulated = is_simulated(&choice.info.domain(), firmware) || is_simulated(&accept.domain, None);
        run.nic = nic.and_then(|nic| nic.name);
        let peer = session::peer_side(control.hello(), Some(&accept.environment), report::Role::Server);
        run.sides.peer = Some(peer);
        self.report.environment.peer = Some((*accept.environment).clone());
        if self.args.verbose > 0 {
            session::note_refused(choice, self.observer);
        }
    }

    /// Warns of everything that makes the figures less trustworthy than they look, on either side.
    fn warn(&mut self, plan: &Plan, local: &Local, server: &Environment, foreign_share: Option<f64>) {
        let intra_node = self.report.run.intra_node == Some(true);
        let locks = self.report.run.provider.as_deref().is_some_and(|p| p == "efa" || p.starts_with("verbs"));
        let run = Circumstances {
            known_variables: &local.variables,
            verify: plan.verify,
            intra_node,
            // A process that may run on one core only is pinned to it, by whatever means.
            core: local.core.or(session::only_core(&local.environment).map(|core| core as usize)),
            peer_core: session::only_core(server).map(|core| core as usize),
            locked_bytes: locks.then(|| plan.buffers_bytes(BUFFERS_PER_SIDE)),
            foreign_share,
        };
        for warning in warnings(&local.environment, &run) {
            self.report.warn(warning.id, warning.text);
        }
        let theirs = Circumstances { verify: false, intra_node: false, foreign_share: None, ..run };
        for warning in warnings(server, &theirs) {
            // One host has one governor and one container.
            if !intra_node || ["debug-build", "log-level"].contains(&warning.id.as_str()) {
                self.report.warn(warning.id, format!("on the server: {}", warning.text));
            }
        }
    }
}

/// Whether a device is the software EFA device of this project, which says so in its name and its firmware version.
fn is_simulated(domain: &str, firmware: Option<&str>) -> bool {
    domain.starts_with("efasim") || firmware.is_some_and(|version| version.starts_with("efa-sim"))
}

/// Sends the plan, and hears what the server makes of it.
fn agree(plan: &Plan, local: &Local, control: &mut Control) -> Result<Accept, Failure> {
    let failed = |error| Failure::control(Phase::Handshake, &error);
    let sent = control
        .send(&Message::Plan(Box::new(plan.clone())))
        .and_then(|()| control.send(&Message::Environment(Box::new(local.environment.clone()))));
    if let Err(error) = sent {
        // A server that is busy refuses without listening; what it said lies here all the same.
        return match control.recv(Instant::now()) {
            Ok(Message::Refuse(refusal)) => Err(Failure::refused(&refusal)),
            _ => Err(failed(error)),
        };
    }
    match control.recv(Instant::now() + plan.timeout + ANSWERING).map_err(failed)? {
        Message::Accept(accept) => Ok(*accept),
        Message::Refuse(refusal) => Err(Failure::refused(&refusal)),
        other => Err(failed(control.unexpected("Accept or Refuse", &other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_software_device_is_told_from_hardware() {
        assert!(is_simulated("efasim0-rdm", None));
        assert!(is_simulated("renamed", Some("efa-sim 0.1.0")));
        assert!(!is_simulated("rdmap0s6-rdm", Some("1.2.3")));
        assert!(!is_simulated("lo", None));
    }
}
