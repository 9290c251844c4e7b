//! The effect of placement on Tables 3 and 4, by closed forms and by a run in which each request
//! goes to the next chip as a whole.
//!
//! `rrpc` of HostFTL gathers writes into strips, which go to the chips in rotation. The original
//! sends each request as it arrives. On the board, the interleave is below LightNVM, so reads
//! behave as under the block driver.

use hostftl_lab_devices::olive::OliveSpec;
use hostftl_trace::Op;

use super::SIZES;
use super::bench::{Bench, DEPTH, Driver, Walk};
use crate::{Band, Cell, Check, Error, Findings, Known, Sheet};

/// Sectors of a strip of `rrpc` with its defaults, and the number of them for data. The last block
/// is the strip's listing.
const STRIP: (u32, u32) = (128, 120);

/// Sectors in 10^6 bytes.
const MEGABYTE: f64 = 1e6 / 512.0;

/// Queue depths to try, because the paper does not state one.
const DEPTHS: [u32; 6] = [2, 3, 4, 6, 8, 16];

/// Tolerance of a gain in per cent of the published one.
pub(super) const NEAR: f64 = 15.0;

/// Returns the read speed with the data layout of the block driver: sequential from one chip in
/// 10^6 bytes per second, or random from all chips in thousands of requests per second. The slowest
/// component determines it.
pub(super) fn reads(random: bool, kib: u32) -> f64 {
    let (spec, sectors) = (OliveSpec::default(), kib * 2);
    let [host, chip] = [spec.host_time(sectors, false), spec.chip_time(sectors, false)];
    let chips = if random { spec.chips as f64 } else { 1.0 };
    let each = (host as f64).max(chip as f64 / chips);
    if random { 1e6 / each } else { f64::from(sectors) / MEGABYTE * 1e9 / each }
}

/// Returns the gain of writing in strips over the block driver if all chips are always busy. For
/// the block driver's random writes, the number of busy chips is that of a closed network of equal
/// chips with exponential times. A sequential stream keeps one chip busy.
pub(super) fn strips(random: bool, kib: u32) -> f64 {
    let (spec, sectors) = (OliveSpec::default(), kib * 2);
    let (chips, depth) = (spec.chips as f64, f64::from(DEPTH));
    let speed = |sectors: u32, took: u64| f64::from(sectors) / took as f64;
    let block = if random {
        chips * depth / (depth + chips - 1.0) * speed(sectors, spec.elsewhere_time(sectors))
    } else {
        speed(sectors, spec.chip_time(sectors, true))
    };
    let (whole, data) = STRIP;
    chips * speed(data, spec.chip_time(whole, true)) / block
}

/// Adds the gains of LightNVM's writes by placement, and the claim that random writes reach the
/// published gain if requests are not split.
pub(super) fn add(findings: &mut Findings, rows: &[Gains; 2], seed: u64) -> Result<(), Error> {
    let mut sheet = Sheet::new("Gains of writes under LightNVM, by placement")
        .words(["writes"])
        .input(["KiB"])
        .published(["published"])
        .ours(["ours: rrpc, strips in turns"])
        .computed(["computed: strips, all chips busy"])
        .ours(["ours: each request whole, in turns"]);
    let mut alone = [[0.0; 3]; 2];
    for (gains, alone) in rows.iter().zip(&mut alone) {
        for (size, kib) in SIZES.into_iter().enumerate() {
            alone[size] = writes(Walk::InTurns, kib, DEPTH, seed)? / gains.block[size];
            sheet.row([
                gains.name.into(),
                Cell::Number(f64::from(kib), 0),
                Cell::Number(gains.published[size], 2),
                Cell::Number(gains.ours[size], 2),
                Cell::Number(strips(gains.random, kib), 2),
                Cell::Number(alone[size], 2),
            ]);
        }
    }
    findings.sheets.push(sheet);
    let mean = |row: [f64; 3]| row.iter().sum::<f64>() / 3.0;
    let known = Known::new(mean(rows[1].published), "Table 4, mean of its three sizes");
    let claim = "mean gain of random writes when each request goes whole to the next chip";
    findings.checks.push(Check::near_published(claim, known, mean(alone[1]), 15.0));
    findings.notes.push(format!(
        "Source of our gains of writes: strips of 64 KiB, of which 60 KiB are data, on four \
         chips. If each request goes whole to the next chip instead, as in the original, the mean \
         gain is {:.2} for random writes (published {:.2}) and {:.2} for sequential writes \
         (published {:.2}).",
        mean(alone[1]),
        mean(rows[1].published),
        mean(alone[0]),
        mean(rows[0].published),
    ));
    by_depth(findings, rows, seed)
}

