//! What the device collects next: asked for every so many writes, and when nothing is left of it.

use hostftl_core::{About, Command};
use hostftl_format::report;

use super::layout::Layout;
use super::ops::{Cx, Op};
use super::pages::{MOST_PREFERRED, Pages};
use crate::kit::metabuf::MetaHome;
use crate::kit::shell::Ended;

/// Metadata pages for the answer.
const PAGES: usize = MOST_PREFERRED * report::UNIT_BYTES / 4096;

/// When to ask.
#[derive(Debug)]
pub(super) struct Hint {
    buf: MetaHome,
    /// Writes from one question to the next; 0 = it is never asked.
    refresh: u32,
    /// Writes since the last.
    writes: u32,
}

impl Hint {
    /// Nothing asked yet.
    pub(super) fn new(refresh: u32) -> Self {
        Hint { buf: MetaHome::new(PAGES), refresh, writes: 0 }
    }

    /// A page is about to be written; `missed` when it would have been another, had more been
    /// known.
    pub(super) fn note(&mut self, missed: bool) {
        self.writes = if missed { self.refresh } else { self.writes + 1 };
    }

    /// Asks when it is time to.
    pub(super) fn pump(&mut self, cx: &mut Cx) -> bool {
        let due = self.refresh > 0 && self.writes >= self.refresh && cx.is_running();
        if !due || !self.buf.is_home() {
            return false;
        }
        self.writes = 0;
        let into = self.buf.lend();
        cx.submit(Op::Hint, Command::Report { device: 0, about: About::Collectible, into });
        true
    }

    /// The answer, if there is one; the device may do without.
    pub(super) fn answered(
        &mut self,
        command: Command,
        ended: Ended,
        layout: &Layout,
        to: &mut Pages,
    ) {
        let Command::Report { into, .. } = command else { unreachable!("a hint is a report") };
        let told = ended.map_or(0, |verdict| verdict.bytes as usize / report::UNIT_BYTES);
        let lbas = (0..told).filter_map(|index| report::unit(into.pages(), index));
        to.prefer(lbas.filter_map(|lba| layout.page_at(lba)));
        self.buf.take_back(into);
    }
}
