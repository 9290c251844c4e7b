//! Membership changes as tables of named steps.
//!
//! The steps of a table run in order. If one fails, it and the previous ones are undone in reverse
//! order, and the volume is unchanged. A change is decided once a superblock may name a new device
//! as a member. From then on no step is undone; the next start completes or undoes the change
//! according to the superblocks ([`crate::changes`]).
//!
//! The order of the steps makes power cuts harmless. The volume file lists the new devices as
//! pending before they are written. Their superblocks are written before those of the others. Last,
//! the volume file lists them as members.
//!
//! The steps act through [`Effects`]. An open volume implements them with devices, and
//! `hostftl-chaos` with a volume in memory that is cut at any write.

use alloc::vec::Vec;

use crate::planted::{Bug, planted};
use crate::superblock::Superblock;

/// One step of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Lists the new devices as pending in the volume file.
    Announce,
    /// Clears the new devices.
    Clear,
    /// Excludes the old device.
    Exclude,
    /// Opens a device that returns.
    Open,
    /// Withdraws the note that an operator excluded the device.
    Note,
    /// Erases a device that returns and cannot keep its data.
    Erase,
    /// Writes the superblock of the device, and then those of the others.
    Superblocks,
    /// Passes the device to the layer.
    Exchange,
    /// Closes the layer, and opens it with the new devices.
    Reopen,
    /// Copies the old device.
    Copy,
    /// Defers commands to the old device, and copies the rest.
    Defer,
    /// Writes the superblock of a complete copy, and then those of the others.
    Succeed,
    /// Passes the copy to the layer.
    Switch,
    /// Lists the new devices as members in the volume file.
    Publish,
}

/// Steps that replace a device by an empty one, which is rebuilt.
pub const REBUILD: &[Step] =
    &[Step::Announce, Step::Clear, Step::Exclude, Step::Superblocks, Step::Exchange, Step::Publish];
/// Steps of a replacement by copy. The first step runs in the foreground.
pub const COPY: &[Step] = &[
    Step::Announce,
    Step::Clear,
    Step::Copy,
    Step::Defer,
    Step::Succeed,
    Step::Switch,
    Step::Publish,
];
/// Steps that return a lost device with its data, or erased if it is zoned.
pub const TAKE_BACK: &[Step] =
    &[Step::Exclude, Step::Open, Step::Note, Step::Erase, Step::Superblocks, Step::Exchange];
/// Steps that add devices or replace the journal device.
pub const ADD: &[Step] = &[Step::Announce, Step::Clear, Step::Reopen, Step::Publish];
/// Steps that return the journal device.
pub const TAKE_JOURNAL_BACK: &[Step] = &[Step::Open, Step::Reopen];

/// Action of a step on `E`, its undo, and the name that a refusal of another change gives.
struct Parts<E: Effects> {
    name: &'static str,
    action: fn(&mut E) -> Result<(), E::Error>,
    /// Undoes the step, also when it failed.
    undo: fn(&mut E),
}

impl Step {
    fn parts<E: Effects>(self) -> Parts<E> {
        let step = |name, action| Parts { name, action, undo: |_| () };
        match self {
            Step::Announce => Parts {
                undo: E::forget_pending,
                ..step("list the new devices as pending", E::announce)
            },
            Step::Clear => step("clear the new devices", E::clear),
            Step::Exclude => step("exclude the old device", E::exclude),
            Step::Open => step("open the device", E::open),
            Step::Note => {
                Parts { undo: E::restore_note, ..step("clear its offline mark", E::withdraw_note) }
            }
            Step::Erase => {
                step(
                    "erase its zones",
                    |change| {
                        if change.keeps_data() { Ok(()) } else { change.clear() }
                    },
                )
            }
            Step::Superblocks => step("write the superblocks", |change| {
                change.claim()?;
                change.decide();
                change.install()
            }),
            Step::Exchange => step("switch to the device", E::exchange),
            Step::Reopen => step("reopen the layer with the devices", E::reopen),
            Step::Copy => step("copy the data", E::copy),
            Step::Defer => Parts { undo: E::release, ..step("defer commands", E::defer) },
            Step::Succeed => Parts {
                undo: E::withdraw_copy,
                ..step("write the superblocks", |change| {
                    change.install_copy()?;
                    change.decide();
                    Ok(())
                })
            },
            Step::Switch => step("switch to the copy", E::switch),
            Step::Publish => step("list the new devices as members", E::publish),
        }
    }
}

/// Runs the steps of a table, except the first `done`, which are complete.
///
/// # Errors
/// The reason why a step failed. If the change was not decided by then, its steps are undone.
pub fn run<E: Effects>(change: &mut E, steps: &[Step], done: usize) -> Result<(), E::Error> {
    for (at, step) in steps.iter().enumerate().skip(done) {
        let Parts { name, action, .. } = step.parts();
        change.begin(name);
        if let Err(why) = action(change) {
            if !change.is_decided() {
                // Including the failed step, which may have been done in part.
                steps[..=at].iter().rev().for_each(|step| (step.parts().undo)(change));
            }
            return Err(why);
        }
    }
    Ok(())
}

