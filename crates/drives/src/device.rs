//! A device of a stack in a study: a flash drive, a storage-class memory, or an array of eMMC
//! chips.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use hostftl_core::{About, Cause, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};

use crate::drive::{Clock, Drive, Ended, Soon};
use crate::model::Model;
use crate::olive::{Olive, OliveSpec};
use crate::pool::LoadError;
use crate::scm::{Scm, ScmSpec};
use crate::spec::{DriveError, DriveSpec};
use crate::work::DriveWork;

/// What a device is made of.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a study has a handful of them")]
pub enum DeviceSpec {
    /// Flash, with or without a translation of its own.
    Flash(DriveSpec),
    /// Memory that is written in place.
    Scm(ScmSpec),
    /// Chips that translate by themselves, behind an FPGA. Of their flash nothing is known.
    Olive(OliveSpec),
}

impl From<DriveSpec> for DeviceSpec {
    fn from(spec: DriveSpec) -> Self {
        DeviceSpec::Flash(spec)
    }
}

impl DeviceSpec {
    /// What the user called it.
    pub fn name(&self) -> &str {
        match self {
            DeviceSpec::Flash(spec) => &spec.name,
            DeviceSpec::Scm(spec) => &spec.name,
            DeviceSpec::Olive(spec) => &spec.name,
        }
    }

    /// What a layer is told of it.
    pub fn device_info(&self) -> DeviceInfo {
        match self {
            DeviceSpec::Flash(spec) => spec.device_info(),
            DeviceSpec::Scm(spec) => spec.device_info(),
            DeviceSpec::Olive(spec) => spec.device_info(),
        }
    }

    /// Sectors that the host sees; of a raw drive, all.
    pub fn exported(&self) -> u64 {
        match self {
            DeviceSpec::Flash(spec) => spec.exported,
            DeviceSpec::Scm(spec) => spec.sectors(),
            DeviceSpec::Olive(spec) => spec.sectors,
        }
    }

    /// Sectors that there are, spare ones too.
    pub fn sectors(&self) -> u64 {
        match self {
            DeviceSpec::Flash(spec) => spec.shape.sectors(),
            DeviceSpec::Scm(spec) => spec.sectors() + u64::from(spec.spare) * u64::from(spec.page),
            DeviceSpec::Olive(spec) => spec.sectors,
        }
    }

    /// The grain in which it is written without more work, in sectors.
    pub fn map_unit(&self) -> u32 {
        match self {
            DeviceSpec::Flash(spec) => spec.map_unit,
            DeviceSpec::Scm(_) => 1,
            DeviceSpec::Olive(spec) => spec.device_info().map_unit,
        }
    }

    /// Erases that a block survives; of a memory, writes of a sector; 0 where that is not known.
    pub fn cycles(&self) -> u32 {
        match self {
            DeviceSpec::Flash(spec) => spec.cycles,
            DeviceSpec::Scm(spec) => spec.endurance.min(u32::MAX.into()) as u32,
            DeviceSpec::Olive(_) => 0,
        }
    }

    /// What works at the same time: dies; a memory is one.
    pub fn dies(&self) -> u32 {
        match self {
            DeviceSpec::Flash(spec) => spec.shape.dies,
            DeviceSpec::Scm(_) => 1,
            DeviceSpec::Olive(spec) => spec.chips as u32,
        }
    }

    /// Bytes of memory that the model takes.
    pub fn memory(&self) -> u64 {
        match self {
            DeviceSpec::Flash(spec) => spec.memory(),
            DeviceSpec::Scm(spec) => spec.memory(),
            DeviceSpec::Olive(_) => 1 << 20,
        }
    }

    /// Whether it leaves translation to the layer.
    pub fn is_raw(&self) -> bool {
        match self {
            DeviceSpec::Flash(spec) => spec.zoned.is_some(),
            DeviceSpec::Scm(_) => false,
            DeviceSpec::Olive(spec) => spec.raw,
        }
    }

    /// Whether it is flash, which wears by the erase and whose energy is known.
    pub fn is_flash(&self) -> bool {
        matches!(self, DeviceSpec::Flash(_))
    }

