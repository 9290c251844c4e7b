//! The step contract: a layer is a pure state machine that drivers push events into.

use alloc::vec::Vec;

use crate::command::{Command, DeviceError, Done, Token};
use crate::counters::Counters;
use crate::gauges::Gauges;
use crate::members::Members;
use crate::payload::Payload;
use crate::request::{Reply, Request};
use crate::verb::{Answer, Refusal, Task, TaskEnd, TaskKind, Verb};
use crate::words::Nanos;
use arrayvec::ArrayVec;

/// The most outputs of one step.
pub const MAX_OUTPUTS: usize = 64;
/// The most map entries that one step looks at or changes; longer work comes back by a timer.
pub const MAX_TOUCH: usize = 65_536;

/// What a driver tells a layer.
#[derive(Debug)]
pub enum Input {
    /// The host asks. Only within the layer's `credits`.
    Host(Request),
    /// A command is over. Commands finish in any order.
    Done(Done),
    /// The time is at or after `next_timer`, or the driver starts the layer: its first input.
    Timer,
    /// The host is gone: drain, checkpoint, and say `Event::Stopped`.
    Stop,
}

/// What a layer tells a driver.
#[derive(Debug)]
pub enum Output {
    /// Please do this.
    Submit(Token, Command),
    /// The answer to a request.
    Reply(Reply),
    /// A payload that an earlier reply had to leave behind.
    Reclaim(Payload),
    /// Something happened.
    Event(Event),
}

/// What happened inside a layer, for logs, metrics and the tables of the chaos run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Requests are welcome. `replayed` log writes were applied, `dropped` ones did not verify.
    Ready {
        /// Log writes applied.
        replayed: u64,
        /// Log writes at the end that were not whole.
        dropped: u64,
    },
    /// Everything is durable and the layer is closed.
    Stopped,
    /// The volume can't be opened; the text says why.
    Unrecoverable(&'static str),
    /// A device holds an older copy of what it held when the volume was started last: the volume
    /// can't be opened with it.
    Older {
        /// Index in the stack.
        device: u8,
    },
    /// A device failed; `abandoned` when it did not answer in time.
    DeviceFailed {
        /// Index in the stack.
        device: u8,
        /// What it said.
        error: DeviceError,
        /// Whether it ran past its deadline.
        abandoned: bool,
    },
    /// Reads of a device failed, or did not match their checksums, repeatedly.
    Failing {
        /// Index in the stack.
        device: u8,
        /// How often within a while.
        faults: u32,
        /// Whether the layer goes on without it from now on.
        is_lost: bool,
    },
    /// Sectors were given up: recovery can't tell their data from other data, or collection can't
    /// read them. They read as errors until they are written.
    Lost {
        /// How many sectors.
        sectors: u32,
    },
    /// A range of the host has the wrong checksum or can't be read, and nothing can make it again:
    /// reads of it are errors until it is written.
    Corrupt {
        /// The first sector, as the host counts.
        lba: u64,
        /// How many sectors.
        sectors: u32,
    },
    /// What was damaged or unreadable on a device was made again from the other devices.
    Mended {
        /// Index in the stack.
        device: u8,
        /// The first sector on that device.
        lba: u64,
        /// How many sectors.
        sectors: u32,
    },
    /// A victim was chosen.
    GcStarted,
    /// A checkpoint became durable.
    CheckpointDone,
    /// Every sector that the layer exports is mapped.
    Full,
    /// A task of the background is over.
    Over {
        /// Which.
        task: TaskKind,
        /// How it ended.
        end: TaskEnd,
        /// What it found that nothing can mend, and what it mended: counts.
        beyond: u64,
        /// See `beyond`.
        mended: u64,
        /// What was found wrong and is not repaired: it can't be moved, or the task was stopped
        /// before the repair was durable.
        unrepaired: u64,
    },
}

/// How much a driver may send, asked before each request is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Requests.
    pub requests: u32,
    /// Sectors in one of them.
    pub sectors: u32,
}

/// What holds for a layer's whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sectors that the host sees.
    pub exported: u64,
    /// The longest read or write, in sectors; a multiple of `align`.
    pub max_transfer: u32,
    /// Front ends split long requests at multiples of this, in sectors.
    pub align: u32,
    /// When a write is answered.
    pub ack: Ack,
}

impl Limits {
    /// Where the first part of a read or write of the sectors `at..end` ends; see [`next_cut`].
    #[inline]
    pub fn next_cut(&self, at: u64, end: u64) -> u64 {
        next_cut(at, end, self.max_transfer.into(), self.align.into())
    }
}

/// Where a front end cuts the range `at..end` next when parts may have a length of `max` at most:
/// at its end, or as far on as possible at a multiple of `align`. All are in the same unit.
///
/// # Panics
/// When `max` is not whole units of `align`: then a part could be empty.
#[inline]
pub fn next_cut(at: u64, end: u64, max: u64, align: u64) -> u64 {
    let furthest = at.saturating_add(max);
    if end <= furthest {
        return end;
    }
    assert!(max >= align && max.is_multiple_of(align), "{max} is whole units of {align}");
    furthest - furthest % align
}

