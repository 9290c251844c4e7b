//! Conservation laws of a run. They are checked over the whole life of the world, including
//! preconditioning.

use hostftl_core::{CAUSES, Cause, Layer};
use hostftl_drives::{DriveWork, HandleWork, Model};

use crate::error::Violation;
use crate::front::Totals;
use crate::work::Work;
use crate::world::World;

/// Checks all laws on a stopped world. `asked` is the total of the requests.
///
/// # Errors
/// The first violated law.
pub fn check<L: Layer, D: Model>(world: &World<L, D>, asked: &Totals) -> Result<(), Violation> {
    if !world.is_stopped() || world.is_busy() || !world.layer().idle() {
        return Err(Violation::Check("the layer", "commands in progress after the stop"));
    }
    world.layer().check().map_err(|why| Violation::Check("the layer", why))?;
    for drive in &world.drives {
        drive.check().map_err(|why| Violation::Check("the drive", why))?;
    }
    let work = Work::of(world);
    let counters = &work.counters;
    equal("sectors read, as counted by the layer", counters.host_read, asked.read_sectors)?;
    equal(
        "sectors written, as counted by the layer",
        counters.host_written,
        asked.written_sectors,
    )?;
    equal("flushes received, as counted by the layer", counters.flushes, asked.flushes)?;
    for (cause, counted) in [
        (Cause::Gc, counters.gc_copied),
        (Cause::Pad, counters.padded),
        (Cause::Map, counters.map_written),
        (Cause::Checkpoint, counters.checkpoint_written),
        (Cause::List, counters.lists_written),
        (Cause::Journal, counters.journal_written),
    ] {
        let what = format!("sectors for {}, counted by the layer and sent", cause.name());
        equal(&what, counted, work.sent(cause))?;
    }
    for (index, drive) in world.drives.iter().enumerate() {
        causes(&work, index, drive.row_sectors())?;
    }
    let (split, busy) = (work.busy().total(), work.drives.iter().map(DriveWork::busy).sum());
    // Rounding may lose less than a nanosecond per cause and drive.
    let slack = (CAUSES * work.drives.len()) as u64;
    if u64::abs_diff(busy, split) > slack {
        equal("busy time by cause and of the flash, in ns", split, busy)?;
    }
    Ok(())
}

/// Checks that every sector programmed on device `index` has one cause. Sectors that the layer sent
/// must arrive with their cause, unless they are still in the device's buffer or were overwritten
/// there. `row` is the fixed length of a program in sectors, if it has one.
fn causes(work: &Work, index: usize, row: Option<u32>) -> Result<(), Violation> {
    let (drive, sent) = (&work.drives[index], &work.sent_to[index]);
    let place = match work.drives.len() {
        1 => String::new(),
        _ => format!(" (device {index})"),
    };
    if let Some(row) = row {
        let sectors = drive.flash.programs * u64::from(row);
        let what = format!("sectors programmed, by cause, and programs{place}");
        equal(&what, drive.programmed() - drive.open, sectors)?;
    }
    for cause in Cause::ALL {
        let at = cause as usize;
        let arrived = drive.sectors[at] + drive.waiting[at] + drive.absorbed[at];
        if !matches!(cause, Cause::Rmw | Cause::DriveGc) {
            let what = format!("sectors programmed for {}, and those sent{place}", cause.name());
            equal(&what, arrived, sent[at])?;
        }
    }
    Ok(())
}

/// Checks that the work for all placement ids is the work of the drives, between two moments
/// without commands in progress.
///
/// # Errors
/// The first violated law.
pub(crate) fn check_handles(work: &Work) -> Result<(), Violation> {
    for (index, handles) in work.handles.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
        let (drive, sent) = (&work.drives[index], work.sent_to[index].iter().sum());
        equal("sectors sent by placement id, and in all", total(handles, |it| it.sent), sent)?;
        // A flush of a volatile buffer programs rows again that belong to no id.
        if drive.aside == 0 {
            let what = "sectors programmed by placement id, and in all";
            equal(what, total(handles, |it| it.programmed), drive.programmed())?;
        }
    }
    Ok(())
}

fn total(handles: &[HandleWork], of: fn(&HandleWork) -> u64) -> u64 {
    handles.iter().map(of).sum()
}

fn equal(quantity: &str, one: u64, other: u64) -> Result<(), Violation> {
    if one == other {
        Ok(())
    } else {
        Err(Violation::Sum { quantity: quantity.to_owned(), one, other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::Counters;

    /// Sectors of a superpage.
    const ROW: Option<u32> = Some(128);

    /// One program of a superpage: 8 sectors of the host, and the rest from a read-modify-write.
    fn work() -> Work {
        let mut drive = DriveWork::default();
        drive.flash.programs = 1;
        drive.sectors[Cause::Host as usize] = 8;
        drive.sectors[Cause::Rmw as usize] = 120;
        let mut sent_by = [0; CAUSES];
        sent_by[Cause::Host as usize] = 8;
        Work {
            drives: vec![drive],
            handles: vec![Vec::new()],
            worn: vec![Vec::new()],
            counters: Counters::default(),
            sent_to: vec![sent_by],
            raw: false,
        }
    }

    fn broken(change: impl FnOnce(&mut Work)) -> String {
        let mut work = work();
        change(&mut work);
        causes(&work, 0, ROW).expect_err("a law is broken").to_string()
    }

    #[test]
    fn sent_and_received_sectors_are_equal() {
        assert_eq!(causes(&work(), 0, ROW), Ok(()));
        assert_eq!(
            broken(|work| work.sent_to[0][Cause::Gc as usize] = 8),
            "sectors programmed for gc, and those sent: 0 is not 8"
        );
        assert_eq!(
            broken(|work| work.drives[0].sectors[Cause::Rmw as usize] = 119),
            "sectors programmed, by cause, and programs: 127 is not 128"
        );
    }

    #[test]
    fn work_of_placement_ids_is_the_work_of_the_drive() {
        let mut work = work();
        let [one, other] = [(5, 100), (3, 28)];
        let handle = |(sent, programmed)| HandleWork { sent, programmed };
        work.handles[0] = vec![handle(one), handle(other)];
        assert_eq!(check_handles(&work), Ok(()));
        work.handles[0][1].programmed = 27;
        let why = check_handles(&work).expect_err("a law is broken").to_string();
        assert_eq!(why, "sectors programmed by placement id, and in all: 127 is not 128");
        work.handles[0][0].sent = 6;
        let why = check_handles(&work).expect_err("a law is broken").to_string();
        assert_eq!(why, "sectors sent by placement id, and in all: 9 is not 8");
    }

    #[test]
    fn sectors_must_arrive_at_their_device() {
        let mut two = work();
        two.drives.push(two.drives[0]);
        two.handles.push(Vec::new());
        two.worn.push(Vec::new());
        two.sent_to.push(two.sent_to[0]);
        assert_eq!((causes(&two, 0, ROW), causes(&two, 1, ROW)), (Ok(()), Ok(())));
        // The sums over both devices do not change.
        two.sent_to[0][Cause::Host as usize] = 0;
        two.sent_to[1][Cause::Host as usize] = 16;
        let broken = causes(&two, 1, ROW).expect_err("a law is broken").to_string();
        assert_eq!(broken, "sectors programmed for host, and those sent (device 1): 8 is not 16");
    }
}
