//! Composition of strips for the medium: their tails and the padding that closes a segment. Also
//! counts the sectors written by cause.

use hostftl_core::{Cause, Command, Gather, MetaBuf, Piece, Tally};
use hostftl_format::zones::{self, Holds, Tail, Written};

use super::layout::Layout;
use super::lines::Lines;
use super::ops::Cx;

/// A strip to be written.
#[derive(Debug)]
pub(super) struct Draft {
    /// Data before the metadata.
    pub body: Gather,
    /// Pages of metadata. The last one is the tail, which already has its entries.
    pub meta: MetaBuf,
    /// Number of entries.
    pub entries: usize,
    pub holds: Holds,
    /// Number of the strip among those of its kind.
    pub seq: u64,
    /// Last row that was opened.
    pub newest: u64,
    /// Sectors by cause, without pads.
    pub tally: Tally,
    pub placement: u8,
}

/// Sectors written to the volume.
#[derive(Debug)]
pub(super) struct Strips {
    layout: Layout,
    /// Totals since the volume was created.
    written: Written,
}

impl Strips {
    /// Creates counters at zero.
    pub(super) fn new(layout: &Layout) -> Self {
        Strips { layout: *layout, written: Written::default() }
    }

    /// Returns the sectors written by cause since the volume was created.
    pub(super) fn written(&self) -> &Written {
        &self.written
    }

    /// Adds the totals from before this start, as found by recovery.
    pub(super) fn resume(&mut self, before: &Written) {
        self.written = self.written.plus(before);
    }

    /// Counts sectors as written when they are sent.
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

    /// Returns the program of a strip, and counts it.
    pub(super) fn program(
        &mut self,
        (segment, strip): (u32, u32),
        draft: Draft,
        lines: &Lines,
        cx: &mut Cx,
    ) -> Command {
        let Draft { body: mut gather, mut meta, mut tally, .. } = draft;
        // The last strip is extended to the end of its segment.
        let rest = self.rest((segment, strip), lines);
        // All sectors without another cause are padding.
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
            // All tails of a line repeat the data of its opening.
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

    /// Returns the sectors after the last strip of a segment, which are written with it to close
    /// the segment.
    fn rest(&self, (segment, strip): (u32, u32), lines: &Lines) -> u32 {
        let chunk = lines.chunk(segment);
        if strip + 1 < chunk.strips { 0 } else { chunk.length - chunk.strips * self.layout.strip }
    }
}
