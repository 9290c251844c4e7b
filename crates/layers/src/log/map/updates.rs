//! How a block operation begins: it needs the page that says where its record is, and may have to
//! wait for that.
//!
//! Invariant: an operation that writes keeps its page in memory to its end.

use alloc::collections::VecDeque;

use hostftl_core::{HostError, SECTORS_PER_BLOCK};
use hostftl_format::log::Place;

use crate::log::Engine;
use crate::log::host::op::{BlockOp, Step};
use crate::log::layout::BLOCK_OPS;
use crate::log::map::Where;
use crate::log::ops::{Cx, OWN_OPS};

/// See the module text.
#[derive(Debug)]
pub struct Mapping {
    waiting: VecDeque<u8>,
    /// Loads that were over when these were last looked at.
    seen: u64,
    /// Whether one of them has no page that is coming.
    refused: bool,
}

impl Mapping {
    pub fn new() -> Self {
        Mapping { waiting: VecDeque::with_capacity(BLOCK_OPS), seen: 0, refused: false }
    }

    /// Whether an operation waits for its page.
    pub fn any(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Engine {
    /// Begins to read `sectors` sectors at `from` of one block. False when it has to wait.
    pub(in crate::log) fn begin_read(
        &mut self,
        req: u16,
        from: u64,
        sectors: u32,
        cx: &mut Cx,
    ) -> bool {
        if !self.may_begin_block() || cx.command_room() <= OWN_OPS {
            return false;
        }
        let block = from / u64::from(SECTORS_PER_BLOCK);
        let page = self.pages.map().page_of(block);
        self.pages.map_mut().try_again(page);
        let index = self.begin(req, block, (from, sectors), (false, true), cx);
        self.look_up(index, cx);
        true
    }

    /// Begins to write part of one block: the host's data, or zeros. False when it has to wait.
    pub(in crate::log) fn begin_write(
        &mut self,
        req: u16,
        (from, sectors): (u64, u32),
        data: bool,
        cx: &mut Cx,
    ) -> bool {
        let block = from / u64::from(SECTORS_PER_BLOCK);
        if !self.may_begin_block()
            || cx.command_room() <= OWN_OPS
            || self.blocks.any_write_in(block, block + 1)
        {
            return false;
        }
        let page = self.pages.map().page_of(block);
        self.pages.map_mut().try_again(page);
        if self.hold_page(self.pages.map().page_of(block), self.pages.map().reserve(), cx)
            == Where::Away
        {
            return false;
        }
        let index = self.begin(req, block, (from, sectors), (true, data), cx);
        self.blocks.writing.push(block);
        self.look_up(index, cx);
        true
    }

    /// What a block operation does once it is known where its record is.
    fn go_on(&mut self, index: u8, cx: &mut Cx) {
        let it = self.op(index);
        if it.writes && it.is_whole() {
            self.pack(index, cx);
        } else {
            self.fetch(index, cx);
        }
    }

    fn begin(
        &mut self,
        req: u16,
        block: u64,
        (from, sectors): (u64, u32),
        (writes, data): (bool, bool),
        cx: &mut Cx,
    ) -> u8 {
        let index = self.blocks.free.pop().expect("a free operation was seen");
        let active = cx.requests().at(req);
        let at = active.cursor as u32;
        active.cursor += u64::from(sectors);
        active.outstanding += 1;
        let generation = self.blocks.next_generation();
        cx.touch(1);
        let op = BlockOp {
            req,
            block,
            from: (from % u64::from(SECTORS_PER_BLOCK)) as u32,
            sectors,
            at,
            writes,
            data,
            pinned: writes,
            generation,
            place: Place::NOWHERE,
            crc: 0,
            row: None,
            holds: false,
            rescued: None,
            flawed: false,
            step: Step::Mapping,
        };
        self.blocks.put(index, op);
        index
    }

    /// Finds out where the record of an operation is, or lets it wait for that.
    fn look_up(&mut self, index: u8, cx: &mut Cx) {
        let it = self.op(index);
        let (block, replaces) = (it.block, it.writes && it.is_whole());
        if replaces && self.pages.map().state(self.pages.map().page_of(block)) == Where::Here {
            // It is buried when the new one is there.
            self.pages.map().look_ahead(core::iter::once(block));
            return self.pack(index, cx);
        }
        if let Some((place, crc)) = self.pages.pair(block) {
            let it = self.op(index);
            (it.place, it.crc) = (place, crc);
            return self.go_on(index, cx);
        }
        let state = self.fetch_page(self.pages.map().page_of(block), cx);
        self.op(index).step = Step::Mapping;
        self.blocks.mapping.refused |= state != Where::Coming;
        self.blocks.mapping.waiting.push_back(index);
    }

    /// Goes on with the operations whose pages have come.
    #[inline]
    pub(in crate::log) fn pump_mapping(&mut self, cx: &mut Cx) -> bool {
        self.blocks.mapping.any() && self.map_some(cx)
    }

    fn map_some(&mut self, cx: &mut Cx) -> bool {
        let mapping = &mut self.blocks.mapping;
        let seen = core::mem::replace(&mut mapping.seen, self.pages.loads().arrivals());
        if seen == mapping.seen && !mapping.refused {
            return false;
        }
        mapping.refused = false;
        let count = mapping.waiting.len();
        for _ in 0..count {
            let index = self.blocks.mapping.waiting.pop_front().expect("it was counted");
            let block = self.op(index).block;
            let page = self.pages.map().page_of(block);
            if cx.room() <= 12 {
                self.blocks.mapping.refused = true;
                self.blocks.mapping.waiting.push_back(index);
            } else if self.pages.map().state(page) == Where::Bad {
                self.end_block(index, Some(HostError::Io), cx);
            } else {
                self.look_up(index, cx);
            }
        }
        self.blocks.mapping.waiting.len() < count
    }
}
