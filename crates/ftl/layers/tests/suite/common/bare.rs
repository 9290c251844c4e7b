//! A layer over devices that store only metadata, so that volumes of gibibytes are filled in
//! seconds. Every checksum of data is 0, and the compression of each block is random.

use std::collections::BTreeSet;

use hostftl_core::{
    ALL_ZEROS, BLOCK, Cause, Codec, Command, DeviceError, DeviceInfo, DeviceKind, Done, Event,
    HostError, HostOp, Input, Layer, Out, Output, Page, Payload, Piece, Request, SECTOR,
    SECTORS_PER_BLOCK, Tally, Target, Ticket, Token, Verdict,
};
use hostftl_layers::{AnyLayer, LayerConfig, Mode};

use super::churn::Random;
use super::zoned::Pointers;

/// Sectors of a block.
const PER: u64 = SECTORS_PER_BLOCK as u64;

/// Placement of the programs of images and roots of `log`.
const IMAGES: u8 = 6;

/// The metadata on one device, by page.
type Pages = Vec<Option<Box<Page>>>;

/// The contents of the devices while no command is in flight.
pub(crate) struct Media {
    pages: Vec<Pages>,
    zoned: Option<Pointers>,
}

/// A layer with a driver that transfers no data.
pub(crate) struct Bare {
    /// The layer.
    pub layer: AnyLayer,
    /// Commands that were submitted and are not completed.
    flying: Vec<(Token, Command)>,
    media: Media,
    out: Out,
    random: Random,
    /// Whether some blocks are compressible.
    packs: bool,
    waiting: u32,
    failed: Option<HostError>,
    is_ready: bool,
    /// Lengths in pages of the stripes of images that were programmed.
    pub image_rows: BTreeSet<u32>,
}

impl Media {
    /// Creates blank devices.
    pub(crate) fn new(devices: &[DeviceInfo]) -> Self {
        let blank = |device: &DeviceInfo| (0..=device.sectors / PER).map(|_| None).collect();
        let zoned = devices.first().and_then(|device| match device.kind {
            DeviceKind::Zoned(shape) => Some(Pointers::of_several(shape, devices.len())),
            DeviceKind::Block => None,
        });
        Media { pages: devices.iter().map(blank).collect(), zoned }
    }
}

