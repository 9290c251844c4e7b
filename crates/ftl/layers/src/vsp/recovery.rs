//! Recovery: builds the map from the contents of the device, in small steps.
//!
//! The steps are: flush (data read later is durable) → roots → map groups → log, write by write →
//! generations of groups without an image in the root → counts → verification of data that no
//! flush is known to cover → queues → images of changed groups → root of a new epoch.
//!
//! If data listed at the end of the log doesn't match its checksum, that log write was never
//! durable, and nothing from it on was acknowledged as durable. Recovery then returns to the map
//! groups and replays up to the previous log write. An unreadable page, or a damaged page that a
//! later one shows to have been durable, ends in `Event::Unrecoverable`, never in a guess.

mod images;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, SECTORS_PER_BLOCK, Target, Verdict};
use hostftl_format::hard::{
    CANDIDATES, ROOT_GENERATIONS, Root, parse_generations, parse_root, root_candidates,
};

use crate::config::{LayerConfig, Mode};
use crate::kit::Life;
use crate::planted::{Bug, planted};

use images::Images;

use super::area::Area;
use super::layout::Layout;
use super::ops::{Cx, Op, OwnOp};
use super::pool::State;
use super::replay::Replay;
use super::table::Table;

/// Upper bound of all counters: a root with a larger one was not written by this layer.
const MOST: u64 = 1 << 62;
/// Groups examined per call.
const SCAN: u32 = 1024;
/// Images, or roots, that are read at once.
const READS: usize = 4;

/// Step of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Flush,
    Roots,
    Groups,
    Entries,
    Log,
    Generations,
    Counts,
    Verify,
    Forget,
    Queues,
    Checkpoint,
}

/// Last listing of a superpage in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// Log write with the listing; 0 if there is none.
    pub seq: u64,
    /// CRC-32C of the data.
    pub crc: u32,
    /// Number of sectors of data.
    pub fill: u32,
}

/// State of a volume that is being opened.
#[derive(Debug)]
pub(super) struct Recovery {
    mode: Mode,
    step: Step,
    /// Commands in flight.
    pub outstanding: u32,
    /// Progress of the step; the unit depends on the step.
    pub cursor: u64,
    bufs: Vec<Option<MetaBuf>>,
    /// Which of the last reads failed.
    failed: [bool; READS],
    /// Images that are being loaded.
    images: Images,
    root: Root,
    /// Generations of the images that the root names.
    least: Vec<u32>,
    /// Whether the last superpages are filled first.
    backwards: bool,
    /// Position in the log.
    pub replay: Replay,
    /// Last listing of each superpage that the log lists.
    pub listed: BTreeMap<u32, Listed>,
    /// First log write whose data doesn't match its checksum.
    pub bad: Option<u64>,
    /// Number of log writes that were dropped.
    pub dropped: u64,
}

impl Recovery {
    /// Starts with nothing read.
    pub(super) fn new(config: &LayerConfig, layout: &Layout, mode: Mode) -> Self {
        let pages = layout.root_pages().max(layout.pages()) as usize;
        Recovery {
            mode,
            step: Step::Flush,
            outstanding: 0,
            cursor: 0,
            bufs: (0..READS).map(|_| Some(MetaBuf::new(pages))).collect(),
            failed: [false; READS],
            images: Images::default(),
            root: Root { number: 0, epoch: 0, first_log: 1, superpage: 0, count: 0, groups: 0 },
            least: vec![0; layout.groups as usize],
            // Hosts write the first homes first, so the last lent superpages are filled first.
            backwards: layout.lent > 0 || config.shatl.far && layout.home.is_none(),
            replay: Replay::new(),
            listed: BTreeMap::new(),
            bad: None,
            dropped: 0,
        }
    }

    /// Begins a step.
    pub(super) fn go(&mut self, step: Step) -> bool {
        self.step = step;
        self.cursor = 0;
        true
    }

    /// Begins a step without resetting its progress.
    fn advance(&mut self, step: Step) -> bool {
        self.step = step;
        true
    }
}

/// Ends recovery with an error.
pub(super) fn fail_volume<Own: OwnOp>(why: &'static str, cx: &mut Cx<Own>) -> bool {
    cx.fail_volume(why);
    true
}

/// Returns whether a root is plausible; a valid checksum doesn't prove that this layer wrote it.
fn is_sane(root: &Root) -> bool {
    root.number < MOST && root.epoch < MOST && (1..MOST).contains(&root.first_log)
}