/// Returns the writes per second without splitting: to the chips in rotation, or in the layout of
/// the block driver.
fn writes(walk: Walk, kib: u32, depth: u32, seed: u64) -> Result<f64, Error> {
    let (spec, driver) = (OliveSpec::default(), Driver::Block);
    let bench = Bench { spec, op: Op::Write, walk, sectors: kib * 2, driver, depth };
    Ok(bench.run(seed)?.iops)
}

/// Adds the gains by queue depth if each request goes to the next chip as a whole.
fn by_depth(findings: &mut Findings, rows: &[Gains; 2], seed: u64) -> Result<(), Error> {
    let title = "Gains when each request goes whole to the next chip, by queue depth";
    let mut sheet = Sheet::new(title)
        .words(["writes"])
        .input(["KiB"])
        .published(["published"])
        .ours(DEPTHS.map(|depth| format!("ours, {depth}")));
    let mut near = [0; DEPTHS.len()];
    for gains in rows {
        for (size, kib) in SIZES.into_iter().enumerate() {
            let published = gains.published[size];
            let block = if gains.random { Walk::Random } else { Walk::OneChip };
            let mut row = vec![gains.name.into(), Cell::Number(f64::from(kib), 0)];
            row.push(Cell::Number(published, 2));
            for (depth, near) in DEPTHS.into_iter().zip(&mut near) {
                let gain =
                    writes(Walk::InTurns, kib, depth, seed)? / writes(block, kib, depth, seed)?;
                row.push(Cell::Number(gain, 2));
                *near += u32::from(Band::around(published, NEAR).holds(gain));
            }
            sheet.row(row);
        }
    }
    findings.sheets.push(sheet);
    let claim = "gains of Table 4, of 6, within 15 % when each request goes whole, the most of \
                 any number under way";
    let most = near.iter().copied().fold(0, u32::max);
    let at = near.iter().position(|it| *it == most).expect("a maximum exists");
    let check = Check::new(claim, f64::from(most), Band::AtLeast(5.0));
    findings.checks.push(check.published(Known::new(6.0, "Table 4")).because(format!(
        "reached at queue depth {}, which the paper does not state; the random writes of the \
         block driver need a higher depth for their speed in Table 4, and the published random \
         writes of 128 KiB are faster than four chips",
        DEPTHS[at],
    )));
    Ok(())
}

/// Gains of LightNVM over the block driver, at 4, 64 and 128 KiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gains {
    /// Name of the pattern.
    pub name: &'static str,
    /// Whether it is random.
    pub random: bool,
    /// Gains in Table 4.
    pub published: [f64; 3],
    /// Gains of the experiment.
    pub ours: [f64; 3],
    /// Speed of the block driver in the experiment, in requests per second.
    pub block: [f64; 3],
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
    fn strips_gain_from_four_chips_and_longer_writes() {
        // 60 KiB in 4169 µs on four chips, compared with 4 KiB in 685 µs on one.
        assert!(near(strips(false, 4), 4.0 * (60.0 / 4169.0) / (4.0 / 685.0)));
        // With random writes, 32/11 of the four chips are busy, and each write takes a third
        // longer.
        let block = 32.0 / 11.0 * 128.0 / (5274.0 * 4.0 / 3.0);
        assert!(near(strips(true, 128), 4.0 * (60.0 / 4169.0) / block));
    }
}
