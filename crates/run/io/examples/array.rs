//! Benchmark of one stack over files under one load, without a network block device in between:
//! `array STACK LOAD SECONDS FILE...` with STACK log, raid5 or passthrough, and LOAD random (4 KiB
//! writes that compress by 67 %, 32 in progress) or sequential (1 MiB writes that do not compress,
//! 4 in flight). It overwrites the files, and prints requests per second, MB/s of the host, MB/s
//! sent to the files, and requests per second of processor time of all threads and the kernel.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostftl_core::{
    Cause, Credits, DeviceInfo, Event, HostOp, Layer, Payload, Reply, Request, SECTOR, Tally,
    Ticket,
};
use hostftl_io::{
    Arena, Class, Device, Driver, EngineKind, HOST_CLASSES, Host, Parts, Pull, Waker,
};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode, Plan, Raid5};

/// RAID 5: chunk size in sectors, and number of operations in progress.
const CHUNK: u32 = 128;
const OPS: u16 = 64;
/// Number of random bytes that fio puts into 4096 bytes at `buffer_compress_percentage=67`.
const RANDOM: usize = 1351;

/// Size of the random data from which all writes are taken.
const NOISE: usize = 8 << 20;

/// Host that keeps `depth` writes in flight until the time has passed.
struct Load {
    arena: Arc<Arena>,
    sectors: u64,
    random: bool,
    bytes: u32,
    depth: u64,
    ends: Instant,
    sent: u64,
    answered: u64,
    seed: u64,
    /// Random data for writes. Generating new data would dominate the work.
    noise: Vec<u8>,
    /// Addresses of the buffers that are filled already.
    filled: HashSet<usize>,
}

impl Load {
    fn next(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }
}

impl Host for Load {
    fn pull(&mut self, _credits: Credits) -> Pull {
        if Instant::now() >= self.ends {
            return Pull::Over;
        }
        if !self.has_work() {
            return Pull::Nothing;
        }
        let length = u64::from(self.bytes) / SECTOR as u64;
        let places = self.sectors / length;
        let place = if self.random { self.next() } else { self.sent } % places;
        let mut data = self.arena.lease(self.bytes);
        // A buffer that is entirely random is not filled again, as in fio.
        if self.random || self.filled.insert(data.as_ptr().addr()) {
            let noise = if self.random { RANDOM } else { self.bytes as usize };
            let from = self.next() as usize % (self.noise.len() - noise);
            data[..noise].copy_from_slice(&self.noise[from..from + noise]);
            data[noise..].fill(0);
        }
        let op = HostOp::Write { data: data.into_payload(), fua: false };
        let (ticket, tally) = (Ticket::issue(self.sent), Tally::single(Cause::Host, length as u32));
        self.sent += 1;
        Pull::Request(Request {
            ticket,
            op,
            lba: place * length,
            sectors: length,
            tally,
            placement: 0,
        })
    }

    fn has_work(&self) -> bool {
        self.sent - self.answered < self.depth
    }

    fn answer(&mut self, reply: Reply) {
        reply.ticket.close();
        reply.result.expect("no write fails");
        self.answered += 1;
        drop(self.arena.adopt(reply.data.expect("a write has a payload")));
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.arena.adopt(payload));
    }

    fn event(&mut self, _event: Event) {}
}

fn measure<L: Layer>(
    plan: Plan,
    devices: Vec<Device>,
    (random, seconds): (bool, f64),
    make: impl FnOnce(Vec<Payload>) -> L,
) {
    let own = Class::with_sectors(plan.buffer_sectors, plan.buffers);
    let arena = Arena::new(&HOST_CLASSES, own).expect("memory");
    let layer = make(arena.layer_buffers(plan.buffer_sectors.max(1)));
    let (waker, engine) = (Arc::new(Waker::new().expect("an eventfd")), EngineKind::choose());
    let engine = engine.expect("HOSTFTL_ENGINE names an engine");
    let parts = Parts { devices, memory: arena.clone().into(), waker, engine, tap: None };
    let mut driver = Driver::new(layer, parts).expect("a driver");
    let (bytes, depth) = if random { (4096, 32) } else { (1 << 20, 4) };
    let (ends, seed) = (Instant::now(), 0x9e37_79b9_7f4a_7c15);
    let sectors = plan.limits.exported;
    let (sent, answered, noise, filled) = (0, 0, Vec::new(), HashSet::new());
    let mut load =
        Load { arena, sectors, random, bytes, depth, ends, sent, answered, seed, noise, filled };
    load.noise = (0..NOISE / 8).flat_map(|_| load.next().to_le_bytes()).collect();
    driver.start(&mut load).expect("it starts");
    let (begun, before, worked) = (Instant::now(), driver.stats().sent_sectors(), processor());
    load.ends = begun + Duration::from_secs_f64(seconds);
    driver.serve(&mut load).expect("it serves");
    let took = begun.elapsed().as_secs_f64();
    let sent = (driver.stats().sent_sectors() - before) as f64 * SECTOR as f64;
    let (answered, host) = (load.answered as f64, load.answered as f64 * f64::from(bytes));
    let each = answered / (processor() - worked).as_secs_f64();
    println!("{:.0} {:.1} {:.1} {each:.0}", answered / took, host / took / 1e6, sent / took / 1e6);
}

/// Returns the processor time of this process so far, with a resolution of 10 ms.
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").expect("procfs is mounted");
    let (_, fields) = text.rsplit_once(") ").expect("the name is in brackets");
    let times = fields.split(' ').skip(11).take(2);
    let ticks: u64 = times.map(|time| time.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [stack, load, seconds, files @ ..] = &args[..] else {
        eprintln!("array STACK LOAD SECONDS FILE...");
        std::process::exit(2);
    };
    let open = |name: &String| Device::open(name).expect("a file that no other process uses");
    let devices: Vec<Device> = files.iter().map(open).collect();
    devices.iter().for_each(Device::populate);
    let infos: Vec<DeviceInfo> = devices.iter().map(Device::info).collect();
    let how = (load == "random", seconds.parse().expect("a number of seconds"));
    if stack == "raid5" {
        let plan = Raid5::plan(&infos, CHUNK, OPS).expect("three files or more");
        let make = |buffers| Raid5::new(&infos, CHUNK, OPS, buffers).expect("as planned");
        return measure(plan, devices, how, make);
    }
    let config = match stack.as_str() {
        "log" => LayerConfig::parse("log:compress=lz4:parity=yes").expect("a layer"),
        _ => LayerConfig::new(LayerKind::Passthrough),
    };
    let plan = AnyLayer::plan(&config, &infos).expect("files that suit the layer");
    let make = |buffers| AnyLayer::new(&config, &infos, buffers, Mode::Format).expect("as planned");
    measure(plan, devices, how, make);
}