impl Recovery {
    /// Advances recovery. Returns whether anything moved.
    pub(super) fn pump_recovery<T: Table>(
        &mut self,
        area: &mut Area<T>,
        cx: &mut Cx<T::Op>,
    ) -> bool {
        if self.outstanding > 0 {
            return false;
        }
        match self.step {
            Step::Flush if self.mode == Mode::Format => {
                // A new volume has nothing to read. Its first root is written at the end, like any
                // other.
                area.log.continue_after(0);
                area.table.formatted();
                self.go(Step::Queues)
            }
            Step::Flush => self.recover(0, Command::Flush { device: 0 }, cx),
            Step::Roots => self.read_roots(area, cx),
            Step::Groups => self.load_groups(area, cx),
            Step::Generations => self.find_generations(area, cx),
            Step::Entries => self.load_some(area, cx),
            Step::Log => self.pump_replay(area, cx),
            Step::Counts => self.count_some(area, cx),
            Step::Verify => self.verify_next(area, cx),
            Step::Forget => self.forget_some(area, cx),
            Step::Queues => self.queue_some(area, cx),
            Step::Checkpoint => {
                let moved = area.pump_checkpoint(cx) | area.pump_flush(cx);
                moved | self.end_recovery(area, cx)
            }
        }
    }

    /// Sends a command of recovery.
    pub(super) fn recover<Own: OwnOp>(
        &mut self,
        index: u16,
        command: Command,
        cx: &mut Cx<Own>,
    ) -> bool {
        self.outstanding += 1;
        cx.submit(Op::Recover { index }, command);
        true
    }

