//! Closes and reopens the layer of a volume with other devices, while clients wait. Added devices
//! need a new layout. A cleanly closed layer needs no data of its journal, so the journal device
//! can be exchanged.
//!
//! While the layer is closed, the superblocks of the new devices are written first, then those of
//! the others. If a step fails before the first superblock of the others is written, the volume is
//! reopened unchanged.

use std::mem;

use hostftl_core::{DeviceSet, Layer, SECTOR};
use hostftl_format::roster::{Record, Standing};
use hostftl_format::steps::{self, Closed, Effects};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Backing, Driver};
use hostftl_layers::{AnyLayer, LayerConfig};

use super::add::{append_names, new_superblocks};
use super::changer::{CLOSED, Changer};
use super::effects::{Change, Place};
use crate::metadata::config::Config;
use crate::metadata::journal;
use crate::metadata::superblocks::{self, describe};
use crate::open::machine::{as_members, infos};
use crate::open::session;
use crate::open::take::peer_geometry::PeerGeometry;
use crate::running::jobs::Jobs;
use crate::running::reopen::{self, ClosedLayer, OpenedLayer};
use crate::running::status::Status;
use crate::util::error::{AdminError, Error};
use crate::util::lock;

impl Changer {
    /// Checks whether the layer may be closed and reopened. Returns the geometry of its devices and
    /// the removed ones.
    pub(super) fn may_be_closed(&self) -> Result<(PeerGeometry, DeviceSet), AdminError> {
        let (layer, recorded) = (self.layer(), self.recorded()?);
        let is_rehearsed = self.is_rehearsal();
        let query = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            let (devices, lost) = (driver.devices(), driver.layer().members().lost());
            if driver.is_tapped() {
                return Err("the layer is being recorded; serve the volume without --record");
            }
            // The journal is exempt: a closed layer does not need it.
            let known = DeviceSet::from_bits(recorded.missing);
            let unrecorded = lost - known - journal::recorded(&layer, &recorded);
            if !unrecorded.is_empty() && !is_rehearsed {
                return Err("a device was just lost, and not all others record it yet; try again");
            }
            if lost.iter().any(|index| driver.is_busy(index)) {
                return Err(
                    "a lost device has commands in flight; stop the volume for this change",
                );
            }
            let others = journal::others(&layer, devices);
            let there = others.filter(|device| device.backing() != Backing::Absent);
            // The superblocks may not record the removals yet; closing the layer writes them.
            Ok((PeerGeometry::from_devices(there), driver.layer().members().removed()))
        };
        self.port.between(query).ok_or(CLOSED)?.map_err(AdminError::from)
    }

    /// Updates the status to the reopened volume, which had `count` devices before.
    fn show(&self, opened: &OpenedLayer, config: &Config, count: usize, jobs: &Jobs) {
        let (driver, path) = (&opened.driver, self.path());
        let still = Status::new(path, config, &opened.layer, &opened.plan, driver);
        let mut device_views = lock(&self.sources.device_views);
        device_views.reopened(still, driver.devices(), count, &self.sources.samples.events);
        let members = jobs.recorded().map_or_else(Default::default, |recorded| recorded.members);
        device_views.names.take_list(&config.devices, &members);
        drop(device_views);
        let mut event_host = lock(&self.sources.event_host);
        driver.devices()[count..].iter().for_each(|device| event_host.add(device.name()));
    }
}

impl Change {
    /// Closes the layer and reopens it with the new devices.
    pub(super) fn reopen_layer(&mut self) -> Result<(), AdminError> {
        let (changer, file) = (self.changer.clone(), self.changer.file()?);
        let path = changer.path();
        let layer = file.layer_config().map_err(|why| Error::Config { path: path.into(), why })?;
        let renewed = changer.port.renew(|driver, jobs| self.reopen_with(&layer, driver, jobs));
        match renewed.ok_or(CLOSED)? {
            Ok(reopened) => reopened.map_err(AdminError::from),
            Err(why) => {
                // The volume has failed, so nothing can be undone.
                self.decide();
                Err(why)
            }
        }
    }

