//! Status of volumes as OpenMetrics text. Sizes are in bytes, times in seconds.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;

use hostftl_volume::{
    DeviceStatus, DriveStatus, Latency, Memory, ShadowCandidate, ShadowStatus, Space, Status,
    Traffic,
};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Prefix of the first line of a metric.
const BEGIN: &str = "# HELP ";
/// Last line of the text.
const END: &str = "# EOF";

type Labels = Vec<(String, String)>;
type Level = Gauge<f64, AtomicU64>;
/// Reads a value from the SMART data of a drive.
type Figure = fn(&DriveStatus) -> Option<f64>;
/// Name of a metric, its help and its value.
type DriveMetric = (&'static str, &'static str, Figure);

/// Returns the text for a scraper: each metric once, with the samples of all volumes.
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

/// Returns OpenMetrics text in the older text format of Prometheus, in which the head of a counter
/// has the name of its samples.
pub(super) fn classic(text: &str) -> String {
    let counter =
        |line: &str| Some(line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?.to_owned());
    let counters: Vec<String> = text.lines().filter_map(counter).collect();
    let lines = text.lines().filter(|line| *line != END).map(|line| {
        let Some((kind, rest)) =
            ["# HELP ", "# TYPE "].iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)))
        else {
            return format!("{line}\n");
        };
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let suffix = if counters.iter().any(|it| it == name) { "_total" } else { "" };
        format!("{kind}{name}{suffix} {rest}\n")
    });
    lines.collect()
}

/// Lines of one metric.
#[derive(Default)]
struct Metric<'a> {
    head: Vec<&'a str>,
    samples: Vec<&'a str>,
}

/// Returns the text of one volume.
fn emit_one(status: &Status) -> String {
    let labels = [("volume", name(status)), ("layer", status.layer.clone())];
    let labels = labels.map(|(key, value)| (key.into(), value.into()));
    let mut sheet = MetricsText(Registry::with_prefix_and_labels("hostftl", labels.into_iter()));
    // A gauge, because the older text format has no info metrics.
    let program = (label("version", env!("CARGO_PKG_VERSION")), 1.0);
    sheet.levels("build_info", "Version of the program that serves the volume", [program]);
    volume(&mut sheet, status);
    if let Some(space) = &status.space {
        self::space(&mut sheet, space);
    }
    devices(&mut sheet, &status.devices);
    if let Some(traffic) = &status.traffic {
        self::traffic(&mut sheet, traffic);
    }
    if let Some(shadow) = &status.shadow {
        self::shadow(&mut sheet, shadow);
    }
    let help = "Time in the layer and its devices until requests were answered";
    let latencies = Latencies(status.latencies.clone());
    sheet.0.register_with_unit("request_duration", help, Unit::Seconds, latencies);
    let events = status.events.iter().map(|(kind, count)| (label("kind", kind), *count));
    sheet.totals("events", "Events since the start, by kind", events);
    let needs = status.problems.len() as f64;
    sheet.level("problems", "Problems that need an operator", needs);
    let mut text = String::new();
    encode(&mut text, &sheet.0).expect("writing to a string succeeds");
    text
}

/// Returns the label of a volume, or its UUID.
fn name(status: &Status) -> String {
    if status.label.is_empty() { status.uuid.clone() } else { status.label.clone() }
}

/// Registry of one volume.
struct MetricsText(Registry);