    fn read_meta<Own: OwnOp>(&mut self, index: u16, lba: u64, pages: u32, cx: &mut Cx<Own>) {
        let buf = self.bufs[index as usize].take().expect("the buffer is present");
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device: 0, lba, into, cause: Cause::Map };
        self.recover(index, command, cx);
    }

    /// Completes a command of recovery.
    pub(super) fn recovery_done<T: Table>(
        &mut self,
        area: &mut Area<T>,
        index: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx<T::Op>,
    ) {
        self.outstanding -= 1;
        let step = self.step;
        let going_on = cx.life() == Life::Starting;
        match (going_on.then_some(step), command) {
            (Some(Step::Flush), Command::Flush { .. }) => {
                self.go(Step::Roots);
            }
            // Only roots advance the cursor here; groups do when they send their reads.
            (Some(Step::Roots | Step::Groups | Step::Generations), command) => {
                let Command::Read { into: Target::Meta { buf, .. }, .. } = command else {
                    unreachable!("recovery reads metadata")
                };
                self.bufs[index as usize] = Some(buf);
                self.failed[index as usize] = result.is_err();
                self.cursor += u64::from(self.step == Step::Roots);
            }
            (Some(Step::Log), Command::Read { into: Target::Meta { buf, .. }, .. }) => {
                self.replay.arrived(index, buf, result.is_ok());
            }
            (Some(Step::Verify), Command::Read { into: Target::Data(view), .. }) => {
                area.stages.buffer(0).repay_mut(view);
                if result.is_ok() {
                    self.digest_listed(area, cx);
                } else {
                    self.lose_listed(area, cx);
                }
            }
            (Some(Step::Verify), Command::Digest { from, .. }) => {
                area.stages.buffer(0).repay(from);
                self.compare_listed(result);
            }
            (None, command) => self.repay_late(area, command),
            (step, command) => unreachable!("unexpected {command:?} in step {step:?} of recovery"),
        }
    }

    /// Takes back a buffer after the volume has failed.
    fn repay_late<T: Table>(&mut self, area: &mut Area<T>, command: Command) {
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                area.stages.buffer(0).repay_mut(view);
            }
            Command::Digest { from, .. } => area.stages.buffer(0).repay(from),
            _ => {}
        }
    }

    fn read_roots<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let pages = area.layout.root_pages();
        if self.cursor == 0 {
            for index in 0..4u16 {
                let lba = area.layout.root_at((index / 2).into(), (index % 2).into());
                self.read_meta(index, lba, pages, cx);
            }
            return true;
        }
        match self.choose_root(area) {
            Ok(()) => self.go(Step::Groups),
            Err(why) => fail_volume(why, cx),
        }
    }

    /// Chooses the newest complete root.
    fn choose_root<T: Table>(&mut self, area: &mut Area<T>) -> Result<(), &'static str> {
        let (layout, uuid) = (area.layout, area.uuid);
        let mut best: Option<(usize, Root)> = None;
        for index in 0..4 {
            let at = layout.root_at(index as u64 / 2, index as u32 % 2);
            let buf = self.bufs[index].as_ref().expect("every root was read");
            let root = parse_root(&buf.pages()[0], uuid, at);
            let root = root.ok().filter(is_sane);
            // Both copies of a root have the same number; the first intact one is taken.
            let newer = |root: &Root| best.is_none_or(|(_, best)| root.number > best.number);
            let readable = !self.failed[index];
            if let Some(root) = root.filter(|root| readable && newer(root))
                && whole_root(buf, &root, &layout, uuid, at, &mut self.least)
            {
                best = Some((index, root));
            }
        }
        // An unreadable slot may have held a newer root, so the other slot can't be trusted.
        for slot in 0..2 {
            if self.failed[2 * slot] && self.failed[2 * slot + 1] {
                return Err("neither copy of a root can be read");
            }
        }
        let Some((index, root)) = best else {
            return Err("no valid root: this is not a volume of the layer, or both copies are \
                        damaged");
        };
        let geometry = (root.superpage, root.count, root.groups);
        if geometry != (layout.superpage, layout.count, layout.groups) {
            return Err(
                "the root has another geometry: superpage, spare or device size has changed",
            );
        }
        let at = layout.root_at(index as u64 / 2, index as u32 % 2);
        let buf = self.bufs[index].as_ref().expect("every root was read");
        // A later candidate may have overwritten `least`, so the generations are parsed again.
        let whole = whole_root(buf, &root, &layout, uuid, at, &mut self.least);
        assert!(whole, "a valid root is still valid");
        self.root = root;
        self.replay.begin(&root, root_candidates(&buf.pages()[0]));
        Ok(())
    }

    /// Ends the replay.
    pub(super) fn log_is_read<T: Table>(&mut self, area: &mut Area<T>) -> bool {
        let replay = &self.replay;
        let last = replay.last;
        area.log.continue_after(last);
        self.go(Step::Generations)
    }

    fn count_some<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let (mut from, length) = (self.cursor, area.layout.group_entries());
        let mut group = (from / length) as u32;
        let last = (group + SCAN).min(area.layout.groups);
        while group < last && self.is_empty(area, group) {
            group += 1;
            from = u64::from(group) * length;
        }
        let end = (from + 4096).min((u64::from(group) + 1) * length).min(area.layout.entries());
        let from = from.min(end);
        self.cursor = end;
        cx.touch((end - from) as usize);
        if let Err(why) = area.table.adopt(&mut area.pool, from..end) {
            return fail_volume(why, cx);
        }
        if end == area.layout.entries() { self.go(Step::Verify) } else { true }
    }

    fn queue_some<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let from = self.cursor as u32;
        let (Layout { count, home, .. }, backwards) = (area.layout, self.backwards);
        // Behind the last superpage with data all are free.
        let used = area.pool.used();
        let visited = match home {
            Some(_) => count,
            None if backwards => count - if used.is_empty() { count } else { used.start },
            None => used.end,
        };
        let end = (from + 4096).min(visited);
        for at in from..end {
            let vsp = if backwards { count - 1 - at } else { at };
            if area.table.is_given(vsp) && area.pool.valid(vsp) > 0 {
                return fail_volume("a home slot without a loan holds hidden sectors", cx);
            }
            if area.table.is_given(vsp) {
                area.pool.become_(vsp, State::Home, false);
            } else if area.pool.valid(vsp) == 0 {
                area.pool.add_free(vsp);
            } else if area.table.holds_lost(vsp) {
                area.pool.become_(vsp, State::Stuck, false);
            } else {
                area.pool.become_(vsp, State::Full, false);
            }
        }
        cx.touch((end - from) as usize);
        self.cursor = end.into();
        if end < visited {
            return true;
        }
        let fresh = if backwards { 0..count - visited } else { visited..count };
        if !fresh.is_empty() {
            area.pool.add_fresh(fresh, backwards);
        }
        // A new epoch: log pages that were dropped or never found must not count in a later
        // recovery.
        area.table.settled();
        let root = self.root;
        area.log.begin_epoch(root.epoch + u64::from(!planted(Bug::OldEpoch)));
        area.checkpoint.follow(root.number);
        area.checkpoint.hurry();
        self.go(Step::Checkpoint)
    }

    /// Opens the volume once the new root is durable.
    fn end_recovery<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        if !area.checkpoint.is_current(area.log.next()) {
            return false;
        }
        // The root has named the candidates of the next log write.
        area.log.root_names(area.pool.free().min(CANDIDATES) as u32);
        if let Some(buf) = self.replay.give_buffer() {
            area.log.give_back(buf);
        }
        let replayed = area.log.next() - self.root.first_log.min(area.log.next());
        cx.become_ready(replayed, self.dropped);
        true
    }
}

/// Returns whether every page of a root is valid, and copies its generations to `least`.
fn whole_root(
    buf: &MetaBuf,
    root: &Root,
    layout: &Layout,
    uuid: [u8; 16],
    at: u64,
    least: &mut [u32],
) -> bool {
    let pages = buf.pages()[1..layout.root_pages() as usize].iter();
    pages.zip(least.chunks_mut(ROOT_GENERATIONS)).zip(1u64..).all(|((page, list), i)| {
        let at = at + i * u64::from(SECTORS_PER_BLOCK);
        parse_generations(page, root.number, list, uuid, at).is_ok()
    })
}
