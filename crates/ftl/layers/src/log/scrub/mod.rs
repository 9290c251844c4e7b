//! Scrub: reads all stripes with valid data in device order, and verifies their parity and the
//! records that their heads list.
//!
//! A wrong stripe with valid data makes its segment *flawed*. Garbage collection then moves the
//! valid data of that segment, rebuilt from parity where needed, and a checkpoint moves images of
//! the map. So all wrong data is written again elsewhere, with parity.
//!
//! Invariants
//! - One stripe is read at a time, and its segment is not reused meanwhile.
//! - A stripe is read only when it is durable: a stripe that a power loss left incomplete is not
//!   wrong.
//! - A scrub is complete only when no flawed segment is left that can be moved, and the repairs are
//!   durable: see [`repairs`].

mod repairs;
mod stripe;
mod validity;

use hostftl_core::{
    AdminOutcome, Cause, Command, DeviceError, Event, MetaBuf, Refusal, Scrub as ScrubCommand,
    Target, Task, TaskEnd, TaskKind,
};
use hostftl_format::log::{self, Head};

use crate::kit::Life;
use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::devices::Devices;
use crate::log::layout::{At, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Checking, Cx, OWN_OPS, Op};
use crate::log::output::Output;
use crate::log::redundancy::metadata::Wanted;
use crate::log::segments::Segments;
use repairs::Repairs;
use stripe::{Check, Next};

/// Outputs that must be left before a stripe is started.
const ROOM: usize = 20;
/// Segments skipped in one step.
const PASS: u32 = 4096;
/// Maximum lag of the recorded position, as a fraction of all segments. Beyond that, a root is
/// written to make the pending repairs durable.
const PARTS: u32 = 64;

/// Step of the current stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No scrub is running.
    Off,
    /// The next stripe is searched.
    Next,
    /// Its head is being read or rebuilt.
    Head,
    /// Its chunks are being read, or will be when not `asked` yet.
    Reading { asked: bool },
    /// Its records are verified, then its parity.
    Checking,
    /// It is wrong: its entries are checked for valid data, from this one on.
    Validating(u32),
    /// All stripes were read; flawed segments are being moved.
    Ending,
}

#[derive(Debug)]
pub(super) struct Scrub {
    layout: Layout,
    uuid: [u8; 16],
    phase: Phase,
    is_paused: bool,
    is_stopped: bool,
    at: At,
    /// Sequence number of the stripe, or of the previous one in its segment.
    seq: u64,
    head: Option<MetaBuf>,
    entries: u32,
    /// Sectors of the stripe on its first device.
    sectors: u32,
    check: Check,
    /// Whether it started with the first segment.
    is_whole: bool,
    /// Wrong stripes that can be repaired.
    repairs: Repairs,
    /// Wrong stripes that cannot be repaired, as an earlier attempt showed.
    lost: u64,
    /// Number of unrecoverable blocks at the start.
    beyond: u64,
}

