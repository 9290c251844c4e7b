//! Strips as they go to the medium: each with its tail, and with what closes its segment; and how
//! much was written for what.

use hostftl_core::{Cause, Command, Gather, MetaBuf, Piece, Tally};
use hostftl_format::zones::{self, Holds, Tail, Written};

use super::layout::Layout;
use super::lines::Lines;
use super::ops::Cx;

/// A strip that is to be written.
#[derive(Debug)]
pub(super) struct Draft {
    /// What comes before the metadata.
    pub body: Gather,
    /// Pages of metadata; the last is the tail, whose entries are there already.
    pub meta: MetaBuf,
    /// How many entries.
    pub entries: usize,
    pub holds: Holds,
    /// Its number among those of its kind.
    pub seq: u64,
    /// The last row.
    pub newest: u64,
    /// Sectors by cause, those of pads apart.
    pub tally: Tally,
    pub placement: u8,
}

#[derive(Debug)]
pub(super) struct Strips {
    layout: Layout,
    /// Since the volume was made.
    written: Written,
}

impl Strips {
    /// Nothing was written.
    pub(super) fn new(layout: &Layout) -> Self {
        Strips { layout: *layout, written: Written::default() }
    }

    /// What was written for what since the volume was made.
    pub(super) fn written(&self) -> &Written {
        &self.written
    }

    /// Recovery found what had been written before it.
    pub(super) fn resume(&mut self, before: &Written) {
        self.written = self.written.plus(before);
    }

    /// What is sent counts as written.
    pub(super) fn count(&mut self, tally: &Tally, cx: &mut Cx) {
        let counters = cx.counters();
        counters.gc_copied += u64::from(tally.get(Cause::Gc));
        counters.padded += u64::from(tally.get(Cause::Pad));
        counters.map_written += u64::from(tally.get(Cause::Map));
        counters.checkpoint_written += u64::from(tally.get(Cause::Checkpoint));
        counters.lists_written += u64::from(tally.get(Cause::List));
        let of = |cause| u64::from(tally.get(cause));
        self.written = self.written.plus(&Written {
            host: of(Cause::Host),
            gc: of(Cause::Gc),
            pad: of(Cause::Pad),
            map: of(Cause::Map),
            checkpoint: of(Cause::Checkpoint),
            list: of(Cause::List),
        });
    }

    /// The program of a strip at its place; it counts as written.
    pub(super) fn program(
        &mut self,
        (segment, strip): (u32, u32),
        draft: Draft,
        lines: &Lines,
        cx: &mut Cx,
    ) -> Command {
        let Draft { body: mut gather, mut meta, mut tally, .. } = draft;
        let rest = self.rest((segment, strip), lines);
        tally.add(Cause::Pad, self.layout.strip + rest - tally.total());
        self.count(&tally, cx);
        let line = self.layout.line(segment);
        let tail = Tail {
            seq: draft.seq,
            newest: draft.newest,
            line,
            entries: draft.entries as u16,
            holds: draft.holds,
            written: self.written,
            ..lines.at(line).tail()
        };
        let page = meta.pages_mut().last_mut().expect("a strip has a tail");
        zones::seal(page, &self.layout.uuid, self.layout.tail_at(segment, strip), &tail);
        let pages = meta.pages().len() as u32;
        gather.push(Piece::Meta { buf: meta, pages });
        if rest > 0 {
            gather.push(Piece::zero_sectors(rest));
        }
        let (lba, placement) = (self.layout.lba(segment, strip), draft.placement);
        Command::Program { device: 0, lba, gather, tally, placement }
    }

    /// Sectors behind the last strip of a segment, which are written with it so that it closes.
    fn rest(&self, (segment, strip): (u32, u32), lines: &Lines) -> u32 {
        let chunk = lines.chunk(segment);
        if strip + 1 < chunk.strips { 0 } else { chunk.length - chunk.strips * self.layout.strip }
    }
}
