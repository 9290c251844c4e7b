//! The shadow of a served volume: a thread that models the drive without a layer, and with others.
//!
//! Invariants
//! - Serving threads never block: requests that do not fit into the queue are dropped and counted.
//! - The thread takes at most [`CPU_SHARE`] of a processor, except while it creates its models. It
//!   reduces the sample instead of delaying requests.
//! - A bug in the models ends the shadow, and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hostftl_core::SECTOR;
use hostftl_frontend::shadow::{Volume, spec};
use hostftl_serve::{RequestKind, RequestObserver};
use hostftl_sim::{Export, LayerSpec, Shadow, ShadowReport, Tap, is_same};
use hostftl_trace::{Compressibility, Grain, Op, Record};
use hostftl_volume::{Level, ShadowCandidate, ShadowStatus, Status, StatusHandle};
use rustix::time::{ClockId, clock_gettime};

use crate::commands::advise::device;
use crate::failure::Failure;

/// Interval between reads of the queue. A reader that blocks would be woken for each request.
pub(in crate::commands) const PAUSE: Duration = Duration::from_millis(20);
/// Interval between updates of the status.
const PUBLISH: Duration = Duration::from_secs(1);
/// Share of a processor.
const CPU_SHARE: f64 = 0.03;
/// Processor time by which a burst may exceed the share.
const BURST: Duration = Duration::from_millis(300);
/// Requests between checks of the processor time.
pub(in crate::commands) const CHECK: usize = 64;
/// Writes that show the granularity before the models are created.
pub(in crate::commands) const EXAMINED: usize = 1000;
/// Time after which fewer writes suffice.
pub(in crate::commands) const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of measured points in time.
const POINTS: usize = 4096;
/// Share of a volume without space accounting that holds data, as for `advise`.
const FILLED: f64 = 0.7;
/// Model of a drive that is not a block device.
const MODEL: &str = "tlc";

/// Settings of the shadow.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub layers: Vec<LayerSpec>,
    /// Drive model; by default that of the device.
    pub drive: Option<String>,
}

/// The running shadow of a volume.
pub(super) struct Shadowing {
    observer: Arc<Observer>,
    stop: Arc<AtomicBool>,
}

/// Passes requests of clients to the tap.
struct Observer {
    began: Instant,
    tap: Arc<Tap>,
}

impl RequestObserver for Observer {
    fn observe(&self, kind: RequestKind, offset: u64, bytes: u64) {
        let op = match kind {
            RequestKind::Read => return,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Trim | RequestKind::Zeroes => Op::Discard,
        };
        let (lba, sectors) = (offset / SECTOR as u64, bytes / SECTOR as u64);
        let t_ns = self.began.elapsed().as_nanos() as u64;
        self.tap.observe(&Record::new(t_ns, op, 0, lba, sectors));
    }
}

impl Shadowing {
    /// Starts the shadow of a volume.
    pub(super) fn begin(settings: &Settings, volume: StatusHandle) -> Result<Self, Failure> {
        let status = volume.status();
        let [device] = &status.devices[..] else {
            let text = "--shadow models a volume on one device, not an array";
            return Err(Failure::usage(text));
        };
        let drive = match &settings.drive {
            Some(drive) => drive.clone(),
            None => device::model(&device.name)?.map_or(MODEL, |it| it.name).to_owned(),
        };
        let mut layers = settings.layers.clone();
        let served = LayerSpec::parse(&status.parameters).map_err(Failure::failed)?;
        // Errors of the drive's name are reported at the start.
        let whole = spec(&described(&status), &drive, Vec::new(), 8)?;
        let whole = (whole.slice)(status.exported_bytes.min(1 << 30)).map_err(Failure::failed)?;
        // The serving layer has all of its parameters, as chosen for the device.
        let is_served = |layer: &LayerSpec| {
            layer.name == status.layer || is_same(&whole, Export::Usual, layer, &served)
        };
        layers.retain(|layer| !is_served(layer));
        layers.insert(0, served.clone());
        let (tap, records) = Tap::new();
        let (tap, stop) = (Arc::new(tap), Arc::new(AtomicBool::new(false)));
        let observer = Arc::new(Observer { began: Instant::now(), tap: tap.clone() });
        let began_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (points, served) = (Vec::new(), served.name);
        let mut measured = Measured { volume, drive, served, began_unix, points };
        measured.has_none("too few writes: none since the start");
        let (is_stopped, clock) = (stop.clone(), observer.began);
        let run = move || {
            let models = || run(&mut measured, layers, (tap, records), clock, &is_stopped);
            if catch_unwind(AssertUnwindSafe(models)).is_err() {
                measured.end("a bug in HostFTL");
            }
        };
        let thread = thread::Builder::new().name("shadow".into()).spawn(run);
        thread.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(Shadowing { observer, stop })
    }

