//! Joins cells into one sheet, computes ratios to the row without a layer, and summarizes the
//! seeds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hostftl_report::{Sheet, Values};
use hostftl_sim::{CellAbout, Row};
use serde::Serialize;

use crate::spread::Spread;
use crate::state;
use crate::wrong::Wrong;

/// The columns before and after the columns of parameters.
const BEFORE: &str = "command";
const LAST: &str = "failed";

/// Statistics of one combination over its seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Workload.
    pub workload: String,
    /// Drive.
    pub drive: String,
    /// State of the drive before the workload.
    pub warm: String,
    /// Layer with its parameters.
    pub layer: String,
    /// Exported capacity.
    pub export: String,
    /// Queue depth of the closed loop; empty if the workload's own times are used.
    pub closed_loop: String,
    /// Number of rows.
    pub rows: usize,
    /// Reason why the row of a seed is missing.
    pub failed: Option<String>,
    /// Bytes programmed per byte written by the host.
    pub waf: Option<Spread>,
    /// Busy time relative to the row without a layer.
    pub busy_ratio: Option<Spread>,
    /// Reads and writes per second.
    pub iops: Option<Spread>,
    /// 99th percentile of reads in ns.
    pub read_p99_ns: Option<Spread>,
    /// 99th percentile of writes in ns.
    pub write_p99_ns: Option<Spread>,
}

