//! Recovery: from the contents of the devices to a layer that serves.
//!
//! 1. Flush the devices, so that data that is read is durable. Zoned devices then report their
//!    write pointers.
//! 2. Read the root with the greatest number, and write a copy of it that claims the next life.
//!    Zones of joining devices are erased.
//! 3. Read the directory and the counts that the root points at.
//! 4. Replay the stripes since the root (see [`replay`]) with the map pages that they change, and
//!    between them the records of the journal (see [`crate::log::journal`]).
//! 5. Erase unneeded zones, and copy blocks that only the journal has into stripes.
//! 6. Write the first record of the new life, if there is a journal.
//! 7. Write a checkpoint, after which stripes of the last life are no longer replayed.

mod apply;
mod erase;
mod found;
pub(in crate::log) mod last_on;
mod records;
pub(in crate::log) mod replay;
mod report;
mod root_zones;
mod under_way;
pub(in crate::log) mod validate;
mod verify;

use hostftl_core::{Cause, Command, DeviceError, DeviceSet, Event, MetaBuf, Target, Verdict};
use hostftl_format::log::{self, Kind, Place, Root};

use crate::config::Mode;
use crate::planted::{Bug, planted};

use crate::log::array::Array;
use crate::log::layout::Layout;
use crate::log::map::pages::Purpose;
use crate::log::ops::{Cx, fail, fail_volume};
use crate::log::recovery::last_on::has_up_to;
use crate::log::recovery::replay::{Progress, Replay};
use crate::log::recovery::root_zones::{Search, is_blank};
use crate::log::recovery::under_way::UnderWay;
use crate::log::stripe::Phase;

/// Pages of a zone report.
const REPORT_PAGES: usize = 16;

/// Current step; the number is its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Start,
    Flush,
    /// The zones of a device are reported, from this zone on.
    Report(u8, u32),
    Roots(u32),
    Claim,
    /// The zones of a joining device are erased, from this zone on.
    Erase(u8, u32),
    /// They are erased, and the device is flushed before the next step.
    Erased(u8),
    Tops(u32),
    Replay,
    Clean,
    Restore,
    Journal,
    Checkpoint,
}

#[derive(Debug)]
pub(super) struct Recovery {
    mode: Mode,
    step: Step,
    sent: UnderWay,
    root_buf: Option<MetaBuf>,
    /// Whether any device has a valid root in each slot.
    slots: [bool; 2],
    /// Greatest number of a root on each device.
    newest: [u64; 16],
    /// Progress of the search for the newest root in root zones.
    search: Search,
    report: Option<MetaBuf>,
    best: Option<(Root, MetaBuf)>,
    replay: Replay,
}

impl Recovery {
    /// Returns whether the volume is formatted or opened.
    fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the replay of the stripes since the root.
    pub(super) fn replay(&mut self) -> &mut Replay {
        &mut self.replay
    }

