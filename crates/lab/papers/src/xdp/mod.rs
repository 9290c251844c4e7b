//! A log array over several SSDs: compression, RAID 5, and the remaining write traffic to the
//! drives.
//!
//! Source: the published measurement of an XDP card (Pliops): fio's random 4 KiB writes with a
//! compressibility of two thirds; 23.05 TB were written as 7.86 TB.

mod array;
mod files;

use std::sync::atomic::{AtomicUsize, Ordering};

use hostftl_report::Bars;

use crate::{Band, Cell, Check, Error, Findings, Known, Options, Sheet, Size, Watch};
use array::{Lab, Outcome};
use files::Real;

/// Bytes per block.
const BLOCK: usize = 4096;
/// Bytes of a block that fio fills with random data at 67 per cent compressibility.
const RANDOM: usize = BLOCK * (100 - 67) / 100;
/// Bytes written per byte stored, according to the card's monitor: 23.05 TB as 7.86 TB.
const RATIO: f64 = 2.93;
/// Compression ratio of LZ4 on fio's blocks, with a header of 20 bytes.
const LZ4: f64 = 2.932;
/// Bytes sent per byte of the host by a log over 3 + 1 drives that holds 7.86 of 23.04 TB: (1 /
/// 2.932) * (4 / 3) * 1.069. The last factor is the closed form of garbage collection at that α.
const SENT: f64 = 0.486;
/// Random overwrites of the log array before the measurement. One fills a third of the space, so
/// after five the log has wrapped and garbage collection runs.
const ROUNDS: u64 = 5;
/// Number of slow parts of the experiment.
const PARTS: usize = 5;

/// Runs the experiment.
pub(crate) fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let mut findings = Findings::new("XDP: a log array with compression and RAID 5");
    watch.progress("fio's job on files", 0, PARTS);
    let real = files::measure(options, watch)?;
    let done = AtomicUsize::new(1);
    let costs = [hostftl_sim::Job::default(); Lab::ALL.len()];
    let labs = hostftl_sim::run_jobs(&costs, u64::MAX, options.threads, |index| {
        let name = Lab::ALL[index].name();
        watch.progress(name, done.load(Ordering::Relaxed), PARTS);
        let measured = array::measure(Lab::ALL[index], options, watch);
        watch.progress(name, done.fetch_add(1, Ordering::Relaxed) + 1, PARTS);
        measured
    });
    let labs = labs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let labs: &[Outcome; 4] = labs.as_array().expect("one per drive");
    setting(&mut findings, &real, labs, options);
    findings.sheets.push(ratios(&real));
    findings.sheets.push(steps(&real));
    findings.sheets.push(speeds(labs));
    let names = labs.each_ref().map(|lab| lab.kind.name());
    let speeds = labs.each_ref().map(|lab| lab.iops);
    let title = "Random 4 KiB writes on modelled TLC drives, queue depth 2048";
    let bars = Bars::new(title, &names, |value| format!("{value:.0}/s"));
    findings.figures.push(bars.series("requests", &speeds).figure());
    checks(&mut findings, &real, labs);
    if options.size != Size::Quick {
        rating(&mut findings, &labs[0]);
    }
    findings.violations.extend(labs.iter().filter_map(|lab| lab.violation.clone()));
    findings.lead = format!(
        "Stored at {:.3} to 1 (published {RATIO}); with parity and garbage collection the drives \
         receive {:.3} bytes per byte of the host (computed {SENT}; the seed could not measure \
         it).",
        real.ratio(),
        real.sent_per_byte()
    );
    Ok(findings)
}

fn setting(findings: &mut Findings, real: &Real, labs: &[Outcome; 4], options: &Options) {
    let mib = real.exported >> 20;
    let setting = &mut findings.setting;
    setting.push(format!(
        "The fio job (random 4 KiB writes over the whole volume, buffer_compress_percentage=67: \
         {RANDOM} random bytes and {} zeros in each block, generated for each write) on a real \
         volume of {mib} MiB over four files, layer log with lz4 and parity. Scaled: each block \
         is written once in order, then random writes of {ROUNDS} times the number of blocks \
         start garbage collection, and random writes of the number of blocks are counted. One \
         client with queue depth {} instead of 16 × 128, and without the network block device.",
        BLOCK - RANDOM,
        files::DEPTH
    ));
    setting.push(format!(
        "In the simulation: drive model `{}`, 3 + 1 drives; queue depth 2048, {} requests \
         measured after each array was filled and overwritten at random, the log array {ROUNDS} \
         times. Blocks compress to 1352 bytes. The work of the host (compression, copies, parity) \
         takes modelled time, on an unlimited number of cores.",
        array::drive_name(options),
        labs[0].requests
    ));
    setting.push(
        "RAID 5 is our implementation of the rules of Linux md: a write of less than a stripe \
         reads the other data, unless reading the old data and the old parity is less work, and \
         then writes data and parity. One request at a time writes a row of 4 KiB, and the stripe \
         cache limits the number of rows in progress. md starts with 256 and since Linux 4.1 adds \
         more while memory is free, so both extremes are shown. Assumed: the writes of the fio \
         job are direct, so md does not delay them to gather stripes; its bitmap is already set \
         everywhere; there is no journal; its single thread is never the bottleneck, which \
         favours RAID 5."
            .into(),
    );
    setting.push(crate::traces::NEEDS_NONE.into());
}

