//! Finds a drive's superpage, the grain in which it maps, by timing writes.
//!
//! A write that is smaller than a superpage costs a read-modify-write of all of it, so cost per
//! byte falls with the size of writes until they are as large. The smallest size from which larger
//! ones are no cheaper is the superpage, if a write that straddles two costs more than one that
//! does not.

use hostftl_core::{Layer, Nanos, Payload, SECTOR};
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_trace::Op;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::costs::HostCosts;
use crate::front;
use crate::world::World;

/// The sizes tried as superpages: this and its doubles, in bytes.
const SMALLEST: u64 = 4096;
/// How many.
const SIZES: u32 = 9;
/// Writes of each size, at least; an odd number has a median.
const WRITES: usize = 97;
/// Cost per byte may be so much above that of writes four times as long.
const FLAT: f64 = 1.05;
/// A write that straddles two superpages costs so much more, at least.
const STRADDLES: f64 = 1.5;
/// What is written to: no more than this, in bytes, so that filling it takes seconds, ...
const SPAN: u64 = 256 << 20;
/// ... and one in so many bytes of the drive, so that its own collection has little to do.
const PART: u64 = 8;

/// What is probed.
pub trait Subject {
    /// Its length in bytes.
    fn bytes(&self) -> u64;
    /// Writes `bytes` bytes at `offset`, until the drive has them; how long that took, in ns.
    ///
    /// # Errors
    /// In words.
    fn write(&mut self, offset: u64, bytes: u64) -> Result<Nanos, String>;
}

/// The cost of writes of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The size in bytes.
    pub bytes: u64,
    /// The median time of an aligned one, in ns.
    pub median: Nanos,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// The superpage in bytes; nothing when the drive has none above a block.
    pub superpage: Option<u64>,
    /// The cost of each size.
    pub costs: Vec<Cost>,
    /// How many times as much a write costs that straddles two of the smallest size from which on
    /// larger ones are no cheaper, if there is such a size.
    pub straddling: Option<f64>,
}

impl Probed {
    /// Whether writes took no time at all: a drive whose write buffer survives a power cut answers
    /// a flush at once too, and so tells nothing.
    pub fn is_hidden(&self) -> bool {
        self.costs.iter().all(|cost| cost.median == 0)
    }
}

/// Probes `subject`, and overwrites what it holds.
///
/// # Errors
/// When it is too small, or can't be written.
pub fn probe(subject: &mut impl Subject, seed: u64) -> Result<Probed, String> {
    let longest = SMALLEST << (SIZES + 1);
    let span = (subject.bytes() / PART).min(SPAN) / longest * longest;
    if span < 4 * longest {
        return Err(format!("it has {} bytes, and 128 MiB are the least", subject.bytes()));
    }
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    for offset in (0..span).step_by(longest as usize) {
        subject.write(offset, longest)?;
    }
    let mut costs = Vec::new();
    for bytes in (0..SIZES + 2).map(|shift| SMALLEST << shift) {
        let median = median(subject, &mut dice, (span, bytes, 0))?;
        costs.push(Cost { bytes, median });
    }
    let Some(flat) = flat_from(&costs) else {
        return Ok(Probed { superpage: None, costs, straddling: None });
    };
    let across = median(subject, &mut dice, (span, flat.bytes, flat.bytes / 2))?;
    let straddling = across as f64 / flat.median.max(1) as f64;
    // A superpage of one block is what every drive has.
    let found = straddling >= STRADDLES && flat.bytes > SMALLEST;
    let superpage = found.then_some(flat.bytes);
    Ok(Probed { superpage, costs, straddling: Some(straddling) })
}

/// The median time of writes of `bytes` bytes, `shift` bytes behind a multiple of that.
fn median(
    subject: &mut impl Subject,
    dice: &mut Xoshiro256PlusPlus,
    (span, bytes, shift): (u64, u64, u64),
) -> Result<Nanos, String> {
    let places = (span - shift) / bytes;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        times.push(subject.write(dice.random_range(0..places) * bytes + shift, bytes)?);
    }
    times.sort_unstable();
    Ok(times[WRITES / 2])
}

