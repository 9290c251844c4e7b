//! An array of eMMC chips under its block driver and under LightNVM.
//!
//! Source: Ishikawa and Oikawa, on the open-channel SSD in Olive, a small computer with up to 13 TB
//! of eMMC behind an FPGA.

mod bench;
mod driver;
mod interleave;
mod placing;
mod ports;

use crate::{Error, Findings, Options, Watch};

/// Request sizes of the paper in KiB.
const SIZES: [u32; 3] = [4, 64, 128];

/// Runs the experiment.
pub(crate) fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let mut findings = Findings::new("Olive: eMMC chips under a block driver and under LightNVM");
    findings.lead =
        "With a wide interleave a stream uses one chip; rrpc writes to all chips in turn and \
         turns random writes into sequential writes."
            .into();
    type Part = fn(&mut Findings, u64) -> Result<(), Error>;
    let parts: [(&str, Part); 4] = [
        ("block and LightNVM", driver::add),
        ("interleave", interleave::add),
        ("ports", ports::add),
        ("conflicts", ports::add_conflicts),
    ];
    for (index, (what, part)) in parts.iter().enumerate() {
        if watch.cancelled() {
            return Err(Error::Cancelled);
        }
        watch.progress(what, index, parts.len());
        part(&mut findings, options.seed)?;
    }
    settings(&mut findings);
    Ok(findings)
}

fn settings(findings: &mut Findings) {
    for text in [
        "A closed network: a host with its port, one request at a time, and four chips. Reads: \
         the host takes 88 µs and 2.1 µs per KiB, a chip 70 µs and 4.75 µs per KiB, fitted to \
         Table 3.",
        "Writes: a chip takes 685, 4169 and 5274 µs on average for 4, 64 and 128 KiB (the \
         sequential writes of the block driver in Table 4), and a third longer for a write that \
         does not continue its previous one in the addresses of the array (the random writes in \
         Table 4). The times are drawn from an exponential distribution, except in the sweep. The \
         host takes 30 µs and 4 µs per KiB.",
        "The paper does not state the queue depth. It is 8 here, except 1 in the sweep of reads, \
         because only then do reads peak at the published interleave. Writes do so at depths 6 to \
         8. No value is fitted to a single row.",
        "Fitted, ports: HP takes 6 µs per KiB of reads and 67 µs per KiB of writes beyond the \
         first 4 KiB, the time to flush caches.",
        "Block: the address of data determines its chip, and a stream uses one chip at a time, as \
         the 2 MiB interleave of the board suggests. LightNVM: our rrpc with its defaults over \
         four raw chips with segments of 2 MiB, whose erases take no time, as on the board, whose \
         driver omits them.",
        crate::traces::NEEDS_NONE,
    ] {
        findings.setting.push(text.into());
    }
    findings.notes.push(
        "Inferred: a chip sees a jump at the start of each stripe, as if each stripe had its own \
         unit of its translation. If the stripes were contiguous, no piece would jump, and writes \
         of 64 KiB would be as fast at 64 KiB as at the published 128 KiB, and writes of 4 KiB as \
         fast at 4 KiB as at the published 8 KiB."
            .into(),
    );
    findings.notes.push(
        "Omitted: with several requests in progress the block driver of the board would use two \
         chips at each end of a stripe, but the published figures show no sign of it."
            .into(),
    );
}
