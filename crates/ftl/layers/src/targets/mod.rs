//! Targets: several layers on one zoned device, each on a range of its parallel units.
//!
//! The layer of a target sees a smaller device that starts at its first unit. The exported ranges
//! of the targets are concatenated. A flush belongs to the target of its sector.
//!
//! Invariants
//! - The commands of a target access only its own units, and their completions are delivered to the
//!   target that the token names.
//! - A step passes one input to one target, so that the outputs fit.

pub mod register;

use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::{
    About, Command, Counters, Credits, DeviceInfo, DeviceKind, Done, Event, HostOp, Input, Layer,
    Limits, MetaBuf, Nanos, Out, Output, Segments, Token, Verdict,
};
use hostftl_format::report::{self, SEGMENT_BYTES, SegmentReport};

use crate::any::AnyLayer;
use crate::config::PlanError;
use crate::planted::{Bug, planted};

/// Position of the target's number in a token, in bits.
const SHIFT: u32 = 56;

/// A layer on a range of the device.
#[derive(Debug)]
pub struct Target {
    layer: AnyLayer,
    view: View,
    /// The first sector of its exported range.
    first: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Starting,
    Ready,
    Stopping,
    Stopped,
}

impl Target {
    fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::New, Phase::Starting)
                | (Phase::Starting, Phase::Ready)
                | (Phase::Ready, Phase::Stopping)
                | (Phase::Stopping, Phase::Stopped)
        );
        assert!(fits, "a target can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }
}

/// A range of the parallel units of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    segments: Segments,
    /// The first of its segments on the device.
    segment: u32,
}

impl View {
    /// Returns the view of `units` of a device.
    ///
    /// # Errors
    /// If the device does not have these units, or too few open segments for them.
    pub fn new(device: &DeviceInfo, units: Range<u32>) -> Result<Self, PlanError> {
        let DeviceKind::Zoned(all) = device.kind else {
            return Err(PlanError("targets need a zoned device"));
        };
        if units.is_empty() || units.end > all.units {
            return Err(PlanError("a target needs existing parallel units of the device"));
        }
        let (each, count) = (all.count / all.units, units.len() as u32);
        let max_open = (u64::from(all.max_open) * u64::from(count) / u64::from(all.units)) as u32;
        if all.max_open > 0 && max_open == 0 {
            return Err(PlanError(
                "the device allows too few open segments for this number of \
                 targets; use fewer targets",
            ));
        }
        let segments = Segments { count: each * count, units: count, max_open, ..all };
        Ok(View { segments, segment: each * units.start })
    }

    /// Returns the view of share `index` of `count` equal shares: of whole units, or of the
    /// segments of the only unit. The remainder is unused.
    ///
    /// # Errors
    /// As [`View::of`].
    pub fn share(device: &DeviceInfo, index: u32, count: u32) -> Result<Self, PlanError> {
        let DeviceKind::Zoned(all) = device.kind else {
            return Err(PlanError("targets need a zoned device"));
        };
        if all.units > 1 {
            let units = all.units / count;
            return Self::new(device, index * units..(index + 1) * units);
        }
        let (each, max_open) = (all.count / count, all.max_open / count);
        if each == 0 || all.max_open > 0 && max_open == 0 {
            return Err(PlanError(
                "the device has too few segments for this number of targets; use \
                 fewer targets",
            ));
        }
        let segments = Segments { count: each, max_open, ..all };
        Ok(View { segments, segment: index * each })
    }

    /// Returns the device information that the view's layer receives.
    pub fn info(&self, device: &DeviceInfo) -> DeviceInfo {
        let sectors = u64::from(self.segments.size) * u64::from(self.segments.count);
        DeviceInfo { sectors, kind: DeviceKind::Zoned(self.segments), ..device.clone() }
    }

    fn base(&self) -> u64 {
        u64::from(self.segment) * u64::from(self.segments.size)
    }

    /// Translates a command from the view to the device.
    fn enter(&self, command: &mut Command) {
        if planted(Bug::TargetsResetNeighbour)
            && let Command::Reset { lba, sectors, .. } = command
            && self.segment > 0
        {
            // The planted bug counts from the end of the neighbour's range.
            *lba += self.base() - *sectors;
            return;
        }
        match command {
            Command::Read { lba, .. }
            | Command::Program { lba, .. }
            | Command::Reset { lba, .. }
            | Command::Mark { lba, .. } => {
                *lba += self.base();
            }
            Command::Report { about: About::Segments(from), .. } => *from += self.segment,
            _ => {}
        }
    }

