//! The laws that every run must keep. They are checked over the world's whole life, warm-up
//! included.

use hostftl_core::{CAUSES, Cause, Layer};
use hostftl_drives::DriveWork;

use crate::error::Violation;
use crate::front::Totals;
use crate::work::Work;
use crate::world::World;

/// Checks all laws on a world that was stopped. `asked` is everything that was asked of it.
///
/// # Errors
/// The first law that is broken.
pub fn check<L: Layer>(world: &World<L>, asked: &Totals) -> Result<(), Violation> {
    if !world.is_stopped() || world.is_busy() || !world.layer().idle() {
        return Err(Violation::Check("the layer", "something is under way after the stop"));
    }
    world.layer().check().map_err(|why| Violation::Check("the layer", why))?;
    for drive in &world.drives {
        drive.check().map_err(|why| Violation::Check("the drive", why))?;
    }
    let work = Work::of(world);
    let counters = &work.counters;
    equal("sectors that the layer says were read", counters.host_read, asked.read_sectors)?;
    equal(
        "sectors that the layer says were written",
        counters.host_written,
        asked.written_sectors,
    )?;
    equal("flushes that the layer says came", counters.flushes, asked.flushes)?;
    for (cause, counted) in [
        (Cause::Gc, counters.gc_copied),
        (Cause::Pad, counters.padded),
        (Cause::Map, counters.map_written),
        (Cause::Checkpoint, counters.checkpoint_written),
        (Cause::List, counters.lists_written),
        (Cause::Journal, counters.journal_written),
    ] {
        let what = format!("sectors that the layer counts for {}, and those sent", cause.name());
        equal(&what, counted, work.sent(cause))?;
    }
    let rows = world.drives.iter().map(|drive| drive.spec().shape.row_sectors);
    causes(&work, &rows.collect::<Vec<_>>())?;
    let (split, busy) = (work.busy().total(), work.drives.iter().map(DriveWork::busy).sum());
    // Each cause of each drive may lose less than a nanosecond by rounding.
    let slack = (CAUSES * work.drives.len()) as u64;
    if u64::abs_diff(busy, split) > slack {
        equal("busy time by cause, in ns, and that of the flash", split, busy)?;
    }
    Ok(())
}

/// Every programmed sector has one cause, and what the layer sent arrives with the cause it had,
/// unless it still waits in a drive's buffer or never left it. A program of drive `i` is `rows[i]`
/// sectors.
fn causes(work: &Work, rows: &[u32]) -> Result<(), Violation> {
    let programmed = work.drives.iter().map(|drive| drive.flash.programs);
    let programmed = programmed.zip(rows).map(|(programs, row)| programs * u64::from(*row));
    let open: u64 = work.drives.iter().map(|drive| drive.open).sum();
    let sectors = programmed.sum();
    equal("sectors programmed, by cause, and programs", work.programmed() - open, sectors)?;
    for cause in Cause::ALL {
        let of = |drive: &DriveWork| {
            let index = cause as usize;
            drive.sectors[index] + drive.waiting[index] + drive.absorbed[index]
        };
        let arrived: u64 = work.drives.iter().map(of).sum();
        if !matches!(cause, Cause::Rmw | Cause::DriveGc) {
            let what = format!("sectors programmed for {}, and those sent", cause.name());
            equal(&what, arrived, work.sent(cause))?;
        }
    }
    Ok(())
}

fn equal(what: &str, one: u64, other: u64) -> Result<(), Violation> {
    match one == other {
        true => Ok(()),
        false => Err(Violation::Sum { what: what.to_owned(), one, other }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::Counters;

    /// Sectors of a superpage.
    const ROW: [u32; 1] = [128];

    /// One program of a superpage: 8 sectors of the host's and the rest read and written again.
    fn work() -> Work {
        let mut drive = DriveWork::default();
        drive.flash.programs = 1;
        drive.sectors[Cause::Host as usize] = 8;
        drive.sectors[Cause::Rmw as usize] = 120;
        let mut sent_by = [0; CAUSES];
        sent_by[Cause::Host as usize] = 8;
        Work {
            drives: vec![drive],
            erased: Vec::new(),
            counters: Counters::default(),
            sent_by,
            raw: false,
        }
    }

    fn broken(change: impl FnOnce(&mut Work)) -> String {
        let mut work = work();
        change(&mut work);
        causes(&work, &ROW).expect_err("a law is broken").to_string()
    }

    #[test]
    fn what_was_sent_is_what_arrived() {
        assert_eq!(causes(&work(), &ROW), Ok(()));
        assert_eq!(
            broken(|work| work.sent_by[Cause::Gc as usize] = 8),
            "sectors programmed for gc, and those sent: 0 is not 8"
        );
        assert_eq!(
            broken(|work| work.drives[0].sectors[Cause::Rmw as usize] = 119),
            "sectors programmed, by cause, and programs: 127 is not 128"
        );
    }
}