fn ratios(real: &Real) -> Sheet {
    let mut sheet = Sheet::new("bytes", "Compression, and bytes sent to the drives")
        .words(["bytes"])
        .published(["published"])
        .computed(["computed"])
        .ours(["ours"]);
    let number = |value| Cell::Number(value, 3);
    let ideal = number(BLOCK as f64 / RANDOM as f64);
    sheet.row(["a block over its random bytes".into(), Cell::Nothing, ideal, Cell::Nothing]);
    let published = Cell::Number(RATIO, 2);
    sheet.row(["written over stored".into(), published, number(LZ4), number(real.ratio())]);
    let sent = number(real.sent_per_byte());
    sheet.row(["sent over written".into(), Cell::Nothing, number(SENT), sent]);
    sheet
}

fn steps(real: &Real) -> Sheet {
    let mut sheet = Sheet::new("steps", "From the host to the drives, random writes only")
        .words(["step"])
        .ours(["MiB", "per byte of the host"]);
    for (name, bytes) in real.steps() {
        let share = bytes as f64 / real.host as f64;
        sheet.row([name.into(), Cell::Number(bytes as f64 / 1048576.0, 1), Cell::Number(share, 4)]);
    }
    sheet
}

fn speeds(labs: &[Outcome; 4]) -> Sheet {
    let ours = [
        "ours, requests/s",
        "over one drive",
        "sent/host",
        "flash/sent",
        "flash/host",
        "years at 1 drive write per day",
        "p99 (µs)",
    ];
    let title = "Random 4 KiB writes on modelled TLC drives";
    let mut sheet = Sheet::new("speeds", title).words(["stack"]).ours(ours);
    for lab in labs {
        sheet.row([
            lab.kind.name().into(),
            Cell::Number(lab.iops, 0),
            Cell::Number(lab.iops / labs[0].iops, 2),
            Cell::Number(lab.sent_per_byte, 3),
            Cell::Number(lab.flash_per_sent, 3),
            Cell::Number(lab.sent_per_byte * lab.flash_per_sent, 3),
            Cell::Number(lab.years, 1),
            Cell::Number(lab.p99_ns as f64 / 1e3, 0),
        ]);
    }
    sheet
}

fn checks(findings: &mut Findings, real: &Real, labs: &[Outcome; 4]) {
    let checks = &mut findings.checks;
    let claim = "compression: written over stored";
    let check = Check::new("compression", claim, real.ratio(), RATIO_BAND);
    let check = check.published(Known::new(RATIO, "Fig. 8"));
    let check = check.computed(Known::new(LZ4, "LZ4 and a header of 20 bytes"));
    checks.push(check.because("our records have a different header"));
    let share = real.sent_per_byte() / real.predicted();
    let what = "sent bytes over (1/c)·(N/(N−1))·WA + padding + metadata (times)";
    let check = Check::new("sent_identity", what, share, Band::Within(0.97, 1.03));
    checks.push(check.because("padding and metadata have parity too"));
    let known = Known::new(SENT, "the same identity at the published fill");
    let ours = real.sent_per_byte();
    let check = Check::near_computed("sent", "sent over written", known, ours, 15.0);
    checks.push(check.because("padding and metadata are added; the files are slightly emptier"));
    let [one, raid5, md, log] = labs;
    let what = "the array does more random writes than one drive (times)";
    let check = Check::new("array_over_drive", what, log.iops / one.iops, Band::AtLeast(1.0));
    checks.push(check.because("published as a sentence only: faster than a drive alone"));
    let what = "and more than RAID 5 over the same drives, the faster of both (times)";
    let faster = raid5.iops.max(md.iops);
    checks.push(Check::new("array_over_raid5", what, log.iops / faster, Band::AtLeast(3.0)));
    let what =
        "RAID 5, cache grown: bytes sent for each of the host, one of data and one of parity";
    let known = Known::new(2.0, "rules of md: a small write becomes two writes");
    checks.push(Check::near_computed("raid5_sent", what, known, raid5.sent_per_byte, 1.0));
    findings.notes.push(
        "The figure of the speed of the card is lost (an image). The text only states that it \
         exceeds the data sheet of one of its drives, 215 K random writes per second, and that \
         this is not a plain comparison. That rating is not a result of XDP and is not used as \
         one."
            .into(),
    );
    findings.notes.push(
        "The drives limit the speed of the array: compression, copies and parity run on an \
         unlimited number of cores, without a card. No machine has that number of cores; the \
         findings are the order of the three stacks and their wear."
            .into(),
    );
    findings.notes.push(
        "The single drive and the RAID 5 are full up to their spare and written at random, their \
         worst case. The log array stores a third of the host data, so most of its space is \
         spare, and drives that are written sequentially copy nothing. This is the larger part of \
         its gain, and it shrinks with data that does not compress."
            .into(),
    );
    findings.notes.push(
        "The computed 0.486 follows from α = 2.93 (space over data), where garbage collection \
         costs 1.069. Here α follows from the size of the files; the steps show its value."
            .into(),
    );
}

/// Adds the claim that the single drive reaches its rating, so that the comparison with it is fair.
fn rating(findings: &mut Findings, one: &Outcome) {
    let claim =
        "the lone drive: random 4 KiB writes a second, beside its rating (no result of XDP)";
    let known = Known::new(RATED, "Table 1, data sheet of the drive");
    let check = Check::near_published("drive_rating", claim, known, one.iops, 25.0);
    findings.checks.push(check.because(
        "over-provisioning and dies of the model are fitted to the \
         data sheet",
    ));
}

/// Rated random 4 KiB writes per second of the paper's drive, from its data sheet.
const RATED: f64 = 215_000.0;
/// Permitted range of the ratio: 2.93, with a tolerance for other headers.
const RATIO_BAND: Band = Band::Within(2.90, 2.96);
