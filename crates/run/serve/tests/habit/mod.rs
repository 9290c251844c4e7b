//! Host that writes with a given pattern over NBD and knows the content of each sector.

use std::path::Path;
use std::time::Duration;

use hostftl_nbd_proto::{Command, Request};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::client::{Client, send};

const SECTOR: u64 = 512;
/// Maximum length of a request in sectors.
const MOST: u64 = 2048;
/// Requests in flight.
const DEPTH: usize = 16;

/// Pattern of a host after it has filled the volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    /// Lengths of successive writes in sectors, repeated.
    sizes: &'static [u64],
    /// Percentage of writes that continue where the previous one ended.
    sequential: u32,
    /// Numbers of writes between flushes, trims and reads; 0 is never.
    flush: u64,
    trim: u64,
    read: u64,
}

/// Random, sequential and mixed.
pub(crate) const ALL: [Habit; 3] = [
    Habit { sizes: &[8], sequential: 0, flush: 0, trim: 0, read: 0 },
    Habit { sizes: &[128], sequential: 100, flush: 0, trim: 0, read: 0 },
    Habit { sizes: &[8, 1, 64, 3, 200, 8], sequential: 30, flush: 100, trim: 20, read: 10 },
];

/// Request in flight: its range, and the versions that a read must return.
struct Sent {
    cookie: u64,
    first: u64,
    sectors: u64,
    found: Option<Vec<u32>>,
}

/// Export with the version of each of its sectors; 0 is zeros.
pub(crate) struct Disk {
    client: Client,
    layer: String,
    versions: Vec<u32>,
    version: u32,
    under_way: Vec<Sent>,
    cookie: u64,
    wrote: u64,
    random: Xoshiro256PlusPlus,
}

/// Writes the content of this version of a sector.
fn stamp(sector: &mut [u8], lba: u64, version: u32) {
    let seed = lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(version).rotate_left(40);
    for (at, word) in (0_u64..).zip(sector.as_chunks_mut::<8>().0) {
        *word = if version == 0 { [0; 8] } else { (seed + at).to_le_bytes() };
    }
}

impl Disk {
    /// Connects to the export `v`; an answer may take 20 s.
    pub(crate) fn connect(sock: &Path, layer: &str) -> Self {
        let client = Client::connect(sock, "v").expect("a server");
        client.stream.set_write_timeout(Some(Duration::from_secs(300))).expect("a socket");
        let sectors = client.export.bytes / SECTOR;
        Disk {
            client,
            layer: layer.into(),
            versions: vec![0; sectors as usize],
            version: 0,
            under_way: Vec::new(),
            cookie: 0,
            wrote: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(18),
        }
    }

