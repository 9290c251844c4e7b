//! fio's job on a real volume over four files, with a client that writes blocks with fio's
//! contents.

use std::sync::Arc;
use std::sync::mpsc::channel;

use hostftl_layers::LayerConfig;
use hostftl_volume::front::{Answer, Answers, Buffer, Job, JobOp, Port};
use hostftl_volume::{CreateSpec, StartOptions, Status, create, open};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{BLOCK, RANDOM, ROUNDS};
use crate::{Error, Options, Watch};

/// Queue depth.
pub(super) const DEPTH: u64 = 256;
/// Number of devices; the capacity of one is for parity.
const DEVICES: u64 = 4;
/// Bytes per file at the smaller sizes of the experiment.
const SMALL: u64 = 256 << 20;
/// Bytes per file at the full size.
const LARGE: u64 = 8 << 30;
/// Number of requests between two checks for cancellation.
const GLANCE: u64 = 4096;

/// Bytes of the random writes, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Real {
    pub exported: u64,
    pub host: u64,
    pub data: u64,
    pub padding: u64,
    pub metadata: u64,
    pub collection: u64,
    pub parity: u64,
    pub sent: u64,
}

impl Real {
    /// Returns the compression ratio: bytes of the host per byte of stored data.
    pub(super) fn ratio(&self) -> f64 {
        self.host as f64 / self.data as f64
    }

    /// Returns the bytes sent per byte of the host.
    pub(super) fn sent_per_byte(&self) -> f64 {
        self.sent as f64 / self.host as f64
    }

    /// Returns the same from the accounting identity: the product of compression, parity and
    /// garbage collection, plus padding and metadata.
    pub(super) fn predicted(&self) -> f64 {
        let (devices, host) = (DEVICES as f64, self.host as f64);
        let collection = (self.data + self.collection) as f64 / self.data as f64;
        let rest = (self.padding + self.metadata) as f64 / host;
        1.0 / self.ratio() * (devices / (devices - 1.0)) * collection + rest
    }

    /// Returns the bytes from the host to the drives, step by step.
    pub(super) fn steps(&self) -> [(&'static str, u64); 7] {
        [
            ("host", self.host),
            ("data, compressed", self.data),
            ("padding", self.padding),
            ("metadata", self.metadata),
            ("collection", self.collection),
            ("parity", self.parity),
            ("sent", self.sent),
        ]
    }

    fn of(exported: u64, now: &Status, before: &Status) -> Option<Self> {
        let bytes = |status: &Status, name: &str| {
            let steps = &status.traffic.as_ref()?.write_path;
            steps.iter().find(|step| step.step == name)?.bytes
        };
        let step = |name: &str| Some(bytes(now, name)? - bytes(before, name)?);
        Some(Real {
            exported,
            host: step("host")?,
            data: step("data")?,
            padding: step("padding")?,
            metadata: step("metadata")?,
            collection: step("garbage_collection")?,
            parity: step("parity")?,
            sent: step("device_writes")?,
        })
    }
}

/// Creates and fills the volume, overwrites it at random until garbage collection runs, and
/// measures one further random overwrite.
pub(super) fn measure(options: &Options, watch: &dyn Watch) -> Result<Real, Error> {
    let failed = |why: &dyn std::fmt::Display| {
        Error::Failed(format!("cannot run the volume on files: {why}"))
    };
    let folder = tempfile::tempdir().map_err(|why| failed(&why))?;
    let name = |index| folder.path().join(format!("d{index}")).display().to_string();
    let spec = CreateSpec {
        allocate: false,
        path: folder.path().join("xdp.toml"),
        devices: (0..DEVICES).map(name).collect(),
        size: Some(if options.full() { LARGE } else { SMALL }),
        layer: LayerConfig::parse("log:compress=lz4:parity=yes").map_err(|why| failed(&why))?,
        label: "xdp".into(),
        force: false,
    };
    create(&spec).map_err(|why| failed(&why))?;
    let volume = open(&spec.path).map_err(|why| failed(&why))?;
    let (running, port) = volume.start(&StartOptions::default()).map_err(|why| failed(&why))?;
    let exported = port.export().bytes;
    let blocks = exported / BLOCK as u64;
    let mut client = Client::new(port, options.seed);
    let anywhere = |random: &mut Xoshiro256PlusPlus, _| random.random_range(0..blocks);
    client.write(blocks, watch, |_, at| at)?;
    client.write(ROUNDS * blocks, watch, anywhere)?;
    let before = running.status();
    client.write(blocks, watch, anywhere)?;
    let after = running.stop().map_err(|why| failed(&why))?;
    Real::of(exported, &after, &before).ok_or_else(|| failed(&"the volume reports figures"))
}

/// A client that writes many blocks concurrently.
struct Client {
    port: Port,
    random: Xoshiro256PlusPlus,
}

impl Client {
    fn new(port: Port, seed: u64) -> Self {
        Client { port, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Writes `count` blocks at the addresses of `place`, then flushes.
    fn write(
        &mut self,
        count: u64,
        watch: &dyn Watch,
        place: impl Fn(&mut Xoshiro256PlusPlus, u64) -> u64,
    ) -> Result<(), Error> {
        let (sender, answers) = channel::<Answer>();
        let reply: Arc<dyn Answers> = Arc::new(sender);
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            if sent < count && sent - answered < DEPTH {
                let at = place(&mut self.random, sent);
                let op = JobOp::Write { data: self.block(), fua: false };
                self.submit(op, at, BLOCK as u64, &reply);
                sent += 1;
                continue;
            }
            check(answers.recv().ok())?;
            answered += 1;
            if answered.is_multiple_of(GLANCE) && watch.cancelled() {
                // Requests in progress complete when the volume is closed.
                return Err(Error::Cancelled);
            }
        }
        self.submit(JobOp::Flush, 0, 0, &reply);
        check(answers.recv().ok())
    }

    fn submit(&self, op: JobOp, block: u64, bytes: u64, reply: &Arc<dyn Answers>) {
        let (offset, reply) = (block * BLOCK as u64, reply.clone());
        self.port.submit(Job { op, offset, bytes, cookie: block, reply });
    }

    /// Returns a block with fio's contents: random bytes, then zeros.
    fn block(&mut self) -> Buffer {
        let mut data = self.port.buffer(BLOCK as u32);
        self.random.fill_bytes(&mut data[..RANDOM]);
        data[RANDOM..].fill(0);
        data
    }
}

fn check(answer: Option<Answer>) -> Result<(), Error> {
    match answer.map(|answer| answer.result) {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(Error::Failed(format!("a write to the files failed: {why:?}"))),
        None => Err(Error::Failed("the volume on files stopped early".into())),
    }
}
