//! An independent model of HARD and sHATL that plays a trace, without shared code.
//!
//! It counts the busy time for writes by cause: 800 us for the program of a superpage, and 60 us
//! for its read. There is no log. Each difference between the description of sHATL and the layer
//! has a field, so that its effect can be measured separately.

use std::collections::VecDeque;

use hostftl_trace::{Op, Record};

/// Sectors per superpage.
const WIDE: u32 = 128;
/// Microseconds of a read and of a program.
const READ: f64 = 60.0;
const WRITE: f64 = 800.0;
const NOWHERE: u32 = u32::MAX;

/// Busy time by cause, in us.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// Data of the host.
    pub request: f64,
    /// Rest of superpages that large writes cover in part.
    pub copyback: f64,
    /// Moves home from the hidden area.
    pub vgc: f64,
    /// Superpages that a flush closes before they are full.
    pub padding: f64,
}

/// A layer that plays a trace.
trait Player {
    /// Writes a range.
    fn write(&mut self, lba: u64, sectors: u32);
    /// Makes all written data durable.
    fn flush(&mut self);
    /// Returns the busy time.
    fn parts(&self) -> Parts;
}

/// Busy times of HARD and of sHATL with one more difference from the description each: as
/// described; where each flush closes a superpage; and where the layer keeps superpages free.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    /// HARD.
    pub hard: [Parts; 3],
    /// sHATL.
    pub shatl: [Parts; 3],
}

/// Superpages that the third variant keeps free: twice one in 256 of the area.
const KEPT: usize = 16;

impl Replayed {
    /// Plays the writes and flushes of a trace, with `hidden` superpages of hidden area.
    pub(super) fn new<E>(
        records: impl Iterator<Item = Result<Record, E>>,
        hidden: u32,
    ) -> Result<Self, E> {
        let variants = [(0, false), (0, true), (KEPT, true)];
        let mut hard = variants.map(|(_, pads)| Hard { pads, ..Hard::default() });
        let mut shatl = variants.map(|(kept, pads)| Shatl::new(hidden, kept, pads));
        let players = hard.iter_mut().map(|it| it as &mut dyn Player);
        let mut players: Vec<_> =
            players.chain(shatl.iter_mut().map(|it| it as &mut dyn Player)).collect();
        play(records, &mut players)?;
        Ok(Replayed { hard: hard.map(|it| it.parts()), shatl: shatl.map(|it| it.parts()) })
    }
}

/// Plays the writes and flushes of a trace.
fn play<E>(
    records: impl Iterator<Item = Result<Record, E>>,
    players: &mut [&mut dyn Player],
) -> Result<(), E> {
    for record in records {
        let record = record?;
        for player in players.iter_mut() {
            match record.op {
                Op::Write => player.write(record.lba, record.sectors as u32),
                Op::Flush => player.flush(),
                _ => {}
            }
        }
    }
    Ok(())
}

/// HARD on a drive with a free superpage for every write.
#[derive(Debug, Default)]
struct Hard {
    fill: u32,
    /// Whether a flush closes the open superpage.
    pads: bool,
    parts: Parts,
}

impl Parts {
    /// Returns the sum of all parts.
    pub(super) fn all(&self) -> f64 {
        self.request + self.copyback + self.vgc + self.padding
    }
}

impl Player for Hard {
    fn write(&mut self, _lba: u64, sectors: u32) {
        self.fill = (self.fill + sectors) % WIDE;
        self.parts.request += program(sectors);
    }

    fn flush(&mut self) {
        if self.pads && self.fill > 0 {
            self.parts.padding += program(WIDE - self.fill);
            self.fill = 0;
        }
    }

    fn parts(&self) -> Parts {
        self.parts
    }
}

fn program(sectors: u32) -> f64 {
    f64::from(sectors) / f64::from(WIDE) * WRITE
}

/// sHATL.
#[derive(Debug)]
struct Shatl {
    /// LSPs of each hidden superpage, with the number of their valid sectors in it.
    area: Vec<Vec<(u32, u32)>>,
    /// Slot of each hidden logical sector.
    place: Vec<u32>,
    free: Vec<u32>,
    /// Full superpages, oldest first.
    full: VecDeque<u32>,
    open: u32,
    fill: u32,
    /// Superpages that never hold hidden data.
    kept: usize,
    /// Whether a flush closes the open superpage.
    pads: bool,
    parts: Parts,
}

