//! Possible contents of every sector: the checker of the whole run.
//!
//! Each sector is a register with its own order of writes. A write takes effect between its request
//! and its reply. A value is legal unless a write that must be visible is known to follow it.
//!
//! Invariants
//! - Every sector lists at least one possible write; the first is version 0, all zeros.
//! - A write is removed from the list only when a durable write is known to follow it, or when a
//!   later life has read another one.
//! - `lo` and `hi` bound the position of a write in the order: x precedes y when `x.hi < y.lo`.

use crate::content::Found;

/// Logical time: the number of messages that the host sent and received.
pub(crate) type Moment = u32;

const NEVER: Moment = Moment::MAX;

/// Write from the view of one sector.
#[derive(Clone, Copy, Debug)]
struct Write {
    version: u32,
    lo: Moment,
    hi: Moment,
    /// Time of its reply; `NEVER` without a reply, or with an error.
    end: Moment,
    zeros: bool,
    durable: bool,
}

/// Illegal result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Neither zeros nor a sector of this volume.
    Garbage,
    /// The content of this other sector.
    Misplaced(u64),
    /// A version that was never written here, or that a durable one has permanently replaced.
    Unknown(u32),
    /// An older version than `newer`; `durable` if the newer one was durable before a cut.
    Old { found: u32, newer: u32, durable: bool },
}

/// Life of the layer.
#[derive(Clone, Copy, Debug)]
struct Life {
    begin: Moment,
    /// Submission time of the latest acknowledged flush: writes of this life that were acknowledged
    /// before it are durable.
    floor: Moment,
}

/// Sectors of one volume.
#[derive(Debug, Default)]
pub struct Model {
    sectors: Vec<Vec<Write>>,
    now: Moment,
    /// Start of each life; writes of earlier lives may have been lost in a cut.
    lives: Vec<Life>,
    versions: u32,
    reads: Vec<Moment>,
    /// Whether data of an earlier life must not change once it was read.
    fixed: bool,
}

/// Range of sectors with the version written there.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Version of the write; 0 for none.
    pub version: u32,
}

impl Span {
    fn range(&self) -> core::ops::Range<usize> {
        self.lba as usize..(self.lba + self.sectors) as usize
    }

    /// Returns whether the two spans have a sector in common.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.lba < other.lba + other.sectors && other.lba < self.lba + self.sectors
    }
}

impl Model {
    /// Resets to zeros. With `fixed`, data that was read after a cut must not change later.
    pub fn reset(&mut self, sectors: u64, fixed: bool) {
        let zeros = Write { version: 0, lo: 0, hi: 0, end: 0, zeros: true, durable: true };
        self.sectors.resize_with(sectors as usize, || Vec::with_capacity(4));
        for list in &mut self.sectors {
            list.clear();
            list.push(zeros);
        }
        (self.now, self.versions) = (1, 0);
        self.lives.clear();
        self.lives.push(Life { begin: 0, floor: 0 });
        self.reads.clear();
        self.fixed = fixed;
    }