    /// Returns the driver of the reopened layer, and the error if it was reopened with the previous
    /// devices.
    fn reopen_with(
        &mut self,
        layer: &LayerConfig,
        driver: Driver<AnyLayer>,
        jobs: &mut Jobs,
    ) -> Result<(Driver<AnyLayer>, Result<(), Error>), Error> {
        let changer = self.changer.clone();
        let mut rest = reopen::close(driver, jobs)?;
        let (mut config, count) = (changer.config(), rest.devices.len());
        // An inner error leaves the previous devices, and the layer is reopened with them. An outer
        // one ends the volume, because superblocks may name the new devices already.
        let installed = steps::join(&mut Joining {
            change: self,
            layer,
            rest: &mut rest,
            config: &mut config,
        })?;
        let (port, sources) = (&changer.port, &changer.sources);
        let opened = reopen::open(rest, (&config, layer.clone()), (port, sources), jobs)?;
        if let (Ok(()), Place::Member(finding)) = (&installed, &self.place) {
            let (index, at) = (finding.index, usize::from(finding.index));
            let device = &opened.driver.devices()[at];
            let uuid = jobs.recorded().map_or([0; 16], |recorded| recorded.members[at]);
            lock(&sources.device_views).replace(index, device, uuid, &sources.samples.events);
            lock(&sources.event_host).rename(index, device.name().to_owned());
        }
        changer.show(&opened, &config, count, jobs);
        // After the reopening, so that no client sees a size that the layer does not have.
        port.set_bytes(opened.plan.limits.exported * SECTOR as u64);
        changer.reopened(opened.layer, config);
        Ok((opened.driver, installed))
    }
}

/// Devices that join while the layer is closed.
struct Joining<'a> {
    change: &'a mut Change,
    layer: &'a LayerConfig,
    rest: &'a mut ClosedLayer,
    config: &'a mut Config,
}

impl Closed for Joining<'_> {
    type Error = Error;

    fn superblocks(&mut self) -> Result<Vec<Superblock>, Error> {
        let (change, rest) = (&*self.change, &*self.rest);
        let recorded = rest.roster.target().ok_or_else(|| Error::Failed(CLOSED.into()))?;
        Ok(match &change.place {
            Place::Member(finding) => {
                let (index, device) = (finding.index, &change.devices[0]);
                let mut superblock = match &change.own {
                    None => {
                        superblocks::replacement(&recorded, index, device.bytes() / SECTOR as u64)
                    }
                    Some((own, _)) => superblocks::comeback(&recorded, own),
                };
                // A journal has no missing data, because no root of the closed layer refers to it.
                (superblock.fresh, superblock.returning) = (recorded.fresh, recorded.returning);
                vec![superblock]
            }
            Place::New { is_spare } => {
                let layer = as_members(self.layer.clone(), rest.lost, &recorded);
                let devices = (infos(&rest.devices), &change.devices[..]);
                new_superblocks(&layer, &recorded, devices, *is_spare)?
            }
        })
    }

    fn describe(&mut self, at: usize, superblock: &Superblock) -> Result<(), Error> {
        let (changer, device) = (&self.change.changer, &self.change.devices[at]);
        describe(device, superblock)?;
        match &changer.session {
            Some(session) => session.serving(std::slice::from_ref(device), DeviceSet::EMPTY)?,
            None => session::carry_over(changer.config().uuid, &self.rest.devices, device)?,
        }
        Ok(())
    }

    fn decide(&mut self) {
        self.change.decide();
    }

    fn admit(&mut self, superblocks: &[Superblock]) -> Result<(), Error> {
        let Joining { change, rest, config, .. } = self;
        let record = |superblock: &Superblock| Record { superblock: *superblock, sound: [true; 2] };
        let records: Vec<Record> = superblocks.iter().map(record).collect();
        match &change.place {
            Place::Member(finding) => {
                let (index, at) = (finding.index, usize::from(finding.index));
                rest.devices[at] = change.devices.remove(0);
                rest.lost.remove(index);
                rest.roster.replace(index, records[0]);
                config.devices[at].clone_from(&change.names[0]);
            }
            Place::New { .. } => {
                rest.devices.extend(mem::take(&mut change.devices));
                // The new superblocks are durable already, so they enter the roster as sound.
                rest.roster.add(&records);
                append_names(&mut config.devices, &change.names);
            }
        }
        let devices = &config.devices;
        config.deadlines.retain(|name, _| devices.contains(name));
        Ok(rest.roster.settle(&rest.devices, Standing::from_lost(rest.lost.to_bits()))?)
    }
}
