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
        "A wide interleave leaves a stream one chip; rrpc writes to all in turns, and turns \
                     random writes into writes in order."
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
         the host 88 µs and 2.1 µs a KiB, a chip 70 µs and 4.75 µs a KiB, fitted to Table 3.",
        "Writes: a chip takes 685, 4169 and 5274 µs on average for 4, 64 and 128 KiB, which are \
         Table 4's sequential writes of the block driver, and a third longer for one that does not \
         go on, in the array's addresses, where its last one ended (Table 4's random ones), drawn \
         from an exponential distribution, but not in the sweep; the host 30 µs and 4 µs a KiB.",
        "The paper does not say how many requests were under way: 8 everywhere, but 1 in the \
         sweep of reads, because only so do they peak where the paper has them. Writes do with 6 \
         to 8. Nothing is fitted for a row.",
        "Fitted, ports: HP takes 6 µs a KiB of reads and 67 µs a KiB of writes beyond the first \
         4 KiB, the time to flush caches.",
        "Block: data lies where its address says, and a stream meets one chip at a time, as the \
         board's interleave of 2 MiB suggests. LightNVM: our rrpc with its defaults over four raw \
         chips with segments of 2 MiB, whose erases take no time, as on the board, whose driver \
         leaves them out.",
        crate::traces::NEEDS_NONE,
    ] {
        findings.setting.push(text.into());
    }
    findings.notes.push(
        "Inferred: that a chip sees a jump at the start of each stripe, as if the stripes lay in \
         units of their own of its translation. If they lay one behind the other, no piece would \
         jump, and writes of 64 KiB would be as fast at 64 KiB as at the published 128 KiB, those \
         of 4 KiB at 4 as at the published 8."
            .into(),
    );
    findings.notes.push(
        "Left out: with several requests under way the board's block driver would use two chips \
         at each end of a stripe, of which the published figures show no sign."
            .into(),
    );
}
