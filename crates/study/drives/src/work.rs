//! Work of a drive, counted once and in the same way under both clocks.

use hostftl_core::{CAUSES, Cause, Nanos};

/// Busy times of the flash, in ns. They are 0 under [`Clock::Counts`](crate::Clock::Counts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashBusy {
    /// Dies that read, including the transfer, by [`Cause`].
    pub reads: [Nanos; CAUSES],
    /// Dies that program, including the transfer.
    pub programs: Nanos,
    /// Dies that erase.
    pub erases: Nanos,
    /// All buses together.
    pub bus: Nanos,
}

/// Work of the flash, counted by the flash itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWork {
    /// Rows read, by [`Cause`]. A row is one page on each plane of a stripe.
    pub reads: [u64; CAUSES],
    /// Rows programmed.
    pub programs: u64,
    /// Blocks erased. The blocks of a stripe count as one.
    pub erases: u64,
    /// Busy times of these operations.
    pub busy: FlashBusy,
}

/// Work of a drive since it was made. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveWork {
    /// Work of its flash.
    pub flash: FlashWork,
    /// Sectors handed to the flash for programming, by [`Cause`].
    pub sectors: [u64; CAUSES],
    /// Sectors transferred over a bus for reads and programs, by [`Cause`].
    pub crossed: [u64; CAUSES],
    /// Sectors that were never programmed, by [`Cause`]: overwritten or trimmed in the write
    /// buffer, or refused by a raw drive.
    pub absorbed: [u64; CAUSES],
    /// Sectors in the write buffer now, by [`Cause`]. This is a state, not a counter.
    pub waiting: [u64; CAUSES],
    /// The part of `sectors` in rows that are not full yet. This is a state, not a counter.
    pub open: u64,
    /// Sectors of partly filled rows that a flush programmed elsewhere. They are part of `sectors`
    /// too, as [`Cause::Rmw`].
    pub aside: u64,
    /// Read-modify-writes of map units.
    pub rmw: u64,
    /// Reads of map units that were served from the write buffer.
    pub hits: u64,
}

/// Work of a drive for one placement id since the drive was made or loaded, in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleWork {
    /// Sectors of programs that the host sent with this id.
    pub sent: u64,
    /// Sectors programmed for data that was last written with this id: host writes with the rest of
    /// their map units, and the drive's copies.
    pub programmed: u64,
}

fn less<const N: usize>(one: &[u64; N], other: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|i| one[i] - other[i])
}

impl FlashWork {
    /// Returns the work done since `before`.
    #[must_use]
    pub fn since(&self, before: &FlashWork) -> FlashWork {
        let (busy, was) = (&self.busy, &before.busy);
        FlashWork {
            reads: less(&self.reads, &before.reads),
            programs: self.programs - before.programs,
            erases: self.erases - before.erases,
            busy: FlashBusy {
                reads: less(&busy.reads, &was.reads),
                programs: busy.programs - was.programs,
                erases: busy.erases - was.erases,
                bus: busy.bus - was.bus,
            },
        }
    }

    /// Returns the page reads and page programs of flash with `stripe` pages in a row.
    pub fn page_operations(&self, stripe: u32) -> u64 {
        (self.reads.iter().sum::<u64>() + self.programs) * u64::from(stripe)
    }
}

impl DriveWork {
    /// Returns the work done since `before`. States keep their present value.
    #[must_use]
    pub fn since(&self, before: &DriveWork) -> DriveWork {
        DriveWork {
            flash: self.flash.since(&before.flash),
            sectors: less(&self.sectors, &before.sectors),
            crossed: less(&self.crossed, &before.crossed),
            absorbed: less(&self.absorbed, &before.absorbed),
            waiting: self.waiting,
            open: self.open,
            aside: self.aside - before.aside,
            rmw: self.rmw - before.rmw,
            hits: self.hits - before.hits,
        }
    }

    /// Returns the sectors programmed or being programmed, for all causes.
    pub fn programmed(&self) -> u64 {
        self.sectors.iter().sum()
    }

    /// Returns the part of `whole` that corresponds to the share of `cause` in the programmed
    /// sectors. Parts are rounded down, so their sum can be slightly below `whole`.
    pub(crate) fn share(&self, whole: u64, cause: Cause) -> u64 {
        let all = self.programmed().max(1);
        (u128::from(whole) * u128::from(self.sectors[cause as usize]) / u128::from(all)) as u64
    }

    /// Returns the time that dies spent on reads for `cause`, in ns.
    pub fn read_busy(&self, cause: Cause) -> Nanos {
        self.flash.busy.reads[cause as usize]
    }

    /// Returns the time that dies spent on programs for `cause`, in ns, by its share of the
    /// sectors. Erases are not included; they are attributed to the drive's garbage collection
    /// elsewhere.
    pub fn program_busy(&self, cause: Cause) -> Nanos {
        self.share(self.flash.busy.programs, cause)
    }

    /// Returns the busy time of all dies together, in ns. A stripe over several dies counts once.
    pub fn busy(&self) -> Nanos {
        let busy = &self.flash.busy;
        busy.reads.iter().sum::<Nanos>() + busy.programs + busy.erases
    }
}

/// Latency of a command by stage, in ns. The sum is the time that the command spent in the drive. A
/// command with several parts has the stages of the part that ended last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Wait for the die behind other commands, or for space in the write buffer.
    pub queue: Nanos,
    /// Wait for the die behind the drive's garbage collection.
    pub gc: Nanos,
    /// Read of the rest of a map unit before its program.
    pub rmw: Nanos,
    /// Transfer on the bus and the wait for it.
    pub bus: Nanos,
    /// Operation of the die.
    pub die: Nanos,
}

impl Spent {
    /// Returns the sum of all stages.
    pub fn total(&self) -> Nanos {
        self.queue + self.gc + self.rmw + self.bus + self.die
    }
}
