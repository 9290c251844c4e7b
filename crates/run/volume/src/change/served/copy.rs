//! A device that still answers is replaced by a copy of it, beside the clients: until the copy is
//! complete, the old device stays a member, and no redundancy is lost.
//!
//! The layer knows nothing of the copy. Chunks that change meanwhile are copied again. At the end
//! commands to the old device are held back until the last chunks are copied, the superblocks name
//! the new device, and it is in the old one's place. Until the new device's superblock is durable
//! the old device is the member: a cut, a cancellation or an error of the new device leaves
//! everything as it was. A device that can't be read completely is left out instead, and the new
//! one is rebuilt from the others, if they have what it lacks.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hostftl_core::{Layer, SECTOR, Verb};
use hostftl_io::{Backing, Device, IoError, Source, cuts};

use super::{CLOSED, Look, PATIENCE, Seats, lock};
use crate::metadata::modelled;
use crate::metadata::roster::clear_ends;
use crate::open::take::clear::cleared;
use crate::open::take::made::Undo;
use crate::running::copying::Copying;
use crate::running::superblock_writer::Has;
use crate::running::superblock_writer::seating::Seating;
use crate::util::error::{AdminError, Error};
use crate::util::events::Level;

/// The most that the last round may copy, in bytes, while commands to the old device wait.
const LAST: u64 = 8 << 20;
/// The most rounds before that. Each copies the chunks that changed during the round before.
const ROUNDS: u32 = 32;
/// How long commands of the old device may take to end at the last.
const ENDS: Duration = Duration::from_secs(20);
/// How long the end of a copy is waited for when it was cancelled.
const CANCELS: Duration = Duration::from_secs(30);
/// The longest rest after a chunk.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How a device that was copied got its data.
const COMPLETE: &str = "it is a complete copy";

/// Why a copy did not become the member.
enum Failure {
    /// The old device stays, for this reason.
    Stays(String),
    /// Not all of the old device can be copied, for this reason.
    Unreadable(String),
}

/// A copy that is to be made.
pub(super) struct Copy {
    pub copying: Arc<Copying>,
    pub device: Device,
    pub source: Source,
    pub undo: Undo,
}

impl Seats {
    /// Whether the member that `look` is about is replaced by a copy of it: it answers, its data is
    /// trusted unless no other device has it, and both devices can be copied.
    pub(super) fn can_copy(&self, look: &Look, new: Option<&Device>) -> Result<bool, AdminError> {
        let uncopied = self.port.between(|driver, _| {
            let old = &driver.devices()[usize::from(look.index)];
            let bad = driver.layer().gauges().map_or(0, |it| (it.failing | it.damaged).to_bits());
            let why = if look.was_lost { Some("is lost") } else { uncopyable(old) };
            let why = why.map(|why| (old.name().to_owned(), why));
            let of_new = || new.and_then(|new| Some((new.name().to_owned(), uncopyable(new)?)));
            (why.or_else(of_new), bad >> look.index & 1 == 1)
        });
        let (uncopied, is_bad) = uncopied.ok_or(CLOSED)?;
        match uncopied {
            Some((name, why)) if self.layer().tolerates() == 0 => {
                let text = format!("{name} {why}, and no other device has what it holds");
                Err(AdminError::refused(text))
            }
            uncopied => Ok(uncopied.is_none() && !(is_bad && self.layer().tolerates() > 0)),
        }
    }

    /// Refuses another change of the devices while one is copied.
    ///
    /// # Errors
    /// In words, when one is.
    pub(crate) fn refuse_while_copying(&self) -> Result<(), AdminError> {
        match &*lock(&self.live.copy) {
            None => Ok(()),
            Some(copy) => Err(AdminError::refused(format!(
                "device {} is being copied to {}: wait for that (`hostftl wait`), or cancel it \
                 (`hostftl device online {} {}`)",
                copy.index,
                copy.new,
                self.path.display(),
                copy.index
            ))),
        }
    }

    /// Cancels the copy of a device, if one is under way. Returns the new device, if one
    /// was.
    ///
    /// # Errors
    /// In words, when the new device takes the old one's place already.
    pub(crate) fn cancel_copy(&self, index: u8) -> Result<Option<String>, AdminError> {
        let copy = lock(&self.live.copy).clone().filter(|copy| copy.index == index);
        let Some(copy) = copy else { return Ok(None) };
        let is_cancelled = copy.cancel();
        copy.wait(CANCELS);
        match is_cancelled {
            true => Ok(Some(copy.new.clone())),
            false => Err(AdminError::refused(format!(
                "device {index} can't be kept: {} takes its place",
                copy.new
            ))),
        }
    }

