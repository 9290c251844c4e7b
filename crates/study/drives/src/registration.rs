//! The registration of a kind of device: everything that the command line, studies and the Python
//! package know of it.

use std::any::Any;
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::sync::Arc;

use hostftl_core::{Cause, DeviceInfo, DeviceKind};

use crate::model::Model;
use crate::pool::LoadError;
use crate::spec::DriveSpec;
use crate::text::{DriveError, Key, Text};
use crate::work::DriveWork;

/// A kind of device.
#[derive(Debug)]
pub struct Registration {
    /// The value of `kind` in a device's file.
    pub kind: &'static str,
    /// The meaning of that value.
    pub about: &'static str,
    /// Whether it is flash, which wears by the erase and whose energy is known. Only flash is taken
    /// where a [`DriveSpec`] is needed.
    pub is_flash: bool,
    /// The keys of its file besides `kind`, in the order in which users see them.
    pub keys: &'static [&'static [Key]],
    /// The names and files of the devices that every program has built in.
    pub built_in: &'static [(&'static str, &'static str)],
    /// Reads the file of a device; the error names the line or the option that is wrong.
    pub(crate) read: fn(&Text) -> Result<Arc<dyn Description>, DriveError>,
}

/// A device as its file describes it. Lengths are in sectors.
pub trait Description: Any + Comparable + Debug + Send + Sync {
    /// Its kind.
    fn registration(&self) -> &'static Registration;

    /// The name that the user gave it, options included.
    fn name(&self) -> &str;

    /// Its interface as a layer sees it.
    fn device_info(&self) -> DeviceInfo;

    /// Sectors that the host sees; of a raw drive, all.
    fn exported(&self) -> u64;

    /// All sectors, spare ones too.
    fn sectors(&self) -> u64 {
        self.exported()
    }

    /// The grain in which it is written without more work.
    fn map_unit(&self) -> u32 {
        self.device_info().map_unit
    }

    /// Erases that a block survives; of a memory, writes of a sector; 0 if unknown.
    fn cycles(&self) -> u32 {
        0
    }

    /// Parts that work at the same time, such as dies.
    fn dies(&self) -> u32 {
        1
    }

    /// Bytes of memory that the model takes.
    fn memory(&self) -> u64;

    /// Whether it leaves translation to the layer.
    fn is_raw(&self) -> bool {
        matches!(self.device_info().kind, DeviceKind::Zoned(_))
    }

    /// The description of a flash drive.
    fn flash(&self) -> Option<&DriveSpec> {
        None
    }

    /// Energy that `work` took for `cause`, in nJ; 0 if unknown.
    fn energy(&self, _work: &DriveWork, _cause: Cause) -> u64 {
        0
    }

    /// NAND pages that `work` read and programmed.
    fn page_operations(&self, _work: &DriveWork) -> u64 {
        0
    }

    /// Settings in the file of another program that the model ignores, a sentence each.
    fn left(&self) -> &[String] {
        &[]
    }

    /// Makes a new device.
    ///
    /// # Errors
    /// When the device is impossible, or its model does not fit into memory.
    fn device(&self) -> Result<Box<dyn SavedModel>, DriveError>;

    /// Reads a device that [`SavedModel::save`] wrote.
    ///
    /// # Errors
    /// When `from` is no state that was saved from this description.
    fn load(&self, from: &mut dyn Read) -> Result<Box<dyn SavedModel>, LoadError>;
}

/// A model whose state can be saved.
pub trait SavedModel: Model + Debug + Send {
    /// Writes the state, which [`Description::load`] reads.
    ///
    /// # Errors
    /// When `out` can't be written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Equality of descriptions of any kind. Every type that has `PartialEq` implements it.
pub trait Comparable {
    /// Whether `other` is of the same type and equal.
    fn is_equal(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Comparable for T {
    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}