    /// Returns the size of the export in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sectors() * SECTOR
    }

    /// Returns the number of bytes written.
    pub(crate) fn wrote(&self) -> u64 {
        self.wrote
    }

    /// Takes over the expected versions of an earlier host.
    pub(crate) fn believe(&mut self, versions: Vec<u32>) {
        assert_eq!(versions.len(), self.versions.len(), "{}: another size", self.layer);
        self.versions = versions;
    }

    /// Disconnects and returns the expected versions.
    pub(crate) fn end(mut self) -> Vec<u32> {
        self.wait(0);
        self.versions
    }

    /// Writes the whole volume once.
    pub(crate) fn fill(&mut self) {
        for first in (0..self.sectors()).step_by(MOST as usize) {
            self.put(first, MOST.min(self.sectors() - first));
        }
        self.flush();
    }

    /// Writes `bytes` bytes.
    pub(crate) fn write(&mut self, habit: Habit, bytes: u64) {
        let end = self.wrote + bytes;
        let (mut next, mut count) = (0, 0);
        while self.wrote < end {
            let size = habit.sizes[count as usize % habit.sizes.len()];
            let goes_on = self.random.random_range(0..100) < habit.sequential;
            if !goes_on || next + size > self.sectors() {
                next = self.random.random_range(0..self.sectors() / size) * size;
            }
            self.put(next, size);
            (next, count) = (next + size, count + 1);
            let due = |every: u64| every > 0 && count % every == 0;
            if due(habit.flush) {
                self.flush();
            }
            if due(habit.trim) {
                let first = self.random.random_range(0..self.sectors() - 64);
                self.trim(first, 64);
            }
            if due(habit.read) {
                let first = self.random.random_range(0..self.sectors() - 64);
                self.look(first, 64);
            }
        }
        self.wait(0);
    }

    /// Reads the whole volume and compares it.
    pub(crate) fn compare(&mut self) {
        for first in (0..self.sectors()).step_by(MOST as usize) {
            self.look(first, MOST.min(self.sectors() - first));
        }
        self.wait(0);
    }

    fn sectors(&self) -> u64 {
        self.versions.len() as u64
    }

    fn put(&mut self, first: u64, sectors: u64) {
        self.version += 1;
        let version = self.version;
        let mut data = vec![0; (sectors * SECTOR) as usize];
        for (lba, sector) in (first..).zip(data.chunks_exact_mut(SECTOR as usize)) {
            stamp(sector, lba, version);
        }
        self.send(Command::Write, first, sectors, &data, false);
        self.versions[first as usize..(first + sectors) as usize].fill(version);
        self.wrote += sectors * SECTOR;
    }

    /// Trims a range, which then holds zeros.
    fn trim(&mut self, first: u64, sectors: u64) {
        self.send(Command::Trim, first, sectors, &[], false);
        self.versions[first as usize..(first + sectors) as usize].fill(0);
    }

    fn look(&mut self, first: u64, sectors: u64) {
        self.send(Command::Read, first, sectors, &[], true);
    }

    fn flush(&mut self) {
        self.send(Command::Flush, 0, 0, &[], false);
    }

    /// Sends a request when the queue has room and no request in flight overlaps its range.
    fn send(&mut self, command: Command, first: u64, sectors: u64, data: &[u8], look: bool) {
        let touches =
            |sent: &Sent| first < sent.first + sent.sectors && sent.first < first + sectors;
        self.wait(DEPTH - 1);
        while self.under_way.iter().any(touches) {
            self.answer();
        }
        self.cookie += 1;
        let (offset, length) = (first * SECTOR, (sectors * SECTOR) as u32);
        let request = Request { flags: 0, command, cookie: self.cookie, offset, length };
        send(&self.client.stream, request, data)
            .unwrap_or_else(|why| panic!("{}: {request:?} could not be sent: {why}", self.layer));
        let range = first as usize..(first + sectors) as usize;
        let found = look.then(|| self.versions[range].to_vec());
        self.under_way.push(Sent { cookie: self.cookie, first, sectors, found });
    }

    /// Waits until at most `most` requests are in flight.
    fn wait(&mut self, most: usize) {
        while self.under_way.len() > most {
            self.answer();
        }
    }

    /// Receives the next answer and compares the data of a read.
    fn answer(&mut self) {
        let Disk { client, under_way, layer, .. } = self;
        let place = |cookie| under_way.iter().position(|sent| sent.cookie == cookie);
        let payload = |cookie| {
            let sent = &under_way[place(cookie).expect("an answer to a request")];
            if sent.found.is_some() { (sent.sectors * SECTOR) as usize } else { 0 }
        };
        let (cookie, result) = client.reply(payload).unwrap_or_else(|why| {
            panic!("{layer}: no answer to {} requests: {why}", under_way.len())
        });
        let index = place(cookie).expect("an answer to a request");
        let sent = under_way.swap_remove(index);
        let data = result.unwrap_or_else(|why| panic!("{layer}: sector {}: {why:?}", sent.first));
        let mut wanted = [0; SECTOR as usize];
        let sectors = data.chunks_exact(SECTOR as usize).zip(sent.first..);
        for ((sector, lba), version) in sectors.zip(sent.found.iter().flatten()) {
            stamp(&mut wanted, lba, *version);
            assert!(sector == wanted, "{layer}: sector {lba} does not hold version {version}");
        }
    }
}
