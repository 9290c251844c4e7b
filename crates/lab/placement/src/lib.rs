//! A segment log without a clock, to evaluate rules of placement and garbage collection before they
//! become policies of a layer. Blocks of 4 KiB are written to the open segment of their class, and
//! segments are collected when few are free. Rules are called in batches.
//!
//! Invariants
//! - Each written block has one valid page, and each page is counted once.
//! - A segment is free, open for one class, or sealed. Pages of a sealed segment only become
//!   invalid.

mod class_rates;
mod frequency;
mod hazard;
mod oracles;
mod rate;
mod rule;
mod sepbit;

use hostftl_layers::policy::{GcPolicy, Victims};

pub use class_rates::ByRate;
pub use frequency::ByFrequency;
pub use hazard::ByHazard;
pub use oracles::{Future, Rates};
pub use rule::{NEVER, Placement, Plain};
pub use sepbit::SepBit;

/// Page of a block that was never written.
const NOWHERE: u32 = u32::MAX;
/// Maximum number of classes.
const MOST_CLASSES: u8 = 32;

/// The sealed segments as input to a victim policy.
#[derive(Clone, Debug, Default)]
pub struct Sealed {
    /// Segment numbers.
    pub segments: Vec<u32>,
    /// Valid blocks of each segment.
    pub valid: Vec<u32>,
    /// Number of blocks that the host wrote since each segment was sealed.
    pub ages: Vec<u64>,
    /// Class of each segment.
    pub classes: Vec<u8>,
}

/// A victim policy.
pub trait Choose {
    /// Returns the indices in `sealed` of the segments to collect, in order; at least one.
    fn choose(&mut self, sealed: &Sealed) -> Vec<usize>;
}

/// The victim policy of a log.
pub enum Collector {
    /// A policy of the layers.
    Known(Victims),
    /// A policy of the caller.
    Asked(Box<dyn Choose>),
}

/// Size of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpec {
    /// Blocks of the host.
    pub blocks: u32,
    /// Blocks per segment.
    pub segment: u32,
    /// Over-provisioning in thousandths of all segments.
    pub spare_permille: u32,
}

/// Counters of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Blocks written by the host.
    pub written: u64,
    /// Blocks copied by garbage collection.
    pub copied: u64,
    /// Segments collected.
    pub collected: u64,
}

/// A segment log in memory, which stores addresses and no data.
pub struct SegmentLog {
    spec: LogSpec,
    segments: u32,
    /// Page of each block.
    map: Vec<u32>,
    /// Time of the last write of each block, including writes of the current batch.
    last: Vec<u64>,
    /// Block of each page, and the time when the host wrote it.
    pages: Vec<(u32, u64)>,
    valid: Vec<u32>,
    class: Vec<u8>,
    /// Times of the first block and of the seal of each segment.
    times: Vec<(u64, u64)>,
    is_sealed: Vec<bool>,
    /// For each segment, the mean time of its host writes and their number.
    means: Vec<(f64, u32)>,
    /// Whether a block's age is taken from its segment.
    by_segment: bool,
    free: Vec<u32>,
    /// Open segment of each class and its number of used pages.
    open: Vec<Option<(u32, u32)>>,
    now: u64,
    counts: LogCounts,
    collector: Collector,
    /// Buffers for the arguments and results of a batch.
    ages: Vec<u64>,
    classes: Vec<u8>,
    copies: Vec<(u32, u64)>,
    lbas: Vec<u32>,
}

impl Collector {
    /// Creates a policy of the layers for a log of `spec`.
    pub fn known(policy: GcPolicy, spec: &LogSpec, classes: u8, seed: u64) -> Self {
        Collector::Known(Victims::new(policy, spec.segments(classes), spec.segment, seed))
    }
}

impl LogSpec {
    /// Returns the total number of segments, including the open ones.
    fn segments(&self, classes: u8) -> u32 {
        let full = u64::from(self.blocks).div_ceil(u64::from(self.segment));
        let share = u64::from(1000 - self.spare_permille.min(900));
        let all = (full * 1000).div_ceil(share);
        (all.max(full + 1) + 2 * u64::from(classes) + 3) as u32
    }

    /// Returns α with `classes` classes: pages that are not kept free, divided by blocks.
    pub fn alpha(&self, classes: u8) -> f64 {
        let pages = u64::from(self.segments(classes) - u32::from(classes) - 2);
        (pages * u64::from(self.segment)) as f64 / f64::from(self.blocks)
    }

