//! Replaces a working device by a copy of it while clients are served. The old device remains a
//! member until the copy is complete, so redundancy is kept.
//!
//! The layer does not notice the copy. Chunks that change during a round are copied again in the
//! next one. At the end, commands to the old device are deferred while the last chunks are copied,
//! the superblocks are written and the driver switches to the new device. The old device is the
//! member until the superblock of the new one is durable: before that, a power cut, a cancellation
//! or an error of the new device changes nothing. If the old device can't be read completely, it is
//! excluded and the new one is rebuilt from the others, provided that they have its data.

use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hostftl_core::{AdminCommand, DeviceSet, Layer, SECTOR};
use hostftl_format::steps::{COPY, REBUILD};
use hostftl_io::{Backing, Device, IoError, Source, cuts};

use super::changer::{CLOSED, Changer, Finding, PATIENCE};
use super::effects::{Change, Place};
use crate::metadata::modelled;
use crate::metadata::roster::clear_ends;
use crate::running::copying::Copying;
use crate::running::superblock_writer::{DeviceContent, Handover};
use crate::util::error::{AdminError, Error};
use crate::util::events::Level;
use crate::util::lock;

/// Maximum bytes of the last round, during which commands to the old device wait.
const LAST: u64 = 8 << 20;
/// Maximum number of rounds before it. Each copies the chunks that changed during the previous one.
const ROUNDS: u32 = 32;
/// Timeout for the last commands of the old device.
const ENDS: Duration = Duration::from_secs(20);
/// Timeout for the end of a cancelled copy.
const CANCELS: Duration = Duration::from_secs(30);
/// Maximum pause after a chunk.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// A copy in progress.
pub(super) struct Copy {
    copying: Arc<Copying>,
    /// Read access to the old device, until the switch.
    source: Option<Source>,
    held: Option<Held>,
    /// Whether the copy failed because a part of the old device is unreadable.
    is_unreadable: bool,
}

impl Changer {
    /// Returns whether a member is replaced by a copy. It must respond, both devices must support
    /// copying, and its data must be sound or have no redundancy.
    pub(super) fn can_copy(
        &self,
        finding: &Finding,
        new: Option<&Device>,
    ) -> Result<bool, AdminError> {
        let uncopied = self.port.between(|driver, _| {
            let old = &driver.devices()[usize::from(finding.index)];
            let bad =
                driver.layer().gauges().map_or(DeviceSet::EMPTY, |it| it.failing | it.damaged);
            let why = if finding.was_lost { Some("is lost") } else { uncopyable(old) };
            let why = why.map(|why| (old.name().to_owned(), why));
            let new_reason = || new.and_then(|new| Some((new.name().to_owned(), uncopyable(new)?)));
            (why.or_else(new_reason), bad.contains(finding.index))
        });
        let (uncopied, is_bad) = uncopied.ok_or(CLOSED)?;
        // A failing device has redundancy elsewhere, so a rebuild is safer than a copy of its bad
        // data.
        match uncopied {
            Some((name, why)) if self.layer().tolerates() == 0 => {
                let text = format!("{name} {why}, and no other device has its data");
                Err(AdminError::refused(text))
            }
            uncopied => Ok(uncopied.is_none() && !(is_bad && self.layer().tolerates() > 0)),
        }
    }

    /// Cancels the copy of a device in progress. Returns the name of the new device, or `None`
    /// without a copy.
    pub(crate) fn cancel_copy(&self, index: u8) -> Result<Option<String>, AdminError> {
        let copy = lock(&self.sources.copy).clone().filter(|copy| copy.index == index);
        let Some(copy) = copy else { return Ok(None) };
        let is_cancelled = copy.cancel();
        copy.wait(CANCELS);
        if is_cancelled {
            Ok(Some(copy.new.clone()))
        } else {
            Err(AdminError::refused(format!(
                "cannot keep device {index}: {} is replacing it",
                copy.new
            )))
        }
    }

