//! The file of a flash drive and its checks.

use std::fmt::Display;
use std::str::FromStr;

use hostftl_core::{Nanos, SECTOR};
use serde::Deserialize;
use toml::Spanned;

use super::cell::{Cell, POWER_MW};
use super::shape::{Planes, Shape};
use super::{DriveSpec, Energy, Link, Pooling};
use crate::text::{DriveError, Fault, Text, capacity, optional, within};

/// Blocks that each plane of a slice keeps if possible.
const SLICED: u32 = 64;
/// The same for a slice of a drive whose real capacity is known. A real plane has about as many.
const SLICED_NOMINAL: u32 = 512;
/// Largest map unit whose parts can be merged, in sectors.
const MAX_MERGED: u32 = 128;
/// Sectors of a KiB.
const KIB: u32 = 1024 / SECTOR as u32;
/// Default time to suspend a program or an erase.
const SUSPEND_US: f64 = 20.0;

/// The keys of the file, most of them with their position for messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    cell: Cell,
    pub kind: Option<Spanned<String>>,
    channels: Spanned<u32>,
    ways: Spanned<u32>,
    dies: Option<Spanned<u32>>,
    planes: Option<Spanned<u32>>,
    pages: Spanned<u32>,
    page_kib: Spanned<u32>,
    blocks: Option<Spanned<u32>>,
    capacity: Option<Spanned<String>>,
    nominal: Option<Spanned<String>>,
    nominal_pages: Option<Spanned<u32>>,
    pub over_provisioning_percent: Option<Spanned<f64>>,
    pub map_unit_kib: Option<Spanned<u32>>,
    stripe: Option<Spanned<toml::Value>>,
    pub pools: Option<Spanned<String>>,
    pub gc: Option<Spanned<String>>,
    pub gc_early_percent: Option<Spanned<f64>>,
    pub gc_early_copies: Option<Spanned<f64>>,
    pub frontiers: Option<Spanned<String>>,
    placements: Option<Spanned<u8>>,
    level: Option<Spanned<u32>>,
    hint: Option<bool>,
    pub write_buffer_kib: Option<Spanned<u32>>,
    #[serde(default)]
    merge: Option<Spanned<bool>>,
    plp: Option<bool>,
    multiplane: Option<bool>,
    copyback: Option<bool>,
    suspend: Option<bool>,
    reads_first: Option<bool>,
    suspend_us: Option<Spanned<f64>>,
    service: Option<Spanned<String>>,
    read_us: Option<Spanned<f64>>,
    program_us: Option<Spanned<f64>>,
    erase_us: Option<Spanned<f64>>,
    bus_us: Option<Spanned<f64>>,
    bus_mts: Option<Spanned<f64>>,
    program_dies: Option<Spanned<u32>>,
    link_mbs: Option<Spanned<f64>>,
    command_us: Option<Spanned<f64>>,
    latency_us: Option<Spanned<f64>>,
    read_uj: Option<Spanned<f64>>,
    program_uj: Option<Spanned<f64>>,
    erase_uj: Option<Spanned<f64>>,
    bus_uj: Option<Spanned<f64>>,
    cycles: Option<Spanned<u32>>,
    pub write_pages: Option<Spanned<u32>>,
    pub write_best_pages: Option<Spanned<u32>>,
    pub unreadable_pages: Option<Spanned<u32>>,
    pub max_open: Option<Spanned<u32>>,
    pub wears_out: Option<Spanned<bool>>,
    pub bad_percent: Option<Spanned<f64>>,
    pub failing_programs_ppm: Option<Spanned<u32>>,
    pub failing_erases_ppm: Option<Spanned<u32>>,
    pub fault_seed: Option<Spanned<u32>>,
}

/// Returns the drive that a text describes.
pub(crate) fn spec(text: &Text) -> Result<DriveSpec, DriveError> {
    let file: File = text.parse()?;
    let sliced = text.options.iter().any(|(_, option)| option.starts_with("capacity="));
    let mut spec = file.spec(text.name(), sliced).map_err(|(at, why)| text.fault(at, why))?;
    spec.left.clone_from(&text.left);
    Ok(spec)
}

