//! Why a sector was written: every program is counted by cause, and the sums must agree.

use core::ops::AddAssign;

/// Why a command moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Cause {
    /// The host asked for it.
    Host,
    /// The layer's garbage collection copied it (HARD calls this VGC).
    Gc,
    /// Padding, to fill a unit early.
    Pad,
    /// A record of the layer's map log.
    Map,
    /// A page or root of the layer's checkpoint.
    Checkpoint,
    /// A drive's read-modify-write of the rest of a map unit.
    Rmw,
    /// A drive's own garbage collection.
    DriveGc,
    /// The layer's parity, or the second copy of a mirror.
    Parity,
    /// The list of what a full line holds, at its end.
    List,
    /// What a flush covers, on the layer's journal device.
    Journal,
}

/// How many causes there are.
pub const CAUSES: usize = 10;

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; CAUSES] = [
        Cause::Host,
        Cause::Gc,
        Cause::Pad,
        Cause::Map,
        Cause::Checkpoint,
        Cause::Rmw,
        Cause::DriveGc,
        Cause::Parity,
        Cause::List,
        Cause::Journal,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Gc => "gc",
            Cause::Pad => "pad",
            Cause::Map => "map",
            Cause::Checkpoint => "checkpoint",
            Cause::Rmw => "rmw",
            Cause::DriveGc => "drive-gc",
            Cause::Parity => "parity",
            Cause::List => "list",
            Cause::Journal => "journal",
        }
    }
}

/// Sectors by cause. The tally of a program adds up to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally([u32; CAUSES]);

impl Tally {
    /// `sectors` that all have one cause.
    #[inline]
    pub fn of(cause: Cause, sectors: u32) -> Self {
        Tally(core::array::from_fn(|of| if of == cause as usize { sectors } else { 0 }))
    }

    /// Counts `sectors` more for `cause`.
    #[inline]
    pub fn add(&mut self, cause: Cause, sectors: u32) {
        self.0[cause as usize] += sectors;
    }

    /// The sectors that `cause` has.
    #[inline]
    pub fn get(&self, cause: Cause) -> u32 {
        self.0[cause as usize]
    }

    /// The sum over all causes, in sectors.
    #[inline]
    pub fn total(&self) -> u32 {
        let wide = self.0.iter().fold(0, |sum: u64, &sectors| sum.wrapping_add(sectors.into()));
        u32::try_from(wide).expect("a write is shorter than 2 TiB")
    }
}

impl AddAssign for Tally {
    #[inline]
    fn add_assign(&mut self, other: Tally) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}
