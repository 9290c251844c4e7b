//! Limits of every target and input: no panic, no hang, no disproportionate memory.

use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use allocation_counter::measure;
use anyhow::{anyhow, ensure};

use crate::targets::Target;

/// Bytes that a check may allocate for each byte of the input.
const PER_BYTE: u64 = 256;
/// Time after which an input counts as a hang, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks one input of a target.
pub(crate) fn check(target: &Target, input: &[u8], seed: u64) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    let guarded = AssertUnwindSafe(|| {
        let run = || outcome = (target.check)(input, seed);
        measure(run)
    });
    let used = panic::catch_unwind(guarded).map_err(|_| anyhow!("it panicked, see above"))?;
    outcome?;
    let most = target.buffers + PER_BYTE * input.len() as u64;
    ensure!(used.bytes_max <= most, "{} bytes allocated, at most {most} wanted", used.bytes_max);
    Ok(())
}

/// Ends the process when `running`, the seed of the present input, stops changing.
pub(crate) fn watch(target: &'static str, running: &'static AtomicU64) {
    thread::spawn(move || {
        let mut before = running.load(Ordering::Relaxed);
        loop {
            thread::sleep(PATIENCE);
            let now = running.load(Ordering::Relaxed);
            if now == u64::MAX {
                return;
            }
            if now == before {
                println!("{target:<14} FAILED: seed {now} hangs");
                process::exit(1);
            }
            before = now;
        }
    });
}