impl MetricsText {
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

fn volume(sheet: &mut MetricsText, status: &Status) {
    let degraded = f64::from(u8::from(status.degraded));
    sheet.level("degraded", "1 if a device is missing, lost or faulted", degraded);
    sheet.level("usable_bytes", "Size of the export", status.exported_bytes as f64);
    let devices = status.device_bytes as f64;
    sheet.level("device_bytes", "Total size of the devices, without the journal", devices);
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
    sheet.levels("memory_stated_bytes", "Planned memory, by part", stated);
    if let Some(used) = status.memory.resident_bytes {
        sheet.level("memory_resident_bytes", "Resident memory of the process", used as f64);
    }
}

fn space(sheet: &mut MetricsText, space: &Space) {
    let logical = space.logical_bytes as f64;
    sheet.level("logical_bytes", "Valid data as the host sees it, without zero blocks", logical);
    let physical = space.physical_bytes as f64;
    sheet.level("physical_bytes", "Valid data as stored, without parity", physical);
    let free = space.free_bytes as f64;
    sheet.level("free_bytes", "Free space before the next garbage collection", free);
    sheet.level(
        "reclaimable_bytes",
        "Invalid data that garbage collection can reclaim",
        space.reclaimable_bytes as f64,
    );
    if let Some(ratio) = space.compression_ratio {
        sheet.level("compression_ratio", "Compression ratio since the start", ratio);
    }
    sheet.total("repaired_reads", "Reads repaired from parity", space.repaired_reads);
    let lost = space.lost_blocks as f64;
    sheet.level("lost_blocks", "Blocks that cannot be reconstructed", lost);
    let exposed = space.degraded_bytes as f64;
    sheet.level("degraded_bytes", "Valid data that lacks redundancy", exposed);
    let unreadable = space.unreadable_bytes as f64;
    sheet.level(
        "unreadable_bytes",
        "Valid data that lacks more chunks than parity can reconstruct",
        unreadable,
    );
    if let Some(most) = space.capacity_bytes {
        let most = most as f64;
        sheet.level("capacity_bytes", "Limit of physical_bytes: writes above it fail", most);
    }
    let tolerated = f64::from(space.failures_tolerated);
    sheet.level("failures_tolerated", "Further device failures without data loss", tolerated);
}

fn devices(sheet: &mut MetricsText, devices: &[DeviceStatus]) {
    let label = |index: usize| {
        let name = devices[index].name.clone();
        vec![("index".to_owned(), index.to_string()), ("device".to_owned(), name)]
    };
    let all = || devices.iter().enumerate();
    let sent = all().map(|(index, one)| (label(index), one.written_bytes));
    sheet.totals("device_written_bytes", "Bytes written to a device", sent);
    let read = all().map(|(index, one)| (label(index), one.read_bytes));
    sheet.totals("device_read_bytes", "Bytes read from a device", read);
    let errors = all().map(|(index, one)| (label(index), one.errors));
    sheet.totals("device_errors", "Failed commands of a device", errors);
    let failing = |one: &DeviceStatus| ["failing", "faulted"].contains(&one.health.as_str());
    let fails = all().map(|(index, one)| (label(index), f64::from(u8::from(failing(one)))));
    sheet.levels("device_failing", "1 if reads of a device fail repeatedly", fails);
    let good = |one: &DeviceStatus| f64::from(u8::from(one.health == "online"));
    let health = all().map(|(index, one)| (label(index), good(one)));
    sheet.levels("device_online", "1 if a device is present and had no errors", health);
    let drive = |what: Figure| {
        all().filter_map(move |(index, one)| Some((label(index), what(one.drive.as_ref()?)?)))
    };
    let all_metrics: [DriveMetric; 5] = [
        ("drive_celsius", "Temperature of a drive", |it| it.celsius.map(f64::from)),
        ("drive_used_ratio", "Used share of the rated life", |it| {
            it.used_percent.map(|percent| f64::from(percent) / 100.0)
        }),
        ("drive_years_left", "Years until the rated life is used, at this rate", |it| {
            it.years_left
        }),
        ("drive_written_bytes", "Host writes over the life of a drive", |it| {
            it.written_bytes.map(|bytes| bytes as f64)
        }),
        ("drive_media_written_bytes", "Media writes over the life of a drive", |it| {
            it.media_written_bytes.map(|bytes| bytes as f64)
        }),
    ];
    all_metrics.into_iter().for_each(|(name, help, what)| sheet.levels(name, help, drive(what)));
}

fn traffic(sheet: &mut MetricsText, traffic: &Traffic) {
    sheet.total("requests", "Requests answered", traffic.requests_answered);
    sheet.total("requests_failed", "Requests answered with an error", traffic.requests_failed);
    sheet.total("host_read_bytes", "Bytes read by clients", traffic.host_read_bytes);
    sheet.total("host_written_bytes", "Bytes written by clients", traffic.host_write_bytes);
    sheet.total("host_trimmed_bytes", "Bytes trimmed by clients", traffic.host_trim_bytes);
    sheet.total("host_flushes", "Flushes by clients", traffic.flushes);
    let steps = traffic.write_path.iter();
    let known = steps.filter_map(|it| Some((label("step", &it.step), it.bytes?)));
    sheet.totals("written_bytes", "Bytes at each step from the host to the flash", known);
    if let Some(waf) = traffic.waf_layer {
        sheet.level("waf_layer", "Write amplification: device writes per host write", waf);
    }
    sheet.total("gc_runs", "Segments reclaimed by garbage collection", traffic.gc_runs);
    sheet.total("device_flushes", "Flushes sent to devices", traffic.device_flushes);
}

/// Adds the figures of the shadow. The candidates are those of the command line.
fn shadow(sheet: &mut MetricsText, shadow: &ShadowStatus) {
    let figure = |figure: fn(&ShadowCandidate) -> Option<f64>| {
        let all = shadow.candidates.iter();
        all.filter_map(move |it| Some((label("candidate", &it.layer), figure(it)?)))
    };
    let help = "Modelled bytes written to flash per host byte";
    sheet.levels("shadow_waf", help, figure(|it| it.waf));
    let help = "Half of the 95 % interval of shadow_waf";
    sheet.levels("shadow_waf_error", help, figure(|it| it.error));
    let help = "Modelled bytes written to flash relative to no layer";
    sheet.levels("shadow_relative", help, figure(|it| it.relative));
    if let Some(waf) = shadow.served_waf {
        let help = "Measured write amplification of the layer times that of the modelled drive";
        sheet.level("shadow_served_waf", help, waf);
    }
    sheet.level("shadow_sampled_ratio", "Share of the volume that is sampled", shadow.sampled);
    let doubts = shadow.doubts.len() as f64;
    sheet.level("shadow_doubts", "Reasons not to trust the figures of the shadow", doubts);
}

/// Latencies as one histogram for each kind of request.
#[derive(Debug)]
struct Latencies(Vec<Latency>);

impl EncodeMetric for Latencies {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        for it in &self.0 {
            let seconds = |nanos: u64| nanos as f64 / 1e9;
            // The encoder expects the requests of each bucket alone.
            let (mut buckets, mut below) = (Vec::new(), 0);
            for bucket in &it.buckets {
                buckets.push((seconds(bucket.up_to_ns), bucket.count - below));
                below = bucket.count;
            }
            buckets.push((f64::INFINITY, it.count - below));
            let labels = label("request", &it.request);
            let mut encoder = encoder.encode_family(&labels)?;
            let exemplars = None::<&HashMap<usize, Exemplar<Labels, f64>>>;
            encoder.encode_histogram(seconds(it.sum_ns), it.count, &buckets, exemplars)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use hostftl_volume::LatencyBucket;

