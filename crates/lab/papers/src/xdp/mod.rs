//! A log array over several SSDs: compression, RAID 5, and the remaining write traffic to the
//! drives.
//!
//! Source: the published measurement of an XDP card (Pliops): fio's random 4 KiB writes with a
//! compressibility of two thirds; 23.05 TB were written as 7.86 TB.

mod array;
mod files;

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
    let costs = [hostftl_sim::Job::default(); Lab::ALL.len()];
    let labs = hostftl_sim::run_jobs(&costs, u64::MAX, options.threads, |index| {
        watch.progress(Lab::ALL[index].name(), index + 1, PARTS);
        array::measure(Lab::ALL[index], options, watch)
    });
    let labs = labs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let labs: &[Outcome; 4] = labs.as_array().expect("one for each");
    watch.progress("done", PARTS, PARTS);
    setting(&mut findings, &real, labs, options);
    findings.sheets.push(ratios(&real));
    findings.sheets.push(steps(&real));
    findings.sheets.push(speeds(labs));
    let names = labs.each_ref().map(|lab| lab.kind.name());
    let speeds = labs.each_ref().map(|lab| lab.iops);
    let title = "Random 4 KiB writes on modelled TLC drives, 2048 under way";
    let bars = Bars::new(title, &names, |value| format!("{value:.0}/s"));
    findings.figures.push(bars.series("requests", &speeds).figure());
    checks(&mut findings, &real, labs);
    if options.size != Size::Quick {
        rating(&mut findings, &labs[0]);
    }
    findings.violations.extend(labs.iter().filter_map(|lab| lab.violation.clone()));
    findings.lead = format!(
        "Stored at {:.3} to 1 (published {RATIO}); with parity and collection the drives are sent \
         {:.3} bytes for each byte of the host (computed {SENT}; the seed could not measure it).",
        real.ratio(),
        real.sent_per_byte()
    );
    Ok(findings)
}

fn setting(findings: &mut Findings, real: &Real, labs: &[Outcome; 4], options: &Options) {
    let mib = real.exported >> 20;
    let setting = &mut findings.setting;
    setting.push(format!(
        "fio's job (random 4 KiB writes over the whole volume, buffer_compress_percentage=67: \
         {RANDOM} random bytes and {} zeros in each block, made anew each time) against a real \
         volume of {mib} MiB over four files, layer log with lz4 and parity. Scaled: each block \
         once in order, {ROUNDS} times as many random writes as there are blocks, so that \
         collection runs, and as many as there are blocks that are counted; one client with {} \
         under way instead of 16 × 128, and without the network block device between.",
        BLOCK - RANDOM,
        files::DEPTH
    ));
    setting.push(format!(
        "In the laboratory: model `{}`, 3 + 1 of them; 2048 requests under way, {} measured after \
         each space was filled and overwritten at random, {ROUNDS} times that of the log array. \
         Blocks compress to 1352 bytes. The host's own work (compression, copies, parity) takes \
         modelled time, on as many cores as it needs.",
        array::drive_name(options),
        labs[0].requests
    ));
    setting.push(
        "RAID 5 is ours by the rules of Linux's md: a write of less than a stripe reads the other \
         data, unless the old data and the old parity are less to read, then writes data and \
         parity; a row of 4 KiB is written by one request at a time, and at most as many rows as \
         the stripe cache has places. md begins with 256 and since Linux 4.1 adds more while \
         memory is free, so both ends stand here. Assumed: the fio job's writes are direct, so \
         that md does not hold them back to gather stripes; its bitmap is set everywhere by then; \
         there is no journal; its one thread is never the bottleneck, which favours RAID 5."
            .into(),
    );
    setting.push(crate::traces::NEEDS_NONE.into());
}

fn ratios(real: &Real) -> Sheet {
    let mut sheet = Sheet::new("Compression, and what the drives are sent")
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
    let mut sheet = Sheet::new("From the host to the drives, random writes only")
        .words(["step"])
        .ours(["MiB", "for each byte of the host"]);
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
        "years at 1 drive write a day",
        "p99 (µs)",
    ];
    let mut sheet =
        Sheet::new("Random 4 KiB writes on modelled TLC drives").words(["stack"]).ours(ours);
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
    let check = Check::new("compression: written over stored", real.ratio(), RATIO_BAND);
    let check = check.published(Known::new(RATIO, "Fig. 8"));
    let check = check.computed(Known::new(LZ4, "LZ4 and a header of 20 bytes"));
    checks.push(check.because("records of ours have another header"));
    let share = real.sent_per_byte() / real.predicted();
    let what = "sent bytes over (1/c)·(N/(N−1))·WA + padding + metadata (times)";
    let check = Check::new(what, share, Band::Within(0.97, 1.03));
    checks.push(check.because("padding and metadata have parity too"));
    let known = Known::new(SENT, "the same identity at the published fill");
    let check = Check::near_computed("sent over written", known, real.sent_per_byte(), 15.0);
    checks.push(check.because("padding and metadata are on top; the files are a little emptier"));
    let [one, raid5, md, log] = labs;
    let what = "the array does more random writes than one drive (times)";
    let check = Check::new(what, log.iops / one.iops, Band::AtLeast(1.0));
    checks.push(check.because("published as a sentence only: faster than a drive alone"));
    let what = "and more than RAID 5 over the same drives, the faster of both (times)";
    let faster = raid5.iops.max(md.iops);
    checks.push(Check::new(what, log.iops / faster, Band::AtLeast(3.0)));
    let what =
        "RAID 5, cache grown: bytes sent for each of the host, one of data and one of parity";
    let known = Known::new(2.0, "md's rules: a small write is two writes");
    checks.push(Check::near_computed(what, known, raid5.sent_per_byte, 1.0));
    findings.notes.push(
        "The figure of the card's speed is lost (an image): printed is only that it exceeds the \
         data sheet of one of its drives, 215 K random writes a second, which the seed calls no \
         plain comparison. So that rating is no result of XDP's and stands nowhere as one."
            .into(),
    );
    findings.notes.push(
        "The array's speed is what the drives allow: compression, copies and parity run on as \
         many cores as they need, and no card stands between. No machine has as many; the order of \
         the three stacks and what they wear is the finding."
            .into(),
    );
    findings.notes.push(
        "The one drive and the RAID 5 are full to their spare and written at random, the \
         worst there is for them. What the log array stores is a third of what the host wrote, so \
         most of its space is spare, and drives that are written in order copy nothing: that is \
         the larger part of its gain, and it shrinks with data that does not compress."
            .into(),
    );
    findings.notes.push(
        "Computed 0.486 follows from α = 2.93 (space over data), where collection costs 1.069. \
         Here α follows from the size of the files; the steps tell what it came to."
            .into(),
    );
}

/// Adds the claim that the single drive reaches its rating, so that the comparison with it is fair.
fn rating(findings: &mut Findings, one: &Outcome) {
    let claim =
        "the lone drive: random 4 KiB writes a second, beside its rating (no result of XDP)";
    let known = Known::new(RATED, "Table 1, data sheet of the drive");
    let check = Check::near_published(claim, known, one.iops, 25.0);
    findings.checks.push(check.because("over-provisioning and dies of the model are fitted to it"));
}

/// Rated random 4 KiB writes per second of the paper's drive, from its data sheet.
const RATED: f64 = 215_000.0;
/// Permitted range of the ratio: 2.93, with a tolerance for other headers.
const RATIO_BAND: Band = Band::Within(2.90, 2.96);
