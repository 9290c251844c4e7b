//! A compute command as raw memory ranges that a worker thread can use.
//!
//! Invariants
//! - The ranges are in payload, metadata or a list that belongs to the command, and the driver
//!   keeps the command until the work is done.
//! - Ranges that are written do not overlap ranges that are read.

use std::cell::RefCell;

use hostftl_compute::{Job, Tools};
use hostftl_core::{ArrayVec, Command, DeviceError, MAX_PIECES, Piece, Verdict, View, ViewMut};

use crate::memory::Memory;

/// Limit in bytes above which the work goes to another thread.
pub(crate) const INLINE: u32 = 128 << 10;

/// Memory range.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: *mut u8,
    len: usize,
}

impl Range {
    const NOTHING: Range = Range { start: std::ptr::NonNull::dangling().as_ptr(), len: 0 };
}

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::default();
}

#[derive(Debug)]
pub(crate) struct Compute {
    /// The parts list of some jobs is in the command, which the driver keeps.
    job: Job<'static>,
    from: ArrayVec<Range, MAX_PIECES>,
    into: Range,
}

// SAFETY: only this work uses the ranges until it is done, by the invariants above.
unsafe impl Send for Compute {}

impl Compute {
    /// Prepares the work of a command that does not go to a device.
    ///
    /// # Panics
    /// When the command goes to a device.
    pub(crate) fn new(command: &mut Command, memory: &Memory) -> Self {
        let pages = match command {
            Command::Peek { into, pages, .. } => {
                let pages = &mut into.pages_mut()[..*pages as usize];
                Range { start: pages.as_mut_ptr().cast(), len: size_of_val(pages) }
            }
            _ => Range::NOTHING,
        };
        let view = |view: &View| range(memory, view.id(), view.from(), view.bytes());
        let target = |view: &ViewMut| range(memory, view.id(), view.from(), view.bytes());
        let (from, into) = match command {
            Command::Place { from, into } => (source(from, memory), target(into)),
            Command::Pack { from, into, .. }
            | Command::Unpack { from, into, .. }
            | Command::Move { from, into, .. } => (ArrayVec::from_iter([view(from)]), target(into)),
            Command::Digest { from, .. } | Command::Peek { from, .. } => {
                (ArrayVec::from_iter([view(from)]), pages)
            }
            Command::Fold { from, into, .. } => (from.iter().map(view).collect(), target(into)),
            other => panic!("{other:?} is not a command for a worker"),
        };
        let job = Job::new(command).expect("the command needs no device");
        // SAFETY: only the lifetime changes. The borrowed data is in the command, which the driver
        // keeps until this work is done, by the invariants above.
        let job = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        let apart = |other: &Range| {
            let (a, b) = (into.start as usize, other.start as usize);
            a + into.len <= b || b + other.len <= a
        };
        assert!(from.iter().all(apart), "source and destination of a command overlap: {command:?}");
        Compute { job, from, into }
    }

    /// Returns the amount of work in bytes.
    pub(crate) fn bytes(&self) -> u32 {
        let from: usize = self.from.iter().map(|range| range.len).sum();
        from.max(self.into.len) as u32
    }

    /// Executes the work.
    pub(crate) fn run(&self) -> Result<Verdict, DeviceError> {
        // SAFETY: valid, initialised and ours, and disjoint from the sources as `new` checked.
        let into = unsafe { std::slice::from_raw_parts_mut(self.into.start, self.into.len) };
        // SAFETY: valid and initialised, and not written while the command borrows it.
        let read = |range: &Range| unsafe { std::slice::from_raw_parts(range.start, range.len) };
        let from = self.from.iter().map(read).collect();
        TOOLS.with_borrow_mut(|tools| self.job.run(&from, into, tools))
    }
}

fn range(memory: &Memory, id: u32, from: u32, len: u32) -> Range {
    Range { start: memory.address(id, from, len), len: len as usize }
}

/// Returns the bytes of a piece; an empty list for zeros.
fn source(piece: &Piece, memory: &Memory) -> ArrayVec<Range, MAX_PIECES> {
    let range = match piece {
        Piece::Data(view) => range(memory, view.id(), view.from(), view.bytes()),
        Piece::Meta { buf, pages } => {
            let pages = &buf.pages()[..*pages as usize];
            Range { start: pages.as_ptr().cast_mut().cast(), len: size_of_val(pages) }
        }
        Piece::Zeros(_) => return ArrayVec::new(),
    };
    ArrayVec::from_iter([range])
}
