//! The server: waits, takes the client's plan, answers.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::events::ServerEvents;
use super::session::{self, Local};
use super::{Exit, Failure};
use crate::args::PingPongArgs;
use crate::benchmarks::PingPong;
use crate::clock::MonotonicClock;
use crate::control::{Accept, Control, ControlError, Listener, Message, Refusal, Stop};
use crate::environment::Environment;
use crate::observer::{self, Observer, Phase};
use crate::plan::{Constraints, Plan};
use crate::rig::{Rig, Role, Watch};
use crate::runner;
use crate::select;

/// What a client may take between its hello and its plan.
const PLAN_TIMEOUT: Duration = Duration::from_secs(10);
/// What closing may take: the peer is done as well.
const CLOSING: Duration = Duration::from_secs(5);

/// Serves one client, or all that come until interrupted.
pub(super) fn run(args: &PingPongArgs, stop: &Stop) -> Result<(), Failure> {
    let mut listening = false;
    let ended = serve_all(args, stop, &mut listening);
    match ended {
        // The parent process says it, and writes it into its report.
        Err(failure) if args.announce && !listening => {
            let text = serde_json::json!({ "error": failure.text });
            let told = writeln!(std::io::stdout(), "{text}");
            Err(if told.is_ok() { Failure::new(failure.exit, "") } else { failure })
        }
        ended => ended,
    }
}

fn serve_all(args: &PingPongArgs, stop: &Stop, listening: &mut bool) -> Result<(), Failure> {
    if let Some(flag) = reports(args) {
        let text = format!(
            "{flag} on the server: the client has the figures and writes the report; give {flag} to `efa-pingpong HOST`"
        );
        return Err(Failure::new(Exit::Usage, text));
    }
    if args.dry_run {
        return super::print(b"operation: serve the plan of whoever connects\n");
    }
    if args.announce {
        // A child of a loopback run must not outlive its parent.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
    let mut observer = observer::on_stderr(args.verbose > 0);
    let local = Local::new(args.first_core(), stop)?;
    let constraints = Constraints::from_args(args);
    // What is not there is said before anybody is waited for.
    let names = select::Request {
        provider: args.provider.clone(),
        fabric: args.fabric.clone(),
        domain: args.domain.clone(),
        ..local.request()
    };
    select::check_names(&names).map_err(|error| Failure::setup(Phase::Resolve, error))?;
    observer.phase(Phase::Control);
    let failed = |error: ControlError| Failure::control(Phase::Control, &error);
    let mut listener = Listener::bind(args.source_address, args.listen_port(), args.ipv6).map_err(failed)?;
    announce(args, listener.local_addr(), observer.as_mut())?;
    *listening = true;
    loop {
        let mut on_stranger = |from: SocketAddr, why: &str| observer.note(&format!("dropped {from}: {why}"));
        let mut control = listener.accept(&local.hello, None, &local.stop, &mut on_stranger).map_err(failed)?;
        if !args.announce {
            observer.note(&format!("client {} ({})", control.peer_addr(), control.hello().host));
        }
        for line in local.hello.version_differences(control.hello()) {
            observer.note(&line);
        }
        let mut server = Server {
            args,
            local: &local,
            constraints: &constraints,
            listener: &mut listener,
            observer: observer.as_mut(),
        };
        let ended = server.serve(&mut control).map_err(|failure| failure.or_interrupted(stop));
        match &ended {
            Err(failure) => control.abort(&failure.text),
            Ok(()) => {
                let _ = control.close(Instant::now() + CLOSING);
            }
        }
        observer.finished();
        match ended {
            Err(failure) if args.persist && failure.exit != Exit::Interrupted => {
                observer.note(&format!("this client failed: {}", failure.text));
            }
            Ok(()) if args.persist => observer.note("done; waiting for the next client"),
            ended => return ended,
        }
    }
}

/// A report flag that was given: only the client has anything to report.
fn reports(args: &PingPongArgs) -> Option<&'static str> {
    [("--json", &args.json), ("--csv", &args.csv), ("--markdown", &args.markdown)]
        .into_iter()
        .find_map(|(flag, output)| output.as_ref().map(|_| flag))
}

/// Says where the server listens: to people, or to a parent process.
fn announce(args: &PingPongArgs, address: SocketAddr, observer: &mut dyn Observer) -> Result<(), Failure> {
    if !args.announce {
        let port = address.port();
        let flag = if port == crate::args::DEFAULT_PORT { String::new() } else { format!(" --port {port}") };
        let place = if address.ip().is_unspecified() { "all addresses".into() } else { address.ip().to_string() };
        observer.note(&format!("listening on port {port} of {place}; on the other host: efa-pingpong HOST{flag}"));
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{{\"control_port\":{}}}", address.port())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::setup(Phase::Control, format!("the parent process does not listen: {error}")))
}

struct Server<'a> {
    args: &'a PingPongArgs,
    local: &'a Local,
    constraints: &'a Constraints,
    listener: &'a mut Listener,
    observer: &'a mut dyn Observer,
}

