//! The status of volumes as metrics. Sizes are in bytes, times in seconds.

use std::sync::atomic::AtomicU64;

use hostftl_volume::{DeviceStatus, DriveStatus, Latency, Memory, Space, Status, Traffic};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How the lines about a metric begin.
const BEGIN: &str = "# HELP ";
/// The last line.
const END: &str = "# EOF";

type Labels = Vec<(String, String)>;
type Level = Gauge<f64, AtomicU64>;
/// What is read off a drive.
type Figure = fn(&DriveStatus) -> Option<f64>;
/// The name of a metric, its help, and what it shows.
type Told = (&'static str, &'static str, Figure);

/// The text that a scraper gets: each metric once, with the samples of all volumes.
pub(super) fn emit(all: &[Status]) -> String {
    let texts: Vec<_> = all.iter().map(emit_one).collect();
    let mut metrics: Vec<Metric<'_>> = Vec::new();
    for text in &texts {
        let mut at = 0;
        for line in text.lines().filter(|line| *line != END) {
            if line.starts_with(BEGIN) {
                let known = metrics.iter().position(|it| it.head.first() == Some(&line));
                at = known.unwrap_or(metrics.len());
                metrics.resize_with(metrics.len().max(at + 1), Metric::default);
            }
            let Metric { head, samples } = &mut metrics[at];
            match line.starts_with('#') {
                true if head.contains(&line) => {}
                true => head.push(line),
                false => samples.push(line),
            }
        }
    }
    let lines = metrics.iter().flat_map(|it| it.head.iter().chain(&it.samples)).copied();
    lines.chain([END]).map(|line| format!("{line}\n")).collect()
}

/// The lines about a metric.
#[derive(Default)]
struct Metric<'a> {
    head: Vec<&'a str>,
    samples: Vec<&'a str>,
}

/// The same of one volume.
fn emit_one(status: &Status) -> String {
    let labels = [("volume", name(status)), ("layer", status.layer.clone())];
    let labels = labels.map(|(key, value)| (key.into(), value.into()));
    let mut sheet = Sheet(Registry::with_prefix_and_labels("hostftl", labels.into_iter()));
    volume(&mut sheet, status);
    if let Some(space) = &status.space {
        self::space(&mut sheet, space);
    }
    devices(&mut sheet, &status.devices);
    if let Some(traffic) = &status.traffic {
        self::traffic(&mut sheet, traffic);
    }
    latencies(&mut sheet, &status.latencies);
    let events = status.events.iter().map(|(kind, count)| (label("kind", kind), *count));
    sheet.totals("events", "Events, by kind", events);
    let needs = status.needs_hand.len() as f64;
    sheet.level("needs_hand", "Problems that an operator should act on", needs);
    let mut text = String::new();
    encode(&mut text, &sheet.0).expect("a string takes everything");
    text
}

/// What a volume is called.
fn name(status: &Status) -> String {
    if status.label.is_empty() { status.uuid.clone() } else { status.label.clone() }
}

/// Where metrics are written down.
struct Sheet(Registry);

