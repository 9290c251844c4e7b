//! A raw drive in time: both clocks make the same decisions, and failures take as long as
//! successes.

use std::collections::VecDeque;

use hostftl_core::{
    About, Cause, Command, DeviceError, DeviceInfo, DeviceKind, Gather, MetaBuf, Nanos, Payload,
    Piece, Segments, Tally, Target, Verdict,
};
use hostftl_drives::zoned::rules::{Raw, obey};
use hostftl_drives::{Clock, Drive, DriveSpec, DriveWork, FlashBusy};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SMALL: &str = "open-channel:capacity=64m:pages=16";

/// A drive with one command at a time.
struct Patient {
    drive: Drive,
    now: Nanos,
    took: Nanos,
}

impl Patient {
    fn new(name: &str, clock: Clock) -> Self {
        let spec = DriveSpec::find(name).unwrap_or_else(|why| panic!("{why}"));
        let mut drive = Drive::new(&spec).expect("it fits");
        drive.set_clock(clock);
        Patient { drive, now: 0, took: 0 }
    }

    fn run(&mut self, command: Command) -> Result<(), DeviceError> {
        let (since, over) = (self.now, self.drive.submit(self.now, 7, &command));
        command.void();
        let result = over.unwrap_or_else(|| {
            let mut ended = VecDeque::new();
            while ended.is_empty() {
                self.now = self.drive.advance(Nanos::MAX, &mut ended);
            }
            ended[0].result
        });
        assert_eq!(self.drive.check(), Ok(()));
        self.took = self.now - since;
        result
    }

    fn segments(&self) -> Segments {
        let DeviceKind::Zoned(segments) = self.drive.info().kind else { panic!("it is raw") };
        segments
    }
}

impl Raw for Patient {
    fn info(&self) -> DeviceInfo {
        self.drive.info()
    }

    fn write(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let gather = Gather::from_iter([Piece::zero_sectors(sectors as u32)]);
        let tally = Tally::single(Cause::Host, sectors as u32);
        self.run(Command::Program { device: 0, lba, gather, tally, placement: 0 })
    }

    fn read(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let mut payload = Payload::issue(0, sectors as u32);
        let into = Target::Data(payload.view_mut_sectors(0, sectors as u32));
        let result = self.run(Command::Read { device: 0, lba, into, cause: Cause::Host });
        payload.void();
        result
    }

    fn reset(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        self.run(Command::Reset { device: 0, lba, sectors })
    }

    fn mark(&mut self, lba: u64, bad: bool) -> Result<(), DeviceError> {
        self.run(Command::Mark { device: 0, lba, bad })
    }

    fn ask(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        self.drive.report(about, into)
    }

    fn restart(&mut self) -> bool {
        let mut bytes = Vec::new();
        self.drive.save(&mut bytes).unwrap();
        let spec = self.drive.spec().clone();
        self.drive = Drive::load(&spec, &mut &bytes[..]).unwrap();
        true
    }
}

#[test]
fn a_raw_drive_obeys_the_rules_under_both_clocks() {
    for clock in [Clock::Counts, Clock::Timed] {
        obey(|| Patient::new(SMALL, clock));
        obey(|| Patient::new(&format!("{SMALL}:max_open=9:write_pages=2"), clock));
    }
}

#[test]
fn a_command_takes_its_time() {
    let mut device = Patient::new(&format!("{SMALL}:failing_erases_ppm=1000000"), Clock::Timed);
    let size = u64::from(device.segments().size);
    // A row is two pages of 16 KiB over one bus of 333 MB/s: 98.4 µs.
    device.write(0, 64).expect("at the pointer");
    assert_eq!(device.took / 1000, 750 + 98);
    device.write(64, size - 64).expect("at the pointer");
    assert_eq!(device.took / 1000, (750 + 98) * 15 + 6, "row after row");
    device.read(8, 8).expect("it is closed");
    assert_eq!(device.took / 1000, 75 + 12);
    assert_eq!(device.reset(0, size), Err(DeviceError::Media));
    assert_eq!(device.took / 1000, 3800, "a failure is known when it is over");
    assert_eq!(device.reset(0, size), Err(DeviceError::Media));
    assert_eq!(device.took, 0, "offline is known at once");
}

