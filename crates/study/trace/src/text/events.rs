//! Block events of the Linux kernel as text: `blkparse`, and the `block_rq_issue` trace event as
//! printed by the kernel's trace file, `trace-cmd report` and `perf script`.
//!
//! A device `major:minor` becomes the number major × 2^20 + minor, as in the kernel. A write with a
//! preceding flush becomes a flush and a write. FUA is ignored, because records do not have it.

use super::fields::{Fields, Found, Parsed};
use super::lost;
use super::rwbs::{Action, Rwbs};
use crate::left::LeftOut;
use crate::record::Record;
use crate::unit::Unit;

/// Bits of a minor number.
const MINOR_BITS: u32 = 20;
/// Name of the event with the requests.
const ISSUE: &[u8] = b"block_rq_issue";
/// Common prefix of the names of the kernel's block events.
const BLOCK: &[u8] = b"block_";
/// Marks that the latency format appends to a time in microseconds.
const MARKS: &[u8] = b"+!#*@$";
/// Number of other events that a message lists.
const MOST_SEEN: usize = 8;
/// Devices whose queued and issued requests are counted.
const MOST_DEVICES: usize = 256;

/// A reader of block events.
#[derive(Default)]
pub(crate) struct Events {
    /// Write whose flush was returned already.
    pub pending: Option<Found>,
    /// Selected device, if there is one.
    dev: Option<u32>,
    /// Action of blkparse that counts as a request: D, or Q if there is no D.
    action: u8,
    /// Whether the lines at the cursor are blkparse's summary.
    in_summary: bool,
    /// Positions at which events continue after a summary: their number, and the first line.
    joined: (u64, u64),
    /// Requests by device: queued and issued.
    devices: Vec<(u32, u64, u64)>,
    /// Other events by name.
    seen: Vec<(String, u64)>,
}

impl Events {
    /// Makes a reader. The action that counts is determined from the start of the file, with the
    /// events of `dev` only if it is given.
    pub(crate) fn new(head: &[u8], dev: Option<u32>) -> Self {
        let has =
            |action: u8| head.split(|&byte| byte == b'\n').any(|line| is_action(line, action, dev));
        let action = if !has(b'D') && has(b'Q') { b'Q' } else { b'D' };
        Events { action, dev, ..Events::default() }
    }

    /// Parses a line such as `8,0 3 1 0.000000000 697 D W 223490 + 8 [kjournald]`.
    pub(crate) fn blkparse(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        line.spaces();
        if !line.peek().is_some_and(|byte| byte.is_ascii_digit()) && self.is_prose(line, left) {
            line.skip_line()?;
            return Ok(None);
        }
        let dev = device(line)?;
        for expected in ["the number of a CPU", "the number of an event"] {
            line.gap()?;
            line.number(expected)?;
        }
        line.gap()?;
        let t_ns = line.time(unit)?;
        line.gap()?;
        line.number("the number of a process")?;
        line.gap()?;
        let at = line.at;
        let action = line.word("an action such as D")?;
        if action.len() > 2 || !action.iter().all(u8::is_ascii_alphabetic) {
            line.at = at;
            return line.fault("an action such as D");
        }
        if std::mem::take(&mut self.in_summary) {
            let first = if self.joined.0 == 0 { left.line } else { self.joined.1 };
            self.joined = (self.joined.0 + 1, first);
        }
        self.count(dev, action);
        if action != [self.action] {
            line.skip_line()?;
            left.event(if self.action == b'D' {
                "actions other than D"
            } else {
                "actions other than Q"
            });
            self.see(action);
            return Ok(None);
        }
        line.gap()?;
        self.request(line, t_ns, dev, left)
    }

    /// Returns whether a line that is not an event belongs to a summary or is a message of the
    /// recorder.
    fn is_prose(&mut self, line: &Fields<'_>, left: &mut LeftOut) -> bool {
        let text = line.rest().trim_ascii();
        let begins = ["CPU", "Total (", "Throughput", "Events (", "Skips:"];
        let is_program = text.ends_with(b")") || text.ends_with(b"):");
        self.in_summary |= is_program && text.first().is_some_and(u8::is_ascii_alphabetic);
        self.in_summary |= begins.iter().any(|begin| text.starts_with(begin.as_bytes()));
        let lost = lost::events(text);
        left.lost(lost.unwrap_or(0));
        if lost.is_some() {
            return true;
        }
        let is_message = [&b"Input file"[..], b"Trace started", b"Consider using a larger"]
            .iter()
            .any(|begin| text.starts_with(begin));
        let is_summary = self.in_summary && text.first().is_some_and(u8::is_ascii_alphabetic);
        if is_summary || is_message {
            left.foreign("lines of summaries");
        }
        is_summary || is_message
    }

