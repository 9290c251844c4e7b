//! Horizontal bars: a row for each category, for texts that are longer than a column is wide.

use crate::axis::{Kind, Scale, Show};
use crate::figure::Figure;
use crate::svg::{Anchor, Svg, WIDTH, width};

/// Height of a bar, and of the gap between rows.
const BAR: f64 = 15.0;
const GAP: f64 = 9.0;
/// Room for the labels of the axis.
const FOOT: f64 = 22.0;
/// The widest that the names of rows get; longer ones are cut.
const MOST_NAME: usize = 22;

/// Horizontal bars, beside one another or stacked.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    rows: Vec<String>,
    show: Show,
    series: Vec<(String, Vec<f64>)>,
    stacked: bool,
    kind: Kind,
    /// From where to where the value of each row may lie; none at all, or one for each row.
    whiskers: Vec<(f64, f64)>,
}

impl Bars {
    /// A chart with a row for each name; `show` says how a value is written.
    pub fn new(title: &str, rows: &[impl AsRef<str>], show: Show) -> Self {
        let rows = rows.iter().map(|name| name.as_ref().to_owned()).collect();
        Bars {
            title: title.to_owned(),
            rows,
            show,
            series: Vec::new(),
            stacked: false,
            kind: Kind::Linear,
            whiskers: Vec::new(),
        }
    }

    /// Says from where to where each value of the only series may lie; without any nothing is said.
    #[must_use]
    pub fn whiskers(mut self, whiskers: &[(f64, f64)]) -> Self {
        let is_whole = whiskers.is_empty() || whiskers.len() == self.rows.len();
        assert!(is_whole && self.series.len() == 1, "an interval for each value of one series");
        self.whiskers = whiskers.iter().map(|(from, to)| (from.max(0.0), to.max(0.0))).collect();
        self
    }

    /// Adds a value for each row; what is not finite or below 0 is shown as 0.
    #[must_use]
    pub fn series(mut self, name: &str, values: &[f64]) -> Self {
        assert_eq!(values.len(), self.rows.len(), "a value for each row");
        let sound = |value: &f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        self.series.push((name.to_owned(), values.iter().map(sound).collect()));
        self
    }

    /// The values are bytes in binary units.
    #[must_use]
    pub fn binary(mut self) -> Self {
        self.kind = Kind::Binary;
        self
    }

    /// One bar for each row, made of the series; its sum stands behind it.
    #[must_use]
    pub fn stacked(mut self) -> Self {
        self.stacked = true;
        self
    }

    /// The chart.
    pub fn figure(&self) -> Figure {
        let mut svg = Svg::default();
        let names: Vec<String> = self.rows.iter().map(|name| shortened(name)).collect();
        let left = names.iter().map(|name| width(name)).fold(0.0, f64::max) + 10.0;
        let ends: Vec<f64> = (0..self.rows.len()).flat_map(|row| self.ends(row)).collect();
        let whiskers = self.whiskers.iter().map(|(_, to)| *to);
        let most = ends.iter().copied().chain(whiskers).fold(0.0, f64::max);
        let right = ends.iter().map(|end| width(&(self.show)(*end))).fold(0.0, f64::max) + 12.0;
        let room = WIDTH - left - right;
        let scale = Scale::linear(self.kind, 0.0, most, room).ending_at(most);
        let bars = if self.stacked { 1 } else { self.series.len().max(1) };
        let step = BAR * bars as f64 + GAP;
        let bottom = step * self.rows.len() as f64 + GAP;
        for tick in &scale.ticks {
            let x = left + scale.at(*tick) * room;
            svg.line("grid", (x, 0.0), (x, bottom));
            svg.text((x, bottom + 15.0), Anchor::Middle, &(self.show)(*tick));
        }
        for (row, name) in names.iter().enumerate() {
            let top = GAP + step * row as f64;
            svg.text((left - 6.0, top + (step - GAP) / 2.0 + 4.0), Anchor::End, name);
            self.row(&mut svg, row, (left, top), |value| scale.at(value) * room);
        }
        svg.line("axis", (left, 0.0), (left, bottom));
        let legend = self.series.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        Figure {
            title: self.title.clone(),
            legend: if legend.len() > 1 { legend } else { Vec::new() },
            has_lines: false,
            svg: svg.finish(bottom + FOOT, &self.title),
            note: String::new(),
        }
    }

    /// Where the bars of a row end.
    fn ends(&self, row: usize) -> Vec<f64> {
        let values = self.series.iter().map(|(_, values)| values[row]);
        if self.stacked { vec![values.sum()] } else { values.collect() }
    }

    fn row(&self, svg: &mut Svg, row: usize, corner: (f64, f64), length: impl Fn(f64) -> f64) {
        let (left, mut top) = corner;
        let mut sum = 0.0;
        for (index, (series, values)) in self.series.iter().enumerate() {
            let (value, from) = (values[row], if self.stacked { sum } else { 0.0 });
            let hint = format!("{}, {series}: {}", self.rows[row], (self.show)(value));
            let x = left + length(from);
            let size = (left + length(from + value) - x, BAR - 1.0);
            svg.bar(index, (x, top), size, &hint);
            sum += value;
            if !self.stacked {
                let reach = self.whiskers.get(row).map_or(value, |(_, to)| value.max(*to));
                let end = (left + length(reach) + 4.0, top + BAR - 4.0);
                svg.text(end, Anchor::Start, &(self.show)(value));
                top += BAR;
            }
        }
        if let Some((from, to)) = self.whiskers.get(row) {
            let (from, to, middle) = (left + length(*from), left + length(*to), top - BAR / 2.0);
            svg.line("whisker", (from, middle), (to, middle));
            for end in [from, to] {
                svg.line("whisker", (end, middle - 4.0), (end, middle + 4.0));
            }
        }
        if self.stacked {
            let end = (left + length(sum) + 4.0, top + BAR - 4.0);
            svg.text(end, Anchor::Start, &(self.show)(sum));
        }
    }
}

/// A name that is not too long.
fn shortened(name: &str) -> String {
    match name.chars().count() > MOST_NAME {
        true => name.chars().take(MOST_NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}
