//! Where each superpage lies, and what each superblock holds.
//!
//! Invariants
//! - A logical superpage is unmapped, mapped, or locked by the one operation that moves it; a
//!   locked one still lies where that operation says that it was.
//! - A physical superpage is valid exactly when a logical one, or the operation that locks it,
//!   names it.
//! - A segment's `valid` is the number of its valid superpages; the sum over all is `mapped`.
//! - Superpages are handed out in order within the open segment. A segment is sealed, and so may
//!   become a victim, when all of its superpages were handed out and none is still being
//!   programmed.

use std::collections::VecDeque;

use hostftl_layers::policy::Lists;

/// A physical superpage.
pub type Phys = u32;

const LOCK: u32 = 1 << 31;

/// What a logical superpage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It was never written, or trimmed.
    Unmapped,
    /// It lies here.
    At(Phys),
    /// This operation moves it.
    Locked(u16),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Open,
    Sealed,
    Victim,
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    state: State,
    valid: u32,
    programs: u32,
    reads: u32,
}

/// The drive's map and its segments.
#[derive(Debug)]
pub struct Map {
    l2p: Vec<u32>,
    p2l: Vec<u32>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    open: Option<u32>,
    used: u32,
    pages: u32,
    mapped: u64,
    /// Sealed segments by `valid`.
    victims: Lists,
}

impl Map {
    /// `logical` superpages over `segments` erased segments of `pages` superpages.
    pub fn new(logical: u32, segments: u32, pages: u32) -> Self {
        Map {
            l2p: vec![0; logical as usize],
            p2l: vec![0; (segments * pages) as usize],
            segments: vec![Segment::default(); segments as usize],
            free: (0..segments).collect(),
            open: None,
            used: 0,
            pages,
            mapped: 0,
            victims: Lists::new(segments, pages),
        }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let words = self.l2p.len() + self.p2l.len() + self.segments.len() * 6;
        words as u64 * 4
    }

    /// Superpages of a segment.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Logical superpages that hold data.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Superpages that can be handed out before the next erase.
    pub fn free_slots(&self) -> u32 {
        let open = self.open.map_or(0, |_| self.pages - self.used);
        self.free.len() as u32 * self.pages + open
    }

    /// Segments that are erased and not open.
    pub fn free_segments(&self) -> usize {
        self.free.len()
    }

    /// What `logical` is.
    pub fn place(&self, logical: u32) -> Place {
        match self.l2p[logical as usize] {
            0 => Place::Unmapped,
            entry if entry & LOCK != 0 => Place::Locked((entry & !LOCK) as u16),
            entry => Place::At(entry - 1),
        }
    }

    /// Locks `logical`, which is not locked, for `op`.
    pub fn lock(&mut self, logical: u32, op: u16) {
        self.l2p[logical as usize] = LOCK | u32::from(op);
    }

    /// Ends a lock; the superpage lies at `to` from now on.
    pub fn unlock(&mut self, logical: u32, to: Option<Phys>) {
        debug_assert!(matches!(self.place(logical), Place::Locked(_)), "an unlock without a lock");
        self.l2p[logical as usize] = to.map_or(0, |phys| phys + 1);
    }

    /// The next superpage to program. The caller has made sure that there is one.
    pub fn allocate(&mut self) -> Phys {
        let segment = match self.open {
            Some(segment) => segment,
            None => {
                let segment = self.free.pop_front().expect("free slots were counted before");
                self.segments[segment as usize].state = State::Open;
                self.open = Some(segment);
                self.used = 0;
                segment
            }
        };
        let phys = segment * self.pages + self.used;
        self.segments[segment as usize].programs += 1;
        self.used += 1;
        if self.used == self.pages {
            self.open = None;
        }
        phys
    }

    /// `phys` was programmed with `logical`, and `old` is its former place.
    pub fn programmed(&mut self, logical: u32, phys: Phys, old: Option<Phys>) {
        self.p2l[phys as usize] = logical + 1;
        self.mapped += 1;
        let index = phys / self.pages;
        let segment = &mut self.segments[index as usize];
        segment.valid += 1;
        segment.programs -= 1;
        if segment.programs == 0 && self.open != Some(index) {
            segment.state = State::Sealed;
            self.victims.push(index, segment.valid);
        }
        if let Some(old) = old {
            self.kill(old);
        }
    }

    /// `phys` no longer holds anything of use.
    pub fn kill(&mut self, phys: Phys) {
        assert!(self.p2l[phys as usize] != 0, "superpage {phys} was killed twice");
        self.p2l[phys as usize] = 0;
        self.mapped -= 1;
        let index = phys / self.pages;
        let segment = &mut self.segments[index as usize];
        segment.valid -= 1;
        if segment.state == State::Sealed {
            self.victims.remove(index);
            self.victims.push(index, segment.valid);
        }
    }

    /// Forgets `logical`, which lies at `phys`.
    pub fn unmap(&mut self, logical: u32, phys: Phys) {
        self.l2p[logical as usize] = 0;
        self.kill(phys);
    }

    /// A read of `phys` begins: its segment is not erased before the read ends.
    pub fn pin(&mut self, phys: Phys) {
        self.segments[(phys / self.pages) as usize].reads += 1;
    }

    /// A read of `phys` ended.
    pub fn unpin(&mut self, phys: Phys) {
        self.segments[(phys / self.pages) as usize].reads -= 1;
    }

    /// Takes the best victim, unless collecting it would gain nothing.
    pub fn pick(&mut self) -> Option<u32> {
        let index = self.victims.least()?;
        let segment = &mut self.segments[index as usize];
        if segment.valid == self.pages {
            return None;
        }
        segment.state = State::Victim;
        self.victims.remove(index);
        Some(index)
    }

    /// The logical superpage that `phys` holds, if it is valid.
    pub fn owner(&self, phys: Phys) -> Option<u32> {
        self.p2l[phys as usize].checked_sub(1)
    }

    /// Valid superpages of a segment.
    pub fn valid(&self, segment: u32) -> u32 {
        self.segments[segment as usize].valid
    }

    /// Whether a victim can be erased.
    pub fn is_empty(&self, segment: u32) -> bool {
        let segment = &self.segments[segment as usize];
        segment.valid == 0 && segment.reads == 0
    }

    /// The victim was erased.
    pub fn erased(&mut self, segment: u32) {
        let it = &mut self.segments[segment as usize];
        assert!(it.state == State::Victim && it.valid == 0 && it.reads == 0);
        it.state = State::Free;
        self.free.push_back(segment);
    }

    /// Checks the invariants in full, for a moment when nothing is locked.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut mapped = 0;
        for (logical, &entry) in self.l2p.iter().enumerate() {
            match entry {
                0 => {}
                entry if entry & LOCK != 0 => {
                    return Err("a superpage is locked with nothing to do");
                }
                entry if self.owner(entry - 1) != Some(logical as u32) => {
                    return Err("a logical superpage names a physical one that is not its own");
                }
                _ => mapped += 1,
            }
        }
        let valid = self.p2l.iter().filter(|&&owner| owner != 0).count() as u64;
        let counted: u64 = self.segments.iter().map(|segment| u64::from(segment.valid)).sum();
        if mapped != self.mapped || valid != mapped || counted != mapped {
            return Err("mapped superpages and valid superpages differ");
        }
        if self.segments.iter().any(|segment| segment.reads + segment.programs > 0) {
            return Err("a superblock is in use with nothing to do");
        }
        Ok(())
    }
}
