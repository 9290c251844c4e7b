//! Causes of writes. The sectors of every program are counted by cause, and the counts must add up.

use core::ops::AddAssign;

/// Reason why a command writes data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Cause {
    /// Request of the host.
    Host,
    /// Garbage collection of the layer (called VGC in HARD).
    Gc,
    /// Padding, to complete a unit early.
    Pad,
    /// Record of the layer's map log.
    Map,
    /// Page or root of the layer's checkpoint.
    Checkpoint,
    /// Remainder of an indirection unit in a read-modify-write of a drive.
    Rmw,
    /// Garbage collection of a drive.
    DriveGc,
    /// Parity of the layer, or the second copy of a mirror.
    Parity,
    /// Listing at the end of a full line.
    List,
    /// Data covered by a flush, on the layer's journal device.
    Journal,
}

/// Number of causes.
pub const CAUSES: usize = 10;

impl Cause {
    /// All causes, in numeric order.
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

    /// Returns the name in reports.
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
    /// Returns a tally of `sectors` with a single cause.
    #[inline]
    pub fn single(cause: Cause, sectors: u32) -> Self {
        Tally(core::array::from_fn(|of| if of == cause as usize { sectors } else { 0 }))
    }

    /// Adds `sectors` to `cause`.
    #[inline]
    pub fn add(&mut self, cause: Cause, sectors: u32) {
        self.0[cause as usize] += sectors;
    }

    /// Returns the sectors of `cause`.
    #[inline]
    pub fn get(&self, cause: Cause) -> u32 {
        self.0[cause as usize]
    }

    /// Returns the sum over all causes in sectors.
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