impl Bare {
    /// Starts the layer and waits until it is ready.
    pub(crate) fn start(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        media: Media,
        mode: Mode,
        (seed, packs): (u64, bool),
    ) -> Self {
        let plan = AnyLayer::plan(config, devices).expect("a plan");
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors));
        let layer = AnyLayer::new(config, devices, buffers.collect(), mode).expect("it is planned");
        let mut bare = Bare {
            layer,
            flying: Vec::new(),
            media,
            out: Out::new(),
            random: Random(seed),
            packs,
            waiting: 0,
            failed: None,
            is_ready: false,
            image_rows: BTreeSet::new(),
        };
        bare.step(Input::Timer);
        bare.settle();
        assert!(bare.is_ready, "the volume opens");
        bare
    }

    /// Returns the number of exported blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.layer.limits().exported / PER
    }

    /// Writes blocks. Commands in flight proceed when the queue is full.
    pub(crate) fn write(&mut self, block: u64, blocks: u64, fua: bool) -> Result<(), HostError> {
        let data = Payload::issue(1 << 24, (blocks * PER) as u32);
        self.ask(HostOp::Write { data, fua }, block, blocks)
    }

    /// Trims blocks.
    pub(crate) fn trim(&mut self, block: u64, blocks: u64) -> Result<(), HostError> {
        self.ask(HostOp::Trim { fua: false }, block, blocks)
    }

    /// Flushes, and waits for the completion.
    pub(crate) fn flush(&mut self) -> Result<(), HostError> {
        self.ask(HostOp::Flush, 0, 0)?;
        self.wait(0)
    }

    /// Waits until at most `most` requests are unanswered. Returns the first error since the last
    /// call.
    pub(crate) fn wait(&mut self, most: u32) -> Result<(), HostError> {
        while self.waiting > most {
            assert!(self.go_on(), "{} requests are never answered", self.waiting);
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn ask(&mut self, op: HostOp, block: u64, blocks: u64) -> Result<(), HostError> {
        while self.layer.credits().requests == 0 {
            assert!(self.go_on(), "the layer takes no request any more");
        }
        self.waiting += 1;
        let (lba, sectors) = (block * PER, blocks * PER);
        let written = if matches!(op, HostOp::Write { .. }) { sectors as u32 } else { 0 };
        let (ticket, tally) = (Ticket::issue(0), Tally::single(Cause::Host, written));
        self.step(Input::Host(Request { ticket, op, lba, sectors, tally, placement: 0 }));
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Completes everything that is in progress.
    pub(crate) fn settle(&mut self) {
        while self.go_on() {}
    }

    /// Passes a due timer to the layer, or completes a command. Returns `false` if there is
    /// neither.
    fn go_on(&mut self) -> bool {
        if self.layer.next_timer() == Some(0) {
            self.step(Input::Timer);
            return true;
        }
        if self.flying.is_empty() {
            return false;
        }
        let pick = self.random.below(self.flying.len() as u64) as usize;
        let pick = self.media.zoned.as_ref().map_or(pick, |it| it.first(&self.flying, pick));
        let (token, mut command) = self.flying.remove(pick);
        let is_beyond = self.media.zoned.as_ref().is_some_and(|it| it.is_beyond(&command));
        let result =
            if is_beyond { Err(DeviceError::Media) } else { Ok(self.perform(&mut command)) };
        self.step(Input::Done(Done { token, command, result }));
        true
    }

    fn step(&mut self, input: Input) {
        self.layer.step(0, input, &mut self.out);
        for output in self.out.drain() {
            match output {
                Output::Submit(token, command) => self.flying.push((token, command)),
                Output::Reply(reply) => {
                    reply.data.map(Payload::surrender);
                    reply.ticket.close();
                    self.failed = self.failed.or(reply.result.err());
                    self.waiting -= 1;
                }
                Output::Event(event) => self.is_ready |= matches!(event, Event::Ready { .. }),
                Output::Reclaim(payload) => drop(payload.surrender()),
            }
        }
    }

    /// Cuts the power: commands in flight have no effect.
    pub(crate) fn cut(mut self) -> Media {
        self.layer.power_off();
        self.flying.drain(..).for_each(|(_, command)| command.void());
        self.media
    }

    fn perform(&mut self, command: &mut Command) -> Verdict {
        let Media { pages, zoned } = &mut self.media;
        if let Some(verdict) = zoned.as_mut().and_then(|zoned| zoned.perform(command)) {
            return verdict;
        }
        let pages = &mut pages[usize::from(command.device().unwrap_or(0))];
        match command {
            Command::Read { lba, into: Target::Meta { buf, pages: count }, .. } => {
                let found = pages[(*lba / PER) as usize..].iter();
                for (page, found) in buf.pages_mut()[..*count as usize].iter_mut().zip(found) {
                    *page = found.as_deref().cloned().unwrap_or(Page([0; BLOCK]));
                }
            }
            Command::Program { lba, gather, placement, .. } => {
                if *placement == IMAGES {
                    let count = gather.iter().map(Piece::bytes).sum::<u32>() / BLOCK as u32;
                    self.image_rows.insert(count);
                }
                program(pages, *lba, gather.iter());
            }
            Command::Peek { into, pages: count, .. } => {
                // A chunk without data has no head.
                into.pages_mut()[..*count as usize].iter_mut().for_each(|page| page.0.fill(0));
            }
            Command::Pack { from, codec, .. } => {
                let full = if *codec == Codec::Raw { from.bytes() } else { 0 };
                let bytes = match self.random.below(if self.packs { 100 } else { 1 }) {
                    0..40 => full,
                    40 => ALL_ZEROS,
                    _ => 1 + self.random.below(4032) as u32,
                };
                return Verdict { bytes, crc: 0 };
            }
            Command::Move { parts, .. } => return Verdict { bytes: parts.len() as u32, crc: 0 },
            _ => {}
        }
        Verdict::default()
    }
}

/// Stores the programmed metadata and discards the previous contents.
fn program<'a>(pages: &mut Pages, lba: u64, pieces: impl Iterator<Item = &'a Piece>) {
    let mut at = lba as usize * SECTOR;
    for piece in pieces {
        let end = at + piece.bytes() as usize;
        let here = &mut pages[at / BLOCK..end.div_ceil(BLOCK)];
        match piece {
            Piece::Meta { buf, .. } => {
                here.iter_mut().zip(buf.pages()).for_each(|(to, from)| match to {
                    Some(to) => to.0.copy_from_slice(&from.0),
                    None => *to = Some(Box::new(from.clone())),
                });
            }
            _ => here.iter_mut().for_each(|it| *it = None),
        }
        at = end;
    }
}
