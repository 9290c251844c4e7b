//! More devices come to a volume that is served. The layer is laid out anew with them, so it is
//! closed and opened again, while clients wait.
//!
//! The order is that of [`crate::change::add`]: the volume file names the new devices as pending,
//! and they are cleared, beside the clients; with the layer closed their superblocks are written,
//! and those of the others; with it open again, the volume file. Until a superblock of the others
//! is written the volume goes on as it was when something is wrong. A cut later is finished by the
//! next start.

use std::time::Instant;

use hostftl_core::{Layer, SECTOR};
use hostftl_format::roster::Standing;
use hostftl_format::superblock::{RESERVE, Superblock};
use hostftl_io::{Backing, Device, Driver};
use hostftl_layers::{AnyLayer, LayerConfig};

use super::{CLOSED, PATIENCE, PAUSE, Seats, lock};
use crate::change::add::{AddSpec, Added, added, come_in, ids, may_grow, names, of_zones, record};
use crate::change::add::{refuse_known, spare_sectors, superblocks, write};
use crate::metadata::config::Config;
use crate::metadata::journal;
use crate::open::machine::{as_members, infos};
use crate::open::names::DeviceId;
use crate::open::take::Taken;
use crate::open::take::clear::cleared;
use crate::open::take::peer_geometry::Beside;
use crate::open::take::take_whole;
use crate::running::jobs::Jobs;
use crate::running::reopen::{self, Opened, Rest};
use crate::running::status::Status;
use crate::util::error::{AdminError, AdminErrorKind, Error};
use crate::util::events::Level;

impl Seats {
    /// Gives the volume more devices.
    ///
    /// # Errors
    /// Why they did not come, in words.
    pub(crate) fn add(&self, spec: &AddSpec) -> Result<Added, AdminError> {
        let _changes = self.begin()?;
        let mut file = self.file()?;
        let layer = file
            .layer_config()
            .map_err(|why| AdminError::from(Error::Config { path: spec.path.clone(), why }))?;
        may_grow(&file, &self.layer(), spec)?;
        let new = names(spec)?;
        let force = spec.force || new.iter().all(|name| file.pending.contains(name));
        self.has_its_journal()?;
        let (mut beside, gone) = self.may_be_closed()?;
        if spec.spare {
            beside = beside.with_room(spare_sectors(&self.layer(), &self.said()?) + 2 * RESERVE);
        }
        refuse_known(spec, (&new, &file.devices), gone)?;
        self.are_closed(&new)?;
        let take = |(asked, name): (&String, &String)| take_whole((asked, name), &beside, force);
        let taken = spec.new.iter().zip(&new).map(take).collect::<Result<Vec<_>, _>>();
        let (mut come, mut undo, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for Taken { device, undo: one, held } in taken? {
            notes.extend(held.map(|held| format!("{} held {held}", device.name())));
            come.push(device);
            undo.push(one);
        }
        notes.extend(of_zones(&beside, spec.spare));
        let first = file.devices.len() as u8;
        let exported = self.would_export(spec, &come)?;
        if spec.rehearse {
            return Ok(Added { served: true, ..added(ids(&new, first, None), exported, notes) });
        }
        let before = file.clone();
        file.announce(&spec.path, &new)?;
        let withdraw = |error: Error| {
            before.publish_again(&spec.path).ok();
            AdminError::from(error)
        };
        let come = come.into_iter().map(cleared).collect::<Result<_, _>>().map_err(withdraw)?;
        come_in(&mut file.devices, &new);
        file.pending.retain(|name| !new.contains(name));
        let begun = Instant::now();
        let change = Change { spec, devices: &file.devices, layer, come };
        let renewed = self.port.renew(|driver, jobs| self.reopen(change, driver, jobs));
        if !matches!(renewed, Some(Ok(Err(_)))) {
            // A superblock may say that they are members.
            undo.into_iter().for_each(|undo| undo.keep());
        }
        let exported = renewed.ok_or(CLOSED)??.map_err(withdraw)?;
        let come = (first..first + new.len() as u8).map(|index| self.id(index)).collect();
        // The volume has the devices, whatever becomes of its file.
        notes.extend(self.conclude(&file));
        let done = Added { served: true, ..added(come, exported, notes) };
        self.tell(&done, begun);
        Ok(done)
    }

    /// Whether the journal's device is there, if there is one.
    fn has_its_journal(&self) -> Result<(), AdminError> {
        let journal = journal::bit(&self.layer(), self.config().devices.len());
        let look =
            |driver: &mut Driver<AnyLayer>, _: &mut Jobs| driver.layer().members().lost().to_bits();
        match self.port.between(look).ok_or(CLOSED)? & journal {
            0 => Ok(()),
            _ => {
                let (path, index) = (self.path.display(), journal.trailing_zeros());
                let text = format!(
                    "cannot add devices while the journal is missing: bring it back, or replace \
                     it (`hostftl device replace {path} {index} NEW`), and run the same command \
                     again"
                );
                Err(AdminError::new(AdminErrorKind::NeedsHand, text))
            }
        }
    }

    /// Whether the layer may be closed and opened again; what is known of its devices, and which of
    /// them have left.
    pub(super) fn may_be_closed(&self) -> Result<(Beside, u16), AdminError> {
        let (layer, said) = (self.layer(), self.said()?);
        let look = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            let (devices, lost) = (driver.devices(), driver.layer().members().lost().to_bits());
            if driver.is_tapped() {
                return Err("what it does is being recorded: serve it without --record");
            }
            // A journal is not needed once the layer is closed, whatever the others know.
            let is_rehearsed = self.rehearsal.is_some();
            if lost & !said.missing & !journal::bit_in(&layer, &said) != 0 && !is_rehearsed {
                return Err("a device was just lost, and not all others know: try again");
            }
            if (0..said.count).any(|index| lost >> index & 1 == 1 && driver.is_busy(index)) {
                return Err("commands of a lost device are under way: stop the volume for this");
            }
            let others = journal::others(&layer, devices);
            let there = others.filter(|device| device.backing() != Backing::Absent);
            // The superblocks may not say so yet: they do when it is closed.
            Ok((Beside::of(there), driver.layer().members().removed().to_bits()))
        };
        self.port.between(look).ok_or(CLOSED)?.map_err(AdminError::from)
    }

