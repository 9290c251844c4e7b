//! Storage of the write pointers of a zoned file: table pages, each written alternately to two
//! places.
//!
//! Invariants
//! - The content of a table page on the medium describes data that was durable before the page was
//!   written. After a crash at any moment, all data before the pointers is intact.
//! - One settling at a time is in progress.
//! - The user of a part changes only the entries of its own zones. Other users change other entries
//!   of the same pages, so a page is read again and written under its lock.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR, Segments, Verdict};
use hostftl_format::zonefile::{self, ENTRIES, Entry};

use super::part::Part;
use super::zone_order::{Segment, ZoneOrder};
use crate::ofd::{FileLock, LockedRange};
use crate::planted::{Bug, planted};
use crate::transfer::{self, Call, Transfer};
use crate::writeback_errors::WritebackErrors;

/// State of a table page.
#[derive(Clone, Debug)]
struct TablePage {
    generation: u64,
    /// Which of its two places has the newest content.
    place: usize,
    entries: Vec<Entry>,
}

/// Flush or reset that waits until the pointers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingFlush {
    pub slot: u32,
    /// Range in bytes that a reset frees.
    pub frees: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Table {
    pages: Vec<TablePage>,
    part: Part,
    /// Slot of the settling in progress, and the pages that it writes.
    settling: Option<(u32, Vec<(usize, TablePage)>)>,
    queue: VecDeque<PendingFlush>,
}

impl Table {
    /// Writes the head of a new zoned file.
    pub(crate) fn make(file: &File, shape: &Segments) -> io::Result<()> {
        let place = |at: u64| at * SECTOR as u64;
        for index in 0..zonefile::table_pages(shape.count) {
            for at in zonefile::table_places(index) {
                file.write_all_at(&zonefile::emit_table(&[], 0, at).0, place(at))?;
            }
        }
        // The shape comes last: with it, the file counts as complete.
        file.sync_all()?;
        for at in zonefile::SHAPE_PLACES {
            file.write_all_at(&zonefile::emit_shape(shape, at).0, place(at))?;
        }
        file.sync_all()
    }

    /// Reads the segments of a zoned file from its head.
    pub(crate) fn shape(file: &File) -> io::Result<Segments> {
        let mut shape = None;
        for at in zonefile::SHAPE_PLACES {
            let mut page = Page::default();
            file.read_exact_at(&mut page.0, at * SECTOR as u64)?;
            shape = shape.or(zonefile::parse_shape(&page, at).ok());
        }
        shape.ok_or_else(|| io::Error::other("it is not a zoned file"))
    }

    /// Reads the table of a zoned file with `all` segments, and the state of a part's segments.
    pub(crate) fn load(file: &File, all: &Segments, part: &Part) -> io::Result<(Self, ZoneOrder)> {
        let mut pages = Vec::new();
        for index in 0..zonefile::table_pages(all.count) {
            // Another user of the file may be writing the same page.
            let lock = || FileLock::wait(file.as_raw_fd(), LockedRange::TablePage(index), false);
            let held = (!part.is_whole()).then(lock).transpose()?;
            pages.push(newest(index, |at| {
                let mut page = Page::default();
                file.read_exact_at(&mut page.0, at * SECTOR as u64).map(|()| page)
            })?);
            drop(held);
        }
        let (part, size) = (part.clone(), all.size);
        let table = Table { pages, part, settling: None, queue: VecDeque::new() };
        let list = (0..table.part.shape.count).map(|segment| {
            let entry = table.entry(segment);
            Segment::new(size, entry.pointer.min(size), entry.erased, entry.offline)
        });
        let zone_order = ZoneOrder::new(table.part.shape, list.collect());
        Ok((table, zone_order))
    }

    /// Returns the stored entry of a segment.
    fn entry(&self, segment: u32) -> Entry {
        let zone = self.part.zone(segment);
        self.pages[(zone / ENTRIES) as usize].entries[(zone % ENTRIES) as usize]
    }

    /// Returns the pages on which an entry differs from the stored one.
    fn changes(&self, now: impl Fn(u32) -> Entry) -> Vec<Change> {
        let mut pages: BTreeMap<u32, Vec<(usize, Entry)>> = BTreeMap::new();
        for segment in 0..self.part.shape.count {
            let (zone, entry) = (self.part.zone(segment), now(segment));
            if entry != self.entry(segment) {
                pages.entry(zone / ENTRIES).or_default().push(((zone % ENTRIES) as usize, entry));
            }
        }
        let is_whole = self.part.is_whole();
        let change = |(page, entries): (u32, _)| Change {
            page,
            entries,
            base: is_whole.then(|| self.pages[page as usize].clone()),
        };
        pages.into_iter().map(change).collect()
    }

