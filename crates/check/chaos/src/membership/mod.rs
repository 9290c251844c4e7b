//! Who belongs to a volume, under sequences of faults: the checker of `hostftl_format::assemble`
//! and `hostftl_format::roster`, the very code that a volume runs.
//!
//! A seed makes a volume of two to five devices, of which none to two may be lost, whose file lists
//! them in any order, and a sequence of events: starts with and without consent, looks, losses
//! while it is served, crashes within any write of a superblock, of the volume file or of the
//! layer, errors of such writes, devices that go away and come back, rot of a copy. In half of the
//! sequences an operator changes the members (offline, online, replace, add, spare, remove), in the
//! others devices come back as older copies. The layer is a model of the roots of `log`, which
//! record the lost members and the last root that was on all.
//!
//! What must hold is in [`Rule`].

mod disks;
mod events;
mod history;
mod life;
mod rules;
mod verbs;
mod volume_file;

use std::fmt;
use std::ops::AddAssign;
use std::thread;

use crate::dice::Dice;
use life::Life;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A start that asks nobody serves all that was flushed.
    NothingIsLostSilently,
    /// A start serves all that was flushed on any device in reach, or is refused.
    ForksStayApart,
    /// Who takes part in a start has all that was flushed in the history that it serves.
    NoStaleMember,
    /// A member that nobody gave up takes part.
    NobodyIsThrownOut,
    /// A look writes nothing.
    ALookChangesNothing,
    /// Who is lost is on record with all that take part, so that nobody is asked again.
    ConsentOnce,
    /// No flush is answered while a member does not know who is lost.
    LossesBeforeFlushes,
    /// One of the two copies of a superblock is whole.
    OneCopyIsWhole,
    /// As long as enough devices have the same newest flush, some command serves it.
    AlwaysAWayOut,
    /// A verb concerns the device that was named.
    TheNamedDevice,
    /// After a cut in a verb, a start serves without consent.
    ACutVerbAsksNobody,
}

/// A rule that did not hold.
#[derive(Clone, Debug)]
pub struct Breach {
    /// The seed that shows it again.
    pub seed: u64,
    /// The rule.
    pub rule: Rule,
    /// What happened, an event a line.
    pub story: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { seed, rule, story } = self;
        write!(f, "seed {seed}: {rule:?} does not hold\n{story}")
    }
}

/// What a run of many seeds saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Seen {
    /// Sequences.
    pub sequences: u64,
    /// Events.
    pub events: u64,
    /// Starts that served.
    pub served: u64,
    /// Of these, those without a member.
    pub degraded: u64,
    /// Starts that were refused until somebody consents.
    pub asked: u64,
    /// Starts that were refused because members were served apart.
    pub apart: u64,
    /// Starts that were refused for another reason.
    pub refused: u64,
    /// Flushes answered.
    pub flushes: u64,
    /// Losses while serving.
    pub losses: u64,
    /// Crashes within a write.
    pub torn: u64,
    /// Changes of the members by an operator.
    pub verbs: u64,
    /// Crashes within these, after which the volume was started again.
    pub cut_verbs: u64,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, more: Seen) {
        let Seen { sequences, events, served, degraded, asked, .. } = more;
        let Seen { apart, refused, flushes, losses, torn, verbs, cut_verbs, .. } = more;
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
        self.verbs += verbs;
        self.cut_verbs += cut_verbs;
    }
}

/// Runs the seeds `from..to` on several threads. Returns the counts of each thread, or the first
/// rule that did not hold there.
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
/// The first rule that did not hold.
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