    /// Energy for `cause`, in nJ; nothing is known of that of others than flash drives.
    pub fn energy(&self, work: &DriveWork, cause: Cause) -> u64 {
        match self {
            DeviceSpec::Flash(spec) => work.energy(spec, cause),
            DeviceSpec::Scm(_) | DeviceSpec::Olive(_) => 0,
        }
    }

    /// NAND pages read and programmed.
    pub fn page_operations(&self, work: &DriveWork) -> u64 {
        match self {
            DeviceSpec::Flash(spec) => work.flash.page_operations(spec.shape.stripe),
            DeviceSpec::Scm(_) | DeviceSpec::Olive(_) => 0,
        }
    }
}

/// A modelled device.
#[derive(Debug)]
pub enum Device {
    /// See [`DeviceSpec::Flash`].
    Flash(Box<Drive>),
    /// See [`DeviceSpec::Scm`].
    Scm(Box<Scm>),
    /// See [`DeviceSpec::Olive`].
    Olive(Box<Olive>),
}

impl Device {
    /// A new one.
    ///
    /// # Errors
    /// When there can be no such drive.
    pub fn new(spec: &DeviceSpec) -> Result<Self, DriveError> {
        Ok(match spec {
            DeviceSpec::Flash(spec) => Device::Flash(Box::new(Drive::new(spec)?)),
            DeviceSpec::Scm(spec) => Device::Scm(Box::new(Scm::new(spec))),
            DeviceSpec::Olive(spec) => Device::Olive(Box::new(Olive::new(spec))),
        })
    }

    /// Writes its state, which [`Device::load`] reads.
    ///
    /// # Errors
    /// When `out` can't be written.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Device::Flash(drive) => drive.save(out),
            Device::Scm(scm) => scm.save(out),
            Device::Olive(olive) => olive.save(out),
        }
    }

    /// The device that [`Device::save`] wrote.
    ///
    /// # Errors
    /// When what is read is none that was saved from `spec`.
    pub fn load(spec: &DeviceSpec, from: &mut impl Read) -> Result<Self, LoadError> {
        Ok(match spec {
            DeviceSpec::Flash(spec) => Device::Flash(Box::new(Drive::load(spec, from)?)),
            DeviceSpec::Scm(spec) => Device::Scm(Box::new(Scm::load(spec, from)?)),
            DeviceSpec::Olive(spec) => Device::Olive(Box::new(Olive::load(spec, from)?)),
        })
    }
}

/// Asks whichever it is.
macro_rules! each {
    ($self:ident, $model:ident => $what:expr) => {
        match $self {
            Device::Flash($model) => $what,
            Device::Scm($model) => $what,
            Device::Olive($model) => $what,
        }
    };
}

impl Model for Device {
    fn info(&self) -> DeviceInfo {
        each!(self, it => Model::info(&**it))
    }

    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        each!(self, it => Model::submit(&mut **it, now, slot, command))
    }

    fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        each!(self, it => Model::report(&mut **it, about, into))
    }

    #[inline]
    fn next_at(&self) -> Option<Nanos> {
        each!(self, it => Model::next_at(&**it))
    }

    #[inline]
    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        each!(self, it => Model::advance(&mut **it, limit, ended))
    }

    fn idle(&self) -> bool {
        each!(self, it => Model::idle(&**it))
    }

    fn set_clock(&mut self, clock: Clock) {
        each!(self, it => Model::set_clock(&mut **it, clock));
    }

    fn work(&self) -> DriveWork {
        each!(self, it => Model::work(&**it))
    }

    fn worn(&self) -> Vec<u32> {
        each!(self, it => Model::worn(&**it))
    }

    fn check(&self) -> Result<(), &'static str> {
        each!(self, it => Model::check(&**it))
    }

    fn row_sectors(&self) -> Option<u32> {
        each!(self, it => Model::row_sectors(&**it))
    }

    fn is_raw(&self) -> bool {
        each!(self, it => Model::is_raw(&**it))
    }

    fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        each!(self, it => Model::look_ahead(&**it, lbas, soon));
    }
}
