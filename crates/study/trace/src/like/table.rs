//! Published statistics of real volumes; `data/README.md` has their source.

use std::sync::OnceLock;

const TABLE: &str = include_str!("../../data/cloudphysics_volume_stats.csv");

/// Statistics of one volume during a week. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Volume {
    /// Name, w01 to w106.
    pub name: &'static str,
    /// Reads and writes.
    pub requests: u64,
    /// Share of writes, from 0 to 1.
    pub write_share: f64,
    /// Mean length of a write.
    pub mean_write: f64,
    /// Mean length of a read.
    pub mean_read: f64,
    /// Median length of a write.
    pub median_write: f64,
    /// 90th percentile of the length of a write.
    pub p90_write: f64,
    /// Bytes that are read or written.
    pub touched: f64,
    /// Bytes that are read.
    pub read: f64,
    /// Bytes that are written.
    pub written: f64,
    /// Number of writes of a written 4 KiB page: p50, p90, p95, maximum.
    pub per_page: [f64; 4],
}

impl Volume {
    /// Returns all volumes, in the order of the table.
    pub fn all() -> &'static [Volume] {
        static VOLUMES: OnceLock<Vec<Volume>> = OnceLock::new();
        VOLUMES.get_or_init(|| {
            let mut lines = TABLE.lines();
            let heads: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
            lines.map(|line| volume(&heads, line)).collect()
        })
    }

    /// Returns the volume with that name.
    pub fn find(name: &str) -> Option<&'static Volume> {
        Volume::all().iter().find(|volume| volume.name == name)
    }
}

/// Parses the volume of one line. The table is part of the program, so an invalid one is a bug.
fn volume(heads: &[&str], line: &'static str) -> Volume {
    let fields: Vec<&'static str> = line.split(',').collect();
    let number = |name: &str| -> f64 {
        let at = heads.iter().position(|head| *head == name).expect("the table has the column");
        fields[at].parse().expect("the table has numbers")
    };
    Volume {
        name: fields[0],
        requests: number("reqs") as u64,
        write_share: number("wr_pct") / 100.0,
        mean_write: number("meanW_KiB") * 1024.0,
        mean_read: number("meanR_KiB") * 1024.0,
        median_write: number("medW_B"),
        p90_write: number("p90W_B"),
        touched: number("WS_GB") * 1e9,
        read: number("readWS_GB") * 1e9,
        written: number("writeWS_GB") * 1e9,
        per_page: ["wpop50", "wpop90", "wpop95", "wpop100"].map(number),
    }
}
