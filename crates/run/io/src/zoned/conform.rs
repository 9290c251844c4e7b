//! Conformance of zoned files and memory to the rules of raw devices, with both engines.

use std::sync::Arc;

use hostftl_core::{
    About, Cause, Command, DeviceError, DeviceInfo, Done, Gather, MetaBuf, Page, Payload, Piece,
    Tally, Target, Token, Verdict,
};
use hostftl_drives::zoned::rules::{Raw, obey};
use hostftl_format::superblock::RESERVE;

use super::make_file;
use crate::arena::{Arena, Class};
use crate::device::Device;
use crate::engine::EngineKind;
use crate::waker::Waker;
use crate::world::World;

/// Maximum length of a command, in sectors.
const LONGEST: u32 = 2048;
const BUFFERS: u32 = 4;

/// Device whose commands are awaited one at a time.
struct Patient {
    name: String,
    engine: EngineKind,
    world: Option<World>,
    arena: Arc<Arena>,
    buffers: Vec<Payload>,
    /// Whether there are gaps between its segments.
    spread: bool,
    /// Keeps the directory of the file.
    _folder: Option<tempfile::TempDir>,
}

impl Patient {
    fn new(name: String, engine: EngineKind, folder: Option<tempfile::TempDir>) -> Self {
        let class = Class { bytes: 4096, count: 1 };
        let arena = Arena::new(&[class], Class::with_sectors(LONGEST, BUFFERS)).unwrap();
        let buffers = arena.layer_buffers(LONGEST);
        let world = None;
        let spread = false;
        let mut patient = Patient { name, engine, world, arena, buffers, spread, _folder: folder };
        patient.open();
        patient
    }

    /// Creates segments in memory with gaps between them.
    fn spread(options: &str, engine: EngineKind) -> Self {
        let mut patient = Patient::new(format!("zoned:mem:16m?{options}"), engine, None);
        patient.spread = true;
        patient.open();
        patient
    }

    /// Creates a zoned file of `mib` MiB with these options.
    fn file(options: &str, mib: u64, engine: EngineKind) -> Self {
        Self::part(options, mib, "", engine)
    }

    /// Opens a part of such a file.
    fn part(options: &str, mib: u64, part: &str, engine: EngineKind) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("zones");
        let name = format!("zoned:{}", path.display());
        make_file(&format!("{name}?{options}"), mib << 20, None).unwrap();
        Patient::new(format!("{name}{part}"), engine, Some(folder))
    }

    fn open(&mut self) {
        let mut device = Device::open(&self.name).unwrap();
        if self.spread {
            let zoned = device.as_zoned().unwrap();
            zoned.spread();
            let sectors = zoned.sectors();
            device.set_window(RESERVE, sectors);
        }
        let devices = vec![device];
        let waker = Arc::new(Waker::new().unwrap());
        self.world =
            Some(World::new(devices, self.arena.clone().into(), waker, self.engine).unwrap());
    }

    fn world(&mut self) -> &mut World {
        self.world.as_mut().expect("it is open")
    }

    fn wait(&mut self) -> Done {
        loop {
            self.world().poll();
            if let Some(done) = self.world().take_done() {
                return done;
            }
            self.world().sleep(None, || false);
        }
    }

    fn run(&mut self, command: Command) -> (Command, Result<Verdict, DeviceError>) {
        self.world().submit(Token(1), command);
        let done = self.wait();
        (done.command, done.result)
    }

    fn zeros(lba: u64, sectors: u64) -> Command {
        let gather = Gather::from_iter([Piece::zero_sectors(sectors as u32)]);
        let tally = Tally::single(Cause::Host, sectors as u32);
        Command::Program { device: 0, lba, gather, tally, placement: 0 }
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        for buffer in self.buffers.drain(..) {
            buffer.surrender();
        }
    }
}

impl Raw for Patient {
    fn info(&self) -> DeviceInfo {
        self.world.as_ref().expect("it is open").devices()[0].info()
    }

    fn write(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let (command, result) = self.run(Self::zeros(lba, sectors));
        command.void();
        result.map(drop)
    }

    fn read(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        self.get(lba, sectors).map(drop)
    }

    fn reset(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        self.run(Command::Reset { device: 0, lba, sectors }).1.map(drop)
    }

    fn mark(&mut self, lba: u64, bad: bool) -> Result<(), DeviceError> {
        self.run(Command::Mark { device: 0, lba, bad }).1.map(drop)
    }