impl Scrub {
    /// Returns the state without a scrub.
    pub(super) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Scrub {
            layout: *layout,
            uuid,
            phase: Phase::Off,
            is_paused: false,
            is_stopped: false,
            at: At::default(),
            seq: 0,
            head: Some(MetaBuf::new(layout.head_pages(true) as usize)),
            entries: 0,
            sectors: 0,
            check: Check::new(layout),
            is_whole: false,
            repairs: Repairs::default(),
            lost: 0,
            beyond: 0,
        }
    }

    /// Starts, pauses, resumes or stops the scrub. `beyond` is the current number of unrecoverable
    /// blocks.
    pub(super) fn control(
        &mut self,
        command: ScrubCommand,
        beyond: u64,
        segments: &Segments,
    ) -> Result<AdminOutcome, Refusal> {
        let (was_paused, is_off) = (self.is_paused, self.phase == Phase::Off);
        let new = |is: bool| if is { AdminOutcome::Started } else { AdminOutcome::NoChange };
        match command {
            ScrubCommand::Start(place) if is_off => {
                let segment = u32::try_from(place).unwrap_or(u32::MAX);
                self.begin_segment(segment.min(self.layout.segments));
                // Only a scrub of everything proves that no damage is left.
                self.is_whole = segment == 0;
                self.repairs.begin(segments);
                (self.lost, self.beyond) = (0, beyond);
                self.is_stopped = false;
                self.go(Phase::Next);
                Ok(AdminOutcome::Started)
            }
            ScrubCommand::Start(_) if self.is_stopped => {
                Err(Refusal::Because("the previous scrub is ending; retry"))
            }
            ScrubCommand::Stop if is_off => Ok(AdminOutcome::NoChange),
            ScrubCommand::Pause | ScrubCommand::Resume if is_off => {
                Err(Refusal::Because("no scrub is running"))
            }
            ScrubCommand::Start(_) | ScrubCommand::Resume => {
                self.is_paused = false;
                Ok(new(was_paused))
            }
            ScrubCommand::Pause => {
                self.is_paused = true;
                Ok(new(!was_paused))
            }
            ScrubCommand::Stop => {
                // The stripe in progress is completed first.
                let was_stopped = core::mem::replace(&mut self.is_stopped, true);
                self.is_paused = false;
                Ok(new(!was_stopped))
            }
        }
    }

    /// Returns the progress of the scrub, if one is running. A scrub that resumes at its place
    /// after a crash skips no stripe whose repair the crash undid.
    pub(super) fn task(&self, segments: &Segments) -> Option<Task> {
        if self.phase == Phase::Off {
            return None;
        }
        let at = self.at.segment;
        let (done, left) =
            (segments.valid_bytes_in(|it| it < at), segments.valid_bytes_in(|it| it >= at));
        let (kind, is_paused) = (TaskKind::Scrub, self.is_paused);
        // Stripes whose repair is not durable yet are read again after a crash.
        let place = self.repairs.first().map_or(at, |first| first.min(at)).into();
        Some(Task { kind, is_paused, lacks_room: false, done, left, place })
    }

    /// Returns whether no stripe is in progress.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Off | Phase::Next | Phase::Ending)
    }

    /// Returns the position of the current stripe.
    pub(super) fn at(&self) -> At {
        self.at
    }

    /// Changes the phase.
    ///
    /// # Panics
    /// If the phases do not follow each other.
    fn go(&mut self, next: Phase) {
        use Phase::{Checking, Ending, Head, Next, Off, Reading, Validating};
        let fits = match (self.phase, next) {
            (Off | Head | Checking | Validating(_), Next) => true,
            (Next, Head | Ending) | (Ending, Off) | (Checking, Validating(0)) => true,
            (Head, Reading { asked: false }) => self.check.is_idle(),
            (Reading { asked }, Reading { asked: true }) => !asked,
            (Reading { asked: true }, Checking) => self.check.is_idle(),
            (Validating(from), Validating(to)) => from <= to,
            _ => false,
        };
        assert!(fits, "a scrub can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    fn begin_segment(&mut self, segment: u32) {
        self.at = At { segment, slot: 0, sector: 0 };
        self.seq = 0;
    }
}

impl Scrub {
    /// Performs the next step. A new stripe is started only if `may` is true: other work has
    /// priority.
    pub(super) fn pump(
        &mut self,
        may: bool,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        if self.phase == Phase::Off {
            return false;
        }
        self.repairs.observe(&media.segments);
        match self.phase {
            Phase::Off | Phase::Head | Phase::Reading { asked: true } => false,
            Phase::Next => self.next_stripe(may, media, output, mapping, cx),
            Phase::Reading { asked: false } => self.read_chunks(media, cx),
            Phase::Checking => self.check_on(media, cx),
            Phase::Validating(from) => self.check_validity(from, media, mapping, cx),
            Phase::Ending => self.end(media, mapping, cx),
        }
    }

