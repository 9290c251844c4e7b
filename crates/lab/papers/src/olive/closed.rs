//! Closed forms: figures of the model that can be computed without a run.

use hostftl_lab_devices::olive::OliveSpec;

use super::bench::WRITES_PER_CHIP;

/// Sectors in 10^6 bytes.
const MEGABYTE: f64 = 1e6 / 512.0;

/// Returns the speed of reads: sequential from one chip in 10^6 bytes per second, or random from
/// all chips in thousands of requests per second. The slowest component determines it.
pub(super) fn reads(random: bool, kib: u32) -> f64 {
    let (spec, sectors) = (OliveSpec::default(), kib * 2);
    let [host, chip] = [spec.host_time(sectors, false), spec.chip_time(sectors, false)];
    let chips = if random { spec.chips as f64 } else { 1.0 };
    let each = (host as f64).max(chip as f64 / chips);
    if random { 1e6 / each } else { f64::from(sectors) / MEGABYTE * 1e9 / each }
}

/// Returns the gain of LightNVM over the block driver for writes on one chip or random ones, in a
/// closed network of chips with exponential times. The host's time is neglected.
pub(super) fn gain(random: bool) -> f64 {
    let spec = OliveSpec::default();
    let chips = if random { spec.chips } else { 1 };
    let speed = |writes| throughput(chips, writes, spec.commands);
    speed(WRITES_PER_CHIP) / speed(1)
}

/// Returns the throughput of a closed network of `stations` equal stations, in requests per service
/// time. Each station serves up to `servers` of the `requests` in progress at once (Buzen).
fn throughput(stations: usize, servers: usize, requests: usize) -> f64 {
    let mut one = vec![1.0; requests + 1];
    for busy in 1..=requests {
        one[busy] = one[busy - 1] / busy.min(servers) as f64;
    }
    let mut all = one.clone();
    for _ in 1..stations {
        let with = |total: usize| (0..=total).map(|here| one[here] * all[total - here]).sum();
        all = (0..=requests).map(with).collect();
    }
    stations as f64 * all[requests - 1] / all[requests]
}

/// Returns the range of the host's time for a further piece of a read, in ns, in which the
/// statements of section 4.2 hold: with 64 KiB, an interleave of 8 KiB is slower than one of 64
/// KiB, and 16 KiB is faster than 32 KiB.
pub(super) fn piece_times() -> [f64; 2] {
    let spec = OliveSpec::default();
    let chip = |kib: u32| spec.chip_time(kib * 2, false) as f64;
    // Eight pieces of 8 KiB use four chips twice each.
    [(chip(64) - 2.0 * chip(8)) / 7.0, (chip(32) - chip(16)) / 2.0]
}

/// Returns the speed of writes to raw chips in units of `kib` KiB, of which `data` KiB are data, in
/// 10^6 bytes per second, if the greatest number of commands is always in progress.
pub(super) fn strips(kib: u32, data: u32) -> f64 {
    let spec = OliveSpec::default();
    let busy = spec.commands.min(spec.chips * WRITES_PER_CHIP);
    let took = spec.chip_time(kib * 2, true) as f64;
    busy as f64 * f64::from(data * 2) / MEGABYTE * 1e9 / took
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-3
    }

    #[test]
    fn a_stream_waits_for_its_chip_and_random_reads_for_the_host() {
        // 70 + 4.75 · 128 µs of a chip, 88 + 2.1 · 128 µs of the host.
        assert!(near(reads(false, 128), 131.072 / 0.678), "{}", reads(false, 128));
        assert!(near(reads(true, 128), 1.0 / 0.3568), "{}", reads(true, 128));
        assert!(near(reads(false, 4), 4.096 / 0.0964), "the host is slower than a chip there");
    }

    #[test]
    fn a_stream_gains_two_and_six_random_writes_less() {
        assert!(near(gain(false), 2.0));
        // With one server each, n requests keep n/(n + 3) of four stations busy.
        assert!(near(throughput(4, 1, 6), 4.0 * 6.0 / 9.0));
        assert!(near(throughput(4, 6, 6), 6.0), "no request waits");
        assert!((1.6..1.9).contains(&gain(true)), "{}", gain(true));
    }

    #[test]
    fn a_further_piece_takes_the_host_a_time_in_its_range() {
        let [low, high] = piece_times();
        assert!(near(low, 158e3 / 7.0) && near(high, 38e3));
        let taken = OliveSpec::default().piece_time as f64;
        assert!((taken - (low + high) / 2.0).abs() < 1e3, "the middle");
    }

    #[test]
    fn strips_keep_the_commands_busy() {
        assert!(near(strips(64, 60), 6.0 * 61.44 / 4.169));
        assert!(near(strips(4, 4), 6.0 * 4.096 / 0.685));
    }
}