impl Sheet {
    fn level(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Level::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    fn levels(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Level>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.0.register(name, help, family);
    }

    fn total(&mut self, name: &str, help: &str, value: u64) {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        self.0.register(name, help, counter);
    }

    fn totals(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }
}

fn label(key: &str, value: &str) -> Labels {
    vec![(key.into(), value.into())]
}

fn volume(sheet: &mut Sheet, status: &Status) {
    let degraded = f64::from(u8::from(status.degraded));
    sheet.level("degraded", "Whether the volume runs without a device", degraded);
    sheet.level("usable_bytes", "What clients see", status.exported_bytes as f64);
    sheet.level("device_bytes", "What the devices have together", status.device_bytes as f64);
    let Memory { map_bytes, meta_bytes, arena_bytes, clients_bytes, fixed_bytes, .. } =
        status.memory;
    let parts = [
        ("map", map_bytes),
        ("metadata", meta_bytes),
        ("buffers", arena_bytes),
        ("clients", clients_bytes),
        ("fixed", fixed_bytes),
    ];
    let stated = parts.map(|(part, bytes)| (label("part", part), bytes as f64));
    sheet.levels("memory_stated_bytes", "Memory that the volume said it needs", stated);
    if let Some(used) = status.memory.used_bytes {
        sheet.level("memory_used_bytes", "Memory that the process has in use", used as f64);
    }
}

fn space(sheet: &mut Sheet, space: &Space) {
    let logical = space.logical_bytes as f64;
    sheet.level("logical_bytes", "Written and not trimmed, zeros apart", logical);
    let physical = space.physical_bytes as f64;
    sheet.level("physical_bytes", "What that takes on the devices, parity apart", physical);
    let free = space.free_bytes as f64;
    sheet.level("free_bytes", "What can be written before garbage collection", free);
    sheet.level("stale_bytes", "What garbage collection could gain", space.stale_bytes as f64);
    if let Some(ratio) = space.compression_ratio {
        sheet.level("compression_ratio", "Bytes compressed over what became of them", ratio);
    }
    sheet.total("repaired", "Reads repaired from parity", space.repaired);
    let lost = space.beyond_repair as f64;
    sheet.level("blocks_beyond_repair", "Blocks that are lost: nothing can rebuild them", lost);
    let exposed = space.exposed_bytes as f64;
    sheet.level("exposed_bytes", "What the loss of another device would take along", exposed);
    let unreadable = space.unreadable_bytes as f64;
    sheet.level(
        "unreadable_bytes",
        "What may lack more chunks than parity makes up for",
        unreadable,
    );
    if let Some(most) = space.capacity_bytes {
        sheet.level("capacity_bytes", "Physical bytes at which writes are refused", most as f64);
    }
    let may_lose = f64::from(space.may_lose);
    sheet.level("may_lose_devices", "Devices that the volume can do without now", may_lose);
}

fn devices(sheet: &mut Sheet, devices: &[DeviceStatus]) {
    let of = |index: usize| {
        let name = devices[index].name.clone();
        vec![("index".to_owned(), index.to_string()), ("device".to_owned(), name)]
    };
    let all = || devices.iter().enumerate();
    let sent = all().map(|(index, one)| (of(index), one.sent_bytes));
    sheet.totals("device_sent_bytes", "Bytes written to a device", sent);
    let read = all().map(|(index, one)| (of(index), one.read_bytes));
    sheet.totals("device_read_bytes", "Bytes read from a device", read);
    let errors = all().map(|(index, one)| (of(index), one.errors));
    sheet.totals("device_errors", "Commands of a device that failed", errors);
    let failing = |one: &DeviceStatus| ["failing", "faulted"].contains(&one.health.as_str());
    let fails = all().map(|(index, one)| (of(index), f64::from(u8::from(failing(one)))));
    sheet.levels("device_failing", "Whether reads of a device fail repeatedly", fails);
    let good = |one: &DeviceStatus| f64::from(u8::from(one.health == "good"));
    let health = all().map(|(index, one)| (of(index), good(one)));
    sheet.levels("device_good", "Whether a device is there and had no errors", health);
    let drive = |what: Figure| {
        all().filter_map(move |(index, one)| Some((of(index), what(one.drive.as_ref()?)?)))
    };
    let told: [Told; 5] = [
        ("drive_celsius", "How warm a drive is", |it| it.celsius.map(f64::from)),
        ("drive_used_ratio", "The share of its rated life that is used", |it| {
            it.used_percent.map(|percent| f64::from(percent) / 100.0)
        }),
        ("drive_years_left", "Years until it is used, at the pace so far", |it| it.years_left),
        ("drive_written_bytes", "Bytes that hosts wrote since a drive was made", |it| {
            it.written_bytes.map(|bytes| bytes as f64)
        }),
        ("drive_media_written_bytes", "Bytes that a drive wrote to its flash", |it| {
            it.media_written_bytes.map(|bytes| bytes as f64)
        }),
    ];
    told.into_iter().for_each(|(name, help, what)| sheet.levels(name, help, drive(what)));
}

fn traffic(sheet: &mut Sheet, traffic: &Traffic) {
    sheet.total("requests", "Requests answered", traffic.requests_out);
    sheet.total("requests_failed", "Requests answered with an error", traffic.requests_failed);
    sheet.total("host_read_bytes", "Bytes that clients read", traffic.host_read_bytes);
    sheet.total("host_written_bytes", "Bytes that clients wrote", traffic.host_write_bytes);
    sheet.total("host_trimmed_bytes", "Bytes that clients trimmed", traffic.host_trim_bytes);
    sheet.total("host_flushes", "Flushes of clients", traffic.flushes);
    let steps = traffic.waf_stack.iter();
    let known = steps.filter_map(|it| Some((label("step", &it.step), it.bytes?)));
    sheet.totals("written_bytes", "From clients to devices: bytes at each step", known);
    if let Some(waf) = traffic.waf_layer {
        sheet.level("waf_layer", "Bytes sent to the devices over bytes of clients", waf);
    }
    sheet.total("collections", "Victims of garbage collection", traffic.gc_runs);
    sheet.total("device_flushes", "Flushes of devices", traffic.device_flushes);
}

fn latencies(sheet: &mut Sheet, list: &[Latency]) {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let quantiles = |it: &Latency| {
        let all =
            [("0.5", it.p50_ns), ("0.99", it.p99_ns), ("0.999", it.p999_ns), ("1", it.longest_ns)];
        let request = it.request.clone();
        all.map(|(quantile, nanos)| {
            let quantile = ("quantile".into(), quantile.into());
            (vec![("request".into(), request.clone()), quantile], seconds(nanos))
        })
    };
    let help = "How long requests took in the layer and its devices, since the start";
    sheet.levels("latency_seconds", help, list.iter().flat_map(quantiles));
    let counts = list.iter().map(|it| (label("request", &it.request), it.count));
    sheet.totals("answers", "Requests answered, by kind", counts);
}
