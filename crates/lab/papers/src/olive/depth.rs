//! The gains of random writes in Table 4 by the number of requests in progress, which the paper
//! does not state.

use hostftl_trace::Op;

use super::SIZES;
use super::bench::Driver;
use super::driver::{NEAR, bench, published_gain};
use crate::{Band, Cell, Error, Findings, Sheet};

/// Numbers of requests in progress.
const DEPTHS: [u32; 6] = [3, 4, 5, 6, 7, 8];

/// Adds the table. A stream keeps both places of its chip busy with any of these numbers, so its
/// gain does not depend on them.
pub(super) fn add(findings: &mut Findings, seed: u64) -> Result<(), Error> {
    let title = "Gains of random writes under LightNVM by the requests in progress";
    let mut sheet = Sheet::new("requests_in_progress", title)
        .input(["KiB"])
        .published(["published"])
        .ours(DEPTHS.map(|depth| format!("ours, {depth}")));
    let mut near = [0; DEPTHS.len()];
    for (size, kib) in SIZES.into_iter().enumerate() {
        let published = published_gain(true, size);
        let mut row = vec![Cell::Number(f64::from(kib), 0), Cell::Number(published, 2)];
        for (depth, near) in DEPTHS.into_iter().zip(&mut near) {
            let speed = |driver| bench(driver, Op::Write, true, kib).with_depth(depth).run(seed);
            let gain = speed(Driver::LightNvm)?.iops / speed(Driver::Block)?.iops;
            row.push(Cell::Number(gain, 2));
            *near += u32::from(Band::around(published, NEAR).holds(gain));
        }
        sheet.row(row);
    }
    findings.sheets.push(sheet);
    let near = DEPTHS.iter().zip(near).map(|(depth, near)| format!("{near} with {depth}"));
    let near: Vec<_> = near.collect();
    findings.notes.push(format!(
        "Gains of random writes, of 3, within {NEAR} % of the published ones by the requests in \
         progress: {}. The gains of sequential writes do not depend on this number.",
        near.join(", "),
    ));
    Ok(())
}
