//! A change of the members in progress on an open volume, and the effects of its steps.

use std::mem;
use std::sync::Arc;

use hostftl_core::{AdminCommand, SECTOR};
use hostftl_format::steps::{self, Effects, Step};
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

    /// Runs the steps of a table, except the first `done`, which are complete.
    pub(super) fn run(&mut self, steps: &[Step], done: usize) -> Result<(), AdminError> {
        steps::run(self, steps, done)
    }
}

impl Effects for Change {
    type Error = AdminError;

    fn begin(&mut self, step: &'static str) {
        *lock(&self.changer.step) = step;
    }

    fn is_decided(&self) -> bool {
        self.is_decided
    }

    fn decide(&mut self) {
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

    fn forget_pending(&mut self) {
        self.changer.forget_pending(&self.names);
    }

    /// Lists the devices in the volume file. They are members even if this fails.
    fn publish(&mut self) -> Result<(), AdminError> {
        self.notes.extend(self.changer.publish(&self.names));
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
            // The reason of the failed step is reported. An error of the note must not replace it.
            self.changer.note_offline(self.member().index, true).ok();
        }
    }

    fn clear(&mut self) -> Result<(), AdminError> {
        // On an error all of them are closed, and `made` removes the files created for them.
        let devices = mem::take(&mut self.devices);
        self.devices = devices.into_iter().map(cleared).collect::<Result<_, _>>()?;
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

    fn keeps_data(&self) -> bool {
        self.own.is_some()
    }

    fn claim(&mut self) -> Result<(), AdminError> {
        // The claim of a part of a device precedes its superblock, so that no other volume takes
        // it.
        claims::make(&self.devices[0], &self.member().newest).map_err(AdminError::from)
    }

    fn exclude(&mut self) -> Result<(), AdminError> {
        self.changer.detach(self.member())?;
        // The superblocks changed with the exclusion.
        self.place = Place::Member(Box::new(self.changer.examine(self.member().index)?));
        Ok(())
    }

    fn install(&mut self) -> Result<(), AdminError> {
        let (index, was) = (self.member().index, Uuid::from_bytes(self.member().uuid()));
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

    fn reopen(&mut self) -> Result<(), AdminError> {
        self.reopen_layer()
    }

    fn copy(&mut self) -> Result<(), AdminError> {
        self.copy_data()
    }

    fn defer(&mut self) -> Result<(), AdminError> {
        self.hold_back()
    }

    fn release(&mut self) {
        self.release_commands();
    }

    fn install_copy(&mut self) -> Result<(), AdminError> {
        self.make_member()
    }

    fn withdraw_copy(&mut self) {
        self.clear_copy();
    }

    fn switch(&mut self) -> Result<(), AdminError> {
        self.swap()
    }
}
