//! Rules for every raw device. Each rule gets a new device and panics if the device breaks it.
//! Modelled flash, zoned files, segments in memory, zoned block devices and the device of the chaos
//! driver are all tested with them.

use hostftl_core::{About, DeviceError, DeviceInfo, DeviceKind, MetaBuf, Segments, Verdict};
use hostftl_format::report::{self, SegmentReport, SegmentState};

/// Interface of a device under test. Positions are in sectors.
pub trait Raw {
    /// Returns the device's interface as a layer sees it.
    fn info(&self) -> DeviceInfo;
    /// Writes any data.
    ///
    /// # Errors
    /// When the device refuses.
    fn write(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError>;
    /// Reads a range.
    ///
    /// # Errors
    /// When the device refuses, or cannot return the data.
    fn read(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError>;
    /// Resets a segment.
    ///
    /// # Errors
    /// When the device refuses.
    fn reset(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError>;
    /// Marks the segment at `lba` bad or good.
    ///
    /// # Errors
    /// When the device refuses, or has no such command.
    fn mark(&mut self, lba: u64, bad: bool) -> Result<(), DeviceError>;
    /// Requests a report.
    ///
    /// # Errors
    /// When the device does not support it.
    fn ask(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError>;

    /// Writes several pieces as one write. Each piece is a number of sectors filled with one byte.
    ///
    /// # Errors
    /// The errors of [`Raw::write`].
    fn put(&mut self, lba: u64, pieces: &[(u8, u64)]) -> Result<(), DeviceError> {
        self.write(lba, pieces.iter().map(|(_, sectors)| sectors).sum())
    }

    /// Reads a range and returns its bytes, or `None` if the device stores none.
    ///
    /// # Errors
    /// The errors of [`Raw::read`].
    fn get(&mut self, lba: u64, sectors: u64) -> Result<Option<Vec<u8>>, DeviceError> {
        self.read(lba, sectors).map(|()| None)
    }

    /// Submits several writes before it waits for any.
    fn write_at_once(&mut self, writes: &[(u64, u64)]) -> Vec<Result<(), DeviceError>> {
        writes.iter().map(|&(lba, sectors)| self.write(lba, sectors)).collect()
    }

    /// Makes the next write fail. Returns false if the device cannot do that.
    fn break_next(&mut self) -> bool {
        false
    }

    /// Flushes, cuts the power, and starts again. Returns false if the device has no such state.
    fn restart(&mut self) -> bool {
        false
    }
}

/// A rule: its name and its test.
pub type Rule = (&'static str, fn(&mut dyn Raw));

/// All rules. The device needs at least three segments of at least three smallest writes each, and
/// segments that survive two resets.
pub const RULES: &[Rule] = &[
    ("segments make up the device", segments_make_up_the_device),
    ("a segment goes from free to open to closed", a_segment_fills),
    ("writes continue at the write pointer", writes_go_on_at_the_pointer),
    ("writes are whole units", writes_are_whole_units),
    ("nothing crosses the end of a segment", nothing_crosses_the_end),
    ("unwritten sectors are unreadable", unwritten_is_unreadable),
    ("the last written rows are unreadable", the_last_is_unreadable),
    ("a reset takes a whole segment and frees it", a_reset_frees),
    ("too many open segments are an error", too_many_open),
    ("a report begins at the requested segment and ends with the pages", a_report_has_an_end),
    ("wear only grows", wear_only_grows),
    ("a device without a map reports it", no_map),
    ("a write of several pieces is one write", pieces_are_one_write),
    ("a write may be as long as a segment", whole_segments),
    ("several writes to a segment take place in their order", writes_keep_their_order),
    ("a failed write takes only its segment offline", a_failure_is_local),
    ("flushed data survives a restart", a_restart_keeps),
    ("a host marks segments bad and good", marks_count),
];

/// Tests new devices with all rules.
///
/// # Panics
/// When a rule is broken.
pub fn obey<D: Raw>(mut make: impl FnMut() -> D) {
    for (name, rule) in RULES {
        println!("{name}");
        rule(&mut make());
    }
}

fn geometry(device: &dyn Raw) -> Segments {
    match device.info().kind {
        DeviceKind::Zoned(segments) => segments,
        DeviceKind::Block => panic!("a raw device reports its kind"),
    }
}

fn describe(device: &mut dyn Raw, segment: u32) -> SegmentReport {
    let mut pages = MetaBuf::new(1);
    let filled =
        device.ask(About::Segments(segment), &mut pages).expect("a raw device reports").bytes
            as usize;
    assert!(filled >= report::SEGMENT_BYTES, "segment {segment} is reported");
    report::segment(pages.pages(), 0).expect("a report can be parsed")
}

/// Returns the state and the pointer of a segment.
fn state(device: &mut dyn Raw, segment: u32) -> (SegmentState, u64) {
    let SegmentReport { state, pointer, .. } = describe(device, segment);
    (state, pointer)
}

fn fill(device: &mut dyn Raw, segment: u32) {
    let length = describe(device, segment).length;
    device.write(start(device, segment), length).expect("a free segment can be filled");
}

fn start(device: &dyn Raw, segment: u32) -> u64 {
    u64::from(segment) * u64::from(geometry(device).size)
}

fn segments_make_up_the_device(device: &mut dyn Raw) {
    let Segments { size, write_unit, write_best, count, units, .. } = geometry(device);
    assert_eq!(device.info().sectors, u64::from(size) * u64::from(count));
    assert!(count >= 3 && size >= 3 * write_unit, "too small for the rules");
    assert!(count.is_multiple_of(units) && write_best.is_multiple_of(write_unit));
    for segment in 0..count {
        let entry = describe(device, segment);
        assert_eq!(entry.start, start(device, segment));
        assert!(entry.length <= size.into() && entry.length.is_multiple_of(write_unit.into()));
        assert_eq!((entry.state, entry.pointer), (SegmentState::Free, 0), "a new device is erased");
    }
}

fn a_segment_fills(device: &mut dyn Raw) {
    let unit = u64::from(geometry(device).write_unit);
    let (first, length) = (start(device, 1), describe(device, 1).length);
    for at in (0..length).step_by(unit as usize) {
        device.write(first + at, unit).expect("writes in order are taken");
        let closed = at + unit == length;
        let expected = if closed { SegmentState::Closed } else { SegmentState::Open };
        assert_eq!(state(device, 1), (expected, at + unit));
    }
    assert_eq!(device.read(first, length), Ok(()), "a closed segment is readable to its end");
    assert!(device.write(first, unit).is_err(), "a closed segment takes no write");
    assert_eq!(state(device, 0).0, SegmentState::Free, "the neighbour is unchanged");
}

fn writes_go_on_at_the_pointer(device: &mut dyn Raw) {
    let unit = u64::from(geometry(device).write_unit);
    assert_eq!(device.write(unit, unit), Err(DeviceError::Unsupported), "beyond the pointer");
    device.write(0, unit).expect("at the pointer");
    assert_eq!(device.write(0, unit), Err(DeviceError::Unsupported), "over written sectors");
    assert_eq!(device.write(2 * unit, unit), Err(DeviceError::Unsupported), "with a gap");
    assert_eq!(state(device, 0), (SegmentState::Open, unit), "a refused write changes nothing");
    device.write(unit, 2 * unit).expect("at the pointer, two units");
}

fn writes_are_whole_units(device: &mut dyn Raw) {
    let unit = u64::from(geometry(device).write_unit);
    assert!(device.write(0, 0).is_err(), "a write of nothing");
    for sectors in [unit + 1, 2 * unit - 1].into_iter().filter(|it| !it.is_multiple_of(unit)) {
        assert_eq!(device.write(0, sectors), Err(DeviceError::Unsupported), "{sectors} sectors");
    }
    assert_eq!(state(device, 0), (SegmentState::Free, 0));
}

fn nothing_crosses_the_end(device: &mut dyn Raw) {
    let Segments { size, write_unit, count, .. } = geometry(device);
    let (size, unit) = (u64::from(size), u64::from(write_unit));
    assert!(device.write(0, size + unit).is_err());
    fill(device, 0);
    fill(device, 1);
    assert!(device.read(size - unit, 2 * unit).is_err());
    assert!(device.reset(0, 2 * size).is_err());
    assert!(device.write(u64::from(count) * size, unit).is_err(), "beyond the device");
    assert!(device.read(u64::from(count) * size, unit).is_err(), "beyond the device");
    assert!(device.reset(u64::from(count) * size, size).is_err(), "beyond the device");
}

fn unwritten_is_unreadable(device: &mut dyn Raw) {
    let unit = u64::from(geometry(device).write_unit);
    assert_eq!(device.read(0, 1), Err(DeviceError::Media));
    device.write(0, unit).expect("at the pointer");
    assert_eq!(device.read(unit - 1, 2), Err(DeviceError::Media), "across the pointer");
}

fn the_last_is_unreadable(device: &mut dyn Raw) {
    let Segments { write_unit, unreadable, .. } = geometry(device);
    let (unit, length) = (u64::from(write_unit), describe(device, 0).length);
    for pointer in (unit..length).step_by(unit as usize) {
        device.write(pointer - unit, unit).expect("at the pointer");
        let readable = pointer.saturating_sub(unreadable.into());
        assert!(readable == 0 || device.read(0, readable).is_ok(), "the older part is readable");
        assert_eq!(device.read(readable, 1), Err(DeviceError::Media), "the newer part is not");
    }
    device.write(length - unit, unit).expect("the last unit");
    assert_eq!(device.read(0, length), Ok(()), "all of a closed segment is");
}

fn a_reset_frees(device: &mut dyn Raw) {
    let Segments { size, write_unit, .. } = geometry(device);
    let (size, unit) = (u64::from(size), u64::from(write_unit));
    device.write(0, unit).expect("at the pointer");
    assert!(device.reset(0, size - unit).is_err(), "a part of a segment");
    assert!(device.reset(unit, size).is_err(), "across two");
    assert_eq!(state(device, 0), (SegmentState::Open, unit));
    assert_eq!(device.reset(0, size), Ok(()), "an open segment");
    assert_eq!(state(device, 0), (SegmentState::Free, 0));
    assert_eq!(device.read(0, unit), Err(DeviceError::Media), "the segment is empty");
    fill(device, 0);
    assert_eq!(device.reset(0, size), Ok(()), "a closed segment");
    device.write(0, unit).expect("it can be written again");
}

fn too_many_open(device: &mut dyn Raw) {
    let Segments { size, write_unit, max_open, count, .. } = geometry(device);
    let (size, unit) = (u64::from(size), u64::from(write_unit));
    let most = if max_open == 0 { count } else { max_open };
    for segment in 0..most {
        device.write(u64::from(segment) * size, unit).expect("a segment that may be open");
    }
    if most == count {
        return;
    }
    let next = u64::from(most) * size;
    assert_eq!(device.write(next, unit), Err(DeviceError::Unsupported), "one above the limit");
    assert_eq!(state(device, most), (SegmentState::Free, 0));
    device.write(unit, unit).expect("an open segment continues");
    let length = describe(device, 0).length;
    device.write(2 * unit, length - 2 * unit).expect("to its end");
    device.write(next, unit).expect("a closed segment frees an open slot");
    device.reset(next, size).expect("an open segment can be reset");
    device.write(next, unit).expect("a reset segment frees an open slot");
}

fn a_report_has_an_end(device: &mut dyn Raw) {
    let count = geometry(device).count;
    let mut pages = MetaBuf::new(1);
    let room = pages.pages().len() * hostftl_core::BLOCK / report::SEGMENT_BYTES;
    for from in [0, 1, count - 1, count] {
        let filled =
            device.ask(About::Segments(from), &mut pages).expect("a report").bytes as usize;
        let entries = ((count - from) as usize).min(room);
        assert_eq!(filled, entries * report::SEGMENT_BYTES, "from {from}");
        for index in 0..entries {
            let entry = report::segment(pages.pages(), index).expect("an entry");
            assert_eq!(entry.start, start(device, from + index as u32));
        }
    }
}

fn wear_only_grows(device: &mut dyn Raw) {
    let size = u64::from(geometry(device).size);
    let mut before = describe(device, 0).wear;
    for _ in 0..3 {
        fill(device, 0);
        let reset = device.reset(0, size);
        let entry = describe(device, 0);
        assert!(entry.wear >= before, "wear fell");
        before = entry.wear;
        if reset.is_err() {
            assert_eq!(entry.state, SegmentState::Offline, "a reset fails when it is worn out");
            assert!(device.write(0, size).is_err(), "an offline segment takes no command");
            return;
        }
    }
}

fn no_map(device: &mut dyn Raw) {
    let answer = device.ask(About::Collectible, &mut MetaBuf::new(1));
    assert_eq!(answer, Err(DeviceError::Unsupported), "the device has no garbage collection");
}

fn pieces_are_one_write(device: &mut dyn Raw) {
    let (unit, first) = (u64::from(geometry(device).write_unit), start(device, 1));
    let length = describe(device, 1).length;
    let rest = length - 2 * unit;
    device.put(first, &[(1, 1), (2, 2 * unit - 1)]).expect("pieces need not be whole units");
    assert_eq!(state(device, 1), (SegmentState::Open, 2 * unit));
    device.put(first + 2 * unit, &[(3, rest)]).expect("the write continues");
    if let Some(bytes) = device.get(first, length).expect("it is closed") {
        let expected = |sector: u64| if sector == 0 { 1 } else { 2 + u8::from(sector >= 2 * unit) };
        let wrong = bytes
            .chunks(512)
            .zip(0..)
            .find(|(found, sector)| found.iter().any(|byte| *byte != expected(*sector)));
        assert_eq!(wrong.map(|(_, sector)| sector), None, "a sector with other bytes");
    }
}

fn whole_segments(device: &mut dyn Raw) {
    let length = describe(device, 2).length;
    device.write(start(device, 2), length).expect("the longest write there is");
    assert_eq!(state(device, 2), (SegmentState::Closed, length));
    let first = start(device, 2);
    assert!(device.write(first, length).is_err(), "it is full");
}

fn writes_keep_their_order(device: &mut dyn Raw) {
    let (unit, first) = (u64::from(geometry(device).write_unit), start(device, 1));
    let writes = [(first, unit), (first + unit, unit), (first + 2 * unit, unit)];
    assert_eq!(device.write_at_once(&writes), [Ok(()); 3]);
    assert_eq!(state(device, 1).1, 3 * unit);
    let gap = [(first + 4 * unit, unit), (first + 3 * unit, unit)];
    let ended = device.write_at_once(&gap);
    assert!(ended[0].is_err(), "the write arrived before its predecessor: {ended:?}");
}

fn a_failure_is_local(device: &mut dyn Raw) {
    let (unit, first) = (u64::from(geometry(device).write_unit), start(device, 1));
    device.write(first, 2 * unit).expect("the writes succeed");
    if !device.break_next() {
        return;
    }
    assert_eq!(device.write(first + 2 * unit, unit), Err(DeviceError::Media));
    assert_eq!(state(device, 1), (SegmentState::Offline, 2 * unit), "the written part is readable");
    assert_eq!(device.read(first, 2 * unit), Ok(()), "the data of earlier writes");
    assert!(device.read(first + 2 * unit, unit).is_err());
    assert!(device.write(first + 2 * unit, unit).is_err(), "no more writes");
    assert!(device.reset(first, geometry(device).size.into()).is_err(), "and no resets");
    assert_eq!(state(device, 0).0, SegmentState::Free);
}

fn a_restart_keeps(device: &mut dyn Raw) {
    let Segments { size, write_unit, .. } = geometry(device);
    let unit = u64::from(write_unit);
    fill(device, 0);
    fill(device, 1);
    let second = start(device, 1);
    device.reset(second, size.into()).expect("it is closed");
    device.put(second, &[(7, unit)]).expect("it is free");
    if !device.restart() {
        return;
    }
    assert_eq!(state(device, 0).0, SegmentState::Closed);
    assert_eq!(state(device, 1), (SegmentState::Open, unit));
    assert_eq!(state(device, 2).0, SegmentState::Free);
    device
        .put(second + unit, &[(8, u64::from(size) - unit)])
        .expect("writes continue at the write pointer");
    if let Some(bytes) = device.get(second, unit + 1).expect("it is closed now") {
        let (old, new) = bytes.split_at(unit as usize * 512);
        assert!(old.iter().all(|byte| *byte == 7) && new.iter().all(|byte| *byte == 8));
    }
}

fn marks_count(device: &mut dyn Raw) {
    let (unit, size) = (u64::from(geometry(device).write_unit), u64::from(geometry(device).size));
    let (first, beyond) = (start(device, 1), start(device, geometry(device).count));
    device.write(first, 2 * unit).expect("it is free");
    let before = state(device, 1);
    match device.mark(first, false) {
        Err(DeviceError::Unsupported) => {
            return println!("  the device does not support the command");
        }
        done => assert_eq!(done, Ok(()), "the segment is already good"),
    }
    assert_eq!(device.mark(first + 1, true), Err(DeviceError::Unsupported), "within a segment");
    assert_eq!(device.mark(beyond, true), Err(DeviceError::Unsupported), "beyond the device");
    assert_eq!(state(device, 1), before, "the state is unchanged");
    for _ in 0..2 {
        device.mark(first, true).expect("a segment can be marked bad");
        assert_eq!(state(device, 1), (SegmentState::Offline, 2 * unit));
        assert_eq!(device.read(first, 2 * unit), Ok(()), "all written data");
        assert_eq!(device.write(first + 2 * unit, unit), Err(DeviceError::Media), "no more writes");
        assert_eq!(device.reset(first, size), Err(DeviceError::Media), "and no resets");
        device.restart();
    }
    device.mark(first, false).expect("it can be erased");
    device.restart();
    assert_eq!(state(device, 1), (SegmentState::Free, 0));
    assert_eq!(device.read(first, unit), Err(DeviceError::Media), "the segment is empty");
    fill(device, 1);
    assert_eq!(state(device, 0).0, SegmentState::Free, "the neighbour is unchanged");
}