    /// Translates a completed command from the device to the view.
    fn leave(&self, done: &mut Done) {
        match &mut done.command {
            Command::Read { lba, .. }
            | Command::Program { lba, .. }
            | Command::Reset { lba, .. }
            | Command::Mark { lba, .. } => {
                *lba -= self.base();
            }
            Command::Report { about: About::Segments(from), into, .. } => {
                *from -= self.segment;
                if let Ok(Verdict { bytes, .. }) = &mut done.result {
                    *bytes = self.translate_report(*from, *bytes, into);
                }
            }
            _ => {}
        }
    }

    /// Translates a report of the device to the view. Returns the number of bytes that remain.
    fn translate_report(&self, from: u32, bytes: u32, pages: &mut MetaBuf) -> u32 {
        let count = (bytes as usize / SEGMENT_BYTES).min((self.segments.count - from) as usize);
        for index in 0..count {
            let Some(entry) = report::segment(pages.pages(), index) else {
                return (index * SEGMENT_BYTES) as u32;
            };
            let moved = SegmentReport { start: entry.start - self.base(), ..entry };
            report::put_segment(pages.pages_mut(), index, &moved);
        }
        (count * SEGMENT_BYTES) as u32
    }
}

/// Several layers on one device.
#[derive(Debug)]
pub struct Targets {
    list: Vec<Target>,
    inner: Out,
    /// Number of targets that are not ready yet.
    starting: usize,
    /// Sums of replayed and dropped records of their recoveries.
    found: (u64, u64),
    announced: bool,
    stopping: bool,
}

impl Targets {
    /// Creates targets from layers and their views of one device.
    ///
    /// # Errors
    /// If there is no layer or more than 64, or if views overlap.
    pub fn new(mut layers: Vec<(AnyLayer, View)>) -> Result<Self, PlanError> {
        if let Err(why) = Self::fit(layers.iter().map(|(_, view)| view)) {
            layers.iter_mut().for_each(|(layer, _)| layer.power_off());
            return Err(why);
        }
        let mut first = 0;
        let target = |(layer, view): (AnyLayer, View)| {
            let exported = layer.limits().exported;
            first += exported;
            Target { layer, view, first: first - exported, phase: Phase::New }
        };
        let list: Vec<Target> = layers.into_iter().map(target).collect();
        let (inner, starting, found) = (Out::new(), list.len(), (0, 0));
        Ok(Targets { list, inner, starting, found, announced: false, stopping: false })
    }

    /// Checks that the views can be used together.
    ///
    /// # Errors
    /// As [`Targets::new`].
    pub fn fit<'a>(views: impl Iterator<Item = &'a View>) -> Result<(), PlanError> {
        let views: Vec<&View> = views.collect();
        if views.is_empty() || views.len() > 64 {
            return Err(PlanError("a device has 1 to 64 targets"));
        }
        let end = |view: &View| view.segment + view.segments.count;
        for (index, one) in views.iter().enumerate() {
            let mut others = views[..index].iter();
            if others.any(|other| one.segment < end(other) && other.segment < end(one)) {
                return Err(PlanError("two targets share a parallel unit"));
            }
        }
        Ok(())
    }

    /// Returns the first sector of a target's exported range, and its length.
    pub fn extent(&self, target: usize) -> (u64, u64) {
        (self.list[target].first, self.list[target].layer.limits().exported)
    }

    /// Returns the credits of one target.
    pub fn target_credits(&self, target: usize) -> Credits {
        self.list[target].layer.credits()
    }

    /// Returns the counters of one target.
    pub fn target_counters(&self, target: usize) -> Counters {
        self.list[target].layer.counters()
    }

    /// Returns the target that exports a sector.
    fn target_at(&self, lba: u64) -> usize {
        self.list.partition_point(|target| target.first <= lba) - 1
    }

    /// Passes an input to one target, and its outputs on to the driver.
    fn give(&mut self, index: usize, now: Nanos, input: Input, out: &mut Out) {
        let target = &mut self.list[index];
        target.layer.step(now, input, &mut self.inner);
        for output in self.inner.drain() {
            match output {
                Output::Submit(Token(token), mut command) => {
                    assert!(token >> SHIFT == 0, "a token has space for its target");
                    target.view.enter(&mut command);
                    out.push(Output::Submit(Token(token | (index as u64) << SHIFT), command));
                }
                Output::Event(Event::Ready { replayed, dropped }) => {
                    target.go(Phase::Ready);
                    self.found = (self.found.0 + replayed, self.found.1 + dropped);
                    self.starting -= 1;
                }
                Output::Event(Event::Stopped) => target.go(Phase::Stopped),
                Output::Event(Event::Corrupt { lba, sectors }) => {
                    out.push(Output::Event(Event::Corrupt { lba: lba + target.first, sectors }));
                }
                other => out.push(other),
            }
        }
        let all = |phase: Phase| self.list.iter().all(|target| target.phase == phase);
        if self.starting == 0 && !self.announced && all(Phase::Ready) {
            let (replayed, dropped) = self.found;
            self.announced = true;
            out.push(Output::Event(Event::Ready { replayed, dropped }));
        }
        if self.stopping && all(Phase::Stopped) {
            out.push(Output::Event(Event::Stopped));
        }
    }

    /// Returns the next target to be started or stopped.
    fn to_move(&self) -> Option<usize> {
        let phase = if self.stopping { Phase::Ready } else { Phase::New };
        self.list.iter().position(|target| target.phase == phase)
    }

    /// Starts or stops a target if due, or passes the timer to the one with the earliest deadline.
    fn wake(&mut self, now: Nanos, out: &mut Out) {
        if let Some(index) = self.to_move() {
            let stops = self.stopping;
            self.list[index].go(if stops { Phase::Stopping } else { Phase::Starting });
            let input = if stops { Input::Stop } else { Input::Timer };
            return self.give(index, now, input, out);
        }
        let timer =
            |(index, target): (usize, &Target)| target.layer.next_timer().map(|at| (at, index));
        let first = self.list.iter().enumerate().filter_map(timer).min();
        if let Some((_, index)) = first.filter(|(at, _)| *at <= now) {
            self.give(index, now, Input::Timer, out);
        }
    }

    fn layers(&self) -> impl Iterator<Item = &AnyLayer> {
        self.list.iter().map(|target| &target.layer)
    }
}

