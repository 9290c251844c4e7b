//! What one device holds, copied to another, while nobody uses either.

use std::io;

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR};

use crate::device::{Device, Medium, no_head, system};
use crate::error::IoError;
use crate::transfer::{self, Call, Transfer};

/// Pages that are copied at once: 4 MiB.
const PART: usize = 1024;

impl Device {
    /// Copies the window of `from` to the front of this device's own, which reads zeros, and makes
    /// that durable. Zeros are not written. After each part `tell` hears how many bytes are done.
    ///
    /// # Errors
    /// What the system or the server says of either device, with the range.
    ///
    /// # Panics
    /// When this device's window is shorter.
    pub fn copy_window(&self, from: &Device, tell: &mut dyn FnMut(u64)) -> Result<(), IoError> {
        let (whole, room) = (from.info().sectors, self.info().sectors);
        assert!(whole <= room, "a window of {whole} sectors does not fit into one of {room}");
        let whole = whole * SECTOR as u64;
        let mut part = vec![Page::default(); PART];
        let mut done = 0;
        while done < whole {
            let bytes = (whole - done).min((PART * BLOCK) as u64);
            from.move_part(Call::Read, from.window_start() + done, bytes, &mut part)?;
            let pages = &mut part[..(bytes as usize).div_ceil(BLOCK)];
            if pages.iter().any(|page| page.0 != [0; BLOCK]) {
                self.move_part(Call::Write, self.window_start() + done, bytes, pages)?;
            }
            done += bytes;
            tell(done);
        }
        self.sync()
    }

    /// Reads `bytes` bytes, which are whole sectors, from byte `at` of the device on, whatever the
    /// window.
    ///
    /// # Errors
    /// What the system or the server says, with the range.
    ///
    /// # Panics
    /// When `into` is shorter.
    pub fn read_bytes(&self, at: u64, bytes: u64, into: &mut [Page]) -> Result<(), IoError> {
        assert!(bytes <= (into.len() * BLOCK) as u64, "room for what is read");
        self.move_part(Call::Read, at, bytes, into)
    }

    /// Reads or writes `bytes` bytes from `at` of the device on.
    fn move_part(&self, call: Call, at: u64, bytes: u64, part: &mut [Page]) -> Result<(), IoError> {
        let mut transfer = Transfer::new(0, self.fd(), call, at, bytes);
        transfer.push(part.as_mut_ptr().cast(), bytes as usize);
        let other = |error: DeviceError| io::Error::other(error.to_string());
        let moved = match self.medium() {
            Medium::File(_) => {
                transfer.align(self.unit());
                transfer::run(&mut transfer).map_err(other)
            }
            Medium::Remote(remote) => remote.run(transfer),
            Medium::Memory(_) | Medium::Absent => return Err(no_head(self.name())),
        };
        let what = if call == Call::Read { "read it" } else { "write to it" };
        moved.map_err(|error| {
            let text = format!("bytes {at} to {}: {error}", at + bytes);
            system(self.name(), what, io::Error::other(text))
        })
    }
}
