//! Where the pointers of a zoned file are kept: table pages, each in two places by turns.
//!
//! Invariants
//! - What a table page on the medium says was true of data that was durable before the page was
//!   written, so that a crash at any moment leaves pointers behind which all is intact.
//! - One settling at a time is under way.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR, Segments, Verdict};
use hostftl_format::zonefile::{self, ENTRIES, Entry};

use super::gate::{Gate, Segment};
use crate::planted::{Bug, planted};
use crate::transfer::{self, Call, Transfer};
use crate::trust::Trust;

/// What is known of a table page.
#[derive(Clone, Debug)]
struct Kept {
    generation: u64,
    /// Which of its two places has it.
    place: usize,
    entries: Vec<Entry>,
}

/// A flush or reset that waits until what is to be kept is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub slot: u32,
    /// The bytes that a reset frees.
    pub frees: Option<(u64, u64)>,
}

/// See the module text.
#[derive(Debug, Default)]
pub struct Table {
    pages: Vec<Kept>,
    /// The slot of what is being settled, and the pages that it writes.
    settling: Option<(u32, Vec<(usize, Kept)>)>,
    queue: VecDeque<Wait>,
}

impl Table {
    /// Writes the head of a new zoned file.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(file: &File, shape: &Segments) -> io::Result<()> {
        let place = |at: u64| at * SECTOR as u64;
        for index in 0..zonefile::table_pages(shape.count) {
            for at in zonefile::table_places(index) {
                file.write_all_at(&zonefile::emit_table(&[], 0, at).0, place(at))?;
            }
        }
        file.sync_all()?;
        for at in zonefile::SHAPE_PLACES {
            file.write_all_at(&zonefile::emit_shape(shape, at).0, place(at))?;
        }
        file.sync_all()
    }

    /// Reads the head of a zoned file: its table, and its segments as they stand.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn load(file: &File) -> io::Result<(Self, Gate)> {
        let read = |at: u64| -> io::Result<Page> {
            let mut page = Page::default();
            file.read_exact_at(&mut page.0, at * SECTOR as u64)?;
            Ok(page)
        };
        let mut shape = None;
        for at in zonefile::SHAPE_PLACES {
            shape = shape.or(zonefile::parse_shape(&read(at)?, at).ok());
        }
        let shape = shape.ok_or_else(|| io::Error::other("it is no zoned file"))?;
        let mut table = Table::default();
        for index in 0..zonefile::table_pages(shape.count) {
            let mut found: Option<Kept> = None;
            for (place, at) in zonefile::table_places(index).into_iter().enumerate() {
                let Ok((generation, entries)) = zonefile::parse_table(&read(at)?, at) else {
                    continue;
                };
                if found.as_ref().is_none_or(|other| other.generation < generation) {
                    found = Some(Kept { generation, place, entries });
                }
            }
            let why = || io::Error::other(format!("page {index} of its table is damaged"));
            table.pages.push(found.ok_or_else(why)?);
        }
        let entries = table.pages.iter().flat_map(|page| &page.entries);
        let list = entries.take(shape.count as usize).map(|entry| {
            let pointer = entry.pointer.min(shape.size);
            Segment::new(shape.size, pointer, entry.erased, entry.offline)
        });
        let gate = Gate::new(shape, list.collect());
        Ok((table, gate))
    }

    /// Begins to keep what is so now, for `wait`; nothing when that comes later, or is over because
    /// all is kept: then `finished` gets its slot.
    pub fn settle(
        &mut self,
        gate: &Gate,
        fd: RawFd,
        trust: &Arc<Trust>,
        wait: Wait,
        finished: &mut Vec<u32>,
    ) -> Option<Settling> {
        if self.settling.is_some() {
            self.queue.push_back(wait);
            return None;
        }
        let mut changed = Vec::new();
        for (index, kept) in self.pages.iter().enumerate() {
            let first = index * ENTRIES as usize;
            let part = &gate.list[first..gate.list.len().min(first + ENTRIES as usize)];
            let same = |(segment, entry): (&Segment, &Entry)| entry_of(segment) == *entry;
            if part.iter().zip(&kept.entries).all(same) {
                continue;
            }
            let mut entries: Vec<Entry> = part.iter().map(entry_of).collect();
            entries.resize(ENTRIES as usize, Entry::default());
            let (generation, place) = (kept.generation + 1, 1 - kept.place);
            changed.push((index, Kept { generation, place, entries }));
        }
        if changed.is_empty() && wait.frees.is_none() {
            finished.push(wait.slot);
            return None;
        }
        let page = |(index, kept): &(usize, Kept)| {
            let at = zonefile::table_places(*index as u32)[kept.place];
            let page = zonefile::emit_table(&kept.entries, kept.generation, at);
            (at * SECTOR as u64, Box::new(page))
        };
        let pages = changed.iter().map(page).collect();
        self.settling = Some((wait.slot, changed));
        let trust = trust.clone();
        Some(Settling { slot: wait.slot, fd, trust, pages, frees: wait.frees })
    }

    /// The command of `slot` is over; perhaps it was what was being settled.
    pub fn settled(&mut self, slot: u32, done: bool) {
        let settled = self.settling.take_if(|(settling, _)| *settling == slot);
        if let Some((_, changed)) = settled.filter(|_| done) {
            changed.into_iter().for_each(|(index, kept)| self.pages[index] = kept);
        }
    }

    /// What is to be settled next, when nothing is.
    pub fn next(&mut self) -> Option<Wait> {
        if self.settling.is_some() { None } else { self.queue.pop_front() }
    }
}

fn entry_of(segment: &Segment) -> Entry {
    let Segment { pointer, erased, offline, .. } = *segment;
    Entry { pointer, erased, offline }
}

/// Makes data durable, then the table, then frees what was reset.
#[derive(Debug)]
pub struct Settling {
    pub slot: u32,
    fd: RawFd,
    trust: Arc<Trust>,
    pages: Vec<(u64, Box<Page>)>,
    frees: Option<(u64, u64)>,
}

impl Settling {
    /// Does it in this thread.
    ///
    /// # Errors
    /// What failed first; then the table is as it was.
    pub fn run(mut self) -> Result<Verdict, DeviceError> {
        self.flush()?;
        for (offset, page) in &mut self.pages {
            let mut write = Transfer::new(0, self.fd, Call::Write, *offset, BLOCK as u64);
            write.push(page.0.as_mut_ptr(), BLOCK);
            transfer::run(&mut write)?;
        }
        if !self.pages.is_empty() {
            self.flush()?;
        }
        if let Some((offset, len)) = self.frees {
            transfer::free(self.fd, offset, len);
        }
        Ok(Verdict::default())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if planted(Bug::SettleFlush) {
            return Ok(());
        }
        self.trust.heard(transfer::run(&mut Transfer::sync(0, self.fd)))
    }
}
