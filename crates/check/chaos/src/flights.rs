//! Commands in flight in one life: their order of completion, and those that time out.
//!
//! Invariants
//! - Every submitted command is here, running or timed out, until its `Done` is returned.
//! - On a zoned device, commands that change a segment complete in the order of submission.

use hostftl_core::{Command, DeviceSet, Nanos, Token};

use crate::dice::Dice;
use crate::disk::Disk;
use crate::draw::swarm::Order;
use crate::extent::{Extent, overlap};

/// Command in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Token of the command.
    pub token: Token,
    /// The command with its buffers.
    pub command: Command,
    /// Stamp of the device at the submission of a flush or program.
    pub stamp: u32,
    /// Range that it accesses on a device.
    pub extent: Option<Extent>,
    /// Time of submission.
    sent: Nanos,
    /// Number of commands submitted before it.
    seq: u64,
    /// Whether it is past its deadline.
    late: bool,
}

impl Flight {
    /// Returns whether it is past its deadline.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }
}

#[derive(Debug)]
pub(crate) struct Flights {
    running: Vec<Flight>,
    timed_out: Vec<Flight>,
    /// Number of commands submitted so far.
    begun: u64,
}

impl Flights {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Flights { running: Vec::with_capacity(256), timed_out: Vec::new(), begun: 0 }
    }

    /// Returns whether a command can complete now.
    pub(crate) fn any_going(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns whether a command has timed out.
    pub(crate) fn any_timed_out(&self) -> bool {
        !self.timed_out.is_empty()
    }

    /// Returns whether a command to a device is in flight.
    pub(crate) fn any_to(&self, device: u8) -> bool {
        let of_it = |flight: &Flight| flight.command.device() == Some(device);
        self.running.iter().chain(&self.timed_out).any(of_it)
    }

    /// Returns whether a token is in use.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.running.iter().chain(&self.timed_out).any(|other| other.token == token)
    }

    /// Returns whether a running command conflicts with the extent.
    pub(crate) fn overlaps(&self, extent: Option<Extent>) -> bool {
        self.running.iter().any(|other| overlap(other.extent, extent))
    }

    /// Returns whether the layer has abandoned all running commands to devices.
    pub(crate) fn are_given_up(&self) -> bool {
        self.running.iter().all(|flight| flight.late || flight.command.device().is_none())
    }

    /// Returns whether commands of devices other than `may_be` would be late too, if the deadline
    /// passed now.
    pub(crate) fn others_would_be_late(&self, may_be: DeviceSet) -> bool {
        let of_others =
            |flight: &Flight| flight.command.device().is_some_and(|it| !may_be.contains(it));
        !may_be.is_empty() && self.running.iter().any(of_others)
    }

    /// Checks that a command to a segment is submitted at a permitted time.
    pub(crate) fn keeps_order(
        &self,
        command: &Command,
        extent: Option<Extent>,
        disks: &[Disk],
        (now, deadline): (Nanos, Nanos),
    ) -> Result<(), String> {
        let Some(here) = place(extent, disks) else { return Ok(()) };
        let timed_out = self.timed_out.iter().filter(|it| now < it.sent + deadline);
        let others = self.running.iter().filter(|it| !it.late).chain(timed_out);
        for other in others.filter(|other| place(other.extent, disks) == Some(here)) {
            let resets =
                |command: &Command| matches!(command, Command::Reset { .. } | Command::Mark { .. });
            if resets(command) || resets(&other.command) {
                let what = crate::trace::command(command);
                let other = crate::trace::command(&other.command);
                return Err(format!("{what} while {other} is in flight to the same segment"));
            }
        }
        Ok(())
    }

    /// Returns whether a command has to wait in its segment behind one that timed out.
    pub(crate) fn is_behind_timed_out(&self, extent: Option<Extent>, disks: &[Disk]) -> bool {
        let here = place(extent, disks).filter(|_| extent.is_some_and(|(.., writes)| writes));
        here.is_some() && self.timed_out.iter().any(|it| write_place(it, disks) == here)
    }

    /// Adds a submitted command, which hangs or not.
    pub(crate) fn begin(
        &mut self,
        it: (Token, Command, u32),
        extent: Option<Extent>,
        sent: Nanos,
        hangs: bool,
    ) {
        let (token, command, stamp) = it;
        let flight = Flight { token, command, stamp, extent, sent, seq: self.begun, late: false };
        self.begun += 1;
        let list = if hangs { &mut self.timed_out } else { &mut self.running };
        list.push(flight);
    }

    /// Draws the running command that completes next.
    pub(crate) fn take(
        &mut self,
        dice: &mut Dice,
        (order, stubborn): (Order, u32),
        disks: &[Disk],
    ) -> Flight {
        let count = self.running.len() as u64;
        let index = match order {
            Order::Oldest if dice.chance(stubborn) => 0,
            Order::Newest if dice.chance(stubborn) => count - 1,
            _ => dice.below(count),
        };
        let index = self.first_in_segment(index as usize, disks);
        match order {
            Order::Any => self.running.swap_remove(index),
            Order::Oldest | Order::Newest => self.running.remove(index),
        }
    }

    /// Returns the first command of the segment that the command at `index` changes.
    fn first_in_segment(&self, index: usize, disks: &[Disk]) -> usize {
        let Some(place) = write_place(&self.running[index], disks) else { return index };
        let same = |&at: &usize| write_place(&self.running[at], disks) == Some(place);
        let all = (0..self.running.len()).filter(same);
        all.min_by_key(|&at| self.running[at].seq).unwrap_or(index)
    }

    /// Lets commands that have hung for `deadline` or longer complete late from now on. With
    /// `may_stay` some stay hung longer, or forever.
    pub(crate) fn release(
        &mut self,
        dice: &mut Dice,
        (now, deadline): (Nanos, Nanos),
        may_stay: bool,
    ) {
        for index in (0..self.timed_out.len()).rev() {
            let stays = may_stay && dice.chance(500);
            if self.timed_out[index].sent + deadline <= now && !stays {
                let flight = self.timed_out.swap_remove(index);
                self.running.push(Flight { late: true, ..flight });
            }
        }
    }

    /// Returns all commands, timed-out ones last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Flight> {
        self.running.iter().chain(&self.timed_out)
    }

    /// Returns all commands; those of a zoned device in the order of submission.
    pub(crate) fn in_order(&mut self, zoned: bool) -> impl Iterator<Item = &mut Flight> {
        let mut all: Vec<_> = self.running.iter_mut().chain(&mut self.timed_out).collect();
        if zoned {
            all.sort_by_key(|flight| flight.seq);
        }
        all.into_iter()
    }

    /// Discards every command at the end of the life.
    pub(crate) fn void(&mut self) {
        for flight in self.running.drain(..).chain(self.timed_out.drain(..)) {
            flight.command.void();
        }
    }
}

