//! Recovery: from what the devices hold to a layer that serves.
//!
//! 1. Flush, so that what is read is durable; of zoned devices, then, how far zones are written.
//! 2. The root with the greatest number; a root like it that claims the next life.
//! 3. The directory and the counts that it points at.
//! 4. The rows since then (see [`replay`]), with the map pages that they change, and between them
//!    the records of the journal (see [`crate::log::journal`]).
//! 5. Zones that nothing needs are erased, and what only the journal has goes into rows.
//! 6. The first record of the new life, if there is a journal.
//! 7. A checkpoint, after which nothing of the last life is replayed any more.

mod records;
pub(in crate::log) mod replay;
pub(in crate::log) mod root_zones;
pub(in crate::log) mod sane;
pub(in crate::log) mod verify;

use hostftl_core::{Cause, Command, DeviceError, Event, MetaBuf, Target, Verdict};
use hostftl_format::log::{self, Kind, Place, Root};

use crate::config::Mode;
use crate::planted::{Bug, planted};

use crate::log::Engine;
use crate::log::checkpoint::Checkpoint;
use crate::log::layout::Layout;
use crate::log::map::pages::Purpose;
use crate::log::ops::{Cx, Op, fail, give_up};
use crate::log::recovery::replay::Replay;
use crate::log::recovery::root_zones::{Search, is_blank};
use crate::log::row::Phase;

/// Pages of a report.
const REPORT_PAGES: usize = 16;

/// What is being done; the number is how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Start,
    Flush,
    /// The zones of a device, from this one on.
    Report(u8, u32),
    Roots(u32),
    Claim,
    Tops(u32),
    Replay,
    Clean,
    Restore,
    Journal,
    Checkpoint,
}

/// See the module text.
#[derive(Debug)]
pub struct Recovery {
    mode: Mode,
    pub step: Step,
    pub pending: u32,
    root_buf: Option<MetaBuf>,
    /// Whether any device has a sound root in each slot.
    slots: [bool; 2],
    /// The greatest number of a root on each device.
    pub newest: [u64; 16],
    /// How far reading the roots of a zone has come.
    pub search: Search,
    pub report: Option<MetaBuf>,
    best: Option<(Root, MetaBuf)>,
    pub replay: Replay,
}

impl Recovery {
    /// Whether the volume is new.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn new(layout: &Layout, uuid: [u8; 16], mode: Mode) -> Self {
        Recovery {
            mode,
            step: Step::Start,
            pending: 0,
            root_buf: Some(MetaBuf::new(layout.root_pages() as usize)),
            slots: [false; 2],
            newest: [0; 16],
            search: Search::NEW,
            report: layout.zoned.then(|| MetaBuf::new(REPORT_PAGES)),
            best: None,
            replay: Replay::new(layout, uuid),
        }
    }
}

impl Engine {
    pub(in crate::log) fn recovery(&mut self) -> &mut Recovery {
        self.recovery.as_mut().expect("the volume is being recovered")
    }

    /// Sends a command of recovery; `index` comes back with it.
    pub(in crate::log) fn recover(&mut self, index: u16, command: Command, cx: &mut Cx) {
        self.recovery().pending += 1;
        self.devices.submit(Op::Recover { index }, command, cx);
    }

    pub(in crate::log) fn pump_recovery(&mut self, cx: &mut Cx) -> bool {
        if self.pump_salvage(cx) {
            return true;
        }
        let step = self.recovery().step;
        match step {
            Step::Start => self.start(cx),
            Step::Flush if self.layout.zoned => self.end_of_step(Step::Report(0, 0)),
            Step::Flush => self.end_of_step(Step::Roots(0)),
            Step::Report(device, from) => self.ask_report(device, from, cx),
            Step::Roots(index) if self.layout.zoned => self.read_root_back(index, cx),
            Step::Roots(index) => self.read_root(index, cx),
            Step::Claim => self.end_of_claim(),
            Step::Tops(at) => self.read_top(at, cx),
            Step::Replay => self.pump_replay(cx),
            Step::Clean => {
                let moved = self.pump_reclaim(cx) || self.erase_roots(cx);
                moved || self.end_of_cleaning(cx)
            }
            Step::Restore => self.restore_all(cx),
            Step::Journal => self.begin_records(cx),
            Step::Checkpoint => {
                let ready = self.serve_when_durable(cx) || self.pump_told(cx);
                ready || self.pump_writing(cx) | self.pump_checkpoint(cx)
            }
        }
    }

