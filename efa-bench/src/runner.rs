//! Runs a benchmark's points on either side: warm-up, batches, and the rule that says when a point is done.
//!
//! The client leads. Before each batch it announces how many iterations follow and waits until the server
//! is ready; after it, both exchange counts. Nothing of that is timed.

use std::time::{Duration, Instant};

use crate::args::{Mode, Warmup};
use crate::benchmark::{Benchmark, Point};
use crate::clock::Clock;
use crate::control::{Counts, Message};
use crate::observer::Phase;
use crate::plan::{Iterations, Plan};
use crate::record::{Recorder, RunSamples};
use crate::rig::{Rig, RunError};
use crate::stats::{self, EndedBy, PointResult};

/// Samples between two folds: 1 MiB of clock readings.
const BATCH_LIMIT: u64 = 65_536;
/// A batch lasts about this long at most, so that progress shows and a stop is exact to that much.
const BATCH_TIME: Duration = Duration::from_millis(250);
/// A batch has at most this many times the iterations of the one before: a figure taken from a few iterations, while
/// others kept the cores busy or did not, is no measure for thousands.
const GROWTH: u64 = 4;
/// Unrecorded iterations at the head of each measured batch: caches went cold while the two sides talked.
const LEAD: u64 = 8;
/// A warm-up counted in iterations ends after this long all the same: on a slow path it has done its work.
const WARMUP_TIME: Duration = Duration::from_millis(500);
/// Confidence of the interval that an adaptive run narrows.
const CONFIDENCE: f64 = 0.95;
/// What the server waits for its client beyond the time-out: the client writes its files in between.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);

/// What the runner tells while it runs, always outside of timed regions.
pub trait Events {
    /// What is being done now.
    fn phase(&mut self, phase: Phase);
    /// A point begins.
    fn point_started(&mut self, point: &Point);
    /// This much of the point is done, from 0 to 1.
    fn progress(&mut self, fraction: f64);
    /// A point is done, or as much of it as there will be.
    fn point_finished(&mut self, result: PointResult);
}

/// Measures every point, as the client.
///
/// A point that ends early is still delivered, with what it has.
///
/// # Errors
/// What ended the run early.
pub fn run_client<B: Benchmark, C: Clock>(
    benchmark: &B,
    rig: &mut Rig<'_, C>,
    plan: &Plan,
    events: &mut impl Events,
) -> Result<(), RunError> {
    rig.control().phase("running the benchmark");
    let mut recorder = Recorder::new(BATCH_LIMIT as usize);
    for point in benchmark.points(plan) {
        events.point_started(&point);
        let mut client =
            Client { benchmark, rig, point, recorder: &mut recorder, first_message_ns: None, timed: Duration::ZERO };
        let ended = client.measure(plan, events);
        let (samples, elapsed) = (client.take_samples(), client.timed);
        let some = samples.count + samples.invalid > 0 || samples.first_message_ns.is_some();
        let ended_by = *ended.as_ref().unwrap_or(&EndedBy::Interrupted);
        if ended.is_ok() || some {
            let op = match plan.op {
                Mode::Msg => "msg",
                Mode::Tagged => "tagged",
            };
            let verified = rig.verified();
            let op = op.into();
            events.point_finished(PointResult { op, size_bytes: point.size, samples, elapsed, verified, ended_by });
        }
        ended?;
    }
    Ok(())
}

/// The client's side of one point.
struct Client<'r, 'a, B, C> {
    benchmark: &'r B,
    rig: &'r mut Rig<'a, C>,
    point: Point,
    recorder: &'r mut Recorder,
    first_message_ns: Option<u64>,
    /// Wall time of the loops that are recorded.
    timed: Duration,
}

