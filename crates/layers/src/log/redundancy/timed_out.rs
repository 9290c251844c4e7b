//! Goes on without a device that timed out, although its commands keep what they were lent.
//!
//! When a command is past its deadline, all commands of its device are given up. What each was for
//! goes on as when it fails, with something else in the place of what the command holds: a block
//! operation gets another scratch, metadata comes from a small reserve, and of the buffers of rows
//! those that are held are gathered in few rows, which are not used until the commands are back.
//!
//! Invariants
//! - What a command holds that was given up is used by nobody else until that command is back.
//! - What a row holds is in its own buffers until the row is over.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, DeviceError, Event, Gather, HostError, MetaBuf, Piece, SECTOR,
    SECTORS_PER_BLOCK, Tally, Target, Token,
};

use crate::log::Engine;
use crate::log::buffers::Buffer;
use crate::log::layout::{Layout, ROWS};
use crate::log::map::pages::LOADS;
use crate::log::ops::{Cx, OPS, Op, works};
use crate::log::row::Phase;
use crate::log::row::streams::MAP;
use crate::planted::{Bug, planted};

/// Block operations that are not begun while every device answers, so that those of one that does
/// not can go on.
const KEPT: usize = 8;
/// Heads of rows that may be read at once: one for collection, one for what is salvaged.
const HEADS: usize = 2;

/// See the module text.
#[derive(Debug)]
pub struct Hung {
    /// The commands for which nothing has gone on yet: what each was for, and its device.
    waiting: VecDeque<(Token, Op, u8)>,
    /// Rows that are not used: the others may have their idle buffers.
    broken: u32,
    /// The reserve: images of pages, heads, a chunk of images.
    pages: Vec<MetaBuf>,
    heads: Vec<MetaBuf>,
    images: Option<MetaBuf>,
    /// Heads of rows that came back late.
    row_heads: Vec<MetaBuf>,
}

impl Hung {
    /// Nothing hangs; only where parity makes up for a device there is a reserve.
    pub fn new(layout: &Layout) -> Self {
        let redundant = layout.parity && !layout.zoned;
        let some = |count: usize| if redundant { count } else { 0 };
        let head = layout.head_pages(true) as usize;
        let images = (layout.chunk / SECTORS_PER_BLOCK) as usize;
        Hung {
            waiting: VecDeque::with_capacity(some(OPS.into())),
            broken: 0,
            pages: (0..some(LOADS)).map(|_| MetaBuf::new(1)).collect(),
            heads: (0..some(HEADS)).map(|_| MetaBuf::new(head)).collect(),
            images: redundant.then(|| MetaBuf::new(images)),
            row_heads: Vec::with_capacity(some(ROWS)),
        }
    }

    /// Whether everything has gone on for which a command was given up.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Engine {
    /// Whether no command is in flight but those that were given up.
    pub(in crate::log) fn all_back(&self, cx: &Cx) -> bool {
        cx.is_quiet() && self.hung.is_quiet()
    }

    /// Whether a block operation may be begun.
    pub(in crate::log) fn may_begin_block(&self) -> bool {
        let may_hang = self.layout.parity && self.devices.lost() == 0;
        self.blocks.free.len() > if may_hang { KEPT } else { 0 }
    }

    /// Gives up the devices that are late, if parity makes up for them.
    pub(in crate::log) fn give_up_late(&mut self, cx: &mut Cx) -> bool {
        let late = cx.late_devices();
        let works = works(cx) && self.recovery.is_none() && !self.layout.zoned;
        if !works || late & self.journal.bit() != 0 || !self.devices.can_do_without(late) {
            return false;
        }
        self.devices.lose(late);
        cx.counters().device_errors += 1;
        for device in (0..self.layout.devices).filter(|device| late >> device & 1 == 1) {
            let error = DeviceError::Gone;
            cx.tell(Event::DeviceFailed { device, error, abandoned: true });
        }
        let waiting = &mut self.hung.waiting;
        cx.give_up_commands(late, |token, op, device| waiting.push_back((token, op, device)));
        cx.wake();
        true
    }

