//! The raw model follows the rules of raw devices, and passes its flash operations to the sink.

use hostftl_core::{
    About, Cause, Command, DeviceError, DeviceInfo, MetaBuf, Piece, Tally, Target, Verdict,
};
use hostftl_drives::pool::FlashOp;
use hostftl_drives::zoned::rules::{Raw, obey};
use hostftl_drives::zoned::{Refusal, Zoned, ZonedFaults, ZonedSpec};

/// The model under the rules. It checks its invariants after each command.
struct Model(Zoned);

impl Model {
    fn ended<T>(&self, result: Result<T, Refusal>) -> Result<(), DeviceError> {
        assert_eq!(self.0.check(), Ok(()));
        result.map(drop).map_err(DeviceError::from)
    }
}

impl Raw for Model {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn write(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let result = self.0.write(lba, sectors, &mut |_| {});
        self.ended(result)
    }

    fn read(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let result = self.0.read(lba, sectors);
        self.ended(result)
    }

    fn reset(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let result = self.0.reset(lba, sectors, &mut |_| {});
        self.ended(result)
    }

    fn mark(&mut self, lba: u64, bad: bool) -> Result<(), DeviceError> {
        let result = self.0.mark(lba, bad, &mut |_| {});
        self.ended(result)
    }

    fn ask(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        self.0.report(about, into)
    }

    fn break_next(&mut self) -> bool {
        self.0.set_faults(ZonedFaults { programs_ppm: 1_000_000, ..ZonedFaults::default() });
        true
    }

    fn restart(&mut self) -> bool {
        let mut bytes = Vec::new();
        self.0.save(&mut bytes).unwrap();
        self.0 = Zoned::load(*self.0.spec(), &mut &bytes[..]).unwrap();
        true
    }
}

#[test]
fn every_shape_obeys_the_rules() {
    let free = ZonedSpec::new(4, 8, 12, 8);
    let chunks = ZonedSpec { write: 2, write_best: 4, unreadable: 6, max_open: 5, ..free };
    let zones = ZonedSpec { units: 1, segments: 200, page_sectors: 1, max_open: 14, ..free };
    let frail = ZonedSpec { cycles: 2, ..chunks };
    for spec in [free, chunks, zones, frail] {
        println!("{spec:?}");
        obey(|| Model(Zoned::new(spec).unwrap()));
    }
}

#[test]
fn completed_work_is_reported_to_the_flash() {
    let spec = ZonedSpec { write: 2, write_best: 2, ..ZonedSpec::new(2, 3, 4, 8) };
    let mut zoned = Zoned::new(spec).unwrap();
    let mut ops = Vec::new();
    let (device, placement) = (0, 0);
    let mut play = |command: Command| {
        let result = zoned.submit(&command, &mut |op| ops.push(op));
        command.void();
        result
    };
    let gather = hostftl_core::Gather::from_iter([Piece::zero_sectors(16)]);
    let tally = Tally::single(Cause::Host, 16);
    let lba = 4 * 32;
    assert_eq!(play(Command::Program { device, lba, gather, tally, placement }), Ok(0..0));
    let into = Target::Meta { buf: MetaBuf::new(1), pages: 1 };
    let read = play(Command::Read { device, lba: lba + 8, into, cause: Cause::Host });
    assert_eq!(read, Ok(17..18), "the second page of segment 4");
    assert_eq!(play(Command::Flush { device }), Ok(0..0));
    assert_eq!(play(Command::Reset { device, lba, sectors: 32 }), Ok(0..0));
    assert_eq!(play(Command::Reset { device, lba, sectors: 32 }), Ok(0..0), "nothing to erase");
    let report = Command::Report { device, about: About::Segments(0), into: MetaBuf::new(1) };
    assert_eq!(play(report), Err(Refusal::Unknown), "reports are asked for by themselves");
    let programs = [16, 17].map(|page| FlashOp::Program { page });
    assert_eq!(ops[..2], programs);
    assert_eq!(ops[2..], [FlashOp::Erase { segment: 4 }]);
}

#[test]
fn a_worn_segment_goes_offline() {
    let spec = ZonedSpec { cycles: 2, ..ZonedSpec::new(1, 3, 4, 8) };
    let mut zoned = Zoned::new(spec).unwrap();
    for _ in 0..2 {
        zoned.write(0, 8, &mut |_| {}).unwrap();
        zoned.reset(0, 32, &mut |_| {}).unwrap();
    }
    zoned.write(0, 8, &mut |_| {}).unwrap();
    assert_eq!(zoned.reset(0, 32, &mut |_| {}), Err(Refusal::Failed));
    assert_eq!(zoned.write(0, 8, &mut |_| {}), Err(Refusal::Offline));
    assert_eq!(zoned.read(0, 8), Err(Refusal::Unreadable(0)));
    assert_eq!(zoned.erased().collect::<Vec<_>>(), [2, 0, 0]);
    assert_eq!(zoned.check(), Ok(()));
    assert_eq!(zoned.write(32, 8, &mut |_| {}), Ok(()), "its neighbours work on");
}
