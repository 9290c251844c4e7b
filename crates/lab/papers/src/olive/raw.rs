//! The media managers of HostFTL on raw chips. The board offers no raw chips, so these figures are
//! not compared with the tables of the paper.

use hostftl_layers::LayerKind;
use hostftl_trace::Op;

use super::SIZES;
use super::bench::{Bench, Driver, Walk};
use super::closed;
use crate::{Cell, Error, Findings, Sheet};

/// A media manager: name, kind, and the KiB of a strip and of its data. The last block of a strip
/// is its list.
const MANAGERS: [(&str, LayerKind, u32, u32); 3] = [
    ("rrpc", LayerKind::Rrpc, 64, 60),
    ("rrpc:strip=8k", LayerKind::Rrpc, 8, 4),
    ("pblk", LayerKind::Pblk, 64, 60),
];

/// Adds the table.
pub(super) fn add(findings: &mut Findings, seed: u64) -> Result<(), Error> {
    let title = "Our media managers on four raw chips, which the board does not offer (MB/s)";
    let mut sheet = Sheet::new("media_managers", title)
        .words(["writes", "manager"])
        .ours(SIZES.map(|kib| format!("{kib} KiB")))
        .computed(["computed, six commands in progress"]);
    for (writes, walk) in [("sequential", Walk::Sequential), ("random", Walk::Random)] {
        for (name, kind, strip, data) in MANAGERS {
            let mut row = vec![writes.into(), name.into()];
            for kib in SIZES {
                let driver = Driver::Raw { kind, strip: strip * 2 };
                let found = Bench::new(driver, Op::Write, walk, kib).run(seed)?;
                row.push(Cell::Number(found.mbs, 1));
            }
            row.push(Cell::Number(closed::strips(strip, data), 1));
            sheet.row(row);
        }
        let mut row = vec![writes.into(), "rrpc of Linux 4.4 (strip=4k)".into()];
        row.extend(SIZES.map(|_| Cell::Nothing));
        row.push(Cell::Number(closed::strips(4, 4), 1));
        sheet.row(row);
    }
    findings.sheets.push(sheet);
    findings.notes.push(
        "The rrpc of Linux 4.4 sends each page of 4 KiB to the next chip (get_next_lun). Ours \
         needs strips of 8 KiB or more, because a strip ends with its list, so the row for 4 KiB \
         is computed. On the board the choice of the chip has no effect: the driver stores data \
         at its address."
            .into(),
    );
    Ok(())
}