    /// Counts a queued or issued request of `dev`.
    fn count(&mut self, dev: u32, action: &[u8]) {
        if !matches!(action, [b'Q' | b'D']) || self.dev.is_some_and(|wanted| wanted != dev) {
            return;
        }
        if !self.devices.iter().any(|device| device.0 == dev) && self.devices.len() < MOST_DEVICES {
            self.devices.push((dev, 0, 0));
        }
        if let Some(device) = self.devices.iter_mut().find(|device| device.0 == dev) {
            *(if action == [b'Q'] { &mut device.1 } else { &mut device.2 }) += 1;
        }
    }

    /// Counts an event that is not a request.
    fn see(&mut self, name: &[u8]) {
        let is_full = self.seen.len() == MOST_SEEN;
        match self.seen.iter_mut().find(|seen| seen.0.as_bytes() == name) {
            Some(seen) => seen.1 += 1,
            None if !is_full => {
                self.seen.push((name.escape_ascii().to_string(), 1));
            }
            None => {}
        }
    }

    /// Parses a line such as `fio-1 [000] ..... 12.345678: block_rq_issue: 8,0 WS 4096 () 2056 + 8
    /// [fio]`.
    pub(crate) fn kernel(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        let rest = line.rest();
        let Some((before, name, behind)) = event(rest) else {
            left.lost(lost::events(rest).unwrap_or(0));
            left.foreign("lines without block events");
            line.skip_line()?;
            return Ok(None);
        };
        if name != ISSUE {
            left.event("events other than block_rq_issue");
            self.see(name);
            line.skip_line()?;
            return Ok(None);
        }
        let before = rest[..before].trim_ascii_end();
        line.at = before.iter().rposition(|byte| b" \t".contains(byte)).map_or(0, |at| at + 1);
        let t_ns = kernel_time(line, before.len(), unit)?;
        line.at = behind;
        line.gap()?;
        let dev = device(line)?;
        line.gap()?;
        self.request(line, t_ns, dev, left)
    }

    /// Parses `RWBS [bytes (command)] [sector + sectors]` and skips the rest of the line.
    fn request(
        &mut self,
        line: &mut Fields<'_>,
        t_ns: u64,
        dev: u32,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        let at = line.at;
        let word = line.word("the kind of the request, such as WS")?;
        let Some(Rwbs { flushes, action }) = Rwbs::parse(word) else {
            line.at = at;
            return line.fault("the kind of the request, such as WS");
        };
        let op = match action {
            Action::Op(op) => op,
            Action::Nothing => {
                line.skip_line()?;
                return Ok(Some(Found::flush(t_ns, dev)));
            }
            Action::Other(what) => {
                left.dropped(what);
                line.skip_line()?;
                return Ok(None);
            }
        };
        let range = range(line)?;
        let data = match range {
            Some((lba, sectors)) if sectors > 0 => {
                let record = Record::new(t_ns, op, dev, lba, sectors);
                Some(Found { record, widened: false })
            }
            Some(_) if !flushes => {
                left.dropped("requests of length 0");
                None
            }
            Some(_) => None,
            None => {
                left.dropped("SCSI pass-through commands");
                None
            }
        };
        line.skip_line()?;
        if flushes {
            self.pending = data;
            return Ok(Some(Found::flush(t_ns, dev)));
        }
        Ok(data)
    }

    /// Returns warnings about the results, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if let (joined @ 1.., first) = self.joined {
            texts.push(format!(
                "the file joins {} outputs of blkparse, the second from line {first}; their times \
                 may overlap",
                joined + 1
            ));
        }
        for (dev, queued, issued) in &self.devices {
            let name = device_name(*dev);
            match self.action {
                b'D' if *issued == 0 && *queued > 0 => texts.push(format!(
                    "device {name} has {queued} queued requests (Q) but no issued ones (D), and \
                     is omitted; use FILE:dev={name} to read it"
                )),
                b'Q' if *issued > 0 => texts.push(format!(
                    "device {name} has {issued} issued requests (D), the first after a long \
                     beginning with queued requests (Q) only; only queued requests are used"
                )),
                _ => {}
            }
        }
        texts
    }

    /// Returns the reason why there is no request, if other events explain it. `is_blkparse`
    /// selects the wording for that format.
    pub(crate) fn reason(&self, is_blkparse: bool) -> Option<String> {
        if self.seen.is_empty() {
            return None;
        }
        let seen: Vec<_> = self.seen.iter().map(|(name, n)| format!("{n} × {name}")).collect();
        let seen = seen.join(", ");
        Some(if is_blkparse {
            format!(
                "it has no D (issued) or Q (queued) events, only {seen}; record the trace with \
                 blktrace without -a, or with -a issue"
            )
        } else {
            format!(
                "it has no block_rq_issue events, only {seen}; record them, for example with \
                 trace-cmd record -e block:block_rq_issue or perf record -e block:block_rq_issue"
            )
        })
    }
}

