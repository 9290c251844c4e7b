//! A user-defined victim policy and placement policy, from single decisions to whole volumes: the
//! examples of docs/HACKING.md.
//!
//! Windowed greedy (Hu et al., SYSTOR 2009): the victim is the segment with the fewest valid pages
//! among those that were sealed first. With a window of one it is `fifo`.
//!
//! Bands: host writes and copies are placed by age alone, independent of the source segment of a
//! copy.

use std::collections::BTreeMap;

use hostftl_core::{Layer, SECTOR};
use hostftl_layers::policy::{
    GcPolicy, OwnPolicy, OwnSeparation, Separation, Separator, VictimPolicy, Victims,
};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

use crate::common::World;
use crate::common::churn::{Random, churn, verify};

/// The sealed segments in the order of sealing.
#[derive(Debug)]
struct Windowed {
    window: usize,
    order: BTreeMap<u64, u32>,
    /// The position of each segment in the order.
    at: Vec<u64>,
    next: u64,
}

impl Windowed {
    fn new(window: usize, segments: u32) -> Self {
        Windowed { window, order: BTreeMap::new(), at: vec![0; segments as usize], next: 0 }
    }
}

impl VictimPolicy for Windowed {
    fn sealed(&mut self, segment: u32, _valid: u32, _now: u64) {
        self.order.insert(self.next, segment);
        self.at[segment as usize] = self.next;
        self.next += 1;
    }

    fn changed(&mut self, _segment: u32, _valid: u32, _now: u64) {}

    fn freed(&mut self, segment: u32) {
        let freed = self.order.remove(&self.at[segment as usize]);
        assert_eq!(freed, Some(segment), "a segment was freed that was not sealed");
    }

    fn pick(&self, _now: u64, valid: &dyn Fn(u32) -> u32) -> Option<u32> {
        let window = self.order.values().take(self.window);
        window.copied().min_by_key(|segment| valid(*segment))
    }

    fn save(&self, put: &mut dyn FnMut(u64)) {
        put(self.order.len() as u64);
        self.order.values().for_each(|segment| put(u64::from(*segment)));
    }

    fn load(&mut self, take: &mut dyn FnMut() -> Option<u64>) -> Option<()> {
        for _ in 0..take().filter(|count| *count <= self.at.len() as u64)? {
            let segment = u32::try_from(take()?).ok()?;
            let is_new = !self.order.values().any(|known| *known == segment);
            if !is_new || segment as usize >= self.at.len() {
                return None;
            }
            self.sealed(segment, 0, 0);
        }
        Some(())
    }
}

/// Returns the bytes of the tables: a number for each segment, and its entry in the order.
fn memory(segments: u32, _pages: u32) -> u64 {
    u64::from(segments) * 24
}

static WINDOWED: OwnPolicy = OwnPolicy {
    word: "windowed",
    new: |segments, _| Box::new(Windowed::new(16, segments)),
    memory,
};

static OLDEST: OwnPolicy =
    OwnPolicy { word: "oldest", new: |segments, _| Box::new(Windowed::new(1, segments)), memory };

#[test]
fn the_emptiest_of_the_oldest_is_picked() {
    let mut victims = Victims::new(GcPolicy::Own(&WINDOWED), 40, 8, 1);
    let valid = |segment: u32| if segment < 20 { 8 - segment / 3 } else { 0 };
    (0..40).for_each(|segment| victims.sealed(segment, valid(segment), 0));
    assert_eq!(victims.pick(0, valid), Some(15), "the emptiest of the first 16");
    assert_eq!(victims.peek(0, valid), Some(15), "a pick changes nothing");
    victims.freed(15);
    assert_eq!(victims.pick(0, valid), Some(16), "the next one comes into the window");
    assert_eq!(victims.bytes(), Victims::memory(GcPolicy::Own(&WINDOWED), 40, 8));
}

