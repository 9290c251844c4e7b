//! An array of eMMC chips under its block driver and under LightNVM.
//!
//! Source: Ishikawa and Oikawa, on the open-channel SSD in Olive, a small computer with up to 13 TB
//! of eMMC behind an FPGA.

mod bench;
mod closed;
mod depth;
mod driver;
mod interleave;
#[cfg(test)]
mod oracle;
mod ports;
mod raw;

use crate::{Error, Findings, Options, Watch};

/// Request sizes of the paper in KiB.
const SIZES: [u32; 3] = [4, 64, 128];

/// Runs the experiment.
pub(crate) fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let mut findings = Findings::new("Olive: eMMC chips under a block driver and under LightNVM");
    findings.lead =
        "Data has the same layout under both drivers, so both read at the same speed; under \
         LightNVM a chip has two writes in progress instead of one."
            .into();
    type Part = fn(&mut Findings, u64) -> Result<(), Error>;
    let parts: [(&str, Part); 6] = [
        ("block and LightNVM", driver::add),
        ("requests in progress", depth::add),
        ("interleave", interleave::add),
        ("ports", ports::add),
        ("conflicts", ports::add_conflicts),
        ("media managers on raw chips", raw::add),
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
        "A closed network: a host with its port, one request at a time, and four chips. All times \
         are fixed. Reads: the host takes 88 µs and 2.1 µs per KiB, a chip 70 µs and 4.75 µs per \
         KiB, fitted to Table 3.",
        "Writes: a chip takes 685, 4169 and 5274 µs for 4, 64 and 128 KiB (the sequential writes \
         of the block driver in Table 4), and a third longer for a write that does not continue \
         its previous one in the addresses of the array (the random writes in Table 4). The host \
         takes 30 µs and 4 µs per KiB.",
        "Layout: the board offers LightNVM addresses, not chips (section 3.3), and requests become \
         requests of the block driver again (section 3.2). So the address of data determines its \
         chip under both drivers. A stream uses one chip at a time, because of the interleave of \
         2 MiB.",
        "Inferred: under LightNVM a chip has two writes in progress, under the block driver one. \
         The paper gives no reason for the gains of Table 4. This one constant gives five of six.",
        "Inferred: six requests in progress, and six commands to chips, for all writes and for \
         random reads; two sequential reads. The paper states no queue depth. A table below shows \
         the gains for other numbers.",
        "Fitted, ports: HP takes 9.2 µs per KiB of reads and 39 µs per KiB of writes beyond the \
         first 4 KiB, the time to flush caches.",
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
        "Omitted from Tables 3 and 4: with several requests in progress a stream would use two \
         chips at each end of a stripe, but the published figures show no sign of it. The column \
         for 2 MiB in the tables by interleave includes it."
            .into(),
    );
}