    fn ask(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        let (command, result) =
            self.run(Command::Report { device: 0, about, into: std::mem::take(into) });
        let Command::Report { into: back, .. } = command else { panic!("the command returns") };
        *into = back;
        result
    }

    fn put(&mut self, lba: u64, pieces: &[(u8, u64)]) -> Result<(), DeviceError> {
        let gather = Gather::from_iter(pieces.iter().zip(&mut self.buffers).map(
            |(&(byte, sectors), buffer)| {
                let bytes = sectors as u32 * 512;
                let start = self.arena.address(buffer.id(), 0, bytes);
                // SAFETY: the buffer is idle, and has that length.
                unsafe { start.write_bytes(byte, bytes as usize) };
                Piece::Data(buffer.view(0, bytes))
            },
        ));
        let tally = Tally::single(Cause::Host, pieces.iter().map(|(_, it)| *it as u32).sum());
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        let (command, result) = self.run(command);
        let Command::Program { gather, .. } = command else { panic!("the command returns") };
        for (piece, buffer) in gather.into_iter().zip(&mut self.buffers) {
            let Piece::Data(view) = piece else { panic!("it was data") };
            buffer.repay(view);
        }
        result.map(drop)
    }

    fn get(&mut self, lba: u64, sectors: u64) -> Result<Option<Vec<u8>>, DeviceError> {
        let pages = sectors.div_ceil(8) as u32;
        let into = Target::Meta { buf: MetaBuf::new(pages as usize), pages };
        if !sectors.is_multiple_of(8) {
            return self
                .get(lba, u64::from(pages) * 8)
                .map(|bytes| bytes.map(|bytes| bytes[..sectors as usize * 512].to_vec()));
        }
        let (command, result) =
            self.run(Command::Read { device: 0, lba, into, cause: Cause::Host });
        let Command::Read { into: Target::Meta { buf, .. }, .. } = command else {
            panic!("the command returns")
        };
        let bytes = |page: &Page| page.0;
        result.map(|_| Some(buf.pages().iter().flat_map(bytes).collect()))
    }

    fn write_at_once(&mut self, writes: &[(u64, u64)]) -> Vec<Result<(), DeviceError>> {
        for (index, &(lba, sectors)) in writes.iter().enumerate() {
            let command = Self::zeros(lba, sectors);
            self.world().submit(Token(index as u64), command);
        }
        let mut results = vec![Ok(()); writes.len()];
        for _ in writes {
            let done = self.wait();
            done.command.void();
            results[done.token.0 as usize] = done.result.map(drop);
        }
        results
    }

    fn restart(&mut self) -> bool {
        if self.name.contains("mem:") {
            return false;
        }
        self.run(Command::Flush { device: 0 }).1.unwrap();
        self.world = None;
        self.open();
        true
    }
}

const ENGINES: [EngineKind; 2] = [EngineKind::Uring, EngineKind::Pread];
const SHAPES: [&str; 3] = [
    "zone=128k&write=4k",
    "zone=256k&units=2&write=8k&best=16k&unreadable=24k&open=5",
    "zone=64k&units=4&write=4k&open=14",
];

#[test]
#[cfg_attr(miri, ignore = "Miri opens no devices")]
fn segments_in_memory_obey_the_rules() {
    for engine in ENGINES {
        for shape in SHAPES {
            obey(|| Patient::new(format!("zoned:mem:8m?{shape}"), engine, None));
        }
    }
}