    /// Stops a copy in progress before the volume is closed.
    pub(crate) fn end_copy(&self) {
        let copy = lock(&self.sources.copy).clone();
        if let Some(copy) = copy {
            copy.stop();
            copy.wait(CANCELS);
        }
    }
}

impl Change {
    /// Starts the copy of the old device in the background. An event reports the result.
    pub(super) fn begin_copy(mut self) -> Result<Arc<Copying>, AdminError> {
        // Synchronously, so that a volume file that cannot be written refuses the command.
        self.run(&COPY[..1], 0)?;
        let changer = self.changer.clone();
        let volume = changer.config().uuid;
        // A file created for the copy is removed if the copy fails.
        self.made.iter_mut().for_each(|made| made.formats(volume));
        let (index, new) = (self.member().index, self.names[0].clone());
        let ways = changer.port.between(|driver, _| {
            let source = driver.devices()[usize::from(index)].source()?;
            // In one pause of the driver: changes are recorded from the moment at which reading is
            // possible.
            Ok::<_, IoError>((source, driver.begin_copy(index)))
        });
        let withdraw = |why: AdminError| {
            changer.forget_pending(slice::from_ref(&new));
            why
        };
        let ways = ways.ok_or(CLOSED).map_err(AdminError::from);
        let (source, uncopied) = ways.and_then(|ways| Ok(ways?)).map_err(withdraw)?;
        let copying = Arc::new(Copying::new(index, changer.id(index), new.clone(), uncopied));
        *lock(&changer.sources.copy) = Some(copying.clone());
        let source = Some(source);
        let of = Copy { copying: copying.clone(), source, held: None, is_unreadable: false };
        self.copy = Some(of);
        match thread::Builder::new().name("copy".into()).spawn(move || self.run_copy()) {
            Ok(_) => Ok(copying),
            Err(error) => {
                // Otherwise the thread ends the recording of changes, and clears `copy` for the
                // next change of the members.
                changer.port.between(|driver, _| driver.end_copy());
                *lock(&changer.sources.copy) = None;
                Err(withdraw(AdminError::refused(format!("cannot start a thread: {error}"))))
            }
        }
    }

    fn running_copy(&mut self) -> &mut Copy {
        self.copy.as_mut().expect("a device is copied")
    }

    /// Copies the device and switches to the new one.
    fn run_copy(mut self) {
        let (changer, copying) = (self.changer.clone(), self.running_copy().copying.clone());
        let done = self.run(COPY, 1).map(|()| true);
        self.running_copy().source = None;
        let outcome = match done {
            Err(why) if self.running_copy().is_unreadable => self.rebuild(&why).map(|()| false),
            done => done,
        };
        changer.port.between(|driver, _| driver.end_copy());
        let events = &changer.sources.samples.events;
        let (index, old, new) = (copying.index, &copying.old.path, &copying.new);
        let (level, kind, text) = match &outcome {
            Ok(is_copied) => {
                let how = if *is_copied { COMPLETE } else { REBUILT };
                let text = format!("{new} replaced device {index} ({old}); {how}");
                (Level::Info, "device-replaced", text)
            }
            Err(why) => {
                let text = format!("device {index} ({old}) was not replaced by {new}: {why}");
                (Level::Warning, "replace-cancelled", text)
            }
        };
        // The created file must be gone before the event is reported.
        drop(self);
        *lock(&changer.sources.copy) = None;
        events.report_device(index, level, kind, text);
        // For a rebuilt device, the layer reports this event.
        if outcome == Ok(true) {
            let text = format!("device {index} ({new}) is a member of the volume");
            events.report_device(index, Level::Info, "device-joined", text);
        }
        copying.end(outcome);
    }

