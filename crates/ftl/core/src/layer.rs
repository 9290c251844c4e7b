//! Step contract: a layer is a pure state machine that drivers feed with inputs.

use alloc::vec::Vec;

use crate::admin::{AdminCommand, AdminOutcome, Refusal, Task, TaskEnd, TaskKind};
use crate::command::{Command, DeviceError, Done, Token};
use crate::counters::Counters;
use crate::gauges::Gauges;
use crate::members::Members;
use crate::payload::Payload;
use crate::request::{Reply, Request};
use crate::words::Nanos;
use arrayvec::ArrayVec;

/// Maximum number of outputs of one step.
pub const MAX_OUTPUTS: usize = 64;
/// Maximum number of map entries that one step visits or changes; longer work continues with a
/// timer.
pub const MAX_TOUCH: usize = 65_536;

/// Input of a layer.
#[derive(Debug)]
pub enum Input {
    /// Request of the host, within the layer's `credits`.
    Host(Request),
    /// Completed command. Commands complete in any order.
    Done(Done),
    /// The time has reached `next_timer`, or the driver starts the layer: its first input.
    Timer,
    /// The host has disconnected: drain, write a checkpoint, and emit `Event::Stopped`.
    Stop,
}

/// Output of a layer.
#[derive(Debug)]
pub enum Output {
    /// Command to execute.
    Submit(Token, Command),
    /// Reply to a request.
    Reply(Reply),
    /// Payload that could not be returned with an earlier reply.
    Reclaim(Payload),
    /// Event for logs and metrics.
    Event(Event),
}

/// Event inside a layer, for logs, metrics and the tables of the chaos run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Requests are accepted from now on.
    Ready {
        /// Number of log writes that were applied.
        replayed: u64,
        /// Number of incomplete log writes at the end.
        dropped: u64,
    },
    /// Everything is durable and the layer is closed.
    Stopped,
    /// The volume cannot be opened; the text is the reason.
    Unrecoverable(&'static str),
    /// The volume cannot be opened because a device holds an older copy than at the last start.
    Older {
        /// Index in the stack.
        device: u8,
    },
    /// A device failed.
    DeviceFailed {
        /// Index in the stack.
        device: u8,
        /// Error of the device.
        error: DeviceError,
        /// Whether it exceeded its deadline.
        abandoned: bool,
    },
    /// Reads of a device repeatedly failed or mismatched their checksums.
    Failing {
        /// Index in the stack.
        device: u8,
        /// Number of faults within the observation period.
        faults: u32,
        /// Whether the layer treats the device as lost from now on.
        is_lost: bool,
    },
    /// Sectors were lost: recovery cannot identify their data, or garbage collection cannot read
    /// it. They are read errors until they are written.
    Lost {
        /// Number of sectors.
        sectors: u32,
    },
    /// A range of the host has a wrong checksum or is unreadable, and cannot be rebuilt. It is a
    /// read error until it is written.
    Corrupt {
        /// First sector of the host.
        lba: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// Damaged or unreadable data of a device was rebuilt from the other devices.
    Repaired {
        /// Index in the stack.
        device: u8,
        /// First sector on that device.
        lba: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// A victim was chosen.
    GcStarted,
    /// A checkpoint became durable.
    CheckpointDone,
    /// Every sector that the layer exports is mapped.
    Full,
    /// A background task ended.
    Over {
        /// Kind of the task.
        task: TaskKind,
        /// Reason of the end.
        end: TaskEnd,
        /// Number of findings that cannot be repaired.
        beyond: u64,
        /// Number of repairs.
        repaired: u64,
        /// Number of findings that are not repaired: they could not be moved, or the task was
        /// stopped before the repair was durable.
        unrepaired: u64,
    },
}

/// Amount that a driver may submit, queried before each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Number of requests.
    pub requests: u32,
    /// Sectors per request.
    pub sectors: u32,
}

/// Constant properties of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sectors that the host sees.
    pub exported: u64,
    /// Maximum length of a read or write in sectors; a multiple of `align`.
    pub max_transfer: u32,
    /// Front ends split long requests at multiples of this, in sectors.
    pub align: u32,
    /// Time at which a write is acknowledged.
    pub ack: Ack,
}

impl Limits {
    /// Returns the end of the first part of a read or write of the sectors `at..end`; see
    /// [`next_cut`].
    #[inline]
    pub fn next_cut(&self, at: u64, end: u64) -> u64 {
        next_cut(at, end, self.max_transfer.into(), self.align.into())
    }
}

/// Returns the next position at which a front end cuts the range `at..end` into parts of at most
/// `max`: the end of the range, or the last multiple of `align` within reach. All are in the same
/// unit.
///
/// # Panics
/// When `max` is not a multiple of `align`, because a part could then be empty.
#[inline]
pub fn next_cut(at: u64, end: u64, max: u64, align: u64) -> u64 {
    let furthest = at.saturating_add(max);
    if end <= furthest {
        return end;
    }
    assert!(max >= align && max.is_multiple_of(align), "{max} is whole units of {align}");
    furthest - furthest % align
}