/// When a write counts as completed. Durable is another word: see flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// When it is in the layer's volatile buffer.
    Buffer,
    /// When the device has completed it.
    Media,
}

impl Ack {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Ack::Buffer => "buffer",
            Ack::Media => "media",
        }
    }
}

/// The outputs of a step. It never grows past [`MAX_OUTPUTS`].
#[derive(Debug)]
pub struct Out(Vec<Output>);

impl Default for Out {
    fn default() -> Self {
        Out(Vec::with_capacity(MAX_OUTPUTS))
    }
}

impl Out {
    /// An empty list; the only allocation it makes.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many more fit.
    #[inline]
    pub fn room(&self) -> usize {
        MAX_OUTPUTS - self.0.len()
    }

    /// Appends an output.
    ///
    /// # Panics
    /// When the step has made too many.
    #[inline]
    pub fn push(&mut self, output: Output) {
        assert!(self.room() > 0, "a step made more than {MAX_OUTPUTS} outputs");
        self.0.push(output);
    }

    /// Appends what `make` makes, where it is to be: an output is too long to be copied often.
    ///
    /// # Panics
    /// As [`Out::push`].
    #[inline(always)]
    pub fn push_with(&mut self, make: impl FnOnce() -> Output) {
        assert!(self.room() > 0, "a step made more than {MAX_OUTPUTS} outputs");
        assert!(self.0.len() < self.0.capacity(), "it never grows");
        self.0.push(make());
    }

    /// The command that was appended last, if that is the last output, and its token.
    #[inline]
    pub fn last_command(&mut self) -> Option<(&mut Token, &Command)> {
        match self.0.last_mut()? {
            Output::Submit(token, command) => Some((token, command)),
            _ => None,
        }
    }

    /// Takes back what was appended last.
    pub fn take_back(&mut self) -> Option<Output> {
        self.0.pop()
    }

    /// Shows the outputs where they lie, in order, to who takes out of them what they own; then
    /// they are gone. An output is too long to be copied often.
    #[inline]
    pub fn each(&mut self, take: impl FnMut(&mut Output)) {
        self.0.iter_mut().for_each(take);
        self.0.clear();
    }

    /// Takes the outputs, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.0.drain(..)
    }
}

/// Translates addresses. See the module text of the crate for what a layer must not do.
pub trait Layer {
    /// Takes one input. The first is `Timer`; requests come only after `Event::Ready`.
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out);
    /// Does what an operator wants, or refuses it; only between `Event::Ready` and `Input::Stop`. A
    /// step with `Input::Timer` follows at once.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn operate(&mut self, _verb: Verb) -> Result<Answer, Refusal> {
        Err(Refusal::Unable)
    }
    /// The tasks that are under way in the background, or rest.
    fn tasks(&self) -> ArrayVec<Task, 5> {
        ArrayVec::new()
    }
    /// How much more the host may send now.
    fn credits(&self) -> Credits;
    /// When the layer wants `Input::Timer`; a time that has passed means at once.
    fn next_timer(&self) -> Option<Nanos>;
    /// What holds for the layer's life.
    fn limits(&self) -> Limits;
    /// What it counted.
    fn counters(&self) -> Counters;
    /// What it holds now; `None` when it keeps no account of that.
    fn gauges(&self) -> Option<Gauges> {
        None
    }
    /// How its devices stand.
    fn members(&self) -> Members {
        Members::default()
    }
    /// Whether a device failed such that nothing is written any more: only answering is left, and
    /// only opening the volume anew may help.
    fn has_failed(&self) -> bool {
        false
    }
    /// The ranges, first sector and length, in order, whose only newest copy is on a device that
    /// failed: they can't be read. It may take long and allocates.
    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// Bytes of host memory that the map takes, all tables counted.
    fn map_bytes(&self) -> u64;
    /// What else it shows of its present state: names and figures.
    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
    /// Whether sector `lba` may hold something other than zeros, and for how many of `sectors`
    /// sectors that stays so: at least one. It looks at no more than [`MAX_TOUCH`] of them. A layer
    /// without a map can't tell, so that everything may.
    fn mapped(&self, _lba: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }
    /// Whether zeroes take no longer than a trim, because the layer only forgets the range.
    fn has_fast_zeroes(&self) -> bool {
        false
    }
    /// Whether nothing is under way: no request, no command.
    fn idle(&self) -> bool;
    /// Checks the invariants that are too dear for every step.
    ///
    /// # Errors
    /// The first that does not hold, in words.
    fn check(&self) -> Result<(), &'static str>;
    /// The power is off: forgets every handle it holds.
    fn power_off(&mut self);
}
