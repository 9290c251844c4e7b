//! Horizontal bar charts with one row per category, for names that are wider than a column.

use crate::axis::{Kind, Scale, Show};
use crate::figure::Figure;
use crate::svg::{Anchor, Svg, Ticks, WIDTH, width, wrapped};

/// Height of a bar, of a line of text above it, and of the gap between rows.
const BAR: f64 = 15.0;
const LINE: f64 = 15.0;
const GAP: f64 = 9.0;
/// Space for the labels of the axis.
const FOOT: f64 = 22.0;
/// Distance of a name above bars from the axis.
const INDENT: f64 = 4.0;
/// Maximum width of names beside the bars. If one is wider, all names are above the bars.
const MOST_BESIDE: f64 = 150.0;

/// Values of one name, one bar each.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    colour: usize,
    values: Vec<f64>,
}

/// Horizontal bars, grouped or stacked.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    rows: Vec<String>,
    show: Show,
    series: Vec<Series>,
    stacked: bool,
    kind: Kind,
    /// Interval of each row's value; empty, or one interval for each row.
    whiskers: Vec<(f64, f64)>,
}

/// Layout of a chart's bars.
struct Field {
    /// Left edge of all bars, and length of the longest one.
    left: f64,
    room: f64,
    /// Lines of each row's name above its bars; empty if names are beside the bars.
    above: Vec<Vec<String>>,
    scale: Scale,
}

impl Field {
    fn length(&self, value: f64) -> f64 {
        self.scale.at(value) * self.room
    }
}

impl Bars {
    /// Makes a chart with a row for each name. `show` formats a value.
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

    /// Adds an interval to each value of the only series. An empty slice adds none.
    #[must_use]
    pub fn whiskers(mut self, whiskers: &[(f64, f64)]) -> Self {
        let is_whole = whiskers.is_empty() || whiskers.len() == self.rows.len();
        assert!(is_whole && self.series.len() == 1, "an interval for each value of one series");
        self.whiskers = whiskers.iter().map(|(from, to)| (from.max(0.0), to.max(0.0))).collect();
        self
    }

    /// Adds a value for each row, in the next colour. Values that are negative or not finite are
    /// shown as 0.
    #[must_use]
    pub fn series(self, name: &str, values: &[f64]) -> Self {
        let next = self.series.len();
        self.coloured(name, next, values)
    }

    /// Adds a value for each row in the colour with this number, so that a name can have the same
    /// colour in several charts.
    #[must_use]
    pub fn coloured(mut self, name: &str, colour: usize, values: &[f64]) -> Self {
        assert_eq!(values.len(), self.rows.len(), "a value for each row");
        let sound = |value: &f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        let values = values.iter().map(sound).collect();
        self.series.push(Series { name: name.to_owned(), colour, values });
        self
    }

    /// Declares the values as bytes in binary units.
    #[must_use]
    pub fn binary(mut self) -> Self {
        self.kind = Kind::Binary;
        self
    }

    /// Stacks the series to one bar per row, with the sum after it.
    #[must_use]
    pub fn stacked(mut self) -> Self {
        self.stacked = true;
        self
    }

    /// Returns the chart.
    pub fn figure(&self) -> Figure {
        let mut svg = Svg::default();
        let field = self.field();
        let tops = self.tops(&field);
        let bottom = tops.last().copied().unwrap_or(GAP);
        let mut labels = Ticks::new(bottom + 15.0);
        for tick in &field.scale.ticks {
            let x = field.left + field.length(*tick);
            svg.line("grid", (x, 0.0), (x, bottom));
            labels.label(&mut svg, x, &(self.show)(*tick));
        }
        for (row, name) in self.rows.iter().enumerate() {
            let mut top = tops[row];
            match field.above.get(row) {
                None => {
                    let middle = top + self.bars() * BAR / 2.0 + 4.0;
                    svg.text((field.left - 6.0, middle), Anchor::End, name);
                }
                Some(lines) => {
                    for line in lines {
                        svg.text((field.left + INDENT, top + 11.0), Anchor::Start, line);
                        top += LINE;
                    }
                }
            }
            self.row(&mut svg, row, top, &field);
        }
        svg.line("axis", (field.left, 0.0), (field.left, bottom));
        let names = self.series.iter().map(|it| (it.name.clone(), it.colour));
        Figure {
            title: self.title.clone(),
            legend: Figure::legend(names),
            has_lines: false,
            svg: svg.finish(bottom + FOOT, &self.title),
            note: String::new(),
        }
    }

    /// Returns the number of bars in a row.
    fn bars(&self) -> f64 {
        if self.stacked { 1.0 } else { self.series.len().max(1) as f64 }
    }

    fn field(&self) -> Field {
        let widest = self.rows.iter().map(|name| width(name)).fold(0.0, f64::max);
        let beside = widest <= MOST_BESIDE;
        let left = if beside { widest + 10.0 } else { 1.0 };
        let ends: Vec<f64> = (0..self.rows.len()).flat_map(|row| self.ends(row)).collect();
        let whiskers = self.whiskers.iter().map(|(_, to)| *to);
        let most = ends.iter().copied().chain(whiskers).fold(0.0, f64::max);
        let right = ends.iter().map(|end| width(&(self.show)(*end))).fold(0.0, f64::max) + 12.0;
        let room = WIDTH - left - right;
        let lines = |name: &String| wrapped(name, WIDTH - left - INDENT);
        Field {
            left,
            room,
            above: if beside { Vec::new() } else { self.rows.iter().map(lines).collect() },
            scale: Scale::linear(self.kind, 0.0, most, room).ending_at(most),
        }
    }

    /// Returns the top of each row, and the bottom of the last one.
    fn tops(&self, field: &Field) -> Vec<f64> {
        let mut tops = vec![GAP];
        for row in 0..self.rows.len() {
            let above = field.above.get(row).map_or(0, Vec::len) as f64 * LINE;
            tops.push(tops[row] + above + self.bars() * BAR + GAP);
        }
        tops
    }

    /// Returns the values at which the bars of a row end.
    fn ends(&self, row: usize) -> Vec<f64> {
        let values = self.series.iter().map(|series| series.values[row]);
        if self.stacked { vec![values.sum()] } else { values.collect() }
    }

    fn row(&self, svg: &mut Svg, row: usize, mut top: f64, field: &Field) {
        let left = field.left;
        let mut sum = 0.0;
        for Series { name, colour, values } in &self.series {
            let (value, from) = (values[row], if self.stacked { sum } else { 0.0 });
            let hint = format!("{}, {name}: {}", self.rows[row], (self.show)(value));
            let x = left + field.length(from);
            let size = (left + field.length(from + value) - x, BAR - 1.0);
            svg.bar(*colour, (x, top), size, &hint);
            sum += value;
            if !self.stacked {
                let reach = self.whiskers.get(row).map_or(value, |(_, to)| value.max(*to));
                let end = (left + field.length(reach) + 4.0, top + BAR - 4.0);
                svg.text(end, Anchor::Start, &(self.show)(value));
                top += BAR;
            }
        }
        if let Some((from, to)) = self.whiskers.get(row) {
            let (from, to) = (left + field.length(*from), left + field.length(*to));
            let middle = top - BAR / 2.0;
            svg.line("whisker", (from, middle), (to, middle));
            for end in [from, to] {
                svg.line("whisker", (end, middle - 4.0), (end, middle + 4.0));
            }
        }
        if self.stacked {
            let end = (left + field.length(sum) + 4.0, top + BAR - 4.0);
            svg.text(end, Anchor::Start, &(self.show)(sum));
        }
    }
}