    /// Ends the copy of a device, if one is under way, because the volume is being closed.
    pub(crate) fn end_copy(&self) {
        let copy = lock(&self.live.copy).clone();
        if let Some(copy) = copy {
            copy.stop();
            copy.wait(CANCELS);
        }
    }

    /// Begins to copy a device to the one that replaces it.
    ///
    /// # Errors
    /// In words, when the system gives no thread or no second way to the device.
    pub(super) fn begin_copy(
        self: &Arc<Self>,
        look: &Look,
        (device, mut undo): (Device, Undo),
    ) -> Result<Arc<Copying>, AdminError> {
        // A file that was made goes again with the part that was copied.
        undo.formats(self.config().uuid);
        let (index, old, new) = (look.index, self.id(look.index), device.name().to_owned());
        let ways = self.port.between(|driver, _| {
            let source = driver.devices()[usize::from(index)].source()?;
            Ok::<_, IoError>((source, driver.begin_copy(index)))
        });
        let (source, uncopied) = ways.ok_or(CLOSED)??;
        let copying = Arc::new(Copying::new(index, old, new, uncopied));
        *lock(&self.live.copy) = Some(copying.clone());
        let copy = Copy { copying: copying.clone(), device, source, undo };
        let seats = self.clone();
        let run = move || seats.run_copy(copy);
        match thread::Builder::new().name("copy".into()).spawn(run) {
            Ok(_) => Ok(copying),
            Err(error) => {
                self.port.between(|driver, _| driver.end_copy());
                *lock(&self.live.copy) = None;
                Err(AdminError::refused(format!("cannot start a thread: {error}")))
            }
        }
    }

    /// Copies the device, and puts the new one in its place. Events report the outcome.
    fn run_copy(&self, copy: Copy) {
        let Copy { copying, device, source, undo } = copy;
        let mut undo = Some(undo);
        let outcome = self.replace_by_copy((&copying, device), source, &mut undo);
        self.port.between(|driver, _| driver.end_copy());
        let events = &self.live.watched.events;
        let (index, old, new) = (copying.index, &copying.old.path, &copying.new);
        // The layer reports a device that is rebuilt.
        let is_copied = outcome == Ok(COMPLETE);
        let (level, kind, text) = match &outcome {
            Ok(how) => {
                let text = format!("{new} is in the place of device {index} ({old}); {how}");
                (Level::Info, "device-replaced", text)
            }
            Err(why) => {
                let text = format!("device {index} ({old}) was not replaced by {new}: {why}");
                (Level::Warning, "replace-cancelled", text)
            }
        };
        // A file that was made for the new device goes before anybody hears of it.
        drop(undo);
        *lock(&self.live.copy) = None;
        events.tell_of(index, level, kind, text);
        if is_copied {
            let text = format!("device {index} ({new}) belongs to the volume and is written");
            events.tell_of(index, Level::Info, "device-joined", text);
        }
        copying.end(outcome.map(|_| is_copied));
    }

