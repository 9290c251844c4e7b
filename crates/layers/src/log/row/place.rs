//! Copies a packed block into the open row and publishes its mapping.

use hostftl_core::{BLOCK, Command, HostError, Piece};

use crate::planted::{Bug, planted};

use crate::log::Engine;
use crate::log::buffers::Buffer;
use crate::log::host::blocks::PACKED;
use crate::log::host::op::{BlockOp, NOBODY, Step};
use crate::log::map::Where;
use crate::log::ops::{Cx, Op, works};
use crate::log::row::Phase;

impl Engine {
    pub(in crate::log) fn wait_for_row(&mut self, index: u8, step: Step) {
        self.op(index).step = step;
        self.blocks.waiting.push_back(index);
    }

    /// Gives the operation that has waited longest its room in a row.
    pub(in crate::log) fn pump_blocks(&mut self, cx: &mut Cx) -> bool {
        let Some(&index) = self.blocks.waiting.front() else { return false };
        if let Some(error) = cx.health().error() {
            self.blocks.waiting.pop_front();
            self.end_block(index, Some(error), cx);
            return true;
        }
        let it = *self.op(index);
        match it.step {
            Step::Unmapping => {
                let mapped = !self.pages.map().place(it.block).is_nowhere();
                if mapped && !self.append_trim(it.block, 1, cx) {
                    return false;
                }
                self.blocks.waiting.pop_front();
                self.end_block(index, None, cx);
            }
            Step::Waiting { len, crc } if it.req == NOBODY => {
                self.blocks.waiting.pop_front();
                let record = (it.block, len, it.place.generation());
                match self.append(self.to_copy(it.place), record, crc, cx) {
                    Some((row, item)) => self.put_in(index, (row, item, len), cx),
                    None => self.end_block(index, None, cx),
                }
            }
            Step::Waiting { len, crc } => {
                let record = (it.block, len, it.generation);
                let to = self.to_write(it.block);
                let Some((row, item)) = self.append(to, record, crc, cx) else { return false };
                self.blocks.waiting.pop_front();
                self.put_in(index, (row, item, len), cx);
            }
            other => unreachable!("an operation that is {other:?} does not wait"),
        }
        true
    }

    fn put_in(&mut self, index: u8, (row, item, len): (u8, u32, u32), cx: &mut Cx) {
        let from = if self.op(index).req == NOBODY {
            self.record_view(index)
        } else if len == BLOCK as u32 {
            self.plain_view(index, cx)
        } else {
            let (scratch, at) = self.buffers.scratch(index);
            scratch.view(at + PACKED, len)
        };
        let noted = self.rows[row].items[item as usize];
        self.op(index).place = noted.place;
        let buffer = Buffer::row(row, noted.chunk.into());
        let into = self.buffers.at(buffer).view_mut(noted.byte, len);
        self.op(index).step = Step::Placing { row, item };
        let command = || Command::Place { from: Piece::Data(from), into };
        cx.compute(Op::Block { index }, command);
    }

    /// A record is in its row.
    pub(in crate::log) fn placed(&mut self, index: u8, row: u8, item: u32, cx: &mut Cx) {
        let BlockOp { req, rescued, .. } = *self.op(index);
        match rescued.filter(|_| req == NOBODY) {
            Some(from) => self.publish_copy(row, item, from, cx),
            None => self.publish(row, item, None, cx),
        }
        let it = &mut self.rows[row];
        it.placing -= 1;
        if it.phase() != Phase::Filling && !planted(Bug::RowForgotten) {
            cx.disturb(); // It may be sealed.
        }
        if it.of_host {
            self.durability.host_published(it.stamp);
        }
    }

    /// A record that was rescued moves to where all of its row is whole.
    pub(in crate::log) fn begin_repair(&mut self, index: u8, it: BlockOp, cx: &mut Cx) {
        if self.devices.has_lost(it.place.device()) || !works(cx) {
            return self.blocks.free.push(index);
        }
        let (page, spare) = (self.pages.map().page_of(it.block), self.pages.map().reserve());
        if self.pages.map().state(page) != Where::Here || !self.pages.map_mut().pin(page, spare) {
            return self.blocks.free.push(index);
        }
        let step = Step::Waiting { len: it.place.len(), crc: it.crc };
        let repair = BlockOp { req: NOBODY, data: false, pinned: true, step, ..it };
        self.blocks.put(index, repair);
        self.blocks.waiting.push_back(index);
    }

    /// The operation that has waited longest gets no room.
    pub(in crate::log) fn refuse_block(&mut self, cx: &mut Cx) -> bool {
        let Some(index) = self.blocks.waiting.pop_front() else { return false };
        let why = self.why_full();
        self.end_block(index, Some(why), cx);
        true
    }

    /// Why there is no room: the volume is full, or a device can't read what should be collected.
    pub(in crate::log) fn why_full(&self) -> HostError {
        if self.segments.any_shunned() { HostError::Io } else { HostError::NoSpace }
    }

    /// A block became a record of `len` bytes.
    pub(in crate::log) fn count_packed(&mut self, len: u32) {
        self.gauges.packed_from += BLOCK as u64;
        self.gauges.packed_into += u64::from(len);
    }
}
