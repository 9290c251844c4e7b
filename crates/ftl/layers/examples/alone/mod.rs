//! A log volume on one core, with a driver that completes every command at once.
//!
//! Only the metadata that the layer reads back is stored; all other data is discarded.

use std::collections::VecDeque;

use hostftl_core::{
    BLOCK, Cause, Command, DeviceInfo, Done, HostOp, Input, Layer, MAX_OUTPUTS, Out, Output, Page,
    Payload, Piece, Request, SECTOR, SECTORS_PER_BLOCK, Tally, Target, Ticket, Verdict,
};
use hostftl_format::log;
use hostftl_layers::{AnyLayer, LayerConfig, Mode};

/// Sectors of the device (2 GiB), and of its map unit.
const DEVICE: (u64, u32) = (2 << 21, 128);
/// Sectors of a block.
const PER: u64 = SECTORS_PER_BLOCK as u64;

/// The used part of a metadata page, so that the driver copies no more than necessary.
struct Kept {
    len: usize,
    bytes: [u8; BLOCK],
}

impl Kept {
    fn set(&mut self, page: &Page) {
        self.len = log::used(page);
        self.bytes[..self.len].copy_from_slice(&page.0[..self.len]);
    }
}

/// The layer without a driver around it.
pub(crate) struct Alone {
    pub log: AnyLayer,
    /// Outputs of steps that are not processed yet, and spare lists for further ones.
    outputs: VecDeque<Box<Out>>,
    #[allow(clippy::vec_box, reason = "they go to and fro between the two lists")]
    spare: Vec<Box<Out>>,
    /// The metadata on the device, by block.
    pages: Vec<Option<Box<Kept>>>,
    /// Number of requests that are not answered.
    waiting: u32,
    pub steps: u64,
}

impl Alone {
    /// Creates a new volume.
    pub(crate) fn new(layer: &str) -> Self {
        let config = LayerConfig::parse(layer).expect("a layer");
        let block = DeviceInfo::block(DEVICE.0, DEVICE.1);
        let devices = [DeviceInfo { discard: true, ..block }];
        let plan = AnyLayer::plan(&config, &devices).expect("the layer fits the drive");
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        let log = AnyLayer::new(&config, &devices, buffers, Mode::Format)
            .expect("the target was planned");
        let pages = (0..=DEVICE.0 / PER).map(|_| None).collect();
        let (outputs, spare) = (VecDeque::new(), Vec::new());
        let mut alone = Alone { log, outputs, spare, pages, waiting: 0, steps: 0 };
        alone.step(Input::Timer);
        alone.settle();
        alone
    }

    /// Writes a block and waits for its completion.
    pub(crate) fn write(&mut self, block: u64) {
        let data = Payload::issue(1 << 24, SECTORS_PER_BLOCK);
        let request = Request {
            ticket: Ticket::issue(0),
            op: HostOp::Write { data, fua: false },
            lba: block * PER,
            sectors: PER,
            tally: Tally::single(Cause::Host, SECTORS_PER_BLOCK),
            placement: 0,
        };
        assert!(self.log.credits().requests > 0, "nothing is in flight");
        self.waiting += 1;
        self.step(Input::Host(request));
        self.settle();
        assert_eq!(self.waiting, 0, "the write is answered when nothing is in flight");
    }

    /// Returns the number of exported blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.log.limits().exported / PER
    }

    /// Returns α: mapped data plus invalid data that GC can reclaim, divided by mapped data.
    pub(crate) fn alpha(&self) -> f64 {
        let gauges = self.log.gauges().expect("it has them");
        (gauges.valid + gauges.stale) as f64 / gauges.valid as f64
    }

    /// Completes all commands.
    fn settle(&mut self) {
        loop {
            if let Some(mut outputs) = self.outputs.pop_front() {
                for output in outputs.drain() {
                    self.answer(output);
                }
                self.spare.push(outputs);
            } else if self.log.next_timer() == Some(0) {
                self.step(Input::Timer);
            } else {
                return;
            }
        }
    }

    fn step(&mut self, input: Input) {
        self.steps += 1;
        let mut out = self.spare.pop().unwrap_or_default();
        self.log.step(0, input, &mut out);
        if out.outputs_left() == MAX_OUTPUTS {
            self.spare.push(out)
        } else {
            self.outputs.push_back(out)
        }
    }

    #[inline]
    fn answer(&mut self, mut output: Output) {
        let mut result = Ok(Verdict::default());
        if let Output::Submit(_, command) = &mut output {
            result = Ok(perform(&mut self.pages, command));
        }
        match output {
            Output::Submit(token, command) => {
                self.step(Input::Done(Done { token, command, result }));
            }
            Output::Reply(reply) => {
                reply.data.map(Payload::surrender);
                reply.ticket.close();
                reply.result.expect("no write fails");
                self.waiting -= 1;
            }
            Output::Reclaim(_) => unreachable!("nothing hangs"),
            Output::Event(_) => {}
        }
    }
}

fn empty() -> Box<Kept> {
    Box::new(Kept { len: 0, bytes: [0; BLOCK] })
}

/// Returns the result of a command without data: nothing is compressible, and every checksum is 0.
fn perform(pages: &mut [Option<Box<Kept>>], command: &mut Command) -> Verdict {
    match command {
        Command::Read { lba, into: Target::Meta { buf, pages: count }, .. } => {
            let found = pages[(*lba / PER) as usize..].iter();
            for (page, found) in buf.pages_mut()[..*count as usize].iter_mut().zip(found) {
                match found {
                    Some(kept) => page.0[..kept.len].copy_from_slice(&kept.bytes[..kept.len]),
                    None => page.0.fill(0),
                }
            }
        }
        Command::Program { lba, gather, .. } => {
            let mut at = *lba as usize * SECTOR;
            for piece in gather.iter() {
                let end = at + piece.bytes() as usize;
                let kept = &mut pages[at / BLOCK..end.div_ceil(BLOCK)];
                match piece {
                    Piece::Meta { buf, .. } => {
                        for (kept, page) in kept.iter_mut().zip(buf.pages()) {
                            kept.get_or_insert_with(empty).set(page);
                        }
                    }
                    _ => kept.iter_mut().filter(|it| it.is_some()).for_each(|it| *it = None),
                }
                at = end;
            }
        }
        Command::Move { parts, .. } => return Verdict { bytes: parts.len() as u32, crc: 0 },
        _ => {}
    }
    Verdict::default()
}

/// Returns the theoretical write amplification of uniform writes, `A = 1 / (1 − e^(−α/A))`: for
/// victims in the order in which they were filled, and for greedy ones if segments are large.
pub(crate) fn theory(alpha: f64) -> f64 {
    (0..10_000).fold(1.0, |waf, _| 0.5 * (waf + 1.0 / (1.0 - (-alpha / waf).exp())))
}
