//! The cases: those of the reference model, and stand-ins for the paper's five workloads.

use std::path::PathBuf;

use hostftl_trace::{Op, Record, Source};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Error, Options};

/// Sectors of a MiB.
const MIB: u64 = 2048;
/// The least data: the drive needs blocks to collect.
const LEAST: u64 = 256 * MIB;

/// Writes at random places of 512 MiB, with the figures of the reference model.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// What it is.
    pub name: &'static str,
    /// Free capacity in per cent.
    pub free: u32,
    /// Length of a write, and what it is aligned to, in sectors.
    pub size: u64,
    /// As above.
    pub grain: u64,
    /// Whether nine of ten writes go to a tenth of the data.
    pub skew: bool,
    /// The scrambler.
    pub layer: &'static str,
    /// What the drive exports of its pages, in per cent.
    pub exported: f64,
    /// Time of a request without and with the scrambler, in us, where there is one.
    pub times: [Option<f64>; 2],
    /// Its gain.
    pub gain: f64,
    /// Change of copies and erases in per cent, where there is one.
    pub changes: Option<[f64; 2]>,
}

const PLAIN: &str = "scrambler:spare=0";

const fn case(name: &'static str, free: u32, size: u64, times: [f64; 2], gain: f64) -> Reference {
    Reference {
        name,
        free,
        size,
        grain: size,
        skew: false,
        layer: PLAIN,
        exported: 95.0,
        times: [Some(times[0]), Some(times[1])],
        gain,
        changes: None,
    }
}

/// The reference table, in its order, and the row with fewer addresses.
pub const REFERENCE: [Reference; 9] = [
    Reference {
        changes: Some([-72.0, -47.0]),
        ..case("20 % free, 4 KiB", 20, 8, [4946.0, 2635.0], 1.88)
    },
    Reference {
        grain: 8,
        changes: Some([-77.0, -48.0]),
        ..case("20 %, 8 KiB", 20, 16, [6188.0, 3206.0], 1.93)
    },
    Reference {
        layer: "scrambler:spare=0:slot=2k",
        changes: Some([-89.0, -58.0]),
        ..case("20 %, 2 KiB slots and writes", 20, 4, [4949.0, 2079.0], 2.38)
    },
    Reference {
        grain: 8,
        changes: Some([-58.0, -26.0]),
        ..case("20 %, 16 KiB unaligned", 20, 32, [8640.0, 6412.0], 1.35)
    },
    Reference {
        skew: true,
        changes: Some([-66.0, -48.0]),
        ..case("20 %, 90/10 skew, 4 KiB", 20, 8, [6443.0, 3344.0], 1.93)
    },
    Reference {
        changes: Some([-82.0, -28.0]),
        ..case("40 %, 4 KiB", 40, 8, [2585.0, 1870.0], 1.38)
    },
    case("80 %, 4 KiB", 80, 8, [1728.0, 1668.0], 1.04),
    Reference {
        layer: "scrambler:spare=0:slot=page",
        changes: Some([19.0, 12.0]),
        ..case("20 %, page-grain slots", 20, 32, [4679.0, 5264.0], 0.89)
    },
    Reference {
        exported: 85.0,
        times: [None, None],
        ..case("20 %, 4 KiB, addresses for 85 % of the pages", 20, 8, [0.0, 0.0], 1.52)
    },
];

impl Reference {
    /// The data in sectors.
    pub fn data(options: &Options) -> u64 {
        options.size.pick(LEAST, 512 * MIB, 512 * MIB)
    }

    /// Endless writes.
    pub fn writes(&self, data: u64, seed: u64) -> impl Iterator<Item = Record> + use<> {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (size, grain, skew) = (self.size, self.grain, self.skew);
        let units = (data - size) / grain + 1;
        let hot = units / 10;
        std::iter::repeat_with(move || {
            let unit = match skew {
                true if dice.random_range(0..10) < 9 => dice.random_range(0..hot),
                true => dice.random_range(hot..units),
                false => dice.random_range(0..units),
            };
            Record::new(0, Op::Write, 0, unit * grain, size)
        })
    }
}