    fn next_stripe(
        &mut self,
        may: bool,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let crowded = cx.outputs_left() < ROOM || cx.commands_left() <= OWN_OPS / 2;
        if self.is_paused || cx.life() != Life::Running || crowded || !may && !self.is_stopped {
            return false;
        }
        let mut passed = 0;
        while self.at.segment < self.layout.segments
            && !self.is_stopped
            && self.has_nothing(media, output)
        {
            if passed == PASS {
                cx.wake();
                return false;
            }
            self.begin_segment(self.at.segment + 1);
            passed += 1;
        }
        // Segments without data are passed without a read, but a large volume has many.
        cx.touch(passed as usize);
        if self.at.segment == self.layout.segments || self.is_stopped {
            self.go(Phase::Ending);
            return true;
        }
        if let Some(at) = media.background_rate.waits(cx.now()) {
            cx.wake_at(at);
            return false;
        }
        let behind = self.repairs.first().map_or(0, |first| self.at.segment.saturating_sub(first));
        if behind > self.layout.segments / PARTS && self.repairs.wait_for_root() {
            mapping.checkpoint.hurry();
        }
        let at = self.at;
        let pages = self.layout.head_pages(at.sector == 0);
        let buf = self.head.take().expect("the buffer of the head is present");
        let command = Command::Read {
            device: media.devices.placement(at.segment).device(at.segment, at.slot, 0),
            lba: self.layout.lba(at),
            into: Target::Meta { buf, pages },
            cause: Cause::Gc,
        };
        // The segment must not be reused while the stripe is read.
        media.segments.pin(at.segment);
        media.background_rate.begin(cx.now());
        self.go(Phase::Head);
        media.devices.submit(Op::Scrub(Checking::Head), command, cx);
        true
    }

    /// Returns whether the segment has no more stripes on the devices. Until a new stripe is
    /// written, its position may contain a stripe of an earlier use of the segment, which a power
    /// loss may have torn.
    fn has_nothing(&self, media: &Media, output: &Output) -> bool {
        media.segments.valid(self.at.segment) == 0 || output.stripes.is_unwritten(self.at)
    }

    /// Returns the head of the stripe at `lba`, if `buf` contains it.
    pub(super) fn parse_head(&self, buf: &MetaBuf, lba: u64, devices: &Devices) -> Option<Head> {
        let head = log::open(buf, &self.uuid, lba)?;
        let sane = self.layout.admits_head(&head, self.at, devices.placement(self.at.segment));
        // A lower number belongs to an earlier use of the segment.
        (sane && head.seq > self.seq).then_some(head)
    }

    /// Handles the completion of a command.
    pub(super) fn done(
        &mut self,
        what: Checking,
        command: Command,
        ended: Ended,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) {
        match (what, command) {
            (Checking::Head, command) => self.head_done(command, ended, media, output, cx),
            (Checking::Chunk(chunk), Command::Read { into: Target::Data(view), .. }) => {
                media.buffers.at(Buffer::Scrub(chunk)).repay_mut(view);
                // Only media errors count: chunks of a lost device are rebuilt separately.
                let is_wrong = ended == Err(DeviceError::Media);
                if self.check.was_read(chunk, ended.is_ok(), is_wrong) {
                    self.go(Phase::Checking);
                }
            }
            (Checking::Record(record), Command::Digest { from, .. }) => {
                media.buffers.named(from.id()).repay(from);
                self.check.has_crc(record, ended.expect("an operation in memory succeeds").crc);
            }
            (Checking::Fold, Command::Fold { from, into, .. }) => {
                from.into_iter().for_each(|view| media.buffers.named(view.id()).repay(view));
                media.buffers.at(Buffer::ScrubSum).repay_mut(into);
                self.check.was_folded();
            }
            (Checking::Sum(which), Command::Digest { from, .. }) => {
                media.buffers.named(from.id()).repay(from);
                self.check.has_sum(which, ended.expect("an operation in memory succeeds").crc);
            }
            (what, command) => unreachable!("unexpected {command:?} in check {what:?}"),
        }
    }

