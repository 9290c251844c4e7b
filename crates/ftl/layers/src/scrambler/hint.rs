//! Queries of the device's next victim: after a fixed number of writes, and when no page of the
//! last answer is left.

use hostftl_core::{About, Command};
use hostftl_format::report;

use super::layout::Layout;
use super::ops::{Cx, Op};
use super::pages::{MOST_PREFERRED, Pages};
use crate::kit::metabuf::MetaHome;
use crate::kit::shell::Ended;

/// Metadata pages for the answer.
const PAGES: usize = MOST_PREFERRED * report::UNIT_BYTES / 4096;

/// The schedule of the queries.
#[derive(Debug)]
pub(super) struct Hint {
    buf: MetaHome,
    /// Writes between two queries; 0 to never query.
    refresh: u32,
    /// Writes since the last query.
    writes: u32,
}

impl Hint {
    /// Creates the state before the first query.
    pub(super) fn new(refresh: u32) -> Self {
        Hint { buf: MetaHome::new(PAGES), refresh, writes: 0 }
    }

    /// Counts a write of a page. `missed` states that no preferred page was left, so that a query
    /// is due at once.
    pub(super) fn note(&mut self, missed: bool) {
        self.writes = if missed { self.refresh } else { self.writes + 1 };
    }

    /// Submits a query if one is due. Returns whether it did.
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

    /// Passes the answer on to `to`. A failed query is ignored.
    pub(super) fn answered(
        &mut self,
        command: Command,
        ended: Ended,
        layout: &Layout,
        to: &mut Pages,
    ) {
        let Command::Report { into, .. } = command else { unreachable!("a hint is a report") };
        let reported = ended.map_or(0, |verdict| verdict.bytes as usize / report::UNIT_BYTES);
        let lbas = (0..reported).filter_map(|index| report::unit(into.pages(), index));
        to.prefer(lbas.filter_map(|lba| layout.page_at(lba)));
        self.buf.take_back(into);
    }
}