    pub(in crate::log) fn go(&mut self, step: Step) -> bool {
        self.recovery().step = step;
        true
    }

    fn end_of_step(&mut self, next: Step) -> bool {
        self.recovery().pending == 0 && self.go(next)
    }

    fn start(&mut self, cx: &mut Cx) -> bool {
        if self.recovery().mode == Mode::Format {
            self.volume.life = 1;
            self.devices.found_out(0);
            self.devices.found_all();
            if !self.layout.zoned {
                return self.go(Step::Journal);
            }
        }
        for device in 0..self.layout.devices {
            self.recover(0, Command::Flush { device }, cx);
        }
        if let Some(device) = self.journal.device_to_flush() {
            self.recover(0, Command::Flush { device }, cx);
        }
        self.go(Step::Flush)
    }

    /// Reads both copies of both slots of each device, one after the other.
    fn read_root(&mut self, index: u32, cx: &mut Cx) -> bool {
        if self.recovery().pending > 0 {
            return false;
        }
        if index == 4 * u32::from(self.layout.devices) {
            return self.choose_root(cx);
        }
        let place = ((index / 4) as u8, self.root_place(index));
        self.ask_root(index, place, cx);
        self.go(Step::Roots(index + 1))
    }

    /// Reads a root at a sector of a device.
    pub(in crate::log) fn ask_root(&mut self, index: u32, (device, lba): (u8, u64), cx: &mut Cx) {
        let buf = self.recovery().root_buf.take().expect("no root is being read");
        let pages = buf.pages().len() as u32;
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device, lba, into, cause: Cause::Checkpoint };
        self.recover(index as u16, command, cx);
    }

    /// Where the root lies that is read as number `index`.
    fn root_place(&self, index: u32) -> u64 {
        self.layout.root_at((index % 2).into(), index / 2 % 2)
    }

    fn root_read(&mut self, index: u16, (device, at): (u8, u64), buf: MetaBuf, readable: bool) {
        let root = log::open_root(&buf, &self.volume.uuid, at).filter(|_| readable);
        let root = root.filter(|root| self.layout.admits_root(root));
        let newest = self.recovery().newest[usize::from(device)];
        match (self.layout.zoned, root) {
            (true, Some(root)) => self.root_found(index.into(), root.number > newest),
            (true, None) => self.no_root(index.into(), readable && is_blank(&buf)),
            (false, _) => {}
        }
        let recovery = self.recovery();
        recovery.slots[usize::from(index % 2)] |= root.is_some();
        let newest = &mut recovery.newest[usize::from(device)];
        *newest = root.map_or(0, |root| root.number).max(*newest);
        let better = root.filter(|root| {
            recovery.best.as_ref().is_none_or(|(best, _)| best.number < root.number)
        });
        recovery.root_buf = Some(match better {
            Some(root) => {
                let pages = buf.pages().len();
                let old = recovery.best.replace((root, buf));
                old.map_or_else(|| MetaBuf::new(pages), |(_, buf)| buf)
            }
            None => buf,
        });
    }

    pub(in crate::log) fn choose_root(&mut self, cx: &mut Cx) -> bool {
        let best = self.recovery().best.take();
        let whole = match (self.layout.zoned, &best) {
            (true, best) => best.as_ref().is_some_and(|(root, _)| self.is_newest(root.number)),
            // A slot always has a root, and a cut damages one copy: the newest may be lost.
            (false, _) => self.recovery().slots == [true; 2],
        };
        let Some((root, buf)) = best.filter(|_| whole) else {
            give_up("both copies of a root are damaged on every device", cx);
            return false;
        };
        let stale = root.lost & !self.journal.bit() | self.stale_devices(root.everywhere);
        self.devices.found_out(root.out);
        if !self.devices.can_do_without(stale) {
            self.refuse_stale(stale, cx);
            return false;
        }
        self.devices.lose(stale);
        if let Err(why) = self.journal.begin_replay(&root) {
            give_up(why, cx);
            return false;
        }
        for at in 0..self.layout.tops() {
            let (place, crc, members) = log::root_pair(&buf, at as usize);
            self.checkpoint.set_top(at, place, crc);
            if self.layout.admits_image(place) {
                let segment = self.layout.segment_of(place.byte());
                self.devices.membership_mut().claim(segment, members, 0);
            }
        }
        self.devices.membership_mut().restore(root.sets);
        self.pages.map_mut().set_mapped(root.mapped);
        self.volume.life = root.life + u32::from(!planted(Bug::OldLife));
        self.checkpoint.is_everywhere(root.everywhere);
        self.blocks.go_on_behind(root.generation);
        self.recovery().replay.begin(&root);
        let claim = Root { number: root.number + 1, life: self.volume.life, ..root };
        self.with_checkpoint(|it, with| it.tell(claim, with, cx));
        self.go(Step::Claim)
    }

    /// Says which devices are older copies, when the volume can't do without them.
    fn refuse_stale(&mut self, stale: u16, cx: &mut Cx) {
        let (lost, devices) = (self.devices.lost(), 0..self.layout.devices);
        for device in devices.filter(|device| (stale & !lost) >> device & 1 == 1) {
            let has_root = self.recovery().newest[usize::from(device)] > 0;
            if has_root && cx.room() > 4 {
                cx.tell(Event::Older { device });
            }
        }
        let why = match self.layout.parity {
            true => "more devices are missing or stale than parity makes up for",
            false => "a device lacks a root that was on all devices, and all are needed",
        };
        give_up(why, cx);
    }

    /// Devices that have not seen root `number`, which was on all of them. Each life has such a
    /// root before the volume is ready: the claim, of which the first root of the life tells.
    fn stale_devices(&mut self, number: u64) -> u16 {
        if planted(Bug::OlderBelieved) {
            return 0;
        }
        let devices = usize::from(self.layout.devices);
        let newest = &self.recovery().newest[..devices];
        let stale = newest.iter().enumerate().filter(|(_, newest)| **newest < number);
        stale.fold(0, |set, (device, _)| set | 1 << device)
    }

    fn end_of_claim(&mut self) -> bool {
        self.checkpoint.is_idle() && self.go(Step::Tops(0))
    }

    /// Reads the images that the root points at, from number `at` on.
    fn read_top(&mut self, at: u32, cx: &mut Cx) -> bool {
        if at == self.layout.tops() {
            return self.pages.loads().is_idle() && self.go(Step::Replay);
        }
        let (place, crc) = self.checkpoint.top(at);
        if place.is_nowhere() {
            cx.touch(1);
            return self.go(Step::Tops(at + 1));
        }
        if !self.pages.may_load(cx) {
            return false;
        }
        if !self.pages.claim_image(place, &mut self.segments) {
            give_up("the root points beyond the devices", cx);
            return false;
        }
        let page = match at.checked_sub(self.layout.directories) {
            Some(number) => (Kind::Counts, number),
            None => (Kind::Directory, at),
        };
        let with = (&mut self.segments, &mut self.devices);
        self.pages.load(page, (place, crc), Purpose::Use, with, cx);
        self.go(Step::Tops(at + 1))
    }

    /// Whether a place lies in a segment.
    pub(in crate::log) fn is_sound(&self, place: Place) -> bool {
        self.layout.admits_place(place)
    }

    /// A command of recovery is over.
    pub(in crate::log) fn recover_done(
        &mut self,
        index: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        self.recovery().pending -= 1;
        let step = self.recovery().step;
        match (step, command) {
            (Step::Flush, Command::Flush { device }) => {
                if let Err(error) = result
                    && !self.devices.has_lost(device)
                    && !self.journal.is(device)
                {
                    fail(device, error, cx);
                }
            }
            (Step::Report(..), Command::Report { device, into, .. }) => {
                self.take_report(device, into, result, cx);
            }
            (Step::Clean, Command::Reset { device, lba, .. }) => {
                if result.is_ok() {
                    self.checkpoint.roots_mut().was_reset(device, lba);
                }
            }
            (Step::Roots(_), Command::Read { into: Target::Meta { buf, .. }, device, lba, .. }) => {
                self.root_read(index, (device, lba), buf, result.is_ok());
            }
            (Step::Replay, command @ Command::Read { into: Target::Meta { .. }, .. }) => {
                self.head_came(index, command, result.is_err(), cx);
            }
            (Step::Replay, command) => self.verified(index, command, result, cx),
            (step, command) => unreachable!("{command:?} is over in {step:?}"),
        }
    }

    /// All rows are replayed: the new life begins with a checkpoint.
    pub(in crate::log) fn begin_life(&mut self, last: u64) -> bool {
        self.durability.go_on_behind(last);
        assert!(self.rows.iter().all(|row| row.phase() == Phase::Idle));
        self.clean()
    }

    /// Finds out what nothing needs; of a zoned device that has to be erased.
    pub(in crate::log) fn clean(&mut self) -> bool {
        let (zones, zoned) = (self.devices.zones(), self.layout.zoned);
        let dirty = |at| zoned && (zones.is_dirty(at) || zones.failed(at) != 0);
        let membership = self.devices.membership();
        let lacking = membership.lacking();
        self.segments.set_width(membership.current().width());
        self.segments.rebuild(dirty, |at| membership.of(at).width());
        for segment in 0..self.layout.segments {
            if self.segments.is_unused(segment) {
                self.devices.membership_mut().release(segment);
            }
        }
        self.devices.told_lacking(lacking);
        self.devices.found_all();
        self.go(Step::Clean)
    }

    fn end_of_cleaning(&mut self, cx: &mut Cx) -> bool {
        if !self.devices.is_clean(&self.segments) || self.recovery().pending > 0 {
            return false;
        }
        let new = self.recovery().mode == Mode::Format;
        if new && self.devices.zones().spoiled() > self.layout.spoiled() {
            give_up("too many zones are out of use, or shorter than they seem", cx);
            return false;
        }
        if self.journal.begin_restoring() {
            return self.go(Step::Restore);
        }
        self.go(Step::Journal)
    }

    /// Puts what only the journal has into rows.
    fn restore_all(&mut self, cx: &mut Cx) -> bool {
        if let Some(moved) = self.pump_restore(cx) {
            return moved | self.pump_writing(cx);
        }
        self.go(Step::Journal)
    }

    /// Begins the records of the new life, then its first root.
    fn begin_records(&mut self, cx: &mut Cx) -> bool {
        if let Some(moved) = self.with_journal(|it, with| it.first_record(with, cx)) {
            return moved | self.pump_writing(cx);
        }
        self.with_checkpoint(Checkpoint::begin_images);
        self.go(Step::Checkpoint)
    }

    fn serve_when_durable(&mut self, cx: &mut Cx) -> bool {
        if !self.checkpoint.is_idle() || self.checkpoint.root().epoch != self.volume.life {
            return false;
        }
        if !self.devices.is_told() {
            return false;
        }
        if self.checkpoint.root().number == 1 {
            // Both slots have a root from the beginning.
            self.with_checkpoint(Checkpoint::begin_images);
            return true;
        }
        let recovery = self.recovery.take().expect("the volume is being recovered");
        let (replayed, dropped) = recovery.replay.counts();
        self.journal.open();
        if self.devices.join() {
            // What came is believed when a root says what it lacks.
            self.checkpoint.hurry();
        }
        cx.become_ready(replayed, dropped);
        true
    }
}
