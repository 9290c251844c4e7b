//! Data area: the virtual superpages and all state that changes together when a sector moves. That
//! is the table, the pool of superpages, the stages, the map log, and the durability requests.
//!
//! [`super::write_in`] fills stages, [`super::write_out`] programs them, and [`super::request`]
//! answers requests.

use alloc::vec::Vec;

use hostftl_core::{Command, Payload};

use crate::planted::{Bug, planted};

use super::checkpoint::{self, Checkpoint};
use super::direct::Direct;
use super::durability_requests::DurabilityRequests;
use super::layout::{Layout, STAGES};
use super::limbo::Limbo;
use super::log::{Log, Mark, Point};
use super::ops::{Cx, Op};
use super::pool::Pool;
use super::stages::Stages;
use super::table::Table;

/// Log writes after which the device is flushed without a request, to bound the work of recovery.
const FLUSH_EVERY: u64 = 8;
/// The data area of a volume.
#[derive(Debug)]
pub(crate) struct Area<T: Table> {
    pub layout: Layout,
    pub uuid: [u8; 16],
    pub table: T,
    pub pool: Pool,
    pub direct: Direct,
    pub log: Log,
    pub stages: Stages,
    pub durability_requests: DurabilityRequests,
    pub checkpoint: Checkpoint,
    flushing: bool,
    /// Whether completed programs are durable, because the device has a protected
    /// buffer, which also merges partial indirection units.
    is_protected: bool,
}

impl<T: Table> Area<T> {
    /// Creates an empty area; `buffers` become its stages.
    pub(crate) fn new(
        (layout, uuid): (Layout, [u8; 16]),
        (table, pool): (T, Pool),
        buffers: Vec<Payload>,
        is_protected: bool,
    ) -> Self {
        Area {
            layout,
            uuid,
            table,
            pool,
            direct: Direct::new(layout.kills),
            log: Log::new(uuid, layout.log_pages(), 4 * STAGES as usize),
            stages: Stages::new(buffers),
            durability_requests: DurabilityRequests::default(),
            checkpoint: Checkpoint::new(&layout),
            flushing: false,
            is_protected: is_protected || planted(Bug::PadSkipped),
        }
    }

    /// Returns the bytes of the superpage state and of metadata in flight, without the table.
    pub(crate) fn meta_bytes(layout: &Layout) -> u64 {
        let superpages = Pool::memory(layout.count, layout.superpage) + Limbo::MEMORY;
        let stages = u64::from(STAGES) * u64::from(layout.superpage) * size_of::<u64>() as u64;
        let pins = u64::from(layout.usual_pins()) * size_of::<u64>() as u64;
        let log = Log::memory(layout.log_pages()) + pins;
        superpages + stages + Direct::memory(layout.kills) + Checkpoint::memory(layout) + log
    }

    /// Returns the mark of the present.
    pub(crate) fn mark_all(&self) -> Mark {
        Mark { stamp: self.stages.opened(), pos: self.log.trimmed(), direct: self.direct.done() }
    }

    /// Returns the mark that covers every acknowledged request.
    pub(crate) fn mark_host(&self) -> Mark {
        Mark { stamp: self.stages.host(), pos: self.log.trimmed(), direct: self.direct.host() }
    }

    /// Returns the mark up to which everything is durable.
    pub(crate) fn durable(&self) -> Mark {
        Mark { direct: self.direct.durable(), ..self.log.durable().mark }
    }

    /// Requests that everything up to now becomes durable. Returns whether it already is.
    pub(crate) fn request_all(&mut self) -> bool {
        let all = self.mark_all();
        self.durability_requests.request_soon(all);
        self.durable().covers(all)
    }

    /// Returns the durability requests.
    pub(crate) fn durability_requests(&self) -> DurabilityRequests {
        self.durability_requests
    }

    /// Advances the checkpoint. Returns whether anything moved.
    pub(crate) fn pump_checkpoint(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let (moved, durable) = checkpoint::pump(self, cx);
        if let Some(first) = durable {
            self.unpin(first);
        }
        moved
    }

    /// Returns whether the durable root needs no replay.
    pub(crate) fn is_checkpointed(&self) -> bool {
        self.checkpoint.is_current(self.log.next())
    }

    /// Requests a complete checkpoint without pacing. Returns false if one is already requested.
    pub(crate) fn hurry_checkpoint(&mut self) -> bool {
        self.checkpoint.hurry()
    }

    /// Returns whether every exported sector is mapped.
    pub(crate) fn is_full(&self) -> bool {
        self.table.mapped() == self.layout.entries().min(self.layout.exported)
    }

    /// Sends a flush if it makes something durable that is waited for.
    pub(crate) fn pump_flush(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let (settled, durable) = (self.log.settled(), self.log.durable());
        // Without a newer settled log write a flush would only help writes in place or a
        // checkpoint.
        let news = settled.seq > durable.seq;
        let asked = news && !durable.mark.covers(self.durability_requests.eventual());
        let direct = self.direct.wants_flush(self.durability_requests.eventual());
        let often = news && settled.seq - durable.seq >= FLUSH_EVERY;
        let wanted = asked || often || direct || self.checkpoint.wants_flush();
        // One flush at a time: the next one covers everything that settles in the meantime.
        if self.flushing || !wanted || cx.commands_left() == 0 {
            return false;
        }
        self.checkpoint.flush_sent();
        self.direct.flush_sent();
        if self.is_protected {
            self.flushed(Some(settled));
            return true;
        }
        self.flushing = true;
        cx.submit(Op::Flush { settled }, Command::Flush { device: 0 });
        true
    }

    /// Returns whether completed programs are durable, because the device has a protected
    /// buffer, which also merges partial indirection units.
    pub(crate) fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// Completes a flush. `settled` is the log write that it made durable, or `None` if it failed.
    pub(crate) fn flushed(&mut self, settled: Option<Point>) {
        self.flushing = false;
        let Some(settled) = settled else { return };
        self.log.flushed(settled);
        self.direct.flush_done();
        // Kills up to this log position are now durable.
        self.direct.settle(settled.mark.pos);
        self.checkpoint.flushed();
    }

    /// Implements `Layer::mapped`.
    pub(crate) fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        match self.layout.home {
            Some(_) => (true, sectors),
            None => self.table.run(lba, sectors),
        }
    }

    /// Implements `Layer::check`.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.table.check(&self.pool)?;
        self.pool.check_queues()
    }

    /// Discards the payloads at a power cut.
    pub(crate) fn void(&mut self) {
        self.stages.void();
    }
}
