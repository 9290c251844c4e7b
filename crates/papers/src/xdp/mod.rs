//! A log array over several SSDs: compression, RAID 5, and what the drives are still sent.
//!
//! Source: the published measurement of an XDP card (Pliops): fio's random 4 KiB writes that
//! compress by two thirds, 23.05 TB written as 7.86 TB.

mod array;
mod files;

use hostftl_report::Bars;

use crate::{Band, Cell, Check, Error, Findings, Options, Sheet, Watch};
use array::{Lab, Outcome};
use files::Real;

/// Bytes of a block, and how many of them fio makes random at 67 per cent.
const BLOCK: usize = 4096;
const RANDOM: usize = BLOCK * (100 - 67) / 100;
/// Bytes written, and bytes stored, in TB.
const PUBLISHED: [f64; 2] = [23.05, 7.86];
/// Random 4 KiB writes in a second of the array, which are more than a single drive is rated for.
const PUBLISHED_IOPS: f64 = 215_000.0;
/// Parts of the experiment that take time.
const PARTS: usize = 4;

/// Makes the experiment.
///
/// # Errors
/// When the files can't be made or written, or nobody waits.
pub fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let mut findings = Findings::new("XDP: a log array with compression and RAID 5");
    watch.progress("fio's job on files", 0, PARTS);
    let real = files::measure(options, watch)?;
    let measure = |(index, kind): (usize, Lab)| {
        watch.progress(kind.name(), index + 1, PARTS);
        array::measure(kind, options, watch)
    };
    let labs = Lab::ALL.into_iter().enumerate().map(measure);
    let labs = labs.collect::<Result<Vec<_>, _>>()?;
    let labs: &[Outcome; 3] = labs.as_array().expect("one for each");
    watch.progress("done", PARTS, PARTS);
    setting(&mut findings, &real, labs);
    findings.sheets.push(ratios(&real));
    findings.sheets.push(steps(&real));
    findings.sheets.push(speeds(labs));
    let names = labs.each_ref().map(|lab| lab.kind.name());
    let speeds = labs.each_ref().map(|lab| lab.iops);
    let title = "Random 4 KiB writes on modelled TLC drives, 2048 under way";
    let bars = Bars::new(title, &names, |value| format!("{value:.0}/s"));
    findings.figures.push(bars.series("requests", &speeds).figure());
    checks(&mut findings, &real, labs);
    findings.violations.extend(labs.iter().filter_map(|lab| lab.violation.clone()));
    findings.lead = format!(
        "Stored at {:.3} to 1 (published {:.3}); with parity and collection the drives are sent \
         {:.3} bytes for each byte of the host.",
        real.ratio(),
        PUBLISHED[0] / PUBLISHED[1],
        real.sent_per_byte()
    );
    Ok(findings)
}

fn setting(findings: &mut Findings, real: &Real, labs: &[Outcome; 3]) {
    let mib = real.exported >> 20;
    let setting = &mut findings.setting;
    setting.push(format!(
        "fio's job (random 4 KiB writes over the whole volume, buffer_compress_percentage=67: \
         {RANDOM} random bytes and {} zeros in each block, made anew each time) against a real \
         volume of {mib} MiB over four files, layer log with lz4 and parity. Scaled: each block \
         once in order, then as many random writes as there are blocks; one client with {} under \
         way instead of 16 × 128, and without the network block device between.",
        BLOCK - RANDOM,
        files::DEPTH
    ));
    setting.push(format!(
        "In the laboratory: model `{}`, 3 + 1 of them; 2048 requests under way, {} measured after \
         each space was filled and overwritten at random. Blocks compress to 1352 bytes. The \
         host's own work (compression, copies, parity) takes modelled time, on as many cores as \
         it needs.",
        array::DRIVE,
        labs[0].requests
    ));
    setting.push(
        "Our RAID 5 writes whole stripes when a request has them; a smaller write is two reads \
         and two writes. It has no journal, so it does less than a real one."
            .into(),
    );
}

fn ratios(real: &Real) -> Sheet {
    let heads = ["bytes written / bytes stored", "published", "ours", "off"];
    let mut sheet = Sheet::new("Compression", &heads);
    let ideal = BLOCK as f64 / RANDOM as f64;
    let published = PUBLISHED[0] / PUBLISHED[1];
    let number = |value| Cell::Number(value, 3);
    sheet.row([
        "fio's random bytes alone".into(),
        number(3.032),
        number(ideal),
        Cell::off(3.032, ideal),
    ]);
    let ours = real.ratio();
    sheet.row(["stored".into(), number(published), number(ours), Cell::off(published, ours)]);
    sheet
}

fn steps(real: &Real) -> Sheet {
    let heads = ["step", "MiB", "for each byte of the host"];
    let mut sheet = Sheet::new("From the host to the drives, random writes only", &heads);
    for (name, bytes) in real.steps() {
        let share = bytes as f64 / real.host as f64;
        sheet.row([name.into(), Cell::Number(bytes as f64 / 1048576.0, 1), Cell::Number(share, 4)]);
    }
    sheet
}

fn speeds(labs: &[Outcome; 3]) -> Sheet {
    let heads = ["stack", "requests/s", "over one drive", "sent/host", "flash/sent", "p99 (µs)"];
    let mut sheet = Sheet::new("Random 4 KiB writes on modelled TLC drives", &heads);
    for lab in labs {
        sheet.row([
            lab.kind.name().into(),
            Cell::Number(lab.iops, 0),
            Cell::Number(lab.iops / labs[0].iops, 2),
            Cell::Number(lab.sent_per_byte, 3),
            Cell::Number(lab.flash_per_sent, 3),
            Cell::Number(lab.p99_ns as f64 / 1e3, 0),
        ]);
    }
    sheet
}

fn checks(findings: &mut Findings, real: &Real, labs: &[Outcome; 3]) {
    let checks = &mut findings.checks;
    let ratio = Band::Within(2.90, 2.96);
    let published = PUBLISHED[0] / PUBLISHED[1];
    checks.push(Check::new("compression ratio as stored", Some(published), real.ratio(), ratio));
    let off = (real.predicted() / real.sent_per_byte() - 1.0) * 100.0;
    let what = "sent bytes against (1/c)·(N/(N−1))·WA + padding + metadata (% off)";
    checks.push(Check::new(what, None, off, Band::Within(-3.0, 3.0)));
    let sent = real.sent_per_byte();
    checks.push(Check::new("sent for each byte of the host", Some(0.486), sent, Band::AtMost(1.0)));
    let [one, raid5, log] = labs;
    let what = "the array does more random writes than one drive (times)";
    checks.push(Check::new(what, None, log.iops / one.iops, Band::AtLeast(1.0)));
    let what = "and more than RAID 5 over the same drives (times)";
    checks.push(Check::new(what, None, log.iops / raid5.iops, Band::AtLeast(3.0)));
    findings.notes.push(format!(
        "Published: {PUBLISHED_IOPS:.0} writes/s, above the rating of one of its drives. Which \
         drives, and how full they were, is not said, so only the order is compared."
    ));
    findings.notes.push(
        "The one drive and the RAID 5 are full to their 7 % of spare and written at random, the \
         worst there is for them. What the log array stores is a third of what the host wrote, so \
         most of its space is spare, and drives that are written in order copy nothing: that is \
         the larger part of its gain, and it shrinks with data that does not compress."
            .into(),
    );
    findings.notes.push(
        "Published 0.486 follows from α = 2.93 (space over data), where collection costs 1.069. \
         Here α follows from the size of the files; the steps tell what it came to."
            .into(),
    );
}