/// Effects of a change of the members.
#[allow(clippy::missing_errors_doc, reason = "each effect fails when it cannot be completed")]
pub trait Effects {
    /// Reason of a failure.
    type Error;

    /// Records the name of the step that begins.
    fn begin(&mut self, step: &'static str);
    /// Returns whether a superblock may name a new device as a member.
    fn is_decided(&self) -> bool;
    /// Records that a superblock may name a new device as a member from now on.
    fn decide(&mut self);

    /// Lists the new devices as pending in the volume file.
    fn announce(&mut self) -> Result<(), Self::Error>;
    /// Lists the new devices as pending no longer.
    fn forget_pending(&mut self);
    /// Lists the new devices as members in the volume file.
    fn publish(&mut self) -> Result<(), Self::Error>;
    /// Removes the note from the volume file that an operator excluded the device.
    fn withdraw_note(&mut self) -> Result<(), Self::Error>;
    /// Restores the note that [`Effects::withdraw_note`] removed.
    fn restore_note(&mut self);

    /// Clears the new devices.
    fn clear(&mut self) -> Result<(), Self::Error>;
    /// Opens a device that returns, and verifies that it is the lost one.
    fn open(&mut self) -> Result<(), Self::Error>;
    /// Returns whether the device that returns keeps its data.
    fn keeps_data(&self) -> bool;
    /// Claims the new device for the volume.
    fn claim(&mut self) -> Result<(), Self::Error>;

    /// Makes the layer work without the old device. All others record that, and no command to the
    /// old device is in flight afterwards.
    fn exclude(&mut self) -> Result<(), Self::Error>;
    /// Writes the superblock of the new device, and then those of the others.
    fn install(&mut self) -> Result<(), Self::Error>;
    /// Passes the new device to the layer, in the place of the excluded one.
    fn exchange(&mut self) -> Result<(), Self::Error>;
    /// Closes the layer, calls [`join`], and opens the layer with the devices that it has then.
    fn reopen(&mut self) -> Result<(), Self::Error>;

    /// Copies the old device to the new one while the old one is in use.
    fn copy(&mut self) -> Result<(), Self::Error>;
    /// Defers commands to the old device, and copies the chunks that changed.
    fn defer(&mut self) -> Result<(), Self::Error>;
    /// Ends the deferral.
    fn release(&mut self);
    /// Writes the superblock of a complete copy, and then those of the others. It fails only if
    /// that of the copy is not durable.
    fn install_copy(&mut self) -> Result<(), Self::Error>;
    /// Clears the superblock of a device that did not become a member: it may be durable, and must
    /// be cleared before the old device changes.
    fn withdraw_copy(&mut self);
    /// Passes the copy to the layer, in the place of the old device.
    fn switch(&mut self) -> Result<(), Self::Error>;
}

/// Effects of devices that join while the layer is closed.
#[allow(clippy::missing_errors_doc, reason = "each effect fails when it cannot be completed")]
pub trait Closed {
    /// Reason of a failure.
    type Error;

    /// Returns the superblocks of the devices that join.
    fn superblocks(&mut self) -> Result<Vec<Superblock>, Self::Error>;
    /// Writes both copies of the superblock of joining device `at`, and its session mark.
    fn describe(&mut self, at: usize, superblock: &Superblock) -> Result<(), Self::Error>;
    /// Records that a superblock may name a new device as a member from now on.
    fn decide(&mut self);
    /// Adds the devices to the members, and writes the superblocks of the others.
    fn admit(&mut self, superblocks: &[Superblock]) -> Result<(), Self::Error>;
}

/// Makes devices members while the layer is closed: writes their superblocks, and then those of the
/// others. Until one of the others names them, they belong to no volume and the change can be
/// undone; the inner result has the reason for that.
///
/// # Errors
/// The reason why the superblocks of the others cannot be written.
pub fn join<C: Closed>(closed: &mut C) -> Result<Result<(), C::Error>, C::Error> {
    if planted(Bug::DescribedLast) {
        let superblocks = closed.superblocks();
        return superblocks
            .and_then(|it| closed.admit(&it).and_then(|()| describe(closed)).map(drop))
            .map(Ok);
    }
    match describe(closed) {
        Ok(superblocks) => {
            closed.decide();
            closed.admit(&superblocks).map(Ok)
        }
        Err(why) => Ok(Err(why)),
    }
}

fn describe<C: Closed>(closed: &mut C) -> Result<Vec<Superblock>, C::Error> {
    let superblocks = closed.superblocks()?;
    for (at, superblock) in superblocks.iter().enumerate() {
        closed.describe(at, superblock)?;
    }
    Ok(superblocks)
}
