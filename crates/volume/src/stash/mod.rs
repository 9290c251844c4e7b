//! Answered writes in memory that outlives the process, until a flush made them durable: the next
//! server of the volume finds them there (`serve --ack memfd`).
//!
//! Each write, trim and zeroing is put here before the layer gets it. The memory is a file on a
//! tmpfs, so that nobody has to hold it open. It is as volatile as the machine's memory is.
//!
//! Invariants
//! - The layer does overlapping changes in the order of the stash: one waits until those before it
//!   are answered.
//! - What a flush covers is freed only when its answer says that it is durable: what was answered
//!   before the flush was sent, as far as everything before that was.
//! - A change whose answer is an error is not put through again.

mod entry;
mod folder;
mod put;
mod ring;

use std::collections::BTreeMap;

use crate::front::{Job, JobOp};

use self::entry::Kind;
use self::ring::Ring;

pub use self::folder::{Left, forget, make, refuse_newer, tidy};
pub use self::put::put_through;

/// See the module text.
#[derive(Debug)]
pub struct Stash {
    ring: Ring,
    /// What the layer has and has not answered: its place, and its range in bytes.
    flying: BTreeMap<u64, (u64, u64)>,
    /// Whether a flush that the stash wants is under way, and whether the last one failed.
    flushes: bool,
    failed: bool,
}

/// Whether the layer may have a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// It changes nothing.
    Free,
    /// It is kept at this place.
    Kept(u64),
    /// Something has to be answered first.
    Waits,
    /// The layer has to flush first, for room.
    Flush,
    /// There is no room, and no flush makes any; or the memory can't be written.
    Refused,
}

/// What has to be done with the stash when a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    None,
    /// It is kept at this place.
    Kept(u64),
    /// A flush that covers what is before this place, and whether the stash wanted it.
    Covers(u64, bool),
}

impl Stash {
    fn of(ring: Ring) -> Self {
        Stash { ring, flying: BTreeMap::new(), flushes: false, failed: false }
    }

    /// Keeps what a job is about to change, if it may begin now.
    pub fn enter(&mut self, job: &Job) -> Entrance {
        let (kind, data): (_, &[u8]) = match &job.op {
            JobOp::Write { data, .. } => (Kind::Write, data),
            JobOp::Trim { .. } => (Kind::Trim, &[]),
            JobOp::Zeroes { .. } => (Kind::Zeroes, &[]),
            JobOp::Read(_) | JobOp::Flush | JobOp::Status => return Entrance::Free,
        };
        let (begin, end) = (job.offset, job.offset + job.bytes);
        if self.flying.values().any(|&(from, to)| from < end && begin < to) {
            return Entrance::Waits;
        }
        // A flush frees something only when what is oldest is answered.
        let helps = self.covers() > self.ring.tail() && !self.flushes;
        if !self.ring.fits(data.len() as u64) {
            return match (helps, std::mem::take(&mut self.failed)) {
                (true, false) => self.want_flush(),
                (true, true) => Entrance::Refused,
                (false, failed) => {
                    self.failed = failed;
                    Entrance::Waits
                }
            };
        }
        if helps && !self.failed && self.ring.is_half_full() {
            return self.want_flush();
        }
        match self.ring.put(kind, job.offset, job.bytes, data) {
            Ok(place) => {
                self.flying.insert(place, (begin, end));
                Entrance::Kept(place)
            }
            Err(_) => Entrance::Refused,
        }
    }

    fn want_flush(&mut self) -> Entrance {
        self.flushes = true;
        Entrance::Flush
    }

    /// The place up to which all is answered: what a flush makes durable that is sent now.
    pub fn covers(&self) -> u64 {
        self.flying.first_key_value().map_or(self.ring.head(), |(place, _)| *place)
    }

    /// The layer answered the change at `place`, perhaps with an error.
    pub fn answered(&mut self, place: u64, is_ok: bool) {
        if !is_ok {
            // If that can't be noted, it is put through again: it may have happened anyway.
            self.ring.void(place).ok();
        }
        let was_there = self.flying.remove(&place).is_some();
        assert!(was_there, "one answer for each change");
    }

    /// The answer to a flush that covers what is before `place`, and that the stash `wanted`, or a
    /// client.
    pub fn flushed(&mut self, place: u64, wanted: bool, is_ok: bool) {
        if wanted {
            (self.flushes, self.failed) = (false, !is_ok);
        }
        if is_ok {
            self.failed = false;
            // What can't be freed stays, and is put through once more than needed.
            self.ring.free(place).ok();
        }
    }

    /// The volume was stopped clean: nothing of this is needed any more.
    pub fn remove(self) {
        std::fs::remove_file(self.ring.path()).ok();
    }
}
