//! One message there, one message back: the latency that everything else is built on.

use crate::benchmark::{Benchmark, Meta, Point, Traffic};
use crate::clock::Clock;
use crate::record::Recorder;
use crate::rig::{Rig, Role, RunError};

/// Ping-pong between two processes; a sample is one round trip as the client sees it.
///
/// A round trip ends when the answer has arrived and the client's own send has completed. The next one begins
/// with that same reading of the clock, or with a new one where bytes are verified in between. The client has a receive posted at all times, and so has the server: each
/// posts the next one after its answer is on the way, while an older one is still waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct PingPong;

impl Benchmark for PingPong {
    const META: Meta =
        Meta { name: "pingpong", about: "half round trip and bandwidth of one message at a time", ranks: 2 };

    fn traffic(&self, point: &Point) -> Traffic {
        Traffic { messages: 2, bytes: 2 * point.size }
    }

    fn run<C: Clock>(&self, rig: &mut Rig<'_, C>, iterations: u64, recorder: &mut Recorder) -> Result<(), RunError> {
        match rig.role() {
            Role::Client => ask(rig, iterations, recorder),
            Role::Server => answer(rig, iterations),
        }
    }
}

fn ask<C: Clock>(rig: &mut Rig<'_, C>, iterations: u64, recorder: &mut Recorder) -> Result<(), RunError> {
    let mut taken = None;
    let mut start = rig.clock.now();
    for _ in 0..iterations {
        if rig.prepare() {
            start = rig.clock.now();
        }
        rig.send()?;
        // While the message is under way; another receive is posted for its answer.
        if let Some(buf) = taken.take() {
            rig.post(buf)?;
        }
        rig.until(|link| link.arrived() && link.sent())?;
        let end = rig.clock.now();
        recorder.push(start, end);
        taken = Some(rig.take()?);
        start = end;
    }
    taken.map_or(Ok(()), |buf| rig.post(buf))
}

fn answer<C: Clock>(rig: &mut Rig<'_, C>, iterations: u64) -> Result<(), RunError> {
    for _ in 0..iterations {
        rig.prepare();
        rig.until(|link| link.arrived())?;
        rig.send()?;
        // The client fetches a long answer while this side polls: verification comes after that.
        rig.until(|link| link.sent())?;
        let buf = rig.take()?;
        rig.post(buf)?;
    }
    Ok(())
}
