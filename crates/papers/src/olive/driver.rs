//! Tables 3 and 4: the block driver against LightNVM, 24 cells.

use hostftl_drives::olive::{OliveSpec, Placement};
use hostftl_trace::Op;

use super::SIZES;
use super::bench::{Bench, Found, Walk};
use crate::{Band, Cell, Check, Error, Findings, Sheet};

/// A row of both tables: its name, whether LightNVM drives, reads or writes, random or not, the
/// figures at 4, 64 and 128 KiB in MB/s or thousands of requests a second.
type Published = (&'static str, bool, Op, bool, [f64; 3]);

const PUBLISHED: [Published; 8] = [
    ("block, sequential read (MB/s)", false, Op::Read, false, [42.620, 165.325, 198.632]),
    ("LightNVM, sequential read (MB/s)", true, Op::Read, false, [42.776, 165.234, 210.009]),
    ("block, random read (K/s)", false, Op::Read, true, [9.833, 4.584, 2.760]),
    ("LightNVM, random read (K/s)", true, Op::Read, true, [10.154, 4.367, 2.741]),
    ("block, sequential write (MB/s)", false, Op::Write, false, [5.9816, 15.719, 24.854]),
    ("LightNVM, sequential write (MB/s)", true, Op::Write, false, [16.205, 32.212, 51.138]),
    ("block, random write (K/s)", false, Op::Write, true, [2.839, 0.553, 0.449]),
    ("LightNVM, random write (K/s)", true, Op::Write, true, [4.516, 0.813, 0.825]),
];

fn bench(nvm: bool, op: Op, random: bool, kib: u32) -> Bench {
    let placement = if nvm { Placement::Turns } else { Placement::Fixed };
    let depth = match (op, nvm, random) {
        (Op::Read, _, false) | (Op::Write, false, false) | (Op::Write, true, true) => 16,
        (Op::Write, true, false) => 3,
        (Op::Write, false, true) => 4,
        _ => 8,
    };
    Bench {
        spec: OliveSpec { placement, ..OliveSpec::default() },
        op,
        walk: if random { Walk::Random } else { Walk::OneChip },
        sectors: kib * 2,
        depth,
    }
}

/// Adds both tables and what they claim.
///
/// # Errors
/// When the world breaks a law.
pub fn add(findings: &mut Findings, seed: u64) -> Result<(), Error> {
    let heads = ["cell", "size (KiB)", "published", "ours", "off"];
    let mut sheet = Sheet::new("Block driver against LightNVM (Tables 3 and 4)", &heads);
    let mut ours = Vec::new();
    for (name, nvm, op, random, cells) in PUBLISHED {
        let mut row = [0.0; 3];
        for ((kib, published), figure) in SIZES.into_iter().zip(cells).zip(&mut row) {
            let Found { iops, mbs, .. } = bench(nvm, op, random, kib).run(seed)?;
            *figure = if random { iops / 1000.0 } else { mbs };
            sheet.row([
                name.into(),
                Cell::Number(f64::from(kib), 0),
                Cell::Number(published, 3),
                Cell::Number(*figure, 3),
                Cell::off(published, *figure),
            ]);
            if op == Op::Read {
                let what = format!("{name}, {kib} KiB");
                findings.checks.push(Check::near(what, published, *figure, 8.0));
            }
        }
        ours.push(row);
    }
    findings.sheets.push(sheet);
    for (name, block, gains) in
        [("sequential write", 4, [2.7, 2.05, 2.06]), ("random write", 6, [1.59, 1.47, 1.84])]
    {
        for ((kib, published), size) in SIZES.into_iter().zip(gains).zip(0..) {
            let ours = ours[block + 1][size] / ours[block][size];
            let what = format!("gain of LightNVM, {name}, {kib} KiB");
            findings.checks.push(Check::near(what, published, ours, 15.0));
        }
    }
    for (name, block) in [("sequential", 0), ("random", 2)] {
        for (kib, size) in SIZES.into_iter().zip(0..) {
            let published = PUBLISHED[block + 1].4[size] / PUBLISHED[block].4[size];
            let ours = ours[block + 1][size] / ours[block][size];
            let what = format!("LightNVM over block, {name} read, {kib} KiB");
            let band = Band::around(1.0, 6.0);
            findings.checks.push(Check::new(what, Some(published), ours, band));
        }
    }
    Ok(())
}
