//! Default times, energy and endurance of each kind of flash cell.
//!
//! Sources
//! - slc: 25 / 200 / 1500 µs, Agrawal et al., "Design tradeoffs for SSD performance", USENIX ATC
//!   2008, after Samsung's K9XXG08UXM data sheet.
//! - mlc: 75 / 750 / 3800 µs at 333 MT/s, the defaults of MQSim (Tavakkol et al., FAST 2018).
//! - tlc: 60 / 700 µs, Kim et al., "A 512 Gb 3b/cell 64-stacked WL 3D V-NAND flash", ISSCC 2017;
//!   erase 3500 µs from Kang et al., ISSCC 2016, for 48 layers.
//! - qlc: 145 µs and 12 MB/s for two planes of 16 KiB, which is 2730 µs per program, Lee et al., "A
//!   1 Tb 4b/cell 64-stacked-WL 3D NAND flash", ISSCC 2018; erase as for tlc.
//! - endurance: Grupp et al., "The bleak future of NAND flash memory", FAST 2012, for slc and mlc;
//!   makers' figures for client drives of tlc and qlc.
//! - energy: 25 mA at 3.3 V while an array or a bus is active, the typical ICC1 to ICC4 of ONFI
//!   data sheets (Micron MT29F). This is 82.5 mW times the time of the operation.

use serde::Deserialize;

/// Power of an operation in progress, in mW.
pub(super) const POWER_MW: f64 = 82.5;

/// Number of bits per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cell {
    /// One.
    Slc,
    /// Two.
    Mlc,
    /// Three.
    Tlc,
    /// Four.
    Qlc,
}

/// Times in µs, bus rate in MT/s over eight lines, and erases that a block survives.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellDefaults {
    pub read_us: f64,
    pub program_us: f64,
    pub erase_us: f64,
    pub bus_mts: f64,
    pub cycles: u32,
}

impl Cell {
    /// Returns the defaults for keys that the drive's file does not set.
    pub(super) fn defaults(self) -> CellDefaults {
        let (read_us, program_us, erase_us, bus_mts, cycles) = match self {
            Cell::Slc => (25.0, 200.0, 1500.0, 200.0, 100_000),
            Cell::Mlc => (75.0, 750.0, 3800.0, 333.0, 3_000),
            Cell::Tlc => (60.0, 700.0, 3500.0, 800.0, 3_000),
            Cell::Qlc => (145.0, 2730.0, 3500.0, 800.0, 1_000),
        };
        CellDefaults { read_us, program_us, erase_us, bus_mts, cycles }
    }
}