/// One of the paper's workloads.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// What stands in for it.
    pub about: String,
    source: Source,
    /// The data in sectors.
    pub data: u64,
    /// Requests that are timed.
    pub count: u64,
}

/// Name, data in GB, and what stands in: the write share and the mean size are published of the
/// trace, the skew is ours.
const PAPER: [(&str, f64, &str); 5] = [
    ("Financial1", 0.53, "zipf:size=4k,read=23,theta=0.9"),
    ("tpcc-mysql", 0.65, "zipf:size=16k,read=40,theta=0.8"),
    ("prxy_0", 0.84, "zipf:size=4k,read=3,theta=1.1"),
    ("prxy_1", 13.75, "zipf:size=8k,read=65,theta=1.0"),
    ("src1_0", 60.62, "uniform:size=16k,read=56"),
];

/// The five workloads; `mariadb-oltp` is tpcc-mysql's stand-in when the folder of traces has it.
///
/// # Errors
/// When a trace can't be read.
pub fn workloads(options: &Options) -> Result<Vec<Workload>, Error> {
    let scale = options.size.pick(256.0, 16.0, 1.0);
    let failed = |why: hostftl_trace::TraceError| Error::Failed(why.to_string());
    let trace = options.traces.as_ref().and_then(|folder| database(folder));
    let all = PAPER.iter().skip(options.size.pick(2, 0, 0)).step_by(options.size.pick(2, 1, 1));
    let made = all.map(|&(name, gb, synth)| {
        if let Some(path) = trace.as_ref().filter(|_| name == "tpcc-mysql") {
            let source: Source = path.display().to_string().parse().map_err(failed)?;
            let (mut data, mut count) = (0, 0);
            for record in source.open(0, true).map_err(failed)? {
                data = record.map_err(failed)?.end().max(data);
                count += 1;
            }
            let about = format!("the addresses of {}, packed", path.display());
            let (data, count) = (data.next_multiple_of(8192), count.min(400_000));
            return Ok(Workload { name, about, source, data, count });
        }
        let data = ((gb * 1e9 / 512.0 / scale) as u64).next_multiple_of(8192).max(LEAST);
        let size: u64 = if synth.contains("16k") {
            32
        } else if synth.contains("8k") {
            16
        } else {
            8
        };
        let count = (data / size).min(200_000);
        let text = format!("synth:{synth},span={}k,count={}", data / 2, 100 * data / size);
        let source: Source = text.parse().map_err(failed)?;
        Ok(Workload { name, about: format!("synthetic: {synth}"), source, data, count })
    });
    made.collect()
}

fn database(folder: &std::path::Path) -> Option<PathBuf> {
    let names = ["mariadb-oltp-head.csv.zst", "mariadb-oltp.csv.zst"];
    names.map(|name| folder.join(name)).into_iter().find(|path| path.exists())
}

impl Workload {
    /// The requests, again and again; flushes left out.
    ///
    /// # Errors
    /// When a trace can't be opened.
    pub fn requests(&self, seed: u64) -> Result<impl Iterator<Item = Record> + use<>, Error> {
        let failed = |why: hostftl_trace::TraceError| Error::Failed(why.to_string());
        let source = self.source.clone();
        let mut stream = source.open(seed, true).map_err(failed)?;
        let mut round = 0;
        let endless = std::iter::from_fn(move || {
            loop {
                match stream.next() {
                    Some(Ok(record)) => return Some(record),
                    Some(Err(_)) => return None,
                    None => {
                        round += 1;
                        stream = source.open(seed + round, true).ok()?;
                    }
                }
            }
        });
        Ok(endless.filter(|record| matches!(record.op, Op::Read | Op::Write)))
    }
}
