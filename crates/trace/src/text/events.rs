//! Block events of the Linux kernel as text: `blkparse`, and the `block_rq_issue` trace event as
//! the kernel's trace file and `perf script` print it.
//!
//! A device `major:minor` becomes the number major × 2^20 + minor, as in the kernel. A write that
//! asks for a flush first becomes a flush and a write; FUA is dropped, for records have none.

use super::fields::{Fields, Found, Parsed};
use crate::record::{Op, Record};
use crate::unit::Unit;

/// Bits of a minor number.
const MINOR_BITS: u32 = 20;
/// What the lines of blkparse's final summary begin with.
const SUMMARY: [&[u8]; 4] = [b"CPU", b"Total (", b"Throughput", b"Events ("];
const ISSUE: &[u8] = b"block_rq_issue:";

/// A reader of block events.
#[derive(Default)]
pub struct Events {
    /// The write whose flush was handed out.
    pub pending: Option<Found>,
    /// Which of blkparse's actions counts: D, or Q where there is no D.
    action: u8,
    /// Whether blkparse's summary has begun.
    over: bool,
}

impl Events {
    /// Looks at the beginning of the file for what blkparse has to offer.
    pub fn new(head: &[u8]) -> Self {
        let has =
            |action: u8| head.split(|&byte| byte == b'\n').any(|line| is_action(line, action));
        let action = if !has(b'D') && has(b'Q') { b'Q' } else { b'D' };
        Events { action, ..Events::default() }
    }

    /// A line such as `8,0 3 1 0.000000000 697 D W 223490 + 8 [kjournald]`.
    pub fn blkparse(&mut self, line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
        self.over |= SUMMARY.iter().any(|word| line.rest().starts_with(word));
        if self.over {
            line.skip_line()?;
            return Ok(None);
        }
        line.spaces();
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
        let action = line.word("an action such as D")?;
        if action != [self.action] {
            line.skip_line()?;
            return Ok(None);
        }
        line.gap()?;
        self.request(line, t_ns, dev, false)
    }

    /// A line such as `fio-1 [000] ..... 12.345678: block_rq_issue: 8,0 WS 4096 () 2056 + 8 [fio]`.
    pub fn kernel(&mut self, line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
        let rest = line.rest();
        let event = rest.windows(ISSUE.len()).position(|window| window == ISSUE);
        let Some(event) = event.filter(|_| rest.first() != Some(&b'#')) else {
            line.skip_line()?;
            return Ok(None);
        };
        let before = rest[..event].strip_suffix(b"block:").unwrap_or(&rest[..event]);
        let before = before.trim_ascii_end();
        let before = before.strip_suffix(b":").unwrap_or(before);
        line.at = before.iter().rposition(|byte| b" \t".contains(byte)).map_or(0, |at| at + 1);
        let t_ns = line.time(unit)?;
        line.at = event + ISSUE.len();
        line.gap()?;
        let dev = device(line)?;
        line.gap()?;
        self.request(line, t_ns, dev, true)
    }

    /// `RWBS [bytes (command)] [sector + sectors]`, and whatever follows.
    fn request(
        &mut self,
        line: &mut Fields<'_>,
        t_ns: u64,
        dev: u32,
        has_command: bool,
    ) -> Parsed<Option<Found>> {
        let rwbs = line.word("what the request does, such as WS")?;
        line.spaces();
        if has_command {
            let command = line.rest().iter().position(|&byte| byte == b')');
            line.at += command.map_or(0, |at| at + 1);
            line.spaces();
        }
        let mut range = (0, 0);
        if line.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            range.0 = line.number("a sector")?;
            line.spaces();
            if line.peek() != Some(b'+') {
                return line.fault("a plus");
            }
            line.at += 1;
            line.spaces();
            range.1 = line.number("a length in sectors")?;
        }
        line.skip_line()?;
        let (lba, sectors) = range;
        let flushes = rwbs[0] == b'F';
        let op = rwbs.iter().find_map(|letter| match letter {
            b'R' => Some(Op::Read),
            b'W' => Some(Op::Write),
            b'D' => Some(Op::Discard),
            _ => None,
        });
        let record = op.filter(|_| sectors > 0).map(|op| Record::new(t_ns, op, dev, lba, sectors));
        let data = record.map(|record| Found { record, widened: false });
        if flushes {
            self.pending = data;
            return Ok(Some(Found::flush(t_ns, dev)));
        }
        Ok(data)
    }
}

/// `major,minor`.
fn device(line: &mut Fields<'_>) -> Parsed<u32> {
    let at = line.at;
    let major = line.small("a device such as 8,0")?;
    line.comma()?;
    let minor = line.small("a minor number")?;
    if major >= 1 << (32 - MINOR_BITS) || minor >= 1 << MINOR_BITS {
        line.at = at;
        return line.fault("a device below 4096,1048576");
    }
    Ok(major << MINOR_BITS | minor)
}

/// Whether `line` is an event of blkparse's with this action.
fn is_action(line: &[u8], action: u8) -> bool {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    words.nth(5) == Some(&[action])
}