#[test]
fn a_saved_policy_continues() {
    let policy = GcPolicy::Own(&WINDOWED);
    let mut victims = Victims::new(policy, 40, 8, 1);
    [7, 3, 30].into_iter().for_each(|segment| victims.sealed(segment, 8, 0));
    let mut numbers = Vec::new();
    victims.save(&mut |number| numbers.push(number));
    let load = |numbers: &[u64], segments| {
        let mut numbers = numbers.iter().copied();
        Victims::load(policy, segments, 8, &mut || numbers.next())
    };
    let mut loaded = load(&numbers, 40).expect("the saved state");
    for oldest in [7, 3, 30] {
        assert_eq!(loaded.pick(0, |_| 8), Some(oldest));
        loaded.freed(oldest);
    }
    assert!(load(&numbers, 30).is_none(), "there is no segment 30");
    assert!(load(&numbers[..3], 40).is_none(), "a number is missing");
}

/// Rewrites a `log` volume under the policies. Returns its contents and the number of segments
/// collected.
fn turned_over(gc: GcPolicy, separation: Separation, spare_permille: u32) -> (Vec<u8>, u64) {
    let log = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: 32, spare_permille, ..log };
    (config.log.gc, config.log.separation) = (gc, separation);
    let mut world = World::start(&config, vec![0; 600 * 32 * SECTOR], Mode::Format, 1);
    let mut versions = vec![0; world.layer.limits().exported as usize * 3 / 4];
    churn(&mut world, &mut versions, &mut Random(3), 4000, 37);
    verify(&mut world, &versions);
    world.layer.check().unwrap();
    let runs = world.layer.counters().gc_runs;
    (world.stop(), runs)
}

#[test]
fn a_custom_policy_decides_which_segments_are_collected() {
    let turned_over = |gc| turned_over(gc, Separation::Two, 70);
    let (fifo, runs) = turned_over(GcPolicy::Fifo);
    let (oldest, _) = turned_over(GcPolicy::Own(&OLDEST));
    assert!(runs > 10 && oldest == fifo, "a window of one is fifo, in every byte");
    let (_, wider) = turned_over(GcPolicy::Own(&WINDOWED));
    assert!(wider < runs, "a window of 16 collects {wider} segments, one of one {runs}");
}

/// Returns the band of an age: the number of 1, 4 and 16 lifespans of hot segments that it reaches.
fn band(age: f64, lifespan: f64) -> u8 {
    [1.0, 4.0, 16.0].iter().filter(|bound| age >= *bound * lifespan).count() as u8
}

static BANDS: OwnSeparation = OwnSeparation {
    word: "bands",
    of_write: |age, lifespan| age.map_or(1, |age| band(age, lifespan).min(1)),
    of_copy: |_, age, lifespan| 2 + band(age, lifespan),
};

/// The rule of `lifetime`, implemented again.
static SAME: OwnSeparation = OwnSeparation {
    word: "same",
    of_write: |age, lifespan| u8::from(age.is_none_or(|age| age >= lifespan)),
    of_copy: |from, age, lifespan| match from {
        0 => 2,
        _ => 2 + band(age, lifespan).clamp(1, 3),
    },
};

#[test]
fn classes_follow_the_age_bands() {
    let mut separator = Separator::new(Separation::Own(&BANDS), 6);
    (0..16).for_each(|_| separator.emptied(0, 100.0));
    assert_eq!([99.0, 100.0].map(|age| separator.for_write(age)), [0, 1]);
    assert_eq!(separator.for_new(), 1);
    assert_eq!([99.0, 100.0, 400.0, 1600.0].map(|age| separator.for_copy(0, age)), [2, 3, 4, 5]);
    let few = Separator::new(Separation::Own(&BANDS), 4);
    assert_eq!((few.for_write(1e9), few.for_copy(0, 1e9)), (0, 2), "too few classes: as two");
}

#[test]
fn custom_separation_decides_where_data_is_written() {
    // The over-provisioning suffices for an open segment of each class.
    let turned_over = |rule| turned_over(GcPolicy::Greedy, rule, 600);
    let (lifetime, _) = turned_over(Separation::Lifetime);
    let (same, _) = turned_over(Separation::Own(&SAME));
    assert!(same == lifetime, "the same rule gives the same volume, in every byte");
    let (bands, runs) = turned_over(Separation::Own(&BANDS));
    assert!(runs > 0 && bands != lifetime, "another rule places otherwise");
}
