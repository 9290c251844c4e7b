//! Pages programmed for each placement id, in a pool with several.
//!
//! A page belongs to the id with which the host wrote it last. A copy counts for that id, even if
//! copies of several ids share a segment.

/// Owners of all logical pages, and the work for each placement id.
#[derive(Debug)]
pub(super) struct Handles {
    /// Placement id of the last write of each logical page; 0 for pages that were never written.
    pub owners: Vec<u8>,
    /// Pages programmed for each id.
    programmed: Vec<u64>,
}

impl Handles {
    /// Makes the table of a pool with `placements` ids; `None` for a pool with only one.
    pub(super) fn new(logical: u32, placements: u8) -> Option<Box<Self>> {
        let programmed = vec![0; placements.into()];
        let owners = || vec![0; logical as usize];
        (placements > 1).then(|| Box::new(Handles { owners: owners(), programmed }))
    }

    /// Records a write of the host.
    pub(super) fn wrote(&mut self, logical: u32, placement: u8) {
        self.owners[logical as usize] = placement;
        self.programmed[usize::from(placement)] += 1;
    }

    /// Records the copies of these logical pages.
    pub(super) fn copied(&mut self, logical: &[u32]) {
        for page in logical {
            self.programmed[usize::from(self.owners[*page as usize])] += 1;
        }
    }

    /// Returns the pages programmed for each id.
    pub(super) fn programmed(&self) -> &[u64] {
        &self.programmed
    }
}