    /// Copies all chunks, then the changed ones, until few are left.
    pub(super) fn copy_data(&mut self) -> Result<(), AdminError> {
        let copying = self.running_copy().copying.clone();
        for round in 0..ROUNDS {
            self.copy_chunks(round == 0)?;
            self.devices[0].sync()?;
            // Few enough that copying them while commands wait is not noticeable.
            if copying.uncopied.bytes() <= LAST {
                return Ok(());
            }
        }
        let why = format!("it is written faster than it can be copied to {}", copying.new);
        Err(self.unreadable(why))
    }

    /// Copies the marked chunks. Zeros are skipped if the new device is clear.
    fn copy_chunks(&mut self, is_clear: bool) -> Result<(), AdminError> {
        let copying = self.running_copy().copying.clone();
        let share = self.changer.layer().log.rebuild_share;
        let (mut from, mut requests) = (0, 0);
        while let Some(chunk) = copying.uncopied.take(from) {
            let passed = cuts::pass(&copying.new, || copying.is_cancelled().is_some());
            passed.map_err(|error| error.to_string())?;
            if let Some(why) = copying.is_cancelled() {
                return Err(why.into());
            }
            let seen = self.refuse_lost()?;
            let begun = Instant::now();
            let source = self.running_copy().source.as_ref().ok_or(CLOSED)?;
            let read = source.read_chunk(chunk);
            let mut pages = read.map_err(|error| self.unreadable(error.to_string()))?;
            self.devices[0].write_chunk(chunk, &mut pages, is_clear)?;
            // Pauses while clients send requests, so that they get their share of the device.
            if is_clear && seen != std::mem::replace(&mut requests, seen) {
                let rest =
                    begun.elapsed() * u32::from(100 - share.min(99)) / u32::from(share.max(1));
                thread::sleep(rest.min(LONGEST_REST));
            }
            from = chunk + 1;
        }
        Ok(())
    }

    /// Returns the number of client requests so far, or an error if the layer lost the old device.
    fn refuse_lost(&mut self) -> Result<u64, AdminError> {
        let index = self.member().index;
        let seen = self
            .changer
            .port
            .between(|driver, _| (driver.layer().members().lost(), driver.stats().requests_in));
        let (lost, requests) = seen.ok_or(CLOSED)?;
        if lost.contains(index) { Err(self.unreadable("it was lost".into())) } else { Ok(requests) }
    }

    /// Marks the old device as unreadable and returns the error.
    fn unreadable(&mut self, why: String) -> AdminError {
        self.running_copy().is_unreadable = true;
        why.into()
    }