    /// Starts to store the current pointers for `wait`. Returns `None` if another settling is in
    /// progress, so that this one waits, or if nothing has changed: then `finished` gets the slot.
    pub(crate) fn settle(
        &mut self,
        zone_order: &ZoneOrder,
        fd: RawFd,
        writeback_errors: &Arc<WritebackErrors>,
        wait: PendingFlush,
        finished: &mut Vec<u32>,
    ) -> Option<Settling> {
        if self.settling.is_some() {
            self.queue.push_back(wait);
            return None;
        }
        let changes = self.changes(|segment| table_entry(&zone_order.list[segment as usize]));
        // Every write moves a pointer, so without a change there is no data to flush.
        if changes.is_empty() && wait.frees.is_none() {
            finished.push(wait.slot);
            return None;
        }
        let after = |change: &Change| {
            let kept = &self.pages[change.page as usize];
            (change.page as usize, change.over(kept))
        };
        self.settling = Some((wait.slot, changes.iter().map(after).collect()));
        let writeback_errors = writeback_errors.clone();
        Some(Settling { slot: wait.slot, fd, writeback_errors, changes, frees: wait.frees })
    }

    /// Frees the segments of a part durably. The device must not be used in this process
    /// afterwards.
    pub(crate) fn free(&self, file: &File) -> io::Result<()> {
        let free = |segment| Entry { pointer: 0, ..self.entry(segment) };
        let changes = self.changes(free);
        let flush = || file.sync_all().map_err(|_| DeviceError::Media);
        write(&changes, file.as_raw_fd(), flush).map_err(other)
    }

    /// Applies the result of the command of `slot`, if it was the settling.
    pub(crate) fn settled(&mut self, slot: u32, done: bool) {
        let settled = self.settling.take_if(|(settling, _)| *settling == slot);
        // After a failure the old state is kept, so that the next settling writes the pages again.
        if let Some((_, changed)) = settled.filter(|_| done) {
            changed.into_iter().for_each(|(index, kept)| self.pages[index] = kept);
        }
    }

    /// Returns the next settling to start, if none is in progress.
    pub(crate) fn next(&mut self) -> Option<PendingFlush> {
        if self.settling.is_some() { None } else { self.queue.pop_front() }
    }
}

fn table_entry(segment: &Segment) -> Entry {
    let Segment { pointer, erased, offline, .. } = *segment;
    Entry { pointer, erased, offline }
}

/// New entries of a table page.
#[derive(Debug)]
struct Change {
    page: u32,
    entries: Vec<(usize, Entry)>,
    /// Stored page, unless other users change it too.
    base: Option<TablePage>,
}

impl Change {
    /// Returns the page after `kept`.
    fn over(&self, kept: &TablePage) -> TablePage {
        let mut entries = kept.entries.clone();
        self.entries.iter().for_each(|(at, entry)| entries[*at] = *entry);
        TablePage { generation: kept.generation + 1, place: 1 - kept.place, entries }
    }
}

fn other(error: DeviceError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Reads both places of a table page and returns the newest valid one.
fn newest(index: u32, mut read: impl FnMut(u64) -> io::Result<Page>) -> io::Result<TablePage> {
    let mut found: Option<TablePage> = None;
    for (place, at) in zonefile::table_places(index).into_iter().enumerate() {
        let Ok((generation, entries)) = zonefile::parse_table(&read(at)?, at) else { continue };
        if found.as_ref().is_none_or(|other| other.generation < generation) {
            found = Some(TablePage { generation, place, entries });
        }
    }
    found.ok_or_else(|| io::Error::other(format!("page {index} of its table is damaged")))
}

/// Writes changes to the table, then flushes. Pages with other users stay locked until then.
fn write(
    changes: &[Change],
    fd: RawFd,
    flush: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let transfer = |call: Call, at: u64, page: &mut Page| {
        let mut transfer = Transfer::new(0, fd, call, at * SECTOR as u64, BLOCK as u64);
        transfer.push(page.0.as_mut_ptr(), BLOCK);
        transfer::run(&mut transfer)
    };
    let mut held = Vec::new();
    for change in changes {
        let (index, mut page) = (change.page, Box::<Page>::default());
        let kept = match &change.base {
            Some(kept) => kept.clone(),
            None => {
                let lock = FileLock::wait(fd, LockedRange::TablePage(index), true);
                held.push(lock.map_err(|_| DeviceError::Media)?);
                let read = |at| {
                    transfer(Call::Read, at, &mut page).map_err(other)?;
                    Ok((*page).clone())
                };
                newest(index, read).map_err(|_| DeviceError::Media)?
            }
        };
        let TablePage { generation, place, entries } = change.over(&kept);
        let at = zonefile::table_places(index)[place];
        *page = zonefile::emit_table(&entries, generation, at);
        transfer(Call::Write, at, &mut page)?;
    }
    // The locks are held until the flush, so that other users only build on durable pages.
    if changes.is_empty() { Ok(()) } else { flush() }
}

/// Makes data durable, then the table, and then frees the range of a reset.
#[derive(Debug)]
pub(crate) struct Settling {
    pub slot: u32,
    fd: RawFd,
    writeback_errors: Arc<WritebackErrors>,
    changes: Vec<Change>,
    frees: Option<(u64, u64)>,
}

impl Settling {
    /// Runs in the calling thread.
    pub(crate) fn run(self) -> Result<Verdict, DeviceError> {
        // The table may only describe durable data.
        self.flush()?;
        write(&self.changes, self.fd, || self.flush())?;
        if let Some((offset, len)) = self.frees {
            transfer::free(self.fd, offset, len);
        }
        Ok(Verdict::default())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if planted(Bug::SettleFlush) {
            return Ok(());
        }
        self.writeback_errors.record(transfer::run(&mut Transfer::sync(0, self.fd)))
    }
}