/// Time at which a write counts as completed. Durability is separate: it requires a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// When the data is in the layer's volatile buffer.
    Buffer,
    /// When the device has completed the write.
    Media,
}

impl Ack {
    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Ack::Buffer => "buffer",
            Ack::Media => "media",
        }
    }
}

/// Outputs of a step, at most [`MAX_OUTPUTS`].
#[derive(Debug)]
pub struct Out(Vec<Output>);

impl Default for Out {
    fn default() -> Self {
        Out(Vec::with_capacity(MAX_OUTPUTS))
    }
}

impl Out {
    /// Creates an empty list; this is its only allocation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of outputs that still fit.
    #[inline]
    pub fn outputs_left(&self) -> usize {
        MAX_OUTPUTS - self.0.len()
    }

    /// Appends an output.
    ///
    /// # Panics
    /// When the step exceeds [`MAX_OUTPUTS`].
    #[inline]
    pub fn push(&mut self, output: Output) {
        assert!(self.outputs_left() > 0, "a step made more than {MAX_OUTPUTS} outputs");
        self.0.push(output);
    }

    /// Appends the result of `make`, constructed in place because outputs are large.
    ///
    /// # Panics
    /// When the step exceeds [`MAX_OUTPUTS`].
    #[inline(always)]
    pub fn push_with(&mut self, make: impl FnOnce() -> Output) {
        assert!(self.outputs_left() > 0, "a step made more than {MAX_OUTPUTS} outputs");
        assert!(self.0.len() < self.0.capacity(), "the vector keeps its capacity");
        self.0.push(make());
    }

    /// Returns the last output, if it is a command, with its token.
    #[inline]
    pub fn last_command(&mut self) -> Option<(&mut Token, &Command)> {
        match self.0.last_mut()? {
            Output::Submit(token, command) => Some((token, command)),
            _ => None,
        }
    }

    /// Removes and returns the last output.
    pub fn take_back(&mut self) -> Option<Output> {
        self.0.pop()
    }

    /// Passes a reference to each output to `take`, in order, which moves the contents out; then
    /// clears the list. This avoids copies of large outputs.
    #[inline]
    pub fn each(&mut self, take: impl FnMut(&mut Output)) {
        self.0.iter_mut().for_each(take);
        self.0.clear();
    }

    /// Removes and returns the outputs, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.0.drain(..)
    }
}

/// Flash translation layer: translates addresses. The crate documentation lists the restrictions.
pub trait Layer {
    /// Processes one input. The first is `Timer`; requests come only after `Event::Ready`.
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out);
    /// Executes a command of an operator, or refuses it; only between `Event::Ready` and
    /// `Input::Stop`. The driver makes a step with `Input::Timer` immediately afterwards.
    ///
    /// # Errors
    /// The reason for a refusal; nothing was changed.
    fn operate(&mut self, _command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        Err(Refusal::Unable)
    }
    /// Returns the background tasks that are running or paused.
    fn tasks(&self) -> ArrayVec<Task, 5> {
        ArrayVec::new()
    }
    /// Returns the amount that the host may submit now.
    fn credits(&self) -> Credits;
    /// Returns the time of the next `Input::Timer`; a time in the past means immediately.
    fn next_timer(&self) -> Option<Nanos>;
    /// Returns the constant properties of the layer.
    fn limits(&self) -> Limits;
    /// Returns the counters.
    fn counters(&self) -> Counters;
    /// Returns the current fill level; `None` when the layer does not track it.
    fn gauges(&self) -> Option<Gauges> {
        None
    }
    /// Returns the states of its devices.
    fn members(&self) -> Members {
        Members::default()
    }
    /// Returns whether a failed device has stopped all writes. Only reads are served then, and
    /// reopening the volume may help.
    fn has_failed(&self) -> bool {
        false
    }
    /// Returns the ranges (first sector and length, in order) whose only newest copy is on a failed
    /// device, so they are unreadable. It may take long and allocates.
    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// Returns the memory of the map in bytes, with all tables.
    fn map_bytes(&self) -> u64;
    /// Returns further facts about its present state: names and values.
    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
    /// Returns whether sector `lba` may hold data other than zeros, and for how many of `sectors`
    /// sectors this stays the same: at least one. It visits at most [`MAX_TOUCH`] entries. A layer
    /// without a map cannot know and returns true for all.
    fn mapped(&self, _lba: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }
    /// Returns whether zeroes are as fast as a trim, because the layer only unmaps the range.
    fn has_fast_zeroes(&self) -> bool {
        false
    }
    /// Returns whether no request and no command is in flight.
    fn idle(&self) -> bool;
    /// Checks the invariants that are too expensive for every step.
    ///
    /// # Errors
    /// The first violated invariant, as text.
    fn check(&self) -> Result<(), &'static str>;
    /// Discards every handle, after a power cut.
    fn power_off(&mut self);
}