    /// Goes on with something for which a command was given up.
    pub(in crate::log) fn pump_hung(&mut self, cx: &mut Cx) -> bool {
        for _ in 0..self.hung.waiting.len() {
            let given_up = self.hung.waiting.pop_front().expect("they were counted");
            let (_, op, device) = given_up;
            if self.go_on_without(op, device, cx) {
                return true;
            }
            self.hung.waiting.push_back(given_up);
        }
        false
    }

    /// Lets `op` fail without its command. False when that has to wait.
    fn go_on_without(&mut self, op: Op, device: u8, cx: &mut Cx) -> bool {
        let command = match op {
            Op::Block { index } => return self.move_block(index, cx),
            Op::Chunk { row, .. } => {
                self.with_rows(|rows, with| rows.chunk_over(row, with, cx));
                return true;
            }
            Op::Load { index } => {
                let lba = self.pages.loads().place(index).byte() / SECTOR as u64;
                let buf = self.hung.pages.pop().expect("a page for each load");
                read(device, lba, Target::Meta { buf, pages: 1 })
            }
            Op::GcHead => {
                let at = self.collection.at();
                let pages = self.layout.head_pages(at.sector == 0);
                let buf = self.hung.heads.pop().expect("one for collection");
                read(device, self.layout.lba(at), Target::Meta { buf, pages })
            }
            Op::Salvage => {
                let buf = self.hung.heads.pop().expect("one for what is salvaged");
                read(device, 0, Target::Meta { buf, pages: 1 })
            }
            Op::GcRead { .. } | Op::GcMend => {
                let buffer = match op {
                    Op::GcRead { chunk } => Buffer::Gc(chunk),
                    _ => self.collection.mend_buffer(),
                };
                if !self.replace(buffer) {
                    return false;
                }
                let view = self.buffers.at(buffer).view_mut_sectors(0, 1);
                read(device, 0, Target::Data(view))
            }
            Op::Images { .. } => {
                let buf = self.hung.images.take().expect("one row of images at a time");
                let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
                let tally = Tally::of(Cause::Checkpoint, SECTORS_PER_BLOCK);
                Command::Program { device, lba: 0, gather, tally, placement: MAP }
            }
            // These hold nothing that is needed: a device that is lost gets no root.
            Op::Flush | Op::Root { .. } | Op::Discard { .. } => Command::Flush { device },
            other => unreachable!("{other:?} is no command of a device that parity makes up for"),
        };
        self.finish(op, command, Err(DeviceError::Gone), cx);
        true
    }

    /// A block operation goes on in another scratch.
    fn move_block(&mut self, index: u8, cx: &mut Cx) -> bool {
        let reused = planted(Bug::HungScratchReused).then_some(index);
        let Some(to) = reused.or_else(|| self.blocks.free.pop()) else { return false };
        let it = self.blocks.list[index as usize].take().expect("an operation under way");
        self.blocks.put(to, it);
        match self.can_be_rescued(to) {
            true => self.begin_rescue(to, cx),
            false => self.end_block(to, Some(HostError::Io), cx),
        }
        true
    }

    /// Another buffer comes in the place of one that is held. False when none is idle now.
    fn replace(&mut self, buffer: Buffer) -> bool {
        let idle = self.rows.idle();
        let Some(spare) = self.spare_buffers(0).next() else {
            let Some(row) = idle else { return false };
            self.rows.go(row, Phase::Draining);
            self.break_row(row);
            return self.replace(buffer);
        };
        self.buffers.exchange(buffer, spare);
        true
    }