/// Combines the limits of two targets.
fn together(one: Limits, other: Limits) -> Limits {
    Limits {
        exported: one.exported + other.exported,
        max_transfer: one.max_transfer.min(other.max_transfer),
        align: one.align.max(other.align),
        ack: one.ack,
    }
}

impl Layer for Targets {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        match input {
            Input::Host(mut request) => {
                let mut index = self.target_at(request.lba);
                if planted(Bug::TargetsFlushNeighbour) && matches!(request.op, HostOp::Flush) {
                    index = (index + 1) % self.list.len();
                    request.lba = self.list[index].first;
                }
                request.lba -= self.list[index].first;
                self.give(index, now, Input::Host(request), out);
            }
            Input::Done(mut done) => {
                let index = (done.token.0 >> SHIFT) as usize;
                done.token = Token(done.token.0 & ((1 << SHIFT) - 1));
                self.list[index].view.leave(&mut done);
                self.give(index, now, Input::Done(done), out);
            }
            Input::Timer => self.wake(now, out),
            Input::Stop => {
                self.stopping = true;
                self.wake(now, out);
            }
        }
    }

    /// Returns the minimum of all targets' credits, because the driver does not know the target of
    /// a request.
    fn credits(&self) -> Credits {
        let each = self.layers().map(Layer::credits);
        let least = each.reduce(|one, other| Credits {
            requests: one.requests.min(other.requests),
            sectors: one.sectors.min(other.sectors),
        });
        least.expect("the target exists")
    }

    fn next_timer(&self) -> Option<Nanos> {
        if self.to_move().is_some() {
            return Some(0);
        }
        self.layers().filter_map(Layer::next_timer).min()
    }

    fn limits(&self) -> Limits {
        let each = self.layers().map(Layer::limits);
        each.reduce(together).expect("the target exists")
    }

    fn counters(&self) -> Counters {
        self.layers().map(Layer::counters).fold(Counters::default(), |mut sum, more| {
            sum.host_read += more.host_read;
            sum.host_written += more.host_written;
            sum.host_trimmed += more.host_trimmed;
            sum.flushes += more.flushes;
            sum.flushes_pending += more.flushes_pending;
            sum.gc_runs += more.gc_runs;
            sum.gc_copied += more.gc_copied;
            sum.padded += more.padded;
            sum.map_written += more.map_written;
            sum.checkpoint_written += more.checkpoint_written;
            sum.lists_written += more.lists_written;
            sum.device_errors += more.device_errors;
            sum
        })
    }

    fn map_bytes(&self) -> u64 {
        self.layers().map(Layer::map_bytes).sum()
    }

    fn has_failed(&self) -> bool {
        self.layers().any(Layer::has_failed)
    }

    fn idle(&self) -> bool {
        self.layers().all(Layer::idle)
    }

    fn check(&self) -> Result<(), &'static str> {
        self.layers().try_for_each(Layer::check)
    }

    fn power_off(&mut self) {
        self.list.iter_mut().for_each(|target| target.layer.power_off());
    }
}
