//! An array of eMMC chips under its block driver and under LightNVM.
//!
//! Source: Ishikawa and Oikawa, on the open-channel SSD in Olive, a small computer with up to 13 TB
//! of eMMC behind an FPGA.

mod bench;
mod driver;
mod interleave;
mod ports;

use crate::{Error, Findings, Options, Watch};

/// The request sizes of the paper, in KiB.
const SIZES: [u32; 3] = [4, 64, 128];

/// Makes the experiment.
///
/// # Errors
/// When nobody waits, or the world breaks a law.
pub fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let mut findings = Findings::new("Olive: eMMC chips under a block driver and under LightNVM");
    findings.lead =
        "Who keeps how many chips busy explains what LightNVM gains: a wide interleave \
                     leaves a stream one chip, writing in turns uses them all."
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
         the host 88 µs and 2.1 µs a KiB, a chip 70 µs and 4.75 µs a KiB; 16 requests under way \
         when sequential, 8 when random.",
        "Fitted, reads: these five constants. Fitted, writes: the time of one chip at 4, 64 and \
         128 KiB (685, 4169, 5274 µs on average, drawn from an exponential distribution, in which \
         the chips' own translation shows), the host's 30 µs and 4 µs a KiB, and how many requests \
         are under way: block 16 sequential and 4 random, LightNVM 3 sequential and 16 random.",
        "Fitted, ports: HP takes 6 µs a KiB of reads and 42 µs a KiB of writes beyond the first \
         4 KiB, the time to flush caches.",
        "A sequential stream meets one chip at a time, as the block driver's interleave of 2 MiB \
         suggests; LightNVM reads where the data lies and writes to the chips in turns.",
        crate::traces::NEEDS_NONE,
    ] {
        findings.setting.push(text.into());
    }
    findings.notes.push(
        "Not explained: with 16 requests under way a stream would use two chips at each end of a \
         stripe, and the published figures show no sign of it. LightNVM's gain in sequential reads \
         of 128 KiB (5.7 %) has no counterpart in the model, which reads alike under both."
            .into(),
    );
}
