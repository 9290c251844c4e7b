//! Workload of the host: seeded requests with hot spots, sequential runs, odd lengths and barriers.

use crate::dice::Dice;
use crate::draw::swarm::{Sizes, Swarm};

/// Maximum length of a request in sectors: 64 KiB.
pub(crate) const LONGEST: u32 = 128;

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "these are the requests of the core")]
pub enum Kind {
    Read,
    Write,
    Trim,
    Zeroes,
    Flush,
    /// Read past the end of the volume, which must be refused.
    Beyond,
}

/// Request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Kind of request.
    pub kind: Kind,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Whether it must be durable when acknowledged.
    pub fua: bool,
}

/// Generator of requests for a volume.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    exported: u64,
    next: u64,
    filled: u64,
    audited: u64,
    /// Start of each host's range; empty for a single host.
    hosts: Vec<u64>,
}

impl Workload {
    /// Creates a workload for a volume of `exported` sectors; with `fill` it is first written
    /// sequentially.
    pub fn new(exported: u64, fill: bool) -> Self {
        let filled = if fill { 0 } else { exported };
        Workload { exported, next: 0, filled, audited: exported, hosts: Vec::new() }
    }

    /// Divides the volume among several hosts, whose ranges start at these sectors.
    pub fn divide(&mut self, hosts: Vec<u64>) {
        self.hosts = hosts;
    }

    /// Changes the exported size in sectors.
    pub fn grow(&mut self, exported: u64) {
        let old = std::mem::replace(&mut self.exported, exported);
        for at in [&mut self.filled, &mut self.audited] {
            *at = if *at >= old { exported } else { (*at).min(exported) };
        }
        self.next = self.next.min(exported);
    }

    /// Starts an audit, which reads the whole volume.
    pub fn audit(&mut self) {
        self.audited = 0;
    }

    /// Ends an audit.
    pub fn end_audit(&mut self) {
        self.audited = self.exported;
    }

    /// Returns whether an audit is incomplete.
    pub fn auditing(&self) -> bool {
        self.audited < self.exported
    }

    /// Returns the next request, of at most `most` sectors unless it is a trim or zeroes. It stays
    /// within the range of one host.
    pub fn next(&mut self, swarm: &Swarm, most: u32, dice: &mut Dice) -> PlannedRequest {
        let mut request = self.any(swarm, most, dice);
        if self.hosts.is_empty() || request.kind == Kind::Beyond {
            return request;
        }
        if request.kind == Kind::Flush {
            return PlannedRequest { lba: dice.pick(&self.hosts), ..request };
        }
        if request.sectors == self.exported {
            request.lba = dice.pick(&self.hosts);
        }
        let next = self.hosts.iter().find(|first| **first > request.lba);
        let end = *next.unwrap_or(&self.exported);
        let whole = request.lba + request.sectors;
        request.sectors = whole.min(end) - request.lba;
        // Sequential cursors continue in the range of the next host.
        for cursor in [&mut self.audited, &mut self.filled] {
            if *cursor == whole && whole > end {
                *cursor = end;
            }
        }
        request
    }

    fn any(&mut self, swarm: &Swarm, most: u32, dice: &mut Dice) -> PlannedRequest {
        let most = u64::from(most.min(LONGEST));
        if self.auditing() {
            return run(&mut self.audited, self.exported, most, Kind::Read);
        }
        if self.filled < self.exported {
            return run(&mut self.filled, self.exported, most, Kind::Write);
        }
        let kinds = [Kind::Read, Kind::Write, Kind::Trim, Kind::Zeroes, Kind::Flush];
        let kind = kinds[dice.weigh(&swarm.mix)];
        let fua = dice.chance(swarm.fua);
        match kind {
            Kind::Flush => return PlannedRequest { kind, lba: 0, sectors: 0, fua: false },
            Kind::Read if dice.chance(3) => {
                let lba = self.exported - dice.below(2);
                return PlannedRequest { kind: Kind::Beyond, lba, sectors: 2, fua: false };
            }
            Kind::Trim | Kind::Zeroes if dice.chance(10) => {
                return PlannedRequest { kind, lba: 0, sectors: self.exported, fua };
            }
            _ => {}
        }
        let sectors = self.length(swarm, most, dice).min(self.exported);
        let lba = self.place(swarm, sectors, dice);
        self.next = lba + sectors;
        PlannedRequest { kind, lba, sectors, fua }
    }

    fn length(&self, swarm: &Swarm, most: u64, dice: &mut Dice) -> u64 {
        let sectors = match swarm.sizes {
            Sizes::Block => 8,
            Sizes::Tiny => dice.between(1, 2),
            Sizes::Small => dice.between(1, 8),
            Sizes::Large => dice.between(1, 16) * 8,
            Sizes::Mixed if dice.chance(100) => dice.between(1, 128),
            Sizes::Mixed => dice.pick(&[1, 2, 8, 8, 8, 16]),
        };
        sectors.min(most)
    }

    fn place(&self, swarm: &Swarm, sectors: u64, dice: &mut Dice) -> u64 {
        let last = self.exported - sectors;
        if self.next <= last && dice.chance(swarm.sequential) {
            return self.next;
        }
        let (hot, span) = swarm.hot;
        let lba = if dice.chance(hot) { dice.below(span) } else { dice.below(last + 1) };
        (lba - lba % swarm.grain).min(last)
    }
}

fn run(cursor: &mut u64, end: u64, most: u64, kind: Kind) -> PlannedRequest {
    let lba = *cursor;
    let sectors = most.min(end - lba);
    *cursor += sectors;
    PlannedRequest { kind, lba, sectors, fua: false }
}
