//! Drives with placement ids: the write amplification of two measured drives, a sequential stream
//! beside a random one, and a flash cache of small and large objects.
//!
//! Sources: the counters in the archive of WARP (FAST 2026), and Allison et al., Towards Efficient
//! Flash Caches with Emerging NVMe Flexible Data Placement SSDs (EuroSys 2025).

mod drives;
mod greedy;
mod streams;

use crate::{Error, Findings, Options, Watch};

/// Runs the experiment.
pub(crate) fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let mut findings = Findings::new("FDP: placement ids and the write amplification of drives");
    findings.lead = "Two calibrated models follow the counters of the real drives. With a \
                     placement id for each, a sequential and a random stream program fewer bytes, \
                     and a flash cache has hardly any copies."
        .into();
    let [first, second] = &crate::stages(watch, [1, 3])[..] else { unreachable!("two parts") };
    drives::add(&mut findings, options, first)?;
    streams::add(&mut findings, options, second)?;
    settings(&mut findings);
    Ok(findings)
}

fn settings(findings: &mut Findings) {
    for text in [
        "The counters are of two commercial drives without placement hints, each block written \
         once per pass in random order. The first pass fills the drive; the figures are means of \
         the passes 2 to 5. That the drives ran exactly this job is inferred from the period, \
         which is one capacity.",
        "Ours: the pools of the models drive-a-7t and drive-b-3t, whose spare and policy were \
         calibrated with these counters, under writes of a map unit. The agreement shows that the \
         models have enough parameters, not that they predict another drive.",
        "Computed: a separate model of greedy garbage collection with the spare that hostftl \
         calibrate fits. It has no early collection, no write buffer and no flash.",
        "The streams run on drive-a-7t with two placement ids, counted without time, after the \
         workload was repeated until write amplification settled.",
        crate::traces::NEEDS_NONE,
    ] {
        findings.setting.push(text.into());
    }
    for text in [
        "Not reproduced: the curves of the emulator itself, and of several streams on the real \
         drives, for which no figures are available to us. The policies for handles (initially or \
         persistently isolated) are therefore models that were not compared with a drive.",
        "Plain greedy collection, as computed, follows drive A but not drive B, which copies more, \
         and from the start of a pass on. Its model therefore collects early; whether the drive \
         does is an inference.",
        "Not reproduced: hit rates, throughput and energy of the flash cache, and its production \
         traces. Only its two kinds of writes are modelled: 4 KiB at random in a small area, and \
         a large log.",
    ] {
        findings.notes.push(text.into());
    }
}