    /// Waits until devices that have left, and are to come again under these names, are closed.
    fn are_closed(&self, new: &[String]) -> Result<(), AdminError> {
        let known = self.config().devices;
        let begun = Instant::now();
        let is_open = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            let mut devices = driver.devices().iter().zip(&known);
            devices.any(|(device, name)| new.contains(name) && device.backing() != Backing::Absent)
        };
        while self.port.between(is_open).ok_or(CLOSED)? {
            if begun.elapsed() > PATIENCE {
                return Err("a device that has left can't be closed: commands never ended".into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// What clients see before and after, in sectors, if the volume can be laid out so.
    fn would_export(&self, spec: &AddSpec, come: &[Device]) -> Result<(u64, u64), AdminError> {
        let look = self.port.between(|driver, _| infos(driver.devices()));
        let (others, said) = (look.ok_or(CLOSED)?, self.said()?);
        let layer = as_members(self.layer(), said.missing, &said);
        let superblocks = superblocks(&layer, &said, (others, come), spec.spare);
        let after = superblocks?[0].exported;
        Ok((said.exported, after))
    }

    /// Closes the layer and opens it with the devices that come, or as it was, and why.
    fn reopen(
        &self,
        change: Change,
        driver: Driver<AnyLayer>,
        jobs: &mut Jobs,
    ) -> Result<(Driver<AnyLayer>, Seated), Error> {
        let mut rest = reopen::close(driver, jobs)?;
        let (mut config, count) = (self.config(), rest.devices.len());
        let superblocks = self.write_new(&change, &rest);
        let seated = match superblocks {
            Ok((before, superblocks)) => {
                rest.devices.extend(change.come);
                rest.roster.add(&superblocks.iter().map(record).collect::<Vec<_>>());
                rest.roster.settle(&rest.devices, Standing::of_lost(rest.lost))?;
                config.devices.clone_from(change.devices);
                Ok((before, superblocks[0].exported))
            }
            Err(error) => Err(error),
        };
        let opened = reopen::open(rest, (&config, change.layer), (&self.port, &self.live), jobs)?;
        self.show(&opened, &config, count, jobs);
        self.port.set_bytes(opened.plan.limits.exported * SECTOR as u64);
        *lock(&self.layer) = opened.layer;
        *lock(&self.config) = config;
        Ok((opened.driver, seated))
    }

    /// Writes the superblocks of the devices that come, and how this run ends if it does not end
    /// well. Those superblocks, and what clients see before, in sectors.
    fn write_new(&self, change: &Change, rest: &Rest) -> Result<(u64, Vec<Superblock>), Error> {
        let said = rest.roster.target().ok_or_else(|| Error::Failed(CLOSED.into()))?;
        let layer = as_members(change.layer.clone(), rest.lost, &said);
        let both = (infos(&rest.devices), &change.come[..]);
        let superblocks = superblocks(&layer, &said, both, change.spec.spare)?;
        write(&change.come, &superblocks)?;
        change.come.iter().try_for_each(|device| self.mark(&rest.devices, device))?;
        Ok((said.exported, superblocks))
    }

    /// What is shown of the volume from now on, which had `count` devices.
    pub(super) fn show(&self, opened: &Opened, config: &Config, count: usize, jobs: &Jobs) {
        let (driver, path) = (&opened.driver, &self.path);
        let still = Status::of_running(path, config, &opened.layer, &opened.plan, driver);
        let mut faces = lock(&self.live.faces);
        faces.reopened(still, driver.devices(), count, &self.live.watched.events);
        let members = jobs.said().map_or_else(Default::default, |said| said.members);
        faces.names.take_list(&config.devices, &members);
        drop(faces);
        let mut news = lock(&self.live.news);
        driver.devices()[count..].iter().for_each(|device| news.add(device.name()));
    }

    fn tell(&self, done: &Added, begun: Instant) {
        for DeviceId { number, path, .. } in &done.devices {
            let text = format!(
                "{path} is device {number}; clients waited {} ms for that",
                begun.elapsed().as_millis()
            );
            self.live.watched.events.tell(Level::Info, "device-added", text);
        }
    }
}

/// Devices that are about to come.
struct Change<'a> {
    spec: &'a AddSpec,
    /// The names of all then.
    devices: &'a Vec<String>,
    /// The layer as the volume's file says it.
    layer: LayerConfig,
    come: Vec<Device>,
}

/// What clients see before and after, in sectors, or why nothing was changed.
type Seated = Result<(u64, u64), Error>;
