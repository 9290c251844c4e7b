//! A command that computes, as raw ranges that a worker thread can take along.
//!
//! Invariants
//! - The ranges are in payload, metadata or a list that the command has, and the driver keeps the
//!   command until the work is over.
//! - What is written is apart from what is read.

use std::cell::RefCell;

use hostftl_compute::{Job, Tools};
use hostftl_core::{ArrayVec, Command, DeviceError, MAX_PIECES, Piece, Verdict, View, ViewMut};

use crate::memory::Memory;

/// Work longer than this goes to another thread, in bytes.
pub(crate) const INLINE: u32 = 128 << 10;

/// So many bytes somewhere.
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
    /// A list of parts in it lies in the command, which the driver keeps.
    job: Job<'static>,
    from: ArrayVec<Range, MAX_PIECES>,
    into: Range,
}

// SAFETY: the ranges belong to this work alone until it is over, by the invariants above.
unsafe impl Send for Compute {}

impl Compute {
    /// The work of a command that goes to no device.
    ///
    /// # Panics
    /// When it goes to one.
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
            other => panic!("{other:?} is not for a worker"),
        };
        let job = Job::of(command).expect("it goes to no device");
        // SAFETY: only the name of the lifetime changes. What it borrows lies in the command, which
        // the driver keeps until this work is over, by the invariants above.
        let job = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        let apart = |other: &Range| {
            let (a, b) = (into.start as usize, other.start as usize);
            a + into.len <= b || b + other.len <= a
        };
        assert!(from.iter().all(apart), "a command writes what it reads: {command:?}");
        Compute { job, from, into }
    }

    /// How much there is to do, in bytes.
    pub(crate) fn bytes(&self) -> u32 {
        let from: usize = self.from.iter().map(|range| range.len).sum();
        from.max(self.into.len) as u32
    }

    /// Does it.
    pub(crate) fn run(&self) -> Result<Verdict, DeviceError> {
        // SAFETY: valid, initialised and ours, and apart from the sources as `new` checked.
        let into = unsafe { std::slice::from_raw_parts_mut(self.into.start, self.into.len) };
        // SAFETY: valid and initialised, and nobody writes it while the command has it borrowed.
        let read = |range: &Range| unsafe { std::slice::from_raw_parts(range.start, range.len) };
        let from = self.from.iter().map(read).collect();
        TOOLS.with_borrow_mut(|tools| self.job.run(&from, into, tools))
    }
}

fn range(memory: &Memory, id: u32, from: u32, len: u32) -> Range {
    Range { start: memory.address(id, from, len), len: len as usize }
}

/// The bytes of a piece; nothing for zeros.
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
