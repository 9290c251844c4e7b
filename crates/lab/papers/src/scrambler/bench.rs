//! One workload on one drive, with or without the scrambler. The drive is aged and then measured at
//! queue depth 1.

use hostftl_core::{Cause, Nanos, Payload};
use hostftl_drives::{Clock, DriveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, Mode};
use hostftl_sim::{Front, HostCosts, Pace, PlayError, Player, Totals, Work, World, check_laws};
use hostftl_trace::{Op, Record};

use crate::Error;

/// Sectors per request of the fill: 1 MiB.
const CHUNK: u64 = 2048;

/// Returns a drive with the paper's blocks (4 MiB, 256 pages of 16 KiB) and one chip.
pub(super) fn drive(nand_blocks: u32, exported_percent: f64) -> Result<DriveSpec, Error> {
    let spare = 100.0 - exported_percent;
    let text = format!(
        "cell = \"mlc\"\nchannels = 1\nways = 1\npage_kib = 16\npages = 256\n\
         blocks = {nand_blocks}\nover_provisioning_percent = {spare:.4}\nread_us = 85\n\
         program_us = 1600\nerase_us = 8500\nbus_us = 0\nhint = true\n"
    );
    DriveSpec::parse(&text, "mlc-16k").map_err(|why| Error::Failed(why.to_string()))
}

/// Measured figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Requests.
    pub requests: u64,
    /// Total duration in ns.
    pub took: Nanos,
    /// Mean duration of reads in us.
    pub read_us: Option<f64>,
    /// Mean duration of writes in us.
    pub write_us: Option<f64>,
    /// Pages copied by the drive's garbage collection.
    pub gc_copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Energy in mJ.
    pub energy: f64,
    /// Bytes of the layer's tables.
    pub table_bytes: u64,
    /// Number of pages chosen by each rule.
    pub rules: [u64; 3],
    /// Sectors written by the host.
    pub written: u64,
}

impl Measured {
    /// Returns the microseconds per request.
    pub(crate) fn us(&self) -> f64 {
        self.took as f64 / self.requests.max(1) as f64 / 1e3
    }
}

/// A stack to be aged and then measured.
pub(super) struct Bench {
    world: World<AnyLayer>,
    table_bytes: u64,
    spec: DriveSpec,
    asked: Totals,
}

fn failed(why: impl std::fmt::Display) -> Error {
    Error::Failed(format!("the study failed: {why}"))
}

impl Bench {
    /// Creates `layer` over a new drive.
    pub(super) fn new(spec: &DriveSpec, layer: &LayerConfig) -> Result<Self, Error> {
        let devices = [spec.device_info()];
        let plan = AnyLayer::plan(layer, &devices).map_err(failed)?;
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        let layer = AnyLayer::new(layer, &devices, buffers, Mode::Format).map_err(failed)?;
        let world = World::new(layer, std::slice::from_ref(spec), HostCosts::default());
        let world = world.map_err(failed)?;
        let table_bytes = plan.map_bytes + plan.meta_bytes;
        Ok(Bench { world, table_bytes, spec: spec.clone(), asked: Totals::default() })
    }

    fn play(&mut self, records: impl Iterator<Item = Record>) -> Result<Front, Error> {
        let mut front = Front::new(&self.world);
        let start = self.world.now();
        let mut player = Player::new(records.map(Ok), Pace::Closed(1), start);
        let end = player.play(&mut self.world, &mut front, |_| false);
        end.map_err(|why| match why {
            PlayError::Trace(why) => failed(why),
            PlayError::Violation(why) => failed(why),
        })?;
        self.world.drain().map_err(failed)?;
        front.finish(&self.world);
        self.asked += front.totals();
        Ok(front)
    }

    /// Writes the first `sectors` in order, then plays the writes of `records`, all in logical
    /// time. Reads are omitted because they do not age the drive.
    pub(super) fn age(
        &mut self,
        sectors: u64,
        records: impl Iterator<Item = Record>,
    ) -> Result<(), Error> {
        self.world.drain().map_err(failed)?;
        self.world.set_clock(Clock::Counts);
        let fill = (0..sectors)
            .step_by(CHUNK as usize)
            .map(|lba| Record::new(0, Op::Write, 0, lba, CHUNK.min(sectors - lba)));
        self.play(fill.chain(records.filter(|record| record.op == Op::Write)))?;
        self.world.set_clock(Clock::Timed);
        Ok(())
    }

    /// Plays `records` one after the other.
    pub(super) fn measure(
        &mut self,
        records: impl Iterator<Item = Record>,
    ) -> Result<Measured, Error> {
        let (before, start, rules) = (Work::of(&self.world), self.world.now(), self.rules());
        let front = self.play(records)?;
        let work = Work::of(&self.world).since(&before);
        let totals = front.totals();
        let flash = &work.drives[0].flash;
        let now = self.rules();
        let latency = front.latencies.figures();
        let mean = |figures: Option<hostftl_sim::Latency>| figures.map(|it| it.mean as f64 / 1e3);
        Ok(Measured {
            requests: totals.issued,
            took: front.last_answer.saturating_sub(start),
            read_us: mean(latency.read),
            write_us: mean(latency.write),
            gc_copies: flash.reads[Cause::DriveGc as usize],
            erases: flash.erases,
            programs: flash.programs,
            energy: work.energy(&[self.spec.clone().into()], 0).mj,
            table_bytes: self.table_bytes,
            rules: std::array::from_fn(|i| now[i] - rules[i]),
            written: totals.written_sectors,
        })
    }

    fn rules(&self) -> [u64; 3] {
        self.world.layer().rules()
    }

    /// Stops the stack and checks the conservation laws over its whole life.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.world.stop().map_err(failed)?;
        check_laws(&self.world, &self.asked).map_err(failed)
    }
}
