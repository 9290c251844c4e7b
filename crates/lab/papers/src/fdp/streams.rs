//! Streams with and without placement ids: a sequential one beside a random one, and the small and
//! large objects of a flash cache.

use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_drives::DriveSpec;
use hostftl_layers::LayerKind;
use hostftl_sim::{Export, Load, MOST_SPANS, Outcome, Pace, Row, Study, Warm, default_memory};

use crate::{Band, Cell, Check, Error, Findings, Known, Options, Sheet, Watch};

/// Steps of the progress of a row.
const STEPS: u64 = 1000;
/// Share of the drive that is full in the first experiment, in per cent.
const FULL: u64 = 100;
/// Shares of the drive that the cache takes, in per cent.
const FILLS: [u64; 3] = [50, 75, 100];
/// Share of small objects in the cache, in per cent. The large ones have one per cent less than the
/// rest, because a slice is rounded.
const SMALL: u64 = 4;

/// A use of placement ids.
struct Use {
    name: &'static str,
    /// Ids of the sequential and the random stream.
    ids: [u8; 2],
    /// Value of the key `frontiers` of the drive.
    frontiers: &'static str,
}

const USES: [Use; 3] = [
    Use { name: "no placement ids", ids: [0, 0], frontiers: "separate" },
    Use { name: "initially isolated handles", ids: [0, 1], frontiers: "separate" },
    Use { name: "persistently isolated handles", ids: [0, 1], frontiers: "isolated" },
];

/// A large log beside random writes of 4 KiB, as sizes of both in MiB.
struct Mix {
    log: u64,
    random: u64,
    /// Bytes that each stream writes, divided by the size of the log, in quarters. The workload is
    /// repeated, so the random stream must overwrite its area several times: otherwise each round
    /// would overwrite the data of the round before in its order, which costs no copies.
    quarters: u64,
    /// Share of the drive that holds data, in per cent.
    fill: u64,
}

impl Mix {
    /// Returns the workload. Both streams write as many bytes.
    fn load(&self, ids: [u8; 2]) -> String {
        let (Mix { log, random, quarters, .. }, [first, second]) = (self, ids);
        let count = 8 * log * quarters / 4;
        format!(
            "synth:sequential:size=128k,span={log}m,count={count},placement={first}\
             +uniform:size=4k,span={random}m,count={},placement={second}",
            32 * count
        )
    }

    fn study(&self, of: &Use, options: &Options) -> Result<Study, Error> {
        let failed = |why: &dyn std::fmt::Display| Error::Failed(why.to_string());
        let drive = format!(
            "drive-a-7t:capacity={}g:placements=2:frontiers={}",
            gib(options),
            of.frontiers
        );
        Ok(Study {
            workloads: vec![Load::parse(&self.load(of.ids)).map_err(|why| failed(&why))?],
            drives: vec![DriveSpec::find(&drive).map_err(|why| failed(&why))?.into()],
            layers: vec![LayerKind::Passthrough.into()],
            warm: vec![format!("self={}%", self.fill).parse::<Warm>().map_err(|why| failed(&why))?],
            export: Export::Most,
            cache: None,
            pace: Pace::Counted,
            most_spans: MOST_SPANS,
            compact: false,
            seed: options.seed,
            threads: options.threads,
            memory: default_memory(),
        })
    }
}

/// Returns the capacity of the drive in GiB.
fn gib(options: &Options) -> u64 {
    options.size.pick(2, 4, 16)
}

/// Progress of all rows.
struct Progress<'a> {
    watch: &'a dyn Watch,
    rows: Vec<AtomicU64>,
}

impl hostftl_sim::Watch for Progress<'_> {
    fn progress(&self, row: usize, done: u64, total: u64) {
        self.rows[row].store(done * STEPS / total.max(1), Ordering::Relaxed);
        let done: u64 = self.rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
        let of = self.rows.len() * STEPS as usize;
        self.watch.progress("streams", done as usize, of);
    }

    fn cancelled(&self) -> bool {
        self.watch.cancelled()
    }
}

