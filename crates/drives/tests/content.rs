//! The drive gives back what was written: sectors carry version numbers through merges, copies and
//! trims.

use std::collections::{BTreeMap, VecDeque};

use hostftl_core::{
    Cause, Command, Done, Gather, HostOp, Input, Layer, Out, Output, Payload, Piece, Request,
    Tally, Target, Ticket, Token, Verdict,
};
use hostftl_drives::{DriveSpec, Flash, SuperpageFtl};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const UNIT: usize = 8;
const SECTORS: usize = 2048;

/// Versions of the sectors of each payload, by name.
type Buffers = BTreeMap<u32, Vec<u64>>;

struct Bench {
    ftl: SuperpageFtl,
    flash: Flash,
    out: Out,
    flying: VecDeque<(u64, Token, Command)>,
    buffers: Buffers,
    media: Vec<u64>,
    /// What each sector must be once all requests so far are answered.
    model: Vec<u64>,
    reads: BTreeMap<u64, (u32, usize, usize)>,
    sent: u64,
    now: u64,
}

fn spec() -> DriveSpec {
    let text = "kind = 'superpage-mapped'\nchannels = 1\nways = 1\npage_kib = 4\n\
                superpages_per_superblock = 8\nexported_mib = 1\n\
                over_provisioning_percent = 20\nread_us = 60\nprogram_us = 800\n\
                erase_us = 1500\nbus_us = 5\n";
    DriveSpec::parse(text, "content").expect("a possible drive")
}

impl Bench {
    fn new() -> Self {
        let spec = spec();
        let count = SuperpageFtl::buffers();
        let payloads = (0..count).map(|id| Payload::issue(id, UNIT as u32)).collect();
        let mut bench = Bench {
            ftl: SuperpageFtl::new(&spec.flash_info(), spec.exported, payloads),
            flash: Flash::new(&spec),
            out: Out::new(),
            flying: VecDeque::new(),
            buffers: (0..count).map(|id| (id, vec![u64::MAX; UNIT])).collect(),
            media: vec![u64::MAX; spec.flash_info().sectors as usize],
            model: vec![0; SECTORS],
            reads: BTreeMap::new(),
            sent: 0,
            now: 0,
        };
        bench.step(Input::Timer);
        bench
    }

    fn step(&mut self, input: Input) {
        self.ftl.step(self.now, input, &mut self.out);
        let outputs: Vec<_> = self.out.drain().collect();
        for output in outputs {
            match output {
                Output::Submit(token, command) => {
                    let at = self.flash.start(self.now, &command);
                    self.flying.push_back((at, token, command));
                }
                Output::Reply(reply) => {
                    let id = reply.ticket.close();
                    if let Some(data) = reply.data {
                        let found = self.buffers.remove(&data.surrender()).expect("a host payload");
                        if let Some((_, lba, sectors)) = self.reads.remove(&id) {
                            assert_eq!(found, self.model[lba..lba + sectors], "read of {lba}");
                        }
                    }
                }
                Output::Event(_) => {}
                Output::Reclaim(_) => unreachable!("the drive abandons nothing"),
            }
        }
        if self.ftl.next_timer().is_some() {
            self.step(Input::Timer);
        }
    }

    /// Carries out the oldest command.
    fn advance(&mut self) -> bool {
        let Some((at, token, command)) = self.flying.pop_front() else { return false };
        self.now = at;
        match &command {
            Command::Program { lba, gather, .. } => {
                let bytes = gathered(&self.buffers, gather);
                self.media[*lba as usize..][..UNIT].copy_from_slice(&bytes);
            }
            Command::Read { lba, into: Target::Data(view), .. } => {
                let (from, count) = (view.from() as usize / 512, view.sectors() as usize);
                let bytes = self.media[*lba as usize..][..count].to_vec();
                let buffer = self.buffers.get_mut(&view.id()).expect("a buffer");
                buffer[from..from + count].copy_from_slice(&bytes);
            }
            Command::Reset { lba, sectors, .. } => {
                self.media[*lba as usize..][..*sectors as usize].fill(u64::MAX);
            }
            other => unreachable!("the drive never sent {other:?}"),
        }
        self.step(Input::Done(Done { token, command, result: Ok(Verdict::default()) }));
        true
    }

