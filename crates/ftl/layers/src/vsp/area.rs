//! The virtual superpages and all that changes together when a sector moves: the table, what is
//! known of superpages, the stages, the map log, and what must become durable.
//!
//! How a sector gets in is in [`super::write_in`], how it gets out to the device in
//! [`super::write_out`], how a request is answered in [`super::request`].

use alloc::vec::Vec;

use hostftl_core::{Command, Payload};

use super::checkpoint::{self, Checkpoint};
use super::direct::Direct;
use super::layout::{Layout, STAGES};
use super::limbo::Limbo;
use super::log::{Log, Mark, Point};
use super::ops::{Cx, Op};
use super::pool::Pool;
use super::stages::Stages;
use super::table::Table;
use super::wishes::Wishes;

/// Log writes between device flushes that nobody asked for: this bounds what recovery verifies.
const FLUSH_EVERY: u64 = 8;
#[derive(Debug)]
pub(crate) struct Area<T: Table> {
    pub layout: Layout,
    pub uuid: [u8; 16],
    pub table: T,
    pub pool: Pool,
    pub direct: Direct,
    pub log: Log,
    pub stages: Stages,
    pub wishes: Wishes,
    pub checkpoint: Checkpoint,
    flushing: bool,
}

impl<T: Table> Area<T> {
    /// An area with nothing in it, whose stages get the buffers.
    pub(crate) fn new(
        (layout, uuid): (Layout, [u8; 16]),
        (table, pool): (T, Pool),
        buffers: Vec<Payload>,
    ) -> Self {
        Area {
            layout,
            uuid,
            table,
            pool,
            direct: Direct::new(layout.kills),
            log: Log::new(uuid, layout.log_pages(), 4 * STAGES as usize),
            stages: Stages::new(buffers),
            wishes: Wishes::default(),
            checkpoint: Checkpoint::new(&layout),
            flushing: false,
        }
    }

    /// Bytes of what is known of superpages, and of the metadata under way, beside the table.
    pub(crate) fn meta_bytes(layout: &Layout) -> u64 {
        let superpages = Pool::memory(layout.count, layout.superpage) + Limbo::MEMORY;
        let stages = u64::from(STAGES) * u64::from(layout.superpage) * size_of::<u32>() as u64;
        let log = Log::memory(layout.log_pages());
        superpages + stages + Direct::memory(layout.kills) + Checkpoint::memory(layout) + log
    }

    /// Everything up to now.
    pub(crate) fn mark_all(&self) -> Mark {
        Mark { stamp: self.stages.opened(), pos: self.log.trimmed(), direct: self.direct.done() }
    }

    /// Everything that a host has been told is completed.
    pub(crate) fn mark_host(&self) -> Mark {
        Mark { stamp: self.stages.host(), pos: self.log.trimmed(), direct: self.direct.host() }
    }

    /// What is durable.
    pub(crate) fn durable(&self) -> Mark {
        Mark { direct: self.direct.durable(), ..self.log.durable().mark }
    }

    /// Whether all of it is durable; asks for that.
    pub(crate) fn press_all(&mut self) -> bool {
        let all = self.mark_all();
        self.wishes.press(all);
        self.durable().covers(all)
    }

    /// What is asked for.
    pub(crate) fn wishes(&self) -> Wishes {
        self.wishes
    }

    /// One move of the checkpoint.
    pub(crate) fn pump_checkpoint(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let (moved, durable) = checkpoint::pump(self, cx);
        if let Some(first) = durable {
            self.unpin(first);
        }
        moved
    }

    /// Whether the durable root needs no replay.
    pub(crate) fn is_checkpointed(&self) -> bool {
        self.checkpoint.is_current(self.log.next())
    }

    /// Asks for a whole checkpoint; false when that was asked before.
    pub(crate) fn hurry_checkpoint(&mut self) -> bool {
        self.checkpoint.hurry()
    }

    /// Whether every exported sector is mapped.
    pub(crate) fn is_full(&self) -> bool {
        self.table.mapped() == self.layout.entries.min(self.layout.exported)
    }

    /// Sends a flush when one makes something durable that is waited for.
    pub(crate) fn pump_flush(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let (settled, durable) = (self.log.settled(), self.log.durable());
        let news = settled.seq > durable.seq;
        let asked = news && !durable.mark.covers(self.wishes.wanted());
        let direct = self.direct.wants_flush(self.wishes.wanted());
        let often = news && settled.seq - durable.seq >= FLUSH_EVERY;
        let wanted = asked || often || direct || self.checkpoint.wants_flush();
        if self.flushing || !wanted || cx.command_room() == 0 {
            return false;
        }
        self.flushing = true;
        self.checkpoint.flush_sent();
        self.direct.flush_sent();
        cx.submit(Op::Flush { settled }, Command::Flush { device: 0 });
        true
    }

    /// A flush is over, and made durable what was settled, unless it failed.
    pub(crate) fn flushed(&mut self, settled: Option<Point>) {
        self.flushing = false;
        let Some(settled) = settled else { return };
        self.log.flushed(settled);
        self.direct.flush_done();
        self.direct.settle(settled.mark.pos);
        self.checkpoint.flushed();
    }

    /// As `Layer::mapped`.
    pub(crate) fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        match self.layout.home {
            Some(_) => (true, sectors),
            None => self.table.run(lba, sectors),
        }
    }

    /// As `Layer::check`.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.table.check(&self.pool)?;
        self.pool.check_queues()
    }

    /// The power is off.
    pub(crate) fn void(&mut self) {
        self.stages.void();
    }
}