    fn head_done(
        &mut self,
        command: Command,
        ended: Ended,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a completed head")
        };
        let head = ended.ok().and_then(|_| self.parse_head(&buf, lba, &media.devices));
        if head.is_none() && self.layout.parity > 0 {
            let place = (device, lba, pages);
            media.metadata_repair.ask(Wanted::Scrub, place, buf, &media.devices, cx);
        } else {
            self.head_read(buf, head, false, media, output, cx)
        }
    }

    /// Handles a head that was rebuilt from the other chunks, or could not be.
    pub(super) fn head_rebuilt(
        &mut self,
        buf: MetaBuf,
        well: bool,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) {
        let at = self.at;
        let head = self.parse_head(&buf, self.layout.lba(at), &media.devices).filter(|_| well);
        let device = media.devices.placement(at.segment).device(at.segment, at.slot, 0);
        // A missing chunk is not damage: the device never had it, or is lost.
        let is_wrong = !media.devices.is_missing_on(at.segment, device);
        self.head_read(buf, head, is_wrong, media, output, cx);
    }

    /// Starts verification of the stripe, or goes to the next segment if this one has no further
    /// stripe.
    fn head_read(
        &mut self,
        buf: MetaBuf,
        head: Option<Head>,
        is_wrong: bool,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) {
        cx.wake();
        let at = self.at;
        // Stripes that are not durable yet are skipped with the rest of their segment.
        let Some(head) = head.filter(|head| head.seq <= output.durability.durable()) else {
            self.head = Some(buf);
            media.segments.unpin(at.segment);
            media.background_rate.over(cx.now(), 0);
            self.begin_segment(at.segment + 1);
            return self.go(Phase::Next);
        };
        (self.seq, self.sectors, self.entries) = (head.seq, head.first_sectors, head.entries);
        let placement = media.devices.placement(at.segment);
        self.check.begin((&head, &buf), (&self.layout, at, placement), &self.uuid, is_wrong);
        cx.touch(head.entries as usize);
        self.head = Some(buf);
        self.go(Phase::Reading { asked: false });
    }

    fn read_chunks(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.outputs_left() < ROOM || cx.commands_left() < 17 {
            return false;
        }
        self.go(Phase::Reading { asked: true });
        let (at, placement) = (self.at, media.devices.placement(self.at.segment));
        for (chunk, sectors) in self.check.reads() {
            let which = self.layout.chunk_at(chunk.into());
            let device = which.device(placement, (at.segment, at.slot));
            let into = media.buffers.at(Buffer::Scrub(chunk)).view_mut_sectors(0, sectors);
            let (lba, into) = (self.layout.lba(at), Target::Data(into));
            let command = Command::Read { device, lba, into, cause: Cause::Gc };
            self.check.sent();
            media.devices.submit(Op::Scrub(Checking::Chunk(chunk)), command, cx);
        }
        true
    }

    /// Starts the next computations of the stripe.
    fn check_on(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        let mut moved = false;
        while cx.outputs_left() >= ROOM && cx.commands_left() > OWN_OPS / 2 {
            let (what, command) = match self.check.next(&mut media.buffers) {
                Next::Record(record, command) => (Checking::Record(record), command),
                Next::Fold(command) => (Checking::Fold, command),
                Next::Sum(which, command) => (Checking::Sum(which), command),
                Next::Wait => return moved,
                Next::Over => {
                    if self.check.is_wrong() {
                        self.go(Phase::Validating(0))
                    } else {
                        self.end_stripe(media, cx)
                    }
                    return true;
                }
            };
            media.devices.submit(Op::Scrub(what), command, cx);
            moved = true;
        }
        moved
    }

    /// Ends the stripe and goes to the next stripe or segment.
    fn end_stripe(&mut self, media: &mut Media, cx: &mut Cx) {
        media.background_rate.over(cx.now(), self.check.bytes());
        media.segments.unpin(self.at.segment);
        match self.layout.after(self.at, self.sectors) {
            Some(at) => self.at = at,
            None => self.begin_segment(self.at.segment + 1),
        }
        self.go(Phase::Next);
        cx.wake();
    }

    /// Ends the scrub when no flawed segment is left that can be moved, and the repairs are
    /// durable. A stopped scrub does not wait, and reports the repairs that are durable by then.
    fn end(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        if cx.life() != Life::Running || cx.outputs_left() < ROOM {
            return false;
        }
        if !self.repairs.are_durable() && !self.is_stopped {
            // The event is a promise: a power loss right after it must not undo a repair.
            return self.repairs.wait_for_root() && mapping.checkpoint.hurry();
        }
        self.go(Phase::Off);
        let end = if self.is_stopped { TaskEnd::Stopped } else { TaskEnd::Done };
        let (task, (repaired, unrepaired)) =
            (TaskKind::Scrub, self.repairs.outcome(&media.segments));
        // Blocks that were unrecoverable before the scrub are not its findings.
        let beyond = media.gauges.beyond_repair - self.beyond + self.lost;
        // Only a complete scrub proves that no damage is left.
        if self.is_whole && end == TaskEnd::Done && unrepaired == 0 {
            media.devices.health_mut().verified();
        }
        cx.report(Event::Over { task, end, beyond, repaired, unrepaired });
        true
    }
}