impl Summary {
    /// Summarizes each combination of `rows`, in the order of first occurrence.
    pub fn of_rows(rows: &[Row]) -> Vec<Summary> {
        let mut groups: Vec<Vec<&Row>> = Vec::new();
        for row in rows.iter().filter(|row| !row.partial) {
            let key = |it: &Row| {
                [&it.workload, &it.drive, &it.layer, &state(it).to_owned()].map(String::clone)
            };
            match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups.iter().map(|group| Summary::of_group(group)).collect()
    }

    fn of_group(rows: &[&Row]) -> Summary {
        let spread = |get: fn(&Row) -> Option<f64>| {
            Spread::of(&rows.iter().filter_map(|row| get(row)).collect::<Vec<_>>())
        };
        let word = |name: &str| {
            let found = rows[0].parameters.iter().find(|(known, _)| known == name);
            found.map_or(String::new(), |(_, word)| word.clone())
        };
        Summary {
            workload: rows[0].workload.clone(),
            drive: rows[0].drive.clone(),
            warm: state(rows[0]).to_owned(),
            layer: rows[0].layer.clone(),
            export: word("study_export"),
            closed_loop: word("study_closed_loop"),
            rows: rows.len(),
            failed: None,
            waf: spread(|row| row.waf_total),
            busy_ratio: spread(|row| row.busy_ratio),
            iops: spread(|row| row.iops),
            read_p99_ns: spread(|row| row.latency_ns.read.map(|it| it.p99 as f64)),
            write_p99_ns: spread(|row| row.latency_ns.write.map(|it| it.p99 as f64)),
        }
    }
}

/// Concatenates sheets with the same figures. Columns that only some sheets have are parameters,
/// and empty in the others.
pub(super) fn join(sheets: Vec<Sheet>) -> Result<Sheet, Wrong> {
    let wrong = |name: &str| {
        Wrong::failed(format!("the cells have different versions: column {name} differs"))
    };
    let Some(first) = sheets.first() else { return Ok(Sheet::new()) };
    let figures: Vec<String> = first.columns().map(|(name, _)| name.to_owned()).collect();
    let end = figures.iter().position(|name| name == BEFORE).map_or(figures.len(), |at| at + 1);
    let figures = &figures[..end];
    let names = sheets.iter().flat_map(|sheet| sheet.columns().skip(end).map(|(name, _)| name));
    let parameters: BTreeSet<&str> = names.filter(|name| *name != LAST).collect();
    let order = figures.iter().map(String::as_str).chain(parameters).chain([LAST]);
    let mut all: Vec<(String, Option<Values>)> =
        order.map(|name| (name.to_owned(), None)).collect();
    let places: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
    let mut rows = 0;
    for sheet in sheets {
        let more = sheet.rows();
        for (name, values) in sheet.into_columns() {
            let at = *places.get(&name).ok_or_else(|| wrong(&name))?;
            let column = all[at].1.get_or_insert_with(|| values.none());
            column.fill(rows);
            if !column.append(values) {
                return Err(wrong(&name));
            }
        }
        rows += more;
    }
    let mut sheet = Sheet::new();
    for (name, values) in all {
        let mut values = values.ok_or_else(|| wrong(&name))?;
        values.fill(rows);
        sheet.column(name, values);
    }
    Ok(sheet)
}

/// Computes the ratios to the row without a layer, and summarizes the seeds.
pub(super) fn related(
    mut sheet: Sheet,
    about: &[CellAbout],
) -> Result<(Sheet, Vec<Summary>), Wrong> {
    let names = texts(&sheet, "layer")?;
    if !names.iter().map(String::as_str).eq(about.iter().map(|it| it.layer.as_str())) {
        return Err(Wrong::failed("the cells belong to another plan: their layers differ"));
    }
    let (busy, failed) = (wholes(&sheet, "busy_total_ns")?, texts(&sheet, LAST)?);
    let mut bases: BTreeMap<usize, (u8, usize)> = BTreeMap::new();
    for (index, it) in about.iter().enumerate() {
        let Some(rank) = it.base.filter(|_| failed[index].is_empty()) else { continue };
        let least = bases.entry(it.group).or_insert((rank, index));
        *least = (*least).min((rank, index));
    }
    let base = |index: usize| bases.get(&about[index].group).map(|(_, base)| *base);
    let ratio = |index: usize| {
        let (own, of) = (busy[index]?, busy[base(index)?]?);
        (of > 0).then(|| own as f64 / of as f64)
    };
    let ratios: Vec<Option<f64>> = (0..about.len()).map(ratio).collect();
    let named = |index: usize| match (ratios[index], base(index)) {
        (Some(_), Some(base)) => names[base].clone(),
        _ => String::new(),
    };
    let named: Vec<String> = (0..about.len()).map(named).collect();
    for (name, values) in [("base", Values::Texts(named)), ("busy_ratio", Values::Reals(ratios))] {
        let column = sheet.get_mut(name);
        *column.ok_or_else(|| Wrong::failed(format!("cells without {name}")))? = values;
    }
    let summaries = summaries(&sheet, about)?;
    Ok((sheet, summaries))
}

/// Summarizes each combination over its seeds, in order.
fn summaries(sheet: &Sheet, about: &[CellAbout]) -> Result<Vec<Summary>, Wrong> {
    let failed = texts(sheet, LAST)?;
    let (export, loops) = (texts(sheet, "study_export")?, texts(sheet, "study_closed_loop")?);
    let figures = ["waf_total", "busy_ratio", "iops"].map(|name| reals(sheet, name));
    let [waf, busy, iops] = figures;
    let (waf, busy, iops) = (waf?, busy?, iops?);
    let (read, write) = (wholes(sheet, "read_p99_ns")?, wholes(sheet, "write_p99_ns")?);
    let whole = |values: &[Option<u64>], at: usize| values[at].map(|value| value as f64);
    let indices: Vec<usize> = (0..about.len()).collect();
    let twins = indices.chunk_by(|one, other| about[*one].twins == about[*other].twins);
    let summary = |all: &[usize]| {
        let it = &about[all[0]];
        let spread = |get: &dyn Fn(usize) -> Option<f64>| {
            let values: Vec<f64> = all.iter().filter_map(|index| get(*index)).collect();
            Spread::of(&values)
        };
        Summary {
            workload: it.workload.clone(),
            drive: it.drive.clone(),
            warm: it.warm.clone(),
            layer: it.layer.clone(),
            export: export[all[0]].clone(),
            closed_loop: loops[all[0]].clone(),
            rows: all.iter().filter(|index| failed[**index].is_empty()).count(),
            failed: all.iter().map(|index| failed[*index].clone()).find(|it| !it.is_empty()),
            waf: spread(&|at| waf[at]),
            busy_ratio: spread(&|at| busy[at]),
            iops: spread(&|at| iops[at]),
            read_p99_ns: spread(&|at| whole(read, at)),
            write_p99_ns: spread(&|at| whole(write, at)),
        }
    };
    Ok(twins.map(summary).collect())
}

fn lacks(name: &str) -> Wrong {
    Wrong::failed(format!("the cells have another version: no column {name}"))
}

fn texts(sheet: &Sheet, name: &str) -> Result<Vec<String>, Wrong> {
    match sheet.get(name) {
        Some(Values::Texts(values)) => Ok(values.clone()),
        _ => Err(lacks(name)),
    }
}

fn wholes<'a>(sheet: &'a Sheet, name: &str) -> Result<&'a [Option<u64>], Wrong> {
    match sheet.get(name) {
        Some(Values::Wholes(values)) => Ok(values),
        _ => Err(lacks(name)),
    }
}

fn reals<'a>(sheet: &'a Sheet, name: &str) -> Result<&'a [Option<f64>], Wrong> {
    match sheet.get(name) {
        Some(Values::Reals(values)) => Ok(values),
        _ => Err(lacks(name)),
    }
}
