//! Zeroing of a device's window, and the ranges of a device that may hold data.

use std::fs::File;
use std::io;
use std::ops::Range;

use hostftl_core::DeviceError;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

use crate::device::{Backing, Device, Medium, no_head, system};
use crate::error::IoError;
use crate::transfer::{self, Transfer};

/// Maximum number of bytes that one call zeroes. It limits the delay of a signal.
const PART: u64 = 256 << 20;
/// Maximum number of data ranges of a file. The rest of the file becomes one range.
const MOST_RANGES: usize = 1 << 16;

impl Device {
    /// Makes the window read as zeros, or its segments free, durably.
    ///
    /// # Errors
    /// Errors of the system or the server.
    pub fn clear_window(&self) -> Result<(), IoError> {
        self.clear_parts(&mut |_, _| Ok(()))
    }

    /// Clears the window like [`Device::clear_window`]. After each part `step` receives the bytes
    /// done and the total; an error from it ends the clearing. Holes of a file stay holes, and
    /// allocated parts stay allocated if the file system supports it.
    ///
    /// # Errors
    /// Those of [`Device::clear_window`], and those of `step`.
    pub fn clear_parts(
        &self,
        step: &mut dyn FnMut(u64, u64) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let failed = |error| system(self.name(), "clear it", error);
        if let Some(zoned) = self.zones() {
            let Medium::File(file) = self.medium() else { return Err(no_head(self.name())) };
            return self.writeback_errors().flush(|| zoned.clear(file)).map_err(failed);
        }
        let ranges = self.data_ranges(self.window())?;
        let all = ranges.iter().map(|range| range.end - range.start).sum();
        let mut done = 0;
        for range in ranges {
            for at in range.clone().step_by(PART as usize) {
                let len = PART.min(range.end - at);
                self.clear_part(at, len).map_err(failed)?;
                done += len;
                // After each part, so that a signal ends the clearing soon.
                step(done, all)?;
            }
        }
        self.sync()
    }

    fn clear_part(&self, at: u64, len: u64) -> io::Result<()> {
        let transfer = Transfer::reset(0, self.fd(), at, len);
        match self.medium() {
            Medium::File(file) => {
                // Zeroing keeps the allocation, in contrast to punching a hole.
                let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                if self.backing() == Backing::File && fallocate(file, zero, at, len).is_ok() {
                    return Ok(());
                }
                let other = |error: DeviceError| io::Error::other(error.to_string());
                transfer::run(&mut { transfer }).map_err(other)
            }
            Medium::Remote(remote) => remote.run(transfer),
            Medium::Memory(_) | Medium::Absent => Err(io::Error::other("it is not a device")),
        }
    }

    /// Returns the ranges of `within` in bytes, in order, that may hold data; the rest reads as
    /// zeros. These are the parts of a file that are not holes, or the whole range of another
    /// device.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn data_ranges(&self, within: Range<u64>) -> Result<Vec<Range<u64>>, IoError> {
        match (self.medium(), self.backing()) {
            (Medium::File(file), Backing::File) => data_ranges(file, within)
                .map_err(|error| system(self.name(), "find its data", error)),
            _ => Ok(vec![within]),
        }
    }
}

fn data_ranges(file: &File, within: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let (mut ranges, mut at) = (Vec::new(), within.start);
    while at < within.end {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole follows.
            Err(rustix::io::Errno::NXIO) => break,
            // The file system does not support the search for data.
            Err(rustix::io::Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        // Bounds the memory for a badly fragmented file.
        let end = if ranges.len() < MOST_RANGES {
            seek(file, SeekFrom::Hole(start)).unwrap_or(within.end)
        } else {
            within.end
        };
        if start < within.end {
            ranges.push(start..end.min(within.end));
        }
        at = end;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    const MIB: u64 = 1 << 20;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fallocate")]
    fn only_data_within_the_window_is_cleared() {
        let place = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = place.as_file();
        file.set_len(64 * MIB).unwrap();
        for at in [MIB, 20 * MIB, 40 * MIB] {
            file.write_all_at(&[7; 8192], at).unwrap();
        }
        let mut device = Device::open(place.path().to_str().unwrap()).unwrap();
        let found = device.data_ranges(0..64 * MIB).unwrap();
        assert!(found.contains(&(20 * MIB..20 * MIB + 8192)), "{found:?}");
        device.set_window(2 * MIB / 512, 60 * MIB / 512);
        let (before, mut calls) = (file.metadata().unwrap().blocks(), Vec::new());
        device
            .clear_parts(&mut |done, all| {
                calls.push((done, all));
                Ok(())
            })
            .unwrap();
        assert_eq!(calls, [(8192, 16384), (16384, 16384)]);
        let read = |at| {
            let mut byte = [1];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0]
        };
        assert_eq!([MIB, 20 * MIB, 40 * MIB + 8191].map(read), [7, 0, 0]);
        assert!(file.metadata().unwrap().blocks() <= before, "holes stay");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fallocate")]
    fn an_error_of_the_caller_ends_it() {
        let place = tempfile::NamedTempFile::new().unwrap();
        place.as_file().write_all_at(&[7; 1 << 20], 0).unwrap();
        let device = Device::open(place.path().to_str().unwrap()).unwrap();
        let stop = || Err(IoError::Interrupted { name: "it".into() });
        let ended = device.clear_parts(&mut |_, _| stop());
        assert!(matches!(ended, Err(IoError::Interrupted { .. })));
    }
}