    /// Checks that the size is valid.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=1 << 20).contains(&self.segment) || self.blocks == 0 {
            return Err(
                "a segment has 1 to 1048576 blocks, and a log has at least one segment".into()
            );
        }
        let pages = u64::from(self.segments(MOST_CLASSES)) * u64::from(self.segment);
        if pages < u64::from(NOWHERE) {
            Ok(())
        } else {
            Err("the log has more than 2^32 pages; make it smaller".into())
        }
    }
}

impl SegmentLog {
    /// Creates an empty log with `classes` classes.
    pub fn new(spec: LogSpec, classes: u8, collector: Collector) -> Self {
        assert!((1..=MOST_CLASSES).contains(&classes), "there are 1 to 32 classes");
        let segments = spec.segments(classes);
        let pages = segments as usize * spec.segment as usize;
        SegmentLog {
            spec,
            segments,
            map: vec![NOWHERE; spec.blocks as usize],
            last: vec![NEVER; spec.blocks as usize],
            pages: vec![(NOWHERE, 0); pages],
            valid: vec![0; segments as usize],
            class: vec![0; segments as usize],
            times: vec![(0, 0); segments as usize],
            is_sealed: vec![false; segments as usize],
            means: vec![(0.0, 0); segments as usize],
            by_segment: false,
            free: (0..segments).rev().collect(),
            open: vec![None; classes.into()],
            now: 0,
            counts: LogCounts::default(),
            collector,
            ages: Vec::new(),
            classes: Vec::new(),
            copies: Vec::new(),
            lbas: Vec::new(),
        }
    }

    /// Takes the ages of blocks from the mean age of their segment.
    pub fn with_ages_of_segments(self) -> Self {
        SegmentLog { by_segment: true, ..self }
    }

    /// Returns the counters.
    pub fn counts(&self) -> LogCounts {
        self.counts
    }

    /// Writes `lbas` as one batch of the host.
    ///
    /// # Panics
    /// If a block is beyond the log, or if a rule returns an invalid class.
    pub fn write(&mut self, lbas: &[u32], placement: &mut dyn Placement) {
        self.ages.clear();
        for (at, lba) in lbas.iter().enumerate() {
            let now = self.now + at as u64;
            let last = std::mem::replace(&mut self.last[*lba as usize], now);
            self.ages.push(match last {
                NEVER => NEVER,
                last if last >= self.now => now - last,
                last => now - self.written(*lba, last),
            });
        }
        let mut classes = std::mem::take(&mut self.classes);
        classes.clear();
        classes.resize(lbas.len(), 0);
        placement.of_writes(lbas, &self.ages, &mut classes);
        for (lba, class) in lbas.iter().zip(&classes) {
            if self.open.get(usize::from(*class)).is_some_and(Option::is_none) {
                self.collect(placement);
            }
            self.append((*lba, self.now), self.now as f64, *class);
            self.now += 1;
            self.counts.written += 1;
        }
        self.classes = classes;
    }

    /// Returns the known write time of a block that was written at `last`: the exact time, or the
    /// mean of its segment.
    fn written(&self, lba: u32, last: u64) -> u64 {
        if self.by_segment {
            self.means[(self.map[lba as usize] / self.spec.segment) as usize].0 as u64
        } else {
            last
        }
    }

    /// Appends a block, written by the host at `time`, to the open segment of `class`.
    fn append(&mut self, (lba, time): (u32, u64), known: f64, class: u8) {
        let classes = self.open.len();
        assert!(usize::from(class) < classes, "class {class} of {classes}");
        if self.open[usize::from(class)].is_none() {
            let segment = self.free.pop().expect("each class has a free segment");
            self.class[segment as usize] = class;
            self.times[segment as usize].0 = self.now;
            self.means[segment as usize] = (0.0, 0);
            self.open[usize::from(class)] = Some((segment, 0));
        }
        let (segment, used) = self.open[usize::from(class)].expect("the segment was opened");
        self.kill(lba);
        let page = segment * self.spec.segment + used;
        self.map[lba as usize] = page;
        self.pages[page as usize] = (lba, time);
        self.valid[segment as usize] += 1;
        let (mean, count) = &mut self.means[segment as usize];
        *count += 1;
        *mean += (known - *mean) / f64::from(*count);
        self.open[usize::from(class)] = Some((segment, used + 1));
        if used + 1 == self.spec.segment {
            self.seal(segment);
            self.open[usize::from(class)] = None;
        }
    }

