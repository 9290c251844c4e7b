//! Recording of a layer's inputs while it runs on real devices.
//!
//! # Invariants
//! - Records are in the order of the layer's steps; the digest covers each output in that order.
//! - After the first write error nothing more is written, and `finish` returns it.
//! - A recording that reaches its limit is complete: it ends before an input, with the digest.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hostftl_core::{AdminCommand, DeviceInfo, DeviceKind, Input, Nanos, Output, StreamDigest};
use hostftl_format::page::crc32c;
use hostftl_io::Tap;
use hostftl_layers::{LayerConfig, Mode};

use crate::metadata::entry::{END, Head, HeadDevice, MAGIC, emit, emit_command};
use crate::util::error::{Error, file};
use crate::util::events::{Events, Level};
use crate::util::lock;
use crate::util::private::new_private;

/// Bytes of records that are written together.
const BATCH: usize = 256 << 10;

/// Where the layer's inputs are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Path of the recording; the file must not exist.
    pub path: PathBuf,
    /// Bytes after which the recording ends, while the volume runs on.
    pub limit: u64,
}

impl RecordOptions {
    /// Returns a recording without a limit.
    pub fn unlimited(path: impl Into<PathBuf>) -> Self {
        RecordOptions { path: path.into(), limit: u64::MAX }
    }
}

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    pen: Arc<Mutex<RecordWriter>>,
}

/// The part of a recording that receives inputs and outputs from the driver.
#[derive(Debug)]
struct Listener(Arc<Mutex<RecordWriter>>);

#[derive(Debug)]
struct RecordWriter {
    out: File,
    batch: Vec<u8>,
    records: u32,
    batches: u64,
    last: Nanos,
    steps: u64,
    digest: StreamDigest,
    failure: Option<io::Error>,
    /// Bytes that may still be written; `None` when the recording is complete.
    left: Option<u64>,
    path: PathBuf,
    events: Events,
}

impl Recording {
    /// Creates the recording for a layer with this configuration. Its end at the limit is reported
    /// to `events`.
    pub(crate) fn new(
        RecordOptions { path, limit }: &RecordOptions,
        events: &Events,
        layer: &LayerConfig,
        devices: &[DeviceInfo],
        mode: Mode,
    ) -> Result<Self, Error> {
        if devices.iter().any(|device| device.kind != DeviceKind::Block) {
            let source = io::Error::other("a volume on zoned devices cannot be recorded");
            return Err(file(path, "create the recording")(source));
        }
        let head = Head {
            layer: layer.to_text(),
            deadline: layer.deadline,
            deadlines: layer.deadlines,
            uuid: layer.uuid,
            format: mode == Mode::Format,
            // Needed for the replay, because it determines the layout but is not in the text.
            missing: layer.members.missing.to_bits(),
            devices: devices.iter().map(HeadDevice::from).collect(),
        };
        let text = serde_json::to_vec(&head).expect("plain fields");
        let begin = || {
            // Private, because it has metadata of the volume.
            let mut out = new_private(path)?;
            out.write_all(&MAGIC)?;
            out.write_all(&(text.len() as u32).to_le_bytes())?;
            out.write_all(&crc32c(0, &text).to_le_bytes())?;
            out.write_all(&text)?;
            Ok(out)
        };
        let out = begin().map_err(file(path, "create the recording"))?;
        let pen = RecordWriter {
            out,
            batch: Vec::with_capacity(2 * BATCH),
            records: 0,
            batches: 0,
            last: 0,
            steps: 0,
            digest: StreamDigest::default(),
            failure: None,
            left: Some(*limit),
            path: path.into(),
            events: events.clone(),
        };
        Ok(Recording { path: path.into(), pen: Arc::new(Mutex::new(pen)) })
    }

    /// Returns the observer for the driver.
    pub(crate) fn tap(&self) -> impl Tap + use<> {
        Listener(self.pen.clone())
    }

    /// Ends the file with the digest, durably. The driver must have stopped.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let mut pen = lock(&self.pen);
        pen.complete();
        pen.write(|out| out.sync_all());
        match pen.failure.take() {
            Some(error) => Err(file(&self.path, "write the recording")(error)),
            None => Ok(()),
        }
    }
}

impl RecordWriter {
    /// Writes unless an earlier write failed. The first failure is reported at once.
    fn write(&mut self, write: impl FnOnce(&mut File) -> io::Result<()>) {
        if self.failure.is_some() {
            return;
        }
        self.failure = write(&mut self.out).err();
        if let Some(error) = &self.failure {
            let path = self.path.display();
            let text = format!("recording {path} stopped: {error}; the volume keeps running");
            self.events.report(Level::Warning, "note", text);
        }
    }

    /// Appends the record of an input.
    fn note(&mut self, now: Nanos, emit: impl FnOnce(Nanos, &mut Vec<u8>)) {
        match self.left {
            None => return,
            Some(0) => {
                self.complete();
                if self.failure.is_none() {
                    let text = format!("recording {} ended at its limit", self.path.display());
                    self.events.report(Level::Info, "note", text);
                }
                return;
            }
            Some(_) => {}
        }
        let since = now - self.last;
        (self.last, self.steps, self.records) = (now, self.steps + 1, self.records + 1);
        emit(since, &mut self.batch);
        let most = self.left.map_or(BATCH, |left| left.min(BATCH as u64) as usize);
        if self.batch.len() >= most {
            self.write_batch();
        }
    }

    fn write_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.left = self.left.map(|left| left.saturating_sub(batch.len() as u64));
        // The seed is the batch's number, so that a missing or repeated batch is detected.
        let words = [batch.len() as u32, self.records, crc32c(self.batches, &batch)];
        self.write(|out| {
            out.write_all(words.map(u32::to_le_bytes).as_flattened())?;
            out.write_all(&batch)
        });
        batch.clear();
        self.batch = batch;
        self.records = 0;
        self.batches += 1;
    }

    /// Ends the file with the digest, unless it has ended. The layer waits for this, so the file is
    /// made durable later.
    fn complete(&mut self) {
        if self.left.is_some() {
            self.write_batch();
            self.write_end();
            self.left = None;
        }
    }

    fn write_end(&mut self) {
        let last = [self.steps, self.digest.value()].map(u64::to_le_bytes);
        let words = [END, 0, crc32c(self.batches, last.as_flattened())];
        self.write(|out| {
            out.write_all(words.map(u32::to_le_bytes).as_flattened())?;
            out.write_all(last.as_flattened())
        });
    }
}

impl Tap for Listener {
    fn input(&mut self, now: Nanos, input: &Input) {
        lock(&self.0).note(now, |since, batch| emit(since, input, batch));
    }

    fn admin_command(&mut self, now: Nanos, command: AdminCommand) {
        lock(&self.0).note(now, |since, batch| emit_command(since, command, batch));
    }

    fn output(&mut self, now: Nanos, output: &Output) {
        let mut pen = lock(&self.0);
        if pen.left.is_some() {
            pen.digest.absorb(now, output);
        }
    }
}