impl File {
    fn spec(&self, name: &str, sliced: bool) -> Result<DriveSpec, Fault> {
        let planes = self.planes()?;
        let shape = planes.shape().expect("the stripe was checked");
        let map_unit = self.map_unit(&shape)?;
        let word = |key: &Option<Spanned<String>>, or: &str| {
            key.as_ref().map_or((0, or.to_owned()), |it| (it.span().start, it.get_ref().clone()))
        };
        let (at, pools) = word(&self.pools, "drive");
        let pools = match pools.as_str() {
            "plane" => Pooling::Plane,
            "drive" => Pooling::Drive,
            other => return Err((at, format!("no pools '{other}'; use plane or drive"))),
        };
        let (at, service) = word(&self.service, "fixed");
        let exponential = match service.as_str() {
            "fixed" => false,
            "exponential" => true,
            other => return Err((at, format!("no service '{other}'; use fixed or exponential"))),
        };
        let buffer_kib = optional("write_buffer_kib", &self.write_buffer_kib, 0, 1 << 22, 0)?;
        let merge = self.merge.as_ref().is_some_and(|merge| *merge.get_ref());
        let (read, program, erase, bus) = self.times(&shape)?;
        let mut spec = DriveSpec {
            name: name.to_owned(),
            shape,
            map_unit,
            exported: 0,
            nominal: self.nominal()?,
            pools,
            gc: parsed(word(&self.gc, "greedy"))?,
            gc_early_percent: optional("gc_early_percent", &self.gc_early_percent, 0.0, 90.0, 0.0)?,
            gc_early_copies: optional("gc_early_copies", &self.gc_early_copies, 0.01, 1e3, 5.0)?,
            frontiers: parsed(word(&self.frontiers, "shared"))?,
            placements: optional("placements", &self.placements, 1, 64, 1)?,
            level: optional("level", &self.level, 0, 1 << 20, 0)?,
            hint: self.hint.unwrap_or(false),
            write_buffer: u64::from(buffer_kib) * u64::from(KIB),
            merge,
            plp: self.plp.unwrap_or(true),
            multiplane: self.multiplane.unwrap_or(false),
            copyback: self.copyback.unwrap_or(false),
            suspend: self.suspend()?,
            reads_first: self.reads_first.unwrap_or(false),
            exponential,
            read,
            program,
            erase,
            bus,
            program_dies: optional("program_dies", &self.program_dies, 0, 1 << 14, 0)?,
            link: self.link()?,
            energy: self.energy(&shape, [read, program, erase, bus])?,
            cycles: optional("cycles", &self.cycles, 1, u32::MAX, self.cell.defaults().cycles)?,
            zoned: None,
            left: Vec::new(),
        };
        self.buffered(&spec)?;
        let raw = self.is_raw()?;
        self.sizes(&mut spec, sliced, raw)?;
        self.shorten_erases(&mut spec)?;
        if raw {
            self.make_raw(&mut spec)?;
        }
        Ok(spec)
    }

    /// Returns the planes. The number of blocks is preliminary if the file gives a capacity
    /// instead.
    fn planes(&self) -> Result<Planes, Fault> {
        let channels = within("channels", &self.channels, 1, 64)?;
        let ways = within("ways", &self.ways, 1, 64)?;
        let dies = optional("dies", &self.dies, 1, 16, 1)?;
        let planes = optional("planes", &self.planes, 1, 16, 1)?;
        let pages = within("pages", &self.pages, 2, 1 << 14)?;
        let page_kib = within("page_kib", &self.page_kib, 1, 1024)?;
        let blocks = optional("blocks", &self.blocks, 4, 1 << 24, 4)?;
        let total = channels * ways * dies * planes;
        if total > 1 << 14 {
            let why = "channels * ways * dies * planes can't be above 16384";
            return Err((self.channels.span().start, why.into()));
        }
        let (at, stripe) = match &self.stripe {
            None => (0, 1),
            Some(stripe) => {
                let count = match stripe.get_ref() {
                    toml::Value::Integer(count) => u32::try_from(*count).ok(),
                    toml::Value::String(all) if all == "all" => Some(total),
                    _ => None,
                };
                let why = || "stripe must be \"all\" or a number of planes".to_owned();
                (stripe.span().start, count.ok_or_else(|| (stripe.span().start, why()))?)
            }
        };
        let page_sectors = page_kib * KIB;
        let found = Planes {
            channels,
            ways,
            dies,
            planes,
            stripe: stripe.max(1),
            blocks,
            pages,
            page_sectors,
        };
        if stripe == 0 || found.shape().is_none() {
            let why = format!(
                "stripe = {stripe} does not divide {total} planes evenly; use a divisor of the \
                 planes of a die, whole dies that divide a channel, or whole channels"
            );
            return Err((at, why));
        }
        if page_sectors * stripe > 1 << 16 {
            let why = "stripe * page_kib can't be above 32 MiB".to_owned();
            return Err((self.page_kib.span().start, why));
        }
        Ok(found)
    }

    /// Returns the map unit: a whole number of rows, or an integral fraction of one.
    fn map_unit(&self, shape: &Shape) -> Result<u32, Fault> {
        let Some(unit) = &self.map_unit_kib else { return Ok(shape.row_sectors) };
        let sectors = within("map_unit_kib", unit, 1, 1 << 15)? * KIB;
        let row = shape.row_sectors;
        let fits = sectors.is_multiple_of(row) && shape.rows.is_multiple_of(sectors / row);
        if fits || row.is_multiple_of(sectors) {
            return Ok(sectors);
        }
        let why = format!(
            "map_unit_kib must divide stripe * page_kib ({} KiB) or be that times a divisor of \
             pages",
            row / KIB
        );
        Err((unit.span().start, why))
    }