    /// Grows the volume to `sectors` sectors; new ones are zeros.
    pub fn grow(&mut self, sectors: u64) {
        let zeros = Write { version: 0, lo: 0, hi: 0, end: 0, zeros: true, durable: true };
        let more = || {
            let mut list = Vec::with_capacity(4);
            list.push(zeros);
            list
        };
        self.sectors.resize_with(sectors as usize, more);
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Records the submission of a write, or of a trim or zeroes (`zeros`). Returns its span.
    pub fn begin_write(&mut self, lba: u64, sectors: u64, zeros: bool) -> Span {
        self.versions += 1;
        let span = Span { lba, sectors, version: self.versions };
        let lo = self.tick();
        let oldest_read = self.reads.iter().copied().min().unwrap_or(NEVER);
        let write =
            Write { version: span.version, lo, hi: NEVER, end: NEVER, zeros, durable: false };
        let lives = &self.lives;
        for list in &mut self.sectors[span.range()] {
            if list.len() >= 4 && list.len().is_power_of_two() || list.len() > 64 {
                prune(list, lives, oldest_read);
            }
            list.push(write);
        }
        span
    }

    /// Records the acknowledgement of a write. With `fua` it is durable.
    pub fn end_write(&mut self, span: Span, fua: bool) {
        let end = self.tick();
        for list in &mut self.sectors[span.range()] {
            if let Some(write) = list.iter_mut().rfind(|write| write.version == span.version) {
                write.end = end;
                write.hi = write.hi.min(end);
                write.durable |= fua;
            }
        }
    }

    /// Ends a write without a successful reply: it may have taken effect, but cannot from now on.
    pub fn abandon(&mut self, span: Span) {
        let end = self.tick();
        for list in &mut self.sectors[span.range()] {
            if let Some(write) = list.iter_mut().rfind(|write| write.version == span.version) {
                write.hi = write.hi.min(end);
            }
        }
    }

    /// Records the submission of a flush or a stop.
    pub fn begin_flush(&mut self) -> Moment {
        self.tick()
    }

    /// Records the acknowledgement of a flush that was submitted at `begin`.
    pub fn end_flush(&mut self, begin: Moment) {
        self.tick();
        let life = self.lives.last_mut().expect("the first life is always there");
        life.floor = life.floor.max(begin);
    }

    /// Records the acknowledgement of a flush of one of several hosts, which has these sectors.
    pub fn end_flush_in(&mut self, sectors: core::ops::Range<u64>, begin: Moment) {
        self.tick();
        let life = this_life(&self.lives);
        for list in &mut self.sectors[sectors.start as usize..sectors.end as usize] {
            let covered = |write: &&mut Write| write.lo >= life && write.end < begin;
            list.iter_mut().filter(covered).for_each(|write| write.durable = true);
        }
    }

    /// Records the submission of a read.
    pub fn begin_read(&mut self) -> Moment {
        let now = self.tick();
        self.reads.push(now);
        now
    }

    /// Records the reply to a read, successful or not.
    pub fn end_read(&mut self, begin: Moment) {
        self.tick();
        let index = self.reads.iter().position(|&read| read == begin).expect("the read was sent");
        self.reads.swap_remove(index);
    }

    /// Starts a new life; all requests in flight were ended before.
    pub fn begin_life(&mut self) {
        self.reads.clear();
        let begin = self.tick();
        self.lives.push(Life { begin, floor: 0 });
    }

    /// Checks a sector of a read submitted at `begin`, and narrows the possible writes.
    ///
    /// # Errors
    /// The violation.
    pub fn judge(&mut self, lba: u64, found: Found, begin: Moment) -> Result<(), Wrong> {
        let (lives, fixed) = (&self.lives[..], self.fixed);
        let life = this_life(lives);
        let list = &mut self.sectors[lba as usize];
        match found {
            Found::Garbage => return Err(Wrong::Garbage),
            Found::Version { lba: other, .. } if other != lba => {
                return Err(Wrong::Misplaced(other));
            }
            Found::Version { version, .. } => {
                let known = list.iter().position(|w| w.version == version && !w.zeros);
                let index = known.ok_or(Wrong::Unknown(version))?;
                if let Some(newer) = newer_than(list, index, lives, begin) {
                    let durable = newer.lo < life;
                    return Err(Wrong::Old { found: version, newer: newer.version, durable });
                }
                learn(list, index, life, begin, fixed);
            }
            Found::Zeros => judge_zeros(list, lives, begin, fixed)?,
        }
        Ok(())
    }
}

/// Returns the start of the current life.
fn this_life(lives: &[Life]) -> Moment {
    lives.last().expect("the first life is always there").begin
}

/// Returns whether no cut can take this write back.
fn is_durable(write: &Write, lives: &[Life]) -> bool {
    let flushed = || {
        let index = lives.partition_point(|life| life.begin < write.end);
        write.end < lives[index - 1].floor
    };
    write.durable || write.end != NEVER && flushed()
}

/// Returns a write that follows write `index` and must be visible to a read submitted at `begin`.
fn newer_than(list: &[Write], index: usize, lives: &[Life], begin: Moment) -> Option<Write> {
    let life = this_life(lives);
    let Write { hi, version, .. } = list[index];
    let there = |w: &&Write| if w.lo < life { is_durable(w, lives) } else { w.hi < begin };
    list.iter().filter(|w| hi < w.lo && w.version != version).find(there).copied()
}

fn judge_zeros(
    list: &mut Vec<Write>,
    lives: &[Life],
    begin: Moment,
    fixed: bool,
) -> Result<(), Wrong> {
    let life = this_life(lives);
    let legal =
        |list: &[Write], at: usize| list[at].zeros && newer_than(list, at, lives, begin).is_none();
    let mut which = (0..list.len()).filter(|&at| legal(list, at));
    let (first, second) = (which.next(), which.next());
    match (first, second) {
        (Some(only), None) => learn(list, only, life, begin, fixed),
        // Writes of zeros look equal. If all are of earlier lives, one represents all.
        (Some(_), Some(_)) => {
            let mut which = (0..list.len()).rev().filter(|&at| legal(list, at));
            let last = which.next().expect("there are two");
            if list[last].lo < life {
                learn(list, last, life, begin, fixed);
            }
        }
        (None, _) => {
            let newest = list.iter().rfind(|w| is_durable(w, lives) || w.hi < begin);
            let newer = newest.map_or(0, |w| w.version);
            return Err(Wrong::Old {
                found: 0,
                newer,
                durable: newest.is_some_and(|w| w.lo < life),
            });
        }
    }
    Ok(())
}

/// Narrows the order after a read submitted at `begin` returned write `index`: writes that ended
/// before the read precede it.
fn learn(list: &mut Vec<Write>, index: usize, life: Moment, begin: Moment, fixed: bool) {
    if list.len() == 1 {
        return;
    }
    let version = list[index].version;
    if list[index].lo < life {
        // The cut selected this write among those of earlier lives.
        if fixed {
            list.retain(|w| w.lo >= life || w.version == version);
            let kept = list.iter_mut().find(|w| w.version == version).expect("it is kept");
            kept.durable = true;
        }
        return;
    }
    let hi = list[index].hi;
    let mut lo = list[index].lo;
    for write in list.iter_mut().filter(|w| w.version != version && w.hi < begin) {
        write.hi = write.hi.min(hi);
        lo = lo.max(write.hi + 1);
    }
    list[index].lo = lo;
}

/// Removes writes that a durable one has replaced, unless a read in flight may still return them.
fn prune(list: &mut Vec<Write>, lives: &[Life], oldest_read: Moment) {
    let settled = list.iter().filter(|w| is_durable(w, lives) && w.hi < oldest_read);
    if let Some(wall) = settled.max_by_key(|w| w.lo).copied() {
        list.retain(|w| w.hi >= wall.lo || w.version == wall.version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let mut model = Model::default();
        model.reset(16, true);
        model
    }

    fn put(model: &mut Model, lba: u64) -> Span {
        let span = model.begin_write(lba, 1, false);
        model.end_write(span, false);
        span
    }

    fn cut(model: &mut Model) {
        model.begin_life();
    }

    fn observe(model: &mut Model, lba: u64, version: u32) -> Result<(), Wrong> {
        let begin = model.begin_read();
        let found = match version {
            0 => Found::Zeros,
            _ => Found::Version { lba, version },
        };
        let verdict = model.judge(lba, found, begin);
        model.end_read(begin);
        verdict
    }

    #[test]
    fn a_read_sees_the_newest_completed_version() {
        let mut model = model();
        let (old, new) = (put(&mut model, 3).version, put(&mut model, 3).version);
        assert!(observe(&mut model, 3, new).is_ok());
        assert!(matches!(observe(&mut model, 3, old), Err(Wrong::Old { .. })));
        assert!(observe(&mut model, 3, 0).is_err());
        let begin = model.begin_read();
        let misplaced = Found::Version { lba: 4, version: new };
        assert_eq!(model.judge(3, misplaced, begin), Err(Wrong::Misplaced(4)));
    }

    #[test]
    fn a_read_fixes_the_order_of_overlapping_writes() {
        let mut model = model();
        let one = model.begin_write(3, 1, false);
        let two = model.begin_write(3, 1, false);
        model.end_write(one, false);
        model.end_write(two, false);
        assert!(observe(&mut model, 3, one.version).is_ok());
        assert!(observe(&mut model, 3, one.version).is_ok());
        assert!(observe(&mut model, 3, two.version).is_err());
    }

    #[test]
    fn a_read_and_flushed_order_survives_a_cut() {
        let mut model = model();
        let one = model.begin_write(3, 1, false);
        let two = model.begin_write(3, 1, false);
        model.end_write(one, false);
        model.end_write(two, false);
        assert!(observe(&mut model, 3, one.version).is_ok());
        let flush = model.begin_flush();
        model.end_flush(flush);
        cut(&mut model);
        assert!(observe(&mut model, 3, two.version).is_err());
        assert!(observe(&mut model, 3, one.version).is_ok());
    }

    #[test]
    fn a_cut_may_lose_unflushed_data_only() {
        let mut model = model();
        let kept = put(&mut model, 3);
        let flush = model.begin_flush();
        let late = put(&mut model, 3);
        model.end_flush(flush);
        cut(&mut model);
        assert!(observe(&mut model, 3, 0).is_err());
        assert!(observe(&mut model, 3, kept.version).is_ok());
        assert!(observe(&mut model, 3, late.version).is_err(), "once read, it is fixed");
    }

    #[test]
    fn a_flush_covers_the_writes_of_its_host() {
        let mut model = model();
        let (kept, lost) = (put(&mut model, 3), put(&mut model, 9));
        let flush = model.begin_flush();
        model.end_flush_in(0..8, flush);
        cut(&mut model);
        assert!(observe(&mut model, 3, 0).is_err());
        assert!(observe(&mut model, 3, kept.version).is_ok());
        assert!(observe(&mut model, 9, 0).is_ok());
        assert!(observe(&mut model, 9, lost.version).is_err());
    }

    #[test]
    fn a_flush_does_not_restore_data_lost_in_a_cut() {
        let mut model = model();
        let lost = put(&mut model, 3);
        cut(&mut model);
        let flush = model.begin_flush();
        model.end_flush(flush);
        assert!(observe(&mut model, 3, 0).is_ok());
        assert!(observe(&mut model, 3, lost.version).is_err());
    }

    #[test]
    fn read_data_is_fixed_in_later_lives() {
        let mut model = model();
        let late = put(&mut model, 3);
        cut(&mut model);
        assert!(observe(&mut model, 3, late.version).is_ok());
        cut(&mut model);
        assert!(observe(&mut model, 3, 0).is_err());
        assert!(observe(&mut model, 3, late.version).is_ok());
    }

    #[test]
    fn a_write_in_flight_at_a_cut_may_show_until_it_is_replaced() {
        let mut model = model();
        let open = model.begin_write(3, 1, false);
        model.abandon(open);
        cut(&mut model);
        let new = model.begin_write(3, 1, false);
        model.end_write(new, true);
        cut(&mut model);
        assert!(observe(&mut model, 3, open.version).is_err());
        assert!(observe(&mut model, 3, new.version).is_ok());
    }

    #[test]
    fn fua_makes_only_its_own_range_durable() {
        let mut model = model();
        let plain = put(&mut model, 4);
        let fua = model.begin_write(3, 1, false);
        model.end_write(fua, true);
        cut(&mut model);
        assert!(observe(&mut model, 3, 0).is_err());
        assert!(observe(&mut model, 4, 0).is_ok());
        assert!(observe(&mut model, 4, plain.version).is_err());
    }

    #[test]
    fn an_unflushed_trim_may_be_undone_by_a_cut() {
        let mut model = model();
        let data = put(&mut model, 3);
        let flush = model.begin_flush();
        model.end_flush(flush);
        let trim = model.begin_write(3, 1, true);
        model.end_write(trim, false);
        assert!(observe(&mut model, 3, data.version).is_err());
        assert!(observe(&mut model, 3, 0).is_ok());
        cut(&mut model);
        assert!(observe(&mut model, 3, data.version).is_ok());
        let trim = model.begin_write(3, 1, true);
        model.end_write(trim, true);
        cut(&mut model);
        assert!(observe(&mut model, 3, data.version).is_err());
        assert!(observe(&mut model, 3, 0).is_ok());
    }

    #[test]
    fn pruning_keeps_versions_visible_to_pending_reads() {
        let mut model = model();
        let old = put(&mut model, 3);
        let begin = model.begin_read();
        for _ in 0..200 {
            let span = model.begin_write(3, 1, false);
            model.end_write(span, true);
        }
        let found = Found::Version { lba: 3, version: old.version };
        assert!(model.judge(3, found, begin).is_ok());
        model.end_read(begin);
        let span = model.begin_write(3, 1, false);
        model.end_write(span, true);
        assert!(observe(&mut model, 3, old.version).is_err());
        assert!(observe(&mut model, 3, span.version).is_ok());
    }
}