    /// Invalidates the page of a block, if it has one.
    fn kill(&mut self, lba: u32) {
        let page = std::mem::replace(&mut self.map[lba as usize], NOWHERE);
        if page == NOWHERE {
            return;
        }
        let segment = page / self.spec.segment;
        let valid = &mut self.valid[segment as usize];
        *valid -= 1;
        if let (Collector::Known(victims), true) =
            (&mut self.collector, self.is_sealed[segment as usize])
        {
            victims.valid_changed(segment, *valid, self.now);
        }
    }

    fn seal(&mut self, segment: u32) {
        self.is_sealed[segment as usize] = true;
        self.times[segment as usize].1 = self.now;
        if let Collector::Known(victims) = &mut self.collector {
            victims.sealed(segment, self.valid[segment as usize], self.now);
        }
    }

    /// Collects until the number of free segments exceeds the number of classes by two. While
    /// segments are emptied, each class may open one. One more segment may be filled before another
    /// becomes free.
    fn collect(&mut self, placement: &mut dyn Placement) {
        let least = self.open.len() + 2;
        let most = self.counts.collected + 4 * u64::from(self.segments);
        while self.free.len() < least {
            assert!(self.counts.collected < most, "the victim policy frees no segment");
            for segment in self.victims() {
                // The first victim is always collected, the others only if needed.
                self.empty(segment, placement);
                if self.free.len() >= least {
                    break;
                }
            }
        }
    }

    /// Returns the next victims.
    fn victims(&mut self) -> Vec<u32> {
        let (valid, now) = (&self.valid, self.now);
        match &mut self.collector {
            Collector::Known(victims) => {
                let live = |segment: u32| valid[segment as usize];
                vec![victims.pick(now, live).expect("a full log has sealed segments")]
            }
            Collector::Asked(choose) => {
                let all = (0..self.segments).filter(|segment| self.is_sealed[*segment as usize]);
                let segments: Vec<u32> = all.collect();
                let sealed = Sealed {
                    valid: segments.iter().map(|it| valid[*it as usize]).collect(),
                    ages: segments.iter().map(|it| now - self.times[*it as usize].1).collect(),
                    classes: segments.iter().map(|it| self.class[*it as usize]).collect(),
                    segments,
                };
                let mut chosen = choose.choose(&sealed);
                let mut seen = std::collections::HashSet::new();
                chosen.retain(|at| seen.insert(*at));
                assert!(!chosen.is_empty(), "the victim policy chose no segment");
                chosen.into_iter().map(|at| sealed.segments[at]).collect()
            }
        }
    }

    /// Copies the valid blocks of `segment` and frees it.
    fn empty(&mut self, segment: u32, placement: &mut dyn Placement) {
        self.is_sealed[segment as usize] = false;
        if let Collector::Known(victims) = &mut self.collector {
            victims.freed(segment);
        }
        let from = self.class[segment as usize];
        let first = segment * self.spec.segment;
        let mut copies = std::mem::take(&mut self.copies);
        copies.clear();
        for page in first..first + self.spec.segment {
            let (lba, time) = self.pages[page as usize];
            if self.map[lba as usize] == page {
                copies.push((lba, time));
            }
        }
        assert_eq!(
            copies.len(),
            self.valid[segment as usize] as usize,
            "each page is counted once"
        );
        self.lbas.clear();
        self.lbas.extend(copies.iter().map(|(lba, _)| *lba));
        let (mean, by_segment) = (self.means[segment as usize].0, self.by_segment);
        let known = |time: &u64| if by_segment { mean } else { *time as f64 };
        let ages: Vec<u64> = copies.iter().map(|(_, time)| self.now - known(time) as u64).collect();
        let mut classes = vec![0; copies.len()];
        placement.of_copies(&self.lbas, &ages, from, &mut classes);
        placement.collected(from, self.now - self.times[segment as usize].0);
        self.counts.collected += 1;
        self.counts.copied += copies.len() as u64;
        for ((lba, time), class) in copies.iter().zip(&classes) {
            self.append((*lba, *time), known(time), *class);
        }
        assert_eq!(self.valid[segment as usize], 0, "valid pages were copied");
        self.free.push(segment);
        self.copies = copies;
    }

    /// Recounts all pages.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check(&self) -> Result<(), String> {
        let mut valid = vec![0; self.segments as usize];
        for (lba, page) in self.map.iter().enumerate().filter(|(_, page)| **page != NOWHERE) {
            if self.pages[*page as usize].0 as usize != lba {
                return Err(format!("block {lba} is not in page {page}"));
            }
            valid[(*page / self.spec.segment) as usize] += 1;
        }
        if valid == self.valid {
            Ok(())
        } else {
            Err("the count of valid pages is wrong".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