    /// Returns the times to read, program and erase the planes of a row, which work in parallel,
    /// and to transfer its pages over the channel.
    fn times(&self, shape: &Shape) -> Result<(Nanos, Nanos, Nanos, Nanos), Fault> {
        let cell = self.cell.defaults();
        let bus = match (&self.bus_us, &self.bus_mts) {
            (Some(both), Some(_)) => {
                return Err((
                    both.span().start,
                    "bus_us and bus_mts exclude each other; state one".into(),
                ));
            }
            (Some(bus), None) => nanos("bus_us", bus, 0.0)?,
            (None, rate) => {
                let rate = match rate {
                    Some(rate) => within("bus_mts", rate, 1.0, 1e5)?,
                    None => cell.bus_mts,
                };
                let bytes = f64::from(shape.row_sectors / shape.stripe) * SECTOR as f64;
                (bytes / rate * 1000.0).round() as Nanos
            }
        };
        let time = |key: &str, value: &Option<Spanned<f64>>, least: f64, or: f64| match value {
            Some(value) => nanos(key, value, least),
            None => Ok((or * 1000.0).round() as Nanos),
        };
        Ok((
            time("read_us", &self.read_us, 0.001, cell.read_us)?,
            time("program_us", &self.program_us, 0.001, cell.program_us)?,
            time("erase_us", &self.erase_us, 0.0, cell.erase_us)?,
            bus * u64::from(shape.pages_per_bus),
        ))
    }

    /// Returns the sectors of the real drive, of which this one is a slice.
    fn nominal(&self) -> Result<Option<u64>, Fault> {
        let Some(nominal) = &self.nominal else { return Ok(None) };
        let bytes = self::capacity("nominal", nominal.get_ref(), (SECTOR as u64, "sectors"), 47);
        let bytes = bytes.map_err(|why| (nominal.span().start, why))?;
        Ok(Some(bytes / SECTOR as u64))
    }

    /// Returns the host link and the controller, or `None` if they take no time.
    fn link(&self) -> Result<Option<Link>, Fault> {
        let link = Link {
            mbs: optional("link_mbs", &self.link_mbs, 0.0, 1e6, 0.0)?,
            command: optional_nanos("command_us", &self.command_us)?,
            latency: optional_nanos("latency_us", &self.latency_us)?,
        };
        let is_free = link.mbs == 0.0 && link.command == 0 && link.latency == 0;
        Ok((!is_free).then_some(link))
    }

    fn suspend(&self) -> Result<Option<Nanos>, Fault> {
        let takes = match &self.suspend_us {
            Some(takes) => nanos("suspend_us", takes, 0.0)?,
            None => (SUSPEND_US * 1000.0) as Nanos,
        };
        Ok((self.suspend == Some(true)).then_some(takes))
    }

    /// Returns the energy in nJ of an operation on all planes of a row.
    fn energy(&self, shape: &Shape, times: [Nanos; 4]) -> Result<Energy, Fault> {
        let of = |key: &str, value: &Option<Spanned<f64>>, time: Nanos, parts: u32| {
            let page = match value {
                Some(value) => within(key, value, 0.0, 1e9)? * 1000.0,
                // 1 mW for 1 ns is 1 pJ.
                None => POWER_MW * time as f64 / 1000.0,
            };
            Ok((page * f64::from(parts)).round() as u64)
        };
        let [read, program, erase, bus] = times;
        let bus = bus / u64::from(shape.pages_per_bus);
        Ok(Energy {
            read: of("read_uj", &self.read_uj, read, shape.stripe)?,
            program: of("program_uj", &self.program_uj, program, shape.stripe)?,
            erase: of("erase_uj", &self.erase_uj, erase, shape.stripe)?,
            bus: of("bus_uj", &self.bus_uj, bus, shape.stripe)?,
        })
    }

    /// Checks that options which need a write buffer have a large enough one.
    fn buffered(&self, spec: &DriveSpec) -> Result<(), Fault> {
        let at = self.write_buffer_kib.as_ref().map_or(0, |it| it.span().start);
        let merge_at = self.merge.as_ref().map_or(0, |it| it.span().start);
        let units = spec.write_buffer / u64::from(spec.map_unit);
        if spec.merge && units < 4 {
            let why = "merge needs a write_buffer_kib of at least four map units".to_owned();
            return Err((merge_at, why));
        }
        if spec.merge && spec.map_unit > MAX_MERGED {
            let why = "merge needs map units of at most 64 KiB".to_owned();
            return Err((merge_at, why));
        }
        let lanes = u64::from(spec.shape.lanes()) * u64::from(spec.shape.row_sectors);
        if spec.units_per_row() > 1 && spec.write_buffer < lanes {
            let why = format!(
                "write_buffer_kib must be at least {} because several map units share a page (one \
                 page per plane)",
                lanes / u64::from(KIB)
            );
            return Err((at, why));
        }
        Ok(())
    }

