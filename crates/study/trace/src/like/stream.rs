//! The requests of a workload that resembles a volume.
//!
//! The writes of an extent are spread evenly over the week: each is at a random time within its
//! part. Every extent is therefore written exactly as often as planned. The state takes about 40
//! bytes for each extent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Like;
use super::plan::{GROUP, PAGE, Plan};
use crate::record::{Op, Record};

/// A week in ns.
const WEEK: f64 = 7.0 * 24.0 * 3600.0 * 1e9;
/// Fractional part of the golden ratio. Multiples of it are distributed evenly on a circle.
const STRIDE: f64 = 0.618_033_988_749_895;

/// Stream of requests.
pub struct LikeStream {
    plan: Plan,
    rng: Xoshiro256PlusPlus,
    /// Time of each extent's next write in units of 2⁻⁶² of the week, with the index of the extent.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    done: Vec<u32>,
    writes_left: u64,
    reads_left: u64,
    slot: u64,
    stride: u64,
    t_ns: f64,
    gap_ns: f64,
    flush: u64,
    since_flush: u64,
}

impl LikeStream {
    /// Makes the requests of `like` for `seed`.
    pub fn new(like: &Like, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let plan = Plan::new(like, &mut rng);
        let first = |(index, extent): (usize, &super::plan::Extent)| {
            Reverse((moment(0, extent.writes, rng.random()), index as u32))
        };
        let due = plan.extents.iter().enumerate().map(first).collect();
        let count = plan.slots.count;
        LikeStream {
            due,
            done: vec![0; plan.extents.len()],
            writes_left: plan.writes,
            reads_left: plan.reads,
            slot: 0,
            stride: stride(count),
            t_ns: 0.0,
            gap_ns: WEEK * like.scale / (plan.writes + plan.reads) as f64,
            flush: like.flush,
            since_flush: 0,
            plan,
            rng,
        }
    }

    fn write(&mut self, t_ns: u64) -> Record {
        let mut next = self.due.peek_mut().expect("writes remain");
        let Reverse((_, index)) = *next;
        let extent = self.plan.extents[index as usize];
        let done = &mut self.done[index as usize];
        *done += 1;
        if *done < extent.writes {
            next.0.0 = moment(*done, extent.writes, self.rng.random());
        } else {
            std::collections::binary_heap::PeekMut::pop(next);
        }
        self.writes_left -= 1;
        self.since_flush += 1;
        let (lba, sectors) = (extent.page * PAGE, u64::from(extent.sectors));
        Record::new(t_ns, Op::Write, 0, lba, sectors)
    }

    fn read(&mut self, t_ns: u64) -> Record {
        let slots = &self.plan.slots;
        let (group, member) = (self.slot / GROUP as u64, (self.slot % GROUP as u64) as usize);
        let (page, sectors) = slots.group[member];
        let lba = (slots.first + group * slots.pages + page) * PAGE;
        self.slot = (self.slot + self.stride) % slots.count;
        self.reads_left -= 1;
        Record::new(t_ns, Op::Read, 0, lba, sectors)
    }
}

impl Iterator for LikeStream {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.flush > 0 && self.since_flush == self.flush {
            self.since_flush = 0;
            let t_ns = self.t_ns as u64;
            return Some(Record::flush(t_ns, 0));
        }
        let left = self.writes_left + self.reads_left;
        if left == 0 {
            return None;
        }
        let chance: f64 = self.rng.random();
        self.t_ns += -(1.0 - chance).ln() * self.gap_ns;
        let t_ns = self.t_ns as u64;
        if self.rng.random_range(0..left) < self.writes_left {
            Some(self.write(t_ns))
        } else {
            Some(self.read(t_ns))
        }
    }
}

/// Returns a time within part `part` of `parts` of the week, in units of 2⁻⁶² of the week.
fn moment(part: u32, parts: u32, chance: f64) -> u64 {
    ((f64::from(part) + chance) / f64::from(parts) * 2f64.powi(62)) as u64
}

/// Returns a step that visits each of `count` slots once before it repeats.
fn stride(count: u64) -> u64 {
    let start = (count as f64 * STRIDE) as u64;
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (start.max(1)..).find(|step| divisor(*step, count) == 1).expect("a prime is near")
}
