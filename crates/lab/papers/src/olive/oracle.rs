//! Comparison of the model with an event calculation of its own, at parameters that the experiments
//! do not use. The calculation shares no code with the model: it repeats the constants as literals,
//! and it keeps queues, where the model reserves times in advance. Times are in µs, lengths in KiB.

use std::collections::VecDeque;

use hostftl_lab_devices::olive::OliveSpec;
use hostftl_trace::Op;

use super::bench::{Bench, Driver, Walk};

/// A board with a bus and a controller for each chip.
#[derive(Clone, Copy)]
struct Board {
    is_write: bool,
    chips: usize,
    strip: u64,
    writes_per_chip: usize,
    commands: usize,
    preparation: f64,
}

/// A part of a request on one chip.
#[derive(Clone, Copy)]
struct Part {
    request: usize,
    chip: usize,
    start: u64,
    kib: u64,
}

const HOST: usize = 0;
const PREPARATION: usize = 1;

/// State of the calculation.
struct Calculation {
    board: Board,
    now: f64,
    /// Start, length, and parts that no chip has served.
    requests: Vec<(u64, u64, usize)>,
    complete: usize,
    /// Requests that wait for the host and for preparation, and the one that each serves.
    queues: [VecDeque<usize>; 2],
    serving: [Option<(f64, usize)>; 2],
    held: VecDeque<Part>,
    waiting: Vec<VecDeque<Part>>,
    on_chips: Vec<(f64, Part)>,
    buses: Vec<f64>,
    ends: Vec<u64>,
}

impl Board {
    fn parts(&self, request: usize, mut start: u64, kib: u64) -> Vec<Part> {
        let (mut parts, end) = (Vec::new(), start + kib);
        while start < end {
            let stripe = start / self.strip;
            let next = end.min((stripe + 1) * self.strip);
            let chip = (stripe % self.chips as u64) as usize;
            parts.push(Part { request, chip, start, kib: next - start });
            start = next;
        }
        parts
    }

    /// Returns the time of the host, or of preparation.
    fn takes(&self, station: usize, kib: u64, parts: usize) -> f64 {
        match (station, self.is_write) {
            (PREPARATION, _) => (parts - 1) as f64 * self.preparation,
            (_, true) => 30.0 + 4.0 * kib as f64,
            (_, false) => 88.0 + 2.1 * kib as f64,
        }
    }

    fn chip_takes(&self, kib: u64, follows: bool) -> f64 {
        if !self.is_write {
            return 70.0 + 4.75 * kib as f64;
        }
        let took = match kib {
            ..=4 => 685.0,
            5..=64 => 685.0 + (kib - 4) as f64 * 3484.0 / 60.0,
            _ => 4169.0 + (kib - 64) as f64 * 1105.0 / 64.0,
        };
        if follows { took } else { took * 4.0 / 3.0 }
    }
}

impl Calculation {
    fn new(board: Board) -> Self {
        Calculation {
            board,
            now: 0.0,
            requests: Vec::new(),
            complete: 0,
            queues: Default::default(),
            serving: [None; 2],
            held: VecDeque::new(),
            waiting: vec![VecDeque::new(); board.chips],
            on_chips: Vec::new(),
            buses: vec![0.0; board.chips],
            ends: vec![0; board.chips],
        }
    }

    /// Returns the requests per second, with `depth` requests in progress.
    fn speed(mut self, requests: &[(u64, u64)], depth: usize) -> f64 {
        while self.complete < requests.len() {
            while self.requests.len() < requests.len().min(self.complete + depth) {
                let (number, (start, kib)) = (self.requests.len(), requests[self.requests.len()]);
                self.requests.push((start, kib, self.board.parts(number, start, kib).len()));
                if self.board.is_write {
                    self.queues[HOST].push_back(number)
                } else {
                    self.prepare(number)
                }
            }
            self.begin();
            let stations = self.serving.iter().flatten().map(|(end, _)| *end);
            let chips = self.on_chips.iter().map(|(end, _)| *end);
            let buses = self.buses.iter().copied().filter(|end| *end > self.now);
            self.now = stations.chain(chips).chain(buses).fold(f64::INFINITY, f64::min);
            self.end();
        }
        requests.len() as f64 * 1e6 / self.now
    }

    /// Sends a request to preparation, or directly to its chip if it has one part.
    fn prepare(&mut self, request: usize) {
        let (start, kib, parts) = self.requests[request];
        if parts > 1 {
            self.queues[PREPARATION].push_back(request);
        } else {
            self.held.extend(self.board.parts(request, start, kib));
        }
    }

