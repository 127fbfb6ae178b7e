//! What a benchmark is: a list of points, the traffic of each, and one batch of operations on either side.
//!
//! The [`runner`](crate::runner) does the rest: warm-up, batches, when to stop, counting, and talking to the
//! other side between batches. So a new benchmark is one file in [`benchmarks`](crate::benchmarks) and one line
//! in its list.

use crate::clock::Clock;
use crate::plan::Plan;
use crate::record::Recorder;
use crate::rig::{Rig, RunError};

/// What a benchmark says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it measures, in one sentence.
    pub about: &'static str,
    /// Processes that take part.
    pub ranks: u32,
}

/// One point of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its place in the sweep.
    pub index: u32,
    /// Size of a message in bytes.
    pub size: u64,
}

/// What one iteration of a point moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Messages, in all directions.
    pub messages: u64,
    /// Payload bytes, in all directions.
    pub bytes: u64,
}

/// A benchmark of two sides.
pub trait Benchmark {
    /// Its name and shape.
    const META: Meta;

    /// The points of a plan, in the order in which they run.
    fn points(&self, plan: &Plan) -> Vec<Point> {
        (0..).zip(&plan.sizes).map(|(index, &size)| Point { index, size }).collect()
    }

    /// What one iteration moves.
    fn traffic(&self, point: &Point) -> Traffic;

    /// Runs `iterations` on this side, and returns when none of its operations but posted receives is in
    /// flight. The client pushes one sample for each iteration.
    ///
    /// # Errors
    /// Whatever ends the run early.
    fn run<C: Clock>(&self, rig: &mut Rig<'_, C>, iterations: u64, recorder: &mut Recorder) -> Result<(), RunError>;
}