/// Finds the block event of a line. Returns the end of the text before it, its name, and the start
/// of the text after its colon.
fn event(line: &[u8]) -> Option<(usize, &[u8], usize)> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let mut from = 0;
    loop {
        let at = from + line[from..].windows(BLOCK.len()).position(|window| window == BLOCK)?;
        let is_part = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
        let length = line[at..].iter().take_while(|byte| is_part(byte)).count();
        let before = &line[..at];
        let before = before.strip_suffix(b"block:").unwrap_or(before).trim_ascii_end();
        let is_event = line.get(at + length) == Some(&b':') && before.ends_with(b":");
        if is_event {
            return Some((before.len() - 1, &line[at..at + length], at + length + 1));
        }
        from = at + length;
    }
}

/// Parses the time of an event, which ends at column `end`. It is in `unit`, or in microseconds if
/// the latency format marks it so.
fn kernel_time(line: &mut Fields<'_>, end: usize, unit: Unit) -> Parsed<u64> {
    let from = line.at;
    let t_ns = line.time(unit);
    if t_ns.is_ok() && line.at == end {
        return t_ns;
    }
    line.at = from;
    let micros = line.time(Unit::Micros)?;
    let rest = line.rest().get(..end.saturating_sub(line.at)).unwrap_or_default();
    match rest {
        b"us" => Ok(micros),
        [b'u', b's', mark] if MARKS.contains(mark) => Ok(micros),
        _ => {
            t_ns?;
            line.fault("the end of the time")
        }
    }
}

/// Parses `bytes (command) sector + sectors` or `sector + sectors`. Returns `None` for a command
/// without sectors.
fn range(line: &mut Fields<'_>) -> Parsed<Option<(u64, u64)>> {
    line.gap()?;
    // blkparse prints no range for a request without length.
    if line.peek() == Some(b'[') {
        return Ok(Some((0, 0)));
    }
    let mut lba = line.number("a sector")?;
    line.spaces();
    if line.peek() == Some(b'(') {
        let command = line.rest().iter().position(|&byte| byte == b')');
        line.at += command.map_or(0, |at| at + 1);
        line.spaces();
        if line.is_end() || line.peek() == Some(b'[') {
            return Ok(None);
        }
        lba = line.number("a sector")?;
        line.spaces();
    }
    if line.peek() != Some(b'+') {
        return line.fault("a plus");
    }
    line.at += 1;
    line.spaces();
    let sectors = line.number("a length in sectors")?;
    if !line.is_end() {
        line.gap()?;
    }
    Ok(Some((lba, sectors)))
}

/// Parses `major,minor`.
pub(crate) fn device(line: &mut Fields<'_>) -> Parsed<u32> {
    let at = line.at;
    let major = line.small("a device such as 8,0")?;
    line.comma()?;
    let minor = line.small("a minor number")?;
    match device_number(major, minor) {
        Some(number) => Ok(number),
        None => {
            line.at = at;
            line.fault("a device below 4096,1048576")
        }
    }
}

/// Returns the number of a kernel device, or `None` if it is out of range.
pub(crate) fn device_number(major: u32, minor: u32) -> Option<u32> {
    let is_sound = major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS;
    is_sound.then_some(major << MINOR_BITS | minor)
}

/// Formats a kernel device as `major:minor`.
pub(crate) fn device_name(dev: u32) -> String {
    format!("{}:{}", dev >> MINOR_BITS, dev & ((1 << MINOR_BITS) - 1))
}

/// Returns whether `line` is an event of blkparse with this action, and of `dev` if it is given.
fn is_action(line: &[u8], action: u8, dev: Option<u32>) -> bool {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    let is_of = dev.is_none_or(|dev| device(&mut Fields::new(first)) == Ok(dev));
    is_of && words.nth(4) == Some(&[action])
}
