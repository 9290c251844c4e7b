//! What the device collects next: asked for every so many writes, and when nothing is left of it.

use hostftl_core::{About, Command, DeviceError, MetaBuf, Nanos, Out, Verdict};
use hostftl_format::report;

use super::Scrambler;
use super::ops::Op;
use super::pages::MOST_PREFERRED;

/// Metadata pages for the answer.
const PAGES: usize = MOST_PREFERRED * report::UNIT_BYTES / 4096;

/// When to ask.
#[derive(Debug)]
pub struct Hint {
    buf: Option<MetaBuf>,
    /// Writes from one question to the next; 0 = it is never asked.
    refresh: u32,
    /// Writes since the last.
    writes: u32,
}

impl Hint {
    /// Nothing asked yet.
    pub fn new(refresh: u32) -> Self {
        Hint { buf: Some(MetaBuf::new(PAGES)), refresh, writes: 0 }
    }

    /// A page is about to be written; `missed` when it would have been another, had more been
    /// known.
    pub fn note(&mut self, missed: bool) {
        self.writes = if missed { self.refresh } else { self.writes + 1 };
    }
}

impl Scrambler {
    /// Asks when it is time to.
    pub fn pump_hint(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.hint.refresh == 0 || self.hint.writes < self.hint.refresh || !self.is_running() {
            return false;
        }
        let Some(into) = self.hint.buf.take() else { return false };
        self.hint.writes = 0;
        let command = Command::Report { device: 0, about: About::Collectible, into };
        self.submit(now, Op::Hint, command, out);
        true
    }

    /// The answer, if there is one; the device may do without.
    pub fn hinted(&mut self, command: Command, result: Result<Verdict, DeviceError>) {
        let Command::Report { into, .. } = command else { unreachable!("a hint is a report") };
        let told = result.map_or(0, |verdict| verdict.bytes as usize / report::UNIT_BYTES);
        let lbas = (0..told).filter_map(|index| report::unit(into.pages(), index));
        self.pages.prefer(lbas.filter_map(|lba| self.layout.page_at(lba)));
        self.hint.buf = Some(into);
    }
}
