//! Saved state of a pool, so that a preconditioned drive can be reused.
//!
//! The format is: the word `HFTLPOOL`, a version, the spec as text with its length, the counters,
//! the segments, the free list, the write points, the victims, the state of early collection if the
//! pool has it, the policy, the map, the placement id of each logical page if the pool has several,
//! and the CRC-64/NVME of all of these. Numbers are little-endian. Tables that follow from the map
//! (invalid pages and the logical page of each physical page) are not stored, and the work for each
//! placement id restarts at zero.

use std::io::{self, Read, Write};

use hostftl_layers::policy::Victims;
use thiserror::Error;

use super::collect::Victim;
use super::summed::Summed;
use super::{BITS, Frontier, NONE, Pool, PoolError, PoolSpec, PoolWork, State};

const MAGIC: [u8; 8] = *b"HFTLPOOL";
/// Version of a pool with one placement id, and of a pool with several.
const VERSIONS: [u32; 2] = [1, 2];
const STATES: [State; 4] = [State::Free, State::Open, State::Sealed, State::Victim];
/// Upper limit of the length of a spec as text, in bytes.
const MOST_TEXT: u32 = 4096;

/// Reason why a saved pool cannot be loaded.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "error texts describe the fields")]
pub enum LoadError {
    #[error("cannot read the saved pool: {0}")]
    Io(#[from] io::Error),
    #[error("not a saved pool")]
    Foreign,
    #[error(
        "cannot read a saved pool of version {0}: this program reads version {1}; save it \
         again"
    )]
    Version(u32, u32),
    #[error(
        "the saved pool has another specification ({saved} instead of {wanted}); save it again"
    )]
    Other { saved: String, wanted: String },
    #[error("the saved pool is damaged ({0}); save it again")]
    Damaged(&'static str),
    #[error(transparent)]
    Impossible(#[from] PoolError),
}

fn version(spec: &PoolSpec) -> u32 {
    VERSIONS[usize::from(spec.placements > 1)]
}

fn words(spec: &PoolSpec) -> String {
    let early = spec.early.map_or_else(String::new, |early| {
        format!(", early={} segments at {} %", early.segments, early.percent)
    });
    format!(
        "{} segments of {} pages, {} exported, gc={}, frontiers={}, placements={}, level={}, \
         burst={}, seed={}{early}",
        spec.segments,
        spec.pages,
        spec.logical,
        spec.gc,
        spec.frontiers,
        spec.placements,
        spec.level,
        spec.burst,
        spec.seed
    )
}

impl Pool {
    /// Writes the pool's state in the form that [`Pool::load`] reads.
    ///
    /// # Errors
    /// When writing to `out` fails.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        let mut out = Summed::new(out);
        out.put(&MAGIC)?;
        out.put_u32(version(&self.spec))?;
        let text = words(&self.spec);
        out.put_u32(text.len() as u32)?;
        out.put(text.as_bytes())?;
        let PoolWork { host, copies, levelled, erases } = self.work;
        [host, copies, levelled, erases].iter().try_for_each(|&count| out.put_u64(count))?;
        out.put_u32(self.room)?;
        out.put_u32(self.look)?;
        for segment in &self.segments {
            out.put_u32(segment.erased)?;
            out.put(&[segment.state as u8, segment.placement])?;
        }
        out.put_u32(self.free.len() as u32)?;
        self.free.iter().try_for_each(|&segment| out.put_u32(segment))?;
        for frontier in &self.frontiers {
            out.put_u32(frontier.next)?;
            out.put_u32(frontier.end)?;
        }
        for victim in &self.victims_now {
            let Victim { segment, word, copies, writes, due, moved } = *victim;
            let fields = [segment, word, copies, writes, moved];
            fields.iter().try_for_each(|&field| out.put_u32(field))?;
            out.put_u64(due as u64)?;
        }
        if self.spec.early.is_some() {
            out.put_u32(self.is_early.into())?;
            out.put_u32(self.ahead)?;
        }
        let mut result = Ok(());
        self.policy.save(&mut |word| {
            if result.is_ok() {
                result = out.put_u64(word);
            }
        });
        result?;
        out.put_table(&self.map)?;
        if let Some(handles) = &self.handles {
            out.put(&handles.owners)?;
        }
        out.finish()
    }

    /// Restores the pool that [`Pool::save`] wrote. The same writes give the same operations as
    /// before.
    ///
    /// # Errors
    /// When the spec is impossible, or `from` cannot be read, is not a saved pool, was saved from
    /// another spec, or is damaged.
    pub fn load(spec: PoolSpec, from: &mut impl Read) -> Result<Self, LoadError> {
        let mut pool = Pool::new(spec)?;
        let mut from = Summed::new(from);
        match pool.read(&mut from) {
            Err(LoadError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(LoadError::Damaged("it is truncated"));
            }
            other => other?,
        }
        if !from.ends_whole()? {
            return Err(LoadError::Damaged("its checksum is wrong"));
        }
        pool.rebuild()?;
        pool.check().map_err(LoadError::Damaged)?;
        Ok(pool)
    }

    fn read(&mut self, from: &mut Summed<&mut impl Read>) -> Result<(), LoadError> {
        read_head(&self.spec, from)?;
        let mut count = || from.take_u64();
        let (host, copies, levelled, erases) = (count()?, count()?, count()?, count()?);
        self.work = PoolWork { host, copies, levelled, erases };
        self.room = from.take_u32()?;
        self.look = from.take_u32()?;
        for segment in &mut self.segments {
            segment.erased = from.take_u32()?;
            let [state, placement] = from.take()?;
            let state = STATES.get(usize::from(state)).copied();
            segment.state = state.ok_or(LoadError::Damaged("a segment in an unknown state"))?;
            segment.placement = placement;
            self.worn = self.worn.max(segment.erased);
        }
        self.free.clear();
        let free = from.take_u32()?;
        if free > self.spec.segments {
            return Err(LoadError::Damaged("more free segments than segments"));
        }
        for _ in 0..free {
            self.free.push_back(from.take_u32()?);
        }
        for frontier in &mut self.frontiers {
            *frontier = Frontier { next: from.take_u32()?, end: from.take_u32()? };
        }
        for victim in &mut self.victims_now {
            let mut field = || from.take_u32();
            let (segment, word, copies) = (field()?, field()?, field()?);
            let (writes, moved) = (field()?, field()?);
            let due = from.take_u64()? as i64;
            *victim = Victim { segment, word, copies, writes, due, moved };
        }
        if self.spec.early.is_some() {
            self.is_early = from.take_u32()? != 0;
            self.ahead = from.take_u32()?;
        }
        let (spec, mut result) = (self.spec, Ok(()));
        let mut take = || from.take_u64().map_err(|error| result = Err(error)).ok();
        let policy = Victims::load(spec.gc, spec.segments, spec.pages, &mut take);
        result?;
        self.policy = policy.ok_or(LoadError::Damaged("invalid state of its policy"))?;
        from.take_table(&mut self.map)?;
        if let Some(handles) = &mut self.handles {
            from.fill(&mut handles.owners)?;
        }
        Ok(())
    }

    /// Rebuilds the tables that follow from the map. The checksum was right, so an error here means
    /// that a faulty program wrote the state.
    fn rebuild(&mut self) -> Result<(), LoadError> {
        let (pages, physical) = (self.spec.pages, self.spec.physical() as u32);
        let inside = |segment: u32| segment < self.spec.segments;
        let known = self.free.iter().all(|&segment| inside(segment))
            && self.victims_now.iter().all(|it| it.segment == NONE || inside(it.segment))
            && self.frontiers.iter().all(|it| it.next <= it.end && it.end <= physical)
            && self.segments.iter().all(|it| it.placement < self.spec.placements)
            && inside(self.look)
            && self.handles.iter().flat_map(|it| &it.owners).all(|it| *it < self.spec.placements);
        if !known || self.map.iter().any(|&page| page != NONE && page >= physical) {
            return Err(LoadError::Damaged("a reference out of range"));
        }
        for index in 0..self.spec.segments {
            let open = self.segments[index as usize].state == State::Open;
            if open && !self.frontiers.iter().any(|it| it.end == (index + 1) * pages) {
                return Err(LoadError::Damaged("an open segment has no frontier"));
            }
            self.clear(index);
            let written = self.written(index) - index * pages;
            self.segments[index as usize].stale = written;
            for within in 0..written {
                let word = self.word(index, within);
                self.stale[word] |= bit(within);
            }
        }
        for logical in 0..self.spec.logical {
            let page = self.map[logical as usize];
            if page == NONE {
                continue;
            }
            let (index, within) = (page / pages, page % pages);
            let word = self.word(index, within);
            if self.stale[word] & bit(within) == 0 {
                return Err(LoadError::Damaged(
                    "two logical pages share a page, or a mapped page is erased",
                ));
            }
            self.stale[word] &= !bit(within);
            self.segments[index as usize].stale -= 1;
            self.back[page as usize] = logical;
            self.mapped += 1;
        }
        Ok(())
    }

    fn word(&self, segment: u32, within: u32) -> usize {
        (segment * self.spec.pages.div_ceil(BITS) + within / BITS) as usize
    }
}

fn bit(within: u32) -> u64 {
    1 << (within % BITS)
}

fn read_head(spec: &PoolSpec, from: &mut Summed<&mut impl Read>) -> Result<(), LoadError> {
    if from.take::<8>()? != MAGIC {
        return Err(LoadError::Foreign);
    }
    let (found, wanted) = (from.take_u32()?, version(spec));
    if !VERSIONS.contains(&found) {
        return Err(LoadError::Version(found, wanted));
    }
    let length = from.take_u32()?;
    if length > MOST_TEXT {
        return Err(LoadError::Damaged("its spec is too long"));
    }
    let mut saved = vec![0; length as usize];
    from.fill(&mut saved)?;
    let (saved, wanted) = (String::from_utf8_lossy(&saved).into_owned(), words(spec));
    if saved != wanted {
        return Err(LoadError::Other { saved, wanted });
    }
    // Pools with several placement ids had version 1 before their pages had owners.
    if found != version(spec) {
        return Err(LoadError::Version(found, version(spec)));
    }
    Ok(())
}
