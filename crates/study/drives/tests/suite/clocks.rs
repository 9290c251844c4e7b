//! Both clocks make the same decisions: equal commands give equal counters.

use crate::rig::Rig;
use hostftl_core::Cause;
use hostftl_drives::{Clock, Drive, DriveSpec, DriveWork, FlashBusy};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Runs a mix with many overwrites and returns the counters.
fn play(spec: &DriveSpec, clock: Clock) -> (DriveWork, Vec<u32>) {
    let mut rig = Rig::new(spec);
    rig.drive.set_clock(clock);
    rig.fill();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(5);
    for i in 0..60_000 {
        let sectors = [8, 8, 8, 32, 1, 128, 256][dice.random_range(0..7)];
        let lba = dice.random_range(0..spec.exported - u64::from(sectors)) / 8 * 8;
        match dice.random_range(0..100) {
            0..70 => drop(rig.write(lba, sectors)),
            70..95 => drop(rig.read(lba, sectors)),
            95..98 => rig.trim(lba, sectors.into()),
            _ => drop(rig.flush()),
        }
        if i % 16 == 0 {
            rig.advance();
        }
    }
    rig.drain();
    assert_eq!(rig.drive.check(), Ok(()), "{}", spec.name);
    let mut work = rig.drive.work();
    work.flash.busy = FlashBusy::default();
    (work, rig.drive.erased().collect())
}

#[test]
fn every_drive_counts_the_same_under_both_clocks() {
    // A model with a host link and a budget of programs, of which this is a small part.
    let sold = "kioxia-fl6-1t6:channels=1:program_dies=2";
    for name in DriveSpec::names().filter(|name| *name != "open-channel").chain([sold]) {
        let spec = DriveSpec::find(&format!("{name}:capacity=256m:over_provisioning_percent=60"))
            .expect("a possible drive");
        let (timed, counts) = (play(&spec, Clock::Timed), play(&spec, Clock::Counts));
        assert_eq!(timed, counts, "{name}");
        assert!(timed.0.flash.erases > 0 && timed.0.flash.programs > 0, "{name}");
        let energy = |work: &DriveWork| -> u64 {
            Cause::ALL.into_iter().map(|cause| spec.energy_nj(work, cause)).sum()
        };
        assert!(energy(&timed.0) > 0, "{name}");
    }
}

#[test]
fn the_clock_changes_between_commands() {
    let spec = DriveSpec::find("tlc:capacity=256m:over_provisioning_percent=60").unwrap();
    let mut rig = Rig::new(&spec);
    for round in 0..20 {
        rig.drive.set_clock(if round % 2 == 0 { Clock::Counts } else { Clock::Timed });
        let before = rig.now;
        rig.overwrite(1_001, 8);
        assert_eq!(rig.now > before, round % 2 == 1);
        assert_eq!(rig.drive.check(), Ok(()), "round {round}");
    }
    assert!(Drive::new(&spec).is_ok_and(|drive| drive.idle()));
}
