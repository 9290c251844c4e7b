//! A host that sends the requests of a test to one layer on a set of devices.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hostftl_core::{
    Cause, Credits, Event, HostError, HostOp, Layer, Payload, Reply, Request, Tally, Ticket,
};
use hostftl_io::{
    Arena, Class, Device, Driver, EngineKind, HOST_CLASSES, Host, Parts, Pull, Stats, Waker,
};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode, Plan};

/// Request of a test; lengths and offsets in bytes.
pub(crate) enum Ask {
    Read { at: u64, len: u32 },
    Write { at: u64, data: Vec<u8>, fua: bool },
    Trim { at: u64, len: u64 },
    Zeroes { at: u64, len: u64 },
    Flush,
}

pub(crate) type Answers = BTreeMap<u64, Result<Vec<u8>, HostError>>;

/// Host that sends all requests as fast as the layer accepts them, and records the replies.
pub(crate) struct Script {
    pub asks: VecDeque<Ask>,
    pub arena: Arc<Arena>,
    pub answers: Answers,
    pub events: Vec<Event>,
    next: u64,
}

impl Script {
    fn request(&mut self, ask: Ask) -> Request {
        let ticket = Ticket::issue(self.next);
        self.next += 1;
        let (op, at, len) = match ask {
            Ask::Read { at, len } => {
                (HostOp::Read(self.arena.lease(len).into_payload()), at, len.into())
            }
            Ask::Write { at, data, fua } => {
                let mut lease = self.arena.lease(data.len() as u32);
                lease.copy_from_slice(&data);
                (HostOp::Write { data: lease.into_payload(), fua }, at, data.len() as u64)
            }
            Ask::Trim { at, len } => (HostOp::Trim { fua: false }, at, len),
            Ask::Zeroes { at, len } => (HostOp::Zeroes { fua: false }, at, len),
            Ask::Flush => (HostOp::Flush, 0, 0),
        };
        let written = if matches!(op, HostOp::Write { .. }) { len as u32 / 512 } else { 0 };
        let tally = Tally::single(Cause::Host, written);
        Request { ticket, op, lba: at / 512, sectors: len / 512, tally, placement: 0 }
    }
}

impl Host for Script {
    fn pull(&mut self, credits: Credits) -> Pull {
        assert!(credits.requests > 0);
        match self.asks.pop_front() {
            Some(ask) => Pull::Request(self.request(ask)),
            None => Pull::Over,
        }
    }

    fn has_work(&self) -> bool {
        true
    }

    fn answer(&mut self, reply: Reply) {
        let bytes = reply.data.map(|data| self.arena.adopt(data).to_vec()).unwrap_or_default();
        self.answers.insert(reply.ticket.close(), reply.result.map(|()| bytes));
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.arena.adopt(payload));
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Starts a new layer on `devices`, and a host without requests.
pub(crate) fn start(
    config: &LayerConfig,
    devices: Vec<Device>,
    engine: EngineKind,
) -> (Driver<AnyLayer>, Script) {
    let infos: Vec<_> = devices.iter().map(Device::info).collect();
    let plan = AnyLayer::plan(config, &infos).unwrap();
    let make = |buffers| AnyLayer::new(config, &infos, buffers, Mode::Format).unwrap();
    start_layer(plan, devices, engine, make)
}

/// Starts like [`start`], with the layer that `make` creates for `plan`.
pub(crate) fn start_layer<L: Layer>(
    plan: Plan,
    devices: Vec<Device>,
    engine: EngineKind,
    make: impl FnOnce(Vec<Payload>) -> L,
) -> (Driver<L>, Script) {
    let own = Class::with_sectors(plan.buffer_sectors, plan.buffers);
    let arena = Arena::new(&HOST_CLASSES, own).unwrap();
    let buffers = arena.layer_buffers(plan.buffer_sectors.max(1));
    let layer = make(buffers);
    let waker = Arc::new(Waker::new().unwrap());
    let parts = Parts { devices, memory: arena.clone().into(), waker, engine, tap: None };
    let mut driver = Driver::new(layer, parts).unwrap();
    let (answers, events) = (Answers::new(), Vec::new());
    let mut script = Script { asks: VecDeque::new(), arena, answers, events, next: 0 };
    driver.start(&mut script).unwrap();
    (driver, script)
}

/// Runs `asks` one after another, waiting for each, through a new layer on `devices`.
pub(crate) fn run(
    kind: LayerKind,
    devices: Vec<Device>,
    engine: EngineKind,
    asks: Vec<Ask>,
) -> (Answers, Stats) {
    let (mut driver, mut script) = start(&LayerConfig::new(kind), devices, engine);
    // One at a time, because requests in flight have no guaranteed order.
    for ask in asks {
        script.asks.push_back(ask);
        driver.serve(&mut script).unwrap();
    }
    driver.stop(&mut script).unwrap();
    driver.layer().check().unwrap();
    assert_eq!(script.events.last(), Some(&Event::Stopped));
    let stats = driver.stats().clone();
    assert_eq!(stats.requests_in, stats.requests_out);
    driver.close().unwrap();
    (script.answers, stats)
}

/// Creates a sparse file of `bytes` bytes in a temporary directory.
pub(crate) fn sparse(bytes: u64) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("device");
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    let name = path.to_str().unwrap().into();
    (folder, name)
}

pub(crate) const ENGINES: [EngineKind; 2] = [EngineKind::Uring, EngineKind::Pread];
