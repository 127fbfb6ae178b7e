//! What the runner tells, turned into what the user sees.

use std::io::Stdout;
use std::net::SocketAddr;

use super::Failure;
use super::session::Local;
use crate::benchmark::Point;
use crate::control::{Listener, Stop};
use crate::observer::{Observer, Phase};
use crate::report::{self, Report};
use crate::runner::Events;
use crate::stats::PointResult;
use crate::writers::{Flow, Outputs};

/// Steps that a point's progress is shown in.
const STEPS: u64 = 1000;

/// The client's: keeps the report, and shows and writes it as it grows.
pub(super) struct ClientEvents<'a> {
    pub(super) observer: &'a mut dyn Observer,
    pub(super) report: &'a mut Report,
    pub(super) outputs: &'a mut Outputs<Stdout>,
    pub(super) percentiles: &'a [f64],
    pub(super) stop: &'a Stop,
    pub(super) phase: Phase,
    /// What could not be written, which ends the run.
    pub(super) failed: Option<Failure>,
    /// Whether the reader of standard output left, which ends the run quietly.
    pub(super) closed: bool,
}

impl Events for ClientEvents<'_> {
    fn phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.observer.phase(phase);
    }

    fn point_started(&mut self, point: &Point) {
        self.observer.point_started(point.size);
    }

    fn progress(&mut self, fraction: f64) {
        self.observer.progress((fraction * STEPS as f64) as u64, STEPS);
    }

    fn point_finished(&mut self, result: PointResult) {
        self.observer.point_finished(&result);
        self.report.points.push(report::Point::new(&result, self.percentiles));
        match self.outputs.point(self.report) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Closed) => {
                self.closed = true;
                self.stop.request();
            }
            Err(error) => {
                self.failed.get_or_insert(error.into());
                self.stop.request();
            }
        }
    }
}

/// The server's: shows which size runs, and sends other clients away.
pub(super) struct ServerEvents<'a> {
    pub(super) observer: &'a mut dyn Observer,
    pub(super) listener: &'a mut Listener,
    pub(super) local: &'a Local,
    /// The client that is being served.
    pub(super) client: String,
    pub(super) phase: Phase,
}

impl Events for ServerEvents<'_> {
    fn phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.observer.phase(phase);
    }

    fn point_started(&mut self, point: &Point) {
        self.observer.point_started(point.size);
    }

    fn progress(&mut self, _fraction: f64) {
        let observer = &mut *self.observer;
        let mut say = |from: SocketAddr, why: &str| observer.note(&format!("{from} {why}"));
        // Out of file descriptors: the client that is being served needs none, and the others wait.
        let _ = self.listener.refuse_busy(&self.local.hello, &self.client, &self.local.stop, &mut say);
    }

    fn point_finished(&mut self, _result: PointResult) {}
}