impl<B: Benchmark, C: Clock> Client<'_, '_, B, C> {
    fn measure(&mut self, plan: &Plan, events: &mut impl Events) -> Result<EndedBy, RunError> {
        self.rig.start_point(self.point.size as usize);
        events.phase(Phase::FirstMessage);
        let mut pace = Pace::new(self.first_message()?);
        events.phase(Phase::WarmUp);
        self.warm_up(plan.warmup, &mut pace)?;
        events.phase(Phase::Measure);
        let rule = StopRule::of(plan);
        pace.elapsed = Duration::ZERO;
        loop {
            match rule.next(self.recorder.samples(), &pace) {
                Step::End(ended_by) => return Ok(ended_by),
                Step::Run(iterations) => pace.add(iterations, self.batch(LEAD, iterations)?),
            }
            events.progress(rule.progress(self.recorder.samples(), &pace));
        }
    }

    /// Times the first message of the point by itself: connections are set up, caches are cold.
    fn first_message(&mut self) -> Result<Duration, RunError> {
        let took = self.batch(0, 1)?;
        self.first_message_ns = self.recorder.take().min_ns;
        self.timed = Duration::ZERO;
        Ok(took)
    }

    /// Runs iterations that nobody records, and learns the pace from them.
    fn warm_up(&mut self, warmup: Warmup, pace: &mut Pace) -> Result<(), RunError> {
        let (mut left, limit) = match warmup {
            Warmup::Iterations(n) => (n, WARMUP_TIME),
            Warmup::Time(time) => (u64::MAX, time),
        };
        let start = Instant::now();
        while left > 0 {
            let Some(time) = limit.checked_sub(start.elapsed()) else { break };
            let iterations = batch(left, time, pace);
            pace.add(iterations, self.batch(iterations, 0)?);
            left -= iterations;
        }
        Ok(())
    }

    /// One batch on both sides: `lead` iterations that are not recorded, then `iterations` that are.
    /// Returns how long the recorded ones took, or the lead where there are none.
    fn batch(&mut self, lead: u64, iterations: u64) -> Result<Duration, RunError> {
        let announce = Message::Batch {
            point: self.point.index,
            size: self.point.size,
            iterations: lead + iterations,
            warmup: iterations == 0,
        };
        let patience = Instant::now() + self.rig.timeout();
        let control = self.rig.control();
        match control.exchange(&announce, patience)? {
            Message::Ready => {}
            other => return Err(control.unexpected("Ready", &other).into()),
        }
        self.rig.start_batch();
        self.recorder.disarm();
        let mut start = Instant::now();
        if lead > 0 {
            self.benchmark.run(self.rig, lead, self.recorder)?;
        }
        if iterations > 0 {
            start = Instant::now();
            self.recorder.arm();
            let ended = self.benchmark.run(self.rig, iterations, self.recorder);
            self.timed += start.elapsed();
            ended?;
        }
        let took = start.elapsed();
        self.recorder.fold(self.rig.clock);
        self.compare_counts()?;
        Ok(took)
    }

    /// Hears what the server counted, and whether it found wrong data.
    fn compare_counts(&mut self) -> Result<(), RunError> {
        check_counts(self.rig)?;
        let patience = Instant::now() + self.rig.timeout();
        let control = self.rig.control();
        let theirs = match control.recv(patience)? {
            Message::Done(counts) => counts,
            other => return Err(control.unexpected("Done", &other).into()),
        };
        self.rig.note_peer_cpu(Duration::from_nanos(theirs.cpu_ns));
        if let Some(mismatch) = theirs.mismatch {
            return Err(RunError::Mismatch { at: "server", mismatch });
        }
        check_messages(self.rig.link.messages_sent(), self.rig.link.messages_received(), &theirs)?;
        let ours = self.rig.verified().unwrap_or(0);
        if theirs.verified != ours {
            let text = format!("the client verified {ours} messages of this point, the server {}", theirs.verified);
            return Err(RunError::Counts(text));
        }
        Ok(())
    }

    fn take_samples(&mut self) -> RunSamples {
        self.recorder.fold(self.rig.clock);
        RunSamples { first_message_ns: self.first_message_ns, ..self.recorder.take() }
    }
}