/// Represents a drive whose zones have a capacity below their length.
#[test]
#[cfg_attr(miri, ignore = "Miri opens no devices")]
fn segments_with_gaps_between_them_obey_the_rules() {
    for engine in ENGINES {
        for shape in SHAPES {
            obey(|| Patient::spread(shape, engine));
        }
    }
    let mut device = Patient::spread(SHAPES[0], EngineKind::Pread);
    let pieces = [(3, 256)];
    for segment in 0..4 {
        device.put(segment * 256, &pieces).unwrap();
    }
    device.reset(256, 256).unwrap();
    assert_eq!(device.get(256, 8), Err(DeviceError::Media));
    for segment in [0, 2, 3] {
        assert_eq!(device.get(segment * 256, 256).unwrap().unwrap(), vec![3; 256 * 512]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no devices")]
fn a_zoned_file_obeys_the_rules() {
    for engine in ENGINES {
        for shape in SHAPES {
            obey(|| Patient::file(shape, 24, engine));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no devices")]
fn a_part_of_a_zoned_file_obeys_the_rules() {
    let parts = ["#zones=40-80", "#units=1", "#units=1-3"];
    for engine in ENGINES {
        for (shape, part) in SHAPES.into_iter().zip(parts) {
            obey(|| Patient::part(shape, 40, part, engine));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no devices")]
fn adjacent_parts_share_a_table_without_interference() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("zones");
    let name = format!("zoned:{}", path.display());
    make_file(&format!("{name}?zone=128k&units=2&open=20"), 24 << 20, None).unwrap();
    let part = |text: &str| Patient::new(format!("{name}#{text}"), EngineKind::Uring, None);
    let (mut left, mut right) = (part("units=0"), part("zones=88-120"));
    let hostftl_core::DeviceKind::Zoned(shape) = right.info().kind else { panic!("it is zoned") };
    assert_eq!((shape.count, shape.units, shape.max_open), (16, 1, 3), "its share of 20");
    // Each flush writes the page with the pointers of both.
    for round in 0..20_u64 {
        left.put(round * 8, &[(1, 8)]).unwrap();
        left.run(Command::Flush { device: 0 }).1.unwrap();
        right.put(256 + round * 8, &[(2, 8)]).unwrap();
        right.run(Command::Flush { device: 0 }).1.unwrap();
    }
    for text in ["zones=0-30", "zones=100-150", "units=1", "zones=0-167"] {
        let refused = Device::open(&format!("{name}#{text}")).unwrap_err().to_string();
        assert!(refused.contains("(this one), which has its zones"), "{refused}");
    }
    let refused = Device::open(&name).unwrap_err().to_string();
    assert!(refused.contains("(this one)"), "{refused}");
    drop(Device::open(&format!("{name}#zones=121-167")).unwrap());
    // Without a flush, as after a kill.
    for patient in [&mut left, &mut right] {
        patient.world = None;
        patient.open();
    }
    assert_eq!(left.get(0, 160).unwrap().unwrap(), vec![1; 160 * 512]);
    assert_eq!(right.get(256, 160).unwrap().unwrap(), vec![2; 160 * 512]);
    let before = std::fs::read(&path).unwrap();
    right.reset(256, 256).unwrap();
    right.put(0, &[(3, 256)]).unwrap();
    right.run(Command::Flush { device: 0 }).1.unwrap();
    let after = std::fs::read(&path).unwrap();
    // Zones of 128 KiB follow the first two MiB.
    let zone = |index: usize| (2 << 20) + index * (128 << 10);
    let changed: Vec<_> = (zone(0)..after.len()).filter(|at| before[*at] != after[*at]).collect();
    assert!(changed.iter().all(|at| (zone(88)..zone(121)).contains(at)), "only its own zones");
    assert!(!changed.is_empty());
    right.world = None;
    Device::open(&format!("{name}#zones=88-120")).unwrap().clear_window().unwrap();
    right.open();
    assert_eq!(right.get(0, 8), Err(DeviceError::Media), "it is cleared");
    assert_eq!(left.get(0, 160).unwrap().unwrap(), vec![1; 160 * 512]);
}

/// Runs if `HOSTFTL_ZONED` names a zoned block device that may be overwritten.
#[test]
fn a_zoned_block_device_obeys_the_rules() {
    let Ok(name) = std::env::var("HOSTFTL_ZONED") else {
        return hostftl_test_skip::skipped("HOSTFTL_ZONED names no zoned block device");
    };
    for engine in ENGINES {
        obey(|| {
            let mut device = Patient::new(format!("zoned:{name}"), engine, None);
            for segment in 0..3 {
                let hostftl_core::DeviceKind::Zoned(shape) = device.info().kind else {
                    panic!("it is zoned")
                };
                let size = u64::from(shape.size);
                device.reset(segment * size, size).unwrap();
            }
            device
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no devices")]
fn only_unflushed_data_may_be_lost() {
    let mut device = Patient::file("zone=128k", 8, EngineKind::Pread);
    device.put(0, &[(1, 16)]).unwrap();
    assert!(device.restart());
    device.put(16, &[(2, 16)]).unwrap();
    device.put(256, &[(3, 8)]).unwrap();
    // As after a kill: the pointers were not stored.
    device.world = None;
    device.open();
    assert_eq!(device.get(0, 16).unwrap().unwrap()[0], 1);
    assert_eq!(device.get(16, 8), Err(DeviceError::Media));
    device.put(16, &[(4, 16)]).unwrap();
    device.reset(0, 256).unwrap();
    device.world = None;
    device.open();
    assert_eq!(device.get(0, 8), Err(DeviceError::Media), "a reset is kept at once");
    device.put(0, &[(5, 8)]).unwrap();
}
