//! Random requests until the server ends; every answer is checked.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use hostftl_core::SECTOR;
use hostftl_nbd_proto::{Command, Request, flags::CMD_FUA};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::client::{Client, send};
use crate::content::{check, fill};
use crate::state::{SECTORS, State};
use crate::{BASE, wrong};

/// Requests in flight.
const DEPTH: usize = 32;
/// Sectors that receive half of the requests, so that many of them are overwritten.
const HOT: usize = 4096;

/// Request in flight.
struct Flying {
    command: Command,
    fua: bool,
    range: Range<usize>,
    version: u64,
    /// For a flush, the writes that were acknowledged before it was sent.
    covers: Vec<(Range<usize>, u64)>,
}

/// Load of one run.
pub(crate) struct Load<'a> {
    pub client: Client,
    pub state: &'a mut State,
    pub rng: Xoshiro256PlusPlus,
    /// Whether acknowledged writes survive the server without a flush.
    kept: bool,
    flying: BTreeMap<u64, Flying>,
    busy: Vec<bool>,
    answered: Vec<(Range<usize>, u64)>,
    flushing: bool,
}

impl<'a> Load<'a> {
    pub(crate) fn new(
        client: Client,
        state: &'a mut State,
        rng: Xoshiro256PlusPlus,
        kept: bool,
    ) -> Self {
        let (flying, busy) = (BTreeMap::new(), vec![false; SECTORS]);
        Load { client, state, rng, kept, flying, busy, answered: Vec::new(), flushing: false }
    }

    /// Runs until the connection breaks.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        loop {
            while self.flying.len() < DEPTH {
                if let Some(flying) = self.choose() {
                    self.send(flying)?;
                }
            }
            self.receive()?;
        }
    }

    /// Chooses the next request; `None` when it would overlap one in flight.
    fn choose(&mut self) -> Option<Flying> {
        let (command, fua) = match self.rng.random_range(0..200) {
            0..140 => (Command::Write, false),
            140..148 => (Command::Write, true),
            148..158 => (Command::Trim, false),
            158..160 => (Command::Trim, true),
            160..168 => (Command::WriteZeroes, false),
            168..197 => (Command::Read, false),
            _ => (Command::Flush, false),
        };
        let version = self.state.next;
        if command == Command::Flush {
            let covers =
                if self.flushing { return None } else { std::mem::take(&mut self.answered) };
            return Some(Flying { command, fua, range: 0..0, version, covers });
        }
        let (sectors, align) = match self.rng.random_range(0..20) {
            0..10 => (8, 8),
            10..15 => (self.rng.random_range(1..8), 1),
            15..19 => (32, 8),
            _ => (self.rng.random_range(100..300), 1),
        };
        let reach = if self.rng.random_bool(0.5) { HOT } else { SECTORS };
        let begin = self.rng.random_range(0..=(reach - sectors) / align) * align;
        let range = begin..begin + sectors;
        let free = self.busy[range.clone()].iter().all(|busy| !busy);
        free.then_some(Flying { command, fua, range, version, covers: Vec::new() })
    }

    fn send(&mut self, flying: Flying) -> io::Result<()> {
        let Flying { command, range, version, .. } = &flying;
        let (range, version) = (range.clone(), *version);
        self.state.next += 1;
        self.flushing |= *command == Command::Flush;
        let mut data = Vec::new();
        for index in range.clone() {
            self.busy[index] = true;
            let sector = &mut self.state.sectors[index];
            match command {
                Command::Write => {
                    sector.issued = version;
                    let begin = data.len();
                    data.resize(begin + SECTOR, 0);
                    fill(index as u64, version, &mut data[begin..]);
                }
                Command::Trim | Command::WriteZeroes => {
                    (sector.issued, sector.zeroed) = (version, version);
                }
                _ => {}
            }
        }
        let request = Request {
            flags: if flying.fua { CMD_FUA } else { 0 },
            command: *command,
            cookie: version,
            offset: if range.is_empty() { 0 } else { BASE + (range.start * SECTOR) as u64 },
            length: (range.len() * SECTOR) as u32,
        };
        self.flying.insert(version, flying);
        send(&self.client.stream, request, &data)
    }

    fn receive(&mut self) -> io::Result<()> {
        let flying = &self.flying;
        let (cookie, result) = self.client.reply(|cookie| match flying.get(&cookie) {
            Some(Flying { command: Command::Read, range, .. }) => range.len() * SECTOR,
            _ => 0,
        })?;
        let done = self.flying.remove(&cookie);
        let done = done.ok_or_else(|| wrong(format!("a reply to no request ({cookie})")))?;
        let what = format!("{:?} of sectors {:?}", done.command, done.range);
        let data = result.map_err(|errno| wrong(format!("{what}: {errno:?}")))?;
        self.state.answered += 1;
        done.range.clone().for_each(|index| self.busy[index] = false);
        match done.command {
            Command::Read => self.compare(done.range.start, &data)?,
            Command::Flush => {
                self.flushing = false;
                self.state.flushes += 1;
                done.covers.into_iter().for_each(|(range, version)| self.harden(range, version));
            }
            Command::Write | Command::Trim | Command::WriteZeroes if done.fua || self.kept => {
                self.harden(done.range, done.version);
            }
            _ => self.answered.push((done.range, done.version)),
        }
        Ok(())
    }

    /// Records that the range must survive a crash from now on, as `version` or newer.
    fn harden(&mut self, range: Range<usize>, version: u64) {
        for sector in &mut self.state.sectors[range] {
            sector.durable = sector.durable.max(version);
        }
    }

    /// Compares a read with the last write, which it must return while the server runs.
    fn compare(&self, begin: usize, data: &[u8]) -> io::Result<()> {
        for (sector, bytes) in (begin..).zip(data.chunks_exact(SECTOR)) {
            let (found, expected) = (check(sector as u64, bytes), self.state.current(sector));
            if found != expected {
                let text = format!("sector {sector} reads {found:?} instead of {expected:?}");
                return Err(wrong(text));
            }
        }
        Ok(())
    }
}