/// Answers a client's batches until it says goodbye, as the server.
///
/// # Errors
/// What ended the run early; wrong data that this side found is told to the client and returned at the end.
pub fn run_server<B: Benchmark, C: Clock>(
    benchmark: &B,
    rig: &mut Rig<'_, C>,
    plan: &Plan,
    events: &mut impl Events,
) -> Result<(), RunError> {
    rig.control().phase("running the benchmark");
    let points = benchmark.points(plan);
    let mut recorder = Recorder::new(0);
    let (mut current, mut phase) = (None, None);
    // The client looks at the processors from about now on.
    let start_ns = processor_time_ns();
    loop {
        let patience = Instant::now() + rig.timeout() + SERVER_PATIENCE;
        let control = rig.control();
        let (point, size, iterations, warmup) = match control.recv(patience)? {
            Message::Batch { point, size, iterations, warmup } => (point, size, iterations, warmup),
            Message::Bye => break,
            other => return Err(control.unexpected("Batch or Bye", &other).into()),
        };
        let Some(&point) = points.get(point as usize) else {
            return Err(RunError::Counts(format!("the client began point {point}, and the plan has {}", points.len())));
        };
        if size != point.size {
            let text = format!("the client sends {size} bytes, and the plan has {} for that point", point.size);
            return Err(RunError::Counts(text));
        }
        let next = if current.replace(point) != Some(point) {
            events.point_started(&point);
            rig.start_point(point.size as usize);
            Phase::FirstMessage
        } else if warmup {
            Phase::WarmUp
        } else {
            Phase::Measure
        };
        if phase.replace(next) != Some(next) {
            events.phase(next);
        }
        rig.control().send(&Message::Ready)?;
        rig.start_batch();
        benchmark.run(rig, iterations, &mut recorder)?;
        // Between batches: whoever else waits for this server hears now that it is busy.
        events.progress(0.0);
        check_counts(rig)?;
        let counts = Counts {
            sent: rig.link.messages_sent(),
            received: rig.link.messages_received(),
            verified: rig.verified().unwrap_or(0),
            mismatch: rig.mismatch(),
            cpu_ns: processor_time_ns().saturating_sub(start_ns),
        };
        rig.control().send(&Message::Done(counts))?;
    }
    events.phase(Phase::Finish);
    match rig.mismatch() {
        Some(mismatch) => Err(RunError::Mismatch { at: "server", mismatch }),
        None => Ok(()),
    }
}

/// Processor time that this process has used, all threads.
fn processor_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
}

/// Nothing may be lost on the way: what one side sent has been received by the other.
fn check_messages(sent: u64, received: u64, theirs: &Counts) -> Result<(), RunError> {
    if (theirs.received, theirs.sent) == (sent, received) {
        return Ok(());
    }
    Err(RunError::Counts(format!(
        "the client sent {sent} messages and the server received {}; the server sent {} and the client received \
         {received}",
        theirs.received, theirs.sent
    )))
}

/// Nothing may be lost: whatever was posted has completed or is in flight.
fn check_counts<C: Clock>(rig: &Rig<'_, C>) -> Result<(), RunError> {
    let (posts, completions, in_flight) = (rig.link.posts(), rig.link.completions(), rig.link.in_flight());
    if posts == completions + in_flight {
        return Ok(());
    }
    Err(RunError::Counts(format!("{posts} operations posted, {completions} completed and {in_flight} in flight")))
}

/// How fast a point goes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Time of one iteration in the last batch, and in the one before.
    estimates: [Duration; 2],
    /// Iterations of the last batch.
    iterations: u64,
    /// Time of all batches.
    elapsed: Duration,
}

impl Pace {
    /// The pace after one message, whose time holds what set the connection up.
    fn new(first_message: Duration) -> Pace {
        Pace { estimates: [first_message; 2], iterations: 1, elapsed: Duration::ZERO }
    }

