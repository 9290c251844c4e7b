//! Plays a workload: by its own clock with bounded concurrency, or as a closed loop.

use std::collections::VecDeque;
use std::ops::Range;

use hostftl_core::{Layer, Nanos};
use hostftl_drives::{Model, Soon};
use hostftl_trace::{Op, Record, TraceError};

use crate::error::{StudyError, Violation};
use crate::front::Front;
use crate::world::World;

/// Maximum number of requests in progress, even if the trace's clock demands more.
pub(crate) const MOST_UNDER_WAY: u32 = 256;
/// Number of records between two checks for cancellation.
const GLANCE: u64 = 4096;
/// Number of records that are read at once. The drive's state for them is prefetched when they are
/// read, and again shortly before they are issued.
const AHEAD: usize = 32;

/// Number of steps without a completion that counts as a failure.
const TOO_MANY_STEPS: u64 = 50_000_000;
/// Virtual time without a completion that counts as a failure: one hour, in ns.
const TOO_LONG: Nanos = 3_600_000_000_000;

/// Timing of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// At the workload's own times, with at most 256 requests in progress.
    #[default]
    Trace,
    /// A constant number of requests in progress, from 1 to 256.
    Closed(u32),
    /// At regular intervals of this many ns, with at most 256 requests in progress.
    Every(Nanos),
    /// With the counting clock: commands take no time, and 32 requests are in progress. Wear is
    /// measured, but no latency or rate. Layers that pad when all requests wait, or at flushes, pad
    /// less than in a timed run.
    Counted,
}

/// Queue depth of [`Pace::Counted`].
const COUNTED_DEPTH: u32 = 32;

/// Plays records until they end.
pub struct Player<I> {
    records: I,
    /// Whether all records were read, or all records before an error.
    is_over: bool,
    /// Records that were read and not yet issued; empty only at the end.
    ahead: VecDeque<Record>,
    /// Error behind these records.
    fault: Option<TraceError>,
    pace: Pace,
    /// Time 0 of the trace in the world's time.
    start: Nanos,
    /// First time of the trace.
    zero: Option<Nanos>,
    /// Number of issued records.
    pub issued: u64,
    next_check: u64,
    /// Number of completions at the last check, and the steps and the time then. Steps and time of
    /// a world continue across players.
    last_progress: Option<(u64, u64, Nanos)>,
    /// Whether a request was delayed because 256 requests were in progress.
    pub was_held_back: bool,
}

/// Normal end of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All records were played.
    Whole,
    /// The replay was cancelled; requests in progress were completed.
    Cancelled,
}

/// Reason for a failed replay.
pub enum PlayError {
    /// An invalid record.
    Trace(TraceError),
    /// A violated law.
    Violation(Violation),
}

impl From<Violation> for PlayError {
    fn from(violation: Violation) -> Self {
        PlayError::Violation(violation)
    }
}

impl PlayError {
    /// Adds the names of the layer and the drive.
    pub fn named(self, layer: &str, drive: &str) -> StudyError {
        match self {
            PlayError::Trace(error) => StudyError::Trace(error),
            PlayError::Violation(violation) => {
                let (layer, drive) = (layer.to_owned(), drive.to_owned());
                StudyError::Violation { layer, drive, violation }
            }
        }
    }
}

impl<I: Iterator<Item = Result<Record, TraceError>>> Player<I> {
    /// Creates a player of `records` that starts at `start`.
    pub fn new(records: I, pace: Pace, start: Nanos) -> Self {
        Player {
            records,
            is_over: false,
            ahead: VecDeque::with_capacity(2 * AHEAD),
            fault: None,
            pace,
            start,
            zero: None,
            issued: 0,
            next_check: 0,
            last_progress: None,
            was_held_back: false,
        }
    }

    /// Plays until the records end, or until `glance`, called with the number of issued records,
    /// returns true.
    ///
    /// # Errors
    /// An invalid record, or a violation by the layer or a drive.
    pub fn play<L: Layer, D: Model>(
        &mut self,
        world: &mut World<L, D>,
        front: &mut Front,
        mut glance: impl FnMut(u64) -> bool,
    ) -> Result<End, PlayError> {
        let mut end = End::Whole;
        self.fetch(world)?;
        loop {
            front.collect(world)?;
            self.issue_due(world, front)?;
            if self.issued >= self.next_check && end == End::Whole {
                self.next_check = self.issued + GLANCE;
                if glance(self.issued) {
                    end = End::Cancelled;
                    (self.ahead, self.fault, self.is_over) = (VecDeque::new(), None, true);
                }
            }
            front.pump(world)?;
            if self.ahead.is_empty() && front.outstanding() == 0 {
                return Ok(end);
            }
            self.check_progress(world, front)?;
            let arrival = self.arrival(front);
            match (arrival, world.next_at()) {
                (Some(at), _) if at <= world.now() => {}
                (Some(at), event) if event.is_none_or(|event| at < event) => world.wait_until(at),
                (_, Some(_)) => {
                    world.advance_until(arrival.unwrap_or(Nanos::MAX))?;
                }
                (_, None) => {
                    let (now, outstanding) = (world.now(), front.outstanding());
                    return Err(Violation::Stall { now, outstanding }.into());
                }
            }
        }
    }