    pub(super) fn new(layout: &Layout, uuid: [u8; 16], mode: Mode) -> Self {
        Recovery {
            mode,
            step: Step::Start,
            sent: UnderWay::default(),
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

impl Recovery {
    pub(super) fn pump(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        if array.pump_metadata_repair(Some(&mut self.replay), cx) {
            return true;
        }
        let step = self.step;
        match step {
            Step::Start => self.start(array, cx),
            Step::Flush if array.layout().zoned => self.end_of_step(Step::Report(0, 0)),
            Step::Flush => self.end_of_step(Step::Roots(0)),
            Step::Report(device, from) => self.ask_report(device, from, array, cx),
            Step::Erase(device, from) => self.erase_joining(device, from, array, cx),
            Step::Erased(device) => self.end_of_step(Step::Erase(device + 1, 0)),
            Step::Roots(index) if array.layout().zoned => self.read_root_back(index, array, cx),
            Step::Roots(index) => self.read_root(index, array, cx),
            Step::Claim => self.end_of_claim(array),
            Step::Tops(at) => self.read_top(at, array, cx),
            Step::Replay => match self.replay.pump(array, cx) {
                Progress::Over(last) => self.begin_life(last, array),
                moved => moved == Progress::Moved,
            },
            Step::Clean => {
                let moved = array.pump_reclaim(cx) || self.erase_roots(array, cx);
                moved || self.end_of_cleaning(array, cx)
            }
            Step::Restore => self.restore_all(array, cx),
            Step::Journal => self.begin_records(array, cx),
            Step::Checkpoint => {
                let ready = self.serve_when_durable(array, cx) || array.pump_committed(cx);
                ready || array.output.pump(&mut array.media, cx) | array.pump_checkpoint(cx)
            }
        }
    }

    pub(super) fn go(&mut self, step: Step) -> bool {
        self.step = step;
        true
    }

    fn end_of_step(&mut self, next: Step) -> bool {
        self.sent.is_empty() && self.go(next)
    }

    fn start(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        if self.mode == Mode::Format {
            array.output.volume.life = 1;
            array.media.devices.format();
            array.media.devices.found_all();
            if !array.layout().zoned {
                return self.go(Step::Journal);
            }
        }
        for device in 0..array.layout().devices {
            self.sent.send(0, Command::Flush { device }, &mut array.media.devices, cx);
        }
        if let Some(device) = array.output.journal.device_to_flush() {
            self.sent.send_to_journal(Command::Flush { device }, &mut array.media.devices, cx);
        }
        self.go(Step::Flush)
    }

    /// Reads both copies of both root slots of each device, one after the other.
    fn read_root(&mut self, index: u32, array: &mut Array, cx: &mut Cx) -> bool {
        if !self.sent.is_empty() {
            return false;
        }
        if index == 4 * u32::from(array.layout().devices) {
            return self.choose_root(array, cx);
        }
        let place = ((index / 4) as u8, self.root_place(index, array));
        self.ask_root(index, place, array, cx);
        self.go(Step::Roots(index + 1))
    }

    /// Reads the root at a sector of a device.
    pub(super) fn ask_root(
        &mut self,
        index: u32,
        (device, lba): (u8, u64),
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let buf = self.root_buf.take().expect("no root is being read");
        let pages = buf.pages().len() as u32;
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device, lba, into, cause: Cause::Checkpoint };
        self.sent.send(index as u16, command, &mut array.media.devices, cx);
    }

    /// Returns the sector of the root that is read as number `index`.
    fn root_place(&self, index: u32, array: &mut Array) -> u64 {
        array.layout().root_at((index % 2).into(), index / 2 % 2)
    }

    fn root_read(
        &mut self,
        index: u16,
        (device, at): (u8, u64),
        buf: MetaBuf,
        readable: bool,
        array: &mut Array,
    ) {
        let root = log::open_root(&buf, &array.output.volume.uuid, at, array.layout().tree.counts);
        let root = root.filter(|_| readable);
        let root = root.filter(|root| array.layout().admits_root(root));
        let newest = self.newest[usize::from(device)];
        match (array.layout().zoned, root) {
            (true, Some(root)) => self.root_found(index.into(), root.number > newest, array),
            (true, None) => self.no_root(index.into(), readable && is_blank(&buf)),
            (false, _) => {}
        }
        let newest = &mut self.newest[usize::from(device)];
        if let Some(root) = root.filter(|root| root.number > *newest) {
            array.media.devices.has(device, has_up_to(&root, device));
        }
        // A returning device reveals only its own last stripe; its root may be stale.
        let root = root.filter(|_| !array.media.devices.is_returning(device));
        self.slots[usize::from(index % 2)] |= root.is_some();
        *newest = root.map_or(0, |root| root.number).max(*newest);
        let better = root
            .filter(|root| self.best.as_ref().is_none_or(|(best, _)| best.number < root.number));
        self.root_buf = Some(match better {
            Some(root) => {
                let pages = buf.pages().len();
                let old = self.best.replace((root, buf));
                old.map_or_else(|| MetaBuf::new(pages), |(_, buf)| buf)
            }
            None => buf,
        });
    }

    pub(super) fn choose_root(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let best = self.best.take();
        let whole = match (array.layout().zoned, &best) {
            (true, best) => {
                best.as_ref().is_some_and(|(root, _)| self.is_newest(root.number, array))
            }
            // A slot always has a root, and a power loss damages one copy: the newest may be lost.
            (false, _) => self.slots == [true; 2],
        };
        let Some((root, buf)) = best.filter(|_| whole) else {
            fail_volume("both copies of a root are damaged on every device", cx);
            return false;
        };
        let lost = DeviceSet::from_bits(root.lost);
        // A device that lacks a root once written to all devices has missed later writes.
        let stale =
            self.stale_devices(root.everywhere, array) | (lost - array.output.journal.device_set());
        array.media.devices.found(&root);
        if !array.media.devices.can_do_without(stale) {
            self.refuse_stale(stale, lost, array, cx);
            return false;
        }
        array.media.devices.lose(stale);
        if let Err(why) = array.output.journal.begin_replay(&root) {
            fail_volume(why, cx);
            return false;
        }
        for at in 0..array.layout().tree.tops() {
            // The directory of the root may be shorter than that of the layout.
            let pair = match at.checked_sub(array.layout().tree.directories) {
                Some(count) => Some(root.directories + count),
                None => (at < root.directories).then_some(at),
            };
            let none = (Place::NOWHERE, 0, 0);
            let (place, crc, members) =
                pair.map_or(none, |pair| log::root_pair(&buf, pair as usize));
            array.mapping.checkpoint.set_top(at, place, crc);
            if array.layout().admits_image(place) {
                let segment = array.layout().segment_at(place.byte());
                array.media.devices.membership_mut().claim(
                    segment,
                    DeviceSet::from_bits(members),
                    DeviceSet::EMPTY,
                );
            }
        }
        array.media.devices.membership_mut().restore(root.sets.map(DeviceSet::from_bits));
        array.mapping.pages.map_mut().set_mapped(root.mapped);
        array.output.volume.life = root.life + u32::from(!planted(Bug::OldLife));
        array.mapping.checkpoint.is_everywhere(root.everywhere);
        array.mapping.pages.generation_mut().continue_after(root.generation);
        self.replay.begin(&root);
        // The claim makes the life number durable before any stripe of this life is written, so no
        // later life reuses the number.
        let claim = Root { number: root.number + 1, life: array.output.volume.life, ..root };
        let Array { media, output, mapping, .. } = array;
        mapping.checkpoint.commit_members(claim, media, output, cx);
        self.go(Step::Claim)
    }

    /// Reports stale devices and fails the volume, which cannot work without them. Devices that are
    /// `known` to be lost are not reported.
    fn refuse_stale(&mut self, stale: DeviceSet, known: DeviceSet, array: &mut Array, cx: &mut Cx) {
        for device in stale - (array.media.devices.inactive() | known) {
            let has_root = self.newest[usize::from(device)] > 0;
            if has_root && cx.outputs_left() > 4 {
                cx.report(Event::Older { device });
            }
        }
        let why = if array.layout().parity > 0 {
            "more devices are missing or stale than parity covers; reconnect them"
        } else {
            "a device lacks a root that was on all devices, and all are needed"
        };
        fail_volume(why, cx);
    }

    /// Returns the devices without root `number`, which was written to all devices. Each life
    /// writes such a root before the volume is ready: its claim, which the first root of the life
    /// refers to.
    fn stale_devices(&mut self, number: u64, array: &mut Array) -> DeviceSet {
        if planted(Bug::OlderBelieved) {
            return DeviceSet::EMPTY;
        }
        let is_stale = |device: &u8| self.newest[usize::from(*device)] < number;
        (0..array.layout().devices).filter(is_stale).collect()
    }

    fn end_of_claim(&mut self, array: &mut Array) -> bool {
        let next = if array.layout().zoned { Step::Erase(0, 0) } else { Step::Tops(0) };
        array.mapping.checkpoint.is_idle() && self.go(next)
    }

    /// Reads the images that the root points at, from number `at` on.
    fn read_top(&mut self, at: u32, array: &mut Array, cx: &mut Cx) -> bool {
        if at == array.layout().tree.tops() {
            return array.mapping.pages.loads().is_idle() && self.go(Step::Replay);
        }
        let (place, crc) = array.mapping.checkpoint.top(at);
        if place.is_nowhere() {
            cx.touch(1);
            return self.go(Step::Tops(at + 1));
        }
        if !array.mapping.pages.may_load(cx) {
            return false;
        }
        if !array.mapping.pages.claim_image(place, &mut array.media.segments) {
            fail_volume("the root refers to an address beyond the devices", cx);
            return false;
        }
        let page = match at.checked_sub(array.layout().tree.directories) {
            Some(number) => (Kind::Counts, number),
            None => (Kind::Directory, at),
        };
        array.mapping.pages.load(page, (place, crc), Purpose::Use, &mut array.media, cx);
        self.go(Step::Tops(at + 1))
    }

    /// Handles the completion of a recovery command.
    pub(super) fn done(
        &mut self,
        index: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        if self.step == Step::Replay {
            return self.replay.done(index, command, result, array, cx);
        }
        self.sent.end();
        match (self.step, command) {
            (Step::Flush, Command::Flush { device }) => {
                if let Err(error) = result
                    && !array.media.devices.is_inactive(device)
                    && !array.output.journal.is(device)
                {
                    fail(device, error, cx);
                }
            }
            (Step::Report(..), Command::Report { device, into, .. }) => {
                self.take_report(device, into, result, array, cx);
            }
            (Step::Erase(..), Command::Reset { device, lba, .. }) => {
                // A failed erase fails its device.
                if result.is_ok() {
                    self.zone_erased((device, lba), array);
                }
            }
            (Step::Erased(_), Command::Flush { .. }) => {}
            (Step::Clean, Command::Reset { device, lba, .. }) => {
                if result.is_ok() {
                    array.mapping.checkpoint.roots_mut().was_reset(device, lba);
                }
            }
            (Step::Roots(_), Command::Read { into: Target::Meta { buf, .. }, device, lba, .. }) => {
                self.root_read(index, (device, lba), buf, result.is_ok(), array);
            }
            (step, command) => unreachable!("{command:?} completed in {step:?}"),
        }
    }

    /// Begins the new life after all stripes are replayed. It starts with a checkpoint.
    pub(super) fn begin_life(&mut self, last: u64, array: &mut Array) -> bool {
        array.output.durability.continue_after(last);
        assert!(array.output.stripes.iter().all(|stripe| stripe.phase() == Phase::Idle));
        self.clean(array)
    }

    /// Finds the free segments, and those of zoned devices that must be erased first.
    pub(super) fn clean(&mut self, array: &mut Array) -> bool {
        let (zones, zoned) = (array.media.devices.zones(), array.layout().zoned);
        let dirty = |at| zoned && (zones.is_dirty(at) || !zones.failed(at).is_empty());
        let membership = array.media.devices.membership();
        let lacking = membership.lacking();
        let (layout, set) = (array.media.devices.layout(), membership.current().members());
        array.media.segments.set_widths(|segment| layout.width_on(set, segment));
        array.media.segments.rebuild(dirty, |at| membership.placement(at).width());
        for segment in 0..array.layout().segments {
            if array.media.segments.is_unused(segment) {
                array.media.devices.membership_mut().release(segment);
            }
        }
        array.media.devices.commit_lacking(lacking);
        array.media.devices.found_all();
        self.go(Step::Clean)
    }

    fn end_of_cleaning(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        if !array.media.devices.is_clean(&array.media.segments) || !self.sent.is_empty() {
            return false;
        }
        let new = self.mode == Mode::Format;
        if new && array.media.devices.zones().spoiled() > array.layout().spoiled() {
            fail_volume("too many zones are offline or shorter than reported", cx);
            return false;
        }
        if !array.layout().lengths.are_equal() {
            // The members that the root records may leave too few free segments in every life.
            array.background.collection.choose_members(&mut array.media, cx);
        }
        if array.output.journal.begin_restoring() {
            return self.go(Step::Restore);
        }
        self.go(Step::Journal)
    }

    /// Copies blocks that only the journal has into stripes.
    fn restore_all(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        if let Some(moved) = self.pump_restore(array, cx) {
            return moved | array.output.pump(&mut array.media, cx);
        }
        self.go(Step::Journal)
    }

    /// Writes the first journal record of the new life before its first root.
    fn begin_records(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let Array { media, output, .. } = array;
        if let Some(moved) = output.journal.first_record(media, output.volume, cx) {
            return moved | array.output.pump(&mut array.media, cx);
        }
        array.begin_images();
        self.go(Step::Checkpoint)
    }

    fn serve_when_durable(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        if !array.mapping.checkpoint.is_idle()
            || array.mapping.checkpoint.root().epoch != array.output.volume.life
        {
            return false;
        }
        if !array.media.devices.is_committed() {
            return false;
        }
        if array.mapping.checkpoint.root().number == 1 {
            // A new volume writes a root to both slots.
            array.begin_images();
            return true;
        }
        let (replayed, dropped) = self.replay.counts();
        array.output.journal.open();
        let segments = &array.media.segments;
        if array.media.devices.join(|segment| !segments.is_left(segment)) {
            // A joining device is trusted only after a root records its missing chunks.
            array.mapping.checkpoint.hurry();
        }
        cx.become_ready(replayed, dropped);
        true
    }
}