/// The smallest size whose cost per byte is that of the size four times as long.
fn flat_from(costs: &[Cost]) -> Option<Cost> {
    let per_byte = |cost: &Cost| cost.median as f64 / cost.bytes as f64;
    let pairs = costs.iter().zip(&costs[2..]);
    let mut flat = pairs.filter(|(cost, longer)| per_byte(cost) <= per_byte(longer) * FLAT);
    flat.next().map(|(cost, _)| *cost)
}

/// A drive model, probed in modelled time.
pub struct Modelled {
    world: World<AnyLayer>,
    sectors: u64,
}

impl Modelled {
    /// A new drive.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn new(spec: &DriveSpec) -> Result<Self, String> {
        let (config, devices) = (LayerConfig::new(LayerKind::Passthrough), [spec.device_info()]);
        let layer = AnyLayer::new(&config, &devices, Vec::<Payload>::new(), Mode::Format);
        let layer = layer.map_err(|why| why.to_string())?;
        let world = World::new(layer, std::slice::from_ref(spec), HostCosts::default());
        Ok(Modelled { world: world.map_err(|why| why.to_string())?, sectors: spec.exported })
    }

    /// Waits for so many answers.
    fn wait(&mut self, mut pending: u32) -> Result<(), String> {
        while pending > 0 {
            match self.world.answer() {
                Some(answer) => {
                    answer.result.map_err(|why| format!("a request failed: {why:?}"))?;
                    pending -= 1;
                }
                None => {
                    self.world.advance().map_err(|why| why.to_string())?;
                }
            }
        }
        Ok(())
    }
}

impl Subject for Modelled {
    fn bytes(&self) -> u64 {
        self.sectors * SECTOR as u64
    }

    fn write(&mut self, offset: u64, bytes: u64) -> Result<Nanos, String> {
        let words = |why: crate::Violation| why.to_string();
        let (sector, start) = (SECTOR as u64, self.world.now());
        let (mut lba, end) = (offset / sector, (offset + bytes) / sector);
        let most = u64::from(self.world.layer().limits().max_transfer);
        let mut pending = 0;
        while lba < end {
            let sectors = most.min(end - lba);
            let request = front::request(pending, pending, Op::Write, lba, sectors);
            self.world.send(request).map_err(words)?;
            (lba, pending) = (lba + sectors, pending + 1);
        }
        self.wait(pending)?;
        // A drive with a buffer has answered before the flash was asked.
        self.world.send(front::request(0, 0, Op::Flush, 0, 0)).map_err(words)?;
        self.wait(1)?;
        let took = self.world.now() - start;
        self.world.drain().map_err(words)?;
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject whose times are up to a tenth off.
    struct Noisy<S>(S, Xoshiro256PlusPlus);

    impl<S: Subject> Subject for Noisy<S> {
        fn bytes(&self) -> u64 {
            self.0.bytes()
        }

        fn write(&mut self, offset: u64, bytes: u64) -> Result<Nanos, String> {
            let took = self.0.write(offset, bytes)?;
            Ok((took as f64 * self.1.random_range(0.9..1.1)) as Nanos)
        }
    }

    fn found(drive: &str, seed: u64) -> Option<u64> {
        let spec = DriveSpec::find(drive).expect("a drive");
        let dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut noisy = Noisy(Modelled::new(&spec).expect("a drive"), dice);
        probe(&mut noisy, seed).expect("it can be written").superpage
    }

    #[test]
    fn superpages_are_found_through_noise() {
        for (page_kib, superpage) in [(1, 16), (4, 64), (16, 256)] {
            for seed in 1..=5 {
                let drive = format!("hatl-1g:page_kib={page_kib}:capacity=256m");
                assert_eq!(found(&drive, seed), Some(superpage << 10), "{drive}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_page_mapped_drive_has_none() {
        for drive in ["hatl-1g:stripe=1:capacity=256m", "sata-mlc:page_kib=4:capacity=256m"] {
            for seed in 1..=5 {
                assert_eq!(found(drive, seed), None, "{drive}, seed {seed}");
            }
        }
    }

    #[test]
    fn what_is_too_small_is_refused() {
        struct Small;
        impl Subject for Small {
            fn bytes(&self) -> u64 {
                1 << 20
            }
            fn write(&mut self, _: u64, _: u64) -> Result<Nanos, String> {
                unreachable!("nothing is written")
            }
        }
        assert!(probe(&mut Small, 1).unwrap_err().contains("128 MiB"));
    }
}
