//! Replay of a recording on a fresh layer: the same inputs must produce the same outputs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use hostftl_core::{
    BLOCK, Cause, Command, DeviceInfo, DeviceSet, Done, Event, HostOp, Input, Layer, Nanos, Out,
    Output, Payload, Request, StreamDigest, Tally, Target, Ticket, Token,
};
use hostftl_format::page::crc32c;
use hostftl_layers::{AnyLayer, LayerConfig, Members, Mode};
use serde::Serialize;

use crate::metadata::entry::{END, Entry, Head, Kind, MAGIC, parse};
use crate::util::counted::counted;
use crate::util::error::{Error, file};

/// Result of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Layer with its parameters.
    pub layer: String,
    /// Number of inputs.
    pub steps: u64,
    /// Digest of the outputs.
    pub digest: u64,
    /// Digest of the outputs in the recording.
    pub recorded: u64,
}

impl Replayed {
    /// Returns whether both digests are equal.
    pub fn is_same(&self) -> bool {
        self.digest == self.recorded
    }
}

/// Replays the recording `path`.
///
/// # Errors
/// When it is not a recording, is truncated or damaged, or the layer issues other commands than it
/// did.
pub fn replay(path: &Path) -> Result<Replayed, Error> {
    let wrong = |why: String| Error::Recording { path: path.into(), why };
    let mut input = BufReader::new(File::open(path).map_err(file(path, "open the recording"))?);
    let head = read_head(&mut input).map_err(wrong)?;
    let mut stage = RecordedDevices::new(&head).map_err(wrong)?;
    for number in 0.. {
        let good = stage.steps;
        let batch = read_batch(&mut input, number)
            .map_err(|why| wrong(format!("{why} after {}", counted(good, "good record"))))?;
        match batch {
            Batch::Records(bytes, count) => stage.play(&bytes, count).map_err(wrong)?,
            Batch::End { steps, digest } if steps == good => {
                let (layer, played) = (head.layer, stage.digest.value());
                return Ok(Replayed { layer, steps, digest: played, recorded: digest });
            }
            Batch::End { steps, .. } => {
                return Err(wrong(format!(
                    "it has {}, but ends with {steps}",
                    counted(good, "record")
                )));
            }
        }
    }
    unreachable!("a recording has fewer batches than numbers")
}

enum Batch {
    Records(Vec<u8>, u32),
    End { steps: u64, digest: u64 },
}

fn read_head(input: &mut impl Read) -> Result<Head, String> {
    let no_recording = |_| "it is not a recording of HostFTL".to_string();
    let (magic, [len, crc]) =
        read::<8>(input).and_then(|magic| Ok((magic, words(input)?))).map_err(no_recording)?;
    // The length is not covered by a checksum, so it is limited.
    if magic != MAGIC || len > 1 << 20 {
        return Err("it is not a recording of HostFTL".into());
    }
    let text = read_vec(input, len)?;
    if crc32c(0, &text) != crc {
        return Err("its header is damaged".into());
    }
    serde_json::from_slice(&text).map_err(|error| {
        let why = error.to_string().lines().collect::<Vec<_>>().join(" ");
        format!("cannot parse its header: {why}")
    })
}

fn read_batch(input: &mut impl Read, number: u64) -> Result<Batch, String> {
    let [len, records, crc] = words(input)?;
    let bytes = read_vec(input, if len == END { 16 } else { len })?;
    if crc32c(number, &bytes) != crc {
        return Err("it is damaged".into());
    }
    if len != END {
        return Ok(Batch::Records(bytes, records));
    }
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Ok(Batch::End { steps: long(0), digest: long(8) })
}

fn read<const N: usize>(input: &mut impl Read) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(|error| explain(&error))?;
    Ok(bytes)
}

fn words<const N: usize>(input: &mut impl Read) -> Result<[u32; N], String> {
    let mut words = [0; N];
    for word in &mut words {
        *word = u32::from_le_bytes(read(input)?);
    }
    Ok(words)
}

fn read_vec(input: &mut impl Read, len: u32) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // The length is untrusted, so the buffer grows with the data that exists.
    let read = input.take(len.into()).read_to_end(&mut bytes).map_err(|error| explain(&error))?;
    if read < len as usize { Err("it is truncated".into()) } else { Ok(bytes) }
}

fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "it is truncated".into(),
        _ => format!("it cannot be read ({error})"),
    }
}

/// Inputs that a driver may give to the layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Only timers and completions of commands.
    Closed,
    /// Also requests, and the stop once all of them are answered.
    Ready,
}

/// A layer without devices: commands complete when the recording has their completion.
struct RecordedDevices {
    layer: AnyLayer,
    out: Out,
    commands: BTreeMap<u64, Command>,
    digest: StreamDigest,
    now: Nanos,
    steps: u64,
    payloads: u32,
    phase: Phase,
    /// Requests that are not answered yet.
    waiting: u64,
}

impl RecordedDevices {
    fn new(head: &Head) -> Result<Self, String> {
        let layer = LayerConfig::parse(&head.layer)?;
        let Head { deadline, deadlines, uuid, missing, .. } = *head;
        // Not part of the layer's text, but it changes the layout.
        let missing = DeviceSet::from_bits(missing);
        let members = Members { missing, ..layer.members };
        let config = LayerConfig { deadline, deadlines, uuid, members, ..layer };
        let devices: Vec<DeviceInfo> = head.devices.iter().map(DeviceInfo::from).collect();
        let plan = AnyLayer::plan(&config, &devices).map_err(|error| error.to_string())?;
        let issue = |id| Payload::issue(id, plan.buffer_sectors);
        let buffers = (0..plan.buffers).map(issue).collect();
        let mode = if head.format { Mode::Format } else { Mode::Open };
        let layer =
            AnyLayer::new(&config, &devices, buffers, mode).map_err(|error| error.to_string())?;
        Ok(RecordedDevices {
            layer,
            out: Out::new(),
            commands: BTreeMap::new(),
            digest: StreamDigest::default(),
            now: 0,
            steps: 0,
            payloads: plan.buffers,
            phase: Phase::Closed,
            waiting: 0,
        })
    }