    /// Sets the number of blocks from the capacity, or the capacity from the number of blocks. A
    /// drive reduced to a slice gets smaller blocks instead of too few.
    fn sizes(&self, spec: &mut DriveSpec, sliced: bool, raw: bool) -> Result<(), Fault> {
        let (spare_at, spare) = match &self.over_provisioning_percent {
            Some(spare) => {
                (spare.span().start, within("over_provisioning_percent", spare, 0.0, 90.0)?)
            }
            None if raw => (0, 0.0),
            None => return Err((0, "missing field `over_provisioning_percent`".into())),
        };
        let share = 1.0 - spare / 100.0;
        let unit = u64::from(spec.map_unit);
        let at = match (&self.capacity, &self.blocks) {
            (Some(both), Some(_)) => {
                return Err((
                    both.span().start,
                    "capacity and blocks exclude each other; state one".into(),
                ));
            }
            (None, None) => {
                let why = "missing capacity; state it, such as \"32g\", or blocks (per plane)";
                return Err((0, why.into()));
            }
            (None, Some(_)) => {
                spec.exported = (spec.shape.sectors() as f64 * share) as u64 / unit * unit;
                spare_at
            }
            (Some(capacity), None) => {
                let at = capacity.span().start;
                let units = (unit * SECTOR as u64, "map units");
                let bytes = self::capacity("capacity", capacity.get_ref(), units, 47);
                spec.exported = bytes.map_err(|why| (at, why))? / SECTOR as u64;
                spec.shape.set_blocks(spec.exported as f64 / share);
                let least = 2 * (spec.map_unit / spec.shape.row_sectors).max(1);
                let blocks = match spec.nominal {
                    Some(_) => SLICED_NOMINAL,
                    None if sliced && !raw => SLICED,
                    None => 0,
                };
                while spec.shape.blocks < blocks && spec.shape.rows >= 2 * least {
                    spec.shape.rows = (spec.shape.rows / 2).next_multiple_of(least);
                    spec.shape.set_blocks(spec.exported as f64 / share);
                }
                if sliced { at } else { spare_at }
            }
        };
        if raw { Ok(()) } else { possible(spec, spare, at) }
    }

    /// Reduces the time and energy of an erase if the real drive has longer blocks, so that erases
    /// take the same share of the time.
    fn shorten_erases(&self, spec: &mut DriveSpec) -> Result<(), Fault> {
        let Some(real) = &self.nominal_pages else { return Ok(()) };
        let real = f64::from(within("nominal_pages", real, 2, 1 << 14)?);
        let share = f64::from(spec.shape.rows) / real;
        spec.erase = (spec.erase as f64 * share).round() as Nanos;
        spec.energy.erase = (spec.energy.erase as f64 * share).round() as u64;
        Ok(())
    }
}

/// Checks that the drive has the spare segments that garbage collection needs, and at most as many
/// map units as it can number.
fn possible(spec: &DriveSpec, spare: f64, at: usize) -> Result<(), Fault> {
    let units = spec.shape.sectors() / u64::from(spec.map_unit);
    if units >= u64::from(u32::MAX) {
        return Err((
            at,
            "more than 2^32 map units; use larger map units or a smaller drive".into(),
        ));
    }
    let pool = spec.pool(0);
    let least =
        u64::from(pool.logical).div_ceil(u64::from(pool.pages)) + 2 * u64::from(pool.aside());
    if u64::from(spec.shape.blocks) < least {
        let why = format!(
            "over_provisioning_percent = {spare} leaves {} blocks per plane, but garbage \
             collection needs {least}; raise it or use smaller blocks",
            spec.shape.blocks
        );
        return Err((at, why));
    }
    pool.check().map_err(|why| (at, why.to_string()))
}

fn parsed<T: FromStr<Err: Display>>((at, word): (usize, String)) -> Result<T, Fault> {
    word.parse().map_err(|why: T::Err| (at, why.to_string()))
}

/// Converts microseconds to nanoseconds, up to ten seconds; 0 if the key is not set.
fn optional_nanos(key: &str, value: &Option<Spanned<f64>>) -> Result<Nanos, Fault> {
    value.as_ref().map_or(Ok(0), |value| nanos(key, value, 0.0))
}

/// Converts microseconds to nanoseconds, up to ten seconds.
fn nanos(key: &str, value: &Spanned<f64>, least: f64) -> Result<Nanos, Fault> {
    Ok((within(key, value, least, 1e7)? * 1000.0).round() as Nanos)
}
