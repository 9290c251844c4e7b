//! Figure 7: four ACP ports compared with one ACP and four HP ports; and the cost of shared buses
//! and controllers.

use hostftl_lab_devices::olive::{OliveSpec, Port};
use hostftl_trace::Op;

use super::SIZES;
use super::bench::{Bench, Driver, Walk};
use crate::{Band, Cell, Check, Error, Findings, Known, Sheet};

/// Adds the table of the ports.
pub(super) fn add(findings: &mut Findings, seed: u64) -> Result<(), Error> {
    let mut sheet = Sheet::new("ports", "Ports, interleave 128 KiB")
        .words([""])
        .input(["size (KiB)"])
        .ours(["4 ACP (MB/s)", "1 ACP + 4 HP (MB/s)", "ours, ratio"])
        .published(["published"]);
    for (op, name, published) in [(Op::Read, "read", 2.4), (Op::Write, "write", 3.9)] {
        for kib in SIZES {
            let speed = |port: Port| {
                let mut bench = Bench::new(Driver::LightNvm, op, Walk::Sequential, kib);
                (bench.spec.port, bench.spec.interleave) = (port, 256);
                bench.run(seed)
            };
            let (acp, hp) = (speed(Port::Acp)?.mbs, speed(Port::Hp)?.mbs);
            let stated = match kib {
                4 => Some(1.0),
                128 => Some(published),
                _ => None,
            };
            sheet.row([
                name.into(),
                Cell::Number(f64::from(kib), 0),
                Cell::Number(acp, 1),
                Cell::Number(hp, 1),
                Cell::Number(acp / hp, 2),
                stated.map_or(Cell::Nothing, |ratio| Cell::Number(ratio, 1)),
            ]);
            let short = format!("acp_over_hp_{name}_{kib}k");
            let claim = format!("ACP over HP, {name}, {kib} KiB");
            let check = |it| {
                let known = Known::new(it, "section 4.3");
                let check = Check::near_published(short, claim, known, acp / hp, 10.0);
                check.because("the time of HP to flush caches is fitted")
            };
            findings.checks.extend(stated.map(check));
        }
    }
    findings.sheets.push(sheet);
    Ok(())
}

/// Adds the waiting times if chips share buses and controllers, a case that the paper excludes.
pub(super) fn add_conflicts(findings: &mut Findings, seed: u64) -> Result<(), Error> {
    let ours = [
        "MB/s",
        "pieces that wait (%)",
        "for a bus (µs per piece)",
        "for a controller (µs per piece)",
        "for the chip (µs per piece)",
    ];
    let title = "Conflicts: random reads of 128 KiB, interleave 32 KiB";
    let mut sheet =
        Sheet::new("conflicts", title).input(["chips", "buses", "controllers"]).ours(ours);
    let mut speeds = Vec::new();
    for (chips, buses, controllers) in [(4, 4, 4), (8, 4, 4), (8, 8, 2), (8, 4, 2), (8, 2, 1)] {
        let mut bench = Bench::new(Driver::Block, Op::Read, Walk::Random, 128);
        bench.spec =
            OliveSpec { chips, buses, controllers, interleave: 64, ..OliveSpec::default() };
        let found = bench.run(seed)?;
        let pieces = found.conflicts.pieces as f64;
        let each = |ns: u64| Cell::Number(ns as f64 / 1000.0 / pieces, 1);
        sheet.row([
            Cell::Number(chips as f64, 0),
            Cell::Number(buses as f64, 0),
            Cell::Number(controllers as f64, 0),
            Cell::Number(found.mbs, 1),
            Cell::Number(found.conflicts.hit as f64 * 100.0 / pieces, 1),
            each(found.conflicts.bus),
            each(found.conflicts.controller),
            each(found.conflicts.chip),
        ]);
        speeds.push(found.mbs);
    }
    findings.sheets.push(sheet);
    let claim = "8 chips on 2 buses behind 1 controller, over 4 chips without conflicts";
    let ours = speeds[4] / speeds[0];
    findings.checks.push(Check::new("conflicts", claim, ours, Band::AtMost(1.0)));
    Ok(())
}