/// Returns the device and segment that a command changes, on a zoned device.
fn write_place(flight: &Flight, disks: &[Disk]) -> Option<(u8, u64)> {
    place(flight.extent, disks).filter(|_| flight.extent.is_some_and(|(.., writes)| writes))
}

fn place(extent: Option<Extent>, disks: &[Disk]) -> Option<(u8, u64)> {
    let (device, lba, ..) = extent?;
    Some((device, disks.get(usize::from(device))?.segment_at(lba)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hanging_commands_complete_after_the_deadline() {
        let (mut dice, mut flights) = (Dice::new(1, 1), Flights::new());
        let mut next = |flights: &mut Flights| flights.take(&mut dice, (Order::Any, 0), &[]);
        for (token, hangs) in [(Token(0), true), (Token(1), false)] {
            let begun = (token, Command::Flush { device: 0 }, 0);
            flights.begin(begun, None, 100, hangs);
        }
        assert!(flights.has(Token(0)) && flights.any_timed_out() && !flights.are_given_up());
        assert_eq!(next(&mut flights).token, Token(1));
        flights.release(&mut Dice::new(1, 1), (149, 50), false);
        assert!(flights.any_timed_out() && !flights.any_going(), "it is not late yet");
        flights.release(&mut Dice::new(1, 1), (150, 50), false);
        assert!(!flights.any_timed_out() && flights.are_given_up());
        assert!(next(&mut flights).is_late() && !flights.has(Token(0)));
    }
}