#[test]
fn units_work_in_parallel_and_segments_of_a_unit_do_not() {
    for (other, factor) in [(1, 2.0), (64, 1.0)] {
        let mut device = Patient::new("open-channel:capacity=1g:ways=1", Clock::Timed);
        let Segments { size, count, units, .. } = device.segments();
        assert_eq!((units, count / units), (4, 128));
        let far = if other == 1 { 1 } else { count / units };
        for (slot, segment) in [(0, 0), (1, far)] {
            let gather = Gather::from_iter([Piece::zero_sectors(size)]);
            let tally = Tally::single(Cause::Host, size);
            let lba = u64::from(segment) * u64::from(size);
            let program = Command::Program { device: 0, lba, gather, tally, placement: 0 };
            assert_eq!(device.drive.submit(0, slot, &program), None);
            program.void();
        }
        let (mut ended, mut now) = (VecDeque::new(), 0);
        while device.drive.next_at().is_some() {
            now = device.drive.advance(Nanos::MAX, &mut ended);
        }
        let rows = f64::from(size / 64) * 848.0;
        let both = now as f64 / 1000.0 / rows;
        assert!((both - factor).abs() < 0.02, "{both} times one program");
    }
}

/// Writes, reads and resets random segments. Returns the counters, the erases, and the number of
/// failures.
fn play(clock: Clock, name: &str) -> (DriveWork, Vec<u32>, u32) {
    let mut device = Patient::new(name, clock);
    let Segments { size, count, write_unit, .. } = device.segments();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut pointers = vec![0; count as usize];
    let mut failures = 0;
    for _ in 0..20_000 {
        let segment = dice.random_range(0..count);
        let first = u64::from(segment) * u64::from(size);
        let pointer = &mut pointers[segment as usize];
        let result = match dice.random_range(0..10) {
            _ if *pointer == size => {
                *pointer = 0;
                device.reset(first, size.into())
            }
            0..7 => {
                let most = (size - *pointer) / write_unit;
                let sectors = write_unit * dice.random_range(1..=most.min(3));
                let result = device.write(first + u64::from(*pointer), sectors.into());
                *pointer += if result.is_ok() { sectors } else { 0 };
                result
            }
            _ => {
                let _ = device.read(first, u64::from((*pointer).max(1)));
                Ok(())
            }
        };
        failures += u32::from(result.is_err());
    }
    let mut work = device.drive.work();
    work.flash.busy = FlashBusy::default();
    (work, device.drive.erased().collect(), failures)
}

#[test]
fn both_clocks_give_equal_counts_with_failures() {
    let name = format!("{SMALL}:failing_programs_ppm=300:failing_erases_ppm=3000:bad_percent=4");
    let (timed, counts) = (play(Clock::Timed, &name), play(Clock::Counts, &name));
    assert_eq!(timed, counts);
    assert!(timed.2 > 100, "only {} failures", timed.2);
    let other = play(Clock::Counts, &format!("{name}:fault_seed=2"));
    assert_ne!(other.1, counts.1, "another seed, other segments");
    let plain = play(Clock::Counts, SMALL);
    assert_eq!(plain.2, 0, "without faults nothing fails");
}

#[test]
fn a_saved_raw_drive_is_the_same_drive() {
    let mut device = Patient::new(SMALL, Clock::Timed);
    let size = u64::from(device.segments().size);
    device.write(0, 64).unwrap();
    device.write(size, size).unwrap();
    device.reset(size, size).unwrap();
    let mut bytes = Vec::new();
    device.drive.save(&mut bytes).unwrap();
    let spec = device.drive.spec().clone();
    let drive = Drive::load(&spec, &mut &bytes[..]).expect("it was saved");
    let mut loaded = Patient { drive, now: 0, took: 0 };
    assert_eq!(loaded.write(0, 64), Err(DeviceError::Unsupported), "the pointer is at 64");
    assert_eq!(loaded.write(64, 64), Ok(()));
    assert_eq!(loaded.drive.erased().collect::<Vec<_>>()[..2], [0, 1]);
    assert!(Drive::load(&spec, &mut &bytes[..50]).is_err());
}

#[test]
fn keys_of_the_other_kind_are_refused() {
    let why = |name: &str| DriveSpec::find(name).expect_err("it is refused").to_string();
    let text = why("open-channel:gc=fifo");
    assert!(text.contains("gc is a key of kind = \"block\""), "{text}");
    let text = why("mlc-32g:max_open=4");
    assert!(text.contains("max_open is a key of kind = \"zoned\""), "{text}");
    let text = why("open-channel:kind=tape");
    assert!(text.contains("use block or zoned"), "{text}");
    let text = why("open-channel:write_best_pages=3");
    assert!(text.contains("must divide the 64 pages"), "{text}");
}
