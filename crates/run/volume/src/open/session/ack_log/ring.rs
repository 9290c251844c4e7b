//! File of an acknowledgement log: a ring of entries, written by one thread at a time.
//!
//! # Invariants
//! - Entries from the tail to the head are intact and in the order of their changes.
//! - Space before the tail is reused only after the new tail is in the file.
//! - An incomplete entry is ignored: its change was not acknowledged.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hostftl_core::{BLOCK, Page};
use rustix::fs::{FallocateFlags, fallocate};

use super::entry::{Entry, HEAD, Kind, Label};

/// Offset of the ring, after the two pages.
const BEGIN: u64 = 2 * BLOCK as u64;

/// An open ring.
#[derive(Debug)]
pub(super) struct Ring {
    file: File,
    path: PathBuf,
    label: Label,
    /// Position of the next entry.
    head: u64,
    /// Number of the newest page.
    pages: u64,
}

impl Ring {
    /// Creates a file with allocated memory, and replaces a file of the same name.
    pub(super) fn create(path: &Path, label: Label) -> io::Result<Self> {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        let file = crate::util::private::new_private(path)?;
        let mut ring = Ring { file, path: path.into(), label, head: label.tail, pages: 0 };
        let begun = ring.begin();
        if begun.is_err() {
            std::fs::remove_file(path).ok();
        }
        begun.map(|()| ring)
    }

    fn begin(&mut self) -> io::Result<()> {
        let bytes = BEGIN + self.label.room;
        // Allocate all memory now: a write must not fail later for lack of memory.
        fallocate(&self.file, FallocateFlags::empty(), 0, bytes)?;
        self.write_label(self.label)
    }

