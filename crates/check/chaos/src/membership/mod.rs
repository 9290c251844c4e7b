//! Checker of the member list under sequences of faults. It runs the code of real volumes,
//! `assemble`, `roster`, `changes` and `steps` of `hostftl_format`.
//!
//! A seed creates a volume of two to five devices, of which up to two may be lost. Its file lists
//! the devices in any order. A sequence of events follows: starts with and without consent,
//! inspections, losses while serving, crashes during writes of superblocks, of the volume file or
//! of the layer, errors of such writes, devices that disappear and return, and damaged copies. In
//! half of the sequences an operator changes the members (offline, online, replace, copy, add,
//! spare, remove); in the others devices return as older copies. The layer is a model of the roots
//! of `log`, which record the lost members and the last root on all members.
//!
//! The rules are listed in [`Rule`].

mod admin;
mod change;
mod disks;
mod events;
mod history;
mod life;
mod rules;
mod volume_file;

use std::fmt;
use std::ops::AddAssign;
use std::thread;

use crate::dice::Dice;
use life::Life;

/// Rule that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A start without consent serves everything that was flushed.
    NothingIsLostSilently,
    /// A start serves everything that was flushed on any accessible device, or is refused.
    ForksStayApart,
    /// Every member of a start has everything that was flushed in the history that it serves.
    NoStaleMember,
    /// A member takes part unless it was given up.
    NobodyIsThrownOut,
    /// An inspection writes nothing.
    ALookChangesNothing,
    /// All participating members record the lost ones, so that consent is requested only once.
    ConsentOnce,
    /// No flush is acknowledged while a member does not record the lost ones.
    LossesBeforeFlushes,
    /// One of the two copies of a superblock is complete.
    OneCopyIsWhole,
    /// While enough devices have the same newest flush, some command serves it.
    AlwaysAWayOut,
    /// A command affects the device that was named.
    TheNamedDevice,
    /// After a crash during a command, a start serves without consent.
    ACutVerbAsksNobody,
}

/// Violation of a rule.
#[derive(Clone, Debug)]
pub struct Breach {
    /// Seed that reproduces it.
    pub seed: u64,
    /// Violated rule.
    pub rule: Rule,
    /// Events of the sequence, one per line.
    pub story: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { seed, rule, story } = self;
        write!(f, "seed {seed}: {rule:?} is violated\n{story}")
    }
}

/// Counts of a run of many seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Seen {
    /// Sequences.
    pub sequences: u64,
    /// Events.
    pub events: u64,
    /// Starts that served.
    pub served: u64,
    /// Starts that served without a member.
    pub degraded: u64,
    /// Starts that were refused until an operator consents.
    pub asked: u64,
    /// Starts that were refused because members were served separately.
    pub apart: u64,
    /// Starts that were refused for another reason.
    pub refused: u64,
    /// Acknowledged flushes.
    pub flushes: u64,
    /// Losses while serving.
    pub losses: u64,
    /// Crashes during a write.
    pub torn: u64,
    /// Changes of the members by an operator.
    pub admin_commands: u64,
    /// Crashes during these, followed by a start.
    pub cut_commands: u64,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, more: Seen) {
        let Seen { sequences, events, served, degraded, asked, .. } = more;
        let Seen { apart, refused, flushes, losses, torn, admin_commands, cut_commands, .. } = more;
        self.sequences += sequences;
        self.events += events;
        self.served += served;
        self.degraded += degraded;
        self.asked += asked;
        self.apart += apart;
        self.refused += refused;
        self.flushes += flushes;
        self.losses += losses;
        self.torn += torn;
        self.admin_commands += admin_commands;
        self.cut_commands += cut_commands;
    }
}

/// Runs the seeds `from..to` on several threads. Returns the counts of each thread, or its first
/// violation.
pub fn run_memberships((from, to): (u64, u64), threads: usize) -> Vec<Result<Seen, Box<Breach>>> {
    let share = |first: u64| {
        let mut seen = Seen::default();
        let mut seeds = (from + first..to).step_by(threads);
        seeds.try_for_each(|seed| run_membership(seed, &mut seen)).map(|()| seen)
    };
    thread::scope(|scope| {
        let share = &share;
        let all: Vec<_> =
            (0..threads as u64).map(|first| scope.spawn(move || share(first))).collect();
        all.into_iter().map(|one| one.join().expect("no sequence panics")).collect()
    })
}

/// Runs one seed.
///
/// # Errors
/// The first violation.
pub fn run_membership(seed: u64, seen: &mut Seen) -> Result<(), Box<Breach>> {
    let bytes = seed.is_multiple_of(64);
    let life = |tells, seen: &mut Seen| {
        let mut life = Life::new(Dice::new(seed, 77), bytes, tells, seen);
        (life.run(), life.story())
    };
    seen.sequences += 1;
    let Err(rule) = life(false, seen).0 else { return Ok(()) };
    let (_, story) = life(true, seen);
    Err(Box::new(Breach { seed, rule, story }))
}