impl Shatl {
    /// Creates a layer with `hidden` superpages of hidden area, of which `kept` are never used.
    fn new(hidden: u32, kept: usize, pads: bool) -> Self {
        Shatl {
            area: vec![Vec::new(); hidden as usize],
            place: Vec::new(),
            free: (1..hidden).rev().collect(),
            full: VecDeque::new(),
            open: 0,
            fill: 0,
            kept,
            pads,
            parts: Parts::default(),
        }
    }

    fn kill(&mut self, sector: u32) {
        let Some(slot) = self.place.get_mut(sector as usize) else { return };
        let slot = std::mem::replace(slot, NOWHERE);
        if slot == NOWHERE {
            return;
        }
        let lsps = &mut self.area[(slot / WIDE) as usize];
        let is_of = |it: &(u32, u32)| it.0 == sector / WIDE;
        let at = lsps.iter().position(is_of).expect("a hidden sector has its LSP");
        lsps[at].1 -= 1;
        if lsps[at].1 == 0 {
            lsps.swap_remove(at);
        }
    }

    fn hide(&mut self, sector: u32) {
        self.kill(sector);
        if self.fill == WIDE {
            self.close();
        }
        if self.place.len() <= sector as usize {
            self.place.resize(sector as usize + 1, NOWHERE);
        }
        self.place[sector as usize] = self.open * WIDE + self.fill;
        let lsps = &mut self.area[self.open as usize];
        self.fill += 1;
        match lsps.iter_mut().find(|it| it.0 == sector / WIDE) {
            Some(lsp) => lsp.1 += 1,
            None => lsps.push((sector / WIDE, 1)),
        }
    }

    /// Closes the open superpage and opens another.
    fn close(&mut self) {
        self.full.push_back(self.open);
        while self.free.len() <= self.kept {
            self.collect();
        }
        (self.open, self.fill) = (self.free.pop().expect("a superpage is free"), 0);
    }

    /// Moves all LSPs with sectors in the victim home. The victim is read once, and for each LSP
    /// its home and every other superpage with sectors of it (Fig. 3(a)).
    fn collect(&mut self) {
        let lsps = |it: &u32| self.area[*it as usize].len();
        let at = (0..self.full.len()).min_by_key(|at| lsps(&self.full[*at]));
        let victim = self.full.remove(at.expect("a superpage is full")).expect("it is there");
        let moved = self.area[victim as usize].clone();
        if !moved.is_empty() {
            self.parts.vgc += READ;
        }
        for (lsp, _) in moved {
            let mut others = Vec::new();
            for sector in lsp * WIDE..(lsp + 1) * WIDE {
                let slot = self.place.get(sector as usize).copied().unwrap_or(NOWHERE);
                if slot != NOWHERE && slot / WIDE != victim && !others.contains(&(slot / WIDE)) {
                    others.push(slot / WIDE);
                }
                self.kill(sector);
            }
            self.parts.vgc += READ + WRITE + READ * others.len() as f64;
        }
        self.free.insert(0, victim);
    }
}

impl Player for Shatl {
    fn write(&mut self, lba: u64, sectors: u32) {
        self.parts.request += program(sectors);
        let (first, end) = (lba as u32, lba as u32 + sectors);
        if sectors < WIDE {
            (first..end).for_each(|sector| self.hide(sector));
            return;
        }
        (first..end).for_each(|sector| self.kill(sector));
        if !first.is_multiple_of(WIDE) {
            self.parts.copyback += READ + program(first % WIDE);
        }
        if !end.is_multiple_of(WIDE) {
            self.parts.copyback += READ + program(WIDE - end % WIDE);
        }
    }

    fn flush(&mut self) {
        if self.pads && self.fill > 0 {
            self.parts.padding += program(WIDE - self.fill);
            self.close();
        }
    }

