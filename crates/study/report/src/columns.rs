//! Vertical column charts, such as histograms.

use crate::axis::{Kind, Scale, Show};
use crate::figure::Figure;
use crate::svg::{Anchor, Svg, WIDTH, width};

/// Height of the tallest column.
const HEIGHT: f64 = 190.0;
/// Space above the columns, and for the labels below them.
const HEAD: f64 = 8.0;
const FOOT: f64 = 22.0;
/// Space for half of the last label.
const RIGHT: f64 = 12.0;
/// Maximum width of a column.
const WIDEST: f64 = 44.0;
/// Part of the available width that a group of columns uses.
const FILLED: f64 = 0.84;

/// Columns, grouped by their labels.
#[derive(Clone, Debug)]
pub struct Columns {
    title: String,
    labels: Vec<String>,
    show: Show,
    series: Vec<(String, Vec<f64>)>,
}

impl Columns {
    /// Makes a chart with a group of columns for each label. `show` formats a value.
    pub fn new(title: &str, labels: &[impl AsRef<str>], show: Show) -> Self {
        let labels = labels.iter().map(|label| label.as_ref().to_owned()).collect();
        Columns { title: title.to_owned(), labels, show, series: Vec::new() }
    }

    /// Adds a value for each label. Values that are negative or not finite are shown as 0.
    #[must_use]
    pub fn series(mut self, name: &str, values: &[f64]) -> Self {
        assert_eq!(values.len(), self.labels.len(), "a value for each label");
        let sound = |value: &f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        self.series.push((name.to_owned(), values.iter().map(sound).collect()));
        self
    }

    /// Returns the chart.
    pub fn figure(&self) -> Figure {
        let mut svg = Svg::default();
        let values = self.series.iter().flat_map(|(_, values)| values);
        let most = values.fold(0.0, |most, it| it.max(most));
        let scale = Scale::linear(Kind::Linear, 0.0, most, HEIGHT);
        let ticks: Vec<String> = scale.ticks.iter().map(|tick| (self.show)(*tick)).collect();
        let left = ticks.iter().map(|tick| width(tick)).fold(0.0, f64::max) + 10.0;
        let bottom = HEAD + HEIGHT;
        for (value, text) in scale.ticks.iter().zip(&ticks) {
            let y = bottom - scale.at(*value) * HEIGHT;
            svg.line("grid", (left, y), (WIDTH - RIGHT, y));
            svg.text((left - 6.0, y + 4.0), Anchor::End, text);
        }
        let step = (WIDTH - RIGHT - left) / self.labels.len().max(1) as f64;
        let widest = self.labels.iter().map(|label| width(label)).fold(0.0, f64::max);
        let stride = (((widest + 6.0) / step).ceil() as usize).max(1);
        for (place, label) in self.labels.iter().enumerate() {
            let x = left + step * place as f64;
            self.group(&mut svg, place, (x, bottom), step, &scale);
            if place % stride == 0 {
                svg.text((x + step / 2.0, bottom + 15.0), Anchor::Middle, label);
            }
        }
        svg.line("axis", (left, bottom), (WIDTH - RIGHT, bottom));
        let names = self.series.iter().map(|(name, _)| name.clone());
        Figure {
            title: self.title.clone(),
            legend: Figure::legend(names.zip(0..)),
            has_lines: false,
            svg: svg.finish(bottom + FOOT, &self.title),
            note: String::new(),
        }
    }

    fn group(&self, svg: &mut Svg, place: usize, corner: (f64, f64), step: f64, scale: &Scale) {
        let (x, bottom) = corner;
        let columns = self.series.len().max(1) as f64;
        let column = (step * FILLED / columns).min(WIDEST);
        for (index, (name, values)) in self.series.iter().enumerate() {
            let value = values[place];
            let height = scale.at(value) * HEIGHT;
            let hint = format!("{}, {name}: {}", self.labels[place], (self.show)(value));
            let at = (x + (step - column * columns) / 2.0 + column * index as f64, bottom - height);
            svg.bar(index, at, (column, height), &hint);
        }
    }
}