    fn send(&mut self, op: HostOp, lba: usize, sectors: usize) {
        while self.ftl.credits().requests == 0 {
            assert!(self.advance(), "no credit and nothing under way");
        }
        let tally = Tally::of(Cause::Host, sectors as u32);
        let (ticket, lba) = (Ticket::issue(self.sent), lba as u64);
        self.step(Input::Host(Request { ticket, op, lba, sectors: sectors as u64, tally }));
    }

    fn payload(&mut self, versions: Vec<u64>) -> Payload {
        self.sent += 1;
        let (id, sectors) = (10_000 + self.sent as u32, versions.len() as u32);
        self.buffers.insert(id, versions);
        Payload::issue(id, sectors)
    }

    fn write(&mut self, lba: usize, sectors: usize) {
        let version = (self.sent + 1) << 16;
        let versions: Vec<u64> = (0..sectors as u64).map(|i| version + i).collect();
        self.model[lba..lba + sectors].copy_from_slice(&versions);
        let data = self.payload(versions);
        self.send(HostOp::Write { data, fua: false }, lba, sectors);
    }

    /// Zeroes or trims; a trim of whole superpages reads zeros.
    fn clear(&mut self, lba: usize, sectors: usize, is_trim: bool) {
        self.sent += 1;
        self.model[lba..lba + sectors].fill(0);
        let fua = false;
        let op = if is_trim { HostOp::Trim { fua } } else { HostOp::Zeroes { fua } };
        self.send(op, lba, sectors);
    }

    /// Reads while nothing else is under way, so that there is one right answer.
    fn read(&mut self, lba: usize, sectors: usize) {
        while self.advance() {}
        let data = self.payload(vec![0; sectors]);
        self.reads.insert(self.sent, (data.id(), lba, sectors));
        self.send(HostOp::Read(data), lba, sectors);
        while self.advance() {}
        assert!(self.reads.is_empty(), "a read was not answered");
    }
}

fn gathered(buffers: &Buffers, gather: &Gather) -> Vec<u64> {
    let mut bytes = Vec::new();
    for piece in gather.iter() {
        let sectors = piece.bytes() as usize / 512;
        match piece {
            Piece::Data(view) => {
                let from = view.from() as usize / 512;
                bytes.extend_from_slice(&buffers[&view.id()][from..from + sectors]);
            }
            Piece::Zeros(_) => bytes.extend(std::iter::repeat_n(0, sectors)),
            Piece::Meta { .. } => unreachable!("the drive has no metadata"),
        }
    }
    assert_eq!(bytes.len(), UNIT, "a program is a whole superpage");
    bytes
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.ftl.power_off();
        self.flying.drain(..).for_each(|(_, _, command)| command.void());
    }
}

#[test]
fn every_sector_is_its_last_version() {
    for seed in 0..8 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut bench = Bench::new();
        for _ in 0..6_000 {
            let sectors = rng.random_range(1..=40);
            let lba = rng.random_range(0..=SECTORS - sectors);
            match rng.random_range(0..100) {
                0..85 => bench.write(lba, sectors),
                85..88 => bench.clear(lba, sectors, false),
                88..91 => {
                    let first = lba / UNIT * UNIT;
                    bench.clear(
                        first,
                        sectors.div_ceil(UNIT).min((SECTORS - first) / UNIT) * UNIT,
                        true,
                    );
                }
                91..93 => bench.read(lba, sectors),
                _ => {
                    for _ in 0..rng.random_range(0..200) {
                        bench.advance();
                    }
                }
            }
        }
        bench.read(0, SECTORS / 4);
        for part in 0..4 {
            bench.read(part * SECTORS / 4, SECTORS / 4);
        }
        assert!(bench.flash.work().erases > 100, "the drive collected");
        assert!(bench.ftl.counters().gc_copied > 0, "and copied");
        bench.ftl.check().expect("the drive's invariants hold");
    }
}