    use super::*;

    #[test]
    fn a_shadow_has_a_series_for_each_candidate() {
        let candidate = |layer: &str, waf, error| ShadowCandidate {
            layer: layer.into(),
            waf,
            error,
            ..ShadowCandidate::default()
        };
        let candidates =
            vec![candidate("passthrough", Some(3.4), Some(0.2)), candidate("log", None, None)];
        let doubts = vec!["too few writes".into()];
        let shadow = ShadowStatus { candidates, doubts, ..ShadowStatus::default() };
        let text = emit(&[Status { shadow: Some(shadow), ..Status::default() }]);
        let sample = |name: &str| {
            let is_it = |line: &&str| line.starts_with(&format!("{name}{{"));
            text.lines().filter(is_it).count()
        };
        assert!(text.contains("candidate=\"passthrough\"} 3.4\n"), "{text}");
        let names = ["hostftl_shadow_waf", "hostftl_shadow_waf_error", "hostftl_shadow_served_waf"];
        assert_eq!(names.map(sample), [1, 1, 0]);
        assert!(text.contains("hostftl_shadow_doubts{"), "{text}");
        assert!(!emit(&[Status::default()]).contains("shadow"));
    }

    #[test]
    fn latencies_are_a_histogram_of_each_kind_of_request() {
        let bucket = |up_to_ns, count| LatencyBucket { up_to_ns, count };
        let write = Latency {
            request: "write".into(),
            count: 9,
            sum_ns: 12_500_000,
            buckets: vec![bucket(1_000_000, 4), bucket(2_000_000, 7)],
            ..Latency::default()
        };
        let status = Status { latencies: vec![write], ..Status::default() };
        let text = emit(&[status]);
        let name = "hostftl_request_duration_seconds";
        assert!(text.contains(&format!("# TYPE {name} histogram\n")), "{text}");
        let sample = |part: &str| {
            let is_it = |line: &&str| {
                line.starts_with(name) && line.contains("request=\"write\"") && line.contains(part)
            };
            let line = text.lines().find(is_it).unwrap_or_else(|| panic!("no {part} in {text}"));
            line.rsplit_once(' ').expect("a sample").1.to_owned()
        };
        let parts = ["le=\"0.001\"", "le=\"0.002\"", "le=\"+Inf\"", "_count{", "_sum{"];
        assert_eq!(parts.map(sample), ["4", "7", "9", "9", "0.0125"]);
    }
}
