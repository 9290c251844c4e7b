//! Measures a drive's superpage, the indirection unit of its map, by timing writes.
//!
//! A write smaller than a superpage costs a read-modify-write of the whole superpage, so the cost
//! per byte decreases with the size of writes until they are that large. The superpage is the
//! smallest size at which larger writes are no cheaper per byte, provided that a write across a
//! boundary costs more than an aligned one.

use hostftl_core::{Layer, Nanos, Payload, SECTOR};
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_trace::Op;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::costs::HostCosts;
use crate::front;
use crate::world::World;

/// Smallest size tried, in bytes. Each further size is twice the previous one.
const SMALLEST: u64 = 4096;
/// Number of sizes.
const SIZES: u32 = 9;
/// Minimum number of writes per size; odd, for a median.
const WRITES: usize = 97;
/// Tolerance of the cost per byte, compared with writes four times as long.
const FLAT: f64 = 1.05;
/// Minimum ratio between the costs of a write across two superpages and an aligned one.
const STRADDLES: f64 = 1.5;
/// Maximum length of the probed area in bytes, so that filling it takes seconds.
const SPAN: u64 = 256 << 20;
/// The probed area is at most one part in this number, so that the drive's own garbage collection
/// has little work.
const PART: u64 = 8;

/// A device to be probed.
pub trait Subject {
    /// Returns its length in bytes.
    fn bytes(&self) -> u64;
    /// Writes `bytes` bytes at `offset` and flushes. Returns the duration in ns.
    ///
    /// # Errors
    /// The reason, as text.
    fn write(&mut self, offset: u64, bytes: u64) -> Result<Nanos, String>;
}

/// Cost of writes of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Size in bytes.
    pub bytes: u64,
    /// Median duration of an aligned write, in ns.
    pub median: Nanos,
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// Superpage in bytes; `None` if the drive has none above a block.
    pub superpage: Option<u64>,
    /// Cost of each size.
    pub costs: Vec<Cost>,
    /// Cost of a write across two units, relative to an aligned one. The unit is the smallest size
    /// at which larger writes are no cheaper per byte; `None` if there is none.
    pub straddling: Option<f64>,
}

impl Probed {
    /// Returns whether writes took no time at all. A drive whose write buffer survives power cuts
    /// acknowledges flushes immediately, so its superpage can't be measured.
    pub fn is_hidden(&self) -> bool {
        self.costs.iter().all(|cost| cost.median == 0)
    }
}

/// Probes `subject` and overwrites its data.
///
/// # Errors
/// If it is too small or can't be written.
pub fn probe(subject: &mut impl Subject, seed: u64) -> Result<Probed, String> {
    let longest = SMALLEST << (SIZES + 1);
    let span = (subject.bytes() / PART).min(SPAN) / longest * longest;
    if span < 4 * longest {
        return Err(format!(
            "the device has {} bytes; at least 128 MiB are needed",
            subject.bytes()
        ));
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
    // Every drive has a superpage of at least one block.
    let found = straddling >= STRADDLES && flat.bytes > SMALLEST;
    let superpage = found.then_some(flat.bytes);
    Ok(Probed { superpage, costs, straddling: Some(straddling) })
}

/// Returns the median duration of writes of `bytes` bytes, `shift` bytes behind a multiple of that
/// size.
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

/// Returns the smallest size with the cost per byte of writes four times as long.
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
    /// Creates a new drive.
    ///
    /// # Errors
    /// If the drive is invalid.
    pub fn new(spec: &DriveSpec) -> Result<Self, String> {
        let (config, devices) = (LayerConfig::new(LayerKind::Passthrough), [spec.device_info()]);
        let layer = AnyLayer::new(&config, &devices, Vec::<Payload>::new(), Mode::Format);
        let layer = layer.map_err(|why| why.to_string())?;
        let world = World::new(layer, std::slice::from_ref(spec), HostCosts::default());
        Ok(Modelled { world: world.map_err(|why| why.to_string())?, sectors: spec.exported })
    }

    /// Waits for `pending` completions.
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
        // A drive with a write buffer completes writes before it programs the flash.
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

    /// A subject whose durations deviate by up to a tenth.
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
    fn no_map_unit_is_found_on_a_page_mapped_drive() {
        for drive in ["hatl-1g:stripe=1:capacity=256m", "sata-mlc:page_kib=4:capacity=256m"] {
            for seed in 1..=5 {
                assert_eq!(found(drive, seed), None, "{drive}, seed {seed}");
            }
        }
    }

    #[test]
    fn too_small_values_are_refused() {
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
