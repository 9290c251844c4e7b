//! Plan of a workload from a volume's statistics: extents to write and slots to read.
//!
//! An extent is written as a whole and a fixed number of times. This gives the required writes per
//! page and the required write sizes at the same time.

use hostftl_core::SECTOR;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::counts::Counts;
use super::sizes::Sizes;
use super::{Like, Volume};

/// Bytes of a page; [`PAGE`] has its sectors.
const PAGE_BYTES: f64 = 4096.0;
pub(super) const PAGE: u64 = 8;
/// Slots of a group; all groups have the same layout.
pub(super) const GROUP: usize = 64;

/// A range that is written as a whole, from the start of a page on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// First page.
    pub page: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Number of writes.
    pub writes: u32,
}

/// Ranges that are read in turn.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// First page of all slots.
    pub first: u64,
    /// First page within the group, and sectors, of each slot of a group.
    pub group: Vec<(u64, u64)>,
    /// Pages of a group.
    pub pages: u64,
    /// Number of slots.
    pub count: u64,
}

/// Writes and reads of a workload.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Ranges to write.
    pub extents: Vec<Extent>,
    /// Number of writes.
    pub writes: u64,
    /// Ranges to read.
    pub slots: Slots,
    /// Number of reads.
    pub reads: u64,
}

impl Plan {
    /// Makes the plan for `like`.
    pub(super) fn new(like: &Like, rng: &mut Xoshiro256PlusPlus) -> Self {
        let (volume, scale) = (like.volume, like.scale);
        let mut extents = extents(volume, scale);
        extents.shuffle(rng);
        let mut page = 0;
        for extent in &mut extents {
            extent.page = page;
            page += u64::from(extent.sectors).div_ceil(PAGE);
        }
        let writes: u64 = extents.iter().map(|extent| u64::from(extent.writes)).sum();
        let share = volume.write_share;
        let reads = (writes as f64 * (1.0 - share) / share).round() as u64;
        let pages = |bytes: f64| (bytes * scale / PAGE_BYTES).round() as u64;
        let both = pages((volume.read + volume.written - volume.touched).max(0.0));
        let slots = slots(volume.mean_read, pages(volume.read), page.saturating_sub(both));
        Plan { extents, writes, slots, reads }
    }
}

/// Returns the extents from the most-written to the least-written one. Their positions are not
/// assigned yet.
fn extents(volume: &Volume, scale: f64) -> Vec<Extent> {
    let sizes = Sizes::fit(volume.median_write, volume.p90_write, volume.mean_write);
    let pages = (volume.written * scale / PAGE_BYTES).round().max(1.0);
    let [p50, p90, p95, most] = volume.per_page;
    let most = (most * scale).max(p95).round();
    let writes = volume.requests as f64 * scale * volume.write_share;
    let per_request = sizes.mean(|sectors| sectors.div_ceil(PAGE) as f64);
    let top = (per_request / pages).min(0.01);
    let mean = (writes - most).max(0.0) * per_request / pages;
    let counts = Counts::fit([p50, p90, p95, most], mean, top);
    let mut extents = Vec::new();
    let (mut placed, mut written, mut count) = (0.0, 0.0, most);
    let mut by_size = [0.0; 5];
    while placed < pages {
        // Takes the size that is furthest behind its share of the writes so far.
        let behind = |index: usize| sizes.0[index].1 * (written + count) - by_size[index];
        let index = (0..by_size.len()).max_by(|a, b| behind(*a).total_cmp(&behind(*b)));
        let index = index.expect("there are five sizes");
        let sectors = sizes.0[index].0;
        let length = sectors.div_ceil(PAGE) as f64;
        if placed > 0.0 {
            count = counts.at((1.0 - (placed + length / 2.0) / pages).max(0.0)).max(1) as f64;
        }
        by_size[index] += count;
        written += count;
        placed += length;
        extents.push(Extent { page: 0, sectors: sectors as u32, writes: count as u32 });
    }
    extents
}

/// Returns slots with a mean length of `mean` bytes over `pages` pages from page `first` on.
fn slots(mean: f64, pages: u64, first: u64) -> Slots {
    let mean = (mean / SECTOR as f64).max(1.0);
    let (mut group, mut page, mut given) = (Vec::with_capacity(GROUP), 0, 0.0);
    for index in 1..=GROUP {
        let sectors = ((mean * index as f64 - given).round() as u64).max(1);
        given += sectors as f64;
        group.push((page, sectors));
        page += sectors.div_ceil(PAGE);
    }
    let whole = pages / page * GROUP as u64;
    let rest = group.iter().take_while(|(at, _)| *at < pages % page).count() as u64;
    Slots { first, group, pages: page, count: (whole + rest).max(1) }
}
