//! Membership changes as tables of named steps.
//!
//! The steps of a table run in order. If one fails, it and the previous ones are undone in reverse
//! order, and the volume is unchanged. A change is decided once a superblock may name a new device
//! as a member. From then on no step is undone; the next start completes or undoes the change
//! according to the superblocks (see [`crate::open::cut`]).
//!
//! The order of the steps makes power cuts harmless. The volume file lists the new devices as
//! pending before they are written. Their superblocks are written before those of the others. Last,
//! the volume file lists them as members.

use std::mem;
use std::sync::Arc;

use hostftl_core::{AdminCommand, SECTOR};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Access, Device};
use uuid::Uuid;

use super::changer::{Changer, Finding};
use super::copy::Copy;
use crate::metadata::claims;
use crate::open::stack::open_member;
use crate::open::take::ClaimedDevice;
use crate::open::take::clear::cleared;
use crate::open::take::created_files::CreatedFiles;
use crate::running::superblock_writer::DeviceContent;
use crate::util::error::AdminError;
use crate::util::lock;

/// A step of a change.
pub(super) struct Step {
    /// Name of the step, shown when another change is refused.
    pub name: &'static str,
    pub action: fn(&mut Change) -> Result<(), AdminError>,
    /// Undoes the step, even if it failed.
    pub undo: fn(&mut Change),
}

pub(super) const ANNOUNCE: Step = Step {
    name: "list the new devices as pending",
    action: Change::announce,
    undo: |change| change.changer.forget_pending(&change.names),
};
pub(super) const CLEAR: Step =
    Step { name: "clear the new devices", action: Change::clear, undo: nothing };
const LEAVE_OUT: Step =
    Step { name: "exclude the old device", action: Change::detach, undo: nothing };
const OPEN: Step = Step { name: "open the device", action: Change::open, undo: nothing };
const NOTE: Step = Step {
    name: "clear its offline mark",
    action: Change::withdraw_note,
    undo: Change::restore_note,
};
const ERASE: Step = Step { name: "erase its zones", action: Change::erase, undo: nothing };
const SUPERBLOCKS: Step =
    Step { name: "write the superblocks", action: Change::write_superblocks, undo: nothing };
const EXCHANGE: Step =
    Step { name: "switch to the device", action: Change::exchange, undo: nothing };
const REOPEN: Step =
    Step { name: "reopen the layer with the devices", action: Change::reopen, undo: nothing };
pub(super) const PUBLISH: Step =
    Step { name: "list the new devices as members", action: Change::publish, undo: nothing };

/// Steps that replace a device by an empty one, which is rebuilt.
pub(super) const REBUILD: &[Step] = &[ANNOUNCE, CLEAR, LEAVE_OUT, SUPERBLOCKS, EXCHANGE, PUBLISH];
/// Steps that return a lost device with its data, or erased if it is zoned.
pub(super) const TAKE_BACK: &[Step] = &[LEAVE_OUT, OPEN, NOTE, ERASE, SUPERBLOCKS, EXCHANGE];
/// Steps that add devices or replace the journal device.
pub(super) const ADD: &[Step] = &[ANNOUNCE, CLEAR, REOPEN, PUBLISH];
/// Steps that return the journal device.
pub(super) const TAKE_JOURNAL_BACK: &[Step] = &[OPEN, REOPEN];

fn nothing(_change: &mut Change) {}

/// Positions of the new devices.
pub(super) enum Place {
    /// Position of an existing member.
    Member(Box<Finding>),
    /// New positions after the other devices.
    New { is_spare: bool },
}

/// A membership change in progress.
pub(super) struct Change {
    pub changer: Arc<Changer>,
    pub place: Place,
    /// Names of the new devices.
    pub names: Vec<String>,
    /// The new devices, from their opening until they are installed.
    pub devices: Vec<Device>,
    /// Files created for them, which are removed unless the change is decided.
    pub made: Vec<CreatedFiles>,
    /// Superblock of a device that returns with its data, and the last write that it holds.
    pub own: Option<(Superblock, u64)>,
    /// The copy in progress, for a replacement by copy.
    pub copy: Option<Copy>,
    /// Facts that the administrator should know.
    pub notes: Vec<String>,
    /// Whether a superblock may name a new device as a member.
    pub is_decided: bool,
    /// Whether the volume file recorded the device as offline.
    was_noted: bool,
}

impl Change {
    pub(super) fn new(changer: &Arc<Changer>, place: Place, names: Vec<String>) -> Self {
        Change {
            changer: changer.clone(),
            place,
            names,
            devices: Vec::new(),
            made: Vec::new(),
            own: None,
            copy: None,
            notes: Vec::new(),
            is_decided: false,
            was_noted: false,
        }
    }