    fn add(&mut self, iterations: u64, took: Duration) {
        self.elapsed += took;
        self.estimates = [took.div_f64(iterations.max(1) as f64), self.estimates[0]];
        self.iterations = iterations;
    }

    /// Time of one iteration, by the slower of the last two batches.
    fn estimate(&self) -> Duration {
        self.estimates[0].max(self.estimates[1])
    }
}

/// How many iterations fit into a time.
fn iterations_in(time: Duration, estimate: Duration) -> u64 {
    u64::try_from(time.as_nanos() / estimate.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// When a point is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StopRule {
    Fixed(u64),
    For(Duration),
    Adaptive { min: u64, max: u64, relative_ci: f64, max_time: Duration },
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Run(u64),
    End(EndedBy),
}

impl StopRule {
    fn of(plan: &Plan) -> StopRule {
        match (plan.duration, plan.iterations) {
            (Some(duration), _) => StopRule::For(duration),
            (None, Iterations::Fixed(n)) => StopRule::Fixed(n),
            (None, Iterations::Adaptive { min, max, relative_ci, max_time }) => {
                StopRule::Adaptive { min, max, relative_ci, max_time }
            }
        }
    }

    fn next(&self, samples: &RunSamples, pace: &Pace) -> Step {
        let count = samples.count + samples.invalid + samples.dropped;
        match *self {
            StopRule::Fixed(n) if count >= n => Step::End(EndedBy::Iterations),
            StopRule::Fixed(n) => Step::Run(batch(n - count, BATCH_TIME, pace)),
            StopRule::For(time) if pace.elapsed >= time => Step::End(EndedBy::Time),
            StopRule::For(time) => Step::Run(batch(u64::MAX, time - pace.elapsed, pace)),
            StopRule::Adaptive { min, max, relative_ci, max_time } => {
                let precision = stats::median_precision(&samples.histogram, CONFIDENCE);
                let precise = precision.is_some_and(|p| p <= relative_ci);
                if count >= min && precise {
                    Step::End(EndedBy::Confidence)
                } else if count >= max {
                    Step::End(EndedBy::MaxIterations)
                } else if pace.elapsed >= max_time {
                    Step::End(EndedBy::Time)
                } else {
                    // The interval narrows with the square root of the count: aim a little past the need, and
                    // at most at ten times what there is, for a first precision is a poor guess.
                    let need = match precision {
                        Some(p) if count >= min => (count as f64 * (p / relative_ci).powi(2) * 1.1) as u64,
                        _ => min,
                    };
                    let target = need.clamp(count + 1, (count * 10).max(min)).min(max);
                    Step::Run(batch(target - count, max_time - pace.elapsed, pace))
                }
            }
        }
    }

    /// The part that is done, by whichever bound is nearest.
    fn progress(&self, samples: &RunSamples, pace: &Pace) -> f64 {
        let by_time = |time: Duration| pace.elapsed.as_secs_f64() / time.as_secs_f64();
        let by_count = |n: u64| samples.count as f64 / n as f64;
        let done = match *self {
            StopRule::Fixed(n) => by_count(n),
            StopRule::For(time) => by_time(time),
            StopRule::Adaptive { max, max_time, .. } => by_count(max).max(by_time(max_time)),
        };
        done.clamp(0.0, 1.0)
    }
}

/// At most `wanted`, and what fits into the time that is left, into one batch and into its growth; at least one.
fn batch(wanted: u64, left: Duration, pace: &Pace) -> u64 {
    let fits = iterations_in(left.min(BATCH_TIME), pace.estimate());
    let grown = pace.iterations.saturating_mul(GROWTH).min(BATCH_LIMIT);
    wanted.min(fits).clamp(1, grown.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StopRule =
        StopRule::Adaptive { min: 100, max: 100_000, relative_ci: 0.01, max_time: Duration::from_secs(2) };

    fn pace(estimate_us: u64, elapsed_ms: u64) -> Pace {
        let estimate = Duration::from_micros(estimate_us);
        Pace { estimates: [estimate; 2], iterations: BATCH_LIMIT, elapsed: Duration::from_millis(elapsed_ms) }
    }

    fn spread(count: u64, width: u64) -> RunSamples {
        RunSamples::from_nanos((0..count).map(|i| 10_000 + (i * 7919) % width))
    }

    #[test]
    fn a_message_that_one_side_lacks_is_named_with_the_counts() {
        let theirs = |sent, received| Counts { sent, received, ..Counts::default() };
        assert!(check_messages(7, 5, &theirs(5, 7)).is_ok());
        let lost = check_messages(7, 5, &theirs(6, 7)).unwrap_err().to_string();
        assert!(lost.contains("the server sent 6 and the client received 5"), "{lost}");
        assert!(check_messages(7, 5, &theirs(5, 6)).is_err());
    }

    #[test]
    fn a_fixed_count_is_run_exactly() {
        let rule = StopRule::Fixed(150_000);
        let (mut done, mut batches) = (0, Vec::new());
        while let Step::Run(n) = rule.next(&RunSamples { count: done, ..RunSamples::new() }, &pace(1, 0)) {
            done += n;
            batches.push(n);
        }
        assert_eq!((done, batches), (150_000, vec![65_536, 65_536, 18_928]));
    }

    #[test]
    fn an_adaptive_point_runs_the_least_first_and_then_what_precision_needs() {
        assert_eq!(RULE.next(&RunSamples::new(), &pace(10, 0)), Step::Run(100));
        assert_eq!(RULE.next(&spread(100, 2), &pace(10, 1)), Step::End(EndedBy::Confidence));
        let Step::Run(more) = RULE.next(&spread(100, 5_000), &pace(10, 1)) else { panic!("wide samples need more") };
        assert!((100..=900).contains(&more), "{more}");
    }

    #[test]
    fn an_adaptive_point_ends_at_its_time_and_count() {
        let wide = spread(5_000, 9_000_000);
        assert_eq!(RULE.next(&wide, &pace(10, 2_000)), Step::End(EndedBy::Time));
        let full = RunSamples { count: 100_000, ..wide.clone() };
        assert_eq!(RULE.next(&full, &pace(10, 1_000)), Step::End(EndedBy::MaxIterations));
        // A slow path: not even the least number fits into the time, and batches stay short.
        assert_eq!(RULE.next(&RunSamples::new(), &pace(100_000, 0)), Step::Run(2));
        assert_eq!(RULE.next(&RunSamples::new(), &pace(3_000_000, 0)), Step::Run(1));
    }

    #[test]
    fn a_batch_grows_by_steps_and_by_the_slower_of_the_last_two() {
        let rule = StopRule::For(Duration::from_secs(1));
        let mut pace = Pace::new(Duration::from_micros(10));
        let mut steps = Vec::new();
        for _ in 0..4 {
            let Step::Run(n) = rule.next(&RunSamples::new(), &pace) else { panic!("a second is not over") };
            steps.push(n);
            // Suspiciously fast: nothing else ran on the cores for once.
            pace.add(n, Duration::from_nanos(n));
        }
        assert_eq!(steps, [4, 16, 64, 256]);
        let slow = Pace { estimates: [Duration::from_micros(1), Duration::from_millis(1)], ..pace };
        assert_eq!(rule.next(&RunSamples::new(), &slow), Step::Run(250));
    }

    #[test]
    fn a_duration_is_kept_to_a_batch() {
        let rule = StopRule::For(Duration::from_secs(1));
        assert_eq!(rule.next(&RunSamples::new(), &pace(10, 0)), Step::Run(25_000));
        assert_eq!(rule.next(&RunSamples::new(), &pace(10, 999)), Step::Run(100));
        assert_eq!(rule.next(&RunSamples::new(), &pace(10, 1_000)), Step::End(EndedBy::Time));
    }
}