    /// Returns the observer for a server.
    pub(super) fn observer(&self) -> Arc<dyn RequestObserver> {
        self.observer.clone()
    }

    /// Ends the shadow without waiting: it may be creating its models, and the volume stops now.
    pub(super) fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Describes a volume as its status has it.
fn described(status: &Status) -> Volume {
    let (bytes, drive_bytes) = (status.exported_bytes, status.device_bytes);
    Volume { bytes, drive_bytes, filled: filled(status) }
}

/// Returns the share of the volume that holds data.
fn filled(status: &Status) -> f64 {
    let share = |bytes: u64| bytes as f64 / status.exported_bytes.max(1) as f64;
    status.space.as_ref().map_or(FILLED, |space| share(space.logical_bytes).min(1.0))
}

/// Returns the compressibility of the data, if the layer that serves the volume compresses it.
fn compressibility(status: &Status) -> Option<Compressibility> {
    let ratio = status.space.as_ref()?.compression_ratio?;
    Some(Compressibility::Ratio((ratio.max(1.0) * 1000.0) as u32))
}

/// Processes the queue until the stop.
fn run(
    measured: &mut Measured,
    layers: Vec<LayerSpec>,
    (tap, records): (Arc<Tap>, Receiver<Record>),
    clock: Instant,
    stop: &AtomicBool,
) {
    let Some((early, granularity)) = examined(&records, stop) else { return };
    let volume = described(&measured.volume.status());
    let made = spec(&volume, &measured.drive, layers, granularity).map_err(|wrong| wrong.text);
    let mut shadow = match made.and_then(|spec| Shadow::new(spec, tap)) {
        Ok(shadow) => shadow,
        Err(why) => return measured.end(&why),
    };
    let mut budget = Budget::new(CPU_SHARE, BURST);
    let mut published: Option<Instant> = None;
    let mut waiting = early.into_iter();
    while !stop.load(Ordering::Relaxed) {
        let mut count = 0;
        while let Some(record) = waiting.next().or_else(|| records.try_recv().ok()) {
            shadow.apply(&record);
            count += 1;
            if count % CHECK == 0 && budget.is_exceeded() {
                shadow.shrink();
                let percent = 100.0 * shadow.rate();
                let text = format!("shadow reduced to {percent:.3} % of the volume to save time");
                measured.volume.events().report(Level::Info, "note", text);
                budget = Budget::new(CPU_SHARE, BURST);
            }
        }
        if published.is_none_or(|at| at.elapsed() >= PUBLISH) {
            published = Some(Instant::now());
            measured.publish(&mut shadow, clock.elapsed().as_nanos() as u64);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns the first requests and the granularity of the writes among them, or `None` at the stop.
fn examined(records: &Receiver<Record>, stop: &AtomicBool) -> Option<(Vec<Record>, u32)> {
    let (mut early, mut grain, begin) = (Vec::new(), Grain::default(), Instant::now());
    while early.len() < EXAMINED && (early.is_empty() || begin.elapsed() < PATIENCE) {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let free = EXAMINED - early.len();
        early.extend(records.try_iter().take(free).inspect(|record| grain.see(record)));
        thread::sleep(PAUSE);
    }
    Some((early, grain.sectors()))
}

/// Processor time that this thread may still use.
pub(in crate::commands) struct Budget {
    /// Share of a processor.
    share: f64,
    /// Time by which a burst may exceed it, in seconds.
    burst: f64,
    checked: Instant,
    used: Duration,
    left: f64,
}

impl Budget {
    /// Starts a budget of a share of a processor, which a burst may exceed by `burst`.
    pub(in crate::commands) fn new(share: f64, burst: Duration) -> Self {
        let burst = burst.as_secs_f64();
        Budget { share, burst, checked: Instant::now(), used: Self::now(), left: burst }
    }

    fn now() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Returns whether the thread took more than its share. Time that it did not use is kept for a
    /// burst.
    pub(in crate::commands) fn is_exceeded(&mut self) -> bool {
        self.add(self.checked.elapsed(), Self::now() - self.used)
    }

    fn add(&mut self, passed: Duration, used: Duration) -> bool {
        (self.checked, self.used) = (self.checked + passed, self.used + used);
        let left = self.left + self.share * passed.as_secs_f64() - used.as_secs_f64();
        self.left = left.min(self.burst);
        self.left < 0.0
    }
}

/// The measured part of the figures.
struct Measured {
    volume: StatusHandle,
    drive: String,
    /// Name of the layer that serves the volume.
    served: String,
    /// Time 0 of the requests, since 1970.
    began_unix: Duration,
    /// Bytes written by clients and to the devices at points in time.
    points: Vec<(u64, u64, u64)>,
}

impl Measured {
    /// Publishes the reason why there are no figures.
    fn has_none(&self, why: &str) {
        let (drive, doubts) = (self.drive.clone(), vec![why.to_owned()]);
        let mut figures = ShadowStatus { drive, doubts, ..ShadowStatus::default() };
        figures.summary = figures.sentence("");
        self.volume.set_shadow(figures);
    }

    /// Reports the end of the shadow, which does not affect the volume.
    fn end(&self, why: &str) {
        let text = format!("the shadow ended: {why}");
        self.has_none(&text);
        self.volume.events().report(Level::Warning, "note", text);
    }

    /// Adds the current figures to the status.
    fn publish(&mut self, shadow: &mut Shadow, now_ns: u64) {
        let status = self.volume.status();
        if status.space.is_some() {
            shadow.set_used(filled(&status));
        }
        shadow.set_compress(compressibility(&status));
        let report = shadow.report();
        let waf_layer = self.waf_layer(&status, now_ns, report.since_ns);
        self.volume.set_shadow(self.figures(report, waf_layer));
    }

    /// Returns the bytes written to the devices per byte of the clients since `since_ns`.
    fn waf_layer(&mut self, status: &Status, now_ns: u64, since_ns: u64) -> Option<f64> {
        let traffic = status.traffic.as_ref()?;
        let (host, sent) = (traffic.host_write_bytes, traffic.device_write_bytes.total);
        // Only points from the last one before the period on are needed.
        let first = self.points.iter().rposition(|(at, ..)| *at <= since_ns).unwrap_or(0);
        self.points.drain(..first);
        self.points.push((now_ns, host, sent));
        if self.points.len() > POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        let (_, host_before, sent_before) = self.points[0];
        let host = host.checked_sub(host_before).filter(|host| *host > 0)?;
        Some(sent.saturating_sub(sent_before) as f64 / host as f64)
    }

    fn figures(&self, report: ShadowReport, waf_layer: Option<f64>) -> ShadowStatus {
        let served = report.candidates.iter().find(|it| it.layer == self.served);
        let waf_drive = served.and_then(|it| it.waf_drive);
        let mut figures = figures(report, &self.drive, self.began_unix);
        for it in &mut figures.candidates {
            it.served = it.layer == self.served;
        }
        figures.served_waf = waf_layer.zip(waf_drive).map(|(layer, drive)| layer * drive);
        let since = UNIX_EPOCH + Duration::from_millis(figures.since_unix_ms);
        let date = humantime::format_rfc3339_seconds(since).to_string();
        figures.summary = figures.sentence(&date[..16].replace('T', " "));
        figures
    }
}

/// Returns the figures of a report on `drive`, of requests since `began_unix`. No layer is marked
/// as the one that serves the volume.
pub(in crate::commands) fn figures(
    report: ShadowReport,
    drive: &str,
    began_unix: Duration,
) -> ShadowStatus {
    let since = began_unix + Duration::from_nanos(report.since_ns);
    let candidates = report.candidates.into_iter().map(|it| ShadowCandidate {
        served: false,
        layer: it.layer,
        waf: it.waf,
        error: it.error,
        relative: it.relative,
        relative_error: it.relative_error,
        failed: it.failed,
    });
    ShadowStatus {
        drive: drive.to_owned(),
        since_unix_ms: since.as_millis() as u64,
        sampled: report.rate,
        host_bytes: report.host_bytes,
        sampled_bytes: report.sampled_bytes,
        served_waf: None,
        candidates: candidates.collect(),
        doubts: report.doubts.iter().map(ToString::to_string).collect(),
        summary: String::new(),
    }
}

/// Passes requests to several observers.
pub(super) struct Several(pub Vec<Arc<dyn RequestObserver>>);

impl RequestObserver for Several {
    fn observe(&self, kind: RequestKind, offset: u64, bytes: u64) {
        self.0.iter().for_each(|observer| observer.observe(kind, offset, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_allows_bursts_but_no_more_than_its_share() {
        let (ms, mut budget) = (Duration::from_millis, Budget::new(CPU_SHARE, BURST));
        assert!(!budget.add(ms(0), ms(299)), "a burst");
        assert!(!(0..1000).any(|_| budget.add(ms(100), ms(3))), "its share");
        assert!((0..100).any(|_| budget.add(ms(100), ms(4))), "more than its share");
        let mut rested = Budget::new(CPU_SHARE, BURST);
        assert!(!rested.add(Duration::from_secs(3600), ms(0)));
        assert!(rested.add(ms(0), ms(301)), "a rest allows one burst");
    }
}