    /// Adds a device that was claimed for the change.
    pub(super) fn take(&mut self, ClaimedDevice { device, undo, held }: ClaimedDevice) {
        self.notes.extend(held.map(|held| format!("{} held {held}", device.name())));
        self.devices.push(device);
        self.made.push(undo);
    }

    /// Runs the steps of a table, except the first `done`, which are complete.
    pub(super) fn run(&mut self, steps: &[Step], done: usize) -> Result<(), AdminError> {
        for (at, step) in steps.iter().enumerate().skip(done) {
            *lock(&self.changer.step) = step.name;
            if let Err(why) = (step.action)(self) {
                if !self.is_decided {
                    // Including the failed step, which may have been done in part.
                    steps[..=at].iter().rev().for_each(|step| (step.undo)(self));
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// Returns the error of a change. If the change is decided, adds that the old device, which
    /// `worked` before, is excluded now.
    pub(super) fn explain(&self, why: AdminError, worked: bool) -> AdminError {
        if !worked || !self.is_decided {
            return why;
        }
        let index = self.member().index;
        why.reword(|why| format!("{why}; device {index} is excluded now"))
    }

    /// Returns the member that is replaced or returns.
    pub(super) fn member(&self) -> &Finding {
        match &self.place {
            Place::Member(finding) => finding,
            Place::New { .. } => unreachable!("the step is about a member"),
        }
    }

    /// Decides the change: from now on a superblock may name the new devices as members.
    pub(super) fn decide(&mut self) {
        self.is_decided = true;
        // A file that a superblock may name as a member must never be removed.
        mem::take(&mut self.made).into_iter().for_each(CreatedFiles::keep);
    }

    fn announce(&mut self) -> Result<(), AdminError> {
        let (file, path) = (self.changer.file()?, self.changer.path());
        match &self.place {
            Place::Member(finding) => file.announce_at(finding.index, path, &self.names[0]),
            Place::New { .. } => file.announce(path, &self.names),
        }
    }

    fn clear(&mut self) -> Result<(), AdminError> {
        let devices = mem::take(&mut self.devices);
        self.devices = devices.into_iter().map(cleared).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn detach(&mut self) -> Result<(), AdminError> {
        self.changer.detach(self.member())?;
        // The superblocks changed with the exclusion.
        self.place = Place::Member(Box::new(self.changer.examine(self.member().index)?));
        Ok(())
    }

    fn open(&mut self) -> Result<(), AdminError> {
        let name = &self.names[0];
        // The handle that is still open may refer to a device that was disconnected.
        self.changer.close(self.member(), name)?;
        let found = open_member(name, Access::Full)?;
        self.own = self.changer.verify(self.member(), &found)?;
        self.devices = vec![found.device];
        Ok(())
    }

    fn withdraw_note(&mut self) -> Result<(), AdminError> {
        let finding = self.member();
        let (index, device) = (finding.index, Uuid::from_bytes(finding.uuid()));
        self.was_noted = self.changer.config().offline.contains(&device);
        self.changer.note_offline(index, false)
    }

    fn restore_note(&mut self) {
        if self.was_noted {
            self.changer.note_offline(self.member().index, true).ok();
        }
    }

    fn erase(&mut self) -> Result<(), AdminError> {
        // Only a zoned device returns without usable data.
        if self.own.is_some() { Ok(()) } else { self.clear() }
    }

    fn write_superblocks(&mut self) -> Result<(), AdminError> {
        let (index, was) = (self.member().index, Uuid::from_bytes(self.member().uuid()));
        // The claim of a part of a device precedes its superblock, so that no other volume takes
        // it.
        claims::make(&self.devices[0], &self.member().newest)?;
        self.decide();
        let device = &self.devices[0];
        let has = match &self.own {
            None => DeviceContent::Nothing(device.bytes() / SECTOR as u64),
            Some((own, _)) => DeviceContent::AllUpTo(Box::new(*own)),
        };
        let written = self.changer.write_superblocks(index, device, has);
        self.changer.end(index, written)?;
        if self.own.is_none() {
            // An erased device gets a new UUID, so the order for the old one is obsolete.
            self.changer.keep_offline(was, false);
        }
        Ok(())
    }

    fn exchange(&mut self) -> Result<(), AdminError> {
        let device = self.devices.remove(0);
        let (index, discard) = (self.member().index, device.info().discard);
        let command = match self.own {
            None => AdminCommand::Replaced { device: index, discard },
            Some((_, has)) => AdminCommand::Returned { device: index, has },
        };
        let exchanged = self.changer.exchange(index, device, command);
        self.changer.end(index, exchanged)?;
        self.changer.rename(index, &self.names[0]);
        Ok(())
    }

    /// Lists the devices in the volume file. They are members even if this fails.
    fn publish(&mut self) -> Result<(), AdminError> {
        self.notes.extend(self.changer.publish(&self.names));
        Ok(())
    }
}