    fn play(&mut self, mut bytes: &[u8], count: u32) -> Result<(), String> {
        for _ in 0..count {
            let number = self.steps + 1;
            let (since, entry) =
                parse(&mut bytes).ok_or_else(|| format!("cannot parse record {number}"))?;
            let now = self.now.checked_add(since).filter(|_| self.allows(&entry));
            self.now = now.ok_or_else(|| format!("record {number} is not valid at this point"))?;
            // A command returns no outputs; the timer input that follows it does.
            if let Entry::Command(command) = entry {
                self.steps += 1;
                // A refusal is part of the recorded behaviour.
                self.layer.operate(command).ok();
                continue;
            }
            let input = self.input(entry).ok_or_else(|| {
                format!(
                    "record {number} completes a command that the layer did not submit in \
                         this run"
                )
            })?;
            self.step(input);
        }
        Ok(())
    }

    /// Returns whether the rules for drivers allow this input now.
    fn allows(&self, entry: &Entry<'_>) -> bool {
        match *entry {
            Entry::Timer => true,
            Entry::Command(_) => self.phase == Phase::Ready,
            Entry::Done { token, result, .. } => {
                let in_memory = matches!(
                    self.commands.get(&token),
                    Some(
                        Command::Place { .. }
                            | Command::Peek { .. }
                            | Command::Digest { .. }
                            | Command::Move { .. }
                            | Command::Fold { .. }
                    )
                );
                // Commands without a device never fail.
                result.is_ok() || !in_memory
            }
            Entry::Stop => self.phase == Phase::Ready && self.waiting == 0,
            Entry::Host { kind, lba, sectors, .. } => {
                let end = lba.checked_add(sectors);
                // A driver never exceeds the credits, and layers assert that.
                let credits = self.layer.credits();
                let has_data = matches!(kind, Kind::Read | Kind::Write);
                self.phase == Phase::Ready
                    && end.is_some_and(|end| end <= self.layer.limits().exported)
                    && credits.requests > 0
                    && (!has_data || sectors <= credits.sectors.into())
            }
        }
    }

    fn input(&mut self, entry: Entry<'_>) -> Option<Input> {
        Some(match entry {
            Entry::Timer => Input::Timer,
            Entry::Stop => Input::Stop,
            Entry::Command(_) => return None,
            Entry::Host { kind, fua, ticket, lba, sectors } => {
                let op = match kind {
                    Kind::Read => HostOp::Read(self.payload(sectors)?),
                    Kind::Write => HostOp::Write { data: self.payload(sectors)?, fua },
                    Kind::Flush => HostOp::Flush,
                    Kind::Trim => HostOp::Trim { fua },
                    Kind::Zeroes => HostOp::Zeroes { fua },
                };
                let written = if kind == Kind::Write { sectors as u32 } else { 0 };
                let (ticket, tally) = (Ticket::issue(ticket), Tally::single(Cause::Host, written));
                Input::Host(Request { ticket, op, lba, sectors, tally, placement: 0 })
            }
            Entry::Done { token, result, meta } => {
                let mut command = self.commands.remove(&token)?;
                let pages = match &mut command {
                    Command::Read { into: Target::Meta { buf, pages }, .. }
                    | Command::Peek { into: buf, pages, .. } => {
                        Some(&mut buf.pages_mut()[..*pages as usize])
                    }
                    Command::Report { into, .. } => Some(into.pages_mut()),
                    _ => None,
                };
                if let Some(pages) = pages {
                    // The command of this run reads another amount than the recorded one.
                    if size_of_val(pages) != meta.len() {
                        // A command with a buffer must be released explicitly.
                        command.void();
                        return None;
                    }
                    for (page, bytes) in pages.iter_mut().zip(meta.chunks_exact(BLOCK)) {
                        page.0.copy_from_slice(bytes);
                    }
                }
                Input::Done(Done { token: Token(token), command, result })
            }
        })
    }

    fn payload(&mut self, sectors: u64) -> Option<Payload> {
        self.payloads = self.payloads.wrapping_add(1);
        let sectors = u32::try_from(sectors).ok().filter(|sectors| *sectors > 0)?;
        Some(Payload::issue(self.payloads, sectors))
    }

    fn step(&mut self, input: Input) {
        self.steps += 1;
        match input {
            Input::Host(_) => self.waiting += 1,
            Input::Stop => self.phase = Phase::Closed,
            Input::Timer | Input::Done(_) => {}
        }
        self.layer.step(self.now, input, &mut self.out);
        for output in self.out.drain() {
            self.digest.absorb(self.now, &output);
            match output {
                Output::Submit(token, command) => {
                    let before = self.commands.insert(token.0, command);
                    // Completions refer to commands by token.
                    assert!(before.is_none(), "a token was used twice at once");
                }
                Output::Reply(reply) => {
                    self.waiting -= 1;
                    reply.ticket.close();
                    reply.data.map(Payload::surrender);
                }
                Output::Reclaim(payload) => {
                    payload.surrender();
                }
                Output::Event(Event::Ready { .. }) => self.phase = Phase::Ready,
                Output::Event(_) => {}
            }
        }
    }
}

impl Drop for RecordedDevices {
    fn drop(&mut self) {
        // Commands and buffers must be released explicitly, or dropping them panics.
        std::mem::take(&mut self.commands).into_values().for_each(Command::void);
        self.layer.power_off();
    }
}
