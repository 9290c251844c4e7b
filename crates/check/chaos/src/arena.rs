//! Payload memory with a race detector.
//!
//! Invariants
//! - A range lent for writing overlaps no other range lent at the same time; ranges that are only
//!   read may overlap.
//! - The ranges of a command are recorded at its submission and released at its completion.

use hostftl_compute::Sources;
use hostftl_core::{ArrayVec, Command, MAX_PIECES, Payload, Piece, SECTOR, Target};

/// Content of fresh buffers; no sector of a host resembles it.
pub(crate) const GARBAGE: u8 = 0xa5;

/// Range that a command in flight uses.
#[derive(Debug)]
struct Loan {
    token: u64,
    from: u32,
    to: u32,
    write: bool,
}

/// All payload buffers of a stack in one flat memory.
#[derive(Debug, Default)]
pub struct Arena {
    bytes: Vec<u8>,
    used: usize,
    starts: Vec<usize>,
    loans: Vec<Vec<Loan>>,
}

impl Arena {
    /// Removes all buffers and loans, and keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.starts.clear();
        self.loans.iter_mut().for_each(Vec::clear);
    }

    /// Adds a buffer with arbitrary content and returns its id.
    pub fn add(&mut self, sectors: u32) -> u32 {
        let id = self.starts.len();
        self.starts.push(self.used);
        self.used += sectors as usize * SECTOR;
        self.bytes.resize(self.bytes.len().max(self.used), GARBAGE);
        if self.loans.len() <= id {
            self.loans.push(Vec::with_capacity(16));
        }
        id as u32
    }

    /// Adds a buffer of bytes that no host wrote, and issues the handle that owns it.
    pub fn issue(&mut self, sectors: u32) -> Payload {
        let id = self.add(sectors);
        self.slice_mut(id, 0, sectors * SECTOR as u32).fill(GARBAGE);
        Payload::issue(id, sectors)
    }

    /// Returns the bytes `from..from + len` of a buffer.
    pub fn slice(&self, id: u32, from: u32, len: u32) -> &[u8] {
        &self.bytes[self.starts[id as usize] + from as usize..][..len as usize]
    }

    /// Returns a range like [`Arena::slice`], for modification.
    pub fn slice_mut(&mut self, id: u32, from: u32, len: u32) -> &mut [u8] {
        &mut self.bytes[self.starts[id as usize] + from as usize..][..len as usize]
    }

    /// Returns the ranges `from` (each a buffer, a first byte and a length) for reading, and `into`
    /// for writing.
    ///
    /// # Panics
    /// When one of `from` overlaps `into`.
    pub fn apart(
        &mut self,
        from: &ArrayVec<(u32, u32, u32), MAX_PIECES>,
        into: (u32, u32, u32),
    ) -> (Sources<'_>, &mut [u8]) {
        let at = |(id, from, _): (u32, u32, u32)| self.starts[id as usize] + from as usize;
        let starts: ArrayVec<usize, MAX_PIECES> = from.iter().map(|range| at(*range)).collect();
        let (first, end) = (at(into), at(into) + into.2 as usize);
        let (before, rest) = self.bytes.split_at_mut(first);
        let (target, behind) = rest.split_at_mut(into.2 as usize);
        let (before, behind) = (&*before, &*behind);
        let read = |(start, range): (&usize, &(u32, u32, u32))| {
            if *start < first {
                &before[*start..][..range.2 as usize]
            } else {
                &behind[*start - end..][..range.2 as usize]
            }
        };
        (starts.iter().zip(from.iter()).map(read).collect(), target)
    }

    /// Records the ranges that `command` borrows.
    ///
    /// # Errors
    /// When a command in flight uses the same bytes and one of the two writes them.
    pub fn lend(&mut self, token: u64, command: &Command) -> Result<(), String> {
        let mut clash = None;
        each_range(command, |id, from, len, write| {
            let to = from + len;
            let loans = &mut self.loans[id as usize];
            let hit = |loan: &&Loan| loan.from < to && from < loan.to && (write || loan.write);
            if let Some(other) = loans.iter().find(hit) {
                clash = clash.or(Some((id, from, other.token)));
            }
            loans.push(Loan { token, from, to, write });
        });
        match clash {
            None => Ok(()),
            Some((id, from, other)) => Err(format!(
                "race: commands {token} and {other} use byte {from} of buffer {id} at once"
            )),
        }
    }

    /// Releases the ranges that a command borrowed.
    pub fn repay(&mut self, token: u64, command: &Command) {
        each_range(command, |id, _, _, _| {
            self.loans[id as usize].retain(|loan| loan.token != token);
        });
    }
}

/// Calls `visit(buffer, from, bytes, write)` for each payload range of a command.
fn each_range(command: &Command, mut visit: impl FnMut(u32, u32, u32, bool)) {
    let piece = |piece: &Piece, visit: &mut dyn FnMut(u32, u32, u32, bool)| {
        if let Piece::Data(view) = piece {
            visit(view.id(), view.from(), view.bytes(), false);
        }
    };
    match command {
        Command::Read { into: Target::Data(view), .. } => {
            visit(view.id(), view.from(), view.bytes(), true);
        }
        Command::Read { .. }
        | Command::Reset { .. }
        | Command::Mark { .. }
        | Command::Flush { .. }
        | Command::Report { .. } => {}
        Command::Program { gather, .. } => gather.iter().for_each(|p| piece(p, &mut visit)),
        Command::Place { from, into } => {
            piece(from, &mut visit);
            visit(into.id(), into.from(), into.bytes(), true);
        }
        Command::Pack { from, into, .. } | Command::Unpack { from, into, .. } => {
            visit(from.id(), from.from(), from.bytes(), false);
            visit(into.id(), into.from(), into.bytes(), true);
        }
        Command::Digest { from, .. } | Command::Peek { from, .. } => {
            visit(from.id(), from.from(), from.bytes(), false);
        }
        Command::Move { from, into, .. } => {
            visit(from.id(), from.from(), from.bytes(), false);
            visit(into.id(), into.from(), into.bytes(), true);
        }
        Command::Fold { from, into, .. } => {
            from.iter().for_each(|view| visit(view.id(), view.from(), view.bytes(), false));
            visit(into.id(), into.from(), into.bytes(), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_writers_are_a_race_and_readers_are_not() {
        let mut arena = Arena::default();
        let mut payload = arena.issue(4);
        let read = |payload: &mut Payload| Command::Digest { from: payload.view(0, 600), seed: 0 };
        let place = |payload: &mut Payload, from| Command::Place {
            from: Piece::zero_sectors(1),
            into: payload.view_mut(from, 512),
        };
        let commands = [read(&mut payload), read(&mut payload), place(&mut payload, 600)];
        for (token, command) in commands.iter().enumerate() {
            arena.lend(token as u64, command).expect("no race");
        }
        let late = place(&mut payload, 599);
        assert!(arena.lend(9, &late).is_err());
        arena.repay(9, &late);
        arena.repay(0, &commands[0]);
        arena.repay(1, &commands[1]);
        arena.repay(2, &commands[2]);
        arena.lend(9, &late).expect("the others are over");
        commands.into_iter().chain([late]).for_each(Command::void);
        payload.void();
    }
}
