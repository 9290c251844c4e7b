//! The run of one combination: one workload on one layer and one drive.

use hostftl_core::{Cause, Layer, Nanos, SECTOR, SECTORS_PER_BLOCK};
use hostftl_drives::{Clock, Model};

use crate::conserve;
use crate::devices;
use crate::error::{StudyError, Violation};
use crate::front::Front;
use crate::latency::{Latencies, LatencyNs};
use crate::planned_run::PlannedRun;
use crate::player::{End, Pace, Player};
use crate::ratio::ratio;
use crate::row::Row;
use crate::study::Watch;
use crate::warm::Warmed;
use crate::work::Work;
use crate::world::World;

/// Runs the combination. Returns `None` if `stop` requested an end before the workload began.
pub(crate) fn run(
    planned: &PlannedRun,
    watch: &dyn Watch,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Row>, StudyError> {
    let (study, index, total) = (planned.study, planned.index, planned.load.records);
    let broken = |violation| planned.broken(violation);
    let Some((mut world, warmed)) = planned.world(watch, stop)? else { return Ok(None) };
    world.drain().map_err(broken)?;
    let (before, start) = (Work::of(&world), world.now());
    let mut front = Front::new(&world);
    if study.pace == Pace::Counted {
        world.set_clock(Clock::Counts);
    }
    let mut player = Player::new(planned.load.open()?, study.pace, start);
    let end = player.play(&mut world, &mut front, |done| {
        watch.progress(index, done, total);
        stop()
    });
    let (end, was_held_back) = (end.map_err(|error| planned.failed(error))?, player.was_held_back);
    // Commands that outlast the last completion are part of the work of the run.
    world.drain().map_err(broken)?;
    front.finish(&world);
    let work = Work::of(&world).since(&before);
    conserve::check_handles(&work).map_err(broken)?;
    if matches!(study.pace, Pace::Closed(_)) {
        front.little().check().map_err(broken)?;
    }
    let run = Run {
        planned,
        front: &front,
        work: &work,
        warmed,
        start,
        was_held_back,
        partial: end == End::Cancelled,
    };
    let row = row(&run, &world).map_err(broken)?;
    world.stop().map_err(broken)?;
    let mut asked = warmed.asked;
    asked += front.totals();
    planned.check(&world, &asked)?;
    watch.progress(index, total, total);
    Ok(Some(row))
}

/// Returns remarks on the workload and the devices, one sentence each.
fn remarks(planned: &PlannedRun) -> Vec<String> {
    let mut texts = planned.load.remarks();
    for device in &planned.stack.devices {
        let about = device.left().iter().map(|text| format!("{}: {text}", device.name()));
        let fresh: Vec<String> = about.filter(|text| !texts.contains(text)).collect();
        texts.extend(fresh);
    }
    texts
}

/// Returns whether a trace of `length` ns missed its rate by taking `took` ns. A burst at the end
/// is tolerated.
fn is_missed(length: u64, took: u64) -> bool {
    length > 0 && took > length + length / 20
}

/// A finished run, without its world.
struct Run<'a> {
    planned: &'a PlannedRun<'a>,
    front: &'a Front,
    work: &'a Work,
    warmed: Warmed,
    start: Nanos,
    /// Whether a request was issued later than its time in the trace.
    was_held_back: bool,
    partial: bool,
}

impl Run<'_> {
    /// Returns the planned time from the first to the last request, in ns; 0 if requests wait for
    /// others.
    fn planned_length(&self) -> u64 {
        match self.planned.study.pace {
            Pace::Trace => self.planned.load.duration(),
            Pace::Every(interval) => interval * self.planned.load.records.saturating_sub(1),
            Pace::Closed(_) | Pace::Counted => 0,
        }
    }

    /// Returns the latencies; none with the counting clock, under which commands take no time.
    fn latencies(&self) -> LatencyNs {
        match self.planned.study.pace {
            Pace::Counted => Latencies::default().figures(),
            _ => self.front.latencies.figures(),
        }
    }
}

/// Builds the row of a finished run.
fn row<L: Layer, D: Model>(run: &Run, world: &World<L, D>) -> Result<Row, Violation> {
    let (work, host, planned) = (run.work, run.front.totals(), run.planned);
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    let sent = work.sent_in_all();
    let simulated = run.front.last_answer.saturating_sub(run.start);
    let map = [Cause::Map, Cause::Checkpoint, Cause::List].map(|cause| work.sent(cause));
    let map = map.iter().sum::<u64>();
    // Busy time, wear and energy exclude the journal.
    let (specs, data) = (planned.layer.devices(planned.stack), planned.stack.devices.len());
    let main = work.part(0..data);
    let busy = main.busy();
    let (erases, life) = devices::wear(&specs[..data], &main, host.written_sectors);
    let row = Row {
        layer: planned.layer.name.clone(),
        ack: world.layer().limits().ack.name(),
        drive: planned.stack.name.clone(),
        workload: planned.workload.name.clone(),
        seed: planned.study.seed,
        parameters: planned.spec.parameters(),
        grain: planned.spec.load.grain.sectors(),
        command: planned.spec.command(),
        partial: run.partial,
        warm: run.warmed.name(),
        warm_overwrites: run.warmed.overwrites,
        warm_rounds: run.warmed.rounds,
        requests: host.issued,
        widened: planned.load.notes.widened,
        exported_bytes: bytes(planned.exported),
        host_write_bytes: bytes(host.written_sectors),
        host_read_bytes: bytes(host.read_sectors),
        waf_layer: ratio(sent, host.written_sectors),
        waf_drive: ratio(work.programmed(), sent),
        waf_total: ratio(work.programmed(), host.written_sectors),
        gc_runs: work.counters.gc_runs,
        pages_copied: work.sent(Cause::Gc) / u64::from(SECTORS_PER_BLOCK),
        padding_bytes: bytes(work.sent(Cause::Pad)),
        parity_bytes: bytes(work.sent(Cause::Parity)),
        map_bytes_written: bytes(map),
        journal_bytes: bytes(work.sent(Cause::Journal)),
        flushes: host.flushes,
        busy_ns: busy,
        drive_gc_ns: busy.drive_gc,
        busy_ratio: None,
        base: None,
        latency_ns: run.latencies(),
        iops: ratio(host.transfers, simulated).map(|per_ns| per_ns * 1e9),
        facts: world.layer().facts().into_iter().collect(),
        map_bytes: planned.plan.map_bytes,
        meta_bytes: planned.plan.meta_bytes,
        model_bytes: planned.memory(),
        rmw_units: work.drives.iter().map(|drive| drive.rmw).sum(),
        page_operations: main.page_operations(&specs[..data]),
        programmed_bytes: work.programmed_bytes(),
        devices: devices::rows(&specs, (planned.layer, data), work, host.written_sectors),
        life,
        energy: main.energy(&specs[..data], bytes(host.written_sectors + host.read_sectors)),
        series: run.front.series.intervals(run.front.last_answer, planned.dies()),
        erases,
        conserved: true,
        saturated: run.was_held_back && is_missed(run.planned_length(), simulated),
        workload_ns: planned.load.duration(),
        simulated_ns: simulated,
        steps: world.steps(),
        remarks: remarks(planned),
        digest: format!("{:016x}", world.digest()),
    };
    row.numbers()
}