/// Adds both experiments.
pub(super) fn add(
    findings: &mut Findings,
    options: &Options,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let mib = 1024 * gib(options);
    let half = mib * 48 / 100;
    let beside = Mix { log: half, random: half, quarters: 16, fill: FULL };
    let cache = FILLS.map(|fill| {
        let part = |percent: u64| mib * fill / 100 * percent / 100;
        Mix { log: part(99 - SMALL), random: part(SMALL), quarters: 4, fill }
    });
    let mut studies = Vec::new();
    for of in &USES {
        studies.push(beside.study(of, options)?);
    }
    for mix in &cache {
        for of in &USES[..2] {
            studies.push(mix.study(of, options)?);
        }
    }
    let rows = (0..studies.len()).map(|_| AtomicU64::new(0)).collect();
    let outcomes = hostftl_sim::compare_all(&studies, &Progress { watch, rows });
    let rows = outcomes.and_then(|all| {
        let rows = all.into_iter().map(Outcome::whole).collect::<Result<Vec<_>, _>>()?;
        Ok(rows.concat())
    });
    let rows = rows.map_err(|why| Error::Failed(why.to_string()))?;
    if rows.len() < studies.len() || watch.cancelled() {
        return Err(Error::Cancelled);
    }
    let (first, second) = rows.split_at(USES.len());
    neighbours(findings, first);
    objects(findings, second);
    Ok(())
}

fn waf(row: &Row) -> f64 {
    row.waf_total.unwrap_or(f64::NAN)
}

/// Adds a sequential stream beside a random one.
fn neighbours(findings: &mut Findings, rows: &[Row]) {
    let mut sheet = Sheet::new("neighbours", "A sequential stream beside a random one, full drive")
        .words(["drive"])
        .ours(["bytes programmed per host byte", "of the sequential stream", "of the random one"]);
    for (of, row) in USES.iter().zip(rows) {
        let ids = &row.devices[0].placements;
        let of_id = |id: usize| match ids.len() {
            2 => ids[id].waf.map_or(Cell::Nothing, |waf| Cell::Number(waf, 3)),
            _ => Cell::Nothing,
        };
        sheet.row([of.name.into(), Cell::Number(waf(row), 3), of_id(0), of_id(1)]);
    }
    findings.sheets.push(sheet);
    let [none, initially, persistently] = [0, 1, 2].map(|at| waf(&rows[at]));
    let mut claim = |name: &str, text: &str, ours| {
        findings.checks.push(Check::new(name, text, ours, Band::AtLeast(1.0)));
    };
    claim(
        "neighbours_initially",
        "a random neighbour: bytes programmed without ids over those with initially isolated \
         handles (times)",
        none / initially,
    );
    claim(
        "neighbours_persistently",
        "a random neighbour: bytes programmed with initially over persistently isolated handles \
         (times)",
        initially / persistently,
    );
}

/// Adds the flash cache.
fn objects(findings: &mut Findings, rows: &[Row]) {
    let title = "A flash cache: small objects at random beside a log of large ones";
    let mut sheet = Sheet::new("objects", title)
        .words(["cache"])
        .published(["with ids, published"])
        .ours(["without ids", "with ids"]);
    for (fill, pair) in FILLS.iter().zip(rows.chunks_exact(2)) {
        let [without, with] = [waf(&pair[0]), waf(&pair[1])];
        let [one, two] = [without, with].map(|waf| Cell::Number(waf, 3));
        sheet.row([format!("{fill} % of the drive").into(), Cell::Number(1.0, 0), one, two]);
        let claim =
            format!("a cache of {fill} % of the drive: bytes programmed per host byte with ids");
        let known = Known::new(1.0, "abstract: about 1");
        let name = format!("objects_{fill}");
        findings.checks.push(Check::near_published(name, claim, known, with, 3.0));
    }
    findings.sheets.push(sheet);
    let [without, with] = [waf(&rows[rows.len() - 2]), waf(&rows[rows.len() - 1])];
    let claim = "a cache of the whole drive: bytes programmed without ids over those with (times)";
    let check = Check::new("objects_gain", claim, without / with, Band::AtLeast(1.0));
    findings.checks.push(check.because("the small objects alone have all of the spare"));
}
