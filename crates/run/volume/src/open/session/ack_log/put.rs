//! Application of the acknowledgement log of a run that died, followed by a flush.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostftl_core::{
    Cause, Credits, Event, HostError, HostOp, Layer, Limits, Payload, Reply, Request, SECTOR,
    Tally, Ticket,
};
use hostftl_io::{Arena, Driver, Host, Pull};
use hostftl_layers::AnyLayer;

use super::entry::{Entry, Kind};
use super::folder::PreviousLog;
use crate::open::event_host::EventHost;
use crate::util::error::Error;

/// Maximum number of requests in flight.
const MOST: usize = 32;

/// Applies a log through a layer that is ready, in its order, and flushes it.
pub(crate) fn put_through(
    left: &PreviousLog,
    driver: &mut Driver<AnyLayer>,
    arena: &Arc<Arena>,
    event_host: &mut EventHost,
) -> Result<(), Error> {
    let limits = driver.layer().limits();
    let bytes = limits.exported * SECTOR as u64;
    let refused = |why: String| {
        let path = left.path().into();
        let hint = "the acknowledged writes stay there for the next start; remove the file to \
                    start without them";
        Error::Refused { path, why: format!("{why}; {hint}") }
    };
    // Checked before the first write, so that a log of another volume size changes nothing.
    if let Some(far) = left.entries.iter().find(|entry| entry.offset + entry.bytes > bytes) {
        let end = far.offset + far.bytes;
        let why = format!(
            "an acknowledged write ends at byte {end} beyond the volume ({bytes} \
                           bytes)"
        );
        return Err(refused(why));
    }
    let mut host = LogHost {
        left,
        limits,
        next: 0,
        from: 0,
        flying: BTreeMap::new(),
        arena,
        event_host,
        why: None,
    };
    driver.serve(&mut host)?;
    match host.why {
        Some(why) => Err(refused(why)),
        None => Ok(()),
    }
}

/// Host that applies a log.
struct LogHost<'a> {
    left: &'a PreviousLog,
    limits: Limits,
    /// Next entry, and the next byte of it.
    next: usize,
    from: u64,
    /// Ranges in flight by ticket; a flush has none.
    flying: BTreeMap<u64, (u64, u64)>,
    arena: &'a Arc<Arena>,
    event_host: &'a mut EventHost,
    /// First error.
    why: Option<String>,
}

impl LogHost<'_> {
    /// Returns the next part of a change. Only a write longer than the maximum request is split.
    fn part(&self) -> Option<(Entry, u64)> {
        let entry = self.left.entries.get(self.next).filter(|_| self.why.is_none())?;
        let begin = entry.offset + self.from;
        let end = entry.offset + entry.bytes;
        let cut = self.limits.next_cut(begin / SECTOR as u64, end / SECTOR as u64);
        // The log has client requests, which may exceed the limits of the layer.
        let end = if entry.kind == Kind::Write { cut * SECTOR as u64 } else { end };
        Some((*entry, (end - begin).min(self.longest(entry.kind))))
    }

    /// Returns the maximum length of a part in bytes.
    fn longest(&self, kind: Kind) -> u64 {
        if kind == Kind::Write { self.arena.longest().into() } else { u64::MAX }
    }

    fn request(&mut self, op: HostOp, offset: u64, bytes: u64) -> Pull {
        let id = self.flying.last_key_value().map_or(0, |(id, _)| id + 1);
        self.flying.insert(id, (offset, offset + bytes));
        let (lba, sectors) = (offset / SECTOR as u64, bytes / SECTOR as u64);
        let written = if matches!(op, HostOp::Write { .. }) { sectors as u32 } else { 0 };
        let (ticket, tally) = (Ticket::issue(id), Tally::single(Cause::Host, written));
        Pull::Request(Request { ticket, op, lba, sectors, tally, placement: 0 })
    }

    fn fail(&mut self, what: &str, why: &str) {
        self.why.get_or_insert_with(|| format!("cannot apply {what}: {why}"));
    }
}

impl Host for LogHost<'_> {
    fn pull(&mut self, credits: Credits) -> Pull {
        let Some((entry, bytes)) = self.part() else {
            // The flush follows the last reply, and its own reply is the end.
            return match (self.flying.is_empty(), self.next == self.left.entries.len()) {
                (false, _) => Pull::TooLong,
                (true, true) if self.why.is_none() => {
                    self.next += 1;
                    self.request(HostOp::Flush, 0, 0)
                }
                (true, _) => Pull::Over,
            };
        };
        let (begin, end) = (entry.offset + self.from, entry.offset + self.from + bytes);
        // Overlapping changes must be applied in the order of the log.
        let overlaps = self.flying.values().any(|&(from, to)| from < end && begin < to);
        let writes = entry.kind == Kind::Write;
        if overlaps || self.flying.len() == MOST {
            return Pull::TooLong;
        }
        // Trims and zeroing carry no data and need no credits for it.
        if writes && u64::from(credits.sectors) * (SECTOR as u64) < bytes {
            return Pull::TooLong;
        }
        let op = match entry.kind {
            Kind::Write => {
                let Some(mut data) = self.arena.try_lease(bytes as u32) else {
                    return Pull::TooLong;
                };
                if let Err(error) = self.left.ring.read(&entry, self.from, &mut data) {
                    self.fail("an acknowledged write", &error.to_string());
                    return self.pull(credits);
                }
                // One flush at the end makes all of them durable.
                HostOp::Write { data: data.into_payload(), fua: false }
            }
            Kind::Trim => HostOp::Trim { fua: false },
            _ => HostOp::Zeroes { fua: false },
        };
        self.from += bytes;
        if self.from == entry.bytes {
            (self.next, self.from) = (self.next + 1, 0);
        }
        self.request(op, begin, bytes)
    }

    fn has_work(&self) -> bool {
        true
    }

    fn answer(&mut self, reply: Reply) {
        let Reply { ticket, data, result } = reply;
        let range = self.flying.remove(&ticket.close()).expect("one answer for each request");
        data.into_iter().for_each(|data| self.reclaim(data));
        let why = match result {
            Ok(()) => return,
            Err(HostError::NoSpace) => "no space",
            Err(_) => "a device failed",
        };
        let bytes = range.1 - range.0;
        self.fail(&format!("an acknowledged write, {bytes} bytes at {},", range.0), why);
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.arena.adopt(payload));
    }

    fn event(&mut self, event: Event) {
        self.event_host.event(event);
    }
}
