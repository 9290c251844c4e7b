//! Recording of the requests to a block device, through the kernel's `block_rq_issue` events.
//!
//! Invariants
//! - Other users of tracing are unaffected: the recorder has its own tracing instance.
//! - The instance is removed with the recorder, however the recorder ends.

mod device;
mod instance;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::left::LeftOut;
use crate::record::Record;
use crate::text::events::Events;
use crate::text::fields::{Fields, MAX_LINE};
use crate::unit::Unit;
pub use device::lies_on;

use device::Device;
use instance::Instance;

/// Bytes read at once.
const CHUNK: usize = 1 << 16;

/// A recording in progress.
pub struct Recorder {
    // Fields are dropped in order: an instance can't be removed while its pipe is open.
    pipe: File,
    instance: Instance,
    path: PathBuf,
    lines: Lines,
}

impl Recorder {
    /// Starts to record the requests to the block device at `path`.
    ///
    /// # Errors
    /// When `path` is not a whole block device, or the kernel's events are not available. The
    /// message has the next step.
    pub fn start(path: &Path) -> Result<Self, TraceError> {
        let failed = |why| TraceError::Live { path: path.to_owned(), why };
        let device = Device::find(path).map_err(failed)?;
        let instance = Instance::new(device.number).map_err(failed)?;
        let pipe = instance.open_pipe().map_err(failed)?;
        instance.switch(true).map_err(failed)?;
        Ok(Recorder { pipe, instance, path: path.to_owned(), lines: Lines::default() })
    }

    /// Passes on the requests that were sent since the last call, without waiting.
    ///
    /// # Errors
    /// When the kernel's events cannot be read, and the errors of `take`.
    pub fn poll(
        &mut self,
        mut take: impl FnMut(&Record) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let mut chunk = [0; CHUNK];
        loop {
            match self.pipe.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(bytes) => self.lines.push(&chunk[..bytes], &mut take)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let why = format!("cannot read the events of the kernel: {error}");
                    return Err(TraceError::Live { path: self.path.clone(), why });
                }
            }
        }
    }

    /// Stops the recording. A last [`Recorder::poll`] passes on the remaining requests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&self) -> Result<(), TraceError> {
        let failed = |why| TraceError::Live { path: self.path.clone(), why };
        self.instance.switch(false).map_err(failed)
    }

    /// Returns the number of events that the kernel lost for lack of buffer space.
    pub fn lost(&self) -> u64 {
        self.instance.lost()
    }

    /// Returns the number of events that could not be parsed.
    pub fn bad(&self) -> u64 {
        self.lines.bad
    }
}

/// Text of the pipe, which arrives in pieces.
#[derive(Default)]
struct Lines {
    events: Events,
    left: LeftOut,
    /// Start of a line whose end has not arrived yet.
    rest: Vec<u8>,
    /// Time of the first request.
    first_ns: Option<u64>,
    bad: u64,
}

impl Lines {
    /// Processes the next piece and passes on its requests. Times are relative to the first
    /// request, and the device is 0.
    fn push(
        &mut self,
        piece: &[u8],
        take: &mut impl FnMut(&Record) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.rest.extend_from_slice(piece);
        let text = std::mem::take(&mut self.rest);
        let mut from = 0;
        while let Some(length) = text[from..].iter().position(|&byte| byte == b'\n') {
            let line = &text[from..=from + length];
            from += length + 1;
            self.line(line, take)?;
        }
        self.rest = text[from..].to_vec();
        Ok(())
    }

    fn line(
        &mut self,
        line: &[u8],
        take: &mut impl FnMut(&Record) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let found = if line.len() < MAX_LINE {
            self.events.kernel(&mut Fields::new(line), Unit::Seconds, &mut self.left).ok()
        } else {
            None
        };
        let Some(found) = found else {
            self.bad += 1;
            return Ok(());
        };
        for found in found.into_iter().chain(self.events.pending.take()) {
            let first_ns = *self.first_ns.get_or_insert(found.record.t_ns);
            let t_ns = found.record.t_ns.saturating_sub(first_ns);
            let record = Record { t_ns, dev: 0, ..found.record };
            match record.fault() {
                None => take(&record)?,
                Some(_) => self.bad += 1,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Op;

    /// Output of Linux 6.12, and an invalid line.
    const TEXT: &[u8] = b"\
              dd-5120    [001] .....  3921.512345: block_rq_issue: 7,0 WS 4096 () 2048 + 8 \
                          none,0,0 [dd]\n\
                          CPU:0 [LOST 12 EVENTS]\n\
    kworker/0:1H-61      [000] .....  3921.512400: block_rq_issue: 7,0 FF 0 () 0 + 0 \
                          none,0,0 [kworker/0:1H]\n\
         fstrim-5130    [001] .....  3921.600000: block_rq_issue: 7,0 DS 1048576 () 4096 + 2048 \
                          be,0,4 [fstrim]\n\
       jbd2/a b-5131    [001] .....  3922.512345: block_rq_issue: 7,0 FWFS 4096 () 16 + 8 \
                          rt,0,4 [jbd2/a b]\n\
              dd-5120    [001] .....  3922.600000: block_rq_issue: 7,0 WS 4096 () 2048 - 8 [dd]\n\
                          dd-5132    [001] .....  3922.700000: block_rq_issue: 7,0 R 512 () 7 + 1 \
                          none,0,0 [dd]\n";

    #[test]
    fn recorded_text_is_parsed_from_pieces_of_any_length() {
        let second = 1_000_000_000;
        let expected = [
            Record::new(0, Op::Write, 0, 2048, 8),
            Record::flush(55_000, 0),
            Record::new(87_655_000, Op::Discard, 0, 4096, 2048),
            Record::flush(second, 0),
            Record::new(second, Op::Write, 0, 16, 8),
            Record::new(second + 187_655_000, Op::Read, 0, 7, 1),
        ];
        for size in [1, 7, 64, TEXT.len()] {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            let mut take = |record: &Record| {
                found.push(*record);
                Ok(())
            };
            for piece in TEXT.chunks(size) {
                lines.push(piece, &mut take).unwrap();
            }
            assert_eq!(found, expected, "in pieces of {size}");
            assert_eq!((lines.bad, lines.rest.len()), (1, 0));
        }
    }
}
