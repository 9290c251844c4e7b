//! Registration of a kind of device, used by the command line, studies and the Python package.

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
    /// Whether the kind is flash. Only flash wears with each erase, has a known energy, and is
    /// accepted where a [`DriveSpec`] is needed.
    pub is_flash: bool,
    /// The keys of its file besides `kind`, in the order in which users see them.
    pub keys: &'static [&'static [Key]],
    /// The names and files of the built-in devices.
    pub built_in: &'static [(&'static str, &'static str)],
    /// Reads the file of a device. The error names the line or the option that is wrong.
    pub read: fn(&Text) -> Result<Arc<dyn Description>, DriveError>,
}

/// A device as its file describes it. Lengths are in sectors.
pub trait Description: Any + Comparable + Debug + Send + Sync {
    /// Returns the registration of its kind.
    fn registration(&self) -> &'static Registration;

    /// Returns the name that the user gave, options included.
    fn name(&self) -> &str;

    /// Returns its interface as a layer sees it.
    fn device_info(&self) -> DeviceInfo;

    /// Returns the sectors that the host sees. A raw drive exports all of its sectors.
    fn exported(&self) -> u64;

    /// Returns all sectors, including over-provisioning.
    fn sectors(&self) -> u64 {
        self.exported()
    }

    /// Returns the smallest size, in sectors, of a write without a read-modify-write.
    fn map_unit(&self) -> u32 {
        self.device_info().iu_sectors
    }

    /// Returns the erases that a block survives, or the writes that a sector of a memory survives.
    /// 0 means unknown.
    fn cycles(&self) -> u32 {
        0
    }

    /// Returns the number of parts that work in parallel, such as dies.
    fn dies(&self) -> u32 {
        1
    }

    /// Returns the bytes of host memory that the model takes.
    fn memory(&self) -> u64;

    /// Returns whether the device leaves translation to the layer.
    fn is_raw(&self) -> bool {
        matches!(self.device_info().kind, DeviceKind::Zoned(_))
    }

    /// Returns the description of a flash drive, or `None` for other devices.
    fn flash(&self) -> Option<&DriveSpec> {
        None
    }

    /// Returns the energy that `work` took for `cause`, in nJ. 0 means unknown.
    fn energy(&self, _work: &DriveWork, _cause: Cause) -> u64 {
        0
    }

    /// Returns the NAND pages that `work` read and programmed.
    fn page_operations(&self, _work: &DriveWork) -> u64 {
        0
    }

    /// Returns the settings of another program's file that the model ignores, one sentence each.
    fn left(&self) -> &[String] {
        &[]
    }

    /// Makes a new device.
    ///
    /// # Errors
    /// When the device is impossible, or its model does not fit into memory.
    fn device(&self) -> Result<Box<dyn SavedModel>, DriveError>;

    /// Restores a device that [`SavedModel::save`] wrote.
    ///
    /// # Errors
    /// When `from` is not a state that was saved from this description.
    fn load(&self, from: &mut dyn Read) -> Result<Box<dyn SavedModel>, LoadError>;
}

/// A model whose state can be saved.
pub trait SavedModel: Model + Debug + Send {
    /// Writes the state in the form that [`Description::load`] reads.
    ///
    /// # Errors
    /// When writing to `out` fails.
    fn save(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Equality of descriptions of any kind. Every type that has `PartialEq` implements it.
pub trait Comparable {
    /// Returns whether `other` has the same type and is equal.
    fn is_equal(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Comparable for T {
    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}
