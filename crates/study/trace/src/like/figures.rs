//! Comparison of a volume's published figures with those of a synthetic workload.

use serde::Serialize;

use super::Like;
use crate::stats::{Info, PerPage, Sizes};

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Published value, scaled like the workload.
    pub published: f64,
    /// Value of the workload.
    pub made: f64,
    /// Unit of the values.
    #[serde(skip)]
    pub unit: FigureUnit,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// A number.
    Number,
    /// Bytes.
    Bytes,
    /// A share from 0 to 1.
    Share,
}

impl Figure {
    /// Returns the relative error of the workload's value.
    pub fn error(&self) -> f64 {
        (self.made / self.published - 1.0).abs()
    }
}

impl Like {
    /// Returns the published figures and those of `info`, which describes this workload.
    pub fn figures(&self, info: &Info) -> Vec<Figure> {
        let (volume, scale) = (self.volume, self.scale);
        let [p50, p90, p95, most] = volume.per_page;
        let writes = info.writes.size_bytes.as_ref();
        let pages = info.writes_per_page.as_ref();
        let write = |pick: fn(&Sizes) -> f64| writes.map_or(0.0, pick);
        let page = |pick: fn(&PerPage) -> u64| pages.map_or(0, pick) as f64;
        let read = info.reads.size_bytes.as_ref().map_or(0.0, |sizes| sizes.mean);
        let set = &info.working_set_bytes;
        let both = (info.reads.requests + info.writes.requests) as f64;
        let figure = |unit| move |name, published, made| Figure { name, published, made, unit };
        let number = figure(FigureUnit::Number);
        let bytes = figure(FigureUnit::Bytes);
        let share = figure(FigureUnit::Share);
        vec![
            number("reads and writes", volume.requests as f64 * scale, both),
            share("share of writes", volume.write_share, info.write_share),
            bytes("mean write", volume.mean_write, write(|sizes| sizes.mean)),
            bytes("median write", volume.median_write, write(|sizes| sizes.p50 as f64)),
            bytes("p90 write", volume.p90_write, write(|sizes| sizes.p90 as f64)),
            bytes("mean read", volume.mean_read, read),
            bytes("touched", volume.touched * scale, set.all as f64),
            bytes("read", volume.read * scale, set.read as f64),
            bytes("written", volume.written * scale, set.written as f64),
            number("writes per page p50", p50, page(|pages| pages.p50)),
            number("writes per page p90", p90, page(|pages| pages.p90)),
            number("writes per page p95", p95, page(|pages| pages.p95)),
            number("writes per page max", most * scale, page(|pages| pages.max)),
        ]
    }
}
