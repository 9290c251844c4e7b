//! The state of a drive before a run, as the user names it: `new`, `fill=70%`, `steady`, `self`.

use std::fmt;
use std::str::FromStr;

use hostftl_core::SECTORS_PER_BLOCK;

/// The whole, in thousandths.
const ALL: u16 = 1000;

/// A kind of preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Writes a share of the exported capacity once, in order.
    Fill,
    /// Fills, then overwrites that share at random until write amplification is steady. The
    /// granularity is a block. Under a layer without a map it is the drive's indirection unit (IU),
    /// if that is larger: a write of less than an IU programs a whole IU anyway, so the drive's map
    /// ages in the same way.
    Steady,
    /// Fills, then repeats the workload until write amplification is steady.
    Own,
}

/// The state of a drive before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// Kind of preparation.
    pub(crate) how: How,
    /// Share of the exported capacity that is filled first, in thousandths.
    pub(crate) share: u16,
}

impl Warm {
    /// Never written.
    pub const NEW: Warm = Warm { how: How::Fill, share: 0 };
    /// The exported capacity was written once, in order.
    pub const FILL: Warm = Warm { how: How::Fill, share: ALL };
    /// Filled, then overwritten at random until write amplification is steady.
    pub const STEADY: Warm = Warm { how: How::Steady, share: ALL };
    /// The workload was repeated until write amplification was steady; nothing else was written.
    pub const OWN: Warm = Warm { how: How::Own, share: 0 };

    /// Returns the same state after a fill of `permille` thousandths of the exported capacity.
    #[must_use]
    pub fn after_fill(self, permille: u16) -> Self {
        Warm { share: permille.min(ALL), ..self }
    }

    /// Returns the state in which the same share is then overwritten at random.
    #[must_use]
    pub fn steady(self) -> Self {
        Warm { how: How::Steady, ..self }
    }

    /// Returns whether there is no preparation.
    pub fn is_new(self) -> bool {
        self == Warm::NEW
    }

    /// Returns whether the state depends on the workload.
    pub fn is_of_workload(self) -> bool {
        self.how == How::Own
    }

    /// Returns the share of the exported capacity that is filled first, in thousandths.
    pub fn filled_permille(self) -> u16 {
        self.share
    }

    /// Returns the sectors of `exported` that are filled first, in whole blocks.
    pub(crate) fn filled(self, exported: u64) -> u64 {
        let block = u64::from(SECTORS_PER_BLOCK);
        match self.share {
            ALL => exported,
            share => (u128::from(exported) * u128::from(share) / 1000) as u64 / block * block,
        }
    }
}

impl fmt::Display for Warm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, usual) = match self.how {
            How::Fill if self.share == 0 => return f.write_str("new"),
            How::Fill => ("fill", ALL),
            How::Steady => ("steady", ALL),
            How::Own => ("self", 0),
        };
        let (whole, tenth) = (self.share / 10, self.share % 10);
        match (self.share == usual, tenth) {
            (true, _) => f.write_str(name),
            (false, 0) => write!(f, "{name}={whole}%"),
            (false, _) => write!(f, "{name}={whole}.{tenth}%"),
        }
    }
}

impl FromStr for Warm {
    type Err = String;

    /// Parses `new`, `fill`, `steady` or `self`, the last three with an optional share as in
    /// `fill=70%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a state of a drive; write new, fill, steady or self, optionally \
                 with the share that is written first, as in fill=70%"
            )
        };
        let (name, share) = text.split_once('=').map_or((text, None), |(it, of)| (it, Some(of)));
        let warm = match name {
            "new" | "none" if share.is_none() => Warm::NEW,
            "fill" => Warm::FILL,
            "steady" => Warm::STEADY,
            "self" => Warm::OWN,
            _ => return Err(wrong()),
        };
        let Some(share) = share else { return Ok(warm) };
        let percent =
            share.strip_suffix('%').unwrap_or(share).parse::<f64>().map_err(|_| wrong())?;
        if (1.0..=100.0).contains(&percent) {
            Ok(warm.after_fill((percent * 10.0).round() as u16))
        } else {
            Err(wrong())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_are_written() {
        for text in ["new", "fill", "fill=70%", "steady", "steady=12.5%", "self", "self=70%"] {
            assert_eq!(text.parse::<Warm>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(("none".parse(), "fill=100".parse()), (Ok(Warm::NEW), Ok(Warm::FILL)));
        for wrong in ["", "old", "new=5%", "fill=0", "fill=101%", "self=NaN", "fill=", "=70%"] {
            assert!(wrong.parse::<Warm>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_whole_blocks() {
        assert_eq!(Warm::FILL.filled(1003), 1003);
        assert_eq!(Warm::FILL.after_fill(700).filled(1003), 696);
        assert_eq!((Warm::NEW.filled(1000), Warm::OWN.filled(1000)), (0, 0));
    }
}