    /// Begins all services that can begin now.
    fn begin(&mut self) {
        for station in [HOST, PREPARATION] {
            if self.serving[station].is_none()
                && let Some(request) = self.queues[station].pop_front()
            {
                let (_, kib, parts) = self.requests[request];
                let took = self.board.takes(station, kib, parts);
                self.serving[station] = Some((self.now + took, request));
            }
        }
        let sent = self.waiting.iter().map(VecDeque::len).sum::<usize>() + self.on_chips.len();
        for _ in sent..self.board.commands {
            let Some(part) = self.held.pop_front() else { break };
            self.waiting[part.chip].push_back(part);
        }
        for chip in 0..self.board.chips {
            while self.has_place(chip)
                && let Some(part) = self.waiting[chip].pop_front()
            {
                let took = self.board.chip_takes(part.kib, self.ends[chip] == part.start);
                self.ends[chip] = part.start + part.kib;
                self.buses[chip] = self.now + took.min(4.75 * part.kib as f64);
                self.on_chips.push((self.now + took, part));
            }
        }
    }

    fn has_place(&self, chip: usize) -> bool {
        let places = if self.board.is_write { self.board.writes_per_chip } else { 1 };
        let busy = self.on_chips.iter().filter(|(_, part)| part.chip == chip).count();
        busy < places && self.buses[chip] <= self.now
    }

    /// Ends all services that end now.
    fn end(&mut self) {
        for station in [HOST, PREPARATION] {
            let Some((_, request)) = self.serving[station].take_if(|(end, _)| *end <= self.now)
            else {
                continue;
            };
            let (start, kib, _) = self.requests[request];
            match (station, self.board.is_write) {
                (HOST, true) => self.prepare(request),
                (HOST, false) => self.complete += 1,
                _ => self.held.extend(self.board.parts(request, start, kib)),
            }
        }
        for (_, part) in self.on_chips.extract_if(.., |(end, _)| *end <= self.now) {
            let left = &mut self.requests[part.request].2;
            *left -= 1;
            match (*left, self.board.is_write) {
                (0, true) => self.complete += 1,
                (0, false) => self.queues[HOST].push_back(part.request),
                _ => {}
            }
        }
    }
}

/// Returns the speed by the model and by the calculation.
fn both(board: Board, walk: Walk, kib: u32, depth: u32) -> (f64, f64) {
    let driver = if board.writes_per_chip == 2 { Driver::LightNvm } else { Driver::Block };
    let op = if board.is_write { Op::Write } else { Op::Read };
    let mut bench = Bench::new(driver, op, walk, kib).with_depth(depth);
    let Board { chips, strip, commands, .. } = board;
    bench.spec = OliveSpec {
        chips,
        buses: chips,
        controllers: chips,
        interleave: strip as u32 * 2,
        commands,
        piece_time: (board.preparation * 1e3) as u64,
        ..bench.spec
    };
    let requests: Vec<_> = bench.records(7).map(|it| (it.lba / 2, it.sectors / 2)).collect();
    let model = bench.run(7).expect("it runs").iops;
    (model, Calculation::new(board).speed(&requests, depth as usize))
}

#[test]
fn the_model_agrees_with_a_calculation_by_events() {
    let write = |chips, strip, writes_per_chip, commands| Board {
        is_write: true,
        chips,
        strip,
        writes_per_chip,
        commands,
        preparation: 45.0,
    };
    let read = |chips, strip, commands, preparation| Board {
        is_write: false,
        preparation,
        ..write(chips, strip, 1, commands)
    };
    for (board, walk, kib, depth) in [
        (write(3, 12, 2, 3), Walk::Sequential, 20, 3),
        (write(3, 12, 1, 4), Walk::Random, 20, 3),
        (write(3, 12, 2, 20), Walk::Sequential, 72, 1),
        (write(5, 36, 2, 7), Walk::Random, 12, 9),
        (write(5, 12, 1, 9), Walk::Sequential, 96, 4),
        (write(7, 256, 2, 5), Walk::Random, 256, 5),
        (read(3, 12, 3, 45.0), Walk::Sequential, 20, 3),
        (read(5, 12, 4, 45.0), Walk::Random, 60, 5),
        (read(5, 12, 9, 45.0), Walk::Sequential, 84, 1),
        (read(5, 20, 9, 250.0), Walk::Sequential, 44, 4),
    ] {
        let (model, calculated) = both(board, walk, kib, depth);
        let off = model / calculated - 1.0;
        assert!(off.abs() < 5e-4, "{} chips, {kib} KiB: {model}, {calculated}", board.chips);
    }
}