    fn parts(&self) -> Parts {
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::hatl::loads::replayed;

    fn record(op: Op, lba: u64, sectors: u64) -> Result<Record, ()> {
        Ok(Record::new(0, op, 0, lba, sectors))
    }

    /// Plays writes of 4 KiB to the first block of each of `lsps` LSPs in turn, with a flush after
    /// every `flush`.
    fn played(mut layer: impl Player, lsps: u64, flush: u64) -> Parts {
        let writes = (0..1600).map(|at| record(Op::Write, at % lsps * 128, 8));
        let flushes =
            (1..=1600_u64).map(|at| at.is_multiple_of(flush).then(|| record(Op::Flush, 0, 0)));
        let all = writes.zip(flushes).flat_map(|(write, flush)| [Some(write), flush]).flatten();
        play(all, &mut [&mut layer]).unwrap();
        layer.parts()
    }

    #[test]
    fn a_flush_closes_a_superpage() {
        let parts = played(Hard { pads: true, ..Hard::default() }, 10, 4);
        assert_eq!(parts, Parts { request: 80_000.0, padding: 240_000.0, ..Parts::default() });
        let of = |pads| played(Shatl::new(128, 0, pads), 10, 4).padding;
        assert_eq!([of(false), of(true)], [0.0, 240_000.0]);
        assert_eq!(played(Shatl::new(128, 0, true), 10, 16).padding, 0.0);
    }

    #[test]
    fn a_full_area_moves_every_lsp_of_its_victim_home() {
        // 100 superpages receive writes, and each holds 16 LSPs. The first victims are those of
        // which nothing is valid.
        assert_eq!(played(Shatl::new(128, 0, false), 1600, 9999).vgc, 0.0);
        assert_eq!(played(Shatl::new(50, 0, false), 16, 9999).vgc, 0.0);
        let parts = played(Shatl::new(50, 0, false), 1600, 9999);
        // Of 100 superpages 50 are collected: a read of each, and a read and a program of 16 LSPs.
        assert_eq!(parts.vgc, 50.0 * (60.0 + 16.0 * 860.0));
        let kept = played(Shatl::new(50, 10, false), 1600, 9999);
        assert_eq!(kept.vgc - parts.vgc, 10.0 * (60.0 + 16.0 * 860.0));
    }

    #[test]
    fn an_lsp_is_read_from_every_superpage_that_holds_a_part() {
        let mut layer = Shatl::new(2, 0, false);
        let first = (0..16).map(|at| record(Op::Write, at * 8, 8));
        let second = (0..16).map(|at| record(Op::Write, at % 2 * 8, 8));
        play(first.chain(second), &mut [&mut layer]).unwrap();
        assert_eq!(layer.parts().vgc, 0.0);
        // The third superpage needs room: the victim has one LSP, with sectors in both.
        play([record(Op::Write, 1280, 8)].into_iter(), &mut [&mut layer]).unwrap();
        assert_eq!(layer.parts().vgc, 60.0 + 860.0 + 60.0);
    }

    #[test]
    fn a_large_write_goes_home_and_replaces_hidden_sectors() {
        let mut layer = Shatl::new(64, 0, false);
        let records = [record(Op::Write, 128, 8), record(Op::Write, 64, 192)];
        play(records.into_iter(), &mut [&mut layer]).unwrap();
        let parts = layer.parts();
        assert_eq!(parts.request, 50.0 + 1200.0);
        assert_eq!(parts.copyback, 60.0 + 400.0, "half of the first superpage");
        assert!(layer.place.iter().all(|slot| *slot == NOWHERE));
        assert!(layer.area.iter().all(Vec::is_empty));
    }

    /// The figures of docs/layers/shatl.md.
    #[test]
    fn the_description_needs_most_moves_on_the_shipped_trace() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces");
        let replayed = replayed(Some(&folder)).unwrap().expect("the trace is shipped");
        let seconds = |us: f64| (us / 1e5).round() / 10.0;
        let vgc = replayed.shatl.map(|parts| seconds(parts.vgc));
        let padding = replayed.shatl.map(|parts| seconds(parts.padding));
        assert_eq!((vgc, padding), ([54.4, 66.2, 66.6], [0.0, 24.6, 24.6]));
        assert_eq!(replayed.hard.map(|parts| seconds(parts.padding)), [0.0, 24.7, 24.7]);
        assert_eq!(replayed.shatl.map(|parts| seconds(parts.request)), [65.7; 3]);
    }
}
