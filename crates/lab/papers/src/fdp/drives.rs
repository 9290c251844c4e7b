//! The write amplification of two real drives beside that of their models.

use hostftl_drives::DriveSpec;
use hostftl_drives::pool::Pool;
use hostftl_report::{Axis, Lines};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::greedy::{self, PARTS};
use crate::{Band, Cell, Check, Error, Findings, Known, Options, Sheet, Watch};

/// Source of the published figures.
const COUNTERS: &str = "counters in the archive, of the experiment of Fig. 11";
/// Passes: the first fills the drive, the others are compared.
const PASSES: usize = 5;

/// A measured drive.
struct Drive {
    name: &'static str,
    title: &'static str,
    model: &'static str,
    /// Write amplification by eighths of a pass, on average of the passes 2 to 5.
    published: [f64; PARTS],
    /// Spare of the greedy model, as fitted by `hostftl calibrate`, and its reclaim units.
    greedy: (f64, usize),
    /// Permitted difference of an eighth in per cent.
    near: f64,
}

const DRIVES: [Drive; 2] = [
    Drive {
        name: "drive_a",
        title: "Drive A, 7.68 TB",
        model: "drive-a-7t",
        published: [1.00, 2.93, 3.22, 2.32, 2.27, 1.85, 1.51, 1.18],
        greedy: (1.183, 300),
        near: 5.0,
    },
    Drive {
        name: "drive_b",
        title: "Drive B, 3.84 TB",
        model: "drive-b-3t:capacity=8g",
        published: [4.34, 5.55, 4.87, 4.16, 3.44, 2.76, 2.07, 1.37],
        greedy: (1.146, 300),
        near: 8.0,
    },
];

/// Adds both drives.
pub(super) fn add(
    findings: &mut Findings,
    options: &Options,
    watch: &dyn Watch,
) -> Result<(), Error> {
    for (at, drive) in DRIVES.iter().enumerate() {
        watch.progress(drive.title, at, DRIVES.len());
        let ours = curve(drive.model, options.seed, watch)?;
        let computed = greedy::curve(drive.greedy, PASSES, options.seed);
        show(findings, drive, (&computed, &ours));
    }
    Ok(())
}

/// Returns the write amplification of the pool of a model by eighths of a pass.
fn curve(model: &str, seed: u64, watch: &dyn Watch) -> Result<[f64; PARTS], Error> {
    let failed = |why: &dyn std::fmt::Display| Error::Failed(why.to_string());
    let spec = DriveSpec::find(model).map_err(|why| failed(&why))?;
    let mut pool = Pool::new(spec.pool(0)).map_err(|why| failed(&why))?;
    let mut order: Vec<u32> = (0..pool.spec().logical).collect();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut curve = [0.0; PARTS];
    for pass in 0..PASSES {
        if watch.cancelled() {
            return Err(Error::Cancelled);
        }
        order.shuffle(&mut dice);
        for (part, pages) in order.chunks(order.len().div_ceil(PARTS)).enumerate() {
            let before = pool.work();
            pages.iter().for_each(|&page| pool.write(page, &mut |_| {}));
            let waf = pool.work().since(&before).waf();
            curve[part] += if pass > 0 { waf / (PASSES - 1) as f64 } else { 0.0 };
        }
    }
    pool.check().map_err(|why| failed(&why))?;
    Ok(curve)
}

/// Adds the table, the chart and the claims of a drive.
fn show(findings: &mut Findings, drive: &Drive, (computed, ours): (&[f64; PARTS], &[f64; PARTS])) {
    let Drive { name, title, published, near, .. } = drive;
    let mean = |curve: &[f64; PARTS]| curve.iter().sum::<f64>() / PARTS as f64;
    let mut sheet = Sheet::new(*name, format!("{title}: write amplification by eighths of a pass"))
        .words(["part"])
        .published(["published"])
        .computed(["greedy, computed"])
        .ours(["ours"])
        .difference("ours over published");
    let mut row = |part: String, published: f64, computed: f64, ours: f64| {
        let number = |value| Cell::Number(value, 2);
        let off = Cell::off(published, ours);
        sheet.row([part.into(), number(published), number(computed), number(ours), off]);
    };
    for part in 0..PARTS {
        row(format!("{} of {PARTS}", part + 1), published[part], computed[part], ours[part]);
    }
    row("mean".into(), mean(published), mean(computed), mean(ours));
    findings.sheets.push(sheet);
    let points = |curve: &[f64; PARTS]| (1..).map(f64::from).zip(curve.iter().copied()).collect();
    let x = Axis::linear("eighth of a pass", |part| format!("{part:.0}"));
    let y = Axis::linear("write amplification", |waf| format!("{waf:.1}"));
    let lines = Lines::new(title, x, y).series("published", points(published));
    let lines = lines.series("greedy, computed", points(computed)).series("ours", points(ours));
    findings.figures.push(lines.figure());
    let claim = format!("{title}: mean write amplification of a pass");
    let check = Check::near_published(
        format!("{name}_mean"),
        claim,
        Known::new(mean(published), COUNTERS),
        mean(ours),
        2.0,
    );
    let (alpha, units) = drive.greedy;
    let source = format!("greedy, α {alpha}, {units} reclaim units");
    findings.checks.push(check.computed(Known::new(mean(computed), source)));
    let off = |(ours, published): (&f64, &f64)| (ours / published - 1.0).abs() * 100.0;
    let worst = ours.iter().zip(published).map(off).fold(0.0, f64::max);
    let claim = format!("{title}: largest difference of an eighth from the counters (%)");
    findings.checks.push(Check::new(format!("{name}_eighths"), claim, worst, Band::AtMost(*near)));
}