    /// The idle buffers of rows that are not used, but not those of the rows in `but`.
    fn spare_buffers(&self, but: u32) -> impl Iterator<Item = Buffer> + '_ {
        let rows = (0..ROWS as u8).filter(move |row| (self.hung.broken & !but) >> row & 1 == 1);
        let buffers = rows.flat_map(|row| self.buffers.of_row(row));
        buffers.filter(|buffer| self.buffers.is_idle(*buffer))
    }

    /// A row that is over is not used for now. It counts as one of the host's, of which there are
    /// many.
    fn break_row(&mut self, row: u8) {
        self.hung.broken |= 1 << row;
        self.rows[row].stream = 0;
    }

    /// A row whose buffers nobody has is idle.
    pub(in crate::log) fn retire(&mut self, row: u8, cx: &Cx) -> bool {
        let held = self.journal.holds(row, &self.rows[row], self.durability.durable());
        let idle = !held && (self.is_whole(row) || self.make_whole(row, cx));
        if idle {
            self.rows.go(row, Phase::Idle);
            self.hung.broken &= !(1 << row);
        }
        idle
    }

    fn is_whole(&self, row: u8) -> bool {
        let idle = self.buffers.of_row(row).all(|buffer| self.buffers.is_idle(buffer));
        idle && self.rows[row].heads.len() == 2
    }

    /// Gives a row that is over what it lacks, from rows that are not used, or makes it one of
    /// them.
    fn make_whole(&mut self, row: u8, cx: &Cx) -> bool {
        if !cx.has_given_up() && self.hung.broken == 0 && self.hung.row_heads.is_empty() {
            return false;
        }
        let own = 1 << row;
        let others = self.hung.broken & !own;
        let donors = (0..ROWS as u8).filter(|it| others >> it & 1 == 1);
        let heads = donors.map(|it| self.rows[it].heads.len()).sum::<usize>();
        let lacks = self.buffers.of_row(row).filter(|it| !self.buffers.is_idle(*it)).count();
        let lacks_heads = 2 - self.rows[row].heads.len();
        if self.spare_buffers(own).count() < lacks
            || heads + self.hung.row_heads.len() < lacks_heads
        {
            self.break_row(row);
            return false;
        }
        for buffer in self.buffers.of_row(row) {
            if !self.buffers.is_idle(buffer) {
                let spare = self.spare_buffers(own).next().expect("they were counted");
                self.buffers.exchange(buffer, spare);
            }
        }
        for _ in 0..lacks_heads {
            let head = self.hung.row_heads.pop().or_else(|| {
                let donors = self.rows.iter_mut().zip(0..).filter(|(_, it)| others >> it & 1 == 1);
                donors.into_iter().find_map(|(donor, _)| donor.heads.pop())
            });
            self.rows[row].heads.push(head.expect("they were counted"));
        }
        true
    }

    /// A command that was given up is back.
    pub(in crate::log) fn given_up_done(
        &mut self,
        token: Token,
        op: Op,
        command: Command,
        cx: &mut Cx,
    ) {
        cx.disturb();
        cx.wake();
        let at = self.hung.waiting.iter().position(|(waiting, ..)| *waiting == token);
        if let Some(at) = at {
            self.hung.waiting.remove(at);
            return self.finish(op, command, Err(DeviceError::Gone), cx);
        }
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                self.buffers.named(view.id()).repay_mut(view);
                if let Op::Block { index } = op {
                    self.blocks.free.push(index);
                }
            }
            Command::Read { into: Target::Meta { buf, .. }, .. } => match op {
                Op::Load { .. } => self.hung.pages.push(buf),
                _ => self.hung.heads.push(buf),
            },
            Command::Program { gather, .. } => {
                for piece in gather {
                    match (piece, op) {
                        (Piece::Data(view), _) => self.buffers.named(view.id()).repay(view),
                        (Piece::Meta { buf, .. }, Op::Root { .. }) => {
                            self.checkpoint.take_back(buf)
                        }
                        (Piece::Meta { buf, .. }, Op::Images { .. }) => {
                            self.hung.images = Some(buf)
                        }
                        (Piece::Meta { buf, .. }, _) => self.hung.row_heads.push(buf),
                        (Piece::Zeros(_), _) => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn read(device: u8, lba: u64, into: Target) -> Command {
    Command::Read { device, lba, into, cause: Cause::Gc }
}
