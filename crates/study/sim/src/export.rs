//! The capacity that every row on a drive exports to the host. It depends on the drive, not on the
//! layers.

use std::fmt;

use crate::stack::Stack;
use hostftl_core::{SECTOR, SECTORS_PER_BLOCK};

/// Default share of the drive's own exported capacity, in thousandths. The rest suffices for layers
/// with their default over-provisioning on drives of 2 GiB and more.
const USUAL: u64 = 800;
/// Default share for raw drives, in thousandths of all flash: a raw drive has no over-provisioning
/// of its own.
const USUAL_RAW: u64 = 650;

/// The capacity that is exported to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Export {
    /// The default: 80 % of the drive's exported capacity, or 65 % of a raw drive's flash.
    #[default]
    Usual,
    /// A share in thousandths of the same.
    Share(u32),
    /// A number of bytes.
    Bytes(u64),
    /// In each row as much as its layer can export. Such rows can't be compared with each other.
    Most,
}

impl Export {
    /// Returns the exported sectors on `stack`, rounded down to whole blocks. `most` is the largest
    /// number that the layer can export.
    pub fn sectors(self, stack: &Stack, most: u64) -> u64 {
        let share =
            |permille: u64| (u128::from(stack.sectors()) * u128::from(permille) / 1000) as u64;
        let sectors = match self {
            Export::Usual if stack.is_raw() => share(USUAL_RAW),
            Export::Usual => share(USUAL),
            Export::Share(permille) => share(permille.into()),
            Export::Bytes(bytes) => bytes / SECTOR as u64,
            Export::Most => return most,
        };
        sectors / u64::from(SECTORS_PER_BLOCK) * u64::from(SECTORS_PER_BLOCK)
    }

    /// Returns the value as a parameter of rows on `stack`: a share, a number of bytes, or `most`.
    pub fn word(self, stack: &Stack) -> String {
        let share = |permille: u64| format!("{}%", permille as f64 / 10.0);
        match self {
            Export::Usual if stack.is_raw() => share(USUAL_RAW),
            Export::Usual => share(USUAL),
            Export::Share(permille) => share(permille.into()),
            Export::Bytes(bytes) => bytes.to_string(),
            Export::Most => "most".to_owned(),
        }
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |permille: u64| permille as f64 / 10.0;
        match self {
            Export::Usual => write!(
                f,
                "{} % of the drive, {} % of a raw drive",
                percent(USUAL),
                percent(USUAL_RAW)
            ),
            Export::Share(permille) => write!(f, "{} % of the drive", percent((*permille).into())),
            Export::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Export::Most => f.write_str("the maximum of each layer"),
        }
    }
}