    /// Defers commands to the old device and copies the last chunks.
    pub(super) fn hold_back(&mut self) -> Result<(), AdminError> {
        let (changer, copying) = (self.changer.clone(), self.running_copy().copying.clone());
        if !copying.take_over() {
            return Err(copying.is_cancelled().unwrap_or("it ended").into());
        }
        let index = copying.index;
        changer.port.between(|driver, _| driver.hold(index)).ok_or(CLOSED)?;
        self.running_copy().held = Some(Held(changer.clone()));
        let begun = Instant::now();
        // Commands in flight may still change chunks, so the last round starts after them.
        while changer.port.between(|driver, _| driver.is_busy(index)).unwrap_or(false) {
            if begun.elapsed() > ENDS {
                return Err("its commands did not complete".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.copy_chunks(false)?;
        self.devices[0].sync()?;
        self.refuse_lost().map(drop)
    }

    pub(super) fn release_commands(&mut self) {
        self.running_copy().held = None;
    }

    /// Writes the superblock of the complete copy, then those of the others. Once its own is
    /// durable, the new device is the member, even if another superblock can't be written.
    pub(super) fn make_member(&mut self) -> Result<(), AdminError> {
        let (handover, device) = (Arc::new(Handover::default()), &self.devices[0]);
        let has = DeviceContent::Everything(device.bytes() / SECTOR as u64, handover.clone());
        let receiver = self.changer.order_install(self.member().index, device, has)?;
        let recorded = match receiver.recv_timeout(PATIENCE) {
            Ok(recorded) => recorded,
            // Not begun: the writer will not write the superblock of the new device any more.
            Err(_) if handover.withdraw() => Err("cannot write the superblocks".into()),
            // The superblock is being written; only the result shows which device is the member.
            Err(_) => receiver.recv().unwrap_or_else(|_| Err(CLOSED.into())),
        };
        if handover.is_done() { Ok(()) } else { recorded }
    }

    /// Erases the superblock of a device that did not become a member. It may be durable, and must
    /// be erased before the old device changes.
    pub(super) fn clear_copy(&mut self) {
        let (device, events) = (&self.devices[0], &self.changer.sources.samples.events);
        if let Err(error) = clear_ends(device) {
            let text =
                format!("{} may still have a superblock of this volume: {error}", device.name());
            events.report(Level::Warning, "note", text);
        }
    }

    /// Switches the layer to the new device, which all superblocks name.
    pub(super) fn swap(&mut self) -> Result<(), AdminError> {
        self.running_copy().source = None;
        let (changer, device) = (self.changer.clone(), self.devices.remove(0));
        let (index, discard) = (self.member().index, device.info().discard);
        changer.show_device(index, &device);
        let old = changer.port.between(|driver, jobs| {
            let old = driver.swap(index, device);
            driver.end_copy();
            let command = match &old {
                Ok(_) => AdminCommand::Copied { device: index, discard },
                // The old device is no longer a member and must not be written.
                Err(_) => AdminCommand::Offline(index),
            };
            let is_reported = driver.operate(command, jobs).is_ok();
            old.map(drop).map_err(|error| (error, is_reported))
        });
        if let Some(Err((error, is_out))) = old {
            if !is_out {
                let why = format!("cannot use the copy of device {index}: {error}");
                changer.port.renew(|_, _| Err::<(_, ()), _>(Error::Failed(why)));
            }
            let text = format!("device {index} is excluded, because it cannot be used: {error}");
            changer.sources.samples.events.report_device(index, Level::Error, "device-lost", text);
        }
        self.release_commands();
        changer.rename(index, &self.names[0]);
        Ok(())
    }

    /// Excludes a device that can't be copied and rebuilds the new one from the others.
    fn rebuild(&mut self, why: &AdminError) -> Result<(), AdminError> {
        let (changer, copying) = (self.changer.clone(), self.running_copy().copying.clone());
        let (index, new) = (copying.index, &copying.new);
        let finding = changer.examine(index).map_err(|no| {
            no.reword(|no| {
                format!("it can be neither copied ({why}) nor rebuilt from the others: {no}")
            })
        })?;
        if !copying.take_over() {
            return Err(copying.is_cancelled().unwrap_or("it ended").into());
        }
        let text = format!(
            "cannot copy device {index} to {new} ({why}); it is excluded, and {new} is rebuilt \
             from the others"
        );
        changer.sources.samples.events.report_device(
            index,
            Level::Warning,
            "replace-rebuilds",
            text,
        );
        self.place = Place::Member(Box::new(finding));
        self.run(REBUILD, 0).map_err(|why| self.explain(why, true))
    }
}

/// Origin of the data on the new device.
const COMPLETE: &str = "it is a complete copy";
const REBUILT: &str = "its missing data is rebuilt from the others";

/// Returns the reason if a device can be neither source nor target of a copy.
fn uncopyable(one: &Device) -> Option<&'static str> {
    if matches!(one.backing(), Backing::Absent | Backing::Memory) {
        Some("is missing")
    } else if modelled::backing(one.name()).is_some() {
        Some("is a drive model, which cannot be copied; copy its file")
    } else if one.is_zoned() {
        Some("is zoned, and copying zoned devices is not supported")
    } else {
        None
    }
}

/// Guard that defers commands to a device until it is dropped.
struct Held(Arc<Changer>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.port.between(|driver, _| driver.release());
    }
}
