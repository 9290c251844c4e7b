//! Registrations of flash drives, with a translation of their own and raw.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use hostftl_core::{About, Cause, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};

use super::Drive;
use crate::model::{Clock, Ended, Model, Soon};
use crate::pool::LoadError;
use crate::registration::{Description, Registration, SavedModel};
use crate::spec::{DriveSpec, file, keys};
use crate::text::{DriveError, Text};
use crate::work::{DriveWork, HandleWork};

/// Flash with its own translation.
pub(crate) static BLOCK: Registration = Registration {
    kind: "block",
    about: ABOUT,
    is_flash: true,
    keys: &[&keys::FLASH, &keys::BLOCK, &keys::LIFE],
    built_in: &[
        ("hatl-1g", include_str!("../../../../../stacks/drives/hatl-1g.toml")),
        ("hatl-2g", include_str!("../../../../../stacks/drives/hatl-2g.toml")),
        ("hatl-32g", include_str!("../../../../../stacks/drives/hatl-32g.toml")),
        ("mlc-32g", include_str!("../../../../../stacks/drives/mlc-32g.toml")),
        ("qlc-16k", include_str!("../../../../../stacks/drives/qlc-16k.toml")),
        ("qlc-64k", include_str!("../../../../../stacks/drives/qlc-64k.toml")),
        ("sata-mlc", include_str!("../../../../../stacks/drives/sata-mlc.toml")),
        ("slc-1g", include_str!("../../../../../stacks/drives/slc-1g.toml")),
        ("tlc", include_str!("../../../../../stacks/drives/tlc.toml")),
        ("tlc-7t", include_str!("../../../../../stacks/drives/tlc-7t.toml")),
    ],
    read,
};

/// Raw flash, translated by the layer.
pub(crate) static ZONED: Registration = Registration {
    kind: "zoned",
    about: ABOUT,
    is_flash: true,
    keys: &[&keys::FLASH, &keys::ZONED, &keys::LIFE],
    built_in: &[("open-channel", include_str!("../../../../../stacks/drives/open-channel.toml"))],
    read,
};

const ABOUT: &str = "device type; zoned: a raw drive, translated by the layer";

fn read(text: &Text) -> Result<Arc<dyn Description>, DriveError> {
    Ok(Arc::new(file::spec(text)?))
}

impl Description for DriveSpec {
    fn registration(&self) -> &'static Registration {
        if self.zoned.is_some() { &ZONED } else { &BLOCK }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn device_info(&self) -> DeviceInfo {
        DriveSpec::device_info(self)
    }

    fn exported(&self) -> u64 {
        self.exported
    }

    fn sectors(&self) -> u64 {
        self.shape.sectors()
    }

    fn map_unit(&self) -> u32 {
        self.map_unit
    }

    fn cycles(&self) -> u32 {
        self.cycles
    }

    fn dies(&self) -> u32 {
        self.shape.dies
    }

    fn memory(&self) -> u64 {
        DriveSpec::memory(self)
    }

    fn flash(&self) -> Option<&DriveSpec> {
        Some(self)
    }

    fn energy(&self, work: &DriveWork, cause: Cause) -> u64 {
        self.energy_nj(work, cause)
    }

    fn page_operations(&self, work: &DriveWork) -> u64 {
        work.flash.page_operations(self.shape.stripe)
    }

    fn left(&self) -> &[String] {
        &self.left
    }

    fn device(&self) -> Result<Box<dyn SavedModel>, DriveError> {
        Ok(Box::new(Drive::new(self)?))
    }

    fn load(&self, mut from: &mut dyn Read) -> Result<Box<dyn SavedModel>, LoadError> {
        Ok(Box::new(Drive::load(self, &mut from)?))
    }
}

impl SavedModel for Drive {
    fn save(&self, mut out: &mut dyn Write) -> io::Result<()> {
        Drive::save(self, &mut out)
    }
}

impl Model for Drive {
    fn info(&self) -> DeviceInfo {
        Drive::info(self)
    }

    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        Drive::submit(self, now, slot, command)
    }

    fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        Drive::report(self, about, into)
    }

    #[inline]
    fn next_at(&self) -> Option<Nanos> {
        Drive::next_at(self)
    }

    #[inline]
    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        Drive::advance(self, limit, ended)
    }

    fn idle(&self) -> bool {
        Drive::idle(self)
    }

    fn set_clock(&mut self, clock: Clock) {
        Drive::set_clock(self, clock);
    }

    fn work(&self) -> DriveWork {
        Drive::work(self)
    }

    fn handles(&self) -> Vec<HandleWork> {
        Drive::handles(self)
    }

    fn worn(&self) -> Vec<u32> {
        self.erased().collect()
    }

    fn check(&self) -> Result<(), &'static str> {
        Drive::check(self)
    }

    fn row_sectors(&self) -> Option<u32> {
        Some(self.spec().shape.row_sectors)
    }

    fn is_raw(&self) -> bool {
        self.spec().zoned.is_some()
    }

    fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        Drive::look_ahead(self, lbas, soon);
    }
}
