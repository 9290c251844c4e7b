//! What a drive did, counted once and in the same way under both clocks.

use hostftl_core::{CAUSES, Cause, Nanos};

/// How long the flash was at work, in ns; nothing under the clock that only counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashBusy {
    /// Dies that read, transfer included, by [`Cause`].
    pub reads: [Nanos; CAUSES],
    /// Dies that program, transfer included.
    pub programs: Nanos,
    /// Dies that erase.
    pub erases: Nanos,
    /// Buses, all together.
    pub bus: Nanos,
}

/// What the flash did, counted by the flash itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWork {
    /// Rows read, by [`Cause`]. A row is a page on each plane of a stripe.
    pub reads: [u64; CAUSES],
    /// Rows programmed.
    pub programs: u64,
    /// Blocks erased, those of a stripe as one.
    pub erases: u64,
    /// How long that took.
    pub busy: FlashBusy,
}

/// What a drive did since it was made. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveWork {
    /// What its flash did.
    pub flash: FlashWork,
    /// Sectors that were given to the flash to program, by [`Cause`].
    pub sectors: [u64; CAUSES],
    /// Sectors that crossed a bus, read or programmed, by [`Cause`].
    pub crossed: [u64; CAUSES],
    /// Sectors that were overwritten or trimmed in the write buffer, or that a raw device did not
    /// take, and so never programmed.
    pub absorbed: [u64; CAUSES],
    /// Sectors that wait in the write buffer now: a state, no count.
    pub waiting: [u64; CAUSES],
    /// Of `sectors`, those whose row is not full yet: a state, no count.
    pub open: u64,
    /// Sectors of part-filled rows that a flush wrote aside; `sectors` has them too, as
    /// [`Cause::Rmw`].
    pub aside: u64,
    /// Map units that were read, changed and programmed again.
    pub rmw: u64,
    /// Reads of map units that the write buffer answered.
    pub hits: u64,
}

fn less<const N: usize>(one: &[u64; N], other: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|i| one[i] - other[i])
}

impl FlashWork {
    /// What was done since `before`.
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

    /// Page operations of the flash, reads and programs, for flash whose rows have `stripe` pages.
    pub fn page_operations(&self, stripe: u32) -> u64 {
        (self.reads.iter().sum::<u64>() + self.programs) * u64::from(stripe)
    }
}

impl DriveWork {
    /// What was done since `before`. What is a state stays as it is now.
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

    /// Sectors programmed or on their way, for all causes.
    pub fn programmed(&self) -> u64 {
        self.sectors.iter().sum()
    }

    /// The part of `whole` that `cause` has by its share of the programmed sectors, and all parts
    /// together are `whole` but for roundings down.
    pub(crate) fn share(&self, whole: u64, cause: Cause) -> u64 {
        let all = self.programmed().max(1);
        (u128::from(whole) * u128::from(self.sectors[cause as usize]) / u128::from(all)) as u64
    }

    /// How long dies read for `cause`, in ns.
    pub fn read_busy(&self, cause: Cause) -> Nanos {
        self.flash.busy.reads[cause as usize]
    }

    /// How long dies programmed for `cause`, in ns: by its share of the sectors. Erases count as
    /// the drive's own collection elsewhere.
    pub fn program_busy(&self, cause: Cause) -> Nanos {
        self.share(self.flash.busy.programs, cause)
    }

    /// How long dies were at work, in ns, all together. A stripe over several dies counts once.
    pub fn busy(&self) -> Nanos {
        let busy = &self.flash.busy;
        busy.reads.iter().sum::<Nanos>() + busy.programs + busy.erases
    }
}

/// Where the time of a command went, in ns; the sum is how long the drive had it. Of a command with
/// several parts it is the way of the part that ended last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Waiting for the die behind other commands, or for room in the write buffer.
    pub queue: Nanos,
    /// Waiting for the die behind the drive's collection.
    pub gc: Nanos,
    /// Reading the rest of a map unit first.
    pub rmw: Nanos,
    /// On the bus and waiting for it.
    pub bus: Nanos,
    /// In the die.
    pub die: Nanos,
}

impl Spent {
    /// All of it.
    pub fn total(&self) -> Nanos {
        self.queue + self.gc + self.rmw + self.bus + self.die
    }
}
