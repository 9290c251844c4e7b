//! A command that computes, as raw ranges that a worker thread can take along.
//!
//! Invariants
//! - The ranges are in payload, metadata or a list that the command has, and the driver keeps the
//!   command until the work is over.
//! - What is written is apart from what is read.

use hostftl_core::{
    Codec, Command, DeviceError, Few, MAX_PIECES, Part, Piece, Verdict, View, ViewMut,
};

use crate::arena::Arena;
use crate::{stream, work};

/// Work longer than this goes to another thread, in bytes.
pub const INLINE: u32 = 128 << 10;

/// So many bytes somewhere.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: *mut u8,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Copy,
    Zero,
    Pack(Codec, u64),
    Unpack(Codec, u64, u32),
    Digest(u64),
    Move(*const [Part]),
    Fold { keep: bool },
}

/// See the module text.
#[derive(Debug)]
pub struct Compute {
    kind: Kind,
    from: Few<Range, MAX_PIECES>,
    into: Range,
}

// SAFETY: the ranges belong to this work alone until it is over, by the invariants above.
unsafe impl Send for Compute {}

impl Compute {
    /// The work of a command that goes to no device.
    ///
    /// # Panics
    /// When it goes to one.
    pub fn new(command: &Command, arena: &Arena) -> Self {
        let view = |view: &View| range(arena, view.id(), view.from(), view.bytes());
        let target = |view: &ViewMut| range(arena, view.id(), view.from(), view.bytes());
        let (kind, from, into) = match command {
            Command::Place { from, into } => match source(from, arena) {
                Some(from) => (Kind::Copy, Few::from_iter([from]), target(into)),
                None => (Kind::Zero, Few::new(), target(into)),
            },
            Command::Pack { from, into, codec, seed } => {
                (Kind::Pack(*codec, *seed), Few::from_iter([view(from)]), target(into))
            }
            Command::Unpack { from, into, codec, seed, crc } => {
                (Kind::Unpack(*codec, *seed, *crc), Few::from_iter([view(from)]), target(into))
            }
            Command::Digest { from, seed } => {
                let nothing = Range { start: std::ptr::NonNull::dangling().as_ptr(), len: 0 };
                (Kind::Digest(*seed), Few::from_iter([view(from)]), nothing)
            }
            Command::Move { from, into, parts } => {
                (Kind::Move(parts.as_slice()), Few::from_iter([view(from)]), target(into))
            }
            Command::Fold { from, into, keep } => {
                (Kind::Fold { keep: *keep }, from.iter().map(view).collect(), target(into))
            }
            other => panic!("{other:?} is not for a worker"),
        };
        let apart = |other: &Range| {
            let (a, b) = (into.start as usize, other.start as usize);
            a + into.len <= b || b + other.len <= a
        };
        assert!(from.iter().all(apart), "a command writes what it reads: {command:?}");
        Compute { kind, from, into }
    }

    /// How much there is to do, in bytes.
    pub fn bytes(&self) -> u32 {
        let from: usize = self.from.iter().map(|range| range.len).sum();
        from.max(self.into.len) as u32
    }

    /// Does it.
    pub fn run(&self) -> Result<Verdict, DeviceError> {
        // SAFETY: valid, initialised and ours, and apart from the sources as `new` checked.
        let into = unsafe { std::slice::from_raw_parts_mut(self.into.start, self.into.len) };
        // SAFETY: valid and initialised, and nobody writes it while the command has it borrowed.
        let read = |range: &Range| unsafe { std::slice::from_raw_parts(range.start, range.len) };
        let first = self.from.iter().next().map(read).unwrap_or_default();
        match self.kind {
            Kind::Copy => stream::copy(first, into),
            Kind::Zero => into.fill(0),
            Kind::Pack(codec, seed) => return Ok(work::pack(codec, seed, first, into)),
            Kind::Unpack(codec, seed, crc) => return work::unpack(codec, seed, crc, first, into),
            Kind::Digest(seed) => return Ok(work::digest(seed, first)),
            Kind::Move(parts) => {
                // SAFETY: they lie in the command, which the driver keeps until this is over.
                let parts = unsafe { &*parts };
                return Ok(work::move_parts(parts, first, into));
            }
            Kind::Fold { keep } => work::fold(self.from.iter().map(read), into, keep),
        }
        Ok(Verdict::default())
    }
}

fn range(arena: &Arena, id: u32, from: u32, len: u32) -> Range {
    Range { start: arena.address(id, from, len), len: len as usize }
}

/// The bytes of a piece; `None` for zeros.
fn source(piece: &Piece, arena: &Arena) -> Option<Range> {
    match piece {
        Piece::Data(view) => Some(range(arena, view.id(), view.from(), view.bytes())),
        Piece::Meta { buf, pages } => {
            let pages = &buf.pages()[..*pages as usize];
            Some(Range { start: pages.as_ptr().cast_mut().cast(), len: size_of_val(pages) })
        }
        Piece::Zeros(_) => None,
    }
}