    /// Checks that requests complete: a layer may keep working without completing any.
    fn check_progress<L: Layer, D: Model>(
        &mut self,
        world: &World<L, D>,
        front: &Front,
    ) -> Result<(), Violation> {
        let (answered, steps) = (front.answered(), world.steps());
        let now = (answered, steps, world.now());
        let (before, since_steps, since) = *self.last_progress.get_or_insert(now);
        if front.outstanding() == 0 || answered != before {
            self.last_progress = Some(now);
            return Ok(());
        }
        if steps - since_steps > TOO_MANY_STEPS || world.now() - since > TOO_LONG {
            let outstanding = front.outstanding();
            return Err(Violation::Silence { since, now: world.now(), outstanding });
        }
        Ok(())
    }

    /// Reads more records when at most [`AHEAD`] are left.
    #[inline]
    fn fetch<L: Layer, D: Model>(&mut self, world: &World<L, D>) -> Result<(), PlayError> {
        while self.ahead.len() <= AHEAD && !self.is_over {
            self.read(world);
        }
        match self.fault.take_if(|_| self.ahead.is_empty()) {
            Some(error) => Err(PlayError::Trace(error)),
            None => Ok(()),
        }
    }

    /// Prefetches for the remaining records, which are issued next, and reads more.
    #[inline(never)]
    fn read<L: Layer, D: Model>(&mut self, world: &World<L, D>) {
        let left = self.ahead.len();
        self.look(0..left, Soon::Next, world);
        for _ in 0..AHEAD {
            match self.records.next() {
                Some(Ok(record)) => self.ahead.push_back(record),
                end => {
                    (self.fault, self.is_over) = (end.and_then(Result::err), true);
                    break;
                }
            }
        }
        self.look(left..self.ahead.len(), Soon::Later, world);
    }

    /// Prefetches the drive's state for a range of at most [`AHEAD`] records.
    fn look<L: Layer, D: Model>(&self, which: Range<usize>, soon: Soon, world: &World<L, D>) {
        let mut lbas = [0; AHEAD];
        let records = self.ahead.range(which);
        let transfers = records.filter(|it| matches!(it.op, Op::Read | Op::Write));
        let looked = lbas.iter_mut().zip(transfers).map(|(lba, record)| *lba = record.lba).count();
        world.look_ahead(&lbas[..looked], soon);
    }

    /// Returns the scheduled time of the next record; `zero` is the first time of the trace.
    fn due(&self, zero: Nanos, record: &Record) -> Nanos {
        match self.pace {
            Pace::Trace => self.start + record.t_ns.saturating_sub(zero),
            Pace::Every(interval) => self.start + interval * self.issued,
            Pace::Closed(_) | Pace::Counted => self.start,
        }
    }

    fn limit(&self) -> u64 {
        match self.pace {
            Pace::Trace | Pace::Every(_) => MOST_UNDER_WAY.into(),
            Pace::Closed(depth) => depth.into(),
            Pace::Counted => COUNTED_DEPTH.into(),
        }
    }

    /// Returns the time of the next request, or `None` if it must wait for a completion.
    fn arrival(&self, front: &Front) -> Option<Nanos> {
        let record = self.ahead.front()?;
        if front.outstanding() >= self.limit() {
            return None;
        }
        let zero = self.zero.unwrap_or(record.t_ns);
        Some(self.due(zero, record))
    }

    fn issue_due<L: Layer, D: Model>(
        &mut self,
        world: &World<L, D>,
        front: &mut Front,
    ) -> Result<(), PlayError> {
        let now = world.now();
        while let Some(&record) = self.ahead.front() {
            let zero = *self.zero.get_or_insert(record.t_ns);
            if self.due(zero, &record) > now {
                return Ok(());
            }
            if front.outstanding() >= self.limit() {
                self.was_held_back |= matches!(self.pace, Pace::Trace | Pace::Every(_));
                return Ok(());
            }
            front.issue(now, &record);
            self.issued += 1;
            self.ahead.pop_front();
            self.fetch(world)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::Payload;
    use hostftl_drives::DriveSpec;
    use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
    use hostftl_trace::Op;

    use super::*;
    use crate::HostCosts;

    #[test]
    fn steps_of_a_play_before_are_no_silence() {
        let drives = [DriveSpec::find("hatl-2g:capacity=64m").expect("it is built in")];
        let (config, infos) = (LayerConfig::new(LayerKind::Passthrough), [drives[0].device_info()]);
        let plan = AnyLayer::plan(&config, &infos).expect("it works on this drive");
        let issue = |id| Payload::issue(id, plan.buffer_sectors);
        let buffers = (0..plan.buffers).map(issue).collect();
        let layer =
            AnyLayer::new(&config, &infos, buffers, Mode::Format).expect("the target was planned");
        let mut world = World::new(layer, &drives, HostCosts::default()).expect("it starts");
        let mut front = Front::new(&world);
        let writes = |count| (0..count).map(|at| Ok(Record::new(0, Op::Write, 0, at * 8, 8)));
        let mut before = Player::new(writes(100), Pace::Closed(1), world.now());
        assert!(before.play(&mut world, &mut front, |_| false).is_ok());
        let mut front = Front::new(&world);
        let mut player = Player::new(writes(1), Pace::Closed(1), world.now());
        assert!(player.fetch(&world).is_ok() && player.issue_due(&world, &mut front).is_ok());
        assert_eq!((front.outstanding(), front.answered()), (1, 0));
        player.check_progress(&world, &front).expect("it has only begun");
        let (_, since, _) = player.last_progress.expect("progress was checked");
        assert!(world.steps() > 100 && since == world.steps());
        drop(player);
        world.drain().expect("it ends");
    }
}
