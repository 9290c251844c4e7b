//! Modelled flash: superblocks that are programmed in order, and one queue for all chips.
//!
//! Invariants
//! - A superpage occupies every chip, so the flash serves one command at a time, first in first
//!   out.
//! - A superblock is programmed superpage by superpage from its start, and only erased as a whole.
//! - A read finds only what was programmed since the last erase.
//! - `busy` is the sum of the times of all commands; every programmed sector has one cause.

use hostftl_core::{CAUSES, Cause, Command, Nanos, Tally};

use crate::spec::DriveSpec;

/// What the flash did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWork {
    /// Superpages read.
    pub reads: u64,
    /// Superpages programmed.
    pub programs: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// How long the chips were busy, in ns.
    pub busy: Nanos,
    /// Superpages read, by [`Cause`].
    pub reads_by: [u64; CAUSES],
    /// Sectors programmed, by [`Cause`].
    pub sectors_by: [u64; CAUSES],
}

impl FlashWork {
    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &FlashWork) -> FlashWork {
        FlashWork {
            reads: self.reads - before.reads,
            programs: self.programs - before.programs,
            erases: self.erases - before.erases,
            busy: self.busy - before.busy,
            reads_by: std::array::from_fn(|i| self.reads_by[i] - before.reads_by[i]),
            sectors_by: std::array::from_fn(|i| self.sectors_by[i] - before.sectors_by[i]),
        }
    }
}

/// The flash of one drive.
#[derive(Debug)]
pub struct Flash {
    spec: DriveSpec,
    free_at: Nanos,
    programmed: Vec<u32>,
    erased: Vec<u32>,
    work: FlashWork,
}

impl Flash {
    /// Flash that is erased.
    pub fn new(spec: &DriveSpec) -> Self {
        let count = spec.superblocks as usize;
        Flash {
            spec: spec.clone(),
            free_at: 0,
            programmed: vec![0; count],
            erased: vec![0; count],
            work: FlashWork::default(),
        }
    }

    /// Takes a command at `now` and says when it is over.
    ///
    /// # Panics
    /// When the command breaks a rule of flash, or is none of flash's.
    pub fn start(&mut self, now: Nanos, command: &Command) -> Nanos {
        let took = match command {
            Command::Read { lba, into, cause, .. } => self.read(*lba, into.sectors(), *cause),
            Command::Program { lba, tally, .. } => self.program(*lba, tally),
            Command::Reset { lba, sectors, .. } => self.erase(*lba, *sectors),
            other => unreachable!("flash was sent {other:?}"),
        };
        self.work.busy += took;
        self.free_at = self.free_at.max(now) + took;
        self.free_at
    }

    /// What it did so far.
    pub fn work(&self) -> FlashWork {
        self.work
    }

    /// How often each superblock was erased.
    pub fn erased(&self) -> &[u32] {
        &self.erased
    }

    /// The superblock of `lba` and the superpage in it.
    fn place(&self, lba: u64) -> (usize, u32) {
        let page = lba / u64::from(self.spec.superpage);
        let block = u64::from(self.spec.superblock);
        ((page / block) as usize, (page % block) as u32)
    }

    fn read(&mut self, lba: u64, sectors: u32, cause: Cause) -> Nanos {
        let (block, page) = self.place(lba);
        assert!(
            page < self.programmed[block],
            "a read of superpage {page} of {block}, not written"
        );
        let within = lba % u64::from(self.spec.superpage) + u64::from(sectors);
        assert!(within <= self.spec.superpage.into(), "a read across superpages");
        self.work.reads += 1;
        self.work.reads_by[cause as usize] += 1;
        self.spec.read + self.spec.bus
    }

    fn program(&mut self, lba: u64, tally: &Tally) -> Nanos {
        let (block, page) = self.place(lba);
        assert!(lba.is_multiple_of(self.spec.superpage.into()), "a program within a superpage");
        assert_eq!(tally.total(), self.spec.superpage, "a program is one whole superpage");
        assert_eq!(page, self.programmed[block], "a program of {block} that is not at its pointer");
        self.programmed[block] += 1;
        self.work.programs += 1;
        for cause in Cause::ALL {
            self.work.sectors_by[cause as usize] += u64::from(tally.get(cause));
        }
        self.spec.program + self.spec.bus
    }

    fn erase(&mut self, lba: u64, sectors: u64) -> Nanos {
        let (block, page) = self.place(lba);
        let whole = u64::from(self.spec.superblock) * u64::from(self.spec.superpage);
        assert!(page == 0 && sectors == whole, "an erase is one whole superblock");
        self.programmed[block] = 0;
        self.erased[block] += 1;
        self.work.erases += 1;
        self.spec.erase
    }
}