    /// Returns how the new device got its data.
    fn replace_by_copy(
        &self,
        (copying, device): (&Copying, Device),
        source: Source,
        undo: &mut Option<Undo>,
    ) -> Result<&'static str, AdminError> {
        let device = cleared(device).map_err(|error| {
            self.forget_pending(&copying.new);
            error.to_string()
        })?;
        let way = (copying, &device, &source);
        let copied = match self.copy_all(way).and_then(|()| self.take_over(way, undo)) {
            Ok(held) => {
                drop(source);
                self.swap(copying, device, held);
                return Ok(COMPLETE);
            }
            Err(failure) => failure,
        };
        drop(source);
        match copied {
            Failure::Stays(why) => {
                self.withdraw(&device);
                Err(why.into())
            }
            Failure::Unreadable(why) => self.rebuild((copying, device), why, undo),
        }
    }

    /// Copies all chunks, and those that change meanwhile, until few are left.
    fn copy_all(&self, way: (&Copying, &Device, &Source)) -> Result<(), Failure> {
        let (copying, device, _) = way;
        for round in 0..ROUNDS {
            self.copy_chunks(way, round == 0)?;
            device.sync().map_err(|error| Failure::Stays(error.to_string()))?;
            if copying.uncopied.bytes() <= LAST {
                return Ok(());
            }
        }
        let why = format!("it is written faster than {} takes a copy", copying.new);
        Err(Failure::Unreadable(why))
    }

    /// Copies the chunks that are marked. Where the new device is clear, zeros are left out.
    fn copy_chunks(
        &self,
        (copying, device, source): (&Copying, &Device, &Source),
        is_clear: bool,
    ) -> Result<(), Failure> {
        let share = self.layer().log.rebuild_share;
        let (mut from, mut requests) = (0, 0);
        while let Some(chunk) = copying.uncopied.take(from) {
            let passed = cuts::pass(&copying.new, || copying.is_cancelled().is_some());
            passed.map_err(|error| Failure::Stays(error.to_string()))?;
            if let Some(why) = copying.is_cancelled() {
                return Err(Failure::Stays(why.into()));
            }
            let seen = self
                .port
                .between(|driver, _| (driver.layer().members().lost(), driver.stats().requests_in));
            let (lost, seen) = seen.ok_or_else(|| Failure::Stays(CLOSED.into()))?;
            if lost.contains(copying.index) {
                return Err(Failure::Unreadable("it was lost".into()));
            }
            let begun = Instant::now();
            let unreadable = |error: IoError| Failure::Unreadable(error.to_string());
            let mut pages = source.read_chunk(chunk).map_err(unreadable)?;
            let written = device.write_chunk(chunk, &mut pages, is_clear);
            written.map_err(|error| Failure::Stays(error.to_string()))?;
            // Clients that are there get their share of the devices.
            if is_clear && seen != std::mem::replace(&mut requests, seen) {
                let rest =
                    begun.elapsed() * u32::from(100 - share.min(99)) / u32::from(share.max(1));
                thread::sleep(rest.min(LONGEST_REST));
            }
            from = chunk + 1;
        }
        Ok(())
    }

    /// Holds back commands to the old device, copies the last chunks, and makes the new device the
    /// member in all superblocks. Commands are held back until the returned guard is dropped.
    fn take_over(
        &self,
        way: (&Copying, &Device, &Source),
        undo: &mut Option<Undo>,
    ) -> Result<Held<'_>, Failure> {
        let (copying, device, _) = way;
        let index = copying.index;
        if !copying.take_over() {
            return Err(Failure::Stays(copying.is_cancelled().unwrap_or("it ended").into()));
        }
        let held = self.hold(index).ok_or_else(|| Failure::Stays(CLOSED.into()))?;
        let begun = Instant::now();
        while self.port.between(|driver, _| driver.is_busy(index)).unwrap_or(false) {
            if begun.elapsed() > ENDS {
                return Err(Failure::Stays("commands of it never ended".into()));
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.copy_chunks(way, false)?;
        device.sync().map_err(|error| Failure::Stays(error.to_string()))?;
        let lost = self.port.between(|driver, _| driver.layer().members().lost());
        if lost.ok_or_else(|| Failure::Stays(CLOSED.into()))?.contains(index) {
            return Err(Failure::Unreadable("it was lost".into()));
        }
        if let Err(why) = self.make_member(index, device) {
            // One of its superblocks may be durable. It must go before the old device changes.
            self.withdraw(device);
            return Err(Failure::Stays(why.text));
        }
        undo.take().into_iter().for_each(Undo::keep);
        Ok(held)
    }

    fn hold(&self, index: u8) -> Option<Held<'_>> {
        self.port.between(|driver, _| driver.hold(index)).map(|()| Held(self))
    }

    /// Writes the superblock of a complete copy, then those of the others. From when its own is
    /// durable the new device is the member, also when another can't be written.
    fn make_member(&self, index: u8, device: &Device) -> Result<(), AdminError> {
        let seating = Arc::new(Seating::default());
        let has = Has::Everything(device.bytes() / SECTOR as u64, seating.clone());
        let hears = self.order_seat(index, device, has)?;
        let said = match hears.recv_timeout(PATIENCE) {
            Ok(said) => said,
            Err(_) if seating.withdraw() => Err("the superblocks can't be written".into()),
            // It is being written: only its end shows which device is the member.
            Err(_) => hears.recv().unwrap_or_else(|_| Err(CLOSED.into())),
        };
        if seating.is_done() { Ok(()) } else { said }
    }

    /// The layer works with the new device from now on, which all superblocks name.
    fn swap(&self, copying: &Copying, device: Device, held: Held<'_>) {
        let (index, name) = (copying.index, device.name().to_owned());
        let discard = device.info().discard;
        device.set_deadline(Duration::from_nanos(self.layer().deadline));
        let said = self.port.between(|_, jobs| jobs.said()).flatten();
        let uuid = said.map_or([0; 16], |said| said.members[usize::from(index)]);
        lock(&self.live.faces).replace(index, &device, uuid, &self.live.watched.events);
        let old = self.port.between(|driver, jobs| {
            let old = driver.swap(index, device);
            driver.end_copy();
            let verb = match &old {
                Ok(_) => Verb::Copied { device: index, discard },
                // The old device is no member any more, and must not be written.
                Err(_) => Verb::Offline(index),
            };
            let is_told = driver.operate(verb, jobs).is_ok();
            old.map(drop).map_err(|error| (error, is_told))
        });
        if let Some(Err((error, false))) = &old {
            let why = format!("the copy of device {index} can't be used: {error}");
            self.port.renew(|_, _| Err::<(_, ()), _>(Error::Failed(why)));
        }
        drop(held);
        self.publish(index, &name);
        lock(&self.live.news).rename(index, name.clone());
        lock(&self.config).devices[usize::from(index)] = name;
        if let Some(Err((error, _))) = old {
            let text = format!("device {index} is left out, because it can't be used: {error}");
            self.live.watched.events.tell_of(index, Level::Error, "device-lost", text);
        }
    }

    /// Leaves out a device that can't be copied, and rebuilds the new one from the others.
    fn rebuild(
        &self,
        (copying, device): (&Copying, Device),
        why: String,
        undo: &mut Option<Undo>,
    ) -> Result<&'static str, AdminError> {
        let (index, new) = (copying.index, &copying.new);
        let look = self.look(index).map_err(|no| {
            no.reword(|no| format!("it can't be copied ({why}), nor rebuilt from the others: {no}"))
        });
        let look = look.and_then(|look| match copying.take_over() {
            true => Ok(look),
            false => Err(copying.is_cancelled().unwrap_or("it ended").into()),
        });
        let look = look.inspect_err(|_| self.withdraw(&device))?;
        let text = format!(
            "device {index} can't be copied to {new} ({why}): it is left out, and {new} is rebuilt \
             from the others"
        );
        self.live.watched.events.tell_of(index, Level::Warning, "replace-rebuilds", text);
        let cleared = cleared(device).map_err(AdminError::from);
        let cleared = cleared.and_then(|device| self.leave_out(&look).map(|()| device));
        let device = cleared.inspect_err(|_| self.forget_pending(new))?;
        undo.take().into_iter().for_each(Undo::keep);
        let seated = self.seat(&look, device).map(drop);
        seated.map_err(|why| why.reword(|why| format!("{why}; device {index} is left out now")))?;
        Ok("its missing data is rebuilt from the others")
    }

    /// Makes a device that did not become a member no member of anything.
    fn withdraw(&self, device: &Device) {
        let cleared = clear_ends(device);
        self.forget_pending(device.name());
        if let Err(error) = cleared {
            let text =
                format!("{} may still have a superblock of this volume: {error}", device.name());
            self.live.watched.events.tell(Level::Warning, "note", text);
        }
    }

    /// Lists a device as pending no longer.
    fn forget_pending(&self, name: &str) {
        let forgotten = self.file().and_then(|mut file| {
            file.pending.retain(|pending| pending != name);
            file.publish_again(&self.path).map_err(AdminError::from)
        });
        if let Err(why) = forgotten {
            let text =
                format!("{name} is still listed as pending: {why}; the next start corrects it");
            self.live.watched.events.tell(Level::Warning, "note", text);
        }
    }
}

/// Returns why a device can't be copied, or can't get a copy.
fn uncopyable(one: &Device) -> Option<&'static str> {
    if matches!(one.backing(), Backing::Absent | Backing::Memory) {
        Some("is missing")
    } else if modelled::backing(one.name()).is_some() {
        Some("stands for a modelled drive, which can't be copied: copy its file")
    } else if one.is_zoned() {
        Some("is zoned: such a device can't be copied yet")
    } else {
        None
    }
}

/// Commands to a device are held back until this is dropped.
struct Held<'a>(&'a Seats);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.port.between(|driver, _| driver.release());
    }
}