impl Server<'_> {
    fn serve(&mut self, control: &mut Control) -> Result<(), Failure> {
        self.observer.phase(Phase::Handshake);
        let (mut plan, theirs) = hear(control)?;
        plan.check().map_err(|error| Failure::setup(Phase::Handshake, error))?;
        let same_host = self.local.hello.same_host(control.hello());
        let choice = match self.choose(&mut plan, control, same_host) {
            Ok(choice) => choice,
            Err((refusal, failure)) => {
                let _ = control.send(&Message::Refuse(refusal));
                return Err(failure);
            }
        };
        let info = &choice.info;
        let accept = Accept {
            provider: info.provider(),
            fabric: info.fabric(),
            domain: info.domain(),
            nic: info.nic().and_then(|nic| nic.name),
            environment: Box::new(self.local.environment.clone()),
        };
        if self.args.verbose > 0 {
            session::note_refused(&choice, self.observer);
        }
        self.say_plan(&plan, &accept);
        let failed = |error| Failure::control(Phase::Handshake, &error);
        control.send(&Message::Accept(Box::new(accept))).map_err(failed)?;
        let observer = &mut *self.observer;
        let mut phase = |phase| observer.phase(phase);
        let meeting = session::meet(self.local, &choice, &plan, control, &mut phase)?;
        let mode = session::wait_mode(plan.wait, same_host, &self.local.environment, &theirs);
        let context = session::context(&choice, &meeting, (control.local_addr(), control.peer_addr()));
        let client = format!("{} ({})", control.peer_addr(), control.hello().host);
        let leftover = session::leftover(&meeting, same_host, control.hello());
        let watch = Watch::new(control, &self.local.stop, plan.timeout, mode);
        let clock = MonotonicClock::new("the server times nothing");
        let mut rig = Rig::new(meeting.link, &clock, Role::Server, watch, plan.verify.then_some(plan.seed));
        let mut events = ServerEvents {
            observer: &mut *self.observer,
            listener: &mut *self.listener,
            local: self.local,
            client,
            phase: Phase::FirstMessage,
        };
        let ended =
            runner::run_server(&PingPong, &mut rig, &plan, &mut events).and_then(|()| rig.into_link().close(CLOSING));
        let ended = ended.map_err(|error| Failure::run(events.phase, &error, &context));
        session::clear_away(&ended, leftover);
        ended
    }

    /// Takes the plan: checks it against what this server was given, and chooses a provider.
    fn choose(
        &self,
        plan: &mut Plan,
        control: &Control,
        same_host: bool,
    ) -> Result<select::Choice, (Refusal, Failure)> {
        let differences = plan.differences(self.constraints);
        if !differences.is_empty() {
            let refusal = Refusal::Differences(differences);
            let failure = Failure::refused(&refusal);
            return Err((refusal, failure));
        }
        plan.provider = plan.provider.take().or_else(|| self.constraints.provider.clone());
        plan.fabric = plan.fabric.take().or_else(|| self.constraints.fabric.clone());
        // The client's domain is one of its host; this host has its own.
        plan.domain = self.args.domain.clone();
        let refuse = |failure: Failure| (Refusal::Reason(failure.text.clone()), failure);
        self.local.check_memory(plan, same_host, Phase::Handshake).map_err(refuse)?;
        let request = session::request(self.local, plan, Some(control), Some(same_host));
        select::choose(&request).map_err(|error| refuse(Failure::setup(Phase::Handshake, error)))
    }

    /// Prints what this server is about to run.
    fn say_plan(&mut self, plan: &Plan, accept: &Accept) {
        if self.args.announce {
            return;
        }
        for line in plan.lines() {
            self.observer.note(&line);
        }
        self.observer
            .note(&format!("chosen: provider {}, fabric {}, domain {}", accept.provider, accept.fabric, accept.domain));
    }
}

/// The client's plan, and where it runs.
fn hear(control: &mut Control) -> Result<(Plan, Environment), Failure> {
    let failed = |error| Failure::control(Phase::Handshake, &error);
    let patience = Instant::now() + PLAN_TIMEOUT;
    let plan = match control.recv(patience).map_err(failed)? {
        Message::Plan(plan) => *plan,
        other => return Err(failed(control.unexpected("Plan", &other))),
    };
    match control.recv(patience).map_err(failed)? {
        Message::Environment(environment) => Ok((plan, *environment)),
        other => Err(failed(control.unexpected("Environment", &other))),
    }
}