    /// Opens the ring in `path` that a process left, and returns its entries, oldest first; `None`
    /// when it is not a ring of `volume`.
    pub(super) fn open(path: &Path, volume: [u8; 16]) -> io::Result<Option<(Self, Vec<Entry>)>> {
        let file = File::options().read(true).write(true).open(path)?;
        let mut labels = Vec::new();
        for place in 0..2 {
            let mut page = Page::default();
            match file.read_exact_at(&mut page.0, place * BLOCK as u64) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
                read => read?,
            }
            labels.extend(Label::parse(&page, volume, place));
        }
        // One page may be torn; the other one then has an older tail, and more entries are applied
        // again.
        let newest = labels.into_iter().max_by_key(|(number, _)| *number);
        let Some((pages, label)) = newest else { return Ok(None) };
        // The label is written after the allocation, so a shorter file is an incomplete copy.
        if file.metadata()?.len() < BEGIN + label.room {
            return Ok(None);
        }
        let mut ring = Ring { file, path: path.into(), label, head: label.tail, pages };
        let mut entries = Vec::new();
        while let Some(entry) = ring.read_entry()? {
            // Skipped entries too occupy space in the ring.
            ring.head += entry.room();
            if !matches!(entry.kind, Kind::Fill | Kind::Void) {
                entries.push(entry);
            }
        }
        Ok(Some((ring, entries)))
    }

    /// Reads the entry at the head; `None` when there is no intact one.
    fn read_entry(&self) -> io::Result<Option<Entry>> {
        let left = self.label.room - self.used();
        // The ring is full: another entry would overlap the oldest.
        if left < HEAD as u64 {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, self.place(self.head))?;
        let Some(entry) = Entry::parse(&head, self.head) else { return Ok(None) };
        // The checksum is not verified yet, so the length may be arbitrary.
        if entry.room() > left.min(self.to_end()) {
            return Ok(None);
        }
        let mut data = vec![0; entry.covered() as usize];
        self.read(&entry, 0, &mut data)?;
        Ok(entry.is_whole(&head, &data).then_some(entry))
    }

    /// Fills `data` with the data of a write, starting at its byte `from`.
    pub(super) fn read(&self, entry: &Entry, from: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, self.place(entry.at) + HEAD as u64 + from)
    }

    /// Returns whether an entry with `data` bytes of data fits now.
    pub(super) fn fits(&self, data: u64) -> bool {
        let needed = HEAD as u64 + data;
        // An entry is contiguous, so the rest of the ring is lost if it does not fit there.
        let fill = if needed > self.to_end() { self.to_end() } else { 0 };
        self.used() + fill + needed <= self.label.room
    }

    /// Returns whether more than half of the ring is used.
    pub(super) fn is_half_full(&self) -> bool {
        self.used() > self.label.room / 2
    }

    /// Appends an entry, which must fit, and returns its position.
    pub(super) fn put(
        &mut self,
        kind: Kind,
        offset: u64,
        bytes: u64,
        data: &[u8],
    ) -> io::Result<u64> {
        assert!(self.fits(data.len() as u64), "the entry fits");
        if HEAD as u64 + data.len() as u64 > self.to_end() {
            let fill = Entry { kind: Kind::Fill, at: self.head, offset: 0, bytes: self.to_end() };
            self.file.write_all_at(&fill.emit(&[]), self.place(self.head))?;
            self.head += fill.room();
        }
        let entry = Entry { kind, at: self.head, offset, bytes };
        self.write(&entry.emit(data), data, self.place(self.head))?;
        self.head += entry.room();
        Ok(entry.at)
    }

    fn write(&self, head: &[u8; HEAD], data: &[u8], at: u64) -> io::Result<()> {
        let slices = [IoSlice::new(head), IoSlice::new(data)];
        let written = rustix::io::pwritev(&self.file, &slices, at)?;
        // A short write is repeated completely.
        if written == HEAD + data.len() {
            return Ok(());
        }
        self.file.write_all_at(head, at)?;
        self.file.write_all_at(data, at + HEAD as u64)
    }

    /// Marks the change at position `at` as failed, so that it is not applied again.
    pub(super) fn void(&mut self, at: u64) -> io::Result<()> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, self.place(at))?;
        let Some(entry) = Entry::parse(&head, at).filter(|it| it.kind == Kind::Write) else {
            // A trim or a zeroing has no data to skip: a fill entry of the length of its head
            // replaces it.
            let fill = Entry { kind: Kind::Fill, at, offset: 0, bytes: HEAD as u64 };
            return self.file.write_all_at(&fill.emit(&[]), self.place(at));
        };
        // The length must remain, because the next entry is found behind the data.
        let void = Entry { kind: Kind::Void, ..entry };
        self.file.write_all_at(&void.emit(&[]), self.place(at))
    }

    /// Frees the entries before position `to`.
    pub(super) fn free(&mut self, to: u64) -> io::Result<()> {
        assert!(to <= self.head, "only entries before the head are freed");
        // Flushes may complete in another order than they were sent.
        if to <= self.label.tail {
            return Ok(());
        }
        self.write_label(Label { tail: to, ..self.label })
    }

    /// Returns the position of the next entry.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Returns the position of the oldest entry.
    pub(super) fn tail(&self) -> u64 {
        self.label.tail
    }

    /// Returns the owner of the entries.
    pub(super) fn label(&self) -> &Label {
        &self.label
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn write_label(&mut self, label: Label) -> io::Result<()> {
        // Pages alternate, so a torn write leaves the previous one intact.
        let number = self.pages + 1;
        self.file.write_all_at(&label.emit(number).0, number % 2 * BLOCK as u64)?;
        (self.pages, self.label) = (number, label);
        Ok(())
    }

    fn used(&self) -> u64 {
        self.head - self.label.tail
    }

    /// Returns the distance from the head to the end of the ring.
    fn to_end(&self) -> u64 {
        self.label.room - self.head % self.label.room
    }

    /// Returns the file offset of a position.
    fn place(&self, at: u64) -> u64 {
        BEGIN + at % self.label.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: [u8; 16] = [1; 16];

    fn ring(path: &Path, room: u64) -> Ring {
        let label = Label { volume: VOLUME, run: 1, boot: [2; 16], room, tail: 0 };
        Ring::create(path, label).unwrap()
    }

    /// Returns the entries that the next process finds: for each write the first byte of its data,
    /// else 0.
    fn found(path: &Path) -> Vec<(Kind, u64, u8)> {
        let (ring, entries) = Ring::open(path, VOLUME).unwrap().expect("a ring");
        let report = |entry: &Entry| {
            let mut data = vec![0; entry.covered() as usize];
            ring.read(entry, 0, &mut data).unwrap();
            assert!(data.windows(2).all(|two| two[0] == two[1]), "the data is of one write");
            (entry.kind, entry.offset, data.first().copied().unwrap_or(0))
        };
        entries.iter().map(report).collect()
    }

    #[test]
    fn entries_are_found_in_order_until_freed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stash");
        let mut ring = ring(&path, 64 << 10);
        ring.put(Kind::Write, 512, 1024, &[7; 1024]).unwrap();
        ring.put(Kind::Trim, 0, 1 << 40, &[]).unwrap();
        let third = ring.put(Kind::Zeroes, 4096, 512, &[]).unwrap();
        let all = [(Kind::Write, 512, 7), (Kind::Trim, 0, 0), (Kind::Zeroes, 4096, 0)];
        assert_eq!(found(&path), all);
        ring.free(third).unwrap();
        assert_eq!(found(&path), all[2..]);
        ring.free(ring.head()).unwrap();
        assert_eq!(found(&path), []);
        let other = Ring::open(&path, [9; 16]).unwrap();
        assert!(other.is_none(), "another volume has no ring there");
    }

    #[test]
    fn the_ring_wraps_and_never_exceeds_its_capacity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stash");
        let mut ring = ring(&path, 16 << 10);
        let (mut there, mut rounds) = (std::collections::VecDeque::new(), 0);
        for number in 0_u64..400 {
            let data = vec![number as u8; 512 * (1 + number as usize * 7 % 9)];
            while !ring.fits(data.len() as u64) {
                let (_, place) = there.pop_front().expect("an empty ring has room");
                let next = there.front().map_or(ring.head(), |(_, place)| *place);
                assert!(place < next);
                ring.free(next).unwrap();
                rounds += 1;
            }
            let place = ring.put(Kind::Write, number * 512, data.len() as u64, &data).unwrap();
            there.push_back(((Kind::Write, number * 512, number as u8), place));
            if number % 16 == 0 {
                let expected: Vec<_> = there.iter().map(|(what, _)| *what).collect();
                assert_eq!(found(&path), expected);
            }
        }
        assert!(rounds > 300, "the ring is much smaller than what went through it");
    }

    #[test]
    fn a_torn_entry_is_dropped_and_earlier_ones_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stash");
        let mut ring = ring(&path, 64 << 10);
        ring.put(Kind::Write, 0, 512, &[1; 512]).unwrap();
        let last = ring.put(Kind::Write, 512, 512, &[2; 512]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        // Simulate a process that died after writing this number of bytes of the entry.
        for written in [0, 8, HEAD - 1, HEAD, HEAD + 1, HEAD + 511] {
            let mut torn = whole.clone();
            let from = (BEGIN + last) as usize + written;
            torn[from..].fill(0);
            std::fs::write(&path, torn).unwrap();
            assert_eq!(found(&path), [(Kind::Write, 0, 1)], "{written}");
        }
        // After a torn page the previous one is valid, so the freed entries reappear.
        ring.free(last).unwrap();
        let mut torn = whole;
        torn[..100].fill(9);
        std::fs::write(&path, torn).unwrap();
        assert_eq!(found(&path).len(), 2);
    }

    #[test]
    fn entries_of_failed_requests_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stash");
        let mut ring = ring(&path, 64 << 10);
        let write = ring.put(Kind::Write, 0, 4096, &[1; 4096]).unwrap();
        let trim = ring.put(Kind::Trim, 0, 512, &[]).unwrap();
        ring.put(Kind::Write, 512, 512, &[2; 512]).unwrap();
        ring.void(write).unwrap();
        ring.void(trim).unwrap();
        assert_eq!(found(&path), [(Kind::Write, 512, 2)]);
    }

    #[test]
    fn a_file_without_a_ring_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stash");
        for content in [vec![], vec![7; 100], vec![0; 1 << 20]] {
            std::fs::write(&path, content).unwrap();
            assert!(Ring::open(&path, VOLUME).unwrap().is_none());
        }
    }
}
