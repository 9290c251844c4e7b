//! What the host can address in every row of a drive: chosen for the drive, whatever the layers.

use std::fmt;

use crate::stack::Stack;
use hostftl_core::{SECTOR, SECTORS_PER_BLOCK};

/// What is exported of a drive unless the user says otherwise, in thousandths of what it exports by
/// itself: the rest is what layers with their default spare need for themselves on 2 GiB and more.
const USUAL: u64 = 800;
/// The same of a raw drive, which has no spare of its own: of all its flash.
const USUAL_RAW: u64 = 650;

/// What the host can address on a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Export {
    /// Four fifths of what the drive exports by itself; 65 % of a raw drive's flash.
    #[default]
    Usual,
    /// So many thousandths of that.
    Share(u32),
    /// So many bytes.
    Bytes(u64),
    /// In each row what its layer can export: such rows are not to be compared with each other.
    Most,
}

impl Export {
    /// Sectors of `stack` that the host can address, whole blocks, under a layer that could export
    /// `most`.
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

    /// The word that stands for it on `stack`: a share, bytes, or `most`.
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
                "{} % of the drive, {} % of a raw one",
                percent(USUAL),
                percent(USUAL_RAW)
            ),
            Export::Share(permille) => write!(f, "{} % of the drive", percent((*permille).into())),
            Export::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Export::Most => f.write_str("what each layer can"),
        }
    }
}
